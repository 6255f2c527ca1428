"""The trainer really trains: by the conditioning, for inference, at the speed foretold."""

from __future__ import annotations

import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dflashctl.buckets.batching import Settings, epoch_batches

from .conftest import DFLASH

torch: Any = pytest.importorskip("torch", reason="torch is not here: make torch-venv")
dflash_data: Any = pytest.importorskip("dflash_data")
dflash_model: Any = pytest.importorskip("dflash_model")
pipeline: Any = pytest.importorskip("train_dflash_pipeline")


@pytest.fixture(scope="module")
def smoke_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smoke") / "data"
    dflash_data.write(folder, dflash_data.synthetic(400), vocabulary=24, mask_id=20)
    return folder


def train(data: Path, out: Path, **changes: Any) -> list[dict[str, Any]]:
    """A run of smoke.json in this process; its steps."""
    torch.set_num_threads(1)
    config = json.loads((DFLASH / "smoke.json").read_text()) | changes
    path = out.with_suffix(".json")
    path.write_text(json.dumps(config | {"data": str(data), "checkpoints": str(out)}))
    assert pipeline.main(["--config", str(path)]) == 0
    told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [one for one in told if one["event"] == "step"]


def of_last_epoch(steps: list[dict[str, Any]], name: str) -> float:
    last = steps[-1]["epoch"]
    return float(np.mean([step[name] for step in steps if step["epoch"] == last]))


@pytest.fixture(scope="module")
def trained(smoke_data: Path) -> Path:
    out = smoke_data.parent / "trained"
    steps = train(smoke_data, out)
    assert steps[0]["loss"] > 2.5
    assert of_last_epoch(steps, "loss") < 0.6
    assert of_last_epoch(steps, "accuracy") > 0.85
    assert of_last_epoch(steps, "accepted") > 6
    return out


class Inference:
    """One inference step, written anew in numpy from the two published files alone."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self.w = load_file(folder / "drafter.safetensors")
        self.c = json.loads((folder / "config.json").read_text())

    def norm(self, x: Any, name: str) -> Any:
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"])
        return x / scale * self.w[f"{name}.weight"]

    def heads(self, x: Any, name: str, count: int, at: Any = None) -> Any:
        """(heads, tokens, head_dim) of a projection; normed and rotated where ``at`` says."""
        out = (x @ self.w[f"{name}_proj.weight"].T).reshape(len(x), count, self.c["head_dim"])
        if at is None:
            return out.swapaxes(0, 1)
        out = self.norm(out, f"{name}_norm").swapaxes(0, 1)
        half = self.c["head_dim"] // 2
        angle = at[:, None] * self.c["rope_theta"] ** (-np.arange(half) / half)
        turned = (out[..., :half] + 1j * out[..., half:]) * np.exp(1j * angle)
        return np.concatenate([turned.real, turned.imag], axis=-1)

    def draft(self, features: Any, noise: Any, head: Any) -> Any:
        """Logits of slots 1, 2, ...: features (anchor, all of them), noise (block, hidden)."""
        c, anchor = self.c, len(features)
        context = self.norm(features @ self.w["fc.weight"].T, "hidden_norm")
        at, x = np.arange(anchor + len(noise)), noise
        for layer in range(c["num_hidden_layers"]):
            name = f"layers.{layer}"
            normed = self.norm(x, f"{name}.input_layernorm")
            source = np.concatenate([context, normed])
            q = self.heads(normed, f"{name}.self_attn.q", c["num_attention_heads"], at[anchor:])
            k = self.heads(source, f"{name}.self_attn.k", c["num_key_value_heads"], at)
            v = self.heads(source, f"{name}.self_attn.v", c["num_key_value_heads"])
            share = len(q) // len(k)
            scores = q @ np.repeat(k, share, 0).swapaxes(1, 2) / np.sqrt(c["head_dim"])
            chances = np.exp(scores - scores.max(-1, keepdims=True))
            chances /= chances.sum(-1, keepdims=True)
            mixed = (chances @ np.repeat(v, share, 0)).swapaxes(0, 1).reshape(len(x), -1)
            x = x + mixed @ self.w[f"{name}.self_attn.o_proj.weight"].T
            normed = self.norm(x, f"{name}.post_attention_layernorm")
            gate = normed @ self.w[f"{name}.mlp.gate_proj.weight"].T
            up = normed @ self.w[f"{name}.mlp.up_proj.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.w[f"{name}.mlp.down_proj.weight"].T
        return (self.norm(x, "norm") @ head.T)[1:]


def test_what_was_trained_drafts_in_an_inference_that_knows_only_its_files(
    trained: Path, smoke_data: Path
) -> None:
    inference = Inference(trained / "latest")
    target = dflash_model.TinyTarget(vocabulary=24, hidden=64, layers=5, seed=0)
    embed, head = target.embed.weight.numpy(), target.head.weight.numpy()
    ids, block = inference.c["dflash_config"], inference.c["block_size"]
    checked = pipeline.checkpoints.load((trained / "latest").resolve())
    shape = {"hidden": 64, "vocabulary": 24, "target_layers": 5, "mask_id": 20}
    config = json.loads((DFLASH / "smoke.json").read_text())
    drafter = dflash_model.Drafter(dflash_model.Shape(**shape, **config["drafter"]))
    drafter.load_state_dict(checked.weights)
    hits = []
    for tokens, _ in dflash_data.synthetic(40, seed=99):  # none that it was trained on
        anchor = min(len(tokens) - block, 30)
        given = torch.from_numpy(tokens[: anchor + 1])
        features = target.features(given[None, :anchor], ids["target_layer_ids"])[0].numpy()
        noise = embed[[tokens[anchor], *[ids["mask_token_id"]] * (block - 1)]]
        logits = inference.draft(features, noise, head)
        assert np.abs(logits - dflash_model.draft(drafter, target, given).numpy()).max() < 1e-4
        hits.append((logits.argmax(-1) == tokens[anchor + 1 : anchor + block]).mean())
    assert np.mean(hits) > 0.8


def test_without_the_targets_features_it_learns_next_to_nothing(
    smoke_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path
) -> None:
    del trained  # with them it does
    seen = dflash_model.TinyTarget.features
    monkeypatch.setattr(dflash_model.TinyTarget, "features", lambda *words: seen(*words) * 0)
    steps = train(smoke_data, tmp_path / "out")
    assert of_last_epoch(steps, "loss") > 1.2
    assert of_last_epoch(steps, "accuracy") < 0.45


def test_tokens_a_second_are_in_proportion_to_the_efficiency_that_was_foretold(
    smoke_data: Path, tmp_path: Path
) -> None:
    lengths = np.load(smoke_data / "lengths.npy")
    config = json.loads((DFLASH / "smoke.json").read_text())
    boundaries = tuple(config["batching"].pop("boundaries"))
    settings = Settings(boundaries=boundaries, **config["batching"])
    foretold: dict[str, float] = {}
    measured: dict[str, float] = {}
    speed: dict[str, float] = dict.fromkeys(("sorted", "bucketed", "shuffle"), 0.0)
    for strategy in speed:
        document = settings.to_json()
        document["settings"]["strategy"] = strategy
        batches = epoch_batches(lengths, Settings.from_json(document), 0)
        padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
        foretold[strategy] = float(lengths.sum()) / padded
    for attempt, strategy in product(range(3), speed):  # others disturb: the best one counts
        out = tmp_path / f"{strategy}-{attempt}"
        begun = time.process_time()  # of this process only
        steps = train(smoke_data, out, epochs=1, strategy=strategy, print_every=100)
        speed[strategy] = max(speed[strategy], lengths.sum() / (time.process_time() - begun))
        measured[strategy] = steps[-1]["efficiency"]
    assert measured == pytest.approx(foretold, abs=1e-9)
    assert foretold["sorted"] > foretold["bucketed"] > 1.3 * foretold["shuffle"]
    for strategy in ("sorted", "shuffle"):
        ratio = speed[strategy] / speed["bucketed"]
        assert ratio == pytest.approx(foretold[strategy] / foretold["bucketed"], rel=0.15)
