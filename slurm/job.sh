# shellcheck shell=bash
# What the batch scripts share: they source this and end with   job PROGRAM [ARGUMENTS]
# or with   job OPTIONS PROGRAM [ARGUMENTS]   where options of kolo run, such as --cpus, have it start the ranks.
# It loads the modules, starts the ranks, passes the request to stop on to them, and decides what their end means:
#   0   the job is done
#   75  it has saved its state, and is requeued (kolo::kRequeueExitCode)
#   else, if a node was lost, it was preempted, or its ranks can no longer be started: requeued; if not: it failed by its own
#   fault, and is not
# A job is restarted KOLO_MAX_RESTARTS times at most, whoever restarts it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=site.env
. "$here/site.env"
restarts=${SLURM_RESTART_COUNT:-0}
# A task of an array by its own name: the number of one of them means all.
this=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
this=${this:-$SLURM_JOB_ID}
# The nodes of all components of a heterogeneous job. Variables of Slurm that have no number are the first one's.
components=${SLURM_HET_SIZE:-1} nodes=$SLURM_JOB_NODELIST
for ((i = 1; i < components; ++i)); do
  declare -n nodes_of=SLURM_JOB_NODELIST_HET_GROUP_$i
  nodes+=,$nodes_of
done
cpus_per_task=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_PER_TASK_HET_GROUP_0:-1}}
# Ranks get what this shell has: sbatch --export=... would hold for each srun, too.
export SLURM_EXPORT_ENV=ALL
unset SRUN_EXPORT_ENV

# Bash 5.2 loses some of the signals that arrive during a command substitution in a condition, [[ $(...) > ... ]], so this
# script has none there while it traps signals.
say() { printf 'kolo job %s, start %d, %(%F %T)T: %s\n' "$this" $((restarts + 1)) -1 "$*"; }

# Slurm asks this shell to stop: some time before the time limit (--signal), and at a preemption where it is set up so.
# The ranks save their state on SIGUSR1, and end with 75.
ranks='' asked='' interrupted=''
asked_to_stop() {
  asked=yes interrupted=yes
  [ -n "$ranks" ] || return 0
  say "asked to stop; the ranks are told"
  kill -USR1 "$ranks"
}
trap asked_to_stop USR1 TERM

load_modules() {
  [ -n "$KOLO_MODULES" ] || return 0
  # The shell of a batch job does not know this function.
  # shellcheck disable=SC1091
  type module > /dev/null 2>&1 || . "${MODULESHOME:-/usr/share/modules}/init/bash" || return 1
  # shellcheck disable=SC2086
  module load $KOLO_MODULES
}

# Who runs where, with what, and what is wrong with it.
tell_ranks() {
  [ "$KOLO_DOCTOR" = yes ] && command -v kolo > /dev/null && ((components == 1)) || return 0
  case $KOLO_LAUNCHER in
    srun) timeout -k 5 120 srun --mpi="$KOLO_SRUN_MPI" kolo doctor --job --timeout 60 < /dev/null ;;
    mpirun) timeout -k 5 120 kolo doctor --job --timeout 60 < /dev/null ;;
  esac || say "kolo doctor --job has failed (exit code $?); the program is started all the same"
}

# Exit code for ranks that never ran: of kolo run if mpirun starts no rank, and here of srun if Slurm creates no step (its
# default, 1, is common).
not_started=209

# Runs the program on all tasks of the job. Slurm 22.05 and newer hand --cpus-per-task to no srun.
start() {
  local i
  export SRUN_CPUS_PER_TASK=$cpus_per_task
  case $KOLO_LAUNCHER in
    srun)
      export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SRUN_CPUS_PER_TASK}  # kolo run shares a task's CPUs among its ranks
      # A node that has lost its power keeps the sockets of the steps that ran there, and with PMIx starts no step of the
      # same number again. So steps of other numbers run kolo doctor and the program after each restart.
      # --gres=none, here and below: one node may not have all GPUs of a job that asked for a total (--gpus).
      for ((i = 0; i < 2 * restarts; ++i)); do srun --nodes=1 --ntasks=1 --gres=none --mpi=none true < /dev/null; done
      tell_ranks
      # A rank that has ended ends no others, whatever the cluster's defaults are (WaitTime, KillOnBadExit): one may still
      # save, write or evaluate. kolo's waits for a rank that is gone end by themselves.
      export SLURM_EXIT_ERROR=$not_started
      exec srun --mpi="$KOLO_SRUN_MPI" --wait=0 --kill-on-bad-exit=0 --label "$@"
      ;;
    mpirun)
      tell_ranks
      exec kolo run --verbose "$@"
      ;;
  esac
}

# What Slurm sends when it preempts a job reaches the tasks of its steps, not the batch shell. srun's tasks hear it; for
# the ranks of mpirun a task listens that does nothing else.
listen() {
  local code=0
  srun --overlap --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" --gres=none --mem=0 --mpi=none --quiet \
    bash -c 'trap "exit 76" TERM; sleep infinity & wait' < /dev/null > /dev/null 2>&1 || code=$?
  if ((code == 76)); then kill -TERM $$ 2> /dev/null; fi
}

# when_of NAME TEXT: a time of what scontrol shows. Times are written so that text compares, whatever the user likes.
export SLURM_TIME_FORMAT=standard
when_of() { grep -oP "(^|\s)$1=\K[0-9T:-]+" <<< "$2" | tail -n 1; }

# Whether Slurm has told this run of the job that it is preempted.
preempted() {
  local shown told begin
  shown=$(scontrol show job "$this")
  told=$(when_of PreemptTime "$shown")
  begin=$(when_of StartTime "$shown")
  [[ $told > $begin ]]
}

# probe COMPONENT COUNT NODES: whether all of the nodes start a process within half a minute.
probe() {
  timeout -k 5 30 srun ${SLURM_HET_SIZE:+--het-group="$1"} --overlap --nodes="$2" --ntasks="$2" --ntasks-per-node=1 --nodelist="$3" \
    --gres=none --mem=0 --mpi=none true < /dev/null > /dev/null 2>&1
}

# silent_of COMPONENT COUNT NODES: those that start no process. Many are first asked together, in one step.
silent_of() {
  local node
  (($2 <= 16)) || ! probe "$@" || return 0
  for node in $(scontrol show hostnames "$3"); do
    { probe "$1" 1 "$node" || echo "$node"; } &
  done
  wait
}

# The nodes of the job that start no process.
silent_nodes() {
  local i
  silent_of 0 "$SLURM_JOB_NUM_NODES" "$SLURM_JOB_NODELIST"
  for ((i = 1; i < components; ++i)); do
    local -n count_of=SLURM_JOB_NUM_NODES_HET_GROUP_$i list_of=SLURM_JOB_NODELIST_HET_GROUP_$i
    silent_of "$i" "$count_of" "$list_of"
  done
}

# The nodes of the job that Slurm shows in a state, a regular expression.
nodes_in_state() {
  scontrol show node "$nodes" --oneliner | grep -P "\sState=$1" | grep -oP '^NodeName=\K\S+'
}

# The nodes of the job that were started anew since TIME.
nodes_started_after() {
  local line
  scontrol show node "$nodes" --oneliner | while read -r line; do
    if [[ $(when_of BootTime "$line") > $1 || $(when_of SlurmdStartTime "$line") > $1 ]]; then
      grep -oP '^NodeName=\K\S+' <<< "$line"
    fi
  done
}

# The nodes of the job that start no process, while this one does, or have been started anew since the job was. Fails if
# nothing is known of them: Slurm's controller may be away with a node, or be busy.
lost_nodes() {
  local shown begin
  shown=$(scontrol show job "$this")
  begin=$(when_of StartTime "$shown")
  [ -n "$begin" ] && probe 0 1 "$SLURMD_NODENAME" || return 1
  { nodes_started_after "$begin"; silent_nodes; } | sort -u
}

# undecided_nodes HALF: the nodes of the job that start no process, and that Slurm has not given up (DOWN). With HALF=second
# Slurm has had the time to notice a dead node (State=ALLOCATED*, say): the others it can talk to. Where this node starts no process
# either, only Slurm's word counts.
undecided_nodes() {
  local silent unreachable
  silent=$(silent_nodes)
  [ -n "$silent" ] || return 0
  unreachable=$(nodes_in_state '(?!DOWN)\S*(\*|NOT_RESPONDING)')
  if [ "$1" = second ] || grep -qxF "$SLURMD_NODENAME" <<< "$silent"; then
    echo "$unreachable"
  else
    grep -vxF "$(nodes_in_state DOWN)" <<< "$silent"
  fi
}

# requeue WHY: ends this script, for a requeued job begins anew. While a node is dead, and Slurm has not given it up, it
# waits for that: Slurm then requeues the job itself. Requeued before, a job loses its GPUs (Slurm 22.05): "Invalid generic
# resource (gres) specification" for each step, and the GPUs of its next nodes stay taken until slurmctld is restarted.
requeue() {
  local job state half undecided='' requeued='' said='' told='' away=0 i timeout seconds begin=$SECONDS
  trap 'told=yes' USR1 TERM
  if ((restarts >= KOLO_MAX_RESTARTS)); then
    say "$1. It was restarted $restarts times already, and KOLO_MAX_RESTARTS is $KOLO_MAX_RESTARTS: it ends"
    exit 1
  fi
  timeout=$(scontrol show config | grep -oPm1 '^SlurmdTimeout\s*=\s*\K\d+')
  timeout=${timeout:-300}
  seconds=$((120 + timeout * 3 / 2))
  for ((i = 0; 10 * i < seconds && SECONDS - begin < seconds; ++i)); do
    half=first undecided=''
    ((20 * i < seconds && 2 * (SECONDS - begin) < seconds)) || half=second
    # The nodes before the job, for Slurm requeues it in the moment in which it gives up a node.
    [ -z "$(scontrol show job "$this")" ] || undecided=$(undecided_nodes $half | paste -sd,)
    job=$(scontrol show job "$this")
    state=$(grep -oPm1 'JobState=\K\w+' <<< "$job")
    if (($(grep -oPm1 'Restarts=\K\d+' <<< "$job" || echo 0) > restarts)); then  # whatever state it is in
      say "$1: Slurm has requeued it already"
      requeued=yes
      break
    fi
    case $state in
      '') ((++away < 12)) || break ;;  # Slurm's controller may be away for a while
      COMPLETING | COMPLETED | CANCELLED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL | BOOT_FAIL | DEADLINE | OUT_OF_MEMORY | REVOKED)
        say "$1, but Slurm is ending the job ($state), as scancel has it do: it is not requeued"
        exit 1
        ;;
      *)  # RUNNING, or what a running job shows for a while: SIGNALING, STOPPED, SUSPENDED, RESIZING, ...
        if [ -n "$undecided" ]; then
          [ "$said" = "$undecided" ] || say "$1. Waiting until Slurm gives up $undecided, too, and requeues the job (SlurmdTimeout: $timeout s)"
          said=$undecided
        else
          [ "$said" = requeued ] || say "$1: it is requeued"
          said=requeued
          if scontrol requeue "$this"; then
            requeued=yes
            break
          fi
        fi
        ;;
    esac
    sleep 10
  done
  if [ -z "$requeued" ]; then
    [ -z "$undecided" ] || undecided=", for it has not given up $undecided, and the job would lose its GPUs"
    say "Slurm has not requeued it$undecided: submit it again, it goes on from its checkpoint"
  else
    for ((i = 0; i < 60; ++i)); do  # until Slurm ends this script
      [ -z "$told" ] || break
      sleep 1
    done
  fi
  exit 75
}

# has_run CODE: whether the program ran; CODE is its launcher's exit code. If not, $refusal says why.
has_run() {
  case $KOLO_LAUNCHER in
    srun) refusal="Slurm creates no step for the ranks: srun says why, above" ;;
    mpirun) refusal="mpirun starts no rank: it says why, above" ;;
  esac
  (($1 != not_started))
}

# judge CODE: what it means that the ranks have ended with CODE, which is neither 0 nor 75.
judge() {
  local code=$1 lost i
  say "the ranks have ended with code $code: looking whether all nodes are there"
  for ((i = 0; i < 6; ++i)); do
    [ -z "$asked" ] || requeue "exit code $code after it was asked to stop, so it goes on from its newest checkpoint"
    if preempted; then requeue "exit code $code when it was preempted, so it goes on from its newest checkpoint"; fi
    if lost=$(lost_nodes); then
      [ -z "$lost" ] || requeue "exit code $code, and $(paste -sd, <<< "$lost") was lost"
      if has_run "$code"; then
        say "exit code $code, and all nodes are there: it failed by its own fault and is not requeued"
        exit "$code"
      fi
      ((restarts == 0)) || requeue "$refusal, although the job ran before"
      say "$refusal. The program has not run, and the job is not requeued: correct what it asks for, and submit it again"
      exit 1
    fi
    sleep 10
  done
  say "exit code $code. Slurm does not answer, or starts nothing on $SLURMD_NODENAME, so nothing is known of the nodes: it is not requeued. If one was lost, submit it again"
  exit "$code"
}

job() {
  local process code
  [[ ${1-} != -* ]] || KOLO_LAUNCHER=mpirun
  (($# > 0)) || { say "which program? sbatch [OPTIONS] ${0##*/} PROGRAM [ARGUMENTS]"; exit 2; }
  case $KOLO_LAUNCHER in srun | mpirun) ;; *) say "KOLO_LAUNCHER=$KOLO_LAUNCHER is neither srun nor mpirun"; exit 2 ;; esac
  # Each component is a job of its own, and srun would use the first alone.
  ((components == 1)) || [[ $1 == -* ]] || {
    say "in a heterogeneous job (of $components components) job.sh starts ranks on the first component alone, and loader processes on the others: job --cpus C PROGRAM. For ranks on all of them write a script with srun --het-group=0-$((components - 1)) --mpi=$KOLO_SRUN_MPI PROGRAM"
    exit 2
  }
  # Slurm requeues by itself, too, when a node fails.
  ((restarts <= KOLO_MAX_RESTARTS)) || { say "restarted $restarts times, and KOLO_MAX_RESTARTS is $KOLO_MAX_RESTARTS: it ends"; exit 1; }
  load_modules || { say "a module of KOLO_MODULES=\"$KOLO_MODULES\" cannot be loaded"; exit 2; }
  say "$nodes, tasks a node: ${SLURM_TASKS_PER_NODE:-1}, CPUs a task: $cpus_per_task: $*"
  [ -z "$asked" ] || requeue "asked to stop before the ranks were started"
  (start "$@") &
  process=$! ranks=$!
  [ -z "$asked" ] || kill -USR1 "$ranks"
  [ "$KOLO_LAUNCHER" = srun ] || listen &
  interrupted=yes
  while [ -n "$interrupted" ]; do  # a signal ends the waiting, too
    interrupted='' code=0
    wait "$process" || code=$?
  done
  ranks=''
  case $code in
    0) say "done"; exit 0 ;;
    75) requeue "it has saved its state" ;;
  esac
  judge "$code"
}
