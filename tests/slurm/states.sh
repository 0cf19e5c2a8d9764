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
  show.hostnames) printf 'n1\nn2\n' ;;
  show.node) echo "   BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-01T00:00:00" ;;
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
node=
while [[ $1 == --* ]]; do
  [[ $1 != --nodelist=* ]] || node=${1#*=}
  shift
done
[[ ! -e $FAKE/down.$node ]] || exit 1
exec "$@"
END
cat > "$work/bin/sleep" << 'END'
#!/bin/sh
echo "$*" >> "$FAKE/slept"
rm -f "$FAKE/down.n1"  # it answers later
END
chmod +x "$work"/bin/*

# run CODE STATE..: the job's program ends with CODE. Its end is $end, what is in $FAKE besides stays.
export FAKE=$work/fake
fresh() { rm -rf "$FAKE" && mkdir "$FAKE"; }
run() {
  local program=$1
  shift
  printf '%s\n' "$@" > "$FAKE/states"
  end=0
  env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-2]' SLURMD_NODENAME=n1 SLURM_EXPORT_ENV=NONE SRUN_EXPORT_ENV=NONE \
    KOLO_DOCTOR=no KOLO_LAUNCHER=srun KOLO_MODULES='' timeout 60 bash -c ". $source/slurm/job.sh; job sh -c '$program'" > "$log" 2>&1 || end=$?
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
fresh
touch "$FAKE/down.n2"
run "exit 3" "RUNNING 0"
check "but not where a node was lost" requeued "and n2 was lost"
fresh
touch "$FAKE/down.n2"
run "exit 3" away away away away away "RUNNING 0"
check "nor while the controller is away" requeued "and n2 was lost"
fresh
touch "$FAKE/down.n1" "$FAKE/down.n2"
run "exit 3" "RUNNING 0"
check "nor while this node starts nothing" requeued "and n2 was lost"
fresh
run "exit 3" away
check "where nothing is known it says so" left 3 "nothing is known of the nodes: it is not requeued"

check "srun gets this shell's environment" is "$(cut -d' ' -f1,2 "$FAKE/srun" | sort -u)" "ALL none"
finish
