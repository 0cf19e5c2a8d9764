# shellcheck shell=bash
# What the batch scripts share: they source this and end with   job PROGRAM [ARGUMENTS]
# It loads the modules, starts the ranks, passes the request to stop on to them, and decides what their end means:
#   0   the job is done
#   75  it has saved its state, and is requeued (kolo::kRequeueExitCode)
#   else, if a node was lost or it was preempted: requeued; if not: it failed by its own fault, and is not
# A job is restarted KOLO_MAX_RESTARTS times at most, whoever restarts it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=site.env
. "$here/site.env"
restarts=${SLURM_RESTART_COUNT:-0}
# A task of an array by its own name: the number of one of them means all.
this=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
this=${this:-$SLURM_JOB_ID}
# Ranks get what this shell has: sbatch --export=... would hold for each srun, too.
export SLURM_EXPORT_ENV=ALL
unset SRUN_EXPORT_ENV

say() { echo "kolo job $this, start $((restarts + 1)), $(date '+%F %T'): $*"; }

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
  [ "$KOLO_DOCTOR" = yes ] && command -v kolo > /dev/null || return 0
  case $KOLO_LAUNCHER in
    srun) timeout -k 5 120 srun --mpi="$KOLO_SRUN_MPI" kolo doctor --job --timeout 60 < /dev/null ;;
    mpirun) timeout -k 5 120 kolo doctor --job --timeout 60 < /dev/null ;;
  esac || say "kolo doctor --job has failed (exit code $?); the program is started all the same"
}

# Runs the program on all tasks of the job. Slurm 22.05 and newer hand --cpus-per-task to no srun.
start() {
  local i
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
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
  local job
  job=$(scontrol show job "$this")
  [[ $(when_of PreemptTime "$job") > $(when_of StartTime "$job") ]]
}

# probe NODE: whether it starts a process within half a minute.
probe() {
  timeout -k 5 30 srun --overlap --nodes=1 --ntasks=1 --nodelist="$1" --gres=none --mem=0 --mpi=none true < /dev/null > /dev/null 2>&1
}

# The nodes of the job that start no process, while this one does, or have been started anew since the job was. Fails if
# nothing is known of them: Slurm's controller may be away with a node, or be busy.
lost_nodes() {
  local node shown begin
  begin=$(when_of StartTime "$(scontrol show job "$this")")
  [ -n "$begin" ] && probe "$SLURMD_NODENAME" || return 1
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    shown=$(scontrol show node "$node")
    if [[ $(when_of BootTime "$shown") > $begin || $(when_of SlurmdStartTime "$shown") > $begin ]] || ! probe "$node"; then
      echo "$node"
    fi
  done
}

# requeue WHY: ends this script, for a requeued job begins anew.
requeue() {
  local job state i requeued='' said='' told=''
  trap 'told=yes' USR1 TERM
  if ((restarts >= KOLO_MAX_RESTARTS)); then
    say "$1. It was restarted $restarts times already, and KOLO_MAX_RESTARTS is $KOLO_MAX_RESTARTS: it ends"
    exit 1
  fi
  for ((i = 0; i < 12; ++i)); do  # Slurm's controller may be away for a while
    job=$(scontrol show job "$this")
    state=$(grep -oPm1 'JobState=\K\w+' <<< "$job")
    if (($(grep -oPm1 'Restarts=\K\d+' <<< "$job" || echo 0) > restarts)); then  # whatever state it is in
      say "$1: Slurm has requeued it already"
      requeued=yes
      break
    fi
    case $state in
      '') ;;
      COMPLETING | COMPLETED | CANCELLED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL | BOOT_FAIL | DEADLINE | OUT_OF_MEMORY | REVOKED)
        say "$1, but Slurm is ending the job ($state), as scancel has it do: it is not requeued"
        exit 1
        ;;
      *)  # RUNNING, or what a running job shows for a while: SIGNALING, STOPPED, SUSPENDED, RESIZING, ...
        [ -n "$said" ] || say "$1: it is requeued"
        said=yes
        if scontrol requeue "$this"; then
          requeued=yes
          break
        fi
        ;;
    esac
    sleep 10
  done
  if [ -z "$requeued" ]; then
    say "Slurm has not requeued it: submit it again, it goes on from its checkpoint"
  else
    for ((i = 0; i < 60; ++i)); do  # until Slurm ends this script
      [ -z "$told" ] || break
      sleep 1
    done
  fi
  exit 75
}

job() {
  local process code lost i
  (($# > 0)) || { say "which program? sbatch [OPTIONS] ${0##*/} PROGRAM [ARGUMENTS]"; exit 2; }
  case $KOLO_LAUNCHER in srun | mpirun) ;; *) say "KOLO_LAUNCHER=$KOLO_LAUNCHER is neither srun nor mpirun"; exit 2 ;; esac
  # Slurm requeues by itself, too, when a node fails.
  ((restarts <= KOLO_MAX_RESTARTS)) || { say "restarted $restarts times, and KOLO_MAX_RESTARTS is $KOLO_MAX_RESTARTS: it ends"; exit 1; }
  load_modules || { say "a module of KOLO_MODULES=\"$KOLO_MODULES\" cannot be loaded"; exit 2; }
  say "$SLURM_JOB_NODELIST, tasks a node: ${SLURM_TASKS_PER_NODE:-1}, CPUs a task: ${SLURM_CPUS_PER_TASK:-1}: $*"
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
  for ((i = 0; i < 6; ++i)); do
    [ -z "$asked" ] || requeue "exit code $code after it was asked to stop, so it goes on from its newest checkpoint"
    if preempted; then requeue "exit code $code when it was preempted, so it goes on from its newest checkpoint"; fi
    if lost=$(lost_nodes); then
      [ -z "$lost" ] || requeue "exit code $code, and $(paste -sd, <<< "$lost") was lost"
      say "exit code $code, and all nodes are there: it failed by its own fault and is not requeued"
      exit "$code"
    fi
    sleep 10
  done
  say "exit code $code. Slurm does not answer, or starts nothing on $SLURMD_NODENAME, so nothing is known of the nodes: it is not requeued. If one was lost, submit it again"
  exit "$code"
}
