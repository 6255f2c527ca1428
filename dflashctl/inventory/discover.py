"""What a Proxmox host says of its containers, as values; and names for them.

The text is that of ``pct list`` and ``pct config``, framed by `link.proxmox`. See `read`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

# Begins each line that frames the others; pct prints none like it.
FRAME = "dflashctl>"
# `pct list` prints "%-10s %-10s %-12s %-20s". The lock may be blank: columns, not words.
_LIST_LINE = re.compile(r"(?P<vmid>\d{3,9}) +(?P<state>[a-z]+) (?P<rest>.*)")
_LOCK_ENDS = 10 + 1 + 10 + 1 + 12
_DEVICE_KEY = re.compile(r"dev\d+")
_RAW_LINE = re.compile(r"(?P<key>lxc\.[\w.]+)\s*[:=]\s*(?P<value>.*)")
_KEY_LINE = re.compile(r"(?P<key>[a-z]\w*):\s*(?P<value>.*)")
_GPU = re.compile(r"/?dev/(nvidia\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen:
    """One container of a host. ``state``: ``running``, ``stopped``, ... as pct says."""

    vmid: int
    name: str
    state: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """A host as it was asked.

    Attributes:
        hostname: its own short name.
        uid: who we are there; ``home``: our home folder.
        pct: whether it has the program, that is, whether it is a Proxmox host.
        gpus: how many ``/dev/nvidia<N>`` it has.
        containers: in the order of their ids; templates are left out.
        failed: what ``pct list`` said when it failed; None: it did not.
    """

    hostname: str
    uid: int
    home: str
    pct: bool
    gpus: int
    containers: tuple[ContainerSeen, ...] = ()
    failed: str | None = None


def read(text: str) -> HostSeen:
    """Read the answer of a host.

    Each part begins with a line of `FRAME` and words: ``host NAME UID HOME``, ``device NAME``,
    ``list`` (then what ``pct list`` prints), ``config VMID`` (then what ``pct config``
    prints), ``failed CODE`` (then why), ``end``. Whatever comes before the first is noise
    of a login.

    Raises:
        ValueError: it is not such an answer, or not all of it.
    """
    hostname, uid, home, pct, failed = "", -1, "", False, None
    gpus: set[str] = set()
    listed: list[ContainerSeen] = []
    configs: dict[int, list[str]] = {}
    for words, lines in _parts(text):
        match words:
            case ["host", name, number, *folder]:
                hostname, uid, home = name, int(number), " ".join(folder)
            case ["device", name]:
                gpus |= {name} if re.fullmatch(r"nvidia\d+", name) else set()
            case ["list"]:
                pct, listed = True, list(_listed(lines))
            case ["config", vmid]:
                configs[int(vmid)] = lines
            case ["failed", _]:
                pct, failed = True, " ".join(line.strip() for line in lines if line.strip())
            case ["end"] if hostname:
                return HostSeen(
                    hostname=hostname,
                    uid=uid,
                    home=home,
                    pct=pct,
                    gpus=len(gpus),
                    containers=tuple(_with_gpus(listed, configs)),
                    failed=failed,
                )
            case _:
                raise ValueError(f"an unknown part: {' '.join(words)}")
    raise ValueError("the answer has no end")


def gpu_count(config: Iterable[str]) -> int:
    """How many GPUs a container's configuration gives it.

    That is the number of distinct ``/dev/nvidia<N>``, over ``devN:`` lines and
    ``lxc.mount.entry`` lines. What is pending, and snapshots, come after a line in
    brackets and do not count.
    """
    found: set[str] = set()
    for line in _current(config):
        if (raw := _RAW_LINE.fullmatch(line)) and raw["key"] == "lxc.mount.entry":
            device = _GPU.fullmatch((raw["value"].split() or [""])[0])
        elif (plain := _KEY_LINE.fullmatch(line)) and _DEVICE_KEY.fullmatch(plain["key"]):
            device = _GPU.fullmatch(plain["value"].split(",")[0].removeprefix("path=").strip())
        else:
            continue
        if device is not None:
            found.add(device[1])
    return len(found)


def fitting_name(wanted: str, otherwise: str, taken: Collection[str]) -> str:
    """A name that an inventory allows and does not have yet, near the wanted one."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", wanted).lstrip("._-") or otherwise
    if name not in taken:
        return name
    return next(
        candidate
        for candidate in (f"{name}-{otherwise}", *(f"{name}-{n}" for n in range(2, 10_000)))
        if candidate not in taken
    )


def with_names(
    containers: Iterable[ContainerSeen], taken: Collection[str] = ()
) -> tuple[ContainerSeen, ...]:
    """The containers, each with a name of its own that an inventory allows."""
    named: list[ContainerSeen] = []
    for one in containers:
        others = {*taken, *(other.name for other in named)}
        named.append(replace(one, name=fitting_name(one.name, f"ct{one.vmid}", others)))
    return tuple(named)


def _parts(text: str) -> Iterator[tuple[list[str], list[str]]]:
    words: list[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(FRAME):
            if words is not None:
                yield words, lines
            words, lines = line.removeprefix(FRAME).split(), []
        else:
            lines.append(line)
    if words is not None:
        yield words, lines


def _listed(lines: Iterable[str]) -> Iterator[ContainerSeen]:
    for line in lines:
        found = _LIST_LINE.fullmatch(line)
        if found is None:
            continue  # the heading
        # A state longer than its column would push the others to the right.
        pushed = max(0, len(found["state"]) - 10) + max(0, found.end("vmid") - 10)
        name = line[_LOCK_ENDS + pushed :].strip()
        yield ContainerSeen(vmid=int(found["vmid"]), name=name, state=found["state"], gpus=0)


def _with_gpus(
    listed: Iterable[ContainerSeen], configs: dict[int, list[str]]
) -> Iterator[ContainerSeen]:
    for one in listed:
        config = configs.get(one.vmid, [])
        if "template: 1" not in (line.strip() for line in _current(config)):
            yield replace(one, gpus=gpu_count(config))


def _current(config: Iterable[str]) -> Iterator[str]:
    for line in config:
        if line.lstrip().startswith("["):
            return
        yield line.strip()
