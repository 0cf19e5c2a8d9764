#!/usr/bin/env bash
# requeue.sh BUILD SOURCE: a training that is told to stop, preempted, and loses a node is requeued each time, and ends
# with the weights of one that was left alone; a job that fails by its own fault is not requeued.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh" "$1" "$2" 2
# shellcheck source=../small_digits.sh
. "$source/tests/small_digits.sh"
digits=$source/.deps/data/mnist-5k
[[ -d $digits ]] || skip "$digits is missing; run scripts/setup"
[[ -x $build/bin/mnist ]] || skip "mnist was not built"
small_digits "$digits" "$work/data"

# train NAME OPTIONS..: submits the training on both nodes; the weights come to $work/NAME-out.
train() {
  mkdir "$work/$1-out"
  submit "$work/$1.log" --nodes=2 --ntasks-per-node=2 "${@:2}" "$source/slurm/gpu2.sbatch" "$build/bin/mnist" \
    --data "$work/data" --batch-size 16 --epochs 9 --out "$work/$1-out/mnist_cnn.pt" --checkpoint "$work/$1" --resume
}
# Until the START-th start of the job has trained a whole epoch more.
await_progress() {  # START
  local i
  for ((i = 0; i < 600; ++i)); do
    if [[ $(sed -n "/^kolo job $id, start $1,/,\$p" "$log" 2> /dev/null) == *'Test set'* ]]; then return; fi
    sleep 0.1
  done
  echo "start $1 of job $id makes no progress"
}

export KOLO_LAUNCHER=srun
train whole
await 200
check "a training that is left alone" is "$end" "COMPLETED 0"

# interrupted TIMES: of the job that has just ended.
interrupted() {
  check "$KOLO_LAUNCHER: a training that was interrupted $1 times ends well" is "$end" "COMPLETED $1"
  check "$KOLO_LAUNCHER: it went on from checkpoints" is "$(grep -c 'Resumed from' "$log")" "$1"
  check "$KOLO_LAUNCHER: the weights have the same bits" cmp "$work/whole-out/mnist_cnn.pt" "$work/$KOLO_LAUNCHER-out/mnist_cnn.pt"
}
why_requeued() { grep -oE '(it has saved its state|and node2 was lost): it is requeued' "$log" | paste -sd,; }
saved="it has saved its state: it is requeued"
preempt() {
  slurm sbatch --partition=preemptor --nodes=2 --ntasks=2 --exclusive --time=1 --output=/dev/null --wrap "sleep 1" > "$work/preemptor"
}

train srun
await_progress 1
slurm scancel --signal=USR1 --batch "$id"
await_progress 2
preempt
await_progress 3
"$here/cluster.sh" cut "$work/cluster" node2
sleep 1
"$here/cluster.sh" mend "$work/cluster" node2
await 180
interrupted 3
check "srun: each time for its reason" is "$(why_requeued)" "$saved,$saved,and node2 was lost: it is requeued"

export KOLO_LAUNCHER=mpirun
train mpirun
await_progress 1
slurm scancel --signal=TERM "$id"
await_progress 2
preempt
await_progress 3
"$here/cluster.sh" kill "$work/cluster" node2  # of a cut mpirun would not hear
# A job that is requeued before Slurm gives the node up loses its GPUs.
for ((i = 0; i < 600; ++i)); do
  ! grep -qE 'node2 was lost(: it is requeued|[.] Waiting until Slurm gives up node2, too)' "$log" || break
  sleep 0.1
done
slurm scontrol update nodename=node2 state=down reason=lost
"$here/cluster.sh" mend "$work/cluster" node2
await 180
interrupted 3
check "mpirun: Slurm has requeued it when it had given up the node" is "$(why_requeued)" "$saved,$saved"

# A job that runs until it is asked to save its state. Its time limit is a minute, and Slurm may signal it up to a minute too
# early. Other jobs use the rest of the nodes meanwhile.
half=(--gres=gpu:2 --mem=1000)
submit "$work/limit.log" --nodes=2 --ntasks-per-node=2 "${half[@]}" --time=1 --signal=B:USR1@25 "$source/slurm/gpu2.sbatch" \
  sh -c "[ ! -e $work/asked ] || exit 0; trap 'touch $work/asked; exit 75' USR1; while :; do sleep 0.1; done"
limited=$id limited_log=$log

# A user's scancel is no preemption. A job that was requeued all the same would have started again at the end of this test.
cancelled=()
for launcher in srun mpirun; do
  export KOLO_LAUNCHER=$launcher
  train "cancelled-$launcher" "${half[@]}"
  await_progress 1
  slurm scancel "$id"
  await 30
  check "$launcher: a job that is cancelled ends" is "$end" "CANCELLED 0"
  cancelled+=("$id")
done

# Failures.
job "$work/fault.log" --nodes=1 --ntasks-per-node=2 "${half[@]}" "$source/slurm/gpu2.sbatch" sh -c 'exit 3'
check "a job that fails by its own fault is not requeued" is "$end" "FAILED 0"
check "and says so" grep -q 'exit code 3, and all nodes are there: it failed by its own fault and is not requeued' "$log"
KOLO_MAX_RESTARTS=2 job "$work/again.log" --nodes=1 --ntasks-per-node=1 "${half[@]}" "$source/slurm/gpu2.sbatch" sh -c 'exit 75'
check "a job is not requeued for ever" is "$end" "FAILED 2"
check "and says so" grep -q 'It was restarted 2 times already, and KOLO_MAX_RESTARTS is 2: it ends' "$log"

# At a time limit Slurm sends SIGCONT first, and shows SIGNALING until each node has answered. One of them is slow.
KOLO_LAUNCHER=srun submit "$work/slow.log" --nodes=2 --ntasks-per-node=1 "${half[@]}" "$source/slurm/gpu2.sbatch" \
  sh -c "touch $work/slow.\$SLURM_PROCID; until [ -e $work/slow.end ]; do sleep 0.1; done; exit 75"
for ((i = 0; i < 300; ++i)); do
  [[ ! -e $work/slow.0 || ! -e $work/slow.1 ]] || break
  sleep 0.1
done
slurmd=$(< "$work/cluster/run/slurmd.node2.pid")
kill -STOP "$slurmd"
slurm scancel --signal=CONT "$id" &
for ((i = 0; i < 50; ++i)); do
  [[ $(state_of "$id") != SIGNALING* ]] || break
  sleep 0.1
done
check "a job that is being signalled says so" is "$(state_of "$id")" "SIGNALING 0"
touch "$work/slow.end"
kill -CONT "$slurmd"
wait
for ((i = 0; i < 300; ++i)); do
  ! grep -q 'it is' "$log" || break
  sleep 0.1
done
slurm scancel "$id"
check "it is requeued when all have answered" is "$(why_requeued)" "$saved"

id=$limited log=$limited_log
await 300
for id in "${cancelled[@]}"; do check "and is left alone: job $id" is "$(state_of "$id")" "CANCELLED 0"; done
id=$limited
check "a time limit" is "$end $(why_requeued)" "COMPLETED 1 $saved"
finish
