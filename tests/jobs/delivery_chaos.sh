#!/usr/bin/env bash
# delivery_chaos.sh BIN SOURCE [RUNS [SEED]]: jobs whose loaders are killed, stopped and continued at random times get the
# batches that an undisturbed job gets.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
job=$bin/../tests/bin/delivery_job
runs=${3:-3}
RANDOM=${4:-1}
arguments=("$job" --samples 960 --batch 8 --epochs 3 --load-ms 8 --workers 2)
export CHAOS=$work  # in the environment of this test's processes alone

# processes LOADERS: the loaders (yes) or the ranks (no) of this test's job.
processes() {
  local process variables
  for process in $(pgrep -x delivery_job); do
    variables=$(tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | sed -nE '/^(KOLO_LOADER|CHAOS)=/p') || continue
    [[ $variables == *"CHAOS=$work"* ]] || continue
    if [[ $variables == *KOLO_LOADER=* ]]; then echo "yes $process"; else echo "no $process"; fi
  done | sed -n "s/^$1 //p"
}

kolo_run -np 2 "${arguments[@]}"
right=$(grep epoch "$work/out")
check "undisturbed: three epochs of 960 samples" is "$code $(grep -c '960 samples, digest' <<<"$right")" "0 3"

kills=0 stops=0
for ((run = 1; run <= runs; ++run)); do
  code=0 killed_before=$kills
  options=(--cpus $((2 + RANDOM % 2)))
  ((RANDOM % 2)) || options+=(--units $((8 + RANDOM % 200)))
  timeout 100 "$bin/kolo" run --allow-run-as-root -np 2 "${options[@]}" "${arguments[@]}" >"$work/out" 2>"$work/err" &
  runner=$!
  # Before the ranks are started a loader that dies ends the job, as it should.
  while [[ -d /proc/$runner && -z $(processes no) ]]; do sleep 0.05; done
  while [[ -d /proc/$runner ]]; do
    sleep 0.$((1 + RANDOM % 3))
    mapfile -t there < <(processes yes)
    ((${#there[@]} > 0)) || continue
    victim=${there[RANDOM % ${#there[@]}]}
    # A loader that dies 20 times in a job is given up.
    ((kills - killed_before < 10)) || { kill -CONT "${there[@]}" 2>/dev/null || true; continue; }
    case $((RANDOM % 3)) in
      0) ! kill -KILL "$victim" 2>/dev/null || kills=$((kills + 1)) ;;
      1) ! kill -STOP "$victim" 2>/dev/null || stops=$((stops + 1)) ;;
      2) for victim in "${there[@]}"; do kill -CONT "$victim" 2>/dev/null || true; done ;;
    esac
  done
  wait "$runner" || code=$?
  check "run $run with ${options[*]}: the same batches" is "$code $(grep epoch "$work/out")" "0 $right"
  check "run $run: no loader is left" is "$(processes yes)" ""
done
echo "$kills kills and $stops stops in $runs runs"
check "loaders were killed and stopped" is "$((kills > 0)) $((stops > 0))" "1 1"
finish
