#!/usr/bin/env bash
# A rank of three is killed (SIGKILL) at random moments of a job's life: while MPI and kolo begin, amid
# operations, while it waits, at its end. The job ends within seconds, and nothing of it is left: no
# process, no shared memory, no file. In a second part the launcher does not end the survivors, which must
# find out by themselves.
#   kills.sh BIN SOURCE MPIRUN [SEED]
set -euo pipefail
mpirun=$3
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
RANDOM=${4:-1}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
job="$bin/../tests/bin/killed_job"

shared_kilobytes() { awk '/^Shmem:/ { print $2 }' /proc/meminfo; }
files() { ls -A /dev/shm; }
# Of this test: the folder's name is its own.
processes() { pgrep -f "killed_job $work/" || true; }

gone() {
  for _ in $(seq 50); do
    [ -n "$(processes)" ] || return 0
    sleep 0.1
  done
  return 1
}
# Memory files of processes that have ended take no memory. Other programs of the machine may take some.
no_memory_left() {
  for _ in $(seq 50); do
    [ $(($(shared_kilobytes) - shared_before)) -gt 8192 ] || return 0
    sleep 0.1
  done
  return 1
}

# kill_one STEPS FILE MILLISECONDS OPTIONS...: starts the job and kills a random rank, $victim, so long
# after it has written RANK[FILE]; the job's exit code goes to $code.
kill_one() {
  local steps=$1 file=$2 delay=$3 folder="$work/pids" job_pid
  victim=$((RANDOM % 3))
  shift 3
  rm -rf "$folder"
  mkdir "$folder"
  code=0
  timeout 60 "$mpirun" --oversubscribe --bind-to none "$@" -np 3 "$job" "$folder" "$steps" \
    </dev/null >"$work/out" 2>"$work/err" &
  job_pid=$!
  for _ in $(seq 300); do
    [ ! -e "$folder/$victim$file" ] || break
    sleep 0.05
  done
  sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
  begin=$SECONDS
  shared_while=$(shared_kilobytes)
  kill -KILL "$(cat "$folder/$victim")" 2>"$work/kill" || true
  wait "$job_pid" || code=$?
  [ $((shared_while - shared_before)) -le "$most_shared" ] || most_shared=$((shared_while - shared_before))
}

shared_before=$(shared_kilobytes)
most_shared=0  # that a job had, in KiB
files_before=$(files)
for run in $(seq 12); do
  # Half of them while the job begins.
  delay=$((run % 2 ? RANDOM % 700 : 700 + RANDOM % 1500))
  kill_one 100000 "" "$delay"
  check "killed after $delay ms: the job fails" test "$code" -ne 0 -a "$code" -ne 124
  check "killed after $delay ms: within 15 s" test $((SECONDS - begin)) -le 15
  check "killed after $delay ms: no process is left" gone
  check "killed after $delay ms: no shared memory is left" no_memory_left
done
check "no file is left in /dev/shm" test "$(files)" = "$files_before"

# At the end of a short job: it may be over before.
for _ in $(seq 4); do
  delay=$((300 + RANDOM % 900))
  kill_one 5 "" "$delay"
  check "a short job, killed after $delay ms: it ends" test "$code" -ne 124
  check "a short job, killed after $delay ms: nothing is left" eval 'gone && no_memory_left'
done

# The survivors are left alone: they find out by themselves, and say who is gone.
if [[ $("$mpirun" --version) == *'Open MPI) 5'* ]]; then
  for run in $(seq 8); do
    delay=$((RANDOM % 600))
    KOLO_SHARED_MEMORY=$((run % 2)) kill_one 100000 .works "$delay" --with-ft ulfm
    check "without help, killed after $delay ms: the job fails by its own errors" test "$code" -eq 4
    check "without help, killed after $delay ms: within 10 s" test $((SECONDS - begin)) -le 10
    check "without help, killed after $delay ms: both survivors name rank $victim" \
      test "$(grep -c "^survivor: .*process of rank $victim has ended" "$work/out")" -eq 2
    check "without help, killed after $delay ms: nothing is left" eval 'gone && no_memory_left'
  done
else
  echo "skipped: survivors without help, since this launcher ends them (Open MPI 5 has --with-ft ulfm)"
fi
check "the jobs had shared memory that could have been left" test "$most_shared" -gt 32768
check "no file is left in /dev/shm after that" test "$(files)" = "$files_before"
finish
