#!/usr/bin/env bash
# The main job: the MNIST network on the 5,000 digits.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
data=$source/.deps/data/mnist-5k
if [[ ! -d $data ]]; then
  echo "skipped: $data is missing; run scripts/setup"
  exit 0
fi
kolo_run -np 2 --no-prefix "$bin/mnist" --data "$data" --out "$work/mnist_cnn.pt" --log-interval 10
check "training ends well" test "$code" -eq 0
check "rank 0 alone prints training lines" test "$(grep -cP '^Train Epoch: \d+ \[\d+/4000 \(\d+%\)\]\tLoss: \d+\.\d+$' "$work/out")" -eq 36
check "a test line an epoch" test "$(grep -cE '^Test set: Average loss: [0-9.]+, Accuracy: [0-9]+/1000 \([0-9]+%\)$' "$work/out")" -eq 9
check "the time is told once" test "$(grep -cE '^Total time: [0-9.]+ sec$' "$work/out")" -eq 1
best=$(grep -oE 'Accuracy: [0-9]+' "$work/out" | grep -oE '[0-9]+' | sort -n | tail -n 1)
last=$(grep -oE 'Accuracy: [0-9]+' "$work/out" | grep -oE '[0-9]+' | tail -n 1)
echo "accuracy: last $last, best $best of 1000"
check "at least 96 % in the end" test "$last" -ge 960
check "torch::load reads the weights, and they are as good" \
  test "$("$bin/../tests/bin/load_weights" "$work/mnist_cnn.pt" "$data")" -eq "$last"
if [[ -n ${KOLO_PYTHON:-} ]]; then
  "$bin/kolo" checkpoint convert "$work/mnist_cnn.pt" "$work/weights.pt" >/dev/null
  check "Python's torch.load reads the weights, and what they are converted to" "$KOLO_PYTHON" -W ignore -c "
import sys, torch
saved = torch.load(sys.argv[1], weights_only=False).state_dict()
converted = torch.load(sys.argv[2])
assert len(saved) == 13 and saved.keys() == converted.keys()
assert all(torch.equal(saved[name], converted[name]) for name in saved)" "$work/mnist_cnn.pt" "$work/weights.pt"
else
  echo "skipped: Python's torch.load (set KOLO_PYTHON to a Python with torch, which is several GB)"
fi
kolo_run -np 2 --no-prefix "$bin/mnist" --data "$work" --epochs 1
check "missing data: the job fails" test "$code" -ne 0
check "missing data: the file is named" grep -q "train-images-idx3-ubyte" "$work/err"
kolo_run -np 2 --no-prefix "$bin/mnist" --epochs 0
check "bad option: code 2" test "$code" -eq 2
check "bad option: named" grep -q -- "--epochs must be at least 1" "$work/err"
finish
