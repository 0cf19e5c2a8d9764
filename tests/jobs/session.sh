#!/usr/bin/env bash
# How kolo begins and ends: settings that differ between ranks, a rank that cannot start, the program's own
# MPI_Finalize(), a rank that never shuts down, a fork, and many process sets.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"

# with_values VARIABLE VALUE...: a script that gives the variable one value a rank ("-": none) and then starts its
# arguments.
with_values() {
  local variable=$1
  shift
  cat > "$work/rank.sh" << SCRIPT
#!/usr/bin/env bash
values=($*)
value=\${values[\$RANK]}
if [[ \$value == - ]]; then unset $variable; else export $variable=\$value; fi
exec "\$@"
SCRIPT
  chmod +x "$work/rank.sh"
}

# --- settings ---
differ() { # VARIABLE VALUES MESSAGE: the job fails on all three ranks, and each says this
  local variable=$1 values=$2 message=$3
  # shellcheck disable=SC2086
  with_values "$variable" $values
  kolo_run --no-prefix -np 3 "$work/rank.sh" "$bin/../tests/bin/session_job" reduce
  check "$variable of $values: the job fails" test "$code" -eq 4
  check "all ranks say why" test "$(grep -c "^error: .*$message" "$work/out")" -eq 3
}
differ KOLO_FUSION_TENSOR_LIMIT "- 1000 -" "KOLO_FUSION_TENSOR_LIMIT is 131072 on rank 0, but 1000 on rank 1"
differ KOLO_DISABLE_GROUP_FUSION "1 - 0" "KOLO_DISABLE_GROUP_FUSION is 1 on rank 0, but 0 on ranks 1, 2"
differ KOLO_CHUNK_BYTES "- - 64" "KOLO_CHUNK_BYTES is 131072 on rank 0, but 64 on rank 2"
differ KOLO_TIMELINE "- $work/timeline -" "KOLO_TIMELINE is not set on rank 0, but (set) on rank 1"
differ KOLO_CHUNK_BYTES "- none -" "KOLO_CHUNK_BYTES='none' is not valid"
agree() { # VARIABLE VALUES: differs, and the job goes on
  # shellcheck disable=SC2086
  with_values "$1" $2
  kolo_run --no-prefix -np 3 "$work/rank.sh" "$bin/../tests/bin/session_job" reduce
  check "$1 of $2: the job works" test "$code" -eq 0
}
agree KOLO_CHUNK_BYTES "131072 - -"     # as the default
agree KOLO_FUSION_THRESHOLD "- 0 1000"  # rank 0's holds
agree KOLO_SHARED_MEMORY "1 0 1"        # all ranks of the node do without
agree KOLO_STALL_CHECK_TIME_SECONDS "- 5 0"

# --- the end ---
for how in finalize finalize-first; do
  kolo_run --no-prefix -np 2 "$bin/../tests/bin/session_job" "$how"
  check "$how: the exit code is the program's" test "$code" -eq 0
  check "its work was done" test "$(grep -c "work done" "$work/out")" -eq 2
  check "there is a warning" grep -q "MPI_Finalize() was called before kolo::shutdown()" "$work/err"
done
KOLO_SHUTDOWN_TIMEOUT_SECONDS=1 kolo_run --no-prefix -np 2 "$bin/../tests/bin/session_job" stopped
check "a rank that never shuts down does not keep the job" test "$code" -ne 124
check "the job has failed" test "$code" -ne 0
check "it is named" grep -q "rank 1 did not shut down within 1 s" "$work/err"

# --- forks ---
kolo_run --no-prefix -np 2 "$bin/../tests/bin/session_job" fork
check "a forked child trains by itself" grep -qx "child: weight 0.75" "$work/out"
check "and is told why it cannot take part" grep -q "child: kolo::barrier(): this process was forked from rank 0" "$work/out"
check "the ranks go on" test "$(grep -cx "rank: weight 0.75" "$work/out")" -eq 2
check "the job ends well" test "$code" -eq 0
kolo_run --no-prefix -np 2 "$bin/../tests/bin/session_job" fork-sum
check "a forked child trains by itself, with Sum" grep -qx "child: weight 0.625" "$work/out"
check "and its parent with all ranks" is "$code $(grep -cx "rank: weight 0.75" "$work/out")" "0 2"

# --- counters that wrap ---
kolo_run --no-prefix -np 2 "$bin/../tests/bin/session_job" sets 65700
check "sums in 65,700 process sets, one after the other, are right" test "$code" -eq 0
finish
