"""What trainers print, in the forms of the well-known ones, and the series that it gives."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.lines import Lines
from dflashctl.agent.metrics import METRICS, by_pattern, read_json, read_line
from dflashctl.agent.points import series

# For each form: what is printed, and the points (as far as they are told here).
CORPUS: dict[str, tuple[str, list[dict[str, float]]]] = {
    "plain key=value": (
        (
        "step 254 loss=4.6 acc=0.31 lr=3.0e-04 grad=1.2 25.1 Ktok/s\n"
        "step 255 loss=4.5 acc=0.32 lr=3.0e-04 grad=1.1 25.3 Ktok/s\n"
        ),
        [
            {"step": 254, "loss": 4.6, "accuracy": 0.31, "learning_rate": 3e-4,
             "tokens_per_s": 25_100},
            {"step": 255, "loss": 4.5, "accuracy": 0.32, "tokens_per_s": 25_300},
        ],
    ),
    "columns": (
        (
        "step 5 | epoch 0 | loss 3.3012 | 10.51 Ktok/s | ETA 201s\n"
        "step 10 | epoch 0 | loss 3.2100 | 10.60 Ktok/s | ETA 3m 20s\n"
        ),
        [
            {"step": 5, "epoch": 0, "loss": 3.3012, "tokens_per_s": 10_510, "eta_s": 201},
            {"step": 10, "loss": 3.21, "eta_s": 200},
        ],
    ),
    "key: value with a logger's head": (
        (
        "2026-11-29 12:00:01,123 INFO trainer: step: 10/1000, loss: 2.5, learning rate: 1e-4, "
        "grad norm: 0.9, tokens/s: 25,100, ETA: 1:02:33\n"
        "2026-11-29 12:00:09,456 WARNING data: worker 3 was slow\n"
        "2026-11-29 12:00:11,123 INFO trainer: step: 20/1000, loss: 2.4, learning rate: 1e-4\n"
        ),
        [
            {"step": 10, "total_steps": 1000, "loss": 2.5, "learning_rate": 1e-4,
             "grad_norm": 0.9, "tokens_per_s": 25_100, "eta_s": 3753},
            {"step": 20, "total_steps": 1000, "loss": 2.4},
        ],
    ),
    "Hugging Face Trainer": (
        (
        "\r  0%|          | 0/1000 [00:00<?, ?it/s]"
        "\r  1%|1         | 10/1000 [00:02<03:18,  4.99it/s]"
        "\r                                                 \r"
        "{'loss': 2.9371, 'grad_norm': 1.5210, 'learning_rate': 4.95e-05, 'epoch': 0.01}\n"
        "\r  1%|1         | 10/1000 [00:02<03:18,  4.99it/s]"
        "\r  2%|2         | 20/1000 [00:04<03:16,  5.00it/s]"
        "{'loss': '2.8105', 'grad_norm': '1.4', 'learning_rate': '4.9e-05', 'epoch': '0.02'}\n"
        "\r  0%|          | 0/50 [00:00<?, ?it/s]\x1b[A"
        "\r 50%|#####     | 25/50 [00:01<00:01, 21.00it/s]\x1b[A"
        "{'eval_loss': 9.9, 'eval_runtime': 2.1, 'eval_samples_per_second': 3.0, 'epoch': 0.02}\n"
        "\r  2%|2         | 21/1000 [00:09<03:16,  4.98it/s]\n"
        "{'train_runtime': 812.1, 'train_loss': 7.7, 'epoch': 3.0}\n"
        ),
        [
            {"step": 0, "total_steps": 1000},
            {"step": 10, "total_steps": 1000, "loss": 2.9371, "grad_norm": 1.521,
             "learning_rate": 4.95e-5, "epoch": 0.01, "eta_s": 198, "steps_per_s": 4.99},
            {"step": 20, "loss": 2.8105, "epoch": 0.02, "steps_per_s": 5.0},
            {"step": 21},
        ],
    ),
    "tqdm with a postfix, escapes and a terminal's line ends": (
        (
        "\x1b[1mloading\x1b[0m\r\n"
        "Loading checkpoint shards: 100%|██████████| 4/4 [00:10<00:00,  2.61s/it]\r\n"
        "\rTraining:  45%|████▌     | 450/1000 [01:23<01:41,  5.42it/s, loss=2.31, lr=1e-5]"
        "\x1b[K\rTraining:  45%|████▌     | 451/1000 [01:23<1:01:41, 1.50s/it, loss=nan, lr=1e-5]"
        "\r\n"
        ),
        [
            {"step": 450, "total_steps": 1000, "loss": 2.31, "learning_rate": 1e-5,
             "steps_per_s": 5.42, "eta_s": 101},
            {"step": 451, "loss": math.nan, "steps_per_s": 1 / 1.5, "eta_s": 3701},
        ],
    ),
    "JSON lines": (
        (
        '{"step": 1, "loss": 3.25, "lr": 0.0003, "tokens_per_sec": 81234.5, "note": "x=1"}\n'
        '{"step": 2, "loss": NaN, "grad_norm": Infinity, "eval": {"loss": 1}}\n'
        '{"event": "saved", "path": "/ckpt/step-2", "loss_scale": 65536}\n'
        '{"num_updates": "3", "loss": "3.1", "wps": "32000", "gnorm": "0.7"}\n'
        ),
        [
            {"step": 1, "loss": 3.25, "learning_rate": 3e-4, "tokens_per_s": 81234.5},
            {"step": 2, "loss": math.nan, "grad_norm": math.inf},
            {"step": 3, "loss": 3.1, "tokens_per_s": 32_000, "grad_norm": 0.7},
        ],
    ),
    "Megatron-LM": (
        (
        " [2026-11-29 12:00:01] iteration       10/     500 | consumed samples:         1280 |"
        " elapsed time per iteration (ms): 2000.0 | throughput per GPU (TFLOP/s/GPU): 410.2 |"
        " learning rate: 1.500000E-05 | global batch size:   128 | lm loss: 9.123456E+00 |"
        " loss scale: 1.0 | grad norm: 2.345 | number of skipped iterations:   0 |\n"
        " [2026-11-29 12:00:21] iteration       20/     500 | consumed samples:         2560 |"
        " elapsed time per iteration (ms): 1000.0 | learning rate: 3.000000E-05 |"
        " lm loss: 8.5E+00 | loss scale: 1.0 | grad norm: 2.1 |\n"
        " validation loss at iteration 20 | lm loss value: 8.1E+00 | lm loss PPL: 3.3E+03 |\n"
        ),
        [
            {"step": 10, "total_steps": 500, "loss": 9.123456, "learning_rate": 1.5e-5,
             "grad_norm": 2.345, "steps_per_s": 0.5},
            {"step": 20, "total_steps": 500, "loss": 8.5, "steps_per_s": 1.0},
        ],
    ),
    "torchtitan": (
        (
        "[rank0]:[titan] 2026-11-29 12:00:00,000 - root - INFO - Training starts at step 1\n"
        "[rank0]:[titan] 2026-11-29 12:00:09,100 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:"
        "  8.2043  \x1b[38;2;180;60;0mgrad_norm:  1.3311  \x1b[36mmemory: 30.20GiB(31.78%)  "
        "\x1b[34mtps: 4,327  \x1b[36mtflops: 31.10  \x1b[35mmfu: 10.05%\x1b[39m\n"
        "[rank1]:[titan] 2026-11-29 12:00:09,100 - root - INFO - step:  1  loss:  7.1  tps: 1\n"
        "[rank0]:[titan] 2026-11-29 12:00:19,1 - root - INFO - step: 10  loss:  7.9012 tps: 5,001\n"
        ),
        [
            {"step": 1, "loss": 8.2043, "grad_norm": 1.3311, "tokens_per_s": 4327},
            {"step": 10, "loss": 7.9012, "tokens_per_s": 5001},
        ],
    ),
    "DeepSpeed": (
        (
        "[2026-11-29 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, "
        "lr=[1e-05, 1e-05], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        "steps: 10 loss: 2.3456 iter time (s): 0.500 samples/sec: 12.3\n"
        "[2026-11-29 12:00:05,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=80/"
        "global_step=20, RunningAvgSamplesPerSec=12.2, CurrSamplesPerSec=12.5, MemAllocated=9.1GB\n"
        "steps: 20 loss: 2.2 iter time (s): 0.500 samples/sec: 12.5\n"
        ),
        [
            {"step": 10, "loss": 2.3456, "learning_rate": 1e-5, "samples_per_s": 12.3,
             "steps_per_s": 2.0},
            {"step": 20, "epoch": 0, "loss": 2.2, "samples_per_s": 12.5},
        ],
    ),
    "Lightning": (
        (
        "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 3.2it/s]\n"
        "\rEpoch 0:  50%|█████     | 50/100 [00:10<00:10,  5.00it/s, v_num=3, train_loss=2.310]"
        "\rEpoch 0: 100%|██████████| 100/100 [00:20<00:00, 5.00it/s, v_num=3, train_loss=2.2]"
        "\rValidation DataLoader 0:  10%|█         | 1/10 [00:00<00:01, 8.00it/s]"
        "\rEpoch 1:   1%|          | 1/100 [00:00<00:20,  5.00it/s, v_num=3, train_loss=2.1]\n"
        ),
        [
            {"step": 50, "epoch": 0, "loss": 2.31, "steps_per_s": 5.0},
            {"step": 100, "epoch": 0, "loss": 2.2},
            {"step": 101, "epoch": 1, "loss": 2.1},
        ],
    ),
    "Lightning with Rich": (
        (
        "\x1b[2KEpoch 0/9 ━━━━━╸━━━ 45/100 0:00:09 • 0:00:11 5.01it/s v_num: 3.0 loss: 2.31\r\n"
        "\x1b[1A\x1b[2KEpoch 0/9 ━━━━━╸━━━ 46/100 0:00:09 • -:--:-- 5.01it/s loss: 2.30\r\n"
        ),
        [
            {"step": 45, "loss": 2.31, "steps_per_s": 5.01},
            {"step": 46, "loss": 2.30},
        ],
    ),
    "nanoGPT": (
        (
        "number of parameters: 123.59M\n"
        "step 0: train loss 10.9, val loss 10.8\n"
        "iter 0: loss 10.91, time 5000.00ms, mfu -100.00%\n"
        "iter 10: loss 9.70, time 250.00ms, mfu 38.10%\n"
        "iter 20: loss 9.10, time 500.00ms, mfu 38.20%\n"
        ),
        [
            {"step": 0, "loss": 10.9},
            {"step": 10, "loss": 9.7, "steps_per_s": 4.0},
            {"step": 20, "loss": 9.1, "steps_per_s": 2.0},
        ],
    ),
    "Keras": (
        (
        "Epoch 1/3\n"
        "\r 50/100 [=======>......] - ETA: 10s - loss: 0.6931 - accuracy: 0.50\b\b\b"
        "\r100/100 [==============] - 20s 200ms/step - loss: 0.60 - accuracy: 0.6 - val_loss: 0.9"
        "\nEpoch 2/3\n"
        "\r\x1b[1m 50/100\x1b[0m ━━━━ \x1b[1m10s\x1b[0m 200ms/step - accuracy: 0.7 - loss: 0.5\n"
        ),
        [
            {"epoch": 1},
            {"step": 50, "total_steps": 300, "loss": 0.6931, "accuracy": 0.5, "eta_s": 10},
            {"step": 100, "loss": 0.6, "accuracy": 0.6, "steps_per_s": 5.0},
            {"step": 150, "total_steps": 300, "loss": 0.5, "accuracy": 0.7, "epoch": 2},
        ],
    ),
    "the ImageNet example": (
        (
        "Epoch: [0][  10/5005]\tTime  0.432 ( 1.234)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 1.56 (  0.9)\n"
        "Epoch: [1][  20/5005]\tTime  0.400 ( 1.000)\tLoss 6.1e+00 (6.2e+00)\tAcc@1 3.12 (  2.0)\n"
        ),
        [
            {"step": 10, "epoch": 0, "loss": 6.9},
            {"step": 5025, "epoch": 1, "loss": 6.1},
        ],
    ),
    "OLMo": (
        (
        "2026-11-29 12:00:00 INFO [olmo.train:912] [step=10/1000,epoch=0]\n"
        "    optim/total_grad_norm=1.2\n"
        "    train/CrossEntropyLoss=2.345\n"
        "    throughput/total_tokens=41,943,040\n"
        "2026-11-29 12:00:09 INFO [olmo.train:912] [step=11/1000,epoch=0]\n"
        "    train/CrossEntropyLoss=2.3\n"
        ),
        [
            {"step": 10, "grad_norm": 1.2, "loss": 2.345, "tokens": 41943040},
            {"step": 11, "total_steps": 1000, "loss": 2.3},
        ],
    ),
    "torchtune": (
        (
        "\r1|254|Loss: 2.345:  25%|██▌       | 254/1000 [04:10<12:20,  1.01it/s]"
        "\r1|255|Loss: 2.301:  26%|██▌       | 255/1000 [04:11<12:19,  1.01it/s]\n"
        ),
        [
            {"step": 254, "total_steps": 1000, "loss": 2.345, "steps_per_s": 1.01},
            {"step": 255, "total_steps": 1000, "loss": 2.301},
        ],
    ),
    "LitGPT": (
        (
        "Epoch 1 | iter 80 step 10 | loss train: 2.345, val: n/a | iter time: 250.00 ms (step)"
        " remaining time: 0:12:34\n"
        ),
        [{"step": 10, "epoch": 1, "loss": 2.345, "steps_per_s": 4.0, "eta_s": 754}],
    ),
    "steps that begin anew with each epoch": (
        (
        "Epoch [1/3], Step [100/200], Loss: 1.5\nEpoch [2/3], Step [100/200], Loss: 1.2\n"
        "Epoch [3/3], Step [50/200], Loss: 1.0\n"
        ),
        [
            {"step": 100, "loss": 1.5, "total_steps": 600},
            {"step": 300, "loss": 1.2, "total_steps": 600},
            {"step": 450, "loss": 1.0, "total_steps": 600},
        ],
    ),
    "ranks that print at once, one of them late": (
        (
        "[rank3]: step 10 loss 9.0\n[rank0]: step 10 loss 2.0\n[rank7]: step 9 loss 9.1\n"
        "[rank0]: step 11 loss 1.9\n[rank3]: step 10 loss 9.0\n[rank3]: step 11 loss 9.0\n"
        ),
        [{"step": 10, "loss": 2.0}, {"step": 11, "loss": 1.9}],
    ),
    "ranks that do not say who they are": (
        (
        "step 10 loss 2.0\nstep 10 loss 2.1\nstep 11 loss 1.9\nstep 10 loss 2.2\n"
        "step 11 loss 1.8\nstep 12 loss 1.7\nstep 11 loss 1.9\n"
        ),
        [{"step": 10, "loss": 2.0}, {"step": 11, "loss": 1.9}, {"step": 12, "loss": 1.7}],
    ),
    "a pane's width broke the line": (
        (
        ("step 254 " + "x" * 186 + " loss=4.6 25.1 Ktok/s\n")[:200] + "\r\n"
        + ("step 254 " + "x" * 186 + " loss=4.6 25.1 Ktok/s\n")[200:]
        + "step 255 loss=4.5\r\n"
        ),
        [{"step": 254, "loss": 4.6, "tokens_per_s": 25_100}, {"step": 255, "loss": 4.5}],
    ),
}  # fmt: skip


def told(points: list[dict[str, float]], expected: list[dict[str, float]]) -> list[dict]:
    """Of each point what the expectation speaks of; NaN is itself here."""
    spoken = [
        {name: point.get(name) for name in wanted}
        for point, wanted in zip(points, expected, strict=True)
    ]
    return [
        {n: "nan" if v is not None and math.isnan(v) else v and round(v, 9) for n, v in p.items()}
        for p in spoken
    ]


@pytest.mark.parametrize("form", CORPUS)
def test_the_form_gives_its_series(form: str) -> None:
    text, expected = CORPUS[form]
    points = series([text.encode()])
    assert told(points, expected) == told(expected, expected)


@pytest.mark.parametrize("form", [form for form in CORPUS if "pane" not in form])
def test_bytes_that_are_no_text_do_no_harm(form: str) -> None:
    text, expected = CORPUS[form]
    data = text.encode().replace(b"\n", b"\n\xff\xfe\xc3 \x80garbage\n")
    assert told(series([data]), expected) == told(expected, expected)


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards:  25%|##5       | 1/4 [00:02<00:06,  2.10s/it]",
        "Map:  10%|#         | 1000/10000 [00:01<00:09, 998.12 examples/s]",
        "Evaluating: 100%|##########| 50/50 [00:02<00:00, 21.1it/s]",
        "downloading model.safetensors: 45%|####5 | 4.5G/10.0G [01:20<01:30, 60.1MB/s]",
        "val_loss=0.3 eval/loss: 0.4 best loss 0.2",
        "saved checkpoint at step 500",
        "resuming from step 500",
        "loss scale: 65536.0",
        "weight decay: 0.1, warmup steps: 100",
        "number of steps between checkpoints: 25",
        "epochs are fine, steps are better, losses happen",
        "",
    ],
)
def test_what_is_no_progress_of_training_is_none(line: str) -> None:
    assert read_line(line) == {}


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("eta 45s", 45), ("ETA: 1:02:33", 3753), ("eta: 2 days, 3:04:05", 183_845),
        ("eta=3h 12m", 11_520), ("remaining time: 12:34", 754), ("ETA 1.5h", 5400),
        ("time left 90", 90), ("(eta 2 h 5 min)", 7500),
    ],
)  # fmt: skip
def test_times_to_go_in_every_form(words: str, seconds: float) -> None:
    assert read_line(f"step 3 loss 1.0 {words}")["eta_s"] == seconds


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("25.1 Ktok/s", "tokens_per_s", 25_100), ("1.2M tokens/s", "tokens_per_s", 1_200_000),
        ("980 tok/sec", "tokens_per_s", 980), ("tokens per second: 5", "tokens_per_s", None),
        ("5.42it/s", "steps_per_s", 5.42), ("2.5 steps/sec", "steps_per_s", 2.5),
        ("1.25s/it", "steps_per_s", 0.8), ("250ms/step", "steps_per_s", 4.0),
        ("12.5 samples/s", "samples_per_s", 12.5), ("tokens/s/device: 400", "tokens_per_s", None),
        ("tokens seen: 1.2B", "tokens", 1_200_000_000), ("tokens: 8192", "tokens", None),
        ("acc: 87.5%", "accuracy", 0.875),
    ],
)  # fmt: skip
def test_rates_and_counts_with_their_units(words: str, name: str, value: float | None) -> None:
    assert read_line(f"step 3 loss 1.0 {words}").get(name) == value


def test_a_pattern_of_the_playbook_says_what_is_what() -> None:
    read = by_pattern(re.compile(r"it(?P<step>\d+) L(?P<loss>\S+) left (?P<eta_s>\S+)"))
    points = series([b"it12 L2.5 left 1:00\nstep 99 loss 1\nit13 Lnan left ?\n"], read)
    assert points[0] == {"step": 12, "loss": 2.5, "eta_s": 60}
    assert points[1]["step"] == 13
    assert math.isnan(points[1]["loss"])


def test_a_file_of_json_lines_is_read_as_such() -> None:
    points = series([b'{"step": 1, "loss": 2}\nnoise step 9 loss 9\n{"step": 2, "lo'], read_json)
    assert points == [{"step": 1, "loss": 2.0}]


TOKENS = [
    b"step", b" ", b"=", b": ", b"12", b"/", b"1e400", b"nan", b"loss", b"\r", b"\n", b"\x1b[",
    b"m", b"{", b"}", b'"', b"%|", b"| ", b"[", b"]", b"<", b"it/s", b"eta", b"\xff", b"epoch",
    b"tok/s", b"9" * 30, b"9" * 5000, b"-", b",", b"rank", b"\xe2\x94\x81",
]  # fmt: skip
OUTPUT = st.lists(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6)), max_size=60)


@given(OUTPUT, st.lists(st.integers(0, 400), max_size=8))
def test_no_output_can_make_it_fail_and_pieces_do_not_matter(
    parts: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(parts)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    whole, cut = series([data]), series(pieces)
    assert repr(whole) == repr(cut)
    for point in whole:
        assert point.keys() <= set(METRICS)
        assert all(isinstance(value, float) for value in point.values())


@given(st.text(max_size=300))
def test_any_line_can_be_read(line: str) -> None:
    read_line(line)
    read_json(line)
    read_json("{" + line + "}")


def test_a_line_without_end_takes_no_more_room_than_a_long_one() -> None:
    lines = Lines()
    for _ in range(100):
        assert lines.feed(b"x" * 65536) == []
    (line,) = lines.feed(b"\n")
    assert len(line) == 4096


@pytest.mark.parametrize(("line", "found"), [
    ("step 254 loss=4.6 25.1 Ktok/s | pad 0.772", 0.772),
    ("step 254 loss=4.6 padding_efficiency=77.2%", 0.772),
    ('{"step": 254, "loss": 4.6, "efficiency": 0.772}', 0.772),
    ("step 254 loss 4.6 pad 50256", None),  # a token's number
    ("bucket 3 of 6, epoch boundaries, efficiency 0.91", None),
])  # fmt: skip
def test_padding_is_read_beside_other_progress(line: str, found: float | None) -> None:
    assert read_line(line).get("padding_efficiency") == (
        None if found is None else pytest.approx(found)
    )
