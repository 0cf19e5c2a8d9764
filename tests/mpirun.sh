#!/usr/bin/env bash
# mpirun.sh MPIRUN RANKS PROGRAM [ARGS...]: starts a test program on this machine, with more ranks
# than cores if need be. A test machine may be root in a container, so root is allowed here.
set -euo pipefail
mpirun=$1 ranks=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_NUM_THREADS=1
# Open MPI 5 keeps its files in a folder named by its process id, which is this one's, and does not start where a
# launcher that was killed has left one of that name.
rm -rf -- "${TMPDIR:-/tmp}/ompi.$$"
version=$("$mpirun" --version 2>&1)
case ${version%%$'\n'*} in
  *"Open MPI"*|*Open*RTE*|*prte*|*PRRTE*) exec "$mpirun" --oversubscribe --bind-to none -np "$ranks" "$@" ;;
  *) exec "$mpirun" -n "$ranks" "$@" ;;
esac
