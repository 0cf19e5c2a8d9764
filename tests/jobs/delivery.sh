#!/usr/bin/env bash
# Loader processes: the batches are those of a job without them, each sample comes once, and loaders that die, stop or never
# come are noticed.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
job=$bin/../tests/bin/delivery_job

export DELIVERY_TEST=$work  # in the environment of this test's processes alone

# loaders [NUMBER]: the processes of loaders that kolo run started, or of one of them.
loaders() {
  local process variables
  for process in $(pgrep -x delivery_job); do
    variables=$(tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | sed -nE "/^(KOLO_LOADER=number=${1:-}|DELIVERY_TEST=)/p") || continue
    [[ $variables != *KOLO_LOADER=* || $variables != *"DELIVERY_TEST=$work"* ]] || echo "$process"
  done
}

# wait_for COUNT: until so many loaders run.
wait_for() {
  local i
  for ((i = 0; i < 300; ++i)); do
    [[ $(loaders | wc -l) -lt $1 ]] || return 0
    sleep 0.1
  done
  return 1
}
mkdir "$work/spool" "$work/made"

kolo_run -np 2 "$job" --workers 2
alone=$(grep epoch "$work/out")
check "without loaders: two epochs of 960 samples" is "$code $(grep -c '960 samples, digest' <<<"$alone")" "0 2"

for cpus in 1 3; do
  kolo_run -np 2 --cpus $cpus "$job"
  check "$cpus loaders: the same batches" is "$code $(grep epoch "$work/out")" "0 $alone"
done
export MADE=$work/made
kolo_run -np 2 --cpus 2 --units 200 --spool "$work/spool" "$job"
check "2 loaders with 200 samples prepared: the same batches" is "$code $(grep epoch "$work/out")" "0 $alone"
check "the factory was called in loaders alone" is "$(cat "$work/made"/* | fold -w 1 | sort | tr -d '\n')" 23
unset MADE
check "no loader is left" is "$(loaders)" ""

# A job that is started again has loaders again.
cat >"$work/fails_once" <<'END'
#!/usr/bin/env bash
[[ -n ${KOLO_LOADER-} ]] || ! mkdir "$FAILED" 2>/dev/null || exit 3
exec "$@"
END
chmod +x "$work/fails_once"
mkdir "$work/made_twice"
MADE=$work/made_twice FAILED=$work/failed kolo_run -np 2 --cpus 2 --units 200 --max-restarts 1 "$work/fails_once" "$job"
check "a job that failed once: it was started again" grep -q 'exited with code 3' "$work/err"
check "a job that failed once: the same batches" is "$code $(grep epoch "$work/out") $(loaders)" "0 $alone "
check "a job that failed once: from loaders of both starts" is "$(cat "$work/made_twice"/* | fold -w 1 | sort | tr -d '\n')" 2233

# The timeline and the metrics say that loading is too slow.
kolo_run -np 2 --cpus 1 --timeline "$work/timeline" "$job" --load-ms 8 --step-ms 4 --epochs 1
check "slow loading: the job ends" is "$code" 0
"$bin/kolo" trace report "$work/timeline" >"$work/report" 2>&1 || true
check "slow loading: the report says how long ranks wait" \
  grep -qE '^- Ranks wait [5-9][0-9] % of the step for data' "$work/report"

# The others do what is left, and the one that died is started again.
slow=(--load-ms 5 --epochs 12)
kolo_run -np 2 "$job" "${slow[@]}"
alone=$(grep epoch "$work/out")
for what in KILL STOP TERM USR1; do
  code=0
  timeout 120 "$bin/kolo" run --allow-run-as-root -np 2 --cpus 2 --units 8 --spool "$work/spool" "$job" "${slow[@]}" \
    >"$work/out" 2>"$work/err" &
  runner=$!
  check "SIG$what: loaders are there" wait_for 2
  victim=$(loaders 1)
  for ((i = 0; i < 1200; ++i)); do
    ! grep -q 'epoch 0' "$work/out" || break
    sleep 0.05
  done
  check "SIG$what: it is sent" kill "-$what" "$victim"
  if [[ $what == TERM || $what == USR1 ]]; then
    # A batch system sends them to kolo-loader, too.
    kill "-$what" "$(ps -o ppid= -p "$victim" | tr -d ' ')"
    sleep 0.5
    check "SIG$what, which batch systems send: the loader goes on" test -d "/proc/$victim"
  fi
  wait "$runner" || code=$?
  check "SIG$what to a loader in mid-epoch: the same batches" is "$code $(grep epoch "$work/out")" "0 $alone"
  if [[ $what == KILL ]]; then
    check "SIGKILL: it is said" grep -q '^\[loader 1\] kolo: .*was killed by signal 9 (SIGKILL); it is started again$' "$work/err"
  fi
  check "SIG$what: no loader is left" is "$(loaders)" ""
done

kolo_run -np 2 --cpus 1 "$job" --fail-at 500
check "a sample that cannot be loaded: the job ends" is "$code" 1
check "a sample that cannot be loaded is named" \
  grep -q 'delivery_job: DataLoader: sample 500 of epoch 0 cannot be loaded: sample 500 is damaged' "$work/err"

kolo_run -np 1 --cpus 1 --units 960 "$job" --fail-at 7
check "a sample that cannot be prepared: no rank is started" is "$code $(cat "$work/out")" "1 "
check "a sample that cannot be prepared is named" \
  grep -q '^\[loader 0\] delivery_job: DataLoader: sample 7 of epoch 0 cannot be loaded: sample 7 is damaged' "$work/err"
check "and kolo run says that it ended" grep -q 'loader 0 on host 127.0.0.1 has ended before its samples were prepared' "$work/err"

kolo_run -np 1 --cpus 2 "$job" --nothing
check "a program that opens no loader: the job ends" is "$code" 1
check "and it is said" grep -q 'serves no training rank: it did not call kolo::delivery::open()' "$work/err"

kolo_run -np 1 --cpus 1 "$job" --other-seed
check "options that differ are named" \
  grep -q "'train' has batch_size 8, seed 6, .* in this rank, and batch_size 8, seed 5, .* in the loader processes" "$work/err"
kolo_run -np 1 --cpus 1 "$job" --unregistered
check "a loader that was not registered in time is named" \
  grep -q "the loader processes serve no loader named 'valid'" "$work/err"
kolo_run -np 2 --cpus 2 --units 64 "$job" --again --epochs 1
check "a loader that is registered again delivers again" is "$code $(grep -c '960 samples' "$work/out")" "0 1"

# Breaking off in mid-epoch.
kolo_run -np 2 "$job" --stop-after 10
alone=$(grep epoch "$work/out")
kolo_run -np 2 --cpus 2 --units 64 "$job" --stop-after 10
check "an epoch that is broken off: the next one is whole" is "$code $(grep -c 'epoch 1: 960' "$work/out")" "0 1"
check "an epoch that is broken off: the next one has the same batches" is "$(grep epoch "$work/out")" "$alone"

kolo_run -np 2 "$job" --two --samples 952 --drop-last
alone=$(grep epoch "$work/out")
kolo_run -np 2 --cpus 2 --units 64 "$job" --two --samples 952 --drop-last
check "two loaders that drop the last batch: the same batches" is "$code $(grep epoch "$work/out")" "0 $alone"

# Preparing can be ended.
code=0
timeout 60 "$bin/kolo" run --allow-run-as-root -np 1 --cpus 1 --units 960 "$job" --load-ms 1000 >"$work/out" 2>"$work/err" &
runner=$!
check "SIGTERM while samples are prepared: loaders are there" wait_for 1
kill "$runner"
wait "$runner" || code=$?
check "SIGTERM while samples are prepared ends the job" is "$code $(loaders)" "143 "
kolo_run -np 1 --cpus 1 --units 960 --timeout 2 "$job" --load-ms 1000
check "--timeout holds while samples are prepared" is "$code $(loaders)" "124 "
check "and the loaders that are missing are named" grep -q 'loader processes prepared their samples: 0 on host 127.0.0.1' "$work/err"

for options in "--units 5" "--cpus 0" "--cpus 1 --units 0" "--cpus 1 --spool $work"; do
  # shellcheck disable=SC2086
  kolo_run -np 1 $options "$job"
  check "kolo run $options: refused" is "$code $(cat "$work/out")" "2 "
done
kolo_run -np 1 --cpus 1 --units 5 --spool "$work/nowhere" "$job"
check "a spool that is not there is named" grep -q "the spool of a loader in '$work/nowhere'" "$work/err"
# Nothing stays behind when kolo run is killed.
"$bin/kolo" run --allow-run-as-root -np 1 --cpus 2 "$job" --step-ms 100 >"$work/out" 2>"$work/err" &
runner=$!
check "SIGKILL to kolo run: loaders are there" wait_for 2
kill -KILL "$runner"
wait "$runner" 2>/dev/null || true
for ((i = 0; i < 100; ++i)); do
  [[ -n $(loaders) ]] || break
  sleep 0.1
done
check "SIGKILL to kolo run ends the loaders" is "$(loaders)" ""
check "at the end no loader is left" is "$(loaders)" ""
finish
