#!/usr/bin/env bash
# What a profiler that listens to NVTX is told, on a GPU that is none.
#   ranges.sh TEST_BIN LISTENER
set -euo pipefail
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
show_failure() { tail -n 20 "$work/log"; }
# shellcheck source=../checks.sh
. "$(dirname "$0")/../checks.sh"
export NVTX_INJECTION64_PATH=$2 KOLO_NVTX_LOG=$work/log
numbers() { grep "^$1 " "$work/log" | cut -d ' ' -f 2 | sort -n; }
check_ranges() { # WHAT
  check "$1: ranges that begin, end" test "$(numbers start)" = "$(numbers end)"
  check "$1: each once" test -z "$(numbers end | uniq -d)"
}

"$bin/device_engine_test" --gtest_filter='DeviceReductions/0.SumWaits*' >"$work/out"
check_ranges collectives
check "collectives: of 1 to 4 ranks, twice" test "$(grep -c "^start .* allreduce of 'sum40000', 160000 bytes" "$work/log")" -eq 20
if [[ -x $bin/fake_cuda_test ]]; then
  "$bin/fake_cuda_test" --gtest_filter='*TrainsAsOnTheCpu' >"$work/out" 2>&1
  check_ranges training
  check "training: the optimizer waits" test "$(grep -c "^push 0 waits for gradients" "$work/log")" -eq 32
  check "training: scopes end" test "$(grep -c ^pop "$work/log")" -eq 32
fi
finish
