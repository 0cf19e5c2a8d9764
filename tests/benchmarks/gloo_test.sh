#!/usr/bin/env bash
# gloo_test.sh MPIRUN KOLO_BENCH PYTHON: torch.distributed beside kolo and MPI on 2 and 3 ranks. KOLO_TEST_PYTHON names a
# Python that has torch; PYTHON needs none. Sizes that can and cannot be shared evenly.
set -euo pipefail
mpirun=$1 program=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${KOLO_TEST_PYTHON:-}" ]; then
  echo "skipped: KOLO_TEST_PYTHON names no Python that has torch"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for ranks in 2 3; do
  for bytes in 4 40000; do
    "$here/../mpirun.sh" "$mpirun" "$ranks" "$program" operations --min-bytes $bytes --max-bytes $bytes --samples 3 \
      --python "$KOLO_TEST_PYTHON" --json "$folder/gloo.json"
    "$python" "$here/check_json.py" "$folder/gloo.json" operations kolo,mpi,gloo \
      {allreduce,grouped_allreduce,broadcast,allgather,alltoall,reducescatter,sendrecv}/$bytes/arena/$ranks \
      barrier/0/arena/$ranks
  done
done
echo "kolo-bench: test of torch.distributed passed"
