#!/usr/bin/env bash
# smoke_test.sh MPIRUN KOLO_BENCH PYTHON: small runs on 2 ranks. Times are not looked at; results are
# checked by kolo-bench itself, its JSON and its exit codes here.
set -euo pipefail
mpirun=$1 program=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
on_ranks() { "$here/../mpirun.sh" "$mpirun" "$@"; }
on_two_ranks() { on_ranks 2 "$@"; }

# A Python whose torch is a fake: see fake_gloo.py.
fake() {
  printf '#!/bin/sh\nexec "%s" "%s" %s "$@"\n' "$python" "$here/fake_gloo.py" "$1" > "$folder/python-$1"
  chmod +x "$folder/python-$1"
  echo "$folder/python-$1"
}

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

expect 0 'allreduce/4/arena/2 *mpi' on_two_ranks "$program" allreduce --min-bytes 4 --max-bytes 65536 --samples 3 --json "$folder/allreduce.json"
! grep 'OSC' "$folder/output" || { echo "Open MPI complains of windows for networks"; exit 1; }
direct=,direct-read  # unless the system forbids it
! grep -q 'contender direct-read is left out' "$folder/output" || direct=
expect 0 'allreduce/4194304/arena/2 *limit' on_two_ranks "$program" allreduce --min-bytes 4194304 --max-bytes 4194304 --samples 3 --json "$folder/large.json"
expect 0 'gradients/resnet50/2 *no-communication' on_two_ranks "$program" gradients --model resnet50 --samples 2 --warm-up 5 --json "$folder/gradients.json"
expect 0 'gradients/tiny1000/2 *no-communication' on_two_ranks "$program" gradients --model tiny1000 --samples 2 --json "$folder/tiny.json"
reducer=,reducer  # unless LibTorch has none
! grep -q 'contender reducer is left out' "$folder/output" || reducer=
"$python" "$here/check_json.py" "$folder/allreduce.json" allreduce kolo,mpi,mpi-tuned-malloc \
  allreduce/{4,16,64,256,1024,4096,16384}/{arena,private}/2 allreduce/65536/arena/2 \
  kolo,mpi,mpi-tuned-malloc$direct allreduce/65536/private/2
"$python" "$here/check_json.py" "$folder/large.json" allreduce kolo,mpi,mpi-tuned-malloc,kolo-bfloat16,limit allreduce/4194304/arena/2 \
  kolo,mpi,mpi-tuned-malloc$direct allreduce/4194304/private/2
"$python" "$here/check_json.py" "$folder/gradients.json" gradients kolo,mpi,mpi-fused reduction/resnet50/2 \
  kolo,no-communication,mpi$reducer gradients/resnet50/2
"$python" "$here/check_json.py" "$folder/tiny.json" gradients kolo,mpi,mpi-fused reduction/tiny1000/2 \
  kolo,no-communication,mpi$reducer gradients/tiny1000/2

expect 0 'adamw/tiny1000/2 *plain' on_two_ranks "$program" optimizer --model tiny1000 --samples 2 --json "$folder/optimizer.json"
"$python" "$here/check_json.py" "$folder/optimizer.json" optimizer kolo,plain {sgd,adam,adamw}/tiny1000/2 \
  kolo check-in-sync/tiny1000/2
expect 0 'train/mnist/2 *independent-tuned-malloc' on_two_ranks "$program" train --samples 2 --steps 1 --batch-size 4 --json "$folder/train.json"
"$python" "$here/check_json.py" "$folder/train.json" train kolo,kolo-timeline,kolo-trainer,barrier,single,independent,independent-tuned-malloc train/mnist/2
expect 2 'batch-size must be' "$program" train --batch-size 1
expect 0 'small/mlp/2 *mpi-fused' on_two_ranks "$program" small --samples 2 --calls 4 --json "$folder/small.json"
"$python" "$here/check_json.py" "$folder/small.json" small kolo,no-communication,mpi-fused$reducer small/mlp/2

expect 0 'allocate/65536/1/2 *stock' on_two_ranks "$program" allocate --max-bytes 262144 --samples 2 --warm-up 1 \
  --json "$folder/allocate.json"
"$python" "$here/check_json.py" "$folder/allocate.json" allocate kolo,stock allocate/{65536,262144}/{1,2,4}/2
expect 1 'allocate needs an arena' on_ranks 1 "$program" allocate --max-bytes 65536 --samples 1

expect 0 'loading/hdf5/shuffled/0/1 *read' "$program" loading --samples 1 --warm-up 0 --steps 20 --json "$folder/loading.json"
computed=$(for workers in 1 2 4 5 6 8; do [ "$workers" -gt "$(getconf _NPROCESSORS_ONLN)" ] || echo "delivery/computed/$workers/1"; done)
# shellcheck disable=SC2086
"$python" "$here/check_json.py" "$folder/loading.json" loading \
  kolo,libtorch loading/idx/{in-order,shuffled}/{0,1,2,4}/1 \
  kolo,libtorch,read loading/hdf5/in-order/0/1 kolo,libtorch loading/hdf5/in-order/{1,2,4}/1 \
  kolo,libtorch,read loading/hdf5/shuffled/0/1 kolo,libtorch loading/hdf5/shuffled/{1,2,4}/1 \
  loading/{hdf5-chunks,hdf5-gzip}/{in-order,shuffled}/{0,1,2,4}/1 \
  steps,kolo,libtorch delivery/slept/0/1 steps,kolo,libtorch,delivery delivery/slept/{1,2,4,5,6,8}/1 \
  steps,kolo,libtorch delivery/computed/0/1 steps,kolo,libtorch,delivery $computed
expect 0 'idle/2 *kolo' on_two_ranks "$program" idle --samples 1 --warm-up 0 --json "$folder/idle.json"
"$python" "$here/check_json.py" "$folder/idle.json" idle kolo idle/2

mkdir "$folder/a disk"
checkpoint() { on_two_ranks "$program" checkpoint --bytes 4000000 --tensors 10 --samples 2 --folder "$folder/a disk" "$@"; }
expect 0 'stall/4000000/2 *dcp' checkpoint --python "$(fake copy)" --json "$folder/checkpoint.json"
"$python" "$here/check_json.py" "$folder/checkpoint.json" checkpoint write,torch-save,kolo,kolo-all-ranks,dcp save/4000000/2 \
  copy,kolo,kolo-all-ranks,dcp stall/4000000/2 read,torch-load,kolo,kolo-all-ranks,dcp restore/4000000/2
expect 1 'wrong result of contender dcp: element 0 of what was restored on rank [01] is -1' checkpoint --python "$(fake idle)"
rmdir "$folder/a disk"  # nothing is left in it
expect 1 "cannot make a folder in $folder/a disk: No such file" checkpoint
expect 2 'bytes must be a multiple of 4 times --tensors' "$program" checkpoint --bytes 41 --tensors 10

expect 0 'horovod is left out: .*/python-copy' on_two_ranks "$program" negotiate --max-tensors 100 --samples 2 \
  --python "$(fake copy)" --json "$folder/negotiate.json"
"$python" "$here/check_json.py" "$folder/negotiate.json" negotiate kolo,mpi,mpi-fused \
  negotiate/{10,100}/{steady,cold}/2

expect 0 'tune/4096/3 *halving-doubling' on_ranks 3 "$program" tune --min-bytes 4096 --max-bytes 65536 --samples 3 \
  --json "$folder/tune.json" --output "$folder/table"
"$python" "$here/check_json.py" "$folder/tune.json" tune recursive-doubling,halving-doubling,ring,tree \
  tune/{4096,16384,65536}/2 tune/{4096,16384,65536}/3
grep -q '^ranks 3$' "$folder/table"
expect 1 'tune needs two ranks' on_ranks 1 "$program" tune
# What it writes kolo reads.
KOLO_ALLREDUCE_TABLE="$folder/table" KOLO_SHARED_MEMORY=0 expect 0 'allreduce/4/private/2' on_two_ranks "$program" \
  allreduce --max-bytes 4 --samples 2

of_each() { for name in "$@"; do echo "$name"/{4,16,64,256,1024,4096,16384,65536}/arena/2; done; }
expect 0 'barrier/0/arena/2 *mpi' on_two_ranks "$program" operations --max-bytes 65536 --samples 3 --json "$folder/operations.json"
# shellcheck disable=SC2046
"$python" "$here/check_json.py" "$folder/operations.json" operations \
  kolo,mpi $(of_each allreduce grouped_allreduce reduce broadcast) \
  kolo,kolo-into,mpi $(of_each allgather alltoall reducescatter) kolo,mpi $(of_each sendrecv) barrier/0/arena/2
# Sizes that three ranks cannot share evenly.
expect 0 'alltoall/44/arena/3 *mpi' on_ranks 3 "$program" operations --min-bytes 44 --max-bytes 50000 --samples 3

expect 0 'allgather/64/private/1 *gloo' on_ranks 1 "$program" operations --only allreduce,allgather,barrier \
  --min-bytes 64 --max-bytes 64 --samples 3 --python "$(fake copy)" --json "$folder/fake.json"
"$python" "$here/check_json.py" "$folder/fake.json" operations kolo,mpi,gloo allreduce/64/private/1 \
  kolo,kolo-into,mpi,gloo allgather/64/private/1 kolo,mpi,gloo barrier/0/private/1
grep -q ', torch 0.0-fake"' "$folder/fake.json"
expect 0 'allreduce/64/private/1 *gloo' on_ranks 1 "$program" allreduce --min-bytes 64 --max-bytes 64 --samples 3 \
  --python "$(fake copy)"
expect 0 'gradients/mnist/1 *ddp-gloo' on_ranks 1 "$program" gradients --model mnist --samples 2 \
  --python "$(fake copy)" --json "$folder/fake-model.json"
"$python" "$here/check_json.py" "$folder/fake-model.json" gradients kolo,mpi,mpi-fused reduction/mnist/1 \
  kolo,no-communication,mpi$reducer,ddp-gloo gradients/mnist/1
expect 1 'wrong result of contender ddp-gloo: element [0-9]* of the gradient of .conv1.weight. on rank' \
  on_two_ranks "$program" gradients --model mnist --samples 2 --python "$(fake idle)"
expect 1 'python-die of rank 1 exited with code 1' \
  on_two_ranks "$program" gradients --model mnist --samples 2 --python "$(fake die)"
gloo() { on_two_ranks "$program" operations --max-bytes 4 --samples 3 "$@"; }
expect 1 'wrong result of contender gloo: element 0 of the result of allgather on rank' gloo --only allgather --python "$(fake idle)"
expect 1 'python-die of rank 1 exited with code 1' gloo --only barrier --python "$(fake die)"
grep -q '  the fake dies' "$folder/output"
expect 0 'gloo has no alltoall: a fake has none' gloo --only alltoall --python "$(fake lack)"
expect 1 '/no/python of rank 1 cannot be started: No such file' gloo --python /no/python
expect 2 "no operation 'nothing'" "$program" operations --only nothing
expect 0 'needs two ranks' on_ranks 1 "$program" operations --only sendrecv

expect 0 'Usage: kolo bench' "$program" --help
expect 0 'max-bytes' "$program" allreduce --help
expect 2 "no benchmark 'nothing'" on_two_ranks "$program" nothing
expect 2 'min-bytes must be' "$program" allreduce --min-bytes 3
expect 2 'known: resnet50' "$program" gradients --model resnet999
expect 1 "cannot write $folder/none/x.json" on_two_ranks "$program" allreduce --max-bytes 4 --json "$folder/none/x.json"
# A whole file or none: nothing else is left, and no child.
if pgrep -af 'kolo-bench train-alone'; then echo 'the above are left'; exit 1; fi
for _ in $(seq 30); do pgrep -f "$here/fake_gloo.py" > /dev/null || break; sleep 0.1; done
if pgrep -af "$here/fake_gloo.py"; then echo 'the above are left'; exit 1; fi
[ "$(ls "$folder" | sort | tr '\n' ' ')" = "allocate.json allreduce.json checkpoint.json fake-model.json fake.json gradients.json idle.json large.json loading.json negotiate.json operations.json optimizer.json output python-copy python-die python-idle python-lack small.json table tiny.json train.json tune.json " ]
echo "kolo-bench: smoke test passed"
