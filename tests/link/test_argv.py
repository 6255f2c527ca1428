"""Any argv arrives byte for byte, whatever is in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.inventory.model import Local, Target
from dflashctl.link.connect import Connections
from dflashctl.link.container import in_container
from tests.link.fakes import address_of, target_at

if TYPE_CHECKING:
    from dflashctl.link.transport import Transport, Words
    from tests.sshd import Sshd

NASTY = (
    "",
    " ",
    "a b",
    "'",
    '"',
    "$(touch x)",
    "`id`",
    "a\nb",
    "-k",
    "--",
    "*",
    "~",
    "é☃",
    "\\",
    "!!",
)
words = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
argvs = st.lists(words, min_size=1, max_size=30).map(tuple)


def echoed(transport: Transport, argv: Words) -> Words:
    channel = transport.start(("env", "printf", "%s\\0", *argv))
    said = b""
    while piece := channel.read(10):
        said += piece
    channel.close()
    return tuple(word.decode() for word in said.split(b"\0")[:-1])


@settings(max_examples=60)
@given(argv=argvs)
def test_on_this_machine(argv: Words):
    with Connections() as connections:
        transport = connections.transport(Target(name="here", route=Local()))
        assert echoed(transport, argv) == argv


# The fixtures hold a server and a configuration that no example changes.
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(argv=argvs)
def test_over_ssh(sshd: Sshd, connections: Connections, argv: Words):
    assert echoed(connections.transport(target_at(address_of(sshd))), argv) == argv


@given(argv=argvs)
def test_one_shell_parse_gives_pct_the_same_words(argv: Words):
    wrapped = in_container(200, argv)
    assert tuple(shlex.split(shlex.join(wrapped))) == wrapped
