"""inventory trust: record a host's key, after a look at its fingerprint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.host import HostArgument, KnownHostsOption, host_named
from dflashctl.cli.options import JsonOption

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.errors import HostKeyUnknown
    from dflashctl.link.ssh import SshHost
    from dflashctl.view.hostkeys import KeyShown

    Fate = Literal["known", "recorded", "declined"]


def trust(
    ctx: typer.Context,
    host: HostArgument,
    known_hosts_file: KnownHostsOption = None,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(
            "--fingerprint",
            metavar="SHA256:...",
            help="Record the key if it has this fingerprint; asks nothing.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Record whatever it shows, unasked.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Show an unknown host's key, ask, and record it.

    It goes into known_hosts. Hosts on the way (ProxyJump) come first. A key that has
    changed is never recorded.
    """
    from dflashctl.inventory.model import Local
    from dflashctl.view import json
    from dflashctl.view.hostkeys import key_object, say_no_key

    call = begin(ctx, "inventory trust", as_json)
    named = host_named(call, host, None, known_hosts_file)
    shown: list[KeyShown] = []
    if isinstance(named.route, Local):
        say_no_key(call.screen, named.said)
    else:
        wanted = _Wanted(said=named.said, fingerprints=tuple(fingerprint or ()), yes=yes)
        with call.reach() as reach:
            for one in reach.on_the_way(named.route):
                key = _settle(call, one, wanted)
                shown.append(key)
                if key.fate == "declined":
                    break
    code = 76 if shown and shown[-1].fate == "declined" else 0
    if as_json:
        keys = {named.said: {"keys": [key_object(key) for key in shown], "error": None}}
        call.screen.write(json.envelope("inventory trust", code, keys))
    return code


class _Wanted:
    """What the command line says about which key to take."""

    def __init__(self, *, said: str, fingerprints: tuple[str, ...], yes: bool) -> None:
        self.said, self.fingerprints, self.yes = said, fingerprints, yes


def _settle(call: Call, host: SshHost, wanted: _Wanted) -> KeyShown:
    """Look at one host's key, and record it if it is unknown and wanted.

    Raises:
        HostKeyChanged: another key is known.
        OtherFingerprint, NeedsYes: it is not the one named; nothing says that it is.
    """
    from dflashctl.errors import HostKeyUnknown as Unknown
    from dflashctl.link.hostkeys import read_known_hosts
    from dflashctl.view.hostkeys import KeyShown, say_known

    with call.screen.waiting(f"asking {host.hop.place} for its key"):
        key_type, blob = host.shown_key(wanted.said)
    known = read_known_hosts(host.hop.known_hosts)
    try:
        known.check(wanted.said, host.name, key_type, blob)
    except Unknown as unknown:
        return _record(call, host, wanted, (unknown, blob))
    line = known.vouching(host.name, blob)
    shown = KeyShown.of(host.hop.place, key_type, blob, line.path if line else None, "known")
    say_known(call.screen, shown, line.line if line else 0)
    return shown


def _record(
    call: Call, host: SshHost, wanted: _Wanted, found: tuple[HostKeyUnknown, bytes]
) -> KeyShown:
    from dflashctl.errors import CannotWrite, NeedsYes, OtherFingerprint
    from dflashctl.link import hostkeys
    from dflashctl.view.hostkeys import KeyShown, say_declined, say_recorded, say_unknown

    unknown, blob = found
    path = host.hop.record_in
    if path is None:
        raise unknown
    shown = KeyShown.of(host.hop.place, unknown.key_type, blob, path, "recorded")
    if wanted.fingerprints:
        if unknown.fingerprint not in wanted.fingerprints:
            raise OtherFingerprint(
                target=wanted.said,
                host=unknown.host,
                port=unknown.port,
                key_type=unknown.key_type,
                fingerprint=unknown.fingerprint,
                wanted=wanted.fingerprints,
            )
    elif wanted.yes:
        say_unknown(call.screen, shown)
    else:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise NeedsYes(
                what="record a host key",
                details=(
                    f"{shown.place} shows:",
                    f"  {shown.key_type} {shown.fingerprint}",
                    "safer: --fingerprint SHA256:... as the machine's own console shows it",
                ),
            )
        say_unknown(call.screen, shown)
        if not call.screen.ask("Is that the machine's own fingerprint? (yes/no) "):
            say_declined(call.screen)
            return KeyShown.of(host.hop.place, unknown.key_type, blob, None, "declined")
    try:
        hostkeys.record(path, host.name, unknown.key_type, blob, hashed=host.hop.hash_names)
    except OSError as error:
        raise CannotWrite(path=path, reason=error.strerror or str(error)) from error
    say_recorded(call.screen, shown)
    return shown
