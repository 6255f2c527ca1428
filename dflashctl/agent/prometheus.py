"""A run's state in Prometheus' text format, for a scrape or node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable

from dflashctl.agent.seen import LIVE_STATES, Gpu, MetricsSeen, Observed

# Name, help, attribute of `MetricsSeen`.
_OF_METRICS = (
    ("step", "The trainer's step.", "step"),
    ("steps", "Steps in all, as the trainer says.", "total_steps"),
    ("epoch", "The trainer's epoch.", "epoch"),
    ("loss", "The loss as printed last.", "loss"),
    ("loss_smoothed", "Its exponential mean over about 20 points.", "loss_smoothed"),
    ("accuracy_ratio", "The accuracy as printed last.", "accuracy"),
    ("learning_rate", "The learning rate.", "learning_rate"),
    ("grad_norm", "The gradient's norm.", "grad_norm"),
    ("padding_efficiency_ratio", "Real over padded tokens, the mean.", "padding_efficiency"),
    ("tokens_per_second", "Tokens a second, as the trainer says.", "tokens_per_s"),
    ("steps_per_second", "Steps a second, measured, pauses left out.", "measured_steps_per_s"),
    ("seen_tokens", "Tokens seen so far.", "tokens"),
    ("remaining_seconds", "Time left at the run's own rate.", "eta_s"),
    ("last_metric_timestamp_seconds", "When a metric was last printed.", "at"),
    ("last_step_timestamp_seconds", "When the step last grew.", "step_at"),
)
_OF_GPUS = (
    ("gpu_utilization_ratio", "The GPU's use.", "utilization_pct", 0.01),
    ("gpu_memory_used_bytes", "Memory in use on the GPU.", "memory_used_mib", float(1 << 20)),
    ("gpu_temperature_celsius", "The GPU's temperature.", "temperature_c", 1.0),
    ("gpu_power_watts", "The GPU's power.", "power_w", 1.0),
)


def exposition(job: str, seen: Observed, labels: dict[str, str]) -> str:
    """All that is known, a family after the other. ``labels``: further ones for every line."""
    run = seen.run.id if seen.run else ""
    ours = {**labels, "job_name": job, "run": run}
    lines: list[str] = []
    up = 1.0 if seen.state in LIVE_STATES else 0.0
    _family(lines, "up", "Whether the run lives.", [(ours, up)])
    state = {**ours, "state": seen.state}
    _family(lines, "state", "The run's state, as a label.", [(state, 1.0)])
    verdicts = [({**ours, "code": code}, 1.0) for code in {v.code: None for v in seen.verdicts}]
    _family(lines, "verdict", "What speaks against the run.", verdicts)
    if seen.metrics is not None:
        _metrics(lines, ours, seen.metrics)
    if seen.gpus is not None:
        _gpus(lines, ours, seen.gpus.gpus)
    if seen.checkpoints is not None and seen.checkpoints.latest_at is not None:
        told = "When the newest checkpoint was written."
        at = seen.checkpoints.latest_at
        _family(lines, "last_checkpoint_timestamp_seconds", told, [(ours, at)])
    return "".join(f"{line}\n" for line in lines)


def _metrics(lines: list[str], ours: dict[str, str], metrics: MetricsSeen) -> None:
    for name, told, attribute in _OF_METRICS:
        value = getattr(metrics, attribute)
        if value is not None:
            _family(lines, name, told, [(ours, value)])


def _gpus(lines: list[str], ours: dict[str, str], gpus: Iterable[Gpu]) -> None:
    for name, told, attribute, scale in _OF_GPUS:
        rows = [
            ({**ours, "gpu": str(gpu.index)}, value * scale)
            for gpu in gpus
            if (value := getattr(gpu, attribute)) is not None
        ]
        _family(lines, name, told, rows)


def _family(
    lines: list[str], name: str, told: str, rows: list[tuple[dict[str, str], float]]
) -> None:
    if not rows:
        return
    lines += [f"# HELP dflashctl_{name} {told}", f"# TYPE dflashctl_{name} gauge"]
    for labels, value in rows:
        words = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"dflashctl_{name}{{{words}}} {value:.10g}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
