"""What counts as a checkpoint, in the layouts that people have."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent import checkpoints
from dflashctl.agent.keeping import JsonField, MarkerFile, PointerFile, QuietFor, StoreSpec
from dflashctl.agent.metric import metric_of
from dflashctl.agent.records import StateFolder
from dflashctl.agent.store import entries, measure, step_in


def hugging_face(store: Path, step: int, whole: bool) -> None:
    folder = store / f"checkpoint-{step}"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"w")
    if whole:
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def torch_file(store: Path, step: int, whole: bool) -> None:
    place = store / f"step_{step}.pt"
    place.write_bytes(b"w")
    if whole:
        long_ago = time.time() - 1000 + step / 1000
        os.utime(place, (long_ago, long_ago))


def lightning(store: Path, step: int, whole: bool) -> None:
    torch_file(store, step, whole)
    (store / f"step_{step}.pt").rename(store / f"epoch={step // 100}-step={step}.ckpt")


def deep_speed(store: Path, step: int, whole: bool) -> None:
    folder = store / f"global_step{step}"
    folder.mkdir()
    (folder / "mp_rank_00_model_states.pt").write_bytes(b"w")
    if whole:
        (store / "latest").write_text(f"global_step{step}")


def distributed(store: Path, step: int, whole: bool) -> None:
    folder = store / f"step-{step}"
    folder.mkdir()
    (folder / "__0_0.distcp").write_bytes(b"w")
    if whole:
        (folder / ".metadata").write_bytes(b"m")


def megatron(store: Path, step: int, whole: bool) -> None:
    folder = store / f"iter_{step:07}" / "mp_rank_00"
    folder.mkdir(parents=True)
    (folder / "model_optim_rng.pt").write_bytes(b"w")
    if whole:
        (store / "latest_checkpointed_iteration.txt").write_text(f"{step}\n")


QUIET = QuietFor(seconds=60)
LAYOUTS: dict[str, tuple[Callable[[Path, int, bool], None], dict[str, Any]]] = {
    "Hugging Face Trainer": (
        hugging_face,
        {"pattern": "checkpoint-*", "complete_when": MarkerFile(file="trainer_state.json")},
    ),
    "PyTorch": (torch_file, {"pattern": "*.pt", "complete_when": QUIET}),
    "Lightning": (lightning, {"pattern": "*.ckpt", "complete_when": QUIET}),
    "DeepSpeed": (
        deep_speed,
        {"pattern": "global_step*", "complete_when": PointerFile(file="latest")},
    ),
    "torch.distributed.checkpoint": (
        distributed,
        {"pattern": "step-*", "complete_when": MarkerFile(file=".metadata")},
    ),
    "Megatron": (
        megatron,
        {
            "pattern": "iter_*",
            "complete_when": PointerFile(file="latest_checkpointed_iteration.txt"),
        },
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layouts_that_people_have_are_told_by_their_settings(layout: str, tmp_path) -> None:
    make, said = LAYOUTS[layout]
    for step in (100, 1000, 500):
        make(tmp_path, step, True)
    time.sleep(0.01)
    make(tmp_path, 1500, False)
    spec = StoreSpec(path=str(tmp_path), **said)
    seen = checkpoints.see(spec, StateFolder(path=tmp_path / ".state"), (), [])
    assert (seen.count, seen.complete, seen.latest_step) == (4, 3, 1000)
    listed = checkpoints.see_all(spec, [], None, None).checkpoints
    assert [(one.step, one.complete) for one in listed] == [
        (100, True), (500, True), (1000, True), (1500, False),
    ]  # fmt: skip
    assert listed[-1].why


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("step_500.pt", 500),
        ("epoch=1-step=500.ckpt", 500),
        ("epoch=1-step=500-v1.ckpt", 500),
        ("epoch=3-step=500-val_loss=0.21.ckpt", 500),
        ("global_step500", 500),
        ("iter_0000500", 500),
        ("ckpt_500.pth.tar", 500),
        ("Step500.safetensors", 500),
        ("500", 500),
        ("model-500.pt", 500),
        ("best", None),
        ("llama-7b-final", None),
    ],
)
def test_the_step_is_read_from_the_names_that_trainers_give(name: str, step: int | None) -> None:
    assert step_in(name, StoreSpec(path="/x")) == (True, step)


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint-100-merged", "checkpoint-100 (copy)", "checkpoint-100_old", "step-100.tmp",
        "tmp-checkpoint-100", "step-100.partial", "step_100.pt.bak", ".step-100", "latest",
        "500.orbax-checkpoint-tmp-17", "latest_checkpointed_iteration.txt",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_checkpoint_is_none(name: str) -> None:
    assert step_in(name, StoreSpec(path="/x")) == (False, None)


def test_a_pattern_and_an_expression_narrow_it_further() -> None:
    spec = StoreSpec(path="/x", pattern="run-a-*", step_from=r"at-(\d+)")
    assert step_in("run-a-at-70", spec) == (True, 70)
    assert step_in("run-b-at-70", spec) == (False, None)
    assert step_in("run-a-70", spec) == (False, None)
    assert step_in("run-a-at-70-merged", spec) == (False, None)


@given(st.integers(0, 10**9), st.sampled_from(["step-{}", "iter_{:07}", "ckpt{}.pt"]))
def test_every_number_comes_back_from_a_name(step: int, form: str) -> None:
    assert step_in(form.format(step), StoreSpec(path="/x")) == (True, step)


def test_the_step_may_stand_in_a_file_and_completeness_in_another(tmp_path) -> None:
    for name, about in (("a", {"at": {"step": 7}, "done": True}), ("b", {"at": {"step": 9}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(json.dumps(about))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "state.json").write_text("{cut")
    spec = StoreSpec(
        path=str(tmp_path),
        step_from=JsonField(file="state.json", field="at.step"),
        complete_when=JsonField(file="state.json", field="done"),
    )
    listed = checkpoints.see_all(spec, [], None, None).checkpoints
    found = {one.name: (one.step, one.complete) for one in listed}
    assert found == {"a": (7, True), "b": (9, False), "c": (None, False)}


def test_a_run_that_began_anew_has_the_newest_checkpoint_whatever_its_step(tmp_path) -> None:
    for step, saved in ((1000, 100.0), (10, 300.0), (20, 310.0)):
        (tmp_path / f"step-{step}").mkdir()
        os.utime(tmp_path / f"step-{step}", (saved, saved))
    found = sorted(
        entries(StoreSpec(path=str(tmp_path)), str(tmp_path), [50.0, 200.0]),
        key=lambda one: one.order,
    )
    assert [one.step for one in found] == [1000, 10, 20]


def test_sizes_follow_no_links_and_count_holes_apart(tmp_path) -> None:
    (tmp_path / "outside").write_bytes(b"x" * 100_000)
    store = tmp_path / "store"
    (store / "step-1").mkdir(parents=True)
    (store / "step-1" / "w").write_bytes(b"x" * 10)
    (store / "step-1" / "link").symlink_to(tmp_path)
    with (store / "step-1" / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    found = measure([str(store / "step-1")], None)
    assert found is not None
    assert (1 << 30) + 10 < found.size < (1 << 30) + 1000
    assert found.allocated < 1 << 20


@pytest.mark.parametrize(
    ("name", "files", "value"),
    [
        ("epoch=1-val_loss=0.25", {}, 0.25),
        ("step-1", {"metrics.json": {"val_loss": 0.5}}, 0.5),
        ("step-1", {"trainer_state.json": {"log_history": [{"val_loss": 2}, {"val_loss": 1}]}}, 1),
        ("step-1", {"a.json": {"loss": 1}, "b.json": {"val_loss": True}}, None),
        ("step-1", {"m.json": {"val_loss": -math.inf}, "n.json": {"val_loss": math.nan}}, None),
        ("step-1", {"m.json": {"val_loss": 10**400}}, None),
        ("val_loss=1e999", {}, None),
        ("step-1", {}, None),
    ],
)
def test_a_metric_is_found_in_the_name_or_in_the_checkpoints_own_files(
    name: str, files: dict[str, Any], value: float | None, tmp_path
) -> None:
    (tmp_path / name).mkdir()
    for file, content in files.items():
        (tmp_path / name / file).write_text(json.dumps(content))
    (entry,) = entries(StoreSpec(path=str(tmp_path)), str(tmp_path), [])
    assert metric_of(entry, "val_loss") == value


@pytest.mark.parametrize(("expression", "name"), [(r"at-(\d+)?", "at-"), (r"at-(.)", "at-²")])
def test_an_expression_that_finds_no_number_tells_no_step(expression: str, name: str) -> None:
    assert step_in(name, StoreSpec(path="/x/y", step_from=expression)) == (True, None)
