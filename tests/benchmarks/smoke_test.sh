#!/usr/bin/env bash
# smoke_test.sh MPIRUN KOLO_BENCH PYTHON: small runs on 2 ranks. Times are not looked at; results are
# checked by kolo-bench itself, its JSON and its exit codes here.
set -euo pipefail
mpirun=$1 program=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
on_two_ranks() { "$here/../mpirun.sh" "$mpirun" 2 "$@"; }

# expect CODE PATTERN COMMAND...: it ends with the code and says something that matches.
expect() {
  local code=$1 pattern=$2 ended=0
  shift 2
  "$@" > "$folder/output" 2>&1 || ended=$?
  if [ "$ended" != "$code" ] || ! grep -q -e "$pattern" "$folder/output"; then
    echo "$* ended with $ended instead of $code, or did not say '$pattern':"
    cat "$folder/output"
    exit 1
  fi
}

expect 0 'allreduce/4/private/2 *mpi' on_two_ranks "$program" allreduce --min-bytes 4 --max-bytes 65536 --samples 3 --json "$folder/allreduce.json"
expect 0 'gradients/resnet50/2 *mpi-fused' on_two_ranks "$program" gradients --model resnet50 --samples 2 --warm-up 5 --json "$folder/gradients.json"
"$python" "$here/check_json.py" "$folder/allreduce.json" allreduce kolo,mpi \
  allreduce/{4,16,64,256,1024,4096,16384,65536}/private/2
"$python" "$here/check_json.py" "$folder/gradients.json" gradients kolo,mpi,mpi-fused gradients/resnet50/2

expect 0 'Usage: kolo bench' "$program" --help
expect 0 'max-bytes' "$program" allreduce --help
expect 2 "no benchmark 'nothing'" on_two_ranks "$program" nothing
expect 2 'min-bytes must be' "$program" allreduce --min-bytes 3
expect 2 'known: resnet50' "$program" gradients --model resnet999
expect 1 "cannot write $folder/none/x.json" on_two_ranks "$program" allreduce --max-bytes 4 --json "$folder/none/x.json"
# A whole file or none: nothing else is left.
[ "$(ls "$folder" | sort | tr '\n' ' ')" = "allreduce.json gradients.json output " ]
echo "kolo-bench: smoke test passed"
