#!/usr/bin/env bash
# Starts the trainer, a process for each GPU, and exits with its code: 0 finished, 75 interrupted
# and saved, 78 refused. Options go to the trainer. What may be set:
#   CONFIG       its configuration; config.json beside this file
#   DATA, CHECKPOINTS   in place of the configuration's
#   PYTHON       an interpreter with torch, numpy and safetensors
#   PROCESSES    how many; as many as there are GPUs
#   NODES, NODE_RANK, MASTER_ADDR, MASTER_PORT   of several machines, which share both folders
# Where a playbook says `distributed`, dflashctl starts torchrun itself, and the trainer without
# this script.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
processes=${PROCESSES:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)}
python=${PYTHON:-python3}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if ! "$python" -c 'import dflashctl.buckets.batching'; then
  echo "refused: what makes the batches is not on PYTHONPATH; deploy brings it with buckets.json" >&2
  exit 78
fi
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT

if [ "${NODES:-1}" -gt 1 ]; then
  # Static: with an elastic rendezvous rank 0 need not be on node 0.
  where=(--nnodes "$NODES" --node-rank "$NODE_RANK"
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT")
else
  where=(--standalone --local-addr 127.0.0.1)
fi
options=(--config "${CONFIG:-$here/config.json}" --outcome "$run/outcome.json")
[ -z "${DATA:-}" ] || options+=(--data "$DATA")
[ -z "${CHECKPOINTS:-}" ] || options+=(--checkpoints "$CHECKPOINTS")

# torchrun gets its signals from here and once only, for a second one makes it give up: hence the
# session of its own. If this script is killed, it is told to stop. It waits for a save to end.
setpriv --pdeathsig TERM setsid env --default-signal=INT,QUIT \
  "$python" -m torch.distributed.run "${where[@]}" \
  --nproc-per-node "$((processes > 0 ? processes : 1))" --max-restarts 0 \
  --signals-to-handle SIGTERM,SIGINT --shutdown-timeout 900 \
  "$here/train_dflash_pipeline.py" "${options[@]}" "$@" &
child=$!
told=''
pass_on() {
  [ -n "$told" ] || kill -s "$1" "$child" 2>/dev/null || true
  told=1
}
trap 'pass_on INT' INT
trap 'pass_on TERM' TERM

code=0
while kill -0 "$child" 2>/dev/null; do # a signal ends the waiting, not what is waited for
  code=0
  wait "$child" || code=$?
done
if [ -s "$run/outcome.json" ]; then
  code=$(sed -n 's/.*"exit_code": \([0-9]*\).*/\1/p' "$run/outcome.json")
fi
exit "$code"
