#!/usr/bin/env bash
# A rank that goes early or dies ends the job within seconds, by an error that names it.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
for who in 0 1 2; do
  for what in leave exit exit-hook; do
    kolo_run -np 3 "$bin/../tests/bin/faulty_job" "$what" "$who"
    check "$what on rank $who: the job fails" test "$code" -ne 0
    check "$what on rank $who: both others name rank and tensor" \
      test "$(grep -c "rank $who shut kolo down or exited before submitting tensor 'data'" "$work/out")" -eq 2
    check "$what on rank $who: within 20 s" test "$(grep -cE "failed after 1?[0-9]\." "$work/out")" -eq 2
    [[ $what == leave ]] ||
      check "$what on rank $who: it is blamed, and its exit code passed on" \
        is "$code $(tail -n 1 "$work/err" | grep -c "rank $who .*exited with code 3")" "3 1"
  done
  for what in kill-late kill-caught; do
    kolo_run -np 3 "$bin/../tests/bin/faulty_job" "$what" "$who"
    check "$what on rank $who: it is blamed, and no rank that left because of it" \
      is "$code $(tail -n 1 "$work/err" | grep -c "rank $who .*SIGKILL")" "137 1"
  done
  # The other ranks end with code 0 before kolo run hears of the end of the rank that they lost.
  [[ $who == 1 ]] || {
    kolo_run -np 3 "$bin/../tests/bin/faulty_job" kill-slow "$who"
    check "kill-slow on rank $who: it is blamed, and no rank that left because of it" \
      is "$code $(tail -n 1 "$work/err" | grep -c "rank $who .*SIGKILL")" "137 1"
  }
  rm -rf "$work/flight"
  KOLO_FLIGHT_RECORDER_DIR=$work/flight kolo_run -np 3 "$bin/../tests/bin/faulty_job" kill "$who"
  check "kill on rank $who: the job ends with the signal's code" test "$code" -eq 137
  check "kill on rank $who: within 20 s" ended_within 20
  check "kill on rank $who: it is named" grep -q "rank $who .*SIGKILL" "$work/err"
  check "kill on rank $who: both others say so" \
    test "$(grep -c "allreduce of 'data': the process of rank $who has ended" "$work/out")" -eq 2
  "$bin/kolo" trace diagnose "$work/flight" >"$work/diagnosis" || true   # 1: it found something
  check "kill on rank $who: and leave their records" \
    test "$(grep -cE "^rank [012] on .* for: failure: .*the process of rank $who has ended" "$work/diagnosis")" -eq 2
  check "kill on rank $who: the diagnosis" grep -q "^rank $who has left no record here: killed" "$work/diagnosis"
done
KOLO_SHARED_MEMORY=0 kolo_run -np 3 "$bin/../tests/bin/faulty_job" kill 1
check "kill on rank 1 without shared memory: it is named" grep -q "rank 1 .*SIGKILL" "$work/err"
check "kill on rank 1 without shared memory: both others say so" \
  test "$(grep -c "allreduce of 'data': the process of rank 1 has ended" "$work/out")" -eq 2
# Amid what is reduced or broadcast: its bytes cannot come any more.
for what in die die-broadcast; do
  kind=allreduce
  [ $what = die ] || kind=broadcast
  for who in 0 2; do
    rm -rf "$work/flight"
    shared=0
    [[ $what$who == die2 || $what$who == die-broadcast0 ]] || shared=1
    KOLO_SHARED_MEMORY=$shared KOLO_FLIGHT_RECORDER_DIR=$work/flight \
      kolo_run -np 3 "$bin/../tests/bin/faulty_job" $what $who
    check "$what on rank $who: the job ends with the signal's code" test "$code" -eq 137
    check "$what on rank $who: within 20 s" ended_within 20
    check "$what on rank $who: it is named" grep -q "rank $who .*SIGKILL" "$work/err"
    # The other receiver of a broadcast may have all it needs, and wait in the next operation.
    next='none'
    [ $what$who != die-broadcast2 ] || next="allreduce of 'data'"
    check "$what on rank $who: another says so, of an operation that was under way" \
      grep -qE "($kind of '[0-5]'.*|$next): the process of rank $who has ended" "$work/out"
    "$bin/kolo" trace diagnose "$work/flight" >"$work/diagnosis" || true   # 1: it found something
    # Or, where the rank was slower to hear of the others' than to end, that it is waited for.
    check "$what on rank $who: the diagnosis says what did not end" \
      grep -qE "$kind of '[0-5]' in step 1 (has begun and not ended on|was submitted on all ranks that have left a record)" \
      "$work/diagnosis"
  done
done
# What MPI has under way then can never end: neither the program nor MPI_Finalize may wait for it.
for shared in 0 1; do
  stopped="a rank that is stopped amid an operation (KOLO_SHARED_MEMORY=$shared)"
  KOLO_SHARED_MEMORY=$shared KOLO_COLLECTIVE_TIMEOUT_SECONDS=2 kolo_run -np 3 "$bin/../tests/bin/faulty_job" stop 1
  check "$stopped: the job fails" test "$code" -ne 0
  check "$stopped: within 20 s" ended_within 20
  check "$stopped: it is named" \
    grep -q "started on every rank but moved no byte on rank . for 2 s: rank 1 is stopped" "$work/out"
done
# A whole job that is suspended, and goes on rank by rank.
KOLO_COLLECTIVE_TIMEOUT_SECONDS=3 kolo_run --verbose -np 3 "$bin/../tests/bin/faulty_job" work 0 10 &
job=$!
for ((i = 0; i < 300; ++i)); do
  (($(grep -c 'rank . on host .*, pid' "$work/err" 2> /dev/null) == 3)) && break
  sleep 0.1
done
sleep 2  # at work
mapfile -t pids < <(grep -oP 'rank . on host .*, pid \K\d+' "$work/err")
for ((i = 2; i >= 0; --i)); do  # one after the other, so that the first to go on has nothing to do but to wait
  kill -STOP "${pids[i]}"
  sleep 0.3
done
sleep 5
for pid in "${pids[@]}"; do
  kill -CONT "$pid"
  sleep 0.3
done
wait "$job"
check "a job that was suspended goes on" grep -q "all work was done" "$work/out"
kolo_run -np 3 "$bin/../tests/bin/faulty_job" throw 1
check "an exception on rank 1: the job fails" test "$code" -ne 0
check "an exception on rank 1: rank 1 is named" grep -q "rank 1 .*SIGABRT" "$work/err"
kolo_run -np 2 "$bin/../tests/bin/faulty_job" uncaught 1
check "an uncaught exception of kolo: the job fails" test "$code" -eq 1
check "an uncaught exception of kolo: the message is one line" \
  test "$(grep -c "rank 1\] error: uncaught exception: broadcast of 'weights' on rank 1: root rank 99" "$work/err")" -eq 1
check "an uncaught exception of kolo: no stack" test "$(grep -cE "SIGABRT|Signal|terminate called" "$work/err")" -eq 0
KOLO_BACKTRACE=1 kolo_run -np 2 "$bin/../tests/bin/faulty_job" uncaught 1
check "KOLO_BACKTRACE=1: it ends by abort()" grep -q "rank 1 .*SIGABRT" "$work/err"
finish
