"""A Linux container on a Proxmox host: its programs are started by the host's ``pct exec``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dflashctl.errors import (
    ContainerStopped,
    DflashError,
    MissingTool,
    NoSuchContainer,
    NotRoot,
    SudoRefused,
)
from dflashctl.link.local import NOT_FOUND
from dflashctl.link.transport import (
    Channel,
    NoFileChannel,
    NoScp,
    Progress,
    Transport,
    Words,
)

if TYPE_CHECKING:
    from pathlib import Path

_ASK_S = 30.0
_PUSH_S = 600.0
_MOST_OUTPUT = 65536
_STAGED = "files"


class HostTransport(Transport, Protocol):
    """The way to the host that the container is on."""

    def send_by_scp(
        self, scp: Words, source: Path, folder: str, name: str, progress: Progress
    ) -> None:
        """Like ``send_file``, with ``scp`` as the words that start scp over there."""


def in_container(vmid: int, inner: Words) -> Words:
    """The words that, on the host, run ``inner`` in the container."""
    # Without the -- pct would take options of the inner command for its own.
    return ("pct", "exec", str(vmid), "--", *inner)


class ContainerTransport:
    """Reaches a container through its host, over the host's own transport."""

    def __init__(self, host: HostTransport, host_name: str, vmid: int, target: str) -> None:
        self._host = host
        self._host_name = host_name
        self._vmid = vmid
        self._target = target

    def start(self, words: Words) -> Channel:
        """Start a program in the container."""
        return self._host.start(in_container(self._vmid, words))

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        """By scp straight into the container; where it has no scp, by way of its host."""
        scp = in_container(self._vmid, ("scp",))
        try:
            self._host.send_by_scp(scp, source, folder, name, progress)
        except NoScp:
            self._by_way_of_the_host(source, f"{folder}/{name}", progress)

    def terminal_words(self, words: Words) -> Words:
        """The host's terminal, with ``pct exec`` in it."""
        return self._host.terminal_words(in_container(self._vmid, words))

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        """Ask ``pct status`` once: it tells a stopped container from a wrong id."""
        code, status = _run(self._host, ("pct", "status", str(self._vmid)), _ASK_S)
        if code == NOT_FOUND:
            return MissingTool(target=self._target, tool="pct", detail=f"on {self._host_name}")
        # pct works for root only, and fails for others as it does for a wrong id.
        if code not in (0, None) and (uid := self._uid()) != 0:
            return NotRoot(target=self._target, user=f"uid {uid}", address=self._host_name)
        target, vmid, host = self._target, self._vmid, self._host_name
        if code is None:
            return None
        if code != 0:
            return NoSuchContainer(target=target, vmid=vmid, host=host)
        if status.strip() != "status: running":
            return ContainerStopped(target=target, vmid=vmid, host=host)
        if exit_code == NOT_FOUND:
            return MissingTool(target=self._target, tool="python3", detail=stderr.strip())
        return None

    def _uid(self) -> int:
        """Who runs programs on the host."""
        try:
            _, said = _run(self._host, ("id", "-u"), _ASK_S)
        except SudoRefused:  # it may let us run pct, and nothing else; as root, then
            return 0
        return int(said) if said.strip().isdigit() else 0

    def close(self) -> None:
        """The host's connection is the host's to close."""

    def _by_way_of_the_host(self, source: Path, dest: str, progress: Progress) -> None:
        """Copy to a private folder of the host, then ``pct push``.

        pct reports success even when its copy failed: the agent's check of the hashes is
        what counts.
        """
        code, output = _run(self._host, ("mktemp", "-d", "/var/tmp/dflashctl.XXXXXXXXXX"), _ASK_S)  # noqa: S108 - mktemp makes it private  # nosec B108
        folder = output.strip()
        if code != 0 or not folder.startswith("/"):
            raise NoFileChannel("no temporary folder on the host")
        try:
            self._host.send_file(source, folder, _STAGED, progress)
            push = ("pct", "push", str(self._vmid), f"{folder}/{_STAGED}", dest, "--perms", "0600")
            code, _ = _run(self._host, push, _PUSH_S)
            if code != 0:
                raise NoFileChannel(f"pct push ended with exit code {code}")
        finally:
            _run(self._host, ("rm", "-rf", "--", folder), _ASK_S)


def _run(host: Transport, words: Words, timeout_s: float) -> tuple[int | None, str]:
    """The exit code and the output of a short program on the host."""
    channel = host.start(words)
    try:
        channel.close_input()
        output = b""
        while piece := channel.read(timeout_s):
            output = (output + piece)[:_MOST_OUTPUT]
        return channel.exit_code(timeout_s), output.decode("utf-8", errors="replace")
    except (TimeoutError, ConnectionError):
        return None, ""
    finally:
        channel.close()
