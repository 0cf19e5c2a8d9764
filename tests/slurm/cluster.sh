#!/usr/bin/env bash
# A Slurm of its own: slurmctld on the virtual host head, slurmd on node1, node2, ... (see ../hosts/hosts.sh), on one
# machine, as root, without systemd. Nothing outside DIR is written, and no address of the machine is used.
#   cluster.sh up DIR N          N nodes that claim 48 CPUs and 6 "GPUs" each; partitions ml, gpu2, short, preemptor, hidden
#   cluster.sh on DIR CMD..      runs CMD on the head, in the present folder: sbatch, squeue, ...
#   cluster.sh cut DIR NODE      a power cut;  cluster.sh mend DIR NODE
#   cluster.sh kill DIR NODE     ends all that runs there, slurmd too, so that the network tells who had a connection
#   cluster.sh down DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hosts=$here/../hosts/hosts.sh
cpus=48 gpus=6 memory=262144  # claimed, for each node: nothing measures them

on() { "$hosts" on "$dir/hosts" "$@"; }
address() { awk -v name="$1" '$2 == name { print $1 }' "$dir/hosts/hosts"; }
# A host has one hostname and many processes: the paths are DIR's, per node where two would collide.
configure() {  # NODES
  local node gpu nodes=()
  for ((i = 1; i <= $1; ++i)); do nodes+=("node$i"); done
  mkdir -p "$dir"/{etc,run,log,state,spool,devices}
  chmod 755 "$dir" "$dir/run"  # munge asks for it
  (umask 077 && head -c 1024 /dev/urandom > "$dir/etc/munge.key")
  for ((gpu = 0; gpu < gpus; ++gpu)); do mknod "$dir/devices/nvidia$gpu" c 1 3; done  # Slurm wants devices
  for node in "${nodes[@]}"; do mkdir -p "$dir/tmp/$node" "$dir/spool/$node"; done
  cat > "$dir/etc/slurm.conf" << END
ClusterName=test
SlurmctldHost=head($(address head))
SlurmctldPort=17000
SrunPortRange=17100-17999
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits for cred_expire before it starts again: 120 s by default.
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
# The pmix plugins of two nodes would collide in one folder.
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
# Else a requeued job may wait a minute for the scheduler.
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
ReturnToService=2
EnforcePartLimits=ALL
# Slurm gives up no node by itself: scontrol update nodename=node2 state=down reason=lost.
SlurmdTimeout=300
KillWait=3
# What a rank's end must not do to the others, though clusters are set up so.
KillOnBadExit=1
MailProg=/bin/true
GresTypes=gpu
$(for node in "${nodes[@]}"; do
    echo "NodeName=$node NodeAddr=$(address "$node") Port=$((17000 + ${node#node})) CPUs=$cpus RealMemory=$memory Gres=gpu:$gpus"
  done)
PartitionName=ml Nodes=ALL Default=YES MaxTime=7-00:00:00 PriorityTier=1 GraceTime=20
PartitionName=gpu2 Nodes=ALL MaxTime=7-00:00:00 PriorityTier=1 GraceTime=20
PartitionName=short Nodes=ALL MaxTime=30 MaxNodes=1 PriorityTier=1 GraceTime=20
PartitionName=preemptor Nodes=ALL MaxTime=30 PriorityTier=9 PreemptMode=OFF
PartitionName=hidden Nodes=node1 MaxTime=30 PriorityTier=1 Hidden=YES
END
  printf 'AutoDetect=off\nNodeName=node[1-%s] Name=gpu File=%s/devices/nvidia[0-%s]\n' "$1" "$dir" $((gpus - 1)) \
    > "$dir/etc/gres.conf"
  echo 'CgroupPlugin=cgroup/v1' > "$dir/etc/cgroup.conf"
}

is_up() { [[ $(on head sinfo --noheader --Node --partition=ml --states=idle --format=%N | wc -l) == "$1" ]]; }

up() {  # NODES
  "$hosts" up "$dir/hosts" "$1" 1gbit || exit 77
  configure "$1"
  on head munged --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/state/munged.seed"
  on head slurmctld
  for ((i = 1; i <= $1; ++i)); do on "node$i" slurmd -N "node$i"; done
  for ((i = 0; i < 150; ++i)); do
    if is_up "$1"; then return; fi
    sleep 0.2
  done
  echo "the nodes of the test cluster did not come up" >&2
  tail -n 5 "$dir"/log/* >&2
  return 1
}

command=$1 dir=$2
export SLURM_CONF=$dir/etc/slurm.conf
case $command in
  up) up "$3" ;;
  on) on head "${@:3}" ;;
  cut | kill) "$hosts" "$command" "$dir/hosts" "$3" ;;
  mend)
    "$hosts" mend "$dir/hosts" "$3"
    on "$3" slurmd -N "$3"
    ;;
  down) "$hosts" down "$dir/hosts" ;;
  *) exit 2 ;;
esac
