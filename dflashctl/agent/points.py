"""From the values of single lines to points of a series: one for each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dflashctl.agent.lines import Lines
from dflashctl.agent.metrics import METRICS, Values, read_line

# A rank that prints late is this many strides behind at most; what is further back counts anew.
LAG = 2


class Points:
    """Brings together what several lines say of one step, and passes over what disturbs:

    ranks other than the lowest that reports, ranks that lag, and bars of side work.
    """

    def __init__(self) -> None:
        self._step: float | None = None
        self._stride = 1.0
        self._known: set[str] = set()
        self._open: Values = {}
        self._rank: float | None = None
        self._bar: tuple[float, bool] | None = None
        self._epoch: float | None = None
        self._epochs: float | None = None
        self._by_epoch = False

    def add(self, values: Values) -> list[Values]:
        """Take in a line's values; the points that it completes."""
        values = dict(values)
        if not values or self._of_another_rank(values) or self._of_a_side_bar(values):
            return []
        self._within_epoch(values)
        if self._step is not None and values.keys() <= {"epoch"}:
            return []  # the head of an epoch says nothing of the step before it
        step = values.get("step")
        if step is not None and self._step is not None and step != self._step:
            if self._step - LAG * self._stride <= step < self._step:
                return []
            if step > self._step:
                self._stride = step - self._step
        done: list[Values] = []
        if (step is not None and step != self._step) or (
            self._step is None and self._known & values.keys() - {"total_steps"}
        ):
            done = self.flush()
            self._known = set()
            self._step = step
        for name in METRICS:
            if name in values and name not in self._known:
                self._open[name] = values[name]
                self._known.add(name)
        return done

    def flush(self) -> list[Values]:
        """What is known of the step at hand; what is told of it later is a further point."""
        point, self._open = self._open, {}
        if not point:
            return []
        if self._step is not None:
            point["step"] = self._step
        return [point]

    def _of_another_rank(self, values: Values) -> bool:
        rank = values.pop("rank", None)
        if rank is None or rank == self._rank:
            return False
        if self._rank is not None and rank > self._rank:
            return True
        if self._rank is not None:
            self._open, self._known = {}, set()
        self._rank = rank
        return False

    def _of_a_side_bar(self, values: Values) -> bool:
        """Bars without a name come one within another: the first goes on to its end."""
        if not values.pop("bar", None):
            return False
        total = values.get("total_steps", values.get("batches"))
        count = values.get("step", values.get("batch", 0.0))
        if total is None:
            return self._bar is not None and "loss" not in values
        first = self._bar
        if first is not None and total != first[0] and not first[1] and "loss" not in values:
            return True
        self._bar = (total, count >= total)
        return False

    def _within_epoch(self, values: Values) -> None:
        """Steps that begin anew with each epoch, as steps of the whole run."""
        self._epochs = values.pop("epochs", self._epochs)
        self._epoch = values.get("epoch", self._epoch)
        batch, batches = values.pop("batch", None), values.pop("batches", None)
        if batch is None and self._begins_anew(values):
            batch, batches = values.pop("step"), values.pop("total_steps")
        if batch is None or "step" in values:
            return
        if not batches or self._epoch is None:
            values["step"] = batch
            if batches:
                values["total_steps"] = batches
            return
        values["epoch"] = self._epoch
        past = max(0.0, self._epoch // 1 - (1 if self._epochs else 0))
        values["step"] = past * batches + batch
        if self._epochs:
            values["total_steps"] = self._epochs * batches

    def _begins_anew(self, values: Values) -> bool:
        """Whether ``epoch 3/10 step 254/1000`` counts its steps within the epoch."""
        step, total = values.get("step"), values.get("total_steps")
        if step is None or not total or self._epoch is None or not self._epochs:
            return False
        if "epoch" in values and values["epoch"] == values["epoch"] // 1:
            past = step * self._epochs / total
            self._by_epoch |= not self._epoch - 1.01 <= past <= self._epoch + 0.01
        return self._by_epoch


def series(data: Iterable[bytes], read: Callable[[str], Values] = read_line) -> list[Values]:
    """All points of an output that comes in pieces."""
    lines, points, found = Lines(), Points(), list[Values]()
    for piece in data:
        for line in lines.feed(piece):
            found += points.add(read(line))
    for line in lines.end():
        found += points.add(read(line))
    return found + points.flush()
