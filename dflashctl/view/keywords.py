"""Host keys that are unknown, changed or other than asked for, in plain words."""

from __future__ import annotations

from shlex import join

from dflashctl import errors as e
from dflashctl.view.wording import UNTOUCHED, Words


def host_key_words(error: e.HostKeyProblem) -> Words:
    """What the host showed, what was known, and how to find out which is right."""
    match error:
        case e.HostKeyUnknown():
            return _key_unknown(error)
        case e.HostKeyChanged():
            return _key_changed(error)
        case e.OtherFingerprint():
            return _other_fingerprint(error)
        case _:
            return Words(
                message="the host's key could not be checked.", next="Run it again with --debug."
            )


def _key_unknown(error: e.HostKeyUnknown) -> Words:
    files = ", ".join(error.known_hosts) or "known_hosts"
    return Words(
        message=f"the key of {_place(error)} is not known here.",
        details=(f"it shows {error.key_type} {error.fingerprint}", f"looked in: {files}"),
        next=f"{UNTOUCHED} Compare that fingerprint with the machine's own (on its console: "
        f"{own_fingerprint(error.key_type)}). If they agree: "
        f"{join(('dflashctl', 'inventory', 'trust', error.target, *error.options))}",
    )


def _key_changed(error: e.HostKeyChanged) -> Words:
    place = error.host if error.port == 22 else f"[{error.host}]:{error.port}"
    return Words(
        message=f"{_place(error)} shows another key than the one known here.",
        details=(
            f"it shows  {error.key_type} {error.fingerprint}",
            f"known is  {error.expected}  ({error.known_hosts}:{error.line})",
        ),
        next=f"{UNTOUCHED} Either the machine was set up anew, or something stands in between "
        "and reads along. Find out which: ask whoever runs it, and read the fingerprint on its "
        f"own console ({own_fingerprint(error.key_type)}). Only if the new one is right, "
        f"forget the old one: {join(('ssh-keygen', '-f', error.known_hosts, '-R', place))} "
        f"and then: dflashctl inventory trust {error.target}",
    )


def _other_fingerprint(error: e.OtherFingerprint) -> Words:
    return Words(
        message=f"{_place(error)} shows another key than the one you named.",
        details=(
            f"it shows  {error.key_type} {error.fingerprint}",
            *(f"named is  {wanted}" for wanted in error.wanted),
        ),
        next="Nothing was recorded. Read the fingerprint on the machine's own console: "
        f"{own_fingerprint(error.key_type)}",
    )


def own_fingerprint(key_type: str) -> str:
    """The command that, on the machine itself, shows the fingerprint to compare with."""
    kind = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(key_type, "ecdsa")
    return f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub"


def _place(error: e.HostKeyUnknown | e.HostKeyChanged | e.OtherFingerprint) -> str:
    return error.host if error.port == 22 else f"{error.host} port {error.port}"
