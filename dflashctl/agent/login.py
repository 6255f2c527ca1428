"""What a user who logs in here gets: the environment, and a terminal that is known here."""

from __future__ import annotations

import os
import pwd
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path

LOGIN_S = 20.0
_OF_THE_SHELL = ("_", "SHLVL", "PWD", "OLDPWD", "TERM")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TERMINALS = ("xterm-256color", "screen-256color", "xterm", "screen", "vt100")
_TERMINFO = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo")


def minimal_environment(account: pwd.struct_passwd) -> dict[str, str]:
    """Nearly nothing: who one is, where programs are, and UTF-8."""
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        "LANG": "C.UTF-8",
        "PATH": os.environ.get("PATH", _PATH),
    }


def login_environment(account: pwd.struct_passwd) -> dict[str, str]:
    """The variables that a login shell of the user ends up with.

    They come over a descriptor of their own, since profiles print what they like. A
    profile that fails or hangs is no reason not to train: what is missing then shows in
    the check of the declared environment.
    """
    base = minimal_environment(account)
    answer, report = os.pipe()
    same = account.pw_uid == os.getuid()
    try:
        child = subprocess.Popen(
            (base["SHELL"], "-l", "-c", f"env -0 >&{report}"),
            env=base,
            cwd=home(account),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(report,),
            start_new_session=True,
            user=None if same else account.pw_uid,
            group=None if same else account.pw_gid,
            extra_groups=None if same else os.getgrouplist(account.pw_name, account.pw_gid),
        )
    except OSError:
        os.close(answer)
        return base
    finally:
        os.close(report)
    with os.fdopen(answer, "rb") as stream:
        data = _read_within(stream.fileno(), LOGIN_S)
    if child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    if child.poll() is None:
        child.kill()
        child.wait()
    pairs = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0") if entry)
    found = {name: value for name, _, value in pairs if name}
    return base | {name: value for name, value in found.items() if name not in _OF_THE_SHELL}


def home(account: pwd.struct_passwd) -> str:
    """The user's home, or ``/`` where there is none."""
    return account.pw_dir if os.path.isdir(account.pw_dir) else "/"


def known_terminal(wanted: str) -> str:
    """The first terminal type that this machine's terminfo knows."""
    folders = (str(Path.home() / ".terminfo"), *_TERMINFO)
    for name in (wanted, *_TERMINALS):
        if "/" in name or not name:
            continue
        for folder in folders:
            for letter in (name[0], f"{ord(name[0]):x}"):
                if os.path.exists(f"{folder}/{letter}/{name}"):
                    return name
    return "vt100"


def _read_within(handle: int, seconds: float) -> bytes:
    """All that comes until the end of the stream, or until the time is over."""
    data, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([handle], [], [], left)[0]:
            break
        piece = os.read(handle, 1 << 16)
        if not piece:
            break
        data += piece
    return data
