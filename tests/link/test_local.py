"""Programs and files on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dflashctl.errors import MissingTool
from dflashctl.link import local
from dflashctl.link.local import LocalTransport
from dflashctl.link.transport import NoFileChannel

HERE = LocalTransport("here")


def test_a_program_runs_and_its_end_is_known():
    channel = HERE.start(("sh", "-c", "cat; echo oops >&2; exit 7"))
    channel.write(b"some input")
    channel.close_input()
    said = b""
    while piece := channel.read(5):
        said += piece
    assert (said, channel.exit_code(5), channel.stderr_tail()) == (b"some input", 7, "oops\n")
    channel.close()
    channel.close()


def test_ten_mebibytes_on_both_streams_at_once_pass():
    script = (
        "import os\n"
        "for fd in (2, 1):\n"
        "    left = 10 << 20\n"
        "    while left: left -= os.write(fd, b'x' * min(left, 65536))\n"
    )
    channel = HERE.start((sys.executable, "-c", script))
    size = 0
    while piece := channel.read(10):
        size += len(piece)
    assert size == 10 << 20
    assert channel.exit_code(5) == 0
    channel.close()


def test_a_program_that_a_signal_ended_has_no_exit_code():
    channel = HERE.start(("sh", "-c", "kill -9 $$"))
    assert channel.read(5) == b""
    assert channel.exit_code(5) is None
    channel.close()


def test_a_silent_program_is_a_timeout_and_one_that_takes_no_input_an_error(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(local, "_WRITE_STALL_S", 0.2)
    channel = HERE.start(("sleep", "3"))
    with pytest.raises(TimeoutError):
        channel.read(0.1)
    with pytest.raises(ConnectionError):
        channel.write(b"x" * (1 << 20))
    assert channel.exit_code(0.1) is None
    channel.close()


def test_writing_to_a_program_that_ended_is_a_connection_error():
    channel = HERE.start(("true",))
    assert channel.read(5) == b""
    with pytest.raises(ConnectionError):
        channel.write(b"x" * 100_000)
    channel.close()


def test_letting_go_ends_the_input_and_kills_nobody(tmp_path: Path):
    channel = HERE.start(("sh", "-c", f"cat >/dev/null; echo done >{tmp_path}/end"))
    channel.close()
    assert (tmp_path / "end").read_text() == "done\n"


def test_a_missing_program_is_named():
    with pytest.raises(MissingTool, match="no-such-program"):
        HERE.start(("no-such-program",))


def test_a_file_is_copied_privately_with_progress(tmp_path: Path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 << 20))
    seen: list[tuple[int, int]] = []
    (tmp_path / "a b").mkdir()
    HERE.send_file(source, str(tmp_path / "a b"), "copy", lambda *at: seen.append(at))
    assert (tmp_path / "a b" / "copy").read_bytes() == source.read_bytes()
    assert (tmp_path / "a b" / "copy").stat().st_mode & 0o777 == 0o600
    assert seen[-1] == (3 << 20, 3 << 20)


def test_where_it_cannot_be_copied_the_agent_is_to_find_out_why(tmp_path: Path):
    with pytest.raises(NoFileChannel, match="No such file"):
        HERE.send_file(Path(__file__), str(tmp_path / "missing"), "copy", lambda *_: None)
