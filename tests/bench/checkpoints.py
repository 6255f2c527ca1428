"""How long checkpoints take: cleared, archived and verified, beside ``tar | zstd`` itself.

    python tests/bench/checkpoints.py [FOLDER] [GIGABYTES]

Everything happens in a throw-away folder below FOLDER (default: the temporary one), and for
the mount point on a tmpfs, which only root can mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dflashctl.agent import archive, aside
from dflashctl.agent.keeping import ArchiveCheckpoints, RestoreCheckpoints, StoreSpec
from dflashctl.agent.restore import restore

MANY = 100_000


def quiet(*_: object) -> None:
    """Tells nobody."""


def timed(what: str, wanted: str, work: object) -> float:
    """Do it, and say how long it took."""
    began = time.perf_counter()
    assert callable(work)
    work()
    took = time.perf_counter() - began
    print(f"{what:58} {took:8.2f} s   {wanted}")
    return took


def many_files(store: Path) -> None:
    """One checkpoint of 100,000 small files, and one that is a sparse file of 2 GB."""
    place = store / "step-100"
    place.mkdir(parents=True)
    for number in range(MANY):
        (place / f"{number:06}").write_bytes(b"%d" % number * 100)
    sparse(store)


def many_entries(store: Path) -> None:
    """100,000 entries in the folder itself, and the sparse file."""
    store.mkdir(parents=True, exist_ok=True)
    for number in range(MANY):
        (store / f"step-{number}").touch()
    sparse(store)


def sparse(store: Path) -> None:
    """2 GB, of which nearly nothing is on the disk."""
    with (store / "step-200000.pt").open("wb") as file:
        file.write(b"head")
        file.truncate(2_000_000_000)


def clear(store: Path) -> None:
    """As the action does it."""
    aside.clear(str(store), str(store), "t-1")


def archiving(spec: StoreSpec) -> ArchiveCheckpoints:
    """All of it, copied: the originals stay."""
    return ArchiveCheckpoints(
        store=spec, real_path=spec.path, name="one", names=None, then_remove=False
    )


def room(folder: Path) -> StoreSpec:
    """An empty store in a new folder."""
    fresh = Path(tempfile.mkdtemp(prefix="bench-", dir=folder)).resolve()
    return StoreSpec(path=str(fresh / "work" / "checkpoints"), archive_to=str(fresh / "archive"))


def small_files(folder: Path) -> None:
    """Clearing and archiving very many."""
    spec = room(folder)
    store = Path(spec.path)
    many_files(store)
    timed(
        "archive 100,000 files and 2 GB sparse, verified",
        "60 s at most",
        lambda: archive.archive(archiving(spec), [], quiet, quiet),
    )
    to = str(store.parent / "back")
    back = RestoreCheckpoints(store=spec, real_path=to, name="one", to=to)
    timed("restore them, verified", "", lambda: restore(back, "t-2", quiet))
    shutil.rmtree(store)
    many_entries(store)
    timed("clear 100,000 entries and 2 GB sparse", "0.2 s at most", lambda: clear(store))
    shutil.rmtree(store.parents[1])


def mount_point(folder: Path) -> None:
    """The same on a mount point."""
    place = folder / "mounted" / "checkpoints"
    place.mkdir(parents=True)
    mounted = subprocess.run(("mount", "-t", "tmpfs", "tmpfs", place), check=False)
    if mounted.returncode != 0:
        print("no mount point without the right to mount")
        return
    try:
        many_entries(place)
        timed("clear them on a mount point", "5 s at most", lambda: clear(place))
    finally:
        subprocess.run(("umount", place), check=True)


def large_files(folder: Path, gigabytes: float) -> None:
    """Archiving beside ``tar | zstd``, both down to the disk."""
    for content, make in (("random bytes", os.urandom), ("bytes like weights", weights)):
        spec = room(folder)
        place = Path(spec.path) / "step-100"
        place.mkdir(parents=True)
        for number in range(4):
            with (place / f"shard-{number}").open("wb") as file:
                for _ in range(int(gigabytes * 1e9 / 4) >> 24):
                    file.write(make(1 << 24))
        words = 'tar -C "$1" -cf - step-100 | zstd -q > "$2" && sync "$2"'
        plain = Path(spec.path).parent / "plain.tar.zst"
        base = timed(
            f"tar | zstd of {gigabytes:g} GB, {content}",
            "",
            lambda: subprocess.run(("sh", "-c", words, "-", spec.path, plain), check=True),  # noqa: B023 - done at once
        )
        ours = timed(
            f"archive of {gigabytes:g} GB, {content}, verified",
            "60 % of its speed at least",
            lambda: archive.archive(archiving(spec), [], quiet, quiet),  # noqa: B023 - done at once
        )
        print(f"{'':58} {100 * base / ours:8.0f} %")
        shutil.rmtree(Path(spec.path).parents[1])


def weights(count: int) -> bytes:
    """Numbers as bfloat16: random digits, and exponents that are much alike."""
    noise = bytearray(os.urandom(count))
    noise[1::2] = noise[1::2].translate(bytes(0x3C + (value & 3) for value in range(256)))
    return bytes(noise)


def main() -> None:
    """All of it."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    gigabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=folder) as place:
        small_files(Path(place))
        mount_point(Path(place))
        large_files(Path(place), gigabytes)


if __name__ == "__main__":
    main()
