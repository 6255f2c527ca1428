"""The samples on disk, and the batches that training makes of them.

A data set is a folder: ``meta.json``, ``lengths.npy`` (int32, tokens of each sample),
``tokens.bin`` and ``loss_mask.bin`` (one sample behind the other; 1 where the token was
written by the target, and is learned). Nothing is read before it is asked for.

Nothing random is kept between steps: an epoch's batches are a function of lengths, settings
and epoch, a sample's anchors of seed, epoch and sample. A resumed run needs no more than to
know how far it was.

    dflash_data.py synthetic OUT [--samples N]     what the tests learn
    dflash_data.py jsonl OUT --from FILE ...       lines with input_ids and loss_mask
    dflash_data.py arrow OUT --from FILE ...       files of Hugging Face datasets, by pyarrow
    dflash_data.py verify OUT                      are the files those that were written?
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dflashctl.buckets.batching import EpochBatches, Settings, epoch_batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Batch = dict[str, torch.Tensor]

FORMAT, VERSION = "dflash-samples", 1
FILES = ("lengths.npy", "tokens.bin", "loss_mask.bin")


class BadData(Exception):
    """The folder holds no data set that this version reads; the text says why."""


class Samples:
    """A data set, memory-mapped.

    Raises:
        BadData: see there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.meta = json.loads((folder / "meta.json").read_text())
            self.lengths: Array = np.load(folder / "lengths.npy")
            if (self.meta["format"], self.meta["version"]) != (FORMAT, VERSION):
                raise BadData(f"{folder} has another format or version than {FORMAT} {VERSION}")
            self.tokens: Array = np.memmap(folder / "tokens.bin", self.meta["dtype"], "r")
            self.loss_mask: Array = np.memmap(folder / "loss_mask.bin", np.uint8, "r")
        except (OSError, ValueError, KeyError) as error:
            raise BadData(f"{folder} cannot be read: {error!r}") from error
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        if not len(self.tokens) == len(self.loss_mask) == self.offsets[-1]:
            raise BadData(f"{folder}: tokens and lengths do not fit each other")

    def __len__(self) -> int:
        return len(self.lengths)

    def sample(self, number: int) -> tuple[Array, Array]:
        """Its tokens, and which of them are learned."""
        begin, end = self.offsets[number : number + 2]
        return self.tokens[begin:end].astype(np.int64), self.loss_mask[begin:end] > 0

    @property
    def fingerprint(self) -> str:
        """Equal where the samples are."""
        return hashlib.sha256(json.dumps(self.meta["sha256"]).encode()).hexdigest()

    def damaged(self) -> list[str]:
        """The files that are not as they were written."""
        return [name for name in FILES if sha256(self.folder / name) != self.meta["sha256"][name]]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(
    folder: Path, samples: Iterable[tuple[Array, Array]], *, vocabulary: int, mask_id: int
) -> None:
    """Write a data set of (tokens, loss mask); the folder is there once it is whole."""
    partial = folder.with_name(f".partial-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    dtype, lengths = np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4"), []
    with (partial / FILES[1]).open("wb") as tokens, (partial / FILES[2]).open("wb") as masks:
        for number, (ids, mask) in enumerate(samples):
            if len(ids) != len(mask) or not len(ids) or not 0 <= min(ids) <= max(ids) < vocabulary:
                raise BadData(f"sample {number}: ids outside of the vocabulary, or a wrong mask")
            lengths.append(len(ids))
            tokens.write(np.asarray(ids).astype(dtype).tobytes())
            masks.write(np.asarray(mask).astype(np.uint8).tobytes())
    np.save(partial / FILES[0], np.array(lengths, dtype=np.int32))
    meta = {"format": FORMAT, "version": VERSION, "samples": len(lengths), "dtype": dtype.str}
    meta |= {"vocabulary": vocabulary, "mask_id": mask_id}
    meta |= {"sha256": {name: sha256(partial / name) for name in FILES}}
    (partial / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)


def synthetic(count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Samples that can be learned only through the conditioning.

    A prompt names one of four permutations of 16 letters, and the answer walks along it:
    what follows a letter nobody knows who does not see the prompt or the answer so far.
    """
    follows, fixed = np.zeros((4, 16), dtype=np.int64), np.random.default_rng(1)
    for row in follows:
        cycle = fixed.permutation(16)
        row[cycle] = np.roll(cycle, -1)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        name, letter = int(rng.integers(4)), int(rng.integers(16))
        prompt = np.full(int(rng.integers(4, 13)), 16 + name)
        answer = []
        for _ in range(int(np.clip(rng.lognormal(4.0, 0.8), 12, 500))):
            answer.append(letter)
            letter = int(follows[name, letter])
        yield np.concatenate([prompt, answer]), np.repeat([0, 1], [len(prompt), len(answer)])


def from_jsonl(paths: Sequence[Path]) -> Iterator[tuple[Array, Array]]:
    """Lines with ``input_ids`` and ``loss_mask``."""
    for path in paths:
        with path.open() as lines:
            for line in lines:
                one = json.loads(line)
                yield np.array(one["input_ids"]), np.array(one["loss_mask"])


def from_arrow(paths: Sequence[Path]) -> Iterator[tuple[Array, Array]]:
    """The same columns in the Arrow files of Hugging Face datasets."""
    import pyarrow as pa

    for path in paths:
        with pa.memory_map(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                ids, masks = batch.column("input_ids"), batch.column("loss_mask")
                for one, mask in zip(ids, masks, strict=True):
                    yield np.array(one.as_py()), np.array(mask.as_py())


def build_batches(
    lengths: Array, settings: Settings, epoch: int, *, done: Array | None = None
) -> EpochBatches:
    """The batches of an epoch, for all ranks, of the samples that are not done in it yet.

    Every rank works out the same list, and takes every ranks-th of it.
    """
    if done is None or not done.any():
        return epoch_batches(lengths, settings, epoch)
    left = np.flatnonzero(~done)
    batches = epoch_batches(lengths[left], settings, epoch)
    return replace(batches, samples=left[batches.samples])


@dataclass(frozen=True, slots=True)
class Anchors:
    """Where a sample's blocks begin: at tokens that are learned, as is the one behind them.

    As many as ``density`` says for each token that is learned, at most ``most``. (As many in
    each sample, and a short one would cost more than its padded tokens say: the token budget
    would mean nothing.)
    """

    density: float
    most: int
    seed: int

    def of(self, learned: Array, epoch: int, number: int) -> Array:
        """A sample's, the same ones whenever it is asked for in this epoch."""
        places = np.flatnonzero(learned[:-1] & learned[1:])
        places = places[places > 0]
        count = min(len(places), self.most, max(1, round(float(learned.sum()) * self.density)))
        drawn = np.random.default_rng((self.seed, epoch, number)).choice(places, count, False)
        return np.sort(drawn)


def padded(samples: Samples, numbers: list[int], anchors: Anchors, epoch: int) -> Batch:
    """A batch as long as its longest sample. One without samples has nothing to learn.

    ``sizes``: its real tokens, and those with the padding.
    """
    found = [samples.sample(number) for number in numbers]
    starts = [anchors.of(mask, epoch, n) for n, (_, mask) in zip(numbers, found, strict=True)]
    rows, length = max(1, len(found)), max([2, *(len(ids) for ids, _ in found)])
    batch = {
        "tokens": np.zeros((rows, length), dtype=np.int64),
        "supervised": np.zeros((rows, length), dtype=np.bool_),
        "anchors": np.zeros((rows, max([1, *map(len, starts)])), dtype=np.int64),
        "sizes": np.array([sum(len(ids) for ids, _ in found), length * len(found)]),
    }
    for row, ((ids, mask), places) in enumerate(zip(found, starts, strict=True)):
        batch["tokens"][row, : len(ids)] = ids
        batch["supervised"][row, : len(ids)] = mask
        batch["anchors"][row, : len(places)] = places
    return {name: torch.from_numpy(value) for name, value in batch.items()}


class BatchPrefetcher:
    """Makes batches in a thread, some ahead of training.

    What goes wrong there is raised where the batch is asked for. How far training is only
    training knows: what was made ahead is forgotten at a stop.
    """

    def __init__(self, source: Iterable[Batch], ahead: int, device: str) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(ahead)
        self._over = threading.Event()
        self._pin = device == "cuda"
        self._source = source
        self._thread = threading.Thread(target=self._feed_loop, daemon=True)
        self._thread.start()

    def _feed_loop(self) -> None:
        try:
            for batch in self._source:
                pinned = {k: v.pin_memory() for k, v in batch.items()} if self._pin else batch
                if not self._put(pinned):
                    return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: object) -> bool:
        while not self._over.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[Batch]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()


def main() -> int:
    """The converters."""
    parser = argparse.ArgumentParser(description="Make or check a data set.")
    parser.add_argument("what", choices=["synthetic", "jsonl", "arrow", "verify"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="sources", type=Path, nargs="+", default=[])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--vocabulary", type=int, default=24)
    parser.add_argument("--mask-id", type=int, default=20)
    options = parser.parse_args()
    if options.what == "verify":
        damaged = Samples(options.out).damaged()
        print(f"damaged: {', '.join(damaged)}" if damaged else "as it was written")
        return 1 if damaged else 0
    samples = {
        "synthetic": lambda: synthetic(options.samples),
        "jsonl": lambda: from_jsonl(options.sources),
        "arrow": lambda: from_arrow(options.sources),
    }[options.what]()
    write(options.out, samples, vocabulary=options.vocabulary, mask_id=options.mask_id)
    print(f"{len(Samples(options.out)):,} samples in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
