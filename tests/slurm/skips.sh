#!/usr/bin/env bash
# skips.sh SOURCE: the tests of Slurm are skipped, with a reason, where Slurm cannot start ranks by PMIx, and fail where
# something else is wrong. The cluster is a stand-in here.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
show_failure() { sed 's/^/  log: /' "$log"; }
# shellcheck source=../checks.sh
. "$source/tests/checks.sh"
mkdir -p "$work/bin" "$work/source/tests/slurm"
for tool in slurmctld slurmd munged sbatch ip tc unshare nsenter; do
  printf '#!/bin/sh\n' > "$work/bin/$tool"
done
printf '#!/bin/sh\necho 0\n' > "$work/bin/id"
cat > "$work/source/tests/slurm/cluster.sh" << 'END'
#!/usr/bin/env bash
# cluster.sh on DIR srun --mpi=list, or --mpi=pmix true
[[ $1 == on ]] || exit 0
if [[ $4 == --mpi=list ]]; then
  cat "$FAKE/plugins"
else
  cat "$FAKE/error" >&2
  [[ ! -s $FAKE/error ]]
fi
END
chmod +x "$work"/bin/* "$work/source/tests/slurm/cluster.sh"
cp "$source/tests/slurm/job.sh" "$work/source/tests/slurm"
cp "$source/tests/checks.sh" "$work/source/tests"

export FAKE=$work
# with PLUGINS ERROR: how a test ends where `srun --mpi=list` prints the plugins and `srun --mpi=pmix` this error.
with() {
  printf '%s' "$1" > "$work/plugins"
  printf '%s' "$2" > "$work/error"
  end=0
  PATH="$work/bin:$PATH" bash -c ". $work/source/tests/slurm/job.sh /none $work/source 2; echo begins" > "$log" 2>&1 || end=$?
}
# ends CODE TEXT
ends() { [[ $end == "$1" ]] && grep -q -e "$2" "$log"; }
with "none pmix pmix_v4" ""
check "with PMIx the tests begin" ends 0 "^begins"
with "none pmi2" ""
check "without the plugin they are skipped" ends 77 "^SKIPPED: this Slurm has no plugin for PMIx"
with "none pmix pmix_v4" "srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library"
check "without its library they are skipped" ends 77 "^SKIPPED: .*apt-get install libpmix-dev"
with "none pmix pmix_v4" "srun: error: Unable to allocate resources: Node failure"
check "where anything else is wrong they fail" ends 1 "Node failure"
finish
