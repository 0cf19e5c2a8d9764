# shellcheck shell=bash disable=SC2034
# Sourced by the tests: starts the cluster, or ends the test with 77 and the reason; counts checks.
#   . job.sh BUILD SOURCE NODES      then: slurm CMD.., job .., check ..
build=$1 source=$2
here=$source/tests/slurm
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[[ $(id -u) -eq 0 ]] || skip "a Slurm of one's own needs root"
for tool in slurmctld slurmd munged sbatch ip tc unshare nsenter; do
  command -v "$tool" > /dev/null || skip "there is no '$tool' (packages slurm-wlm, libpmix-dev, munge, iproute2, util-linux)"
done
unshare --net --uts --mount true 2> /dev/null || skip "namespaces are not allowed here"

work=$(mktemp -d)
chmod 755 "$work"  # munge asks for it
trap '"$here/cluster.sh" down "$work/cluster"; rm -rf "$work"' EXIT
code=0
"$here/cluster.sh" up "$work/cluster" "$3" > "$work/up" 2>&1 || code=$?
((code != 77)) || skip "hosts cannot be made: $(tail -n 1 "$work/up")"
if ((code != 0)); then
  cat "$work/up"
  exit 1
fi
slurm() { "$here/cluster.sh" on "$work/cluster" "$@"; }
# The list names the plugin even where it cannot load PMIx.
[[ $(slurm srun --mpi=list 2>&1) == *pmix* ]] || skip "this Slurm has no plugin for PMIx (Debian's package slurm-wlm-basic-plugins has one)"
if ! slurm srun --mpi=pmix true > "$work/pmix" 2>&1; then
  if grep -q 'PMIx library' "$work/pmix"; then
    skip "Slurm's plugin for PMIx cannot load libpmix.so (Debian: apt-get install libpmix-dev): $(head -n 1 "$work/pmix")"
  fi
  cat "$work/pmix"
  exit 1
fi

export PATH=$build/bin:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# All nodes are on one machine, whose network is eth0 there.
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_pml=ob1 OMP_NUM_THREADS=1
export KOLO_DOCTOR=${KOLO_DOCTOR:-no}  # a start more for each job

# state_of JOB: "COMPLETED 1", the state and how often it was restarted.
state_of() {
  slurm scontrol show job "$1" | grep -oP '(JobState|Restarts)=\K\w+' | sed -n '1p;2p' | paste -sd' '
}

# job LOG OPTIONS..: submits, and waits for the end; the log is $log, the end $end.
submit() {
  log=$1
  id=$(slurm sbatch --parsable --output="$log" "${@:2}")
}
await() {  # await SECONDS
  local i
  for ((i = 0; i < 5 * $1; ++i)); do
    end=$(state_of "$id")
    case $end in PENDING* | RUNNING* | SIGNALING* | COMPLETING* | REQUEUED*) sleep 0.2 ;; *) return ;; esac
  done
  slurm scancel "$id"
}
job() {
  submit "$@"
  await 60
}

show_failure() {
  echo "  job $id: $end"
  tail -n 40 "$log" | cut -c 1-300 | sed 's/^/  log: /'
  { grep -h error "$work"/cluster/log/slurmd.*.log || true; } | tail -n 5 | cut -c 1-300 | sed 's/^/  slurmd: /'
}
# shellcheck source=../checks.sh
. "$here/../checks.sh"
