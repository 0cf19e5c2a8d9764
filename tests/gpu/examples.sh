#!/usr/bin/env bash
# The main job on a GPU: as good as on the CPU, and its checkpoint and weights are the CPU's, too. Then the other
# examples. With FAKE_LIBRARY it runs on the fake GPU, else on the machine's.
#   examples.sh BIN SOURCE [FAKE_LIBRARY]
set -euo pipefail
# shellcheck source=../jobs/job.sh
. "$(dirname "$0")/../jobs/job.sh"
# shellcheck source=gpu.sh
. "$(dirname "$0")/gpu.sh"
data=$source/.deps/data/mnist-5k
if [[ ! -d $data ]]; then
  echo "skipped: $data is missing; run scripts/setup"
  exit 0
fi
accuracy() { grep -oE 'Accuracy: [0-9]+' "$work/out" | grep -oE '[0-9]+' | tail -n 1; }

kolo_run -np 2 --no-prefix "$bin/mnist" --data "$data" --epochs 2 --out "$work/cpu.pt"
on_cpu=$(accuracy)
on_gpu 2 "$bin/mnist" --data "$data" --epochs 2 --device cuda --out "$work/cuda.pt" --checkpoint "$work/saved"
check "training ends well" test "$code" -eq 0
on_cuda=$(accuracy)
echo "accuracy of 1000: CPU $on_cpu, CUDA $on_cuda"
check "it is as good as on the CPU" test $((on_cuda > on_cpu ? on_cuda - on_cpu : on_cpu - on_cuda)) -le 15
check "the weights load on a machine without a GPU, and are as good" \
  test "$("$bin/../tests/bin/load_weights" "$work/cuda.pt" "$data")" -eq "$on_cuda"

# What was saved on one device goes on on the other.
on_gpu 2 "$bin/mnist" --data "$data" --epochs 3 --device cuda --out "$work/cuda.pt" --checkpoint "$work/saved" --resume
check "a checkpoint goes on" test "$code" -eq 0
check "a checkpoint goes on: it says so" grep -q "^Resumed from" "$work/out"
check "a checkpoint goes on: one epoch was left" test "$(grep -c '^Test set' "$work/out")" -eq 1

pushd "$work" >/dev/null  # where it leaves files
on_gpu 2 "$bin/../tests/bin/docs_blocks" gpu.md
popd >/dev/null
check "the page's code runs" test "$code" -eq 0
check "the page's code runs: it says so" grep -qE '^gpu.md:[0-9]+: ok$' "$work/out"

"$bin/kolo" doctor >"$work/out" 2>&1 || true   # 1: it found something
check "kolo doctor knows that CUDA is built in" grep -qE '^  CUDA +[0-9]' "$work/out"
check "kolo doctor knows that NCCL is built in" grep -qE '^  NCCL +[0-9]' "$work/out"

# Nor is one seen where there are some.
kolo_run -np 2 --no-prefix -x CUDA_VISIBLE_DEVICES= "$bin/mnist" --data "$data" --epochs 1 --device cuda --out "$work/none.pt"
check "no GPU: the job fails" test "$code" -ne 0
check "no GPU: it says why" grep -q "sees no CUDA device" "$work/err"
on_gpu 2 "$bin/mnist" --device tpu
check "an unknown device is refused" grep -q "device tpu: it is cpu or cuda" "$work/err"

for ranks in 1 2 4; do
  on_gpu "$ranks" -x OMP_NUM_THREADS=1 "$bin/model_parallel" --data "$data" --steps 51 --device cuda
  check "model_parallel on $ranks ranks ends well" test "$code" -eq 0
  cp "$work/out" "$work/ranks-$ranks"
done
check "model_parallel on two ranks: as on two devices" cmp "$work/ranks-1" "$work/ranks-2"
check "model_parallel with two copies: the losses of one, nearly" \
  test "$(grep -oP '^Step 50: loss \d\.\d\d' "$work/ranks-4")" = "$(grep -oP '^Step 50: loss \d\.\d\d' "$work/ranks-1")"
on_gpu 2 -x OMP_NUM_THREADS=1 "$bin/model_parallel" --data "$data" --steps 51 --device cuda --compare
cp "$work/out" "$work/out.compare"
check "model_parallel --compare ends well" test "$code" -eq 0
check "model_parallel --compare: two ranks and two devices give the losses of one device" \
  grep -qE "^Largest difference of a loss from one device: two devices 0, two ranks (0|[1-9.]+e-0[5-9])$" "$work/out"

pushd "$work" >/dev/null
on_gpu 2 "$bin/linear_regression"
popd >/dev/null
check "linear_regression ends well" test "$code" -eq 0
check "linear_regression: the bias" grep -q "^bias: 0.50$" "$work/out"
if [[ -n $fake ]]; then
  check "model_parallel --compare: on two GPUs" grep -q "^Two devices:$" "$work/out.compare"
  mkdir "$work/plain"
  code=0
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_PRELOAD="$fake" KOLO_FAKE_GPUS=3 \
    timeout 120 "$bin/../tests/bin/trainer_job" "$work/plain" >"$work/out" 2>"$work/err" || code=$?
  check "launch() starts a rank for each GPU" is "$code $(sort "$work/plain/made" | paste -sd,)" "0 rank 0,rank 1,rank 2"
fi
on_gpu 2 "$bin/resnet50_synthetic" --device cuda --dtype bfloat16 --batch-size 2 --image-size 64 --warm-up 1 --iterations 1 --steps 1
check "resnet50_synthetic ends well: weights are the same on both ranks" test "$code" -eq 0
check "resnet50_synthetic: a figure" grep -q "^Images/s of all ranks: median" "$work/out"
for ranks in 1 2; do
  on_gpu "$ranks" "$bin/kolo-bench" device --model mnist --samples 2 --warm-up 1
  check "kolo bench device, $ranks ranks: works and contenders" \
    test "$(grep -oE "^(pack/mnist/$ranks +(kolo|kolo-scaled|copy)|step(-host)?/mnist/$ranks +(kolo|plain)) " "$work/out" | sort -u | wc -l)" -eq 7
done
kolo_run -np 1 --no-prefix -x CUDA_VISIBLE_DEVICES= "$bin/kolo-bench" device
check "kolo bench device without a GPU: it says so" grep -q "sees no CUDA device" "$work/err"
on_gpu 2 "$bin/char_gpt" --text "$source/README.md" --epochs 1 --device cuda
check "char_gpt ends well" test "$code" -eq 0
check "char_gpt: an epoch" grep -qaE '^epoch 1/1: ' "$work/out"
on_gpu 2 "$bin/dcgan" --data "$data" --epochs 1 --sync-batchnorm --device cuda
check "dcgan ends well: the ranks' networks are the same" test "$code" -eq 0
clothes=/usr/share/datasets/fashion-mnist
if [[ -d $clothes ]]; then
  code=0
  env ${fake:+"LD_PRELOAD=$fake"} "$bin/fashion_mnist" --measure-inference --plot "$work/inference.svg" \
    >"$work/out" 2>"$work/err" || code=$?
  check "fashion_mnist --measure-inference ends well" test "$code" -eq 0
  check "fashion_mnist --measure-inference: a plot" test -s "$work/inference.svg"
  on_gpu 2 "$bin/fashion_mnist" --device cuda --epochs 1
  check "fashion_mnist: at least 80 % after an epoch" \
    test "$(grep -oP '^epoch 1/1: .*, valid_accuracy 0[.]\K\d\d' "$work/out")" -ge 80
else
  missing fashion_mnist "$clothes is missing; apt-get install dataset-fashion-mnist"
fi
finish
