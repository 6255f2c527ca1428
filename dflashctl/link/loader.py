"""Runs on the target as ``python3 -c``: finds the agent's files there, or asks for them.

Python 3.6 can read it, so that one too old can say so. It holds no quote or backslash that
another login shell than sh would take amiss. Arguments: the bundle's hash, the state folder,
and the first request as ``wire.in_a_word`` gives it, or an empty word.
"""
# The comments stay here: ``bundle`` strips them. It must be small, import little and suit
# Python 3.6, hence:
# ruff: noqa: D103, PTH103, PTH104, PTH108, PTH114, PTH116, PTH118, PTH120, PTH123
# ruff: noqa: SIM105, UP031, UP036

import hashlib
import json
import os
import sys


def say(what: str) -> None:
    os.write(1, ("%s %d %s" % ("dflashctl-agent", 1, what) + chr(10)).encode())


def digest(files: "dict[str, str]") -> str:
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def private(folder: str, others: int = 0o22) -> bool:
    # A real folder of ours of which nobody else has these rights.
    seen = os.lstat(folder)
    return seen.st_mode & (0o170000 | others) == 0o40000 and seen.st_uid == os.getuid()


def settled(folder: str) -> bool:
    # Nobody else can put another folder in the place of this one, or of one above it.
    while folder != "/":
        folder = os.path.dirname(folder)
        seen = os.stat(folder)
        # In a sticky folder only the owner of an entry may move it.
        others = 0o1002 if seen.st_gid in (0, os.getgid()) else 0o1022
        if seen.st_uid not in (0, os.getuid()) or 0 < seen.st_mode & others < 0o1000:
            return False
    return True


def intact(folder: str, wanted: str) -> bool:
    # All is ours, nobody else gets in, and it is what was sent: it stays so while it runs.
    files = {}
    try:
        if not private(folder, 0o77):
            return False
        for base, folders, names in os.walk(folder):
            if not all(private(os.path.join(base, name), 0) for name in folders):
                return False
            # What Python keeps there comes and goes.
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = os.path.join(base, name)
                with open(os.open(path, os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    seen = os.fstat(file.fileno())
                    if seen.st_uid != os.getuid() or seen.st_nlink != 1:
                        return False
                    files[os.path.relpath(path, folder)] = file.read().decode()
    except (OSError, ValueError):
        return False
    return digest(files) == wanted


def read(size: int) -> bytes:
    # Never a byte more: what follows is for the agent.
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            sys.exit(1)
        data += piece
    return data


def install(folder: str, wanted: str) -> None:
    import shutil
    import zlib

    size = read(1)
    while size[-1] != 10:
        size += read(1)
    files = json.loads(zlib.decompress(read(int(size))).decode())
    if digest(files) != wanted:
        raise OSError(5, "what arrived is not what was sent")
    fresh = folder + "-" + os.urandom(8).hex()
    mask = os.umask(0o77)
    try:
        for path, text in files.items():
            place = os.path.join(fresh, path)
            os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
            with open(place, "x", encoding="utf-8", newline="") as new:
                new.write(text)
        if os.path.lexists(folder) and not intact(folder, wanted):
            os.rename(folder, fresh + "-bad")
        if not os.path.lexists(folder):
            os.rename(fresh, folder)
    except OSError:
        # Another loader may have been quicker.
        if not intact(folder, wanted):
            raise
    finally:
        os.umask(mask)
        for left in fresh, fresh + "-bad":
            if os.path.islink(left):
                os.unlink(left)
            shutil.rmtree(left, ignore_errors=True)


def main(wanted: str, state: str, first: str) -> None:
    import pwd

    try:
        os.setsid()
    except OSError:
        pass
    us = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=us.pw_dir, USER=us.pw_name, LOGNAME=us.pw_name, SHELL=us.pw_shell)
    cache = us.pw_dir
    try:
        for name in ".cache", "dflashctl":
            cache = os.path.join(cache, name)
            if not os.path.lexists(cache):
                os.makedirs(cache, 0o700, exist_ok=True)
        if not private(cache):
            raise OSError(1, "it is not a folder of this user alone")
        if not settled(os.path.realpath(cache)):
            raise OSError(1, "a folder above it is open to others")
        folder = os.path.join(cache, wanted)
        if not intact(folder, wanted):
            say("send")
            install(folder, wanted)
        # What was not used for long is tidied away.
        os.utime(folder)
    except OSError as error:
        say("refused " + json.dumps([cache, error.strerror]))
        sys.exit(1)
    say("ready")
    sys.path.insert(0, folder)
    from dflashctl.agent.serve import serve

    serve(state, first)


if __name__ == "__main__":
    if sys.version_info < (3, 10):
        say("old %d.%d.%d" % sys.version_info[:3])
        sys.exit(1)
    main(*sys.argv[1:4])
