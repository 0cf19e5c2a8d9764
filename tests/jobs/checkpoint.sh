#!/usr/bin/env bash
# MNIST that is stopped, killed and resumed at random times ends with the bits of a run that was not.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
digits=$source/.deps/data/mnist-5k
if [[ ! -d $digits ]]; then
  echo "skipped: $digits is missing; run scripts/setup"
  exit 0
fi
RANDOM=7
# shellcheck source=../small_digits.sh
. "$(dirname "$0")/../small_digits.sh"
data=$work/data
small_digits "$digits" "$data"

train() {  # train RANKS FOLDER OPTIONS...: mnist with its weights in FOLDER
  mkdir -p "$2"
  kolo_run -np "$1" --no-prefix "$bin/mnist" --data "$data" --batch-size 32 --epochs 9 --out "$2/mnist_cnn.pt" "${@:3}"
}

for ranks in 1 2 3; do
  whole=$work/whole-$ranks broken=$work/broken-$ranks
  train "$ranks" "$whole"
  check "$ranks ranks: a run without checkpoints ends well" test "$code" -eq 0
  last=$(grep -c '^Test set' "$work/out")
  check "$ranks ranks: it has nine tests" test "$last" -eq 9

  train "$ranks" "$broken" --checkpoint "$broken/c" --stop-after 2
  check "$ranks ranks: --stop-after asks to be started again" test "$code" -eq 75
  stopped=0 killed=0 attempt=0 by=
  while ((code != 0 && attempt < 30)); do
    attempt=$((attempt + 1))
    if ((attempt > 12)); then
      train "$ranks" "$broken" --checkpoint "$broken/c" --resume
      break
    fi
    : > "$work/out"
    "$bin/kolo" run --allow-run-as-root -np "$ranks" --no-prefix "$bin/mnist" --data "$data" --batch-size 32 --epochs 9 \
      --out "$broken/mnist_cnn.pt" --checkpoint "$broken/c" --resume > "$work/out" 2> "$work/err" < /dev/null &
    runner=$!
    for _ in $(seq 300); do grep -q '^Train' "$work/out" && break; kill -0 $runner 2> /dev/null || break; sleep 0.05; done
    sleep "0.$((RANDOM % 9))"
    if ((attempt % 4 == 0)); then
      kill -KILL $runner 2> /dev/null && killed=$((killed + 1)) || true
    else
      signal=$([[ $((attempt % 2)) = 0 ]] && echo USR1 || echo TERM)
      kill "-$signal" $runner 2> /dev/null || true
    fi
    code=0
    wait $runner 2> /dev/null || code=$?
    if ((code == 75)); then stopped=$((stopped + 1)) by="$by $signal"; fi
  done
  echo "$ranks ranks: stopped $stopped times by$by, killed $killed times"
  check "$ranks ranks: it was stopped and saved" test "$stopped" -ge 1
  check "$ranks ranks: the broken run ends well" test "$code" -eq 0
  check "$ranks ranks: the weights have the same bits" cmp "$whole/mnist_cnn.pt" "$broken/mnist_cnn.pt"
  check "$ranks ranks: two checkpoints are left, and nothing else" \
    test "$(find "$broken/c" -type f | grep -cE 'checkpoint-[0-9]{9}\.h5$') $(find "$broken/c" -type f | wc -l)" = "2 2"
done

KOLO_LOG_LEVEL=info train 2 "$work/logged" --checkpoint "$work/logged/c" --stop-after 1
check "the log has size and speed" grep -qE 'info: checkpoint .*checkpoint-[0-9]+\.h5: [0-9.]+ MB in [0-9.]+ s \([0-9]+ MB/s\)' "$work/err"

train 2 "$work/again" --checkpoint "$work/broken-2/c"
check "a new run does not mix its checkpoints with another's" test "$code" -eq 1
check "which it says" grep -q "holds checkpoints; add --resume" "$work/err"
train 2 "$work/again" --resume
check "--resume alone is refused" grep -q -- "need --checkpoint DIR" "$work/err"
# What three ranks have saved two can go on from; it is over, so nothing is trained.
train 2 "$work/fewer" --checkpoint "$work/broken-3/c" --resume
check "another number of ranks resumes" test "$code" -eq 0
check "and has the same weights" cmp "$work/whole-3/mnist_cnn.pt" "$work/fewer/mnist_cnn.pt"

# The tool, on what was saved.
tool() { code=0; "$bin/kolo" checkpoint "$@" > "$work/out" 2> "$work/err" || code=$?; }
mapfile -t saved < <(find "$work/broken-2/c" -name '*.h5' | sort)
tool ls "$work/broken-2/c"
check "ls: a line for each" test "$code $(grep -cE '^ +[0-9]+ .* 2 .*checkpoint-[0-9]+\.h5$' "$work/out")" = "0 2"
tool info "${saved[1]}"
check "info: values and tensors" test "$code $(grep -cE '^  (epoch = 10|model/conv1.weight  float32\[32, 1, 3, 3\]|random/cpu  uint8\[2, 5056\]  one of each rank)$' "$work/out")" = "0 3"
tool verify "$work/broken-2/c"
check "verify: whole" test "$code $(grep -c '^whole' "$work/out")" = "0 2"
tool diff "${saved[1]}" "${saved[1]}"
check "diff: the same" test "$code" -eq 0
tool diff "${saved[0]}" "${saved[1]}"
check "diff: another step" test "$code $(grep -cE '^(epoch: 9 and 10|model/fc2.bias: 10 of 10 elements differ, by up to .*)$' "$work/out")" = "1 2"

cd "$work"
for there_and_back in h5,safetensors,h5 h5,pt,h5 h5,pt,safetensors,h5; do
  IFS=, read -ra formats <<< "$there_and_back"
  from=${saved[1]}
  for i in "${!formats[@]}"; do
    ((i > 0)) || continue
    tool convert "$from" "converted-$i.${formats[$i]}"
    check "convert to ${formats[$i]}" test "$code" -eq 0
    from=converted-$i.${formats[$i]}
  done
  tool convert "${saved[1]}" "model.h5"
  tool diff "model.h5" "$from"
  check "convert there and back, $there_and_back: the same" test "$code" -eq 0
done
load_weights=$bin/../tests/bin/load_weights
whole=$("$load_weights" "$work/whole-2/mnist_cnn.pt" "$data")
tool convert "${saved[1]}" module.pt --module
check "torch::load reads what was converted with --module, and it is as good" \
  test "$("$load_weights" module.pt "$data") right" = "${whole:?} right"
tool convert "${saved[1]}" model.pt
check "torch::pickle_load reads what was converted without, and it is as good" \
  test "$("$load_weights" model.pt "$data" state_dict) right" = "$whole right"
export PYTHONDONTWRITEBYTECODE=1
any_names=$source/tests/jobs/any_names.py
python3 "$any_names" write names.safetensors
from=names.safetensors
for to in names-1.pt names-2.h5 names-3.pt names-4.safetensors names-5.pt; do
  tool convert "$from" "$to"
  check "any name can be converted to $to" test "$code" -eq 0
  from=$to
done
check "a state_dict has any names" test "$(python3 "$any_names" check names-5.pt)" = "all names are there"
tool convert names.safetensors names-module.pt --module
check "a module has not" test "$code $(grep -c 'cannot be a name in a module' "$work/err") $(find . -name 'names-module*' | wc -l)" = "2 1 0"
tool convert "${saved[1]}" model.safetensors --module
check "--module is refused for other formats" test "$code $(grep -c -- '--module is for .pt' "$work/err")" = "2 1"
tool convert "${saved[1]}" model.unknown
check "convert: an unknown format is refused" grep -q "does not show a format" "$work/err"
tool convert "${saved[1]}" other.pt --component nothing
check "convert: a component that is not there is refused" grep -q "no tensors under 'nothing'" "$work/err"

cp "${saved[1]}" damaged.h5
printf '\x5a' | dd of=damaged.h5 bs=1 seek=9000000 conv=notrunc status=none
head -c 50000 "${saved[1]}" > cut.h5
for file in damaged.h5 cut.h5; do
  tool verify $file
  check "verify: $file" test "$code $(grep -c "^damaged  $file is damaged" "$work/out")" = "1 1"
done
tool verify "$work/nothing.h5"
check "verify: no such file is an error, and no damage" test "$code $(grep -c 'No such file' "$work/err")" = "2 1"
tool ls "$work/nothing"
check "ls: no such folder" test "$code $(grep -c 'No such file' "$work/err")" = "2 1"
tool frobnicate
check "an unknown command" test "$code $(grep -c "unknown command 'frobnicate'" "$work/err")" = "2 1"

# What Python's torch.save wrote.
state=$source/tests/jobs/state_dict.pt
tool convert "$state" python.h5
check "convert: what Python saved, but for what is no value" \
  test "$code $(cat "$work/err")" = "0 kolo checkpoint convert: left out 'arguments': it is neither a tensor that this format supports, nor a number, nor a text"
tool info python.h5
check "info: its tensors" test "$(grep -cE '^  model/(model.0.weight  float32\[3, 2\]|model.1.num_batches_tracked  int64\[\]|transposed  float32\[2, 3\]|half  bfloat16\[2\]|optimizer.state.3.exp_avg_sq  float32\[3\])$' "$work/out")" = 5
tool convert "$state" python.safetensors
tool convert python.safetensors python2.h5
tool diff python.h5 python2.h5
check "convert from Python to safetensors: the same" test "$code" -eq 0
check "and it has the notes" test "$(grep -c '"notes/\|notes/epoch = "3"' <("$bin/kolo" checkpoint info python2.h5))" = 1
for refused in module scripted; do
  tool convert "$source/tests/jobs/$refused.pt" refused.h5
  check "convert: $refused.pt is refused, and nothing of it runs" \
    test "$code $(grep -c 'has no named tensors' "$work/err") $(grep -c 'never be seen' "$work/out")" = "2 1 0"
done

# Other programs read the files.
if command -v h5dump > /dev/null; then
  h5dump -a /epoch "${saved[1]}" > "$work/out" 2> "$work/err"
  check "h5dump reads a value" grep -q '(0): 10' "$work/out"
  h5dump -d /model/fc2.bias "${saved[1]}" > "$work/out" 2> "$work/err"
  check "h5dump reads a tensor" grep -q 'DATASPACE  SIMPLE { ( 10 ) / ( 10 ) }' "$work/out"
  h5dump -d /model/transposed python.h5 > "$work/out" 2> "$work/err"
  check "h5dump reads a transposed tensor of Python's" grep -q '(0,0): 0, 2, 4,' "$work/out"
else
  echo "skipped: h5dump reads a checkpoint (it is not on PATH; Debian's package is hdf5-tools)"
fi
finish
