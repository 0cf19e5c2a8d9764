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
finish
