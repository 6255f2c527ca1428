from __future__ import annotations

import json

import pytest

from dflashctl.agent.protocol import StartRun
from tests.cli.world import PLAYBOOK, World

WATCH = """\
watch:
  every: 30s
  notify:
    - {slack_from: SLACK_URL}
    - {webhook: "https://example.org/hook"}
    - {email: ops@example.org}
    - {command: [/root/tell.sh, loud]}
"""


@pytest.fixture
def watched(world: World) -> World:
    (world.cwd / "playbooks" / "deploy.yml").write_text(PLAYBOOK + WATCH)
    world.environ["SLACK_URL"] = "https://slack.example/the-token"
    return world


def test_a_test_goes_over_every_way_and_no_address_is_shown(watched: World) -> None:
    result = watched.run("notify", "--test")
    assert (result.code, result.err) == (0, "")
    assert result.out == "slack    sent\nwebhook  sent\nemail    sent\ncommand  sent\n"
    (request,) = watched.notified
    assert request.channels[0].to == ("https://slack.example/the-token",)
    assert request.channels[3].to == ("/root/tell.sh", "loud")


@pytest.mark.provokes("not_sent")
def test_what_could_not_be_sent_is_an_error_with_its_reasons(watched: World) -> None:
    watched.problems = ("", "the server says 403 Forbidden", "", "exit code 3")
    result = watched.run("notify", "--test")
    assert result.code == 69
    assert "webhook  not sent" in result.out
    assert "webhook: the server says 403 Forbidden" in result.err
    value = json.loads(watched.run("notify", "--test", "--json").out)["targets"]["here"]
    assert value["error"]["code"] == "not_sent"


def test_json_names_the_ways(watched: World) -> None:
    value = json.loads(watched.run("notify", "--test", "--json").out)["targets"]["here"]
    assert value == {"sent": ["slack", "webhook", "email", "command"], "error": None}


def test_an_address_that_is_not_set_here_is_a_mistake(watched: World) -> None:
    del watched.environ["SLACK_URL"]
    for verb in (["notify", "--test"], ["deploy"]):
        result = watched.run(*verb)
        assert result.code == 2
        assert "SLACK_URL" in result.err


def test_without_anybody_to_tell_there_is_nothing_to_test(world: World) -> None:
    result = world.run("notify", "--test")
    assert result.code == 2
    assert "watch.notify" in result.err
    assert world.run("notify").code == 2


def test_a_deploy_has_the_run_watched_and_shows_no_address(watched: World) -> None:
    result = watched.run("deploy", "--json")
    assert result.code == 0
    (start,) = (a for a in watched.commits[0].actions if isinstance(a, StartRun))
    assert start.watch is not None
    assert start.watch.every_s == 30.0
    assert start.watch.channels[0].to == ("https://slack.example/the-token",)
    assert "the-token" not in result.out + result.err
