"""Words that leave the target, to a server of the test's own, a mailer and a command."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import notify
from dflashctl.agent.notify import deliver, text
from dflashctl.agent.watching import Channel, Notice, Notify

NOTICE = Notice(
    event="verdict", code="stalled", evidence="no step after 254 for 17 min", job="dflash",
    run="r-1", host="kpro6", progress="step 254 of 2400, loss 4.58", at=1e9,
)  # fmt: skip


class Server:
    """Takes what is posted and answers with a code."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, dict[str, str], bytes]] = []
        self.code = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                server.taken.append((self.path, dict(self.headers), self.rfile.read(size)))
                self.send_response(server.code)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/secret-path"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def test_a_webhook_gets_all_of_it_as_json(server: Server) -> None:
    assert deliver(Channel(kind="webhook", to=(server.url,)), NOTICE) is None
    path, headers, body = server.taken[0]
    assert path == "/secret-path"
    assert headers["Content-Type"] == "application/json"
    value = json.loads(body)
    assert (value["event"], value["code"], value["run"]) == ("verdict", "stalled", "r-1")


def test_slack_gets_a_text(server: Server) -> None:
    assert deliver(Channel(kind="slack", to=(server.url,)), NOTICE) is None
    assert json.loads(server.taken[0][2]) == {
        "text": "dflash on kpro6: stalled: no step after 254 for 17 min\n"
        "step 254 of 2400, loss 4.58"
    }


def test_ntfy_gets_a_title_and_how_urgent_it_is(server: Server) -> None:
    channel = Channel(kind="ntfy", to=(server.url,))
    assert deliver(channel, NOTICE) is None
    assert deliver(channel, replace(NOTICE, event="ended", code="FINISHED", job="größe")) is None
    assert deliver(channel, replace(NOTICE, event="ended", code="FAILED")) is None
    heads = [headers for _, headers, _ in server.taken]
    assert heads[0]["Title"] == "dflash on kpro6: stalled"
    assert [head["Priority"] for head in heads] == ["high", "default", "high"]


def test_what_a_server_refuses_is_told_without_its_address(server: Server) -> None:
    server.code = 403
    said = deliver(Channel(kind="slack", to=(server.url,)), NOTICE)
    assert said == "the server says 403 Forbidden"
    gone = deliver(Channel(kind="webhook", to=("http://127.0.0.1:9/secret",)), NOTICE)
    assert gone is not None
    assert "refused" in gone
    assert "secret" not in gone
    assert deliver(Channel(kind="webhook", to=("file:///etc/passwd",)), NOTICE) is not None


def test_mail_goes_through_sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/mail\n')
    program.chmod(0o755)
    monkeypatch.setattr(notify, "_SENDMAIL", (str(tmp_path / "none"), str(program)))
    assert deliver(Channel(kind="email", to=("ops@example.org",)), NOTICE) is None
    mail = (tmp_path / "mail").read_text()
    assert "To: ops@example.org\n" in mail
    assert "Subject: dflash on kpro6: stalled\n" in mail
    assert (tmp_path / "words").read_text() == "-t -i\n"
    monkeypatch.setattr(notify, "_SENDMAIL", ())
    assert deliver(Channel(kind="email", to=("a@b.c",)), NOTICE) == "there is no sendmail"


def test_a_command_gets_the_object_and_the_words(tmp_path: Path) -> None:
    script = 'cat > "$1"; echo "$DFLASHCTL_CODE" >> "$1"'
    words = ("sh", "-c", script, "sh", str(tmp_path / "out"))
    assert deliver(Channel(kind="command", to=words), NOTICE) is None
    first, second = (tmp_path / "out").read_text().replace("}", "}\n", 1).split("\n")[:2]
    assert json.loads(first)["code"] == "stalled"
    assert second == "stalled"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("sh", "-c", "echo no way >&2; exit 3"), "exit code 3: no way"),
        (("/none",), "No such file"),
    ],
)
def test_a_command_that_fails_says_why(words: tuple[str, ...], problem: str) -> None:
    said = deliver(Channel(kind="command", to=words), NOTICE)
    assert said is not None
    assert problem in said


def test_a_test_is_sent_over_every_way(server: Server) -> None:
    channels = (Channel(kind="slack", to=(server.url,)), Channel(kind="command", to=("false",)))
    told = notify.test(Notify(job="dflash", channels=channels))
    assert told.problems == ("", "exit code 1")
    assert "a test" in json.loads(server.taken[0][2])["text"]


def test_addresses_are_in_no_text_of_a_channel() -> None:
    assert "secret" not in repr(Channel(kind="slack", to=("https://secret",)))


def test_an_end_needs_no_evidence() -> None:
    over = replace(NOTICE, event="cleared", evidence="", progress="")
    assert text(over) == "dflash on kpro6: stalled is over"
