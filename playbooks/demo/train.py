#!/usr/bin/env python3
"""A small trainer that really learns: the next character of made-up sentences.

An embedding of the last few characters, one hidden layer, Adam. A batch is as many whole
sentences as fit into a token budget. Everything that decides the next step is in a
checkpoint, so a resumed run goes on exactly as if it had never stopped.

Where DFLASH_BUCKETS names a file of boundaries, it makes its batches, of its own sentences or
of texts as long as the samples of --dataset. This one process then stands for all ranks: a
step is what all of them would take together.

Exit codes: 0 all steps done; 75 interrupted (INT or TERM) and saved; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

for _pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_pool] = "1"  # a demo leaves the other cores alone

import numpy as np  # noqa: E402 - numpy reads the variables above when it is imported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Tokens = NDArray[np.int64]
    Params = dict[str, Floats]

LETTERS = "\n abcdefghijklmnopqrstuvwxyz,."
CONTEXT, WIDTH, HIDDEN = 8, 16, 96
TOKEN_BUDGET = 2048
SENTENCES = 3000
PRINT_EVERY = 5
LEARNING_RATE, BETA_1, BETA_2, TINY = 1e-3, 0.9, 0.999, 1e-8
INTERRUPTED, REFUSED = 75, 2
STATE = ("seed", "step", "epoch", "batch", "loss", "batching")


def sentences() -> list[Tokens]:
    """The data set: sentences of one to seven clauses; always the same ones."""
    rng = np.random.default_rng(7)
    who = ("a scheduler", "the tokenizer", "one worker", "the optimizer", "an old kernel")
    does = ("waits for", "wakes", "outruns", "forgets", "measures", "balances")
    what = ("the gradients", "a checkpoint", "every batch", "the loss", "a quiet queue")
    lines = []
    for clauses in rng.integers(1, 8, SENTENCES):
        parts = [" ".join(rng.choice(words) for words in (who, does, what)) for _ in range(clauses)]
        lines.append("\n" + ", ".join(parts) + ".")
    return [np.array([LETTERS.index(letter) for letter in line]) for line in lines]


def batches(data: list[Tokens], seed: int, epoch: int) -> Iterator[list[Tokens]]:
    """The batches of an epoch: shuffled sentences, each batch filled up to the budget."""
    batch: list[Tokens] = []
    for index in np.random.default_rng((seed, epoch)).permutation(len(data)):
        if sum(map(len, batch)) + len(data[index]) > TOKEN_BUDGET:
            yield batch
            batch = []
        batch.append(data[index])
    yield batch


class Shuffled:
    """Steps of one batch each, of whole sentences in random order."""

    fingerprint = ""

    def __init__(self, seed: int) -> None:
        self.seed, self.data = seed, sentences()

    def steps(self, epoch: int, first: int) -> Iterator[list[Tokens]]:
        """What to learn in each step of an epoch, from that step on."""
        return islice(batches(self.data, self.seed, epoch), first, None)

    def measured(self) -> str:
        """What a line says of the padding: there is none."""
        return ""


class Bucketed:
    """Steps as training on many GPUs would take them, by the boundaries of a file."""

    def __init__(self, dataset_path: str | None) -> None:
        from dflashctl.buckets import batching, dataset, diversity

        self.data = sentences()
        self.text = np.concatenate(self.data)
        self.lengths = np.array([len(line) for line in self.data])
        if dataset_path:
            self.data, self.lengths = [], dataset.read(dataset_path)
        settings = batching.load()
        group = settings.ranks * settings.accumulation
        self.sampler = batching.BatchSampler(
            self.lengths, replace(settings, ranks=1, accumulation=group)
        )
        self.fingerprint = self.sampler.fingerprint
        self.real = self.padded = 0
        first = batching.epoch_batches(self.lengths, settings, 0)
        share = self.lengths.sum() / diversity.padded_tokens(self.lengths, first).sum()
        print(
            f"{settings.strategy} batches of {len(self.lengths)} samples: {first.steps} steps of"
            f" {group} an epoch, padding efficiency {share:.4f}",
            flush=True,
        )

    def sample(self, number: int, most: int) -> Tokens:
        """A sample's first tokens: a sentence, or what stands somewhere in all of them."""
        if self.data:
            return self.data[number][:most]
        begin = number * 7919 % len(self.text)
        return self.text.take(range(begin, begin + min(most, self.lengths[number])), mode="wrap")

    def steps(self, epoch: int, first: int) -> Iterator[list[Tokens]]:
        """What to learn in each step of an epoch, from that step on.

        Of each sample it is the beginning, as far as a demo without a GPU gets in good time.
        """
        self.sampler.set_epoch(epoch, first)
        all_batches = iter(self.sampler)
        while step := list(islice(all_batches, self.sampler.settings.accumulation)):
            learnt = []
            for batch in step:
                longest = int(self.lengths[batch].max(initial=0))
                self.real += int(self.lengths[batch].sum())
                self.padded += len(batch) * longest
                most = max(1, TOKEN_BUDGET // max(1, len(batch)))
                learnt += [self.sample(number, most) for number in batch]
            yield learnt

    def measured(self) -> str:
        """What a line says of the padding so far: real over padded tokens."""
        return f" | pad {self.real / self.padded:.4f}"


def examples(batch: list[Tokens]) -> tuple[Tokens, Tokens]:
    """Each character of a batch with the ones before it, in its own sentence only."""
    padded = [np.concatenate([np.zeros(CONTEXT, np.int64), line]) for line in batch]
    windows = [np.lib.stride_tricks.sliding_window_view(line, CONTEXT)[:-1] for line in padded]
    return np.concatenate(windows), np.concatenate(batch)


def new_params(seed: int) -> Params:
    """Weights to begin with, small and random."""
    rng = np.random.default_rng(seed)
    shapes = {"embed": (len(LETTERS), WIDTH), "w1": (CONTEXT * WIDTH, HIDDEN), "b1": (HIDDEN,)}
    shapes |= {"w2": (HIDDEN, len(LETTERS)), "b2": (len(LETTERS),)}
    return {
        name: (rng.standard_normal(shape) * (len(shape) > 1) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in shapes.items()
    }


def loss_and_gradients(p: Params, context: Tokens, target: Tokens) -> tuple[float, Params]:
    """Mean cross entropy in nats for each token, and its gradient for each parameter."""
    rows = np.arange(len(target))
    x = p["embed"][context].reshape(len(target), -1)
    hidden = np.tanh(x @ p["w1"] + p["b1"])
    logits = hidden @ p["w2"] + p["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    chances = np.exp(logits)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = -float(np.log(chances[rows, target] + TINY).mean())
    d_logits = chances
    d_logits[rows, target] -= 1
    d_logits /= len(target)
    d_hidden = (d_logits @ p["w2"].T) * (1 - hidden**2)
    d_embed = np.zeros_like(p["embed"])
    np.add.at(d_embed, context, (d_hidden @ p["w1"].T).reshape(*context.shape, WIDTH))
    gradients = {"embed": d_embed, "w1": x.T @ d_hidden, "b1": d_hidden.sum(axis=0)}
    gradients |= {"w2": hidden.T @ d_logits, "b2": d_logits.sum(axis=0)}
    return loss, gradients


class Training:
    """The state of a run: parameters, Adam's two moments, and where in the data it is."""

    def __init__(self, seed: int) -> None:
        self.seed, self.step, self.epoch, self.batch, self.loss = seed, 0, 0, 0, float("nan")
        self.batching = ""
        self.params = new_params(seed)
        self.mean = {name: np.zeros_like(value) for name, value in self.params.items()}
        self.square = {name: np.zeros_like(value) for name, value in self.params.items()}

    def learn(self, batch: list[Tokens]) -> int:
        """One step of Adam on one batch; returns the number of tokens in it."""
        context, target = examples(batch)
        self.loss, gradients = loss_and_gradients(self.params, context, target)
        self.step += 1
        rate = LEARNING_RATE * np.sqrt(1 - BETA_2**self.step) / (1 - BETA_1**self.step)
        for name, gradient in gradients.items():
            self.mean[name] += (1 - BETA_1) * (gradient - self.mean[name])
            self.square[name] += (1 - BETA_2) * (gradient**2 - self.square[name])
            change = rate * self.mean[name] / (np.sqrt(self.square[name]) + TINY)
            self.params[name] -= change.astype(np.float32)
        return len(target)

    def save(self, out: Path) -> None:
        """A checkpoint folder: whole and on disk under another name, then one rename."""
        name = f"step-{self.step:08d}"
        partial = out / f".partial-{name}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        groups = {"params": self.params, "mean": self.mean, "square": self.square}
        arrays = {f"{g}.{n}": array for g, group in groups.items() for n, array in group.items()}
        np.savez(partial / "weights.npz", **arrays)  # type: ignore[arg-type]  # its stub takes the arrays' names for its own options
        state = {key: getattr(self, key) for key in STATE}
        (partial / "state.json").write_text(json.dumps(state) + "\n")
        for file in ("weights.npz", "state.json"):
            to_disk(partial / file)
        (partial / "COMPLETE").touch()
        to_disk(partial / "COMPLETE")
        to_disk(partial)
        if (out / name).exists():  # of an earlier run: a folder is not replaced by a rename
            shutil.rmtree(out / name)
        partial.rename(out / name)
        to_disk(out)
        print(f"saved {out / name}", flush=True)

    def load(self, folder: Path) -> None:
        """Everything that `save` wrote."""
        vars(self).update(json.loads((folder / "state.json").read_text()))
        with np.load(folder / "weights.npz") as arrays:
            for key in arrays.files:
                group, name = key.split(".")
                getattr(self, group)[name] = arrays[key]


def to_disk(path: Path) -> None:
    """Have the system write a file or folder out."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def latest(out: Path) -> Path | None:
    """The complete checkpoint with the highest step."""
    return max((mark.parent for mark in out.glob("step-*/COMPLETE")), default=None)


def train(training: Training, source: Shuffled | Bucketed, options: argparse.Namespace) -> int:
    """Steps until all are done or a signal comes; returns the exit code."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _frame: signals.append(caught))
    saved = training.step
    began, tokens, first = time.monotonic(), 0, training.step
    while training.step < options.steps and not signals:
        for batch in source.steps(training.epoch, training.batch):
            tokens += training.learn(batch)
            training.batch += 1
            time.sleep(options.pace)
            if training.step % PRINT_EVERY == 0:
                elapsed, done = time.monotonic() - began, training.step - first
                left = (options.steps - training.step) * elapsed / done
                print(
                    f"step {training.step} | epoch {training.epoch} | loss {training.loss:.4f}"
                    f" | {tokens / elapsed / 1000:.2f} Ktok/s{source.measured()} | ETA {left:.0f}s",
                    flush=True,
                )
            if training.step % options.every == 0:
                training.save(options.out)
                saved = training.step
            if signals or training.step >= options.steps:
                break
        else:
            training.epoch, training.batch = training.epoch + 1, 0
    if saved != training.step or not training.step:
        training.save(options.out)
    return INTERRUPTED if training.step < options.steps else 0


def main() -> int:
    """Read the options, load what there is to load, train."""
    parser = argparse.ArgumentParser(description="Learn to write made-up sentences.")
    parser.add_argument("--out", type=Path, required=True, help="the folder for checkpoints")
    parser.add_argument("--steps", type=int, default=2400, help="how many steps in all")
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--pace", type=float, default=0.08, help="seconds of rest after a step")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the order")
    parser.add_argument("--resume", choices=["latest"], help="go on from the newest checkpoint")
    parser.add_argument(
        "--dataset",
        default=os.environ.get("DATASET"),
        help="where the lengths of the samples are (DATASET), for DFLASH_BUCKETS",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    training = Training(options.seed)
    checkpoint = latest(options.out) if options.resume else None
    if checkpoint:
        training.load(checkpoint)
        print(f"resumed from {checkpoint}", flush=True)
    source: Shuffled | Bucketed = Shuffled(options.seed)
    if os.environ.get("DFLASH_BUCKETS"):
        from dflashctl.buckets.failures import BucketsError

        try:
            source = Bucketed(options.dataset)
        except BucketsError as error:
            print(f"the batches cannot be made: {error}", file=sys.stderr)
            return REFUSED
    if training.batching != source.fingerprint:
        if training.step:
            print(f"the batches have changed: epoch {training.epoch} begins anew", flush=True)
        training.batching, training.batch = source.fingerprint, 0
    code = train(training, source, options)
    print("interrupted and saved" if code else "finished", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
