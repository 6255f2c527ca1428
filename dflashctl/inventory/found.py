"""A host as it was asked, beside what the inventory says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dflashctl.document.read import mapping
from dflashctl.inventory.discover import with_names
from dflashctl.inventory.model import SshAddress

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.inventory.discover import ContainerSeen, HostSeen
    from dflashctl.inventory.model import Local

# The host's part of an inventory file: what it says of each of its containers, by name.
Listed = dict[str | int, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One host.

    Attributes:
        name: what the inventory calls it, or will.
        said: how it was named in the command.
        listed: whether the inventory has it.
        seen: as it answered, each container with the name that the inventory has or will have.
        declared: by vmid, the GPUs that the inventory declares for the containers it has.
        body: the host's part of an inventory, with all its containers.
    """

    name: str
    said: str
    listed: bool
    seen: HostSeen
    declared: dict[int, int | None]
    body: dict[str, Any]

    @property
    def new(self) -> tuple[ContainerSeen, ...]:
        """The containers that the inventory does not have."""
        return tuple(one for one in self.seen.containers if one.vmid not in self.declared)

    @property
    def additions(self) -> dict[str, dict[str, int]]:
        """The new containers as an inventory says them."""
        return {one.name: _container(one) for one in self.new}

    @property
    def best(self) -> str:
        """The target to begin with: the running container with the most GPUs."""
        ranked = sorted(
            self.seen.containers,
            key=lambda one: (one.state == "running", one.gpus, -one.vmid),
            reverse=True,
        )
        return f"{self.name}/{ranked[0].name}" if ranked else self.name


def beside(
    seen: HostSeen, said: str, name: str, route: SshAddress | Local, listed: Listed | None
) -> Found:
    """Set a host's answer beside the inventory.

    Args:
        seen: the answer.
        said: how the host was named.
        name: what the inventory calls it, or will.
        route: the way that it was reached.
        listed: what the inventory says of it; None: it has no such host.
    """
    containers = {str(inner): mapping(body) for inner, body in mapping_of(listed).items()}
    names = {body["vmid"]: inner for inner, body in containers.items() if "vmid" in body}
    fresh = with_names((one for one in seen.containers if one.vmid not in names), set(containers))
    by_vmid = {one.vmid: one for one in fresh}
    by_vmid |= {
        one.vmid: replace(one, name=names[one.vmid]) for one in seen.containers if one.vmid in names
    }
    seen = replace(seen, containers=tuple(by_vmid[one.vmid] for one in seen.containers))
    return Found(
        name=name,
        said=said,
        listed=listed is not None,
        seen=seen,
        declared={vmid: containers[inner].get("gpus") for vmid, inner in names.items()},
        body=_body(seen, route),
    )


def mapping_of(listed: Listed | None) -> dict[str | int, Any]:
    """What the inventory says of a host's containers."""
    return mapping(mapping(listed).get("containers"))


def _body(seen: HostSeen, route: SshAddress | Local) -> dict[str, Any]:
    if isinstance(route, SshAddress):
        said = {
            "address": route.address,
            "port": route.port,
            "user": route.user,
            "identity_file": _home(route.identity_file),
            "known_hosts_file": _home(route.known_hosts_file),
            "proxy_jump": _jump(route.jump),
        }
    else:
        said = {"connection": "local"}
    body: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if seen.gpus:
        body["gpus"] = seen.gpus
    if seen.containers:
        body["containers"] = {one.name: _container(one) for one in seen.containers}
    return body


def _container(one: ContainerSeen) -> dict[str, int]:
    return {"vmid": one.vmid, **({"gpus": one.gpus} if one.gpus else {})}


def _jump(jump: SshAddress | str | None) -> str | None:
    """A host in between, as ``user@host:port``; what lies before that one is ssh's to know."""
    if not isinstance(jump, SshAddress):
        return jump
    user = f"{jump.user}@" if jump.user else ""
    return f"{user}{jump.address}:{jump.port or 22}"


def _home(path: Path | None) -> str | None:
    """A path as a person writes it, with ~ for the home folder."""
    if path is None:
        return None
    home = path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
