#!/usr/bin/env bash
# The main job, on this machine: deploy a small trainer, watch it learn, restart it with its
# checkpoints cleared, stop it. Everything happens in one throw-away folder, with a tmux
# server of its own; nothing is left running. `dflashctl` is found along PATH, and so is a
# python3 with numpy for the trainer (or name one in PYTHON).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=$(command -v "${PYTHON:-python3}") || { echo "no ${PYTHON:-python3} found" >&2; exit 1; }
for needed in dflashctl tmux; do
  command -v "$needed" >/dev/null || { echo "the demo needs $needed on PATH" >&2; exit 1; }
done
unset TMUX
# Short on purpose: the path of a socket has room for about 100 characters.
room=$(mktemp -d /tmp/dflashctl-demo.XXXXXX)

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
    [ "$stopped" -eq 0 ] || tmux -S "$room/tmux" kill-session -t =demo 2>/dev/null || true
  fi
  rm -rf "$room"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# The demo's playbook with this folder and this interpreter in it, and an inventory.
cp -r "$here" "$room/demo"
sed -e "s|/tmp/dflashctl-demo|$room|g" -e "s|: python3\$|: \"$python\"|" \
  "$here/../demo.yml" >"$room/demo.yml"
cat >"$room/hosts.yml" <<INVENTORY
version: 1
hosts:
  here:
    connection: local
    state_dir: $room/state
    tmux_socket: $room/tmux
INVENTORY
export DFLASHCTL_INVENTORY="$room/hosts.yml" DFLASHCTL_PLAYBOOK="$room/demo.yml"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' plain=$'\e[0m'
fi

say() { printf '\n%s\n' "$*"; }

# Shows a command and runs it; its exit code must be the one given first.
run() {
  local expected=$1 code=0
  shift
  printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
  "$@" || code=$?
  if [ "$code" -ne "$expected" ]; then
    echo "the demo stops here: exit code $code, and $expected was expected" >&2
    exit 1
  fi
}

# Waits until the trainer has saved that many checkpoints.
await_checkpoints() {
  local found
  for _ in $(seq 150); do
    mapfile -t found < <(compgen -G "$room/checkpoints/step-*/COMPLETE")
    [ "${#found[@]}" -lt "$1" ] || return 0
    sleep 0.2
  done
  echo "not $1 checkpoints after 30 s; the trainer's last lines:" >&2
  dflashctl logs -n 10 >&2 || true
  exit 1
}

say "A trainer learns to write sentences, on this machine, in $room."
run 0 dflashctl deploy
say "It runs. A few seconds, until it has saved four checkpoints."
await_checkpoints 4
run 0 dflashctl status
run 0 dflashctl logs -n 8
say "The command for every day: stop it gracefully, clear its checkpoints, start anew, verify."
run 0 dflashctl deploy --restart --clear-checkpoints
await_checkpoints 1
run 0 dflashctl status
run 0 dflashctl logs -n 3
run 0 dflashctl stop
run 3 dflashctl status
say "Nothing runs any more, which is what the exit code 3 says, and $room is removed."
