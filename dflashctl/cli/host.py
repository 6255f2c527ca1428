"""The host that a command names: one of the inventory, or an address as ssh takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Inventory, Local, SshAddress, Target

HostArgument = Annotated[
    str, typer.Argument(metavar="HOST", help="A name of the inventory, or [user@]host[:port].")
]
IdentityOption = Annotated[
    str | None,
    typer.Option("--identity-file", metavar="PATH", help="The private key to log in with."),
]
KnownHostsOption = Annotated[
    str | None,
    typer.Option("--known-hosts-file", metavar="PATH", help="Where host keys are known."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host, and what was said about the way to it.

    ``listed``: its name in the inventory, if it has one there. ``options``: the words that
    say the same again to another verb.
    """

    said: str
    route: SshAddress | Local
    listed: str | None
    options: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The host itself as a target, for the way to it."""
        from dflashctl.inventory.model import Target

        return Target(name=self.listed or self.said, route=self.route)

    @property
    def trust_options(self) -> tuple[str, ...]:
        """Those of the options that ``inventory trust`` takes, too."""
        return self.options[-2:] if "--known-hosts-file" in self.options else ()

    @property
    def short_name(self) -> str:
        """What the operator calls it, such as an alias of ~/.ssh/config; "" for an address."""
        from dflashctl.inventory.model import SshAddress

        name = self.route.address if isinstance(self.route, SshAddress) else ""
        return name if re.fullmatch(r"[A-Za-z][\w-]*", name) and name != "localhost" else ""

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        from dflashctl.inventory.model import SshAddress

        return self.route.address if isinstance(self.route, SshAddress) else "this machine"


def inventory_here(call: Call) -> Inventory | None:
    """The inventory; None where there is none. Raises BadFile."""
    from dflashctl.errors import NoFile

    try:
        return call.inventory
    except NoFile:
        return None


def host_named(
    call: Call, said: str, identity_file: str | None = None, known_hosts_file: str | None = None
) -> Host:
    """What the command names. Of a container its host is meant.

    Raises:
        BadAddress: it is neither a name of the inventory nor an address.
        AmbiguousTarget: several containers have the name.
    """
    from dflashctl.errors import AmbiguousTarget
    from dflashctl.inventory.model import InContainer
    from dflashctl.inventory.select import fitting

    inventory = inventory_here(call)
    targets = {target.name: target for target in inventory.targets} if inventory else {}
    names = fitting(said, targets)
    if len(names) > 1:
        raise AmbiguousTarget(name=said, candidates=names)
    if names:
        route = targets[names[0]].route
        if isinstance(route, InContainer):
            return Host(said=said, route=route.host, listed=route.host_name)
        return Host(said=said, route=route, listed=names[0])
    options = (
        *(("--identity-file", identity_file) if identity_file else ()),
        *(("--known-hosts-file", known_hosts_file) if known_hosts_file else ()),
    )
    route = _address(said, _path(call, identity_file), _path(call, known_hosts_file))
    return Host(said=said, route=route, listed=None, options=options)


def _address(said: str, identity: Path | None, known_hosts: Path | None) -> SshAddress:
    from dataclasses import replace

    from dflashctl.errors import BadAddress
    from dflashctl.link.sshconfig import parse_jumps

    try:
        address = parse_jumps(said)
    except ValueError as error:
        raise BadAddress(text=said) from error
    words = (address.address, address.user or "")
    if address.jump is not None or any(word != "".join(word.split()) for word in words):
        raise BadAddress(text=said)
    if (
        address.address.startswith("-")
        or set("/@") & set(address.address)
        or not 0 < (address.port or 22) < 65536
    ):
        raise BadAddress(text=said)
    return replace(address, identity_file=identity, known_hosts_file=known_hosts)


def _path(call: Call, said: str | None) -> Path | None:
    return None if said is None else call.cwd / Path(said).expanduser()
