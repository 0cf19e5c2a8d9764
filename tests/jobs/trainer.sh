#!/usr/bin/env bash
# A Trainer that gets a stop signal saves and ends, and resumes with the same bits. If a rank throws, the job ends and reports
# the cause. kolo::launch() starts the ranks of a program that was started without a launcher.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
job=$bin/../tests/bin/trainer_job
mkdir "$work/whole" "$work/raised" "$work/told" "$work/broken" "$work/plain"

kolo_run -np 2 "$job" "$work/whole"
whole=$(cat "$work/out")
check "a training of 3 epochs of 15 steps" is "$code $(grep -c '^\[0\] trained: 45 steps, parameters 0x' "$work/out")" "0 1"

# A signal to one rank.
kolo_run -np 2 "$job" "$work/raised" raise 1
check "SIGTERM to one rank: the job ends, to be started again" is "$code" 75
check "SIGTERM to one rank: what there is is saved" test -n "$(find "$work/raised/checkpoints" -name 'checkpoint-*0[56].h5')"
kolo_run -np 2 "$job" "$work/raised" raise 1
check "SIGTERM to one rank: started again it ends with the same bits" is "$code $(cat "$work/out")" "0 $whole"

# Another number of ranks shares what is left of the epoch. Three ranks get equal shares, so up to two samples come twice.
for ranks in 1 3; do
  folder=$work/on-$ranks
  mkdir "$folder"
  kolo_run -np 2 "$job" "$folder" raise 1
  check "to be resumed on $ranks ranks: the job ends, to be started again" is "$code" 75
  kolo_run -np $ranks "$job" "$folder"
  check "resumed on $ranks ranks: it trains to the end" is "$code $(grep -c '^\[0\] trained: ' "$work/out")" "0 1"
  for epoch in 1 2 3; do
    sort "$folder"/used-* | grep "^$epoch " > "$work/used"
    check "resumed on $ranks ranks: epoch $epoch has all samples" is "$(uniq "$work/used" | wc -l)" 240
    most=240
    [[ $ranks$epoch != 31 ]] || most=242
    check "resumed on $ranks ranks: epoch $epoch has no sample more often than its order asks for" \
      test "$(wc -l < "$work/used")" -le $most
  done
done

# A signal to kolo run, which the ranks get as SIGUSR1.
timeout --foreground 120 "$bin/kolo" run --allow-run-as-root -np 2 "$job" "$work/told" slow >"$work/out" 2>"$work/err" &
runner=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -e $work/told/begun ]] || break
  sleep 0.1
done
kill -TERM "$runner" || true
code=0
wait "$runner" || code=$?
check "SIGTERM to kolo run: the job ends, to be started again" is "$code" 75
kolo_run -np 2 "$job" "$work/told"
check "SIGTERM to kolo run: started again it ends with the same bits" is "$code $(cat "$work/out")" "0 $whole"

for who in 0 1; do
  rm -rf "$work/broken/checkpoints"
  kolo_run -np 2 "$job" "$work/broken" throw $who
  check "a sample of rank $who cannot be read: the job ends with that" \
    is "$code $(grep -c "trainer_job: .*the sample cannot be read" "$work/err")" "1 1"
  check "a sample of rank $who cannot be read: the rank is blamed" \
    is "$(tail -n 1 "$work/err" | grep -c "rank $who .*exited with code 1")" 1
done

for who in 0 1; do
  rm -rf "$work/broken/checkpoints"
  kolo_run -np 2 "$job" "$work/broken" callback $who
  check "a callback of rank $who throws: the job ends with that" \
    is "$code $(grep -c "trainer_job: the callback has failed" "$work/err")" "1 1"
  check "a callback of rank $who throws: the rank is blamed" \
    is "$(tail -n 1 "$work/err" | grep -c "rank $who .*exited with code 1")" 1
done
kolo_run -np 2 "$job" "$work/broken" nan 1
check "the loss of rank 1 is NaN: both ranks say so" \
  is "$code $(grep -c "trainer_job: Trainer: the loss is .*nan on rank 1 in step 4" "$work/err")" "1 2"

code=0
env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 "$job" "$work/plain" --np 3 >"$work/out" 2>"$work/err" || code=$?
check "started plainly, with --np 3: it trains" is "$code $(grep -c '^\[0\] trained: 30 steps' "$work/out")" "0 1"
check "and each of the 3 ranks has made the datasets once, and no other process" \
  is "$(sort "$work/plain/made" | paste -sd,)" "rank 0,rank 1,rank 2"
finish
