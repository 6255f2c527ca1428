"""What OpenSSH itself would do to reach an address: ``ssh -G`` says it, where ssh is.

Where it is not, Paramiko's parser reads the same files, and knows less (no Include in some
places, no Match exec on a jump, no canonical names).
"""

from __future__ import annotations

import getpass
import os
import pwd
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from dflashctl.errors import BadFile, Fault
from dflashctl.inventory.model import SshAddress

_DEFAULT_CONNECT_S = 10.0
_CONFIG_DEADLINE_S = 20.0
_MOST_JUMPS = 8
_USER_CONFIG = Path("~/.ssh/config")
_SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
DEFAULT_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
# ssh's own -J syntax: [user@]host[:port], where the host may be [an IPv6 address].
_JUMP = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")
Settings = dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One ssh connection, with nothing left to look up.

    Attributes:
        address: what the inventory calls the host, for messages.
        host, port, user: where to connect and as whom.
        named_identity: the inventory's own key file; it is tried first.
        identity_files: ssh's list of key files; one that is missing is passed over.
        identities_only: keys of ssh-agent that are not among the files stay unused.
        agent_socket: ssh-agent's socket; None: no agent.
        known_hosts: the files that vouch for host keys, in order.
        host_key_alias: the name to look for in them instead of host and port.
        connect_s: seconds that making the connection may take.
        via: the hop to go through; or the text of a ProxyCommand; or None.
        record_in: the file that a new host key is recorded in; None: the user has none.
        hash_names: whether the names in it are to be unreadable (HashKnownHosts).
        accept_new: a key that is not known is recorded, and taken.
    """

    address: str
    host: str
    port: int
    user: str
    named_identity: Path | None
    identity_files: tuple[Path, ...]
    identities_only: bool
    agent_socket: str | None
    known_hosts: tuple[Path, ...]
    host_key_alias: str | None
    connect_s: float
    via: Hop | str | None
    record_in: Path | None
    hash_names: bool
    accept_new: bool

    @property
    def place(self) -> str:
        """``host:port``, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The words by which ssh goes there, as one would type them."""
        jumps: list[str] = []
        via = self.via
        while isinstance(via, Hop):
            jumps.insert(0, f"{via.user}@{via.place}")
            via = via.via
        return (
            "ssh",
            *(("-i", str(self.named_identity)) if self.named_identity else ()),
            *(("-J", ",".join(jumps)) if jumps else ()),
            *(("-p", str(self.port)) if self.port != 22 else ()),
            f"{self.user}@{self.address}",
        )


def resolve(address: SshAddress) -> Hop:
    """Everything about the way to ``address``; what the inventory says wins.

    Raises:
        BadFile: ssh's configuration has mistakes, or its jumps never end.
    """
    return _resolve(address, _MOST_JUMPS)


def parse_jumps(text: str) -> SshAddress:
    """``[user@]host[:port]``, or several separated by commas, the nearest to us first.

    Raises:
        ValueError: it is not that.
    """
    before: SshAddress | None = None
    for part in text.split(","):
        found = _JUMP.fullmatch(part.strip().removeprefix("ssh://"))
        if found is None:
            raise ValueError(f"not [user@]host[:port]: {part.strip()!r}")
        before = SshAddress(
            address=found["v6"] or found["host"],
            port=int(found["port"]) if found["port"] else None,
            user=found["user"],
            jump=before,
        )
    if before is None:
        raise ValueError("no jump host is named")
    return before


def quoted(path: str) -> str:
    """A path as a value of ssh's configuration language, where spaces and % are special."""
    escaped = path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _resolve(address: SshAddress, jumps_left: int) -> Hop:
    if jumps_left == 0:
        raise _mistake(address.address, f"more than {_MOST_JUMPS} jump hosts, or a circle")
    settings = _ask_ssh(address)

    def first(name: str) -> str | None:
        values = settings.get(name)
        return values[0] if values and values[0].lower() != "none" else None

    host = first("hostname") or address.address
    port = address.port or int(first("port") or 22)
    user = address.user or first("user") or getpass.getuser()
    hop = Hop(
        address=address.address,
        host=host,
        port=port,
        user=user,
        named_identity=address.identity_file,
        identity_files=(),
        identities_only=first("identitiesonly") == "yes",
        agent_socket=None,
        known_hosts=(),
        host_key_alias=None,
        connect_s=_seconds(first("connecttimeout")),
        via=None,
        record_in=None,
        hash_names=first("hashknownhosts") == "yes",
        accept_new=address.host_key == "accept-new",
    )
    alias = first("hostkeyalias")
    user_files = _paths(settings.get("userknownhostsfile"), hop)
    if address.known_hosts_file is not None:
        user_files = (address.known_hosts_file,)
    return replace(
        hop,
        identity_files=_paths(settings.get("identityfile"), hop),
        agent_socket=_agent_socket(settings.get("identityagent"), hop),
        known_hosts=(*user_files, *_paths(settings.get("globalknownhostsfile"), hop)),
        host_key_alias=_expand(alias, hop) if alias else None,
        via=_way(address, settings, hop, jumps_left),
        record_in=user_files[0] if user_files else None,
    )


def _way(address: SshAddress, settings: Settings, hop: Hop, jumps_left: int) -> Hop | str | None:
    """The hop in between, or a ProxyCommand ready for a shell, or None."""
    jump = address.jump
    if jump == "none":
        return None
    if jump is None:
        command = settings.get("proxycommand", ["none"])[0]
        jump = settings.get("proxyjump", ["none"])[0]
        if jump.lower() == "none":
            return None if command.lower() == "none" else _expand(command, hop)
    if isinstance(jump, str):
        try:
            jump = _alike(parse_jumps(jump), address)
        except ValueError as error:
            raise _mistake(address.address, str(error)) from error
    return _resolve(jump, jumps_left - 1)


def _alike(jump: SshAddress, end: SshAddress) -> SshAddress:
    """Hosts in between of which nothing else is said are trusted as the end is."""
    before = _alike(jump.jump, end) if isinstance(jump.jump, SshAddress) else jump.jump
    return replace(jump, jump=before, host_key=end.host_key)


def _ask_ssh(address: SshAddress) -> Settings:
    """The settings that hold for the address, by lower-case name."""
    ssh = shutil.which("ssh")
    if ssh is None:
        return _ask_paramiko(address)
    words = [ssh, "-G", "-T"]
    if address.port is not None:
        words += ["-p", str(address.port)]
    if address.user is not None:
        words += ["-l", address.user]
    if address.identity_file is not None:
        words += ["-o", f"IdentityFile={quoted(str(address.identity_file))}"]
    if address.jump is not None:
        # The inventory's jump takes the place of what ssh's configuration says.
        words += ["-o", "ProxyJump=none"]
    try:
        said = subprocess.run(
            [*words, "--", address.address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CONFIG_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _mistake(address.address, "ssh -G gave no answer in time") from error
    if said.returncode != 0:
        lines = said.stderr.decode(errors="replace").strip().splitlines()
        raise _mistake(address.address, "; ".join(lines) or f"ssh -G failed: {said.returncode}")
    settings: Settings = {}
    for line in said.stdout.decode(errors="surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        settings.setdefault(name.lower(), []).append(value)
    return settings


def _ask_paramiko(address: SshAddress) -> Settings:
    from paramiko.config import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    config = SSHConfig()
    for path in (_USER_CONFIG.expanduser(), _SYSTEM_CONFIG):
        if path.is_file():
            try:
                config.parse(path.read_text(encoding="utf-8", errors="replace").splitlines(True))
            except ConfigParseError as error:
                raise _mistake(address.address, str(error)) from error
    looked_up: dict[str, str | list[str]] = {**config.lookup(address.address)}
    settings: Settings = {
        name: [value] if isinstance(value, str) else value for name, value in looked_up.items()
    }
    named = [str(address.identity_file)] if address.identity_file else []
    files = [*named, *settings.get("identityfile", [])]
    settings["identityfile"] = files or [f"~/.ssh/{name}" for name in DEFAULT_IDENTITIES]
    settings.setdefault("userknownhostsfile", ["~/.ssh/known_hosts ~/.ssh/known_hosts2"])
    settings.setdefault(
        "globalknownhostsfile", ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"]
    )
    return settings


def _paths(values: list[str] | None, hop: Hop) -> tuple[Path, ...]:
    """Paths of a setting. ssh prints several on one line, and does not quote spaces."""
    parts = [part for value in values or [] for part in re.split(r" (?=[/~%])", value)]
    return tuple(
        Path(_expand(part, hop)).expanduser() for part in parts if part.lower() not in ("", "none")
    )


def _agent_socket(values: list[str] | None, hop: Hop) -> str | None:
    value = values[0] if values else "SSH_AUTH_SOCK"
    if value.lower() == "none":
        return None
    if value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$"):
        return os.environ.get(value[1:].strip("{}")) or None
    return str(Path(_expand(value, hop)).expanduser())


def _expand(text: str, hop: Hop) -> str:
    """ssh_config's % tokens, those that make sense for a path or a command here."""
    local = socket.gethostname()
    tokens = {
        "%%": "%",
        "%h": hop.host,
        "%n": hop.address,
        "%p": str(hop.port),
        "%r": hop.user,
        "%k": hop.host_key_alias or hop.host,
        "%u": getpass.getuser(),
        "%i": str(os.getuid()),
        "%d": pwd.getpwuid(os.getuid()).pw_dir,
        "%l": local,
        "%L": local.split(".", 1)[0],
    }
    return re.sub(r"%.", lambda found: tokens.get(found[0], found[0]), text)


def _seconds(text: str | None) -> float:
    if text is None or not text.isdigit() or text == "0":
        return _DEFAULT_CONNECT_S
    return float(text)


def _mistake(where: str, message: str) -> BadFile:
    fault = Fault(path=_USER_CONFIG.expanduser(), line=0, where=where, message=message)
    return BadFile(kind="ssh configuration", faults=(fault,))
