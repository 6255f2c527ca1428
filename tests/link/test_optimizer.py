from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.protocol import Failure
from dflashctl.errors import DflashError, Internal, MissingTool
from dflashctl.link.optimizer import of_the_optimizer
from dflashctl.playbook.boundaries import read_boundaries
from dflashctl.view.words import words_for


def told(code: str, **detail: Any) -> DflashError:
    error = of_the_optimizer("box", Failure(code=code, detail=detail))
    assert error is not None
    return error


@pytest.mark.provokes("bad_dataset")
def test_a_dataset_that_cannot_be_used() -> None:
    error = told("bad_dataset", path="/data", problem="no-column", text="no column `length`.")
    assert (error.code, error.exit_code) == ("bad_dataset", 2)
    assert "the dataset /data on box cannot be used" in words_for(error).message


@pytest.mark.provokes("missing_module")
def test_an_interpreter_that_lacks_a_module() -> None:
    error = told("missing_module", python="/venv/python", module="pyarrow", needed="parquet")
    assert error.code == "missing_module"
    assert "/venv/python -m pip install" in words_for(error).next


@pytest.mark.provokes("optimizer_at_work")
def test_a_second_optimiser_beside_a_first() -> None:
    error = told("optimizing", session="dflash-optimize")
    assert (error.code, error.exit_code) == ("optimizer_at_work", 75)
    assert "--fetch" in words_for(error).next


@pytest.mark.provokes("no_optimizer")
def test_nothing_to_fetch() -> None:
    error = told("no_job", job="dflash")
    assert (error.code, error.exit_code) == ("no_optimizer", 3)


@pytest.mark.provokes("optimizer_killed")
def test_an_optimiser_that_something_else_ended() -> None:
    error = told("job_killed")
    assert (error.code, error.exit_code) == ("optimizer_killed", 75)
    assert "for want of memory" in words_for(error).message


def test_other_ends_of_an_optimiser() -> None:
    assert isinstance(told("no_python", python="/venv/python"), MissingTool)
    assert "(exit code 9)" in str(vars(told("job_died", exit_code=9, said="")))
    assert isinstance(told("job_died"), Internal)
    assert of_the_optimizer("box", Failure(code="disk_full", detail={})) is None


@pytest.mark.provokes("bad_buckets")
@pytest.mark.parametrize("text", ["{", "7", '{"version": 2}'])
def test_a_file_that_holds_no_boundaries(tmp_path: Path, text: str) -> None:
    (tmp_path / "buckets.json").write_text(text)
    with pytest.raises(DflashError) as caught:
        read_boundaries(tmp_path / "buckets.json")
    assert caught.value.code == "bad_buckets"
