#!/usr/bin/env bash
# several_hosts.sh MPIRUN JOB: the job on hosts of two ranks each, whose links are limited. Skipped
# (exit code 77) where such hosts cannot be made.
set -euo pipefail
mpirun=$1 job=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[[ $(id -u) -eq 0 ]] || skip "hosts of namespaces need root"
for tool in ip tc unshare nsenter; do
  command -v "$tool" > /dev/null || skip "there is no '$tool' (packages iproute2, util-linux)"
done
unshare --net --uts --mount true 2> /dev/null || skip "namespaces are not allowed here"

trap '"$here/hosts.sh" down "$work"; rm -rf "$work"' EXIT
"$here/hosts.sh" up "$work" 2 1gbit > "$work/up" 2>&1 || skip "hosts cannot be made: $(tail -n 1 "$work/up")"

printf '#!/bin/sh\nexec "%s" agent "$@"\n' "$here/hosts.sh" > "$work/agent"
chmod +x "$work/agent"
export KOLO_HOSTS=$work OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
# Open MPI 5 knows the first name, 4 the second.
export PRTE_MCA_plm_ssh_agent=$work/agent OMPI_MCA_plm_rsh_agent=$work/agent
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_pml=ob1
for hosts in node1:2,node2:2 node1:2,node2:1 node1:3,node2:2; do
  ranks=0
  for host in ${hosts//,/ }; do ranks=$((ranks + ${host#*:})); done
  echo "== $hosts"
  timeout 100 "$here/hosts.sh" on "$work" head "$mpirun" -np "$ranks" --host "$hosts" --bind-to none "$job"
done
