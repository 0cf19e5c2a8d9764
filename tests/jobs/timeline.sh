#!/usr/bin/env bash
# Timelines of whole jobs: of one that ends, and of one whose ranks are killed.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
job=$bin/../tests/bin/faulty_job
# Names of spans in a Chrome trace by process, as "1: STEP 1"; fails for what is no JSON.
spans() {
  python3 -c '
import json, sys
for event in json.load(open(sys.argv[1])):
    if event["ph"] == "X":
        print("{}: {}".format(event["pid"], event["name"]))' "$1"
}

kolo_run -np 2 --timeline "$work/well" "$job" sleep 9   # nobody is rank 9
check "a job with a timeline ends well" test "$code" -eq 0
"$bin/kolo" trace merge "$work/well" > "$work/out" 2> "$work/err" && code=0 || code=$?
check "its timelines are merged" test "$code" -eq 0
check "the merged one has the ranks' clocks" test "$(grep -cE 'rank [01] on .*: clock .* known to .* us by [1-9]' "$work/err")" -eq 2
spans "$work/well/all.json" > "$work/spans"
for process in 1 2; do
  check "rank $((process - 1)) has its steps" test "$(grep -c "^$process: STEP [1-4]$" "$work/spans")" -eq 4
  check "rank $((process - 1)) has its reductions" test "$(grep -c "^$process: SHM_ALLREDUCE$" "$work/spans")" -ge 11
done
"$bin/kolo" trace merge "$work/well" -o - > "$work/piped" 2> "$work/err"
check "to standard output it is the same" cmp -s "$work/piped" "$work/well/all.json"

timeout 60 "$bin/kolo" run --allow-run-as-root -np 2 --timeline "$work/killed" "$job" sleep 1 > "$work/out" 2> "$work/err" &
launcher=$!
for _ in $(seq 200); do
  grep -q '"STEP 2"' "$work/killed/timeline-rank-0.json" 2> /dev/null && break
  sleep 0.05
done
for rank in 0 1; do
  kill -9 "$(sed -nE 's/.*"name":"kolo",.*"process":([0-9]+),.*/\1/p' "$work/killed/timeline-rank-$rank.json")"
done
wait $launcher && code=0 || code=$?
check "a job whose ranks are killed fails" test "$code" -ne 0
"$bin/kolo" trace merge "$work/killed" > "$work/out" 2> "$work/err" && code=0 || code=$?
check "its timelines are merged, too" test "$code" -eq 0
check "that they were not ended is told" test "$(grep -c 'it was not ended' "$work/err")" -eq 2
check "they have the steps that were made" test "$(spans "$work/killed/all.json" | grep -cE '^[12]: STEP [12]$')" -eq 4
# As viewers do: without the array's end, and with the last comma.
python3 -c 'import json, sys; json.loads(open(sys.argv[1]).read().rstrip().rstrip(",") + "]")' \
  "$work/killed/timeline-rank-0.json" && code=0 || code=$?
check "each file can be read as it is" test "$code" -eq 0

"$bin/kolo" trace merge "$work" > "$work/out" 2> "$work/err" && code=0 || code=$?
check "a folder without timelines is refused" test "$code" -eq 2
check "and why" grep -q "there are no timelines here" "$work/err"
kolo_run -np 2 --timeline /dev/null/folder "$job" sleep 9
check "a folder that cannot be made ends the job at once" grep -q "/dev/null/folder: the folder cannot be made" "$work/err"
finish
