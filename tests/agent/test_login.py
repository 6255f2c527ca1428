from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from dflashctl.agent import login


def account(home: Path, shell: str = "/bin/bash") -> pwd.struct_passwd:
    us = pwd.getpwuid(os.getuid())
    return pwd.struct_passwd(("ada", "x", us.pw_uid, us.pw_gid, "", str(home), shell))


def test_the_login_environment_is_what_a_login_shell_ends_up_with(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("echo noise; echo noise >&2; export FROM_PROFILE='a b'\n")
    found = login.login_environment(account(tmp_path))
    assert found["FROM_PROFILE"] == "a b"
    assert (found["HOME"], found["USER"]) == (str(tmp_path), "ada")
    assert not {"_", "SHLVL", "TERM"} & set(found)


def test_a_profile_that_hangs_does_not_hang_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOGIN_S", 0.5)
    (tmp_path / ".profile").write_text("sleep 100\n")
    begun = time.monotonic()
    assert login.login_environment(account(tmp_path)) == login.minimal_environment(
        account(tmp_path)
    )
    assert time.monotonic() - begun < 5


def test_without_a_shell_and_a_home_there_is_still_an_environment(tmp_path: Path) -> None:
    nobody = account(tmp_path / "gone", "/no/such/shell")
    assert login.login_environment(nobody)["SHELL"] == "/no/such/shell"
    assert login.home(nobody) == "/"


def test_an_unknown_terminal_is_taken_for_the_nearest_known_one() -> None:
    assert login.known_terminal("no-such-terminal") in ("xterm-256color", "xterm", "vt100")
    assert login.known_terminal("../etc/passwd") != "../etc/passwd"
