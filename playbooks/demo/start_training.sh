#!/usr/bin/env bash
# Starts the demo trainer. CHECKPOINTS: where it saves; PYTHON: an interpreter with numpy.
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "$0")/train.py" \
  --out "${CHECKPOINTS:-/workspace/checkpoints}" "$@"
