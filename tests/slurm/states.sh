#!/usr/bin/env bash
# states.sh SOURCE: what job.sh makes of what Slurm says, in states that no Slurm can be brought into at will. The commands
# of Slurm are stand-ins here; requeue.sh has the real ones.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
show_failure() { sed 's/^/  log: /' "$log"; }
# shellcheck source=../checks.sh
. "$source/tests/checks.sh"
mkdir "$work/bin"
# The job's states, one a line and question, the last one for ever: JobState Restarts, or "away".
cat > "$work/bin/scontrol" << 'END'
#!/usr/bin/env bash
cd "$FAKE"
case $1.$2 in
  show.job)
    read -r state restarts < states
    (($(wc -l < states) == 1)) || sed -i 1d states
    [[ $state != away ]] || exit 1
    echo "   JobState=$state Reason=None Restarts=$restarts PreemptTime=None"
    echo "   StartTime=2026-01-01T10:00:00 EndTime=Unknown"
    ;;
  show.hostnames) [[ $3 == "n[1-2]" ]] && printf 'n1\nn2\n' || echo "$3" ;;
  show.config) echo "SlurmdTimeout           = 40 sec" ;;
  show.node)  # Slurm's states of n2 likewise; one may be followed by "answers", or "gone" where Slurm has requeued the job
    read -r state event < nodes
    (($(wc -l < nodes) == 1)) || sed -i 1d nodes
    [[ $event != answers ]] || rm -f down.n2
    [[ $event != gone ]] || echo "COMPLETING 1" > states
    echo "$state" >> asked
    for node in n1=MIXED "n2=$state"; do
      echo "NodeName=${node%=*} Arch=x86_64 State=${node#*=} BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-01T00:00:00"
    done
    ;;
  requeue.*)
    [[ ! -e refuse ]] || { rm refuse; exit 1; }
    echo requeued >> done
    [[ ! -e told ]] || kill -TERM $PPID  # Slurm may end the script before scontrol has returned
    ;;
esac
END
cat > "$work/bin/srun" << 'END'
#!/usr/bin/env bash
echo "$SLURM_EXPORT_ENV ${SRUN_EXPORT_ENV-none} $*" >> "$FAKE/srun"
nodes= resources=all
while [[ $1 == --* ]]; do
  [[ $1 != --nodelist=* ]] || nodes=${1#*=}
  [[ $1 != --gres=none ]] || resources=none
  shift
done
if [[ $resources == all && -e $FAKE/no-gres ]]; then
  echo "srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification" >&2
  exit "${SLURM_EXIT_ERROR:-1}"
fi
for down in "$FAKE"/down.*; do
  case $nodes in "${down#*down.}" | "n[1-2]") [[ ! -e $down ]] || exit 1 ;; esac
done
exec "$@"
END
cat > "$work/bin/sleep" << 'END'
#!/bin/sh
echo "$*" >> "$FAKE/slept"
rm -f "$FAKE/down.n1"  # it answers later
END
cat > "$work/bin/kolo" << 'END'
#!/usr/bin/env bash
echo "$*" >> "$FAKE/kolo"
[[ ! -e $FAKE/no-gres ]] || exit 209  # mpirun's srun has failed
shift 2  # run --verbose
while [[ $1 == --* ]]; do shift 2; done
exec "$@"
END
chmod +x "$work"/bin/*

# run CODE STATE..: the job's program ends with CODE. Its end is $end, what is in $FAKE besides stays.
export FAKE=$work/fake
launcher=srun
fresh() { rm -rf "$FAKE" && mkdir "$FAKE" && echo MIXED > "$FAKE/nodes"; }
run() {
  local program=$1
  shift
  printf '%s\n' "$@" > "$FAKE/states"
  end=0
  env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NODELIST="${node_list:-n[1-2]}" SLURM_JOB_NUM_NODES="${nodes:-2}" SLURMD_NODENAME=n1 SLURM_EXPORT_ENV=NONE SRUN_EXPORT_ENV=NONE \
    KOLO_DOCTOR=no KOLO_LAUNCHER="$launcher" KOLO_MODULES='' timeout 60 bash -c ". $source/slurm/job.sh; job ${options-} sh -c '$program'" > "$log" 2>&1 || end=$?
}
requeued() { [[ $end == 75 && $(cat "$FAKE/done" 2> /dev/null) == requeued ]] && grep -q "$1: it is requeued" "$log"; }
left() { [[ $end == "$1" && ! -e $FAKE/done ]] && grep -q "$2" "$log"; }

for state in RUNNING SIGNALING STOPPED SUSPENDED RESIZING CONFIGURING NEW_STATE; do
  fresh
  run "exit 75" "$state 0"
  check "a job that is $state is requeued" requeued "it has saved its state"
done
for state in COMPLETING CANCELLED COMPLETED FAILED TIMEOUT PREEMPTED NODE_FAIL BOOT_FAIL DEADLINE OUT_OF_MEMORY REVOKED; do
  fresh
  run "exit 75" "$state 0"
  check "one that is $state ends" left 1 "Slurm is ending the job ($state).* it is not requeued"
done
for state in COMPLETING PENDING REQUEUED RUNNING; do
  fresh
  run "exit 75" "$state 1"
  check "one that Slurm has requeued, and is $state, is left to it" left 75 "Slurm has requeued it already"
done

fresh
run "exit 75" away away "RUNNING 0"
check "a controller that is away is waited for" requeued "it has saved its state"
fresh
touch "$FAKE/refuse"
run "exit 75" "RUNNING 0"
check "and asked again when it refuses" requeued "it has saved its state"
fresh
run "exit 75" away
check "but not for ever" left 75 "Slurm has not requeued it: submit it again"

fresh
touch "$FAKE/told"
run "exit 75" "RUNNING 0"
check "a script that is told to end while it requeues ends" is "$end $(grep -c . "$FAKE/slept" 2> /dev/null || true)" "75 "
check "and says nothing false" is "$(grep -c 'submit it again' "$log")" 0

fresh
run "exit 3" "RUNNING 0"
check "a program that fails has failed by its own fault" left 3 "exit code 3, and all nodes are there"
# A node that starts nothing: Slurm gives it up, requeues the job itself, or finds it well.
loses_n2() {  # STATE..: what Slurm shows of it, see above
  fresh
  touch "$FAKE/down.n2"
  printf '%s\n' "$@" > "$FAKE/nodes"
}
asked_until() { is "$(uniq "$FAKE/asked" | paste -sd' ')" "$1"; }
loses_n2 MIXED 'MIXED*' 'MIXED*' 'DOWN*'
run "exit 3" "RUNNING 0"
check "but not where a node was lost" requeued "and n2 was lost"
check "which is requeued when Slurm has given the node up" asked_until "MIXED MIXED* DOWN*"
check "and says what it waits for" grep -q "and n2 was lost. Waiting until Slurm gives up n2, too, and requeues the job (SlurmdTimeout: 40 s)" "$log"
loses_n2 'MIXED*' 'MIXED+NOT_RESPONDING' 'MIXED* gone'
run "exit 3" "RUNNING 0"
check "or requeued the job" left 75 "Slurm has requeued it already"
loses_n2 'MIXED*' 'MIXED*' 'MIXED* answers'
run "exit 3" "RUNNING 0"
check "or the node answers" requeued "and n2 was lost"
loses_n2 'MIXED*'
run "exit 3" "RUNNING 0"
check "but it does not wait for ever" left 75 "Slurm has not requeued it, for it has not given up n2, and the job would lose its GPUs: submit it again"
loses_n2 MIXED
run "exit 3" "RUNNING 0"
check "nor for a node that Slurm reaches" requeued "and n2 was lost"
loses_n2 'MIXED*' 'DOWN*'
run "exit 75" "RUNNING 0"
check "a job that has saved its state waits, too" requeued "it has saved its state"
check "until the same" asked_until "MIXED* DOWN*"
loses_n2 'DOWN*'
run "exit 3" away away away away away "RUNNING 0"
check "it has lost a node though the controller was away" requeued "and n2 was lost"
loses_n2 'DOWN*'
touch "$FAKE/down.n1"
run "exit 3" "RUNNING 0"
check "or this node started nothing" requeued "and n2 was lost"

fresh
nodes=17 run "exit 75" "RUNNING 0"
check "many nodes are asked in one step" is "$(grep -c -- '--overlap' "$FAKE/srun") $(grep -c -- '--nodes=17 .*--nodelist=n\[1-2\]' "$FAKE/srun")" "1 1"
loses_n2 'MIXED*' 'DOWN*'
nodes=17 run "exit 3" "RUNNING 0"
check "and each where one is lost" requeued "and n2 was lost"

# Ranks that could not be started are not the program's fault.
declare -A refusals=([srun]="Slurm creates no step for the ranks: srun says why" [mpirun]="mpirun starts no rank: it says why")
for launcher in srun mpirun; do
  fresh
  touch "$FAKE/no-gres"
  run "exit 3" "RUNNING 0"
  check "$launcher: a job whose ranks cannot be started says so" left 1 "${refusals[$launcher]}, above. The program has not run, and the job is not requeued"
  SLURM_RESTART_COUNT=1 run "exit 3" "RUNNING 1"
  check "$launcher: and is requeued if they could before" requeued "${refusals[$launcher]}, above, although the job ran before"
done
launcher=srun

fresh
run "exit 3" away
check "where nothing is known it says so" left 3 "nothing is known of the nodes: it is not requeued"

fresh
SLURM_HET_SIZE=2 run "exit 0" "RUNNING 0"
check "a heterogeneous job is refused" left 2 "srun --het-group=0-1 --mpi=pmix PROGRAM"
check "before anything is started" test ! -e "$FAKE/srun"
# Ranks on n1, loader processes on n2.
with_loaders() { SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_1=n2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1 node_list=n1 nodes=1 options="--cpus 2" run "$@"; }
fresh
with_loaders "exit 0" "RUNNING 0"
check "with loader processes on the second component kolo run starts it" is "$end $(grep -o '^run .* sh' "$FAKE/kolo")" "0 run --verbose --cpus 2 sh"
fresh
with_loaders "exit 3" "RUNNING 0"
check "which fails by its own fault" left 3 "exit code 3, and all nodes are there"
check "if the nodes of both components answer" is "$(grep -oE 'het-group=.*nodelist=n[12]' "$FAKE/srun" | cut -d' ' -f1,6 | sort -u | paste -sd' ')" \
  "het-group=0 --nodelist=n1 het-group=1 --nodelist=n2"
loses_n2 MIXED 'DOWN*'
with_loaders "exit 3" "RUNNING 0"
check "and is requeued if one of the second was lost" requeued "and n2 was lost"
fresh
run "exit 0" "RUNNING 0"
check "srun gets this shell's environment" is "$(cut -d' ' -f1,2 "$FAKE/srun" | sort -u)" "ALL none"
finish
