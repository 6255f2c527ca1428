"""The drafter: what a block sees, what it learns, and that training is what inference does."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not here: make torch-venv")
model: Any = pytest.importorskip("dflash_model")

VOCABULARY, HIDDEN, BLOCK = 24, 32, 8


@pytest.fixture
def target() -> Any:
    return model.TinyTarget(vocabulary=VOCABULARY, hidden=HIDDEN, layers=5, seed=1)


@pytest.fixture
def drafter() -> Any:
    torch.manual_seed(5)
    shape = model.Shape(
        hidden=HIDDEN, layers=2, heads=4, kv_heads=2, head_dim=8, mlp=48, block=BLOCK,
        mask_id=20, vocabulary=VOCABULARY, target_layers=5, features=2,
    )  # fmt: skip
    drafter = model.Drafter(shape)
    for parameter in drafter.parameters():  # norms that are not all one
        parameter.data += 0.1 * torch.randn_like(parameter)
    return drafter


@pytest.fixture
def batch() -> dict[str, Any]:
    torch.manual_seed(7)
    tokens = torch.randint(0, VOCABULARY, (2, 40))
    supervised = torch.zeros(2, 40, dtype=torch.bool)
    supervised[0, 6:], supervised[1, 3:30] = True, True
    return {
        "tokens": tokens,
        "supervised": supervised,
        "anchors": torch.tensor([[8, 9, 20, 37], [4, 17, 0, 0]]),
    }


def in_training(drafter: Any, target: Any, batch: dict[str, Any], *, flex: bool = False) -> Any:
    """The logits of all slots, as training computes them: (batch, blocks, slots, vocabulary)."""
    tokens, anchors = batch["tokens"], batch["anchors"]
    noise = torch.full((*anchors.shape, BLOCK), 20)
    noise[:, :, 0] = tokens.gather(1, anchors)
    blocks = model.place_blocks(anchors, tokens.shape[1], BLOCK, flex=flex)
    features = target.features(tokens, drafter.shape.target_layer_ids)
    with torch.no_grad():
        hidden = drafter(target.embed(noise.flatten(1)), features, blocks)
        return target.head(hidden).unflatten(1, noise.shape[1:])[:, :, 1:]


def test_features_come_from_layers_spread_evenly_over_the_target() -> None:
    assert model.feature_layers(36, 5) == [1, 9, 17, 25, 33]
    assert model.feature_layers(28, 1) == [14]
    assert model.feature_layers(5, 2) == [1, 2]


def test_a_layers_feature_is_what_it_puts_out_and_not_what_it_gets(target: Any) -> None:
    tokens = torch.arange(10)[None]
    before = target.features(tokens, [1])
    target.mix[2].data.zero_()
    assert torch.equal(target.features(tokens, [1]), before), "a later layer has no part in it"
    target.mix[1].data.zero_()
    assert not torch.equal(target.features(tokens, [1]), before), "its own has"


def test_training_computes_what_inference_of_each_block_alone_does(
    drafter: Any, target: Any, batch: dict[str, Any]
) -> None:
    together = in_training(drafter, target, batch)
    for row, block in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]:
        anchor = batch["anchors"][row, block]
        alone = model.draft(drafter, target, batch["tokens"][row, : anchor + 1])
        assert (together[row, block] - alone).abs().max() < 5e-6


def test_nothing_after_the_anchor_leaks_into_a_block(
    drafter: Any, target: Any, batch: dict[str, Any]
) -> None:
    before = in_training(drafter, target, batch)
    scrambled = copy.deepcopy(batch)
    anchor = 20
    scrambled["tokens"][0, anchor + 1 :] = torch.randint(0, VOCABULARY, (40 - anchor - 1,))
    after = in_training(drafter, target, scrambled)
    assert not torch.equal(after[0, 3], before[0, 3]), "the scrambling can be seen at all"
    assert (after[0, :3] - before[0, :3]).abs().max() == 0


def test_a_block_does_not_see_another_one(drafter: Any, target: Any, batch: dict[str, Any]) -> None:
    before = in_training(drafter, target, batch)
    batch["anchors"][0, 0] = 30
    after = in_training(drafter, target, batch)
    assert not torch.equal(after[0, 0], before[0, 0])
    assert (after[0, 1:] - before[0, 1:]).abs().max() == 0


def test_padding_changes_nothing(drafter: Any, target: Any, batch: dict[str, Any]) -> None:
    whole = in_training(drafter, target, batch)
    shorter = {name: value[1:] for name, value in batch.items()}
    shorter = {"tokens": shorter["tokens"][:, :30], "anchors": shorter["anchors"][:, :2]}
    assert (in_training(drafter, target, shorter)[0] - whole[1, :2]).abs().max() < 5e-6


def test_flex_attention_has_the_same_mask(drafter: Any, target: Any, batch: dict[str, Any]) -> None:
    dense = in_training(drafter, target, batch)
    flex = in_training(drafter, target, batch, flex=True)
    assert (flex - dense).abs().max() < 5e-6


def test_slots_count_less_and_less_up_to_the_first_token_that_is_not_learned() -> None:
    supervised = torch.tensor([1.0, 1.0, 0.0, 1.0])
    weights = model.slot_weights(supervised, 4.0).tolist()
    assert weights == pytest.approx([1.0, math.exp(-1 / 4), 0.0, 0.0])


def test_the_loss_is_that_of_slot_k_against_the_token_k_behind_the_anchor(
    drafter: Any, target: Any, batch: dict[str, Any]
) -> None:
    logits = in_training(drafter, target, batch).double().log_softmax(-1).numpy()
    tokens, learned = batch["tokens"].numpy(), batch["supervised"].numpy()
    expected = weight = hits = accepted = 0.0
    for row, anchors in enumerate(batch["anchors"].tolist()):
        for block, anchor in enumerate(anchors):
            taken = anchor > 0
            for k in range(1, BLOCK):
                at = anchor + k
                if anchor == 0 or at >= 40 or not learned[row, at]:
                    break
                each = math.exp(-(k - 1) / 4.0)
                expected -= each * logits[row, block, k - 1, tokens[row, at]]
                weight += each
                hit = logits[row, block, k - 1].argmax() == tokens[row, at]
                hits += hit
                taken = taken and hit
                accepted += taken
            accepted += anchor > 0
    sums = model.draft_loss(drafter, target, batch, 4.0, flex=False)
    counts = dict(zip(model.COUNTS, sums.counts.tolist(), strict=True))
    assert sums.loss.item() == pytest.approx(expected, rel=1e-5)
    assert counts["weight"] == pytest.approx(weight, rel=1e-6)
    assert (counts["hits"], counts["accepted"], counts["blocks"]) == (hits, accepted, 6)


def test_logits_in_chunks_give_the_same_gradient(
    drafter: Any, target: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients = []
    for chunk in (2048, 5):
        monkeypatch.setattr(model, "CHUNK", chunk)
        drafter.zero_grad()
        model.draft_loss(drafter, target, batch, 4.0, flex=False).loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in drafter.parameters()]))
    assert gradients[0].norm() > 1
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[0].norm()


def test_only_the_drafter_learns(drafter: Any, target: Any, batch: dict[str, Any]) -> None:
    model.draft_loss(drafter, target, batch, 4.0, flex=False).loss.backward()
    assert all(p.grad is None for p in target.parameters())
    assert all(p.grad is not None and p.grad.norm() > 0 for p in drafter.parameters())


def test_bfloat16_gives_nearly_the_same_loss_and_a_gradient_in_float32(
    drafter: Any, target: Any, batch: dict[str, Any]
) -> None:
    exact = model.draft_loss(drafter, target, batch, 4.0, flex=False).loss.item()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.draft_loss(drafter, target.bfloat16(), batch, 4.0, flex=False).loss
    loss.backward()
    assert loss.item() == pytest.approx(exact, rel=0.05)
    assert all(p.grad.dtype == torch.float32 for p in drafter.parameters())


def test_a_batch_without_samples_weighs_nothing(drafter: Any, target: Any) -> None:
    empty = {
        "tokens": torch.zeros(1, 2, dtype=torch.long),
        "supervised": torch.zeros(1, 2, dtype=torch.bool),
        "anchors": torch.zeros(1, 1, dtype=torch.long),
    }
    sums = model.draft_loss(drafter, target, empty, 4.0, flex=False)
    sums.loss.backward()
    assert np.count_nonzero(sums.counts.numpy()) == 0
