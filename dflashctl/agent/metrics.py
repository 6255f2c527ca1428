"""What a line that a trainer prints says of its progress: names and numbers.

No trainer needs to know of it. Understood are ``key=value``, ``key: value`` and
``key value``, dicts of Python and JSON, progress bars of tqdm, Rich and Keras, rates such
as ``25.1 Ktok/s`` or ``1.2s/it``, and times to go; or else one regular expression with
named groups. Nothing that is read here raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

# Names of the values, as they are kept and told everywhere. ``batch`` counts within an
# epoch, ``rank`` says who printed it; both serve to understand the others.
METRICS = (
    "step", "total_steps", "epoch", "loss", "accuracy", "learning_rate", "grad_norm",
    "tokens_per_s", "steps_per_s", "samples_per_s", "tokens", "eta_s", "padding_efficiency",
    "work_s",
)  # fmt: skip
Values = dict[str, float]

NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,20})?|\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})"
    r"(?:e[-+]?\d{1,4})?"
    r"|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
)
_SCALES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}

# Spellings of each metric, the surest first: of two in a line the earlier one counts.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "step": (
        "step", "global_step", "steps", "train_step", "training_step", "num_updates",
        "completed_step", "opt_step", "iteration", "iter", "iterations", "iters",
        "num_iterations", "update", "it",
    ),
    "batch": ("batch", "batch_idx", "minibatch"),
    "total_steps": (
        "total_steps", "max_steps", "num_steps", "total_iterations", "max_iters", "train_iters",
        "num_training_steps", "total_optimization_steps",
    ),
    "epoch": ("epoch", "epochs"),
    "loss": (
        "loss", "lm_loss", "train/loss", "loss/train", "train_loss", "training_loss",
        "loss_train", "losses/train", "step_loss", "train/ce_loss", "train/crossentropyloss",
        "ce_loss", "total_loss", "train/total_loss", "avg_loss", "avr_loss", "mean_loss",
        "loss_avg", "running_loss", "average_loss",
    ),
    "accuracy": (
        "accuracy", "acc", "train/accuracy", "train_accuracy", "train/acc", "train_acc",
        "mean_token_accuracy", "token_accuracy", "token_acc", "acc@1", "top1", "acc1",
    ),
    "learning_rate": (
        "lr", "learning_rate", "train/lr", "train/learning_rate", "optim/lr",
        "optim/learning_rate", "optim/learning_rate_group0", "current_lr",
    ),
    "grad_norm": (
        "grad_norm", "gnorm", "gradient_norm", "train/grad_norm", "optim/total_grad_norm",
        "gradnorm", "global_grad_norm", "total_grad_norm", "norm", "|g|",
    ),
    "tokens_per_s": (
        "tps", "tok/s", "tokens/s", "tokens/sec", "tok/sec", "toks/s", "tokens_per_s",
        "tokens_per_sec", "tokens_per_second", "tokens/second", "wps",
        "throughput/tokens_per_second", "train_tokens_per_second", "perf/tokens_per_s",
        "train/tokens_per_sec",
    ),
    "steps_per_s": (
        "steps/s", "step/s", "it/s", "steps_per_s", "steps_per_sec", "steps_per_second",
        "steps/sec", "iter/s", "iters/s", "iter/sec", "ups", "it_per_s", "iterations/s",
        "train_steps_per_second",
    ),
    "samples_per_s": (
        "samples/s", "samples/sec", "samples_per_s", "samples_per_sec", "samples_per_second",
        "currsamplespersec", "examples/s", "examples/sec", "images/s", "img/s", "sps",
        "runningavgsamplespersec", "samples/second",
    ),
    "tokens": (
        "tokens_seen", "total_tokens", "num_tokens_seen", "consumed_tokens", "tokens_processed",
        "num_input_tokens_seen", "n_tokens_seen", "num_tokens", "throughput/total_tokens",
        "seen_tokens", "tokens",
    ),
    "padding_efficiency": (
        "padding_efficiency", "train/padding_efficiency", "pad_efficiency", "pad_eff", "pad",
        "batch_efficiency", "efficiency",
    ),
    "work_s": (
        "work_s", "work_time", "compute_s", "compute_time", "own_time", "fwd_bwd_time",
        "forward_backward_time",
    ),
    "step_s": (
        "s/it", "s/step", "sec/step", "step_time", "iter_time", "time_per_step",
        "time_per_iteration", "per_iteration", "per_step", "time/iter", "time/step",
        "iteration_time", "time_per_iter", "seconds", "time", "dt",
    ),
    "rank": ("rank", "local_rank", "global_rank"),
}  # fmt: skip
_MEANING = {
    spelling: (metric, place)
    for metric, spellings in _SPELLINGS.items()
    for place, spelling in enumerate(spellings)
}
# A word before a name that makes it another thing: the loss of an evaluation, a limit.
_OTHER = frozenset(
    ("val", "valid", "validation", "eval", "evaluation", "test", "dev", "best", "min", "max",
     "per", "last", "prev", "previous", "target", "ema", "every", "avg", "aux", "from", "until",
     "weight", "warmup", "save", "saving", "saved", "checkpoint", "resuming", "resume", "of",
     "next", "moe", "router", "z", "total", "num", "elapsed", "data", "load", "up", "update")
)  # fmt: skip
# Above this a plain "tokens" is what was seen so far, and not what a batch holds.
_MANY_TOKENS = 1e7

# Without anything else they are no word of a training's progress.
_SAY_LITTLE = frozenset(
    ("rank", "step", "total_steps", "batch", "batches", "epochs", "padding_efficiency")
)

# At most two words, a unit in brackets, a separator, a number, and what number it is of.
_PAIR = re.compile(
    r"(?<![\w@.\-])(?<![a-z_]/)([a-z|][\w@/.|]{0,40}(?:[ -](?=[a-z])[\w@/]{0,30})?)"
    r"[\"']?(?:\s?\((ms|s|sec)\))?(?:\s*[:=]\s*|\s+)[\"'\[(]*(?:tensor\()?"
    rf"({NUMBER})(?:\s*/\s*(\d[\d,]{{0,20}}(?<=\d)))?(?=\s?([%a-z]*))"
)
_RATE = re.compile(
    rf"(?<![\w.])({NUMBER})\s*([kmg]?)\s?"
    r"(tok(?:en)?s?|it(?:er(?:ation)?)?s?|steps?|batch(?:es)?|samples?|examples?|ex|seqs?|imgs?)"
    r"\s?(?:/|per )\s?s(?:ec(?:ond)?)?(?![a-z/])(?!\s?[:=])"
)
_PACE = re.compile(
    rf"(?<![\w.])({NUMBER})\s*(ms|s|sec)\s?(?:/|per )\s?"
    r"(?:it(?:er(?:ation)?)?|step|batch)(?![a-z/])"
)
_CLOCK = r"(?:\d{1,5} days?, ?)?(?:\d{1,5}:)?\d{1,5}:\d\d(?:\.\d{1,9})?"
_SPAN = (
    r"(?:\d{1,9}(?:\.\d{1,9})?\s?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
    r"(?![a-z])[ ,]*){1,4}"
)
_ETA = re.compile(
    rf"(?<![a-z])(?:eta|remaining(?: time)?|time[ _]left|time[ _]remaining)[\"']?[:=\s(]*[\"']?"
    rf"({_CLOCK}|{_SPAN}|\d{{1,12}}(?:\.\d{{1,9}})?)"
)
_ETA_KEYS = ("eta", "eta_s", "eta_seconds", "time_left", "remaining", "remaining_time")
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

_SCALED = r"\d{1,15}(?:\.\d{1,9})?[kmgt]?"
_BAR = re.compile(rf"\d{{1,4}}%\|[^|]*\|\s*({_SCALED})/({_SCALED})\s*\[({_CLOCK})<({_CLOCK}|\?)")
_COUNTER = re.compile(rf"(?:^|\s)({_SCALED})it\s\[({_CLOCK}),")
_RICH_BAR = re.compile(
    r"[━╸╺╶╴─]{3,300}\s*(\d{1,15})/(\d{1,15})\s+([\d:]{4,12})\s*•\s*([\d:]{4,12}|-:--:--)"
)
_KERAS_BAR = re.compile(r"^\s*(\d{1,15})/(\d{1,15})\s+(?:\[[=>.]+\]|[━─╸╺]{3,})")
_IN_BRACKETS = re.compile(r"[\[(]\s*(\d{1,15})\s*/\s*(\d{1,15})(?:\s*\(\d{1,3}%\))?\s*[\])]")
# Bars of other work than training, by what is written before them.
_NOT_TRAINING = re.compile(
    r"eval|valid|test|load|download|token|map|filter|sav|generat|shard|fetch|predict|sanity"
    r"|prepar|pack|group|extract|import|cach|pars|infer|sampl|warm|compil|init|checkpoint|epochs"
)
_BAR_EPOCH = re.compile(r"epoch\s*:?\s*\[?(\d{1,9})(?:\s*/\s*(\d{1,9}))?")
_OF_TRAINING = re.compile(r"train|step|iter|epoch|updat|^[\d| ]*$|loss")
_RANK = re.compile(
    r"^\s*(?:\[\s*(?:(?:global_|local_)?rank|default|gpu|worker)?\s*[:=]?\s*(\d{1,5})\s*\]\s*:?"
    r"|(?:rank|worker|gpu)[ _:=#]{0,2}(\d{1,5})\s*[:|\]>-]|(\d{1,4}):\s+(?=.*(?:step|iter)))"
)
_WORTH = re.compile(
    r"loss|step|iter|epoch|it/s|s/it|it \[|%\||tok|acc|lr|grad|gnorm|sampl|updat|━|rate|eta|\]\s*-"
)


def is_worth_reading(line: str) -> bool:
    """Whether `read_line` may find anything in it, told in a tenth of the time."""
    return _WORTH.search(line.lower()) is not None


def read_line(line: str) -> Values:
    """The values in a line; empty when it is none of a trainer's progress.

    Besides `METRICS` there may be ``batch`` and ``batches`` (within an epoch), ``epochs``,
    ``rank``, and ``bar``: 1 when it is a progress bar.
    """
    text = line.lower()
    if not _WORTH.search(text):
        return {}
    found = _Found()
    rank = _RANK.match(text)
    if rank:
        found.put("rank", float(rank[1] or rank[2] or rank[3]), 0)
        text = text[rank.end() :]
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        _read_object(stripped, found)
    elif not _read_bar(text, found):
        _read_text(text, found)
    return found.settled()


def read_json(line: str) -> Values:
    """The values of a line of JSON, whatever else is in it."""
    found = _Found()
    text = line.strip().lower()
    if text.startswith("{"):
        _read_object(text, found)
    return found.settled()


def by_pattern(pattern: re.Pattern[str]) -> Callable[[str], Values]:
    """A reader of lines by a regular expression whose groups are named after metrics."""

    def read(line: str) -> Values:
        match = pattern.search(line)
        found = _Found()
        for name, text in match.groupdict().items() if match else ():
            value = _eta(text.lower()) if text and name == "eta_s" else number(text or "")
            if value is not None:
                found.put(name, value, 0)
        return found.settled()

    return read


def unknown_groups(pattern: re.Pattern[str]) -> list[str]:
    """Names of a pattern's groups that are no metric's."""
    return [name for name in pattern.groupindex if name not in METRICS]


def number(text: str) -> float | None:
    """``25.1``, ``4,327``, ``1.2M``, ``nan``; None when it is none of a kind."""
    match = re.fullmatch(rf"\s*({NUMBER})\s*([kmbgt]?)%?\s*", text.lower())
    if not match:
        return None
    return _float(match[1]) * _SCALES.get(match[2], 1.0)


def _float(text: str) -> float:
    return float(text.replace(",", ""))


class _Found:
    """What a line has said so far; of two values for one metric the surer one stays."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._places: dict[str, int] = {}
        self.leads = False

    def put(self, metric: str, value: float, place: int) -> None:
        if metric not in self.values or place < self._places[metric]:
            self.values[metric], self._places[metric] = value, place

    def settled(self) -> Values:
        """The values if they make sense together, else nothing."""
        values = self.values
        step_s = values.pop("step_s", None)
        if step_s and 0 < step_s < math.inf:
            values.setdefault("steps_per_s", 1 / step_s)
        for name in [name for name, value in values.items() if not _sane(name, value)]:
            del values[name]
        telling = values.keys() - _SAY_LITTLE
        if not telling and not (self.leads and ("step" in values or "batch" in values)):
            return {}
        if telling <= {"steps_per_s", "samples_per_s", "eta_s"} and not (
            "step" in values or "batch" in values
        ):
            return {}  # how fast something goes that is perhaps no training
        return values


def _sane(name: str, value: float) -> bool:
    """Only a loss and a gradient may be infinite or not a number."""
    if name in ("loss", "grad_norm"):
        return True
    if name == "padding_efficiency":
        return 0 < value <= 1
    return -1e18 < value < 1e18 and (value >= 0 or name == "accuracy")


def _read_object(text: str, found: _Found) -> None:
    """A dict as JSON or Python print it; of nested ones only what the top says."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # A Python dict; its eval_loss and the like are other names to the reader of text.
        if "train_runtime" not in text:
            _read_text(text, found)
        return
    if not isinstance(value, dict) or "train_runtime" in value:
        return
    for key, item in value.items():
        told = _eta(item) if key in _ETA_KEYS and isinstance(item, str) else item
        if key in _ETA_KEYS and isinstance(told, int | float):
            found.put("eta_s", float(min(told, 1e18)), 0)
        elif isinstance(item, str):
            told = number(item)
        if isinstance(told, int | float) and not isinstance(told, bool):
            # JSON knows whole numbers of any size, floats end at 1e308.
            _name(key, told if isinstance(told, float) else float(str(told)), "", found)
    found.leads = "step" in found.values


def _name(key: str, value: float, unit: str, found: _Found) -> str | None:
    """Put a value under what its key means; the metric, or None when it means nothing."""
    words = re.sub(r"[ \-]+", "_", key.strip("|_ "))
    meaning = _MEANING.get(words)
    if meaning is None and "_" in words and (" " in key or "-" in key):
        before, _, last = words.rpartition("_")
        if before in _OTHER:
            return None
        meaning = _MEANING.get(last)
    if meaning is None:
        return None
    metric, place = meaning
    if metric in ("accuracy", "padding_efficiency") and unit.startswith("%"):
        value /= 100
    elif metric in ("tokens", "tokens_per_s", "samples_per_s", "step"):
        value *= _SCALES.get(unit, 1.0)
    elif metric == "step_s":
        if words in ("time", "dt", "seconds") and not unit.startswith(("ms", "s")):
            return None
        value /= 1000 if unit.startswith("ms") else 1
    if metric == "tokens" and words == "tokens" and value < _MANY_TOKENS:
        return None
    found.put(metric, value, place)
    return metric


def _read_text(text: str, found: _Found) -> None:
    for match in _PAIR.finditer(text):
        key, unit, value, of, after = match.groups()
        metric = _name(key, _float(value), unit or after, found)
        if metric in ("step", "batch", "epoch") and of and (total := number(of)) is not None:
            name = {"step": "total_steps", "batch": "batches", "epoch": "epochs"}[metric]
            found.put(name, total, 0)
        if metric in ("step", "batch") and (of or not text[: match.start()].strip(" [(|>#*-")):
            found.leads = True
    if "step" not in found.values and "batch" not in found.values:
        for inner in _IN_BRACKETS.finditer(text):
            if text[: inner.start()].rstrip(" :").endswith(("epoch", "epochs")):
                continue
            found.put("batch" if "epoch" in found.values else "step", float(inner[1]), 9)
            found.put("batches" if "epoch" in found.values else "total_steps", float(inner[2]), 9)
            break
    _read_rates(text, found)


def _read_rates(text: str, found: _Found) -> None:
    if "/" in text or " per " in text:
        for match in _RATE.finditer(text):
            kind = "tokens_per_s" if match[3].startswith("tok") else "samples_per_s"
            if match[3].startswith(("it", "step", "batch")):
                kind = "steps_per_s"
            found.put(kind, _float(match[1]) * _SCALES.get(match[2], 1.0), 1)
        for match in _PACE.finditer(text):
            found.put("step_s", _float(match[1]) / (1000 if match[2] == "ms" else 1), 1)
    left = _ETA.search(text) if "eta" in text or "remaining" in text or "left" in text else None
    if left and (seconds := _eta(left[1])) is not None:
        found.put("eta_s", seconds, 0)


def _eta(text: str) -> float | None:
    """A time to go in seconds: ``1:02:33``, ``2 days, 3:04:05``, ``3h 12m``, ``45s``, ``45``."""
    text = text.strip()
    if re.fullmatch(_CLOCK, text):
        days, _, clock = text.rpartition(",")
        seconds = 0.0
        for part in clock.split(":"):
            seconds = seconds * 60 + float(part)
        return seconds + (86400.0 * int(days.split()[0]) if days else 0.0)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s?([dhms])", text)
    if parts:
        return sum(float(count) * _UNITS[unit] for count, unit in parts)
    return number(text)


def _read_bar(text: str, found: _Found) -> bool:
    """A progress bar: what stands before it, its counters, what follows it."""
    bar = _BAR.search(text) if "%|" in text else None
    bar = bar or (_RICH_BAR.search(text) if "•" in text else None)
    counter = _COUNTER.search(text) if "it [" in text and not bar else None
    keras = None if bar or counter else _KERAS_BAR.match(text)
    match = bar or counter or keras
    if match is None:
        return False
    before = text[: match.start()].strip().rstrip(":")
    after = text[match.end() :]
    epoch = _BAR_EPOCH.search(before)
    if not epoch and (
        _NOT_TRAINING.search(before) or not (_OF_TRAINING.search(before) or "loss" in after)
    ):
        return True
    if epoch and re.search(r"eval|valid|test|predict", before):
        return True
    of_epoch = bool(epoch or keras)
    if epoch:
        found.put("epoch", float(epoch[1]), 0)
        if epoch[2]:
            found.put("epochs", float(epoch[2]), 0)
    count = number(match[1])
    if count is not None:
        found.put("batch" if of_epoch else "step", count, 0)
    if not counter and (total := number(match[2])) is not None:
        found.put("batches" if of_epoch else "total_steps", total, 0)
    if bar and not of_epoch and (left := _eta(match[4])) is not None:
        found.put("eta_s", left, 0)
    _read_text(before.rpartition("|")[2] + " ; " + after, found)
    found.values["bar"], found.leads = 1.0, True
    return True
