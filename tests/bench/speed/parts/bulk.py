"""Much at once: a large file, many small files, a long log."""

from __future__ import annotations

import os
import random
import re
import shutil
import statistics
from typing import TYPE_CHECKING

from tests.bench.speed.table import times
from tests.bench.speed.timing import Samples, in_turns, ratio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book
    from tests.bench.speed.timing import Sample

GIB = 1 << 30
SMALL_FILES, SMALL_BYTES = 500, 4096
LOG_BYTES, LOG_REAL_BYTES = 10_000_000_000, 500_000_000
_DEPLOY = ("deploy", "--restart", "--no-wait")
_SENT = re.compile(r"sent \d+ bytes .* in ([\d.]+) s")
_STATE = "/root/.local/state/dflashctl"
# A log of so many bytes, the last of them as a trainer prints them; before those there is a
# hole, which reads as any other byte.
_GROW_LOG = """\
import sys
path, size, real = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lines = b"".join(
    b"step %d | epoch 0 | loss 2.%04d | acc 0.3120 | 25.1 Ktok/s | lr 3.0e-04\\n" % (n, n % 10000)
    for n in range(100_000)
)
with open(path, "r+b") as log:
    log.truncate(size - real)
    log.seek(0, 2)
    while log.tell() < size:
        log.write(lines)
"""


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows of a 500-file folder, a 1 GiB file, and the end of a 10 GB log."""
    _small_files(lab, book, runs)
    _large_file(lab, book, max(2, runs - 2), ours_only=ours_only)
    lab.write_playbook()
    _long_log(lab, book, runs)


def _small_files(lab: Lab, book: Book, runs: int) -> None:
    """All of them new each time, against one file of the same bytes."""
    many, one = lab.folder / "many", lab.folder / "one"

    def deploy_many(delay_s: float) -> Sample:
        shutil.rmtree(many, ignore_errors=True)
        many.mkdir()
        for number in range(SMALL_FILES):
            (many / f"part-{number:03}").write_bytes(random.randbytes(SMALL_BYTES))
        return _deploy_of(lab, many, delay_s)

    def deploy_one(delay_s: float) -> Sample:
        one.write_bytes(random.randbytes(SMALL_FILES * SMALL_BYTES))
        return _deploy_of(lab, one, delay_s)

    deploy_many(0.0)
    ways = {"500 files": deploy_many, "one file": deploy_one}
    found = in_turns(ways, (0.0, 0.1), runs)
    book.keep("small files", found)
    print(times(found), flush=True)
    for delay_s, most in ((0.1, 1.3), (0.0, None)):
        book.add(
            f"500 small files, {1000 * delay_s:.0f} ms: against one file of the same bytes",
            ratio(found["500 files"], found["one file"], delay_s),
            "x",
            most=most,
            beside=f"{found['500 files'].seconds(delay_s):.2f} s, "
            f"{found['one file'].seconds(delay_s):.2f} s",
        )


def _large_file(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Past the proxy, which is no line of a gigabyte a second."""
    large = lab.folder / "large"
    with large.open("wb") as file:
        for _ in range(GIB >> 20):  # in small pieces: our memory would count as the program's
            file.write(random.randbytes(1 << 20))
    sshd = lab.host.sshd

    def deploy(_: float) -> Sample:
        with large.open("r+b") as file:
            file.write(random.randbytes(4096))
        lab.write_inventory(port=sshd.port)
        try:
            return _deploy_of(lab, large, 0.0, dest="/root/large")
        finally:
            lab.write_inventory()
            _forget(lab)

    def copy(_: float) -> Sample:
        port = ("-o", f"Port={sshd.port}")
        words = ("scp", "-q", "-F", lab.ssh_config, *port, str(large), f"kpro6:{lab.folder}/copied")
        sample = lab.measure(words, 0.0)
        (lab.folder / "copied").unlink()
        return sample

    ways: dict[str, Callable[[float], Sample]] = {"1 GiB, deploy": deploy}
    if not ours_only:
        ways["1 GiB, scp"] = copy
    found = in_turns(ways, (0.0,), runs)
    large.unlink()
    book.keep("large file", found)
    print(times(found), flush=True)
    ours = found["1 GiB, deploy"]
    if "1 GiB, scp" in found:
        _throughput(book, ours, found["1 GiB, scp"])
    peak = ours.most(lambda one: one.peak_kib) / 1000
    book.add("1 GiB deploy: peak memory here", peak, "MB", most=120)


def _throughput(book: Book, ours: Samples, scp: Samples) -> None:
    """Of the copying, as our log tells it; a deploy reads the file three times more."""
    pushed = [_SENT.search(one.errors) for one in ours.by_delay[0.0]]
    push = statistics.median(float(found[1]) for found in pushed if found)
    whole, copy = ours.seconds(0.0), scp.seconds(0.0)
    speeds = f"{GIB / push / 1e6:.0f} and {GIB / copy / 1e6:.0f} MB/s"
    book.add("1 GiB push: throughput against scp", copy / push, "x", least=0.8, beside=speeds)
    book.add("1 GiB: the whole deploy against scp", whole / copy, "x", beside=f"{whole:.1f} s")


def _long_log(lab: Lab, book: Book, runs: int) -> None:
    lab.ours(0.0, *_DEPLOY)
    latest = lab.container.run(("sh", "-c", f"ls -d {_STATE}/jobs/dflash/runs/* | tail -n 1"))
    log = f"{latest.stdout.strip()}/log"
    samples: dict[str, Samples] = {}
    for name, size, real in (
        ("2 MB log", 2_000_000, 2_000_000),
        ("10 GB log", LOG_BYTES, LOG_REAL_BYTES),
    ):
        grown = lab.container.run(
            ("python3", "-c", _GROW_LOG, log, str(size), str(real)), timeout_s=300
        )
        grown.check_returncode()
        ways = {name: lambda delay_s: lab.ours(delay_s, "logs", "-n", "1000")}
        samples |= in_turns(ways, (0.0,), runs)
    lab.container.run(("truncate", "-s", "0", log)).check_returncode()
    book.keep("long log", samples)
    print(times(samples), flush=True)
    long, short = samples["10 GB log"], samples["2 MB log"]
    book.add(
        "logs -n 1000 of 10 GB: against 2 MB",
        ratio(long, short, 0.0),
        "x",
        beside=f"{long.seconds(0.0):.2f} s, {short.seconds(0.0):.2f} s",
    )


def _deploy_of(lab: Lab, source: Path, delay_s: float, *, dest: str = "/root/payload") -> Sample:
    script = {"source": "train.sh", "dest": "/root/train.sh", "mode": "0755"}
    lab.write_playbook(
        files=[script, {"source": os.fspath(source), "dest": f"{dest}/{source.name}"}]
    )
    return lab.ours(delay_s, "--debug", *_DEPLOY)


def _forget(lab: Lab) -> None:
    """What keeps a gigabyte each time goes again."""
    script = f"rm -rf /root/large {_STATE}/blobs/*"
    lab.container.run(("sh", "-c", script), timeout_s=120).check_returncode()
