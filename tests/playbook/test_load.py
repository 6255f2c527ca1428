from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.watching import Restart
from dflashctl.errors import BadFile, NoFile
from dflashctl.playbook.load import find_playbook, load_playbook
from dflashctl.playbook.model import (
    BatchingSpec,
    CheckpointSpec,
    DatasetSpec,
    Playbook,
    PreflightSpec,
    PushedFile,
    ReadySpec,
    RunSpec,
    StopSpec,
)

EXAMPLES = Path(__file__).parents[2] / "playbooks"
HEAD = "version: 1\nname: dflash\n"


def load(tmp_path: Path, text: str) -> Playbook:
    path = tmp_path / "deploy.yml"
    path.write_text(text)
    return load_playbook(path)


def faults(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(BadFile) as caught:
        load(tmp_path, text)
    assert caught.value.kind == "playbook"
    return [(fault.line, fault.where, fault.message) for fault in caught.value.faults]


def run_of(tmp_path: Path, fields: str) -> RunSpec:
    run = load(tmp_path, f"{HEAD}run: {{command: [a], {fields}}}\n").run
    assert run is not None
    return run


# --- what is read ---------------------------------------------------------------------


def test_the_example_loads() -> None:
    playbook = load_playbook(find_playbook(None, {}, EXAMPLES.parent))
    assert playbook.name == playbook.session == "dflash"
    assert [file.dest for file in playbook.files] == ["/root/train.py", "/root/start_training.sh"]
    assert playbook.files[1].mode == 0o755
    assert playbook.run is not None
    assert playbook.run.command == ("bash", "/root/start_training.sh")
    assert playbook.run.env == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CHECKPOINTS": "/workspace/checkpoints",
    }
    assert playbook.stop == StopSpec(signal="INT", grace_s=120.0)
    assert playbook.ready == ReadySpec(alive_for_s=10.0)
    assert playbook.checkpoints == CheckpointSpec(path="/workspace/checkpoints")


def test_the_example_for_buckets_is_a_playbook_of_its_own() -> None:
    names = ("optimize-buckets.yml", "deploy.yml")
    playbook = load_playbook(find_playbook(None, {}, EXAMPLES.parent, names))
    assert playbook.dataset == DatasetSpec(path="/workspace/data")
    assert playbook.batching == BatchingSpec(
        token_budget=49152, max_batch_size=64, max_length=8192, ranks=8
    )


def test_without_a_playbook_of_its_own_a_verb_takes_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "deploy.yml").touch()
    found = find_playbook(str(tmp_path), {}, tmp_path, ("optimize-buckets.yml", "deploy.yml"))
    assert found == tmp_path / "deploy.yml"


def test_every_field_is_read(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("")
    text = """\
version: 1
name: dflash
session: Ünï_1 training-2
files:
  - {source: train.py, dest: /root/train.py, mode: "0750"}
run:
  command: [bash, /root/start.sh, ""]
  resume: [bash, /root/start.sh, --resume, latest]
  cwd: /root
  env_base: minimal
  env: {A: "1", B: "yes"}
  env_file: secrets.env
  env_from: [WANDB_API_KEY]
  user: trainer
  exit_codes: {75: interrupted, 78: refused}
stop: {signal: SIGTERM, grace: 2m}
ready: {alive_for: 0s}
preflight: {gpus: 8, free_space: 20GB, python: /root/venv/bin/python, imports: [torch, a.b]}
checkpoints: {path: /workspace/checkpoints}
buckets: buckets.json
dataset: {path: /workspace/data, column: length, format: csv, python: /root/venv/bin/python}
batching:
  {count: 8, token_budget: 49152, max_batch_size: 64, max_length: 8192, align: 16, window: 128,
   order: random, ranks: 8, accumulation: 2, seed: 7}
"""
    assert load(tmp_path, text) == Playbook(
        path=tmp_path / "deploy.yml",
        name="dflash",
        session="Ünï_1 training-2",
        files=(PushedFile(source=source, dest="/root/train.py", mode=0o750),),
        run=RunSpec(
            command=("bash", "/root/start.sh", ""),
            resume=("bash", "/root/start.sh", "--resume", "latest"),
            cwd="/root",
            user="trainer",
            env_base="minimal",
            env={"A": "1", "B": "yes"},
            env_file=tmp_path / "secrets.env",
            env_from=("WANDB_API_KEY",),
            exit_codes={"75": "interrupted", "78": "refused"},
        ),
        stop=StopSpec(signal="TERM", grace_s=120.0),
        ready=ReadySpec(alive_for_s=0.0),
        preflight=PreflightSpec(
            gpus=8,
            free_space=20_000_000_000,
            python="/root/venv/bin/python",
            imports=("torch", "a.b"),
        ),
        checkpoints=CheckpointSpec(path="/workspace/checkpoints"),
        buckets=tmp_path / "buckets.json",
        dataset=DatasetSpec(
            path="/workspace/data", column="length", format="csv", python="/root/venv/bin/python"
        ),
        batching=BatchingSpec(
            count=8,
            token_budget=49152,
            max_batch_size=64,
            max_length=8192,
            align=16,
            window=128,
            order="random",
            ranks=8,
            accumulation=2,
            seed=7,
        ),
    )


def test_a_name_alone_is_a_playbook_with_the_usual_settings(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD) == Playbook(
        path=tmp_path / "deploy.yml",
        name="dflash",
        session="dflash",
        files=(),
        run=None,
        stop=StopSpec(signal="INT", grace_s=120.0),
        ready=ReadySpec(alive_for_s=10.0),
        preflight=PreflightSpec(),
        checkpoints=None,
    )


def test_a_command_alone_is_a_run_with_the_usual_settings(tmp_path: Path) -> None:
    assert load(tmp_path, f"{HEAD}run: {{command: [a]}}\n").run == RunSpec(
        command=("a",),
        resume=None,
        cwd=None,
        user=None,
        env_base="login",
        env={},
        env_file=None,
        env_from=(),
        exit_codes={},
    )


@pytest.mark.parametrize("signal", ["INT", "TERM", "HUP", "USR1", "USR2", "QUIT"])
def test_a_signal_may_have_its_sig_or_not(tmp_path: Path, signal: str) -> None:
    for written in (signal, f"SIG{signal}"):
        assert load(tmp_path, f"{HEAD}stop: {{signal: {written}}}\n").stop.signal == signal


def test_an_interpreter_may_be_a_plain_name(tmp_path: Path) -> None:
    playbook = load(tmp_path, f"{HEAD}preflight: {{python: python3.12}}\n")
    assert playbook.preflight.python == "python3.12"


def test_the_secrets_of_a_home_are_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert run_of(tmp_path, "env_file: ~/x.env").env_file == Path("/home/someone/x.env")


# --- mistakes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("nam: x", "nam", "unknown field; did you mean name? (allowed: version, name, "),
        ("session: a.b", "session", "must begin with a letter or digit and be without `.`, `:`"),
        ("session: 'a:b'", "session", "must begin with a letter or digit"),
        ('session: ""', "session", "must begin with a letter or digit"),
        ("session: $a", "session", "must begin with a letter or digit"),
        ("session: =a", "session", "must begin with a letter or digit"),
        ("session: -a", "session", "must begin with a letter or digit"),
        ("session: 'a#b'", "session", "must begin with a letter or digit"),
        ("session: 'a '", "session", "must begin with a letter or digit"),
        ('session: "a\\tb"', "session", "must begin with a letter or digit"),
        ("session: 'a\\b'", "session", "must begin with a letter or digit"),
        ("files: train.py", "files", "must be a list, not 'train.py'"),
        ("files: [train.py]", "files[0]", "must be a mapping (lines of `name: value`), not 'tr"),
        ("files: [{source: train.py}]", "files[0].dest", "is missing"),
        ("files: [{dest: /x}]", "files[0].source", "is missing"),
        ("files: [{source: '', dest: /x}]", "files[0].source", "must not be empty"),
        ("files: [{source: train.py, dest: x}]", "files[0].dest", "must be an absolute path"),
        ("files: [{source: train.py, dest: /a/../b}]", "files[0].dest", "must be a path without"),
        ("files: [{source: trian.py, dest: /x}]", "files[0].source",
         "trian.py is not there; did you mean train.py?"),
        ("files: [{source: train.py, dest: /x, mode: 755}]", "files[0].mode",
         'must be octal digits in quotes ("0755"), not 755'),
        ("files: [{source: train.py, dest: /x, mode: 0755}]", "files[0].mode",
         "YAML reads 0755 as another number than it seems: if text is meant, put it in quotes, "),
        ('files: [{source: train.py, dest: /x, mode: "0855"}]', "files[0].mode",
         "must be octal digits in quotes"),
        ('files: [{source: train.py, dest: /x, mode: "4755"}]', "files[0].mode",
         "must be octal digits in quotes"),
        ("run: {cwd: /x}", "run.command", "is missing"),
        ("run: {command: []}", "run.command", "must be a list whose first word is the program"),
        ("run: {command: [''] }", "run.command", "must be a list whose first word is the program"),
        ("run: {command: bash start.sh -n 1}", "run.command",
         "must be a list of words, as in [bash, start.sh, -n, 1], not one text"),
        ("run: {command: A=1 bash start.sh}", "run.command",
         'must be a list of words, as in [bash, -c, "A=1 bash start.sh"], not one text'),
        ("run: {command: ''}", "run.command", "must be a list of words"),
        ("run: {command: [python3, -n, 1]}", "run.command[2]",
         'YAML reads 1 as a number: put it in quotes, "1"'),
        ("run: {command: [a], resume: a}", "run.resume", "must be a list of words, as in [a], not"),
        ("run: {command: [a], cwd: root}", "run.cwd", "must be an absolute path, not 'root'"),
        ("run: {command: [a], env_base: logn}", "run.env_base",
         "must be login or minimal, not 'logn'; did you mean login?"),
        ("run: {command: [a], env: {A: 1}}", "run.env.A",
         'YAML reads 1 as a number: put it in quotes, "1"'),
        ("run: {command: [a], env: {A: true}}", "run.env.A",
         'YAML reads true as a truth value: put it in quotes, "true"'),
        ("run: {command: [a], env: {A: yes}}", "run.env.A",
         'YAML reads yes as a truth value: put it in quotes, "yes"'),
        ("run: {command: [a], env: {A: [x]}}", "run.env.A", "must be text, not a list"),
        ("run: {command: [a], env: {A-B: x}}", "run.env.A-B", "must be a variable's name"),
        ("run: {command: [a], env: {1A: x}}", "run.env.1A", "must be a variable's name"),
        ("run: {command: [a], env: {DFLASHCTL_RUN_ID: x}}", "run.env.DFLASHCTL_RUN_ID",
         "must not begin with DFLASHCTL_"),
        ("run: {command: [a], env_from: A}", "run.env_from", "must be a list, not 'A'"),
        ("run: {command: [a], env_from: [$A]}", "run.env_from[0]", "must be a variable's name"),
        ("run: {command: [a], env: {A: x}, env_from: [A]}", "run.env_from[0]",
         "A is in `env` as well"),
        ("run: {command: [a], env_file: ''}", "run.env_file", "must not be empty"),
        ("run: {command: [a], env_file: ~no-such-user-here/x}", "run.env_file",
         "begins with a home folder that is not there"),
        ("run: {command: [a], user: a b}", "run.user", "must be the name of a user, not 'a b'"),
        ("run: {command: [a], user: -a}", "run.user", "must be the name of a user, not '-a'"),
        ("run: {command: [a], exit_codes: {0: finished}}", "run.exit_codes[0]",
         "must be an exit code from 1 to 255, not 0"),
        ("run: {command: [a], exit_codes: {256: failed}}", "run.exit_codes[256]",
         "must be an exit code from 1 to 255, not 256"),
        ('run: {command: [a], exit_codes: {"75": failed}}', "run.exit_codes.75",
         "must be a whole number, not '75'"),
        ("run: {command: [a], exit_codes: {75: intrrupted}}", "run.exit_codes[75]",
         "must be one of finished, interrupted, refused, failed, not 'intrrupted'; did you mean"),
        ("stop: {signal: KILL}", "stop.signal",
         "must be one of INT, TERM, HUP, USR1, USR2, QUIT, not 'KILL'"),
        ("buckets: ''", "buckets", "must not be empty"),
        ("buckets: ~none-such/x", "buckets", "begins with a home folder that is not there"),
        ("buckets: b\nrun: {command: [a], env: {DFLASH_BUCKETS: b}}", "run.env.DFLASH_BUCKETS",
         "is set by `buckets`"),
        ("dataset: {path: data}", "dataset.path", "must be an absolute path"),
        ("dataset: {path: /data, python: bin/python}", "dataset.python", "must be an absolute"),
        ("batching: {count: 17}", "batching.count", "must be from 1 to 16, not 17"),
        ("batching: {token_budget: 0}", "batching.token_budget", "must be at least 1, not 0"),
        ("batching: {window: -1}", "batching.window", "must be at least 0, not -1"),
        ("batching: {order: rando}", "batching.order", "must be random or stratified, not"),
        ("stop: {signal: 2}", "stop.signal", "must be one of INT, TERM, HUP, USR1, USR2, QUIT"),
        ("stop: {grace: 120}", "stop.grace",
         "must be a number and a unit (90s, 15m, 2h, 7d), not 120"),
        ("stop: {grace: 1000d}", "stop.grace", "must be at most a year (366d), not 1000d"),
        ("ready: {alive_for: soon}", "ready.alive_for", "must be a number and a unit (90s, 15m"),
        ("ready: {}\npreflight: {gpus: -1}", "preflight.gpus", "must be from 0 to 1024, not -1"),
        ("preflight: {free_space: 20}", "preflight.free_space",
         "must be a number and a unit (20GB, 512MiB), not 20"),
        ("preflight: {free_space: 20Gb}", "preflight.free_space", "must be a number and a unit"),
        ("preflight: {python: a/b}", "preflight.python", "must be an absolute path, not 'a/b'"),
        ("preflight: {python: -c}", "preflight.python", "must be an absolute path, not '-c'"),
        ("preflight: {imports: [import os]}", "preflight.imports[0]", "must be a module's name"),
        ("checkpoints: {}", "checkpoints.path", "is missing"),
        ("checkpoints: {path: checkpoints}", "checkpoints.path", "must be an absolute path"),
        ('checkpoints: {path: "/a\\0b"}', "checkpoints.path", "must not hold a NUL character"),
        ("checkpoints: {path: /a, pth: 1}", "checkpoints.pth", "unknown field; did you mean path?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(
    tmp_path: Path, text: str, where: str, message: str
) -> None:
    (tmp_path / "train.py").write_text("")
    last = 3 + text.count("\n")
    ((line, place, said),) = faults(tmp_path, f"{HEAD}{text}\n")
    assert (line, place) == (last, where)
    assert said.startswith(message)


@pytest.mark.parametrize("name", ["DFlash", "a_b", "-a", "a.b", "'a b'", "é", "a" * 65, "''"])
def test_a_name_is_of_small_letters_digits_and_dashes(tmp_path: Path, name: str) -> None:
    ((line, where, message),) = faults(tmp_path, f"version: 1\nname: {name}\n")
    assert (line, where) == (2, "name")
    assert message.startswith("must be small letters, digits and dashes, at most 64")


def test_a_run_is_started_again_only_where_that_is_asked_for(tmp_path: Path) -> None:
    watch = load(tmp_path, f"{HEAD}watch: {{}}\n").watch
    assert watch is not None
    assert watch.restart is None
    watch = load(tmp_path, f"{HEAD}watch: {{restart: on-failure, restart_limit: 5}}\n").watch
    assert watch is not None
    assert watch.restart == Restart(limit=5, after_s=30.0)
    ((_, where, _),) = faults(tmp_path, f"{HEAD}watch: {{restart: always}}\n")
    assert where == "watch.restart"


def test_a_start_may_have_to_prove_itself_by_a_metric(tmp_path: Path) -> None:
    ready = load(tmp_path, f"{HEAD}ready: {{metric: step, within: 15m}}\n").ready
    assert (ready.alive_for_s, ready.metric, ready.within_s) == (10.0, "step", 900.0)
    ((_, where, message),) = faults(tmp_path, f"{HEAD}ready: {{metric: stop}}\n")
    assert where == "ready.metric"
    assert message.startswith("must be one of step, total_steps")


def test_metrics_come_from_the_output_a_pattern_or_a_file(tmp_path: Path) -> None:
    text = r"metrics: {from: output, pattern: '(?P<step>\d+) (?P<loss>\S+)'}"
    assert load(tmp_path, f"{HEAD}{text}\n").metrics.pattern == r"(?P<step>\d+) (?P<loss>\S+)"
    found = load(tmp_path, f"{HEAD}metrics: {{jsonl: /root/m.jsonl}}\n").metrics
    assert (found.pattern, found.jsonl) == (None, "/root/m.jsonl")


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("{from: output, jsonl: /x}", "metrics.jsonl", "come from it or from the output"),
        ("{pattern: '(?P<speed>x)'}", "metrics.pattern", "not speed"),
        ("{pattern: '(x'}", "metrics.pattern", "must be a regular expression"),
        ("{pattern: 'x'}", "metrics.pattern", "its groups are named after metrics"),
        ("{form: output}", "metrics.form", "did you mean from? (allowed: from, pattern, jsonl)"),
        ("{from: wandb}", "metrics.from", "must be output"),
    ],
)
def test_metrics_that_cannot_be_found_are_a_mistake(
    tmp_path: Path, text: str, where: str, words: str
) -> None:
    ((line, place, message),) = faults(tmp_path, f"{HEAD}metrics: {text}\n")
    assert (line, place) == (3, where)
    assert words in message


def test_every_mistake_is_told_at_once_in_the_files_order(tmp_path: Path) -> None:
    text = """\
name: DFlash
metrics: {pattern: "loss"}
files:
  - {source: none.py, dest: /x}
  - {source: a.py, dest: b}
run:
  command: bash start.sh
  env: {A: 1}
  env_from: [A]
  env_from: [A]
checkpoints: {path: x}
"""
    (tmp_path / "a.py").write_text("")
    found = faults(tmp_path, text)
    assert [(line, where) for line, where, _ in found] == [
        (1, "version"),
        (1, "name"),
        (2, "metrics.pattern"),
        (4, "files[0].source"),
        (5, "files[1].dest"),
        (7, "run.command"),
        (8, "run.env.A"),
        (10, "run.env_from"),
        (10, "run.env_from[0]"),
        (11, "checkpoints.path"),
    ]


FIELDS = "version name session files run stop ready preflight checkpoints"
OTHERS = "source dest mode command env env_from exit_codes signal grace path /x / 1 75 90s '*' ~ *a"
WORDS = st.sampled_from(f"{FIELDS} {OTHERS}".split())
VALUES = st.recursive(
    WORDS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(WORDS, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(FIELDS.split()), VALUES, min_size=1).map(
        lambda fields: "\n".join(f"{name}: {value}" for name, value in fields.items())
    )
)
def test_no_values_raise_anything_but_a_bad_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-playbook"
    folder.mkdir(exist_ok=True)
    (folder / "deploy.yml").write_text(text)
    try:
        outcome: object = load_playbook(folder / "deploy.yml").name
    except BadFile as error:
        outcome = error.faults
    assert outcome


# --- where it is looked for --------------------------------------------------------------


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD)
    return path


def test_the_option_comes_before_the_variable_and_the_usual_places(tmp_path: Path) -> None:
    usual = put(tmp_path / "playbooks/deploy.yml")
    a, b = put(tmp_path / "a.yml"), put(tmp_path / "b.yml")
    environ = {"DFLASHCTL_PLAYBOOK": "b.yml"}
    assert find_playbook("a.yml", environ, tmp_path) == a
    assert find_playbook(None, environ, tmp_path) == b
    assert find_playbook(None, {}, tmp_path) == usual


def test_the_users_configuration_is_the_last_place(tmp_path: Path) -> None:
    ours = put(tmp_path / "home/.config/dflashctl/playbooks/deploy.yml")
    other = put(tmp_path / "other/dflashctl/playbooks/deploy.yml")
    environ = {"HOME": str(tmp_path / "home")}
    assert find_playbook(None, environ, tmp_path) == ours
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "other")
    assert find_playbook(None, environ, tmp_path) == other


@pytest.mark.parametrize("said", ["none.yml", "~no-such-user-here/x"])
def test_an_option_that_leads_nowhere_is_not_passed_over(tmp_path: Path, said: str) -> None:
    put(tmp_path / "playbooks/deploy.yml")
    with pytest.raises(NoFile) as caught:
        find_playbook(said, {}, tmp_path)
    assert caught.value.kind == "playbook"
    assert said in caught.value.looked_in[0]


def test_no_playbook_at_all_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(NoFile) as caught:
        find_playbook(None, {"HOME": "/home/someone"}, tmp_path)
    assert caught.value.looked_in == (
        str(tmp_path / "playbooks/deploy.yml"),
        "/home/someone/.config/dflashctl/playbooks/deploy.yml",
    )


def test_a_folder_stands_for_its_playbook(tmp_path: Path) -> None:
    with pytest.raises(NoFile):
        find_playbook(str(tmp_path), {}, tmp_path)
    (tmp_path / "deploy.yml").touch()
    assert find_playbook(str(tmp_path), {}, tmp_path) == tmp_path / "deploy.yml"
    with pytest.raises(BadFile) as caught:
        load_playbook(tmp_path)
    assert caught.value.faults[0].message == "cannot be read: Is a directory"


def test_steps_become_values(tmp_path: Path) -> None:
    path = tmp_path / "steps.yml"
    path.write_text(
        "version: 1\nname: a\nsteps:\n"
        "  - {do: stop, when: {state: [RUNNING], checkpoints: {at_least: 2}}}\n"
        "  - {do: run, command: [make], timeout: 2m, on_failure: continue}\n"
        "  - {do: archive_checkpoints, name: v2}\n"
        "  - {do: start}\n"
        "  - {do: wait_ready, alive_for: 90s}\n"
    )
    stop, run, archive, _, wait = load_playbook(path).steps
    assert (stop.when.state, stop.when.at_least, stop.goes_on) == (("RUNNING",), 2, False)
    assert (run.command, run.timeout_s, run.goes_on) == (("make",), 120.0, True)
    assert (archive.name, wait.alive_for_s) == ("v2", 90.0)


@pytest.mark.parametrize(
    ("step", "where", "message"),
    [
        ("{do: stopp}", "steps[0].do", "did you mean stop?"),
        ("{command: [a]}", "steps[0].do", "is missing"),
        ("stop", "steps[0]", "must be a mapping"),
        (
            "{do: stop, command: [a]}",
            "steps[0].command",
            "unknown field (allowed: when, on_failure,",
        ),
        ("{do: run, command: [a], tmeout: 5s}", "steps[0].tmeout", "did you mean timeout?"),
        ("{do: run}", "steps[0].command", "is missing"),
        ("{do: wait_ready}", "steps[0].do", "do: start"),
        ("{do: start}, {do: start}", "steps[1].do", "one run only"),
        ("{do: push}, {do: optimize_buckets}", "steps[1].do", "comes first"),
        ("{do: stop, when: {state: [RUNING]}}", "steps[0].when.state[0]", "did you mean RUNNING?"),
        ("{do: stop, when: {gpus: 3}}", "steps[0].when.gpus", "did you mean gpus_free?"),
        ("{do: restore_checkpoints, name: a/b}", "steps[0].name", "must be letters"),
    ],
)
def test_a_mistake_in_a_step_is_told_where_it_is(
    tmp_path: Path, step: str, where: str, message: str
) -> None:
    path = tmp_path / "steps.yml"
    path.write_text(f"version: 1\nname: a\nsteps: [{step}]\n")
    with pytest.raises(BadFile) as caught:
        load_playbook(path)
    (fault,) = caught.value.faults
    assert fault.where == where
    assert message in fault.message
