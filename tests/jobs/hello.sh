#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
for ranks in 1 2 3; do
  kolo_run -np "$ranks" --no-prefix "$bin/hello"
  check "hello on $ranks ranks ends well" test "$code" -eq 0
  for ((rank = 0; rank < ranks; ++rank)); do
    check "rank $rank of $ranks says hello" grep -qx "Hello from: $rank" "$work/out"
  done
  check "nobody else does" test "$(wc -l <"$work/out")" -eq "$ranks"
done
# As another MPI's launcher, or srun without its plugin, would start it.
for variable in OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS; do
  code=0
  env "$variable=4" "$bin/hello" > "$work/out" 2> "$work/err" < /dev/null || code=$?
  check "$variable: a program that MPI thinks alone does not run" test "$code" -ne 0
  check "and says why" grep -q "has started 4 processes ($variable), but MPI reports only this one" "$work/err"
done
finish
