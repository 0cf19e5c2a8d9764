#!/usr/bin/env bash
# read_summary.sh PROGRAM SOURCE: what SummaryWriter writes, read by TensorBoard's own reader. 77: it is not here.
set -euo pipefail
python=$2/.deps/venv/bin/python
if ! "$python" -c 'import tensorboard, PIL' 2>/dev/null; then
  echo "SKIPPED: no tensorboard in .deps/venv (scripts/setup installs it)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$work"
"$python" "$(dirname "$0")/read_summary.py" "$work"
