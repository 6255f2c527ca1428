"""status and deploy, beside what a person types instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.speed.table import times
from tests.bench.speed.timing import Samples, in_turns, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book
    from tests.bench.speed.timing import Sample

DELAYS = (0.0, 0.1, 0.2)
PCT_START_S = 0.7
# To the host; then over one connection into the container, end what runs, clear, and start.
ONE_LINER = """\
scp -q -F "$1" bare.sh kpro6:/tmp/bare.sh &&
ssh -F "$1" kpro6 'pct push 200 /tmp/bare.sh /root/bare.sh &&
  pct exec 200 -- sh -c "tmux kill-session -t bare; rm -rf /root/bare-checkpoints/*" &&
  pct exec 200 -- tmux new-session -d -s bare "sh /root/bare.sh"'
"""
TMUX_LS = 'ssh -F "$1" kpro6 pct exec 200 -- tmux ls'
_DEPLOY = ("deploy", "--restart", "--clear-checkpoints", "--no-wait")


def changed(lab: Lab) -> Callable[[float], Sample]:
    """Our deploy of a script that is new each time."""

    def once(delay_s: float) -> Sample:
        lab.write_script("train.sh", "/root/checkpoints")
        return lab.ours(delay_s, *_DEPLOY)

    return once


def unchanged(lab: Lab) -> Callable[[float], Sample]:
    """Our restart with what is there already."""
    return lambda delay_s: lab.ours(delay_s, *_DEPLOY)


def status(lab: Lab) -> Callable[[float], Sample]:
    """Our look at a running job."""
    return lambda delay_s: lab.ours(delay_s, "status")


def first_contact(lab: Lab) -> Callable[[float], Sample]:
    """Our look where no agent has been before."""

    def once(delay_s: float) -> Sample:
        lab.container.run(("rm", "-rf", "/root/.cache/dflashctl")).check_returncode()
        return lab.ours(delay_s, "status")

    return once


def one_liner(lab: Lab) -> Callable[[float], Sample]:
    """The bare deploy of a script that is new each time, with the same work."""

    def once(delay_s: float) -> Sample:
        lab.write_script("bare.sh", "/root/bare-checkpoints")
        return lab.measure(("bash", "-c", ONE_LINER, "bash", lab.ssh_config), delay_s)

    return once


def tmux_ls(lab: Lab) -> Callable[[float], Sample]:
    """The bare look."""
    return lambda delay_s: lab.measure(("bash", "-c", TMUX_LS, "bash", lab.ssh_config), delay_s)


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows of what one command to one target costs."""
    ours = {
        "deploy, changed": changed(lab),
        "deploy, unchanged": unchanged(lab),
        "status": status(lab),
        "status, first contact": first_contact(lab),
    }
    bare = {} if ours_only else {"one-liner": one_liner(lab), "tmux ls": tmux_ls(lab)}
    for once in bare.values():
        once(0.0)  # the first has nothing to stop
    found = in_turns({**ours, **bare}, DELAYS, runs)
    book.keep("reach", found)
    print(times(found), flush=True)
    for name, most in (("deploy, changed", 14), ("deploy, unchanged", 10), ("status", 9)):
        _trips(book, name, found[name], most)
    for name, most in (("status", 1), ("deploy, unchanged", 2), ("deploy, changed", 2)):
        calls = found[name].most(lambda one: one.pct)
        book.add(f"{name}: pct invocations", calls, "", most=most)
    if bare:
        for name, other, limits in (
            ("deploy, changed", "one-liner", {0.1: 0.8, 0.0: 1.6}),
            ("status", "tmux ls", {0.1: 1.3, 0.0: 2.0}),
        ):
            for delay_s, times_as_long in limits.items():
                pair = ((name, found[name]), (other, found[other]))
                _against(book, *pair, delay_s, times_as_long)
    for name in ours:
        sent = found[name].least(lambda one: one.sent)
        book.add(f"{name}: sent", sent / 1000, "kB")
    cached, first = found["status"], found["status, first contact"]
    more = first.seconds(0.1) - cached.seconds(0.1)
    book.add("first contact, 100 ms: longer than cached by", more, "s")
    _slow_pct(lab, book, {**ours, **bare}, max(3, runs - 2))


def _slow_pct(lab: Lab, book: Book, ways: dict[str, Callable[[float], Sample]], runs: int) -> None:
    """The same, where pct takes the time that Perl needs on a real host."""
    with lab.host.pct.restored():
        lab.host.pct.behave(start_up_s=PCT_START_S)
        found = in_turns(ways, (0.1,), runs)
    book.keep("reach with a slow pct", found)
    print(f"pct takes {PCT_START_S} s to start:\n{times(found)}", flush=True)
    for name, other in (("deploy, changed", "one-liner"), ("status", "tmux ls")):
        if other in found:
            _against(book, (f"{name}, slow pct", found[name]), (other, found[other]), 0.1, None)


def _trips(book: Book, name: str, samples: Samples, most: float) -> None:
    chain = samples.least(lambda one: one.round_trips)
    beside = f"slope of the time {samples.slope():.1f}"
    book.add(f"{name}: round trips", chain, "", most=most, beside=beside)


def _against(
    book: Book,
    ours: tuple[str, Samples],
    other: tuple[str, Samples],
    delay_s: float,
    most: float | None,
) -> None:
    one, two = ours[1].seconds(delay_s), other[1].seconds(delay_s)
    book.add(
        f"{ours[0]}, {1000 * delay_s:.0f} ms: against {other[0]}",
        ratio(ours[1], other[1], delay_s),
        "x",
        most=most,
        beside=f"{one:.2f} s, {two:.2f} s",
    )
