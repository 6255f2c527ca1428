#!/usr/bin/env python3
"""Trains a DFlash drafter: the configuration, the loop, what is told of it.

Each rank is a process with a GPU. All of them work out the same batches and anchors and
learn their share; gradients are added up in one flat sum, divided by the weight of all their
predictions. Rank 0 alone saves; it prints, and of other machines' ranks the first one prints how
long its own part of a step takes. A signal, INT or TERM, makes all of them stop after
the same step, which is saved: a resumed run goes on as if it had never stopped.

Exit codes: 0 all epochs are done; 75 interrupted and saved; 78 refused, with the reason: nothing
was done; others: failed. torchrun has no others than 0 and 1: --outcome is a file for the code.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import math
import os
import queue
import signal
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import dflash_checkpoints as checkpoints
from dflash_data import (
    Anchors,
    BadData,
    Batch,
    BatchPrefetcher,
    Samples,
    build_batches,
    padded,
)
from dflash_model import COUNTS, GAMMAS, Drafter, HFTarget, Shape, Target, TinyTarget, draft_loss
from dflashctl.buckets.batching import EpochBatches, Settings, load
from dflashctl.buckets.failures import BucketsError

DONE, FAILED, INTERRUPTED, REFUSED = 0, 1, 75, 78
PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """Nothing was trained; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a run is, as its JSON file says. A key that is none of these is an error.

    Attributes:
        data: the folder of the data set (--data).
        checkpoints: where they are saved (--checkpoints), and ``metrics.jsonl`` beside them.
        target: ``{"path": ...}`` of a Hugging Face model, or ``TinyTarget``'s arguments.
        drafter: its `Shape`, without what the target and the data set say.
        batching: as ``settings`` and ``boundaries`` in a buckets.json; the file that
            DFLASH_BUCKETS names comes before it. ``ranks`` is the number of processes.
        strategy: ``sorted``, ``shuffle`` or ``bucketed`` in place of what either says.
        epochs, learning_rate, warmup, weight_decay, clip: AdamW with a cosine, after a warm-up
            over this part of all samples; the greatest norm of a gradient.
        gamma: how slowly a slot's weight falls; by the block's size if not given.
        anchor_density, anchors_at_most: blocks of a sample, per token that is learned.
        bf16: compute in bfloat16 (the weights stay float32); if not given, on CUDA.
        print_every, save_every: in optimizer steps.
        ahead: batches made ahead. seed: of weights and anchors.
    """

    data: str
    checkpoints: str
    target: dict[str, Any]
    drafter: dict[str, Any]
    batching: dict[str, Any] = field(default_factory=dict)
    strategy: str | None = None
    epochs: int = 6
    learning_rate: float = 6e-4
    warmup: float = 0.04
    weight_decay: float = 0.0
    clip: float = 1.0
    gamma: float | None = None
    anchor_density: float = 1 / 16
    anchors_at_most: int = 512
    bf16: bool | None = None
    print_every: int = 10
    save_every: int = 500
    ahead: int = 4
    seed: int = 0

    @classmethod
    def read(cls, path: Path, given: dict[str, Any]) -> Config:
        """The file's, with what the command line gave instead."""
        try:
            document = json.loads(path.read_text()) | given
        except (OSError, ValueError, TypeError) as error:
            raise Refused(f"{path} cannot be read: {error}") from error
        known = {one.name for one in fields(cls)}
        needed = {"data", "checkpoints", "target", "drafter"}
        if unknown := sorted(set(document) - known):
            raise Refused(f"{path}: unknown: {', '.join(unknown)}")
        if missing := sorted(needed - set(document)):
            raise Refused(f"{path}: missing: {', '.join(missing)}")
        return cls(**document)

    def settings(self, ranks: int) -> Settings:
        """How batches are made."""
        try:
            if os.environ.get("DFLASH_BUCKETS"):
                settings = load()
            else:
                rest = {key: value for key, value in self.batching.items() if key != "boundaries"}
                boundaries = list(self.batching.get("boundaries", []))
                document = {"version": 1, "settings": rest, "boundaries": boundaries}
                if not boundaries:  # whether they are needed is decided below
                    document["settings"] = {"strategy": "shuffle"} | rest
                settings = Settings.from_json(document)
            strategy: Any = self.strategy or settings.strategy
            return replace(settings, ranks=ranks, strategy=strategy)
        except BucketsError as error:
            raise Refused(f"batching: {error}") from error

    def models(self, samples: Samples) -> tuple[Target, Drafter]:
        """The target and a new drafter, the same on every rank."""
        given, vocabulary = dict(self.target), samples.meta["vocabulary"]
        target: Target
        try:
            if "path" in given:
                target = hugging = HFTarget(given["path"], torch.bfloat16)
                text = hugging.model.config.get_text_config()
                hidden, layers = text.hidden_size, text.num_hidden_layers
                vocabulary = text.vocab_size
            else:
                target = TinyTarget(vocabulary=vocabulary, **given)
                hidden, layers = given["hidden"], given["layers"]
            shape = Shape(
                hidden=hidden,
                vocabulary=vocabulary,
                target_layers=layers,
                mask_id=samples.meta["mask_id"],
                **self.drafter,
            )
        except (TypeError, KeyError) as error:
            raise Refused(f"target or drafter: {error}") from error
        torch.manual_seed(self.seed)
        return target, Drafter(shape)


class Ranks:
    """The processes that train together, and this one's place among them."""

    def __init__(self, timeout_s: float) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.leads = os.environ.get("LOCAL_RANK", "0") == "0"
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if "TORCHELASTIC_RUN_ID" in os.environ:
            # torchrun gives us a session of our own: without this we would train on when it dies.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.device == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        if self.world > 1:
            backend = "nccl" if self.device == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))

    def work_done(self) -> None:
        """Returns once this rank's own work is done: so long the others need not wait for it."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """Their sum over all ranks, in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def told(self, value: Any) -> Any:
        """What rank 0 says."""
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box)
        return box[0]

    def close(self) -> None:
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()


class Monitor:
    """Prints lines and appends to ``metrics.jsonl``, in a thread: training does not wait for it.

    Without a file it prints of its steps only what it did itself, and not even that unless it
    ``leads`` the ranks of its machine.
    """

    def __init__(self, path: Path | None, print_every: int, *, leads: bool = True) -> None:
        self.every, self._began, self._leads = print_every, time.monotonic(), leads
        self._file = path.open("a", buffering=1) if path else None
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._monitor_loop, daemon=True)
        self._thread.start()

    def tell(self, event: str, **values: Any) -> None:
        self._queue.put({"event": event, "t": time.time(), **values})

    def close(self) -> None:
        """Write what was told, and end."""
        self._queue.put(None)
        self._thread.join()

    def _monitor_loop(self) -> None:
        while (told := self._queue.get()) is not None:
            if self._file is None:
                if self._leads and told["event"] == "step" and told["step"] % self.every == 0:
                    print(f"step {told['step']} | work_s {told['work_s']:.4f}", flush=True)
                continue
            try:
                if told["event"] == "step":
                    if told["step"] % self.every == 0:
                        print(self.line(told), flush=True)
                else:
                    words = [f"{key} {value}" for key, value in told.items() if key != "t"]
                    print(" | ".join(words), flush=True)
                # JSON has no number for it; null would read as "not measured".
                told = {k: _told(v) for k, v in told.items()}
                self._file.write(json.dumps(told) + "\n")
            except OSError as error:  # a full disk: training is worth more than its report
                print(f"monitor: {error}", file=sys.stderr)

    @staticmethod
    def line(v: dict[str, Any]) -> str:
        """A step as a person reads it; tokens are real ones, pad is their share of all."""
        return (
            f"step {v['step']} | epoch {v['epoch']} {v['batch']}/{v['batches']}"
            f" | loss {v['loss']:.4f} | acc {v['accuracy']:.4f} | accept {v['accepted']:.2f}"
            f" | {v['tokens_per_s'] / 1000:.2f} Ktok/s | pad {v['efficiency']:.3f}"
            f" | lr {v['learning_rate']:.2e} | gnorm {v['grad_norm']:.3f} | ETA {v['eta_s']:.0f}s"
        )


def _told(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Training:
    """A run on one rank."""

    def __init__(self, config: Config, ranks: Ranks, monitor: Monitor, samples: Samples) -> None:
        self.config, self.ranks, self.monitor, self.samples = config, ranks, monitor, samples
        self.settings = config.settings(ranks.world)
        target, drafter = config.models(samples)
        self.bf16 = ranks.device == "cuda" if config.bf16 is None else config.bf16
        self.target = target.to(ranks.device, torch.bfloat16 if self.bf16 else torch.float32)
        self.drafter = drafter.to(ranks.device)
        self.gamma = config.gamma or GAMMAS.get(drafter.shape.block, drafter.shape.block / 2)
        self.parameters = list(self.drafter.parameters())
        # One flat buffer for all gradients: one sum over the ranks, always in the same order.
        self.gradient = torch.zeros(sum(p.numel() for p in self.parameters), device=ranks.device)
        sizes = [p.numel() for p in self.parameters]
        for parameter, part in zip(self.parameters, self.gradient.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=0.0, weight_decay=config.weight_decay, betas=(0.9, 0.95)
        )
        self.anchors = Anchors(config.anchor_density, config.anchors_at_most, config.seed)
        self.step = self.epoch = self.position = 0
        self.saved: int | None = None
        # Samples of this epoch: done before its batches were made, and done until now.
        self.before = np.zeros(len(samples), dtype=np.bool_)
        self.done = self.before.copy()
        self.stop: list[int] = []
        self.real = self.padded = 0  # tokens of this process' run
        self.began = time.monotonic()

    def plan(self) -> dict[str, Any]:
        """What decides the batches: while it is the same, a position means the same place."""
        plan = json.loads(json.dumps(asdict(self.settings)))
        return {**plan, "samples": self.samples.fingerprint}

    def resume(self, folder: Path, on_change: str | None) -> str:
        """Go on from a checkpoint; returns what was done about changed batches.

        Raises:
            Refused: it cannot go on, or not so.
        """
        try:
            content = checkpoints.load(folder)
        except checkpoints.Damaged as error:
            raise Refused(f"{error}; move it away, and the one before it is the newest") from error
        state, now = content.state, self.plan()
        if content.config != self.drafter.shape.to_json():
            raise Refused(f"{folder.name} is of a drafter of another shape")
        was = state["plan"]
        changes = [f"{k} (was {was.get(k)}, is {now[k]})" for k in now if was.get(k) != now[k]]
        if changes and on_change is None:
            raise Refused(
                f"{folder.name} was trained with other batches: {'; '.join(changes)}. Go on with"
                " --on-batching-change remaining (what this epoch has not seen yet, in new batches)"
                " or next-epoch; or start anew in an empty folder"
            )
        if on_change == "remaining" and was["samples"] != now["samples"]:
            raise Refused("the data set is another one: nothing remains of it; try next-epoch")
        self.drafter.load_state_dict(content.weights)
        self.optimizer.load_state_dict(content.training["optimizer"])
        self.step, self.epoch, self.position = state["step"], state["epoch"], state["position"]
        self.saved = self.step
        if not changes:
            self.before, self.done = (content.training[k].numpy() for k in ("before", "done"))
            return "as it was"
        assert on_change
        self.position = 0
        if on_change == "remaining":
            self.done = content.training["done"].numpy()
            self.before = self.done.copy()
            if self.done.all():
                self._next_epoch()
        elif content.training["done"].any():
            self._next_epoch()
        return on_change

    def _next_epoch(self) -> None:
        self.epoch, self.position = self.epoch + 1, 0
        self.before = np.zeros(len(self.samples), dtype=np.bool_)
        self.done = self.before.copy()

    def run(self, last_step: int | None) -> int:
        """Train until all epochs are done or something says stop; returns the exit code."""
        while self.epoch < self.config.epochs:
            batches = build_batches(
                self.samples.lengths, self.settings, self.epoch, done=self.before
            )
            rank, device = self.ranks.rank, self.ranks.device
            made = (
                padded(self.samples, numbers, self.anchors, self.epoch)
                for numbers in batches.of_rank(rank, self.position)
            )
            prefetched = BatchPrefetcher(made, self.config.ahead, device)
            try:
                if self._epoch(iter(prefetched), batches, last_step):
                    return INTERRUPTED if self._save() else FAILED
            finally:
                prefetched.close()
            self._next_epoch()
        return DONE if self._save() else FAILED

    def _epoch(self, feed: Any, batches: EpochBatches, last_step: int | None) -> bool:
        """The rest of an epoch; whether it was stopped."""
        each = batches.ranks * batches.accumulation
        for step in range(self.position, batches.steps):
            first, end = batches.offsets[[step * each, (step + 1) * each]]
            self.done[batches.samples[first:end]] = True
            stop = self._optimizer_step([next(feed) for _ in range(batches.accumulation)], batches)
            if stop or self.step == last_step:
                return True
            if self.step % self.config.save_every == 0:
                self._save()
        return False

    def _optimizer_step(self, parts: list[Batch], batches: EpochBatches) -> bool:
        """Learn from a step's batches; returns whether any rank was told to stop."""
        device, began = self.ranks.device, time.monotonic()
        self.gradient.zero_()
        slots = 2 * (self.drafter.shape.block - 1)
        sums = torch.zeros(len(COUNTS) + slots + 3, dtype=torch.float64, device=device)
        for part in parts:
            batch = {name: value.to(device, non_blocking=True) for name, value in part.items()}
            with torch.autocast(device, torch.bfloat16) if self.bf16 else nullcontext():
                result = draft_loss(
                    self.drafter, self.target, batch, self.gamma, flex=device == "cuda"
                )
            result.loss.backward()
            sums += torch.cat([result.counts, result.per_slot, batch["sizes"], sums.new_zeros(1)])
        sums[-1] += len(self.stop)
        self.ranks.work_done()
        work_s = time.monotonic() - began
        self.ranks.add_up(self.gradient)
        told = self.ranks.add_up(sums).tolist()
        v = dict(zip(COUNTS, told, strict=False))
        real, padded, stop = int(told[-3]), int(told[-2]), told[-1]
        self.gradient /= max(v["weight"], 1e-9)
        norm = float(self.gradient.norm())
        seen = self.epoch * len(self.samples) + int(self.done.sum())
        rate = self.learning_rate(seen / (self.config.epochs * len(self.samples)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(norm):  # one broken batch does not ruin the weights
            self.gradient *= min(1.0, self.config.clip / max(norm, 1e-9))
            self.optimizer.step()
        self.step, self.position = self.step + 1, self.position + 1
        self.real, self.padded = self.real + real, self.padded + padded
        now = time.monotonic()
        total = int(self.samples.lengths.sum())
        left = total * self.config.epochs * (1 - seen / (self.config.epochs * len(self.samples)))
        halves = torch.tensor(told[len(COUNTS) : len(COUNTS) + slots]).chunk(2)
        self.monitor.tell(
            "step",
            step=self.step,
            total_steps=self.step
            - self.position
            + batches.steps * (self.config.epochs - self.epoch),
            epoch=self.epoch,
            batch=self.position,
            batches=batches.steps,
            loss=v["loss"] / max(v["weight"], 1e-9),
            accuracy=v["hits"] / max(v["asked"], 1),
            accepted=v["accepted"] / max(v["blocks"], 1),
            slots=[round(x, 4) for x in (halves[0] / halves[1].clamp(min=1)).tolist()],
            learning_rate=rate,
            grad_norm=norm,
            skipped=not math.isfinite(norm),
            tokens=real,
            padded=padded,
            tokens_per_s=real / (now - began),
            work_s=work_s,
            efficiency=self.real / self.padded,
            eta_s=left / self.real * (now - self.began),
        )
        return stop > 0

    def learning_rate(self, progress: float) -> float:
        """By the part of all samples that are seen: other batches do not make it jump."""
        peak, warmup = self.config.learning_rate, self.config.warmup
        if progress < warmup:
            return peak * progress / warmup
        return peak * 0.5 * (1 + math.cos(math.pi * (progress - warmup) / max(1 - warmup, 1e-9)))

    def _save(self) -> bool:
        """Save this step, unless it is; whether it is on the disk now. Rank 0's word counts."""
        if self.saved == self.step:
            return True
        saved = True
        if self.ranks.rank == 0:
            place = {"step": self.step, "epoch": self.epoch, "position": self.position}
            content = checkpoints.Content(
                weights={k: v.detach().cpu() for k, v in self.drafter.state_dict().items()},
                config=self.drafter.shape.to_json(),
                training={
                    "optimizer": self.optimizer.state_dict(),
                    "before": torch.from_numpy(self.before),
                    "done": torch.from_numpy(self.done),
                },
                state={**place, "plan": self.plan(), "config": asdict(self.config)},
            )
            began = time.monotonic()
            try:
                folder = checkpoints.save(Path(self.config.checkpoints), self.step, content)
                took = round(time.monotonic() - began, 3)
                self.monitor.tell("checkpoint", step=self.step, saved=folder.name, save_s=took)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                saved = False
                self.monitor.tell("checkpoint_failed", step=self.step, error=str(error))
        if self.ranks.told(saved):
            self.saved = self.step
            return True
        return False


def train(options: argparse.Namespace, stop: list[int]) -> int:
    """A whole run on this rank; returns its exit code.

    Raises:
        Refused: see there. On all ranks alike.
    """
    # First of all: who refuses, does so in the company of all others.
    ranks = Ranks(options.timeout)
    given = {k: v for k in ("data", "checkpoints") if (v := getattr(options, k)) is not None}
    config = Config.read(options.config, given)
    out = Path(config.checkpoints)
    try:
        samples = Samples(Path(config.data))
    except BadData as error:
        raise Refused(str(error)) from error
    lock = checkpoints.take_folder(out) if ranks.rank == 0 else None
    folder = checkpoints.newest(out) if ranks.rank == 0 else None
    if ranks.told(ranks.rank == 0 and lock is None):
        raise Refused(f"another trainer saves in {out}")
    folder = ranks.told(folder)
    if folder and not options.resume:
        raise Refused(f"{out} holds {folder.name} of an earlier run: --resume latest, or clear it")
    metrics = out / "metrics.jsonl" if ranks.rank == 0 else None
    monitor = Monitor(metrics, config.print_every, leads=ranks.leads)
    try:
        training = Training(config, ranks, monitor, samples)
        training.stop = stop
        if folder:
            how = training.resume(folder, options.on_batching_change)
            monitor.tell("resume", step=training.step, checkpoint=folder.name, batches=how)
        code = training.run(options.stop_after_step)
        monitor.tell("exit", step=training.step, code=code)
        return code
    except BucketsError as error:
        raise Refused(f"batching: {error}") from error
    finally:
        monitor.close()
        ranks.close()
        if lock is not None:
            os.close(lock)


def main(words: list[str] | None = None) -> int:
    """Read the options, train, say how it ended."""
    parser = argparse.ArgumentParser(description="Train a DFlash drafter.")
    parser.add_argument("--config", type=Path, required=True, help="a JSON file, as Config says")
    parser.add_argument("--data", help="in place of the config's")
    parser.add_argument("--checkpoints", help="in place of the config's")
    parser.add_argument("--resume", choices=["latest"], help="go on from the newest checkpoint")
    parser.add_argument(
        "--on-batching-change",
        choices=["remaining", "next-epoch"],
        help="how to go on when batches are made in another way than before",
    )
    parser.add_argument("--stop-after-step", type=int, help="save there and exit, as by a signal")
    parser.add_argument(
        "--timeout", type=float, default=1800, help="seconds that ranks wait for each other"
    )
    parser.add_argument("--outcome", type=Path, help="where rank 0 writes its exit code")
    options = parser.parse_args(words)
    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _frame: stop.append(caught))
    try:
        code = train(options, stop)
    except Refused as reason:
        if os.environ.get("RANK", "0") == "0":
            print(f"refused: {reason}", file=sys.stderr, flush=True)
        code = REFUSED
    if options.outcome is None:
        return code
    if os.environ.get("LOCAL_RANK", "0") == "0":
        options.outcome.write_text(json.dumps({"exit_code": code}) + "\n")
    return DONE  # torchrun takes anything else for a crash


if __name__ == "__main__":
    sys.exit(main())
