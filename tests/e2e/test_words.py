"""Words through ssh and pct: an argv arrives byte for byte, whatever is in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.inventory.load import load_inventory
from dflashctl.link.connect import Connections
from tests.lab.routes import pct_route

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dflashctl.link.transport import Transport
    from tests.conftest import Lab

# What a shell, pct's option parser or a careless join would take amiss.
TRAPS = ["--", "-L", "--keep-env=1", "-h", "", " ", "a b", "'", '"', "\\", "$(id)", "`id`", "$HOME",
         "a;b", "a\nb", "*", "~", "{a,b}", "!!", "é─", "#", "a&b|c>d", "-e", "=", "%s"]  # fmt: skip
WORDS = st.sampled_from(TRAPS) | st.text(
    alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30
)
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture
def box(lab: Lab, work: Path) -> Iterator[Transport]:
    with pct_route(lab.container, lab.host.sshd) as route:
        (work / "inventory.yml").write_text(route.inventory)
        inventory = load_inventory(work / "inventory.yml")
        target = next(one for one in inventory.targets if one.name.endswith("box"))
        with Connections() as connections:
            yield connections.transport(target)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=st.lists(WORDS, max_size=6))
def test_any_argv_arrives_in_the_container_byte_for_byte(box: Transport, words: list[str]) -> None:
    channel = box.start(("env", "LC_ALL=C.UTF-8", "/usr/bin/python3", "-c", SHOW, *words))
    try:
        text = b""
        while piece := channel.read(30):
            text += piece
        assert channel.exit_code(30) == 0, channel.stderr_tail()
        assert json.loads(text) == words
    finally:
        channel.close()
