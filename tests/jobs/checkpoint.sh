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
# The first images are enough: cut_idx HOW_MANY IN OUT HEADER_BYTES BYTES_OF_ONE
cut_idx() {
  { head -c 4 "$2"; printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' 0 0 $(($1 / 256)) $(($1 % 256)))"
    dd if="$2" iflag=skip_bytes,count_bytes skip=8 count=$(($4 - 8 + $1 * $5)) status=none; } > "$3"
}
data=$work/data
mkdir "$data"
for set in train:1000 t10k:300; do
  count=${set#*:} set=${set%:*}
  cut_idx "$count" "$digits/$set-images-idx3-ubyte" "$data/$set-images-idx3-ubyte" 16 784
  cut_idx "$count" "$digits/$set-labels-idx1-ubyte" "$data/$set-labels-idx1-ubyte" 8 1
done

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
  result=$(grep '^Test set' "$work/out" | tail -n 1)

  train "$ranks" "$broken" --checkpoint "$broken/c" --stop-after 2
  check "$ranks ranks: --stop-after asks to be started again" test "$code" -eq 75
  stopped=0 killed=0 attempt=0
  cp "$work/out" "$work/all"
  while ((code != 0 && attempt < 30)); do
    attempt=$((attempt + 1))
    if ((attempt > 12)); then
      train "$ranks" "$broken" --checkpoint "$broken/c" --resume
      cat "$work/out" >> "$work/all"
      break
    fi
    : > "$work/out"
    "$bin/kolo" run -np "$ranks" --no-prefix "$bin/mnist" --data "$data" --batch-size 32 --epochs 9 \
      --out "$broken/mnist_cnn.pt" --checkpoint "$broken/c" --resume > "$work/out" 2> "$work/err" < /dev/null &
    runner=$!
    for _ in $(seq 300); do grep -q '^Train' "$work/out" && break; kill -0 $runner 2> /dev/null || break; sleep 0.05; done
    sleep "0.$((RANDOM % 9))"
    if ((attempt % 4 == 0)); then
      kill -KILL $runner 2> /dev/null && killed=$((killed + 1)) || true
    else
      kill "-$([[ $((attempt % 2)) = 0 ]] && echo USR1 || echo TERM)" $runner 2> /dev/null || true
    fi
    code=0
    wait $runner 2> /dev/null || code=$?
    cat "$work/out" >> "$work/all"
    if ((code == 75)); then stopped=$((stopped + 1)); fi
  done
  echo "$ranks ranks: stopped $stopped times, killed $killed times"
  check "$ranks ranks: it was stopped and saved" test "$stopped" -ge 1
  check "$ranks ranks: the broken run ends well" test "$code" -eq 0
  check "$ranks ranks: the last test is the same" test "$(grep '^Test set' "$work/all" | tail -n 1)" = "$result"
  check "$ranks ranks: the weights have the same bits" cmp "$whole/mnist_cnn.pt" "$broken/mnist_cnn.pt"
  check "$ranks ranks: two checkpoints are left, and nothing else" \
    test "$(find "$broken/c" -type f | grep -cE 'checkpoint-[0-9]{9}\.h5$') $(find "$broken/c" -type f | wc -l)" = "2 2"
done

train 2 "$work/again" --checkpoint "$work/broken-2/c"
check "a new run does not mix its checkpoints with another's" test "$code" -eq 1
check "which it says" grep -q "holds checkpoints; add --resume" "$work/err"
train 2 "$work/again" --resume
check "--resume alone is refused" grep -q -- "need --checkpoint DIR" "$work/err"
# What three ranks have saved two can go on from; it is over, so nothing is trained.
train 2 "$work/fewer" --checkpoint "$work/broken-3/c" --resume
check "another number of ranks resumes" test "$code" -eq 0
check "and has the same weights" cmp "$work/whole-3/mnist_cnn.pt" "$work/fewer/mnist_cnn.pt"
finish
