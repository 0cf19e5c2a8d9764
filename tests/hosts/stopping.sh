#!/usr/bin/env bash
# stopping.sh BUILD: a job on two hosts, started by kolo run on a third, is ended in every way that a user has: all its
# processes on all hosts are gone within seconds. (What the launcher does not end is killed after eight.) It is suspended and
# continued, too, and refused where the hosts cannot be told apart.
set -euo pipefail
build=$1
# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh" 2
show_failure() { tail -n 20 "$work/out"; }
# shellcheck source=../checks.sh
. "$here/../checks.sh"

# A number of its own finds the processes of a job; those of hosts are processes of this machine, too.
mark=$((RANDOM * 32768 + RANDOM + 1000000))
# Process numbers of the job: kolo run, the launcher, its daemons, kolo-rank and the programs all have the mark, or a
# parent that has.
job_processes() { pgrep -f "[s]leep $mark|prted|mpirun.*$mark|kolo.*$mark" || true; }
ours() { # those in the networks of the hosts
  local process networks=''
  for process in "$work"/*.pid; do networks+=" $(readlink "/proc/$(cat "$process")/ns/net")"; done
  for process in $(job_processes); do
    [[ $networks != *"$(readlink "/proc/$process/ns/net" 2> /dev/null || echo none)"* ]] || echo "$process"
  done
}
ranks() { pgrep -fc "^sleep $mark" || true; }

# begin PROGRAM: of 4 ranks; $launched is the process to be ended.
begin() {
  "$here/hosts.sh" on "$work" head env PATH="$build/bin:$PATH" kolo run -H node1:2,node2:2 sh -c "$1 sleep $mark; exit 0" \
    > "$work/out" 2>&1 < /dev/null &
  launched=$!
  await_ranks
}
await_ranks() {
  local i
  for ((i = 0; i < 300; ++i)); do
    [[ $(ranks) != 4 ]] || return 0
    sleep 0.1
  done
}
# ended WHAT SECONDS: within so many, with nothing left.
ended() {
  local i begin=$SECONDS
  for ((i = 0; i < 10 * $2 + 50; ++i)); do
    [[ -n $(ours) ]] || break
    sleep 0.1
  done
  check "$1: it is over after $((SECONDS - begin)) s" test $((SECONDS - begin)) -le "$2"
  check "$1: nothing is left on any host" is "$(ours | xargs -r ps -o pid=,args= -p)" ""
  wait "$launched" 2> /dev/null && code=0 || code=$?
}

for signal in INT TERM HUP QUIT KILL; do
  begin "true;"
  check "four ranks run" is "$(ranks)" 4
  check "with processes around them" test "$(ours | wc -l)" -gt 8
  kill "-$signal" "$launched"
  ended "SIG$signal" 5
  [[ $signal == KILL ]] || check "SIG$signal: the exit code says so" is "$code" $((128 + $(kill -l "$signal")))
done

# Programs that take no notice have no more time.
for signal in INT TERM; do
  begin "trap '' INT TERM HUP USR1;"
  check "four ranks run that take no notice of SIG$signal" is "$(ranks)" 4
  kill "-$signal" "$launched"
  [[ $signal == INT ]] || { sleep 1 && kill "-$signal" "$launched"; }  # the first asks ranks to save their state
  ended "SIG$signal, which the ranks ignore" 6
done

# Ctrl-Z and fg: the programs on all hosts stop and go on. They are the leaders of their process groups.
stopped() { pgrep -f "^sh -c true; sleep $mark" | xargs -r ps -o state= -p | grep -c T || true; }
await_stopped() { # await_stopped NUMBER
  local i
  for ((i = 0; i < 100; ++i)); do
    [[ $(stopped) != "$1" ]] || return 0
    sleep 0.1
  done
}
begin "true;"
kill -TSTP "$launched"
await_stopped 4
check "a job that is suspended: its programs on both hosts are stopped" is "$(stopped)" 4
kill -CONT "$launched"
await_stopped 0
check "and go on when it does" is "$(stopped) $(ranks)" "0 4"
kill -TSTP "$launched"
await_stopped 4
kill -TERM "$launched"
kill -CONT "$launched"
ended "SIGTERM to a job that is suspended" 5

# A terminal that is closed: its processes get SIGHUP.
"$here/hosts.sh" on "$work" head env PATH="$build/bin:$PATH" \
  script -qec "kolo run -H node1:2,node2:2 sleep $mark < /dev/null" /dev/null > "$work/out" 2>&1 < /dev/null &
launched=$!
await_ranks
check "four ranks run at a terminal" is "$(ranks)" 4
kill -KILL "$launched"
ended "a closed terminal" 5
# Names. Hosts that call themselves by one name would hang in MPI_Init. (Nothing has to be closed: the namespaces end.)
begin_named() { # begin_named HOSTS
  code=0
  timeout 60 "$here/hosts.sh" on "$work" head env PATH="$build/bin:$PATH" kolo run -H "$1" sh -c "sleep $mark; exit 0" \
    > "$work/out" 2>&1 < /dev/null || code=$?
}
for node in 1 2; do "$here/hosts.sh" on "$work" "node$node" hostname localhost; done
begin_named node1:2,node2:2
check "hosts of one name: the job is refused" is "$code" 2
check "hosts of one name: with the ranks and the name" grep -q \
  "ranks 0, 1 and ranks 2, 3 are on two hosts that both call themselves 'localhost'.*hostnamectl" "$work/out"
check "hosts of one name: nothing is left" is "$(ours)" ""
echo "10.99.0.1 w.1.x w.2.x" >> "$work/hosts"
for names in w.1.x:2,w.2.x:2 node1:2,10.99.0.1:2; do
  begin_named "$names"
  check "hosts $names: they are refused" is "$code" 2
  check "hosts $names: both are named" grep -q "hosts ${names%%:*} and $(sed 's/.*,\(.*\):2/\1/' <<< "$names") " "$work/out"
done
finish
