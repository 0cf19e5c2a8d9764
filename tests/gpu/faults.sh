#!/usr/bin/env bash
# A rank that dies, or is stopped, while NCCL reduces on a GPU: the others, which wait for the GPU, do so for seconds at
# most. With FAKE_LIBRARY it runs on the fake GPU, else on the machine's.
#   faults.sh BIN SOURCE [FAKE_LIBRARY]
set -euo pipefail
# shellcheck source=../jobs/job.sh
. "$(dirname "$0")/../jobs/job.sh"
# shellcheck source=gpu.sh
. "$(dirname "$0")/gpu.sh"
for who in 0 2; do
  rm -rf "$work/flight"
  KOLO_FLIGHT_RECORDER_DIR=$work/flight on_gpu 3 "$bin/../tests/bin/faulty_job" die-cuda "$who"
  check "death of rank $who: the job ends with the signal's code" test "$code" -eq 137
  check "death of rank $who: within 20 s" ended_within 20
  check "death of rank $who: it is named" grep -q "rank $who .*SIGKILL" "$work/err"
  check "death of rank $who: another says so" grep -q "the process of rank $who has ended" "$work/out"
  "$bin/kolo" trace diagnose "$work/flight" >"$work/diagnosis" || true   # 1: it found something
  check "death of rank $who: the diagnosis says what did not end" \
    grep -qE "allreduce of bucket [0-9]+ .* in step 1 has begun and not ended on" "$work/diagnosis"
done
KOLO_COLLECTIVE_TIMEOUT_SECONDS=2 on_gpu 3 "$bin/../tests/bin/faulty_job" stop-cuda 1
check "a rank is stopped: the job fails" test "$code" -ne 0
check "a rank is stopped: within 20 s" ended_within 20
check "a rank is stopped: the others say what has not ended" \
  grep -qE "allreduce of '0' and 5 more was enqueued on the device of rank [02] 2 s ago and has not ended" "$work/out"
finish
