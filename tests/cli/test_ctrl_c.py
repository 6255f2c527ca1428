from __future__ import annotations

import os
import signal
import threading

import pytest

from dflashctl.cli.ctrl_c import patient


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_without_ctrl_c_nothing_is_said() -> None:
    said: list[str] = []
    with patient(lambda: said.append("it goes on")):
        pass
    assert said == []


def test_the_first_is_told_and_the_second_counts() -> None:
    said: list[str] = []

    def pressed_twice() -> None:
        with patient(lambda: said.append("it goes on")):
            press()
            press()

    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
    assert said == ["it goes on"]


def test_it_is_told_while_the_work_holds_what_telling_needs() -> None:
    busy, said = threading.Lock(), threading.Event()

    def tell() -> None:
        with busy:
            said.set()

    with patient(tell):
        with busy:
            press()
            assert not said.wait(0.1)
        assert said.wait(5)


def test_afterwards_ctrl_c_is_what_it_was() -> None:
    with patient(lambda: None):
        press()
    with pytest.raises(KeyboardInterrupt):
        press()
