"""The drafter: a small model that guesses a whole block of a target model's next tokens at once.

The target is frozen. While it computes the tokens that are accepted already, the hidden
states of a few of its layers are picked up: they are the *context features*. A block begins
with the *anchor*, the one token that is known but not yet computed by the target; behind it
stand mask tokens. Each of the drafter's layers lets the block look at all features before the
anchor and, in both directions, at itself. What then stands in slot k, put through the target's
own head, predicts the token at anchor + k. The target checks the whole block in one pass.

Training draws many anchors in each sample and learns their blocks side by side: blocks share
the features and do not see each other. One block is exactly what inference computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

GAMMAS = {16: 7.0, 10: 5.0, 8: 4.0}
CHUNK = 2048  # so many predictions at a time have logits: a vocabulary is wide


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Everything about a drafter but its weights.

    The hidden size and the vocabulary are the target's, whose embeddings and head it uses.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    block: int
    mask_id: int
    vocabulary: int
    target_layers: int
    features: int
    rope_theta: float = 1e6
    eps: float = 1e-6

    @property
    def target_layer_ids(self) -> list[int]:
        return feature_layers(self.target_layers, self.features)

    def to_json(self) -> dict[str, Any]:
        """The ``config.json`` of a checkpoint, in the layout of published DFlash drafters."""
        return {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "torch_dtype": "float32",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.mlp,
            "vocab_size": self.vocabulary,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.eps,
            "block_size": self.block,
            "num_target_layers": self.target_layers,
            "dflash_config": {
                "mask_token_id": self.mask_id,
                "target_layer_ids": self.target_layer_ids,
            },
        }


def feature_layers(layers: int, count: int) -> list[int]:
    """Which of the target's layers give features: evenly from the second to the last but two."""
    if count == 1:
        return [layers // 2]
    return [round(1 + i * (layers - 4) / (count - 1)) for i in range(count)]


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary positions, on (batch, heads, tokens, head_dim) at (batch, tokens)."""
    half = x.shape[-1] // 2
    rates = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = positions[:, None, :, None].float() * rates
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


class MLP(nn.Module):
    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return down


class Blocks(NamedTuple):
    """Where the blocks of a batch stand.

    anchors: (batch, blocks) positions. positions: (batch, context + blocks * block) of every
    key. attend: from queries, keys and values to what they give.
    """

    anchors: Tensor
    positions: Tensor
    attend: Callable[[Tensor, Tensor, Tensor], Tensor]


def visible(anchors: Tensor, context: int, block: int) -> Callable[..., Tensor]:
    """The mask: what a query may look at. Both count tokens; keys are the context, then noise."""

    def rule(batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        mine = query // block
        before = (key < context) & (key < anchors[batch, mine])
        same = (key >= context) & ((key - context) // block == mine)
        return before | same

    return rule


@cache
def compiled_flex() -> Callable[..., Any]:
    return torch.compile(flex_attention, dynamic=True)


def place_blocks(anchors: Tensor, context: int, block: int, *, flex: bool) -> Blocks:
    """Lay the blocks out, and choose how attention is computed: flex on CUDA, dense elsewhere."""
    batch, count = anchors.shape
    device = anchors.device
    noise = (anchors[:, :, None] + torch.arange(block, device=device)).flatten(1)
    positions = torch.cat([torch.arange(context, device=device).expand(batch, -1), noise], dim=1)
    queries, keys = count * block, context + count * block
    rule = visible(anchors, context, block)
    attend: Callable[[Tensor, Tensor, Tensor], Tensor]
    if flex:
        blocks = create_block_mask(rule, batch, None, queries, keys, device=device)
        flexible: Any = compiled_flex() if device.type == "cuda" else flex_attention

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out: Tensor = flexible(q, k, v, block_mask=blocks, enable_gqa=True)
            return out
    else:
        rows = torch.arange(batch, device=device)[:, None, None]
        q_index = torch.arange(queries, device=device)[None, :, None]
        mask = rule(rows, rows, q_index, torch.arange(keys, device=device)[None, None])[:, None]

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    return Blocks(anchors, positions, attend)


class Attention(nn.Module):
    """Queries from the block; keys and values from the features and the block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        s, self.shape = shape, shape
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = RMSNorm(s.head_dim, s.eps)
        self.k_norm = RMSNorm(s.head_dim, s.eps)

    def forward(self, noise: Tensor, features: Tensor, blocks: Blocks) -> Tensor:
        s, source = self.shape, torch.cat([features, noise], dim=1)
        q = self.q_norm(self.q_proj(noise).unflatten(-1, (s.heads, s.head_dim)))
        k = self.k_norm(self.k_proj(source).unflatten(-1, (s.kv_heads, s.head_dim)))
        v = self.v_proj(source).unflatten(-1, (s.kv_heads, s.head_dim)).transpose(1, 2)
        at = blocks.positions
        q = rotate(q.transpose(1, 2), at[:, features.shape[1] :], s.rope_theta).to(v.dtype)
        k = rotate(k.transpose(1, 2), at, s.rope_theta).to(v.dtype)
        out: Tensor = self.o_proj(blocks.attend(q, k, v).transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.mlp = MLP(shape.hidden, shape.mlp)

    def forward(self, x: Tensor, features: Tensor, blocks: Blocks) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), features, blocks)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Drafter(nn.Module):
    """All that is trained."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.features * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm = RMSNorm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)

    def forward(self, noise: Tensor, features: Tensor, blocks: Blocks) -> Tensor:
        """Hidden states of all slots, for the target's head.

        Args:
            noise: (batch, blocks * block, hidden), the embedded anchors and mask tokens.
            features: (batch, context, features * hidden), as the target gave them.
            blocks: where they stand.
        """
        context = self.hidden_norm(self.fc(features))
        for layer in self.layers:
            noise = layer(noise, context, blocks)
        out: Tensor = self.norm(noise)
        return out


class Target(nn.Module):
    """The frozen model: its embeddings, its head, its hidden states."""

    embed: nn.Module
    head: nn.Module

    def features(self, tokens: Tensor, layer_ids: list[int]) -> Tensor:
        """Of each token, what these layers put out, side by side."""
        raise NotImplementedError


class TinyTarget(Target):
    """A small random causal model for tests. Its head is not near flat, or nothing is learned."""

    def __init__(self, *, vocabulary: int, hidden: int, layers: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embed = nn.Embedding(vocabulary, hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.mix = nn.ParameterList(torch.empty(4, hidden, hidden) for _ in range(layers))
        for weights in self.parameters():
            nn.init.normal_(weights, std=hidden**-0.5, generator=generator)
        nn.init.normal_(self.embed.weight, generator=generator)
        self.requires_grad_(False)

    @torch.no_grad()
    def features(self, tokens: Tensor, layer_ids: list[int]) -> Tensor:
        x = self.embed(tokens)
        states = [x]
        for weights in self.mix:
            q, k, v = (functional.rms_norm(x, x.shape[-1:]) @ weights[i] for i in range(3))
            x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + functional.silu(functional.rms_norm(x, x.shape[-1:]) @ weights[3])
            states.append(x)
        return torch.cat([states[i + 1] for i in layer_ids], dim=-1)


class HFTarget(Target):
    """A causal language model in Hugging Face's format."""

    def __init__(self, path: str, dtype: torch.dtype) -> None:
        super().__init__()
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        self.embed, self.head = self.model.get_input_embeddings(), self.model.lm_head
        self.requires_grad_(False)

    @torch.no_grad()
    def features(self, tokens: Tensor, layer_ids: list[int]) -> Tensor:
        # Padding is on the right, where a causal model's real tokens do not see it.
        out = self.model(tokens, output_hidden_states=True, use_cache=False, logits_to_keep=1)
        return torch.cat([out.hidden_states[i + 1] for i in layer_ids], dim=-1)


class Sums(NamedTuple):
    """What a batch adds to loss and metrics: numerators and denominators, never ratios.

    loss: the weighted cross entropy, with its gradient. counts: see `COUNTS`; per_slot: hits
    of slots 1, 2, ..., then how often each was asked for.
    """

    loss: Tensor
    counts: Tensor
    per_slot: Tensor


COUNTS = ("loss", "weight", "hits", "asked", "accepted", "blocks")


def slot_weights(supervised: Tensor, gamma: float) -> Tensor:
    """Slot k counts exp(-(k-1)/gamma), up to the first token that nobody supervises."""
    slots = torch.arange(supervised.shape[-1], device=supervised.device)
    return supervised.cumprod(-1) * torch.exp(-slots / gamma)


def draft_loss(
    drafter: Drafter, target: Target, batch: dict[str, Tensor], gamma: float, *, flex: bool
) -> Sums:
    """The loss of all blocks of a batch.

    Args:
        drafter: what learns.
        target: what it learns to foretell.
        batch: ``tokens`` and ``supervised`` (batch, length), ``anchors`` (batch, blocks), 0
            where a sample has fewer blocks than others.
        gamma: how slowly slots lose weight.
        flex: compute attention block-sparse, for CUDA.
    """
    tokens, anchors, shape = batch["tokens"], batch["anchors"], drafter.shape
    features = target.features(tokens, shape.target_layer_ids)
    known = tokens.gather(1, anchors)
    noise = known.new_full((*known.shape, shape.block), shape.mask_id)
    noise[:, :, 0] = known
    blocks = place_blocks(anchors, tokens.shape[1], shape.block, flex=flex)
    hidden = drafter(target.embed(noise.flatten(1)), features, blocks)
    hidden = hidden.unflatten(1, noise.shape[1:])[:, :, 1:]

    at = anchors[:, :, None] + torch.arange(1, shape.block, device=anchors.device)
    inside = (at < tokens.shape[1]) & (anchors > 0)[:, :, None]
    at = at.clamp(max=tokens.shape[1] - 1).flatten(1)
    labels = tokens.gather(1, at).view_as(inside)
    supervised = batch["supervised"].gather(1, at).view_as(inside) & inside
    weights = slot_weights(supervised.float(), gamma)

    asked = weights > 0
    loss, hit = _scored(target.head, hidden[asked], labels[asked], weights[asked])
    hits = torch.zeros_like(weights)
    hits[asked] = hit
    per_slot = torch.cat([hits.sum((0, 1)), asked.float().sum((0, 1))])
    accepted = hits.cumprod(-1).sum() + (anchors > 0).sum()  # the anchor itself is one of them
    counts = torch.stack(
        [loss.detach(), weights.sum(), hits.sum(), asked.sum(), accepted, (anchors > 0).sum()]
    )
    return Sums(loss, counts.double(), per_slot.double())


def _scored(
    head: nn.Module, hidden: Tensor, labels: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The weighted cross entropy and the hits, a chunk's logits at a time in memory."""

    def score(h: Tensor, label: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        logits = head(h).float()
        loss = (functional.cross_entropy(logits, label, reduction="none") * weight).sum()
        return loss, (logits.argmax(-1) == label).float()

    parts = zip(hidden.split(CHUNK), labels.split(CHUNK), weights.split(CHUNK), strict=True)
    scored = [checkpoint(score, *part, use_reentrant=False) for part in parts]
    return torch.stack([loss for loss, _ in scored]).sum(), torch.cat([hit for _, hit in scored])


@torch.no_grad()
def draft(drafter: Drafter, target: Target, tokens: Tensor) -> Tensor:
    """Inference: guess what follows the last token. One sequence; its last token is the anchor."""
    shape, anchor = drafter.shape, tokens.numel() - 1
    features = target.features(tokens[None, :anchor], shape.target_layer_ids)
    noise = tokens.new_full((1, shape.block), shape.mask_id)
    noise[0, 0] = tokens[anchor]
    blocks = place_blocks(noise.new_full((1, 1), anchor), anchor, shape.block, flex=False)
    logits = target.head(drafter(target.embed(noise), features, blocks))[0, 1:]
    return torch.as_tensor(logits)
