#!/usr/bin/env bash
# The examples that are more than hello and mnist.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
digits=$source/.deps/data/mnist-5k
clothes=/usr/share/datasets/fashion-mnist

# points FILE COUNT...: succeeds if the SVG file is XML and its lines have these numbers of points.
points() {
  python3 -c 'import sys, xml.dom.minidom as x
lines = x.parse(sys.argv[1]).getElementsByTagName("polyline")
sys.exit([len(line.getAttribute("points").split()) for line in lines] != [int(count) for count in sys.argv[2:]])' "$@"
}

# --- model_parallel: the same training, wherever the halves are ---
if [[ ! -d $digits ]]; then
  echo "skipped: model_parallel: $digits is missing; run scripts/setup"
else
  for ranks in 1 2 4; do   # one thread, so that sums have the same order
    kolo_run -np $ranks --no-prefix -x OMP_NUM_THREADS=1 "$bin/model_parallel" --data "$digits" --steps 101
    check "model_parallel on $ranks ranks ends well" test "$code" -eq 0
    cp "$work/out" "$work/ranks-$ranks"
  done
  check "model_parallel learns" test "$(grep -oP 'Accuracy: \K\d+' "$work/ranks-1")" -ge 700
  check "model_parallel on two ranks: as in one process" cmp "$work/ranks-1" "$work/ranks-2"
  # Two copies add up in another order.
  check "model_parallel with two copies: the same losses, nearly" \
    awk 'FNR == NR {if (/loss/) one[$2] = $4; next} /loss/ {d = one[$2] - $4; if ($4 ~ /^[0-9.]+$/ && d > -0.02 && d < 0.02) good++} END {exit good != 3}' \
    "$work/ranks-1" "$work/ranks-4"
  kolo_run -np 2 --no-prefix -x OMP_NUM_THREADS=1 "$bin/model_parallel" --data "$digits" --steps 51 --compare
  check "model_parallel --compare: one device, two devices and two ranks give the same losses" \
    grep -q "^Largest difference of a loss from one device: two devices 0, two ranks 0$" "$work/out"
  kolo_run -np 3 "$bin/model_parallel" --data "$digits"
  check "model_parallel on three ranks: refused" grep -q "a job of 3 ranks: start one, or two for each copy" "$work/err"
  kolo_run -np 4 "$bin/model_parallel" --data "$digits" --batch-size 63
  check "model_parallel, a batch that two copies cannot share: refused" grep -q "batch-size 63: 2 copies cannot" "$work/err"
fi

# --- resnet50_synthetic ---
for dtype in float32 bfloat16; do
  kolo_run -np 2 --no-prefix "$bin/resnet50_synthetic" --dtype $dtype --batch-size 2 --image-size 64 --warm-up 1 \
    --iterations 2 --steps 1
  check "resnet50_synthetic in $dtype ends well: weights are the same on both ranks" test "$code" -eq 0
  check "resnet50_synthetic in $dtype: its parameters are ResNet-50's" grep -q "with 25557032 parameters, $dtype on cpu" "$work/out"
  check "resnet50_synthetic in $dtype: the ranks' own figures" \
    grep -qE '^Images/s of a rank: mean [0-9.]+, deviation [0-9.]+$' "$work/out"
  check "resnet50_synthetic in $dtype: figures" grep -qE '^Images/s of all ranks: median [0-9.]+ \([0-9.]+ to [0-9.]+\)$' "$work/out"
done
kolo_run -np 1 "$bin/resnet50_synthetic" --dtype float8
check "resnet50_synthetic, an unknown dtype: code 2" test "$code" -eq 2

# --- linear_regression ---
cd "$work"
export CUDA_VISIBLE_DEVICES=  # so that its ranks do not share a GPU
kolo_run -np 2 --no-prefix "$bin/linear_regression"
check "linear_regression ends well" test "$code" -eq 0
check "linear_regression: rank 0 alone prints" test "$(wc -l < "$work/out")" -eq 9
check "linear_regression finds the line" grep -q '^bias: 0.50$' "$work/out"
check "linear_regression: a row for each epoch" test "$(wc -l < runs/linear_regression/metrics.csv)" -eq 9
losses() { sed -E 's/,[^,]*,[^,]*,[^,]*$//' runs/linear_regression/metrics.csv; }  # without what depends on time
by_factory=$(losses)
kolo_run -np 2 --no-prefix "$bin/linear_regression" datasets
check "linear_regression with datasets instead of a function: the same losses" is "$code $(losses)" "0 $by_factory"
code=0
"$bin/linear_regression" alone > "$work/out" 2> "$work/err" || code=$?
check "linear_regression alone finds the line" is "$code $(grep -c '^bias: 0.50$' "$work/out")" "0 1"
alone=$(losses)
kolo_run -np 1 --no-prefix "$bin/linear_regression"
check "linear_regression on one rank: the losses of one process" is "$code $(losses)" "0 $alone"
# Started plainly it starts its ranks, by the kolo that was built with it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0
timeout 120 "$bin/linear_regression" --np 2 > "$work/out" 2> "$work/err" || code=$?
check "linear_regression --np 2 ends well" test "$code" -eq 0
check "linear_regression --np 2: the ranks are those of kolo run" grep -q '^\[0\] bias: 0.50$' "$work/out"
code=0
"$bin/linear_regression" --np none > "$work/out" 2> "$work/err" || code=$?
check "linear_regression, a bad number of ranks: refused" grep -q '\-\-np is "none"; it must be a number of ranks' "$work/err"
code=0
timeout 120 "$bin/linear_regression" > "$work/out" 2> "$work/err" || code=$?
check "linear_regression in one process ends well" test "$code" -eq 0
check "linear_regression in one process finds the line" grep -q 'bias: 0.50$' "$work/out"
unset CUDA_VISIBLE_DEVICES
cd "$source"

# --- char_gpt: on the project's own pages ---
kolo_run -np 2 --no-prefix "$bin/char_gpt" --text "$source/README.md" "$source"/docs/*.md --epochs 5 --device cpu
check "char_gpt ends well" test "$code" -eq 0
check "char_gpt learns which letters are frequent" \
  awk -F'valid_loss ' '/^epoch 5\/5/ {split($2, loss, ","); found = loss[1] ~ /^[0-9.]+$/ && loss[1] < 3.1} END {exit !found}' "$work/out"
check "char_gpt: rank 0 writes a text in the end" test "$(grep -av '^epoch' "$work/out" | wc -c)" -ge 190
kolo_run -np 2 "$bin/char_gpt" --text "$work/none" --device cpu
check "char_gpt without a text: the file is named" grep -q "$work/none: the file cannot be read" "$work/err"
kolo_run -np 1 "$bin/char_gpt" --text "$work" --device cpu
check "char_gpt, a folder for a text: it is named" grep -q "$work: the file cannot be read" "$work/err"
echo "A short text." > "$work/short"
kolo_run -np 1 "$bin/char_gpt" --text "$work/short" --device cpu
check "char_gpt, a short text: refused" grep -q "the text has 14 bytes; at least 650 are needed" "$work/err"
kolo_run -np 1 "$bin/char_gpt" --text "$work/short" --batch-size 0
check "char_gpt, no batch: code 2" test "$code" -eq 2

# --- dcgan ---
if [[ -d $digits ]]; then
  kolo_run -np 2 --no-prefix "$bin/dcgan" --data "$digits" --epochs 4 --sync-batchnorm --images "$work/images"
  check "dcgan ends well: the ranks' networks are the same" test "$code" -eq 0
  check "dcgan: made images become as dark as digits" \
    awk '/^Epoch/ {ink[$2 + 0] = $8} END {exit !(ink[4] > 0.05 && ink[4] < ink[1] - 0.05)}' "$work/out"
  check "dcgan: rank 0 writes images" test "$(cat "$work"/images/events.out.tfevents.* | wc -c)" -ge 10000
else
  echo "skipped: dcgan: $digits is missing; run scripts/setup"
fi

# --- in_situ ---
kolo_run -np 4 --no-prefix "$bin/in_situ" --plot "$work/in_situ.svg"
check "in_situ ends well" test "$code" -eq 0
check "in_situ: the surrogate predicts the solver" \
  awk '/^Step 400: error/ {found = $4 ~ /^[0-9.]+$/ && $4 < 0.15} END {exit !found}' "$work/out"
check "in_situ: the plot is XML, with a point for each round" \
  points "$work/in_situ.svg" 100
cp "$work/out" "$work/four"
kolo_run -np 2 --no-prefix "$bin/in_situ"
check "in_situ with one solver: the same errors, nearly" \
  awk 'FNR == NR {if (/^Step/) four[$2] = $4; next} /^Step/ {d = four[$2] - $4; if ($4 ~ /^[0-9.]+$/ && d > -0.01 && d < 0.01) good++} END {exit good != 5}' \
  "$work/four" "$work/out"
kolo_run -np 4 "$bin/in_situ" --size 65
check "in_situ, rows that two solvers cannot share: refused on all ranks" \
  grep -q "65 rows cannot be shared by 2 solvers" "$work/err"
kolo_run -np 2 "$bin/in_situ" --rounds 3 --lr 1e30 --plot "$work/infinite.svg"
check "in_situ, a rate that is too high: the job ends with the reason" grep -q "the error of the surrogate is not finite" "$work/err"
kolo_run -np 3 "$bin/in_situ"
check "in_situ on three ranks: refused" grep -q "this is a job of 3 ranks: start an even number" "$work/err"

# --- fashion_mnist ---
if [[ -d $clothes ]]; then
  kolo_run -np 2 --no-prefix "$bin/fashion_mnist" --epochs 1 --device cpu
  check "fashion_mnist ends well" test "$code" -eq 0
  check "fashion_mnist: rank 0 alone prints" test "$(wc -l < "$work/out")" -eq 1
  check "fashion_mnist: at least 80 % after an epoch" \
    test "$(grep -oP '^epoch 1/1: .*, valid_accuracy 0[.]\K\d\d' "$work/out")" -ge 80
  kolo_run -np 2 --no-prefix "$bin/fashion_mnist" --measure-loading --plot "$work/loading.svg" --batch-size 256
  check "fashion_mnist --measure-loading: a line for each number of workers" \
    test "$(grep -cE '^ +[01248] +[1-9][0-9]*$' "$work/out")" -eq 5
  check "fashion_mnist --measure-loading: a plot" points "$work/loading.svg" 5
else
  missing fashion_mnist "$clothes is missing; apt-get install dataset-fashion-mnist"
fi
"$bin/fashion_mnist" --measure-inference --plot "$work/inference.svg" --device cpu > "$work/out" 2> "$work/err" || true
check "fashion_mnist --measure-inference: a line for each size of a batch" \
  test "$(grep -cE '^ +[0-9]+ +[1-9][0-9]* +[1-9][0-9]*$' "$work/out")" -eq 7
check "fashion_mnist --measure-inference: a plot of both" points "$work/inference.svg" 7 7
kolo_run -np 1 "$bin/fashion_mnist" --data "$work"
check "fashion_mnist without data: the file is named" grep -q "train-images-idx3-ubyte\|t10k-images-idx3-ubyte" "$work/err"
finish
