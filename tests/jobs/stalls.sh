#!/usr/bin/env bash
# A job that does not go on says who is waited for, and what its ranks have recorded tells why.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
export KOLO_STALL_CHECK_TIME_SECONDS=1 KOLO_STALL_SHUTDOWN_TIME_SECONDS=5 KOLO_COLLECTIVE_TIMEOUT_SECONDS=5
run() { # WHAT RANK
  rm -rf "$work/flight"
  KOLO_FLIGHT_RECORDER_DIR=$work/flight kolo_run -np 3 "$bin/../tests/bin/faulty_job" "$1" "$2"
  diagnosed=0
  "$bin/kolo" trace diagnose "$work/flight" > "$work/diagnosis" 2>&1 || diagnosed=$?
}
says() { grep -qE "$1" "$work/err"; }
diagnosis() { [ "$diagnosed" = 1 ] && grep -qE "$1" "$work/diagnosis"; }

stopped="(has left no record here|did not run for [2-9]\.. s before|wrote its record [0-9]+\.. s before the failure on rank [0-2], and none afterwards)"

run sleep 2
check "rank 2 comes late: the job ends well" test "$code" -eq 0
check "rank 2 comes late: that is logged" says "the job stalls: rank 2 has not submitted allreduce of 'first', which another rank submitted [123] s ago"
check "rank 2 comes late: the diagnosis" diagnosis "rank 2 never submitted allreduce of 'first' in step 3; ranks .* did, the first [12]\.. s before"
check "rank 2 comes late: what it did last" diagnosis "Rank 2, in step 3: the last thing it did was allreduce of 'second' in step 2, which ended .*waits for no operation"

run sleep 0
check "rank 0 comes late: the job ends well" test "$code" -eq 0
check "rank 0 comes late: that is logged" says "the job stalls: rank 0 has not submitted allreduce of 'first'"

run skip 2
check "rank 2 skips a tensor: the job ends in time" says "ends because of KOLO_STALL_SHUTDOWN_TIME_SECONDS: .*rank 2 has not submitted allreduce of 'first'"
check "rank 2 skips a tensor: the diagnosis" diagnosis "rank 2 never submitted allreduce of 'first' in step 3"
check "rank 2 skips a tensor: it waits for another" diagnosis "Rank 2, in step 3: .*its program waits for allreduce of 'second'"

run skip-unhandled 2
check "no rank catches the error: the job fails" test "$code" -ne 0
check "no rank catches the error: all have left their records" \
  test "$(grep -l '"reason":"failure: .*KOLO_STALL_SHUTDOWN_TIME_SECONDS' "$work"/flight/flight-rank-[012].json | wc -l)" -eq 3

run reach 2
check "rank 2's backward() reaches no parameter: the report says whose backward() is missing" \
  says "the job stalls: .*rank 2 has not submitted allreduce of 'backward\(\) or step\(\) of net'"

run order 0
check "rank 0 waits in another order: the job fails" test "$code" -ne 0
check "rank 0 waits in another order: the diagnosis" diagnosis "The ranks wait in different order: rank [12] waits for allreduce of 'first', which rank 0 has not submitted; that one waits for allreduce of 'second'"

run kind 2
check "rank 2 broadcasts what the others reduce: every rank gets an error, in time" \
  test "$(grep -cE "failed after .*'first': operation: allreduce on ranks 0, 1; broadcast on rank 2" "$work/out")" -eq 3

run stop-early 2
check "rank 2 is stopped before it submits: the job fails" test "$code" -ne 0
check "rank 2 is stopped before it submits: that is logged" says "rank 2 has not submitted allreduce of 'first'.*; rank 2 is stopped"
check "rank 2 is stopped before it submits: the diagnosis" diagnosis "^rank 2 $stopped"
# The end of the job lets it go on: it may come to its submission then, or leave no record.
check "rank 2 is stopped before it submits: it has not submitted" \
  diagnosis "rank 2 never submitted allreduce of 'first'|'first' in step 3 was submitted on all ranks(, the last of which, rank 2, came [4-9]\.. s after the first, rank [01];| that have left a record: it waits for rank 2)"

run stop-early 0
check "rank 0, which coordinates, is stopped: that is logged" says "allreduce of 'first' was submitted [2-4] s ago, and rank 0, the coordinator, has not reported on it: rank 0 is stopped"
check "rank 0, which coordinates, is stopped: the job ends in time" says "ends because of KOLO_STALL_SHUTDOWN_TIME_SECONDS: .*rank 0, the coordinator, has not reported"
check "rank 0, which coordinates, is stopped: the diagnosis" diagnosis "^rank 0 $stopped"

for what in stop stop-broadcast; do
  run $what 2
  kind=allreduce
  [ $what = stop ] || kind=broadcast
  check "rank 2: $what: the job fails" test "$code" -ne 0
  check "rank 2: $what: that is logged" says "the job stalls: $kind of '[0-5]'(, and [0-9] further operations,)? started on every rank, and moved nothing on rank [01] for [123] s"
  check "rank 2: $what: the diagnosis" diagnosis "$kind of '[0-5]' in step 1 has begun and not ended on ranks?"
  check "rank 2: $what: who it is" diagnosis "^rank 2 $stopped"
done

# While it runs: what the launcher has started is asked.
rm -rf "$work/flight"
KOLO_FLIGHT_RECORDER_DIR=$work/flight KOLO_STALL_CHECK_TIME_SECONDS=0 timeout 60 "$bin/kolo" run --allow-run-as-root \
  -np 3 "$bin/../tests/bin/faulty_job" sleep 1 >"$work/out" 2>"$work/err" &
job=$!
launcher=
for _ in $(seq 100); do
  launcher=$(pgrep -P $job || true)   # timeout's child
  [ -n "$launcher" ] && "$bin/kolo" dump "$launcher" > "$work/paths" 2>"$work/asked" &&
    [ "$(wc -l < "$work/paths")" -eq 3 ] && break
  sleep 0.05
done
wait $job && code=0 || code=$?
check "kolo dump: the job ends well" test "$code" -eq 0
check "kolo dump: nothing was told without being asked" test "$(grep -c stalls "$work/err")" -eq 0
check "kolo dump: each rank has written" test "$(sort "$work/paths" | tr '\n' ' ')" = \
  "$work/flight/flight-rank-0.json $work/flight/flight-rank-1.json $work/flight/flight-rank-2.json "
check "kolo dump: it says what to do next" grep -q "^kolo trace diagnose $work/flight shows" "$work/asked"
code=0
"$bin/kolo" dump $$ > "$work/out" 2> "$work/err" || code=$?
check "kolo dump of another process: refused" test "$code" -eq 1
check "kolo dump of another process: says why" grep -q "is not a rank of kolo, and has started no rank" "$work/err"

run quiet 0
check "all do nothing: the job ends well" test "$code" -eq 0
check "all do nothing: that is told, by one rank, once" \
  test "$(grep -c "the program has submitted nothing for [12] s, and waits for nothing: in step 3" "$work/err")" -eq 1
check "all do nothing: nobody waits" grep -q "No rank waits for another" "$work/diagnosis"
finish
