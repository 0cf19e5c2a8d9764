#!/usr/bin/env bash
# report.sh BIN TESTBIN: the report of 4 ranks and 1,000 steps, in a real browser. 77: there is none.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2/make_timelines" "$work" 4 1000
code=0
said=$("$1/kolo" trace report "$work" 2>&1) || code=$?
printf '%s\n' "$said"
if grep -q "built without plotly.min.js" <<<"$said"; then
  echo "SKIPPED: built without plotly.min.js (scripts/setup fetches it)"
  exit 77
fi
((code == 0))
grep -q "^train, started 2025-11-25 21:44 UTC, 4 ranks on node1, node2$" <<<"$said"
grep -q "^- Rank 3 on node2 is slow, since step 601" <<<"$said"
export TMPDIR=$work   # of the browser
"$here/browse_report.py" "$work/report.html"
