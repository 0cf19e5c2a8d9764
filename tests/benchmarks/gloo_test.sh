#!/usr/bin/env bash
# gloo_test.sh MPIRUN KOLO_BENCH PYTHON: torch.distributed beside the others on 2 and 3 ranks. KOLO_TEST_PYTHON names a
# Python that has torch; PYTHON needs none. Operations: sizes that can and cannot be shared evenly.
set -euo pipefail
mpirun=$1 program=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${KOLO_TEST_PYTHON:-}" ]; then
  echo "skipped: KOLO_TEST_PYTHON names no Python that has torch"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bench() { "$here/../mpirun.sh" "$mpirun" "$ranks" "$program" "$@" --samples 3 --python "$KOLO_TEST_PYTHON" --json "$folder/gloo.json"; }
check_json() { "$python" "$here/check_json.py" "$folder/gloo.json" "$@"; }
for ranks in 2 3; do
  for bytes in 4 40000; do
    bench operations --min-bytes $bytes --max-bytes $bytes
    check_json operations kolo,mpi,gloo \
      {allreduce,grouped_allreduce,reduce,broadcast,allgather,alltoall,reducescatter,sendrecv}/$bytes/arena/$ranks \
      barrier/0/arena/$ranks
    bench allreduce --min-bytes $bytes --max-bytes $bytes
    check_json allreduce kolo,mpi,mpi-tuned-malloc allreduce/$bytes/arena/$ranks \
      kolo,mpi,mpi-tuned-malloc,gloo allreduce/$bytes/private/$ranks
  done
  bench checkpoint --bytes 400000 --tensors 10 --folder "$folder"
  check_json checkpoint write,torch-save,kolo,kolo-all-ranks,dcp save/400000/$ranks \
    copy,kolo,kolo-all-ranks,dcp stall/400000/$ranks read,torch-load,kolo,kolo-all-ranks,dcp restore/400000/$ranks
  reducer=,reducer
  bench gradients --model mnist 2> "$folder/output"
  ! grep -q 'contender reducer is left out' "$folder/output" || reducer=
  check_json gradients kolo,mpi,mpi-fused reduction/mnist/$ranks kolo,no-communication,mpi$reducer,ddp-gloo gradients/mnist/$ranks
done
echo "kolo-bench: test of torch.distributed passed"
