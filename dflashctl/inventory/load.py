"""From an inventory file to frozen values, with every mistake of it reported at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.document.judge import judge
from dflashctl.document.paths import local_path, places
from dflashctl.document.read import Document, read_document, read_text
from dflashctl.errors import BadFile, Fault, NoFile
from dflashctl.inventory import ansible, beside, groups, program
from dflashctl.inventory.model import InContainer, Inventory, Local, SshAddress, Target
from dflashctl.inventory.references import reference_faults
from dflashctl.inventory.select import fitting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.inventory.groups import Groups
    from dflashctl.inventory.schema import Container, Host, InventoryFile

KIND = "inventory"


def find_inventory(option: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """The inventory file: the option's, ``DFLASHCTL_INVENTORY``'s, or in a usual folder.

    A folder stands for its ``hosts.yml``, or for the only YAML file in it.

    Raises:
        NoFile: there is none; an option or a variable that leads nowhere is not passed over.
        BadFile: a folder cannot be read, or holds several YAML files and no ``hosts.yml``.
    """
    looked_in = places(KIND, "inventory", option, environ, cwd)
    for place in looked_in:
        found = _in_folder(place) if place.is_dir() else place
        if found is not None and found.exists():
            return found
    raise NoFile(kind=KIND, looked_in=tuple(str(place) for place in looked_in))


def _in_folder(folder: Path) -> Path | None:
    usual = folder / "hosts.yml"
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix in (".yml", ".yaml"))
    except OSError as error:
        raise _bad_folder(folder, f"cannot be read: {error.strerror}") from error
    if usual.name not in names and len(names) > 1:
        message = f"holds several YAML files ({', '.join(names)}) and no hosts.yml: name one"
        raise _bad_folder(folder, message)
    if usual.name in names:
        return usual
    return folder / names[0] if names else None


def _bad_folder(folder: Path, message: str) -> BadFile:
    return BadFile(kind=KIND, faults=(Fault(path=folder, line=0, where="", message=message),))


def load_inventory(path: Path) -> Inventory:
    """Read an inventory: our own, Ansible's in YAML or JSON, or what a program prints.

    Raises:
        BadFile: with every mistake in it.
        InventoryProgram: the program does not tell one.
    """
    path = path.absolute()
    document = _read(path)
    from dflashctl.inventory import schema

    checked, errors = schema.check(document.values)
    complaints = judge(document, errors, schema.InventoryFile)
    document.raise_for((*complaints, *reference_faults(document)))
    assert checked is not None, "the schema refused a file without a complaint"
    built = replace(_build(path, checked), said=document.values)
    return _foreign(built, document) if isinstance(document, ansible.Converted) else built


def _read(path: Path) -> Document:
    """The file's values, in the words of our own format."""
    if program.is_program(path):
        return _converted(path, program.ask(path))
    _refuse_other_kinds(path)
    document = read_document(path, KIND)
    if "_meta" in document.values:
        # JSON is YAML; a program's answer that was kept in a file.
        document.raise_for(())
        listing = {str(name): body for name, body in document.values.items()}
        return _converted(path, groups.of_listing(path, listing))
    if groups.are_groups(document.values):
        return _converted(path, groups.of_document(document))
    return document


def _converted(path: Path, found: Groups) -> ansible.Converted:
    beside.add_files(found, path.parent, KIND)
    return ansible.converted(path, KIND, found)


def _refuse_other_kinds(path: Path) -> None:
    """What is neither our YAML nor Ansible's, in words that help more than YAML's."""
    text = read_text(path, KIND)
    through = f"name a program that asks Ansible, as in `ansible-inventory -i {path.name} --list`"
    if text.startswith("#!"):
        message = "is a program that may not be executed: chmod +x makes it an inventory"
    elif re.search(r"(?m)^\[[^\[\],\s]+\][ \t]*$", text):
        message = f"is an Ansible inventory in INI: {through}"
    elif re.search(r"(?m)^plugin\s*:", text):
        message = f"configures a plugin of Ansible: {through}"
    else:
        return
    raise BadFile(kind=KIND, faults=(Fault(path=path, line=0, where="", message=message),))


def _foreign(built: Inventory, document: ansible.Converted) -> Inventory:
    """Without the hosts that are only the way to their containers."""
    return replace(
        built,
        targets=tuple(one for one in built.targets if one.name not in document.unlisted),
        foreign=True,
        left_out=document.left_out,
    )


def _build(path: Path, file: InventoryFile) -> Inventory:
    ways = _Ways(file.hosts, path.parent)
    targets: list[Target] = []
    for name, host in file.hosts.items():
        route: SshAddress | Local = (
            Local(become=host.become) if host.connection else ways.to_host(name)
        )
        targets.append(_target(name, host, route))
        for inner, container in host.containers.items():
            targets.append(
                _target(
                    f"{name}/{inner}",
                    container,
                    ways.to(container)
                    if container.route == "ssh"
                    else InContainer(host=route, host_name=name, vmid=container.vmid),
                )
            )
    names = [target.name for target in targets]
    groups = {
        group: tuple(dict.fromkeys(fitting(member, names)[0] for member in members))
        for group, members in file.groups.items()
    }
    default = file.default_target
    return Inventory(
        path=path,
        targets=tuple(targets),
        groups=groups,
        default_target=None if default is None else fitting(default, names)[0],
    )


def _target(name: str, said: Host | Container, route: SshAddress | Local | InContainer) -> Target:
    return Target(
        name=name,
        route=route,
        gpus=said.gpus,
        python=said.python or "python3",
        path=tuple(said.path),
        state_dir=said.state_dir,
        tmux_socket=said.tmux_socket,
        fabric_address=said.fabric_address,
    )


class _Ways:
    """Ssh addresses; a jump that names a host of the inventory becomes that host's own."""

    def __init__(self, hosts: Mapping[str, Host], folder: Path) -> None:
        self._hosts = hosts
        self._folder = folder

    def to_host(self, name: str) -> SshAddress:
        return self.to(self._hosts[name])

    def to(self, said: Host | Container) -> SshAddress:
        jump = said.proxy_jump
        assert said.address is not None, "checked with the references"
        return SshAddress(
            address=said.address,
            port=said.port,
            user=said.user,
            identity_file=self._file(said.identity_file),
            known_hosts_file=self._file(said.known_hosts_file),
            jump=self.to(self._hosts[jump]) if jump and jump in self._hosts else jump,
            host_key=said.host_key or "strict",
            become=said.become,
        )

    def _file(self, said: str | None) -> Path | None:
        return None if said is None else local_path(said, self._folder)
