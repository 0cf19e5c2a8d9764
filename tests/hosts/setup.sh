# shellcheck shell=bash
# Sourced, with the number of nodes: hosts head, node1, node2, ... in folder $work until the script ends, for launchers that
# start their daemons as by ssh. Exit code 77 where such hosts cannot be made.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
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
"$here/hosts.sh" up "$work" "$1" 1gbit > "$work/up" 2>&1 || skip "hosts cannot be made: $(tail -n 1 "$work/up")"

printf '#!/bin/sh\nexec "%s" agent "$@"\n' "$here/hosts.sh" > "$work/agent"
chmod +x "$work/agent"
export KOLO_HOSTS=$work OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
# Open MPI 5 knows the first name, 4 the second.
export PRTE_MCA_plm_ssh_agent=$work/agent OMPI_MCA_plm_rsh_agent=$work/agent
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_pml=ob1
