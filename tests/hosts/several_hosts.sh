#!/usr/bin/env bash
# several_hosts.sh MPIRUN JOB KILLED_JOB: the job on two and three hosts whose links are limited; then a rank
# of another job is killed (see tests/jobs/killed_job.cpp). Skipped (exit code 77) where such hosts cannot be made.
set -euo pipefail
mpirun=$1 job=$2 killed_job=$3
# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh" 3

# on_hosts HOST:RANKS,... WORDS...: mpirun from the head.
on_hosts() {
  local hosts=$1 ranks=0 host
  for host in ${hosts//,/ }; do ranks=$((ranks + ${host#*:})); done
  # The hosts share this machine's cores, which Open MPI cannot know.
  timeout 100 "$here/hosts.sh" on "$work" head "$mpirun" -x OMPI_MCA_mpi_yield_when_idle=1 -np "$ranks" --host "$hosts" --bind-to none "${@:2}"
}

for hosts in node1:2,node2:2 node1:2,node2:1 node1:3,node2:2 node1:2,node2:1,node3:2; do
  echo "== $hosts"
  on_hosts "$hosts" "$job" "$(wc -w <<< "${hosts//,/ }")"
done

if [[ $("$mpirun" --version) != *'Open MPI) 5'* ]]; then
  echo "skipped: a rank that is killed, since this launcher ends the others (Open MPI 5 has --with-ft ulfm)"
  exit 0
fi
# The last rank: with a neighbour that sees its end, and alone on its host.
for hosts in node1:2,node2:2 node1:2,node2:1; do
  echo "== $hosts, whose last rank is killed"
  mkdir "$work/pids"
  code=0
  on_hosts "$hosts" --with-ft ulfm "$killed_job" "$work/pids" 100000 > "$work/out" 2> "$work/err" < /dev/null &
  launcher=$!
  victim=2
  [[ $hosts == *node2:1 ]] || victim=3
  for _ in $(seq 600); do
    [[ ! -e $work/pids/$victim.works ]] || break
    sleep 0.05
  done
  begin=$SECONDS
  kill -KILL "$(cat "$work/pids/$victim")"
  wait "$launcher" || code=$?
  seconds=$((SECONDS - begin)) survivors=$(grep -c "^survivor: .*rank $victim" "$work/out" || true)
  rm -r "$work/pids"
  echo "the job ended with $code after $seconds s; $survivors survivors named rank $victim"
  if [[ $code != 4 || $seconds -gt 15 || $survivors != "$victim" ]]; then
    cat "$work/out" "$work/err"
    exit 1
  fi
done
