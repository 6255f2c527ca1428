"""What stands between us and a target, in plain words."""

from __future__ import annotations

from shlex import join

from dflashctl import errors as e
from dflashctl.view.keywords import host_key_words
from dflashctl.view.wording import UNTOUCHED, Words


def way_words(error: e.Unreachable | e.HostKeyProblem | e.NotLetIn | e.TargetLacks) -> Words:
    """What stands between us and the target."""
    match error:
        case e.LinkLost(transaction=None):
            return Words(
                message=f"the connection to {error.target} ({error.address}) broke off: "
                f"{error.reason}.",
                next="Nothing was changed there, and what ran goes on. Try again.",
            )
        case e.LinkLost():
            return Words(
                message=f"the connection to {error.target} ({error.address}) broke off in the "
                f"middle of transaction {error.transaction}: {error.reason}.",
                next="The transaction goes on over there, to its end, without us (unless the "
                "target itself went down). "
                f"Ask what came of it with: dflashctl status -t {error.target}",
            )
        case e.Unreachable():
            at = "" if error.address in (error.target, f"{error.target}:22") else error.address
            return Words(
                message=f"{error.target} cannot be reached{f' at {at}' if at else ''}: "
                f"{error.reason}.",
                next="Nothing was changed there. Is the machine up, and is the address "
                f"right? Try: {_by_hand(error.ssh or ('ssh', f'ssh://{error.address}'))}",
            )
        case e.HostKeyProblem():
            return host_key_words(error)
        case e.NotRoot():
            return Words(
                message=f"on {error.address} we are {error.user}, and pct works for root only.",
                details=(f"it says: {error.reason}",) if error.reason else (),
                next=f"{UNTOUCHED} Be root there: `user: root` or `become: sudo` at the host in "
                "the inventory, or root@HOST. How to keep that narrow: docs/security.md in "
                "dflashctl's repository.",
            )
        case e.SudoRefused():
            return Words(
                message=f"sudo on {error.address} does not make {error.user} root.",
                details=(error.reason,) if error.reason else (),
                next=f"{UNTOUCHED} Run it in a terminal, where the password is asked for, or let "
                f"{error.user} do it without: docs/security.md in dflashctl's repository has the "
                "line for sudoers. What sudo allows there: sudo -l",
            )
        case e.NotLetIn():
            tried = f" Tried: {', '.join(error.tried)}." if error.tried else ""
            reason = f" ({error.reason})" if error.reason else ""
            return Words(
                message=f"{error.address} does not let {error.user} in{reason}.{tried}",
                next="Check user and identity_file of the host in the inventory, or "
                "--identity-file. This should work first: "
                f"{_by_hand(error.ssh or ('ssh', f'ssh://{error.user}@{error.address}'))}",
            )
        case e.TargetLacks():
            return _lacks(error)


def _by_hand(ssh: tuple[str, ...]) -> str:
    return join((*ssh, "true"))


def _lacks(error: e.TargetLacks) -> Words:
    match error:
        case e.ContainerStopped():
            return Words(
                message=f"container {error.vmid} on {error.host} ({error.target}) does not run.",
                next=f"{UNTOUCHED} Start it on {error.host}: pct start {error.vmid}",
            )
        case e.NoSuchContainer():
            return Words(
                message=f"{error.host} has no container {error.vmid} ({error.target}).",
                next=f"Check vmid in the inventory. On {error.host}, pct list shows what it has; "
                "a container of another cluster node is known on that node only.",
            )
        case e.PctFailed():
            return Words(
                message=f"pct list fails on {error.target}: {error.reason or 'it says nothing'}.",
                next="Try it there. Its containers are kept by the cluster file system: "
                "systemctl status pve-cluster",
            )
        case e.MissingTool():
            detail = f" ({error.detail})" if error.detail else ""
            return Words(
                message=f"{error.target} has no usable {error.tool}{detail}.",
                next=f"{UNTOUCHED} {_REMEDIES.get(error.tool, f'Install {error.tool} there.')}",
            )
        case e.MissingModule():
            where = f" on {error.target}" if error.target else ""
            return Words(
                message=f"{error.python}{where} lacks {error.module}, which {error.needed} needs.",
                next=f"{UNTOUCHED} Install it{where}: "
                f"{join((error.python, '-m', 'pip', 'install', error.module))}, or name "
                "another interpreter as dataset.python in the playbook.",
            )
        case _:
            return Words(message="the target lacks something.", next="Run it again with --debug.")


_REMEDIES = {
    "python3": "Install Python 3.10 or newer there (Debian: apt install python3), or name one "
    "as `python` of the target in the inventory.",
    "tmux": "Install it there (Debian: apt install tmux), or, if it is installed out of the "
    "way, add its folder to `path` of the target in the inventory.",
    "pct": "Is that host a Proxmox VE machine, and do we arrive as root?",
}
