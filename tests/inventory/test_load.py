from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.errors import BadFile
from dflashctl.inventory.load import find_inventory, load_inventory
from dflashctl.inventory.model import InContainer, Inventory, Local, SshAddress, Target

TWIN = "{address: x, containers: {c: {vmid: 100}}}"
EXAMPLE = Path(__file__).parents[2] / "inventory"


def via(jump: str) -> str:
    """A host behind another."""
    return f"{{address: x, proxy_jump: {jump}}}"


def load(tmp_path: Path, text: str) -> Inventory:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    return load_inventory(path)


def faults(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(BadFile) as caught:
        load(tmp_path, text)
    assert caught.value.kind == "inventory"
    return [(fault.line, fault.where, fault.message) for fault in caught.value.faults]


# --- what is read ---------------------------------------------------------------------


def test_the_example_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    inventory = load_inventory(find_inventory(str(EXAMPLE), {}, Path("/")))
    kpro6 = SshAddress(
        address="192.0.2.6",
        port=22,
        user="root",
        identity_file=Path("/home/someone/.ssh/id_ed25519"),
        known_hosts_file=Path("/home/someone/.ssh/known_hosts"),
    )
    pct = InContainer(host=kpro6, host_name="kpro6", vmid=200)
    ssh = SshAddress(address="192.0.2.61", jump=kpro6)
    assert inventory == Inventory(
        path=EXAMPLE / "hosts.yml",
        targets=(
            Target(name="kpro6", route=kpro6, gpus=8),
            Target(name="kpro6/dflash", route=pct, gpus=8),
            Target(name="kpro6/eval", route=ssh, gpus=1),
            Target(name="here", route=Local()),
        ),
        groups={"all-training": ("kpro6/dflash", "kpro6/eval")},
        default_target="kpro6/dflash",
    )


def test_only_an_address_is_needed(tmp_path: Path) -> None:
    inventory = load(tmp_path, "version: 1\nhosts: {a: {address: alias}}\n")
    assert inventory.targets == (Target(name="a", route=SshAddress(address="alias")),)
    assert inventory.default_target is None
    assert inventory.groups == {}


def test_any_target_may_name_its_python_path_state_and_tmux_socket(tmp_path: Path) -> None:
    text = """\
version: 1
hosts:
  a:
    connection: local
    containers:
      c: &fields
        vmid: 100
        python: /opt/bin/python3
        path: [/opt/bin, /usr/local/bin]
        state_dir: ~/state
        tmux_socket: demo
  b:
    address: x
    python: /opt/bin/python3
    path: [/opt/bin, /usr/local/bin]
    state_dir: ~/state
    tmux_socket: demo
"""
    for target in load(tmp_path, text).targets[1:]:
        assert target.python == "/opt/bin/python3"
        assert target.path == ("/opt/bin", "/usr/local/bin")
        assert target.state_dir == "~/state"
        assert target.tmux_socket == "demo"


def test_containers_of_this_machine_are_entered_without_ssh(tmp_path: Path) -> None:
    text = "version: 1\nhosts: {a: {connection: local, containers: {c: {vmid: 100}}}}\n"
    route = load(tmp_path, text).targets[1].route
    assert route == InContainer(host=Local(), host_name="a", vmid=100)


def test_local_files_are_relative_to_the_inventory(tmp_path: Path) -> None:
    text = "version: 1\nhosts: {a: {address: x, identity_file: keys/id}}\n"
    route = load(tmp_path, text).targets[0].route
    assert route == SshAddress(address="x", identity_file=tmp_path / "keys/id")


def test_a_jump_through_a_host_of_the_inventory_takes_that_hosts_way(tmp_path: Path) -> None:
    text = """\
version: 1
hosts:
  inner: {address: 192.0.2.1, proxy_jump: middle}
  middle: {address: 192.0.2.2, user: m, proxy_jump: outer}
  outer: {address: 192.0.2.3, port: 2222}
"""
    outer = SshAddress(address="192.0.2.3", port=2222)
    middle = SshAddress(address="192.0.2.2", user="m", jump=outer)
    assert load(tmp_path, text).targets[0].route == SshAddress(address="192.0.2.1", jump=middle)


@pytest.mark.parametrize(
    "jump",
    [
        "none",
        "me@bastion",
        "bastion:2222",
        "me@bastion:22",
        "bastion.example.org",
        "192.0.2.1",
        "me@[2001:db8::1]:22",
        "[2001:db8::1]",
    ],
)
def test_another_jump_is_kept_as_it_was_written(tmp_path: Path, jump: str) -> None:
    text = f'version: 1\nhosts: {{a: {{address: x, proxy_jump: "{jump}"}}}}\n'
    assert load(tmp_path, text).targets[0].route == SshAddress(address="x", jump=jump)


def test_a_group_names_each_target_once_by_its_full_name(tmp_path: Path) -> None:
    text = """\
version: 1
default_target: a/c
hosts:
  a: {address: x, containers: {c: {vmid: 100}, d: {vmid: 101}}}
  b: {address: y, containers: {c: {vmid: 100}}}
groups:
  some: [b/c, d, a/d, b]
"""
    inventory = load(tmp_path, text)
    assert inventory.groups == {"some": ("b/c", "a/d", "b")}
    assert inventory.default_target == "a/c"


# --- mistakes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ("address: x, adres: x", "adres", "unknown field; did you mean address? (allowed: addres"),
        ("address: x, port: 0", "port", "must be from 1 to 65535, not 0"),
        ("address: x, port: 65536", "port", "must be from 1 to 65535, not 65536"),
        ('address: x, port: "22"', "port", "must be a whole number, not '22'"),
        ("address: x, gpus: -1", "gpus", "must be from 0 to 1024, not -1"),
        ("address: x, user: on", "user", 'YAML reads on as a truth value: put it in quotes, "on"'),
        ('address: x, user: "a b"', "user", "must be one word that begins with no dash"),
        ("address: x, user: -oX", "user", "must be one word that begins with no dash"),
        ('address: ""', "address", "must be one word that begins with no dash, not ''"),
        ("address: -oProxyCommand=id", "address", "must be one word that begins with no dash"),
        ("address: me@x", "address", "must be a host alone: write the part before the @ of me@x"),
        ("address: 'x:22'", "address", "must be a host alone: write the part after the : of x:22"),
        ('address: x, identity_file: ""', "identity_file", "must be a path, not ''"),
        ("address: x, connection: lokal", "connection", "must be local, not 'lokal'; did you"),
        ("connection: local, user: me", "user", "does not go with `connection: local`"),
        ("connection: local, address: x", "address", "does not go with `connection: local`"),
        ("gpus: 1", "address", "is missing: the host's name or address (or else"),
        ("address: x, python: -c", "python", "must be one word that begins with no dash"),
        ("address: x, path: [bin]", "path[0]", "must be an absolute path, not 'bin'"),
        ("address: x, path: ['/a:/b']", "path[0]", "must be one folder an entry, without a colon"),
        ("address: x, state_dir: state", "state_dir", "must be an absolute path, not 'state'"),
        ("address: x, state_dir: /a/../b", "state_dir", "must be a path without `..`"),
        ("address: x, tmux_socket: a b", "tmux_socket", "must be one word that begins with no"),
        ("address: x, tmux_socket: a/b", "tmux_socket", "must be an absolute path, not 'a/b'"),
        ("address: x, proxy_jump: othr", "proxy_jump", "no host of this inventory is called othr;"),
        ("address: x, proxy_jump: me@x@y", "proxy_jump", "must be a host of this inventory, user@"),
        ("address: x, proxy_jump: 'a,b'", "proxy_jump", "must be a host of this inventory, user@"),
        ("address: x, proxy_jump: -oX", "proxy_jump", "must be a host of this inventory, user@"),
        ("address: x, proxy_jump: 'b:0'", "proxy_jump", "must have a port from 1 to 65535, not 0"),
        ("address: x, proxy_jump: kpro6", "proxy_jump", "goes in a circle: kpro6 -> kpro6"),
        ("address: x, containers: [a]", "containers", "must be a mapping"),
        ("address: x, metrics: 1", "metrics", "unknown field (allowed: "),
    ],
)
def test_a_mistake_of_a_host_is_told_with_its_line_and_what_is_allowed(
    tmp_path: Path, fields: str, where: str, message: str
) -> None:
    text = f"version: 1\nhosts:\n  other: {{address: 192.0.2.9}}\n  kpro6: {{{fields}}}\n"
    ((line, place, said),) = faults(tmp_path, text)
    assert (line, place) == (4, f"hosts.kpro6.{where}")
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ("route: pct", "vmid", "is missing"),
        ("vmid: 99", "vmid", "must be from 100 to 999999999, not 99"),
        ("vmid: 1000000000", "vmid", "must be from 100 to 999999999, not 1000000000"),
        ("vmid: two", "vmid", "must be a whole number, not 'two'"),
        ("vmid: 200, route: ssj", "route", "must be pct or ssh, not 'ssj'; did you mean ssh?"),
        ("vmid: 200, route: ssh", "address", "is missing: `route: ssh` needs the container's own"),
        ("vmid: 200, address: x", "address", "only goes with `route: ssh`"),
        ("vmid: 200, proxy_jump: none", "proxy_jump", "only goes with `route: ssh`"),
        (
            "vmid: 200, route: ssh, address: x, proxy_jump: kpro7",
            "proxy_jump",
            "no host of this inventory is called kpro7; did you mean kpro6? (another is user@",
        ),
        ("vmid: 150", "vmid", "150 is also the vmid of eval on this host"),
        ("vmid: 200, connection: local", "connection", "unknown field (allowed: "),
    ],
)
def test_a_mistake_of_a_container_is_told_with_its_line_and_what_is_allowed(
    tmp_path: Path, fields: str, where: str, message: str
) -> None:
    text = (
        "version: 1\nhosts:\n  kpro6:\n    address: x\n    containers:\n"
        f"      eval: {{vmid: 150}}\n      dflash: {{{fields}}}\n"
    )
    ((line, place, said),) = faults(tmp_path, text)
    assert (line, place) == (7, f"hosts.kpro6.containers.dflash.{where}")
    assert said.startswith(message)


def test_the_same_vmid_on_another_host_is_another_container(tmp_path: Path) -> None:
    text = """\
version: 1
hosts:
  a: {address: x, containers: {c: {vmid: 100}}}
  b: {address: y, containers: {d: {vmid: 100}}}
"""
    assert len(load(tmp_path, text).targets) == 4


@pytest.mark.parametrize(
    ("text", "line", "where", "message"),
    [
        ("hosts: {a: {address: x}}", 1, "version", "is missing"),
        ("version: 2\nhosts: {a: {address: x}}", 1, "version", "must be 1, not 2"),
        ("version: 1", 1, "hosts", "is missing"),
        ("version: 1\nhosts: {}", 2, "hosts", "must name at least one host"),
        ("version: 1\nhosts:", 2, "hosts", "is empty: give it a value, or leave it out"),
        ("version: 1\nhosts:\n  a:", 3, "hosts.a", "is empty: give it a value, or leave it out"),
        (
            "version: 1\nhosts:\n  12: {address: x}",
            3,
            "hosts[12]",
            'YAML reads 12 as a number: put it in quotes, "12"',
        ),
        (
            "version: 1\nhosts:\n  off: {address: x}",
            3,
            "hosts.off",
            'YAML reads off as a truth value: put it in quotes, "off"',
        ),
        (
            "version: 1\nhosts:\n  a/b: {address: x}",
            3,
            "hosts['a/b']",
            "must be letters, digits, dots, dashes or _, a letter or digit first, not 'a/b'",
        ),
        (
            "version: 1\nhosts: {a: {address: x}}\ndefault_target: b",
            3,
            "default_target",
            "no target is called 'b'",
        ),
        (
            "version: 1\nhosts: {kpro6: {address: x}}\ndefault_target: kpro5",
            3,
            "default_target",
            "no target is called 'kpro5'; did you mean kpro6?",
        ),
        (
            f"version: 1\nhosts:\n  a: {TWIN}\n  b: {TWIN}\ndefault_target: c",
            5,
            "default_target",
            "c may be a/c or b/c: write which",
        ),
        (
            "version: 1\nhosts: {kpro6: {address: x}}\ngroups:\n  g:\n    - kpro6\n    - kpr6",
            6,
            "groups.g[1]",
            "no target is called 'kpr6'; did you mean kpro6?",
        ),
        (
            "version: 1\nhosts: {a: {address: x}}\ngroups:\n  g: []",
            4,
            "groups.g",
            "must name at least one target",
        ),
        (
            "version: 1\nhosts: {a: {address: x}}\ngroups:\n  a: [a]",
            4,
            "groups.a",
            "a target is called a too: name the group otherwise",
        ),
        (
            "version: 1\nhosts: {a: {address: x}}\ngroups:\n  g: a",
            4,
            "groups.g",
            "must be a list, not 'a'",
        ),
        (
            "version: 1\nhosts:\n  a: {connection: local}\n  b: {address: x, proxy_jump: a}",
            4,
            "hosts.b.proxy_jump",
            "a is this machine: there is nothing to jump through",
        ),
        (
            f"version: 1\nhosts:\n  a: {via('b')}\n  b: {via('c')}\n  c: {via('b')}",
            4,
            "hosts.b.proxy_jump",
            "goes in a circle: b -> c -> b",
        ),
        (
            "version: 1\nhosts: {a: {address: x}}\nhost: {}",
            3,
            "host",
            "unknown field; did you mean hosts? (allowed: version, default_target, hosts, groups)",
        ),
    ],
)
def test_a_mistake_of_the_file_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, where: str, message: str
) -> None:
    assert faults(tmp_path, text) == [(line, where, message)]


def test_every_mistake_is_told_at_once_in_the_files_order(tmp_path: Path) -> None:
    text = """\
version: 1
default_target: dflsh
hosts:
  kpro6:
    address: 192.0.2.6
    port: 70000
    user: yes
    proxy_jump: bastion
    proxy_jump: bastion
    containers:
      dflash: {vmid: 200}
      eval: {vmid: 200, rout: ssh}
  j1: {address: a, proxy_jump: j2}
  j2: {address: b, proxy_jump: j1}
groups:
  all: [dflash, evil]
"""
    found = faults(tmp_path, text)
    assert [(line, where) for line, where, _ in found] == [
        (2, "default_target"),
        (6, "hosts.kpro6.port"),
        (7, "hosts.kpro6.user"),
        (9, "hosts.kpro6.proxy_jump"),
        (9, "hosts.kpro6.proxy_jump"),
        (12, "hosts.kpro6.containers.eval.rout"),
        (12, "hosts.kpro6.containers.eval.vmid"),
        (13, "hosts.j1.proxy_jump"),
        (16, "groups.all[1]"),
    ]


FIELDS = "version default_target hosts groups"
OTHERS = (
    'address port connection local containers vmid route ssh pct proxy_jump a b none 1 "x" ~ *a'
)
WORDS = st.sampled_from(f"{FIELDS} {OTHERS}".split())
VALUES = st.recursive(
    WORDS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(WORDS, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(FIELDS.split()), VALUES, min_size=2).map(
        lambda fields: "\n".join(f"{name}: {value}" for name, value in fields.items())
    )
)
def test_no_values_raise_anything_but_a_bad_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-hosts.yml"
    path.write_text(text)
    try:
        outcome: tuple[object, ...] = load_inventory(path).targets
    except BadFile as error:
        outcome = error.faults
    assert outcome
