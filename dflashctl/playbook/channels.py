"""Who is told of a run: the playbook's ``watch.notify``, and the addresses behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.agent.watching import Channel, Restart, Watch
from dflashctl.document.read import mapping
from dflashctl.errors import BadFile, Fault
from dflashctl.playbook.model import ChannelSpec, WatchSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dflashctl.agent.watching import Kind
    from dflashctl.document.read import Document
    from dflashctl.playbook import schema

_ADDRESSED: tuple[Kind, ...] = ("webhook", "slack", "ntfy")
_WAYS = (*_ADDRESSED, *(f"{kind}_from" for kind in _ADDRESSED), "email", "command")


def faults(document: Document) -> Iterator[Fault]:
    """Each entry names one way, neither none nor several."""
    entries = mapping(document.values.get("watch")).get("notify")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        named = [way for way in _WAYS if way in mapping(entry)]
        if isinstance(entry, dict) and len(named) != 1:
            message = f"must have one of {', '.join(_WAYS)}"
            yield document.fault(("watch", "notify", index), message)


def watch_of(said: schema.Watch) -> WatchSpec:
    """The schema's values as the model has them."""
    again = Restart(limit=said.restart_limit, after_s=max(1.0, said.restart_after))
    return WatchSpec(
        every_s=max(1.0, said.every),
        channels=tuple(_channel(entry) for entry in said.notify),
        textfile=said.textfile,
        restart=again if said.restart == "on-failure" else None,
    )


def _channel(said: schema.Notify) -> ChannelSpec:
    if said.email is not None:
        return ChannelSpec(kind="email", to=(said.email,))
    if said.command is not None:
        return ChannelSpec(kind="command", to=tuple(said.command))
    for kind in _ADDRESSED:
        address, variable = getattr(said, kind), getattr(said, f"{kind}_from")
        if address is not None:
            return ChannelSpec(kind=kind, to=(address,))
        if variable is not None:
            return ChannelSpec(kind=kind, to=(), to_from=variable)
    raise AssertionError("an entry without a way passed the check")


def read_watch(spec: WatchSpec | None, environ: Mapping[str, str]) -> Watch | None:
    """How a run is watched, with the addresses that the operator's environment has.

    Raises:
        BadFile: with every variable that is not set.
    """
    if spec is None:
        return None
    missing = [one.to_from for one in spec.channels if one.to_from and one.to_from not in environ]
    if missing:
        message = "is not set here, and `watch.notify` of the playbook asks for it"
        place = Path("environment")
        wrong = [Fault(path=place, line=0, where=name, message=message) for name in missing]
        raise BadFile(kind="environment", faults=tuple(wrong))
    channels = tuple(
        Channel(kind=one.kind, to=(environ[one.to_from],) if one.to_from else one.to)
        for one in spec.channels
    )
    return Watch(
        every_s=spec.every_s,
        channels=channels,
        textfile=spec.textfile,
        restart=spec.restart,
    )
