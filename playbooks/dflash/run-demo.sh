#!/usr/bin/env bash
# The DFlash trainer on this machine, on its CPU: deploy it with all samples in one bucket, watch
# it, find the buckets that suit its data, deploy it with them, compare the two runs. Everything happens in
# one throw-away folder, with a tmux server of its own; nothing is left running. `dflashctl` is
# found along PATH; PYTHON is an interpreter with torch, numpy and safetensors.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=$(command -v "${PYTHON:-python3}") || { echo "no ${PYTHON:-python3} found" >&2; exit 1; }
for needed in dflashctl tmux; do
  command -v "$needed" >/dev/null || { echo "the demo needs $needed on PATH" >&2; exit 1; }
done
unset TMUX
# Short on purpose: the path of a socket has room for about 100 characters.
room=$(mktemp -d /tmp/dflashctl-dflash.XXXXXX)

clean_up() {
  code=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [ -e "$room/state" ]; then
    # 75: a deploy that was interrupted here is still at work over there, to its end.
    for _ in $(seq 30); do
      stopped=0
      dflashctl stop >/dev/null 2>&1 || stopped=$?
      [ "$stopped" -eq 75 ] || break
      sleep 1
    done
    [ "$stopped" -eq 0 ] || tmux -S "$room/tmux" kill-session -t =dflash 2>/dev/null || true
  fi
  rm -rf "$room"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# The playbook, with so many buckets.
play() {
  cat >"$room/dflash.yml" <<PLAYBOOK
version: 1
name: dflash
files:
  - {source: "dflash/*.py", dest: $room/there}
  - {source: dflash/config.json, dest: $room/there/config.json}
  - {source: dflash/start_training.sh, dest: $room/there/start_training.sh}
run:
  command: [bash, $room/there/start_training.sh]
  resume: [bash, $room/there/start_training.sh, --resume, latest]
  env_base: minimal
  env:
    PYTHON: $python
    DATA: $room/data
    CHECKPOINTS: $room/checkpoints
  exit_codes: {75: interrupted, 78: refused}
stop: {signal: INT, grace: 60s}
ready: {alive_for: 3s}
preflight: {gpus: 0, python: $python, imports: [torch, numpy, safetensors]}
checkpoints:
  path: $room/checkpoints
  pattern: "step-*"
  complete_when: {file: COMPLETE}
metrics: {jsonl: $room/checkpoints/metrics.jsonl}
dataset: {path: $room/data/lengths.npy, python: $python}
batching: {count: $1, token_budget: 1536, max_batch_size: 32, max_length: 520, ranks: 1}
buckets: buckets.json
PLAYBOOK
}
cp -r "$here" "$room/dflash"
# A run that does not end by itself within the demo.
sed -e '/"strategy"/d' -e 's/"epochs": .*/"epochs": 60,/' \
  "$here/smoke.json" >"$room/dflash/config.json"
cat >"$room/hosts.yml" <<INVENTORY
version: 1
hosts:
  here:
    connection: local
    state_dir: $room/state
    tmux_socket: $room/tmux
INVENTORY
export DFLASHCTL_INVENTORY="$room/hosts.yml" DFLASHCTL_PLAYBOOK="$room/dflash.yml"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' plain=$'\e[0m'
fi

say() { printf '\n%s\n' "$*"; }

# Shows a command and runs it; its exit code must be one of those given first.
run() {
  local expected=$1 code=0
  shift
  printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
  "$@" || code=$?
  if ! [[ $code =~ ^($expected)$ ]]; then
    echo "the demo stops here: exit code $code, and $expected was expected" >&2
    exit 1
  fi
}

# Waits until the trainer has saved that step.
await_step() {
  for _ in $(seq 600); do
    [ ! -e "$room/checkpoints/step-$1/COMPLETE" ] || return 0
    sleep 0.2
  done
  echo "no step $1 after 120 s; the trainer's last lines:" >&2
  dflashctl logs -n 10 >&2 || true
  exit 1
}

run_id() { { dflashctl status --json || true; } | sed -n 's/.*"run": *{"id": *"\([^"]*\)".*/\1/p'; }

say "A drafter learns on this machine's CPU, in $room: all samples in one bucket first."
run 0 env "PYTHONPATH=$here/../.." OMP_NUM_THREADS=1 "$python" "$here/dflash_data.py" \
  synthetic "$room/data"
play 1
run 0 dflashctl optimize-buckets --apply
run 0 dflashctl deploy
await_step 00000100
run '0|5' dflashctl status # 5: a machine that is busy otherwise has its ups and downs
first=$(run_id)
say "Half of its tokens are padding. Which buckets suit its data?"
play 6
run 0 dflashctl optimize-buckets --apply
say "With them, from the beginning, to compare the two runs:"
run 0 dflashctl deploy --restart --clear-checkpoints
await_step 00000100
run '0|5' dflashctl status # 5: a machine that is busy otherwise has its ups and downs
run 0 dflashctl compare "$first" "$(run_id)"
run 0 dflashctl stop
run 3 dflashctl status
say "It saved before it ended. Nothing runs any more, and $room is removed."
