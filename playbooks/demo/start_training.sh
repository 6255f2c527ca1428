#!/usr/bin/env bash
# Starts the demo trainer. CHECKPOINTS: where it saves; PYTHON: an interpreter with numpy;
# DATASET: the lengths of its samples, where DFLASH_BUCKETS names boundaries for them.
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "$0")/train.py" \
  --out "${CHECKPOINTS:-/workspace/checkpoints}" "$@"
