#!/usr/bin/env bash
# scripts.sh BUILD SOURCE: every batch script on one node and two, started by srun and by mpirun, and other ways to start
# ranks in a job of Slurm: all agree on who is who.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh" "$1" "$2" 2
ranks=$build/tests/bin/job_ranks

# expected NODES RANKS_A_NODE THREADS DEVICES: what the ranks print, sorted.
expected() {
  local rank node local_rank
  for ((rank = 0; rank < $1 * $2; ++rank)); do
    node=$((rank / $2)) local_rank=$((rank % $2))
    echo "rank $rank of $(($1 * $2)), $local_rank of $2 on node$((node + 1)), node $node of $1, $3 threads, devices $4"
  done | sort
}
# doctor_says NODES: rank, node, local rank, threads, device of gpu2.sbatch.
doctor_says() {
  local rank
  for ((rank = 0; rank < $1 * 4; ++rank)); do echo "$rank node$((rank / 4 + 1)) $((rank % 4)) 6 $((rank % 4))"; done
}
printed() { grep -oE 'rank [0-9]+ of .*' "$1" | sort; }

unset OMP_NUM_THREADS  # job.sh sets it from --cpus-per-task
for launcher in srun mpirun; do
  for nodes in 1 2; do
    export KOLO_LAUNCHER=$launcher
    for script in ml:6:7:0,1,2,3,4,5 gpu2:4:6:0,1,2,3 cpu:4:8:none; do
      IFS=: read -r name each threads devices <<< "$script"
      [[ $name != gpu2 ]] || export KOLO_DOCTOR=yes
      job "$work/$launcher-$nodes-$name.log" --nodes="$nodes" "$source/slurm/$name.sbatch" "$ranks"
      check "$name.sbatch, $nodes nodes, $launcher" is "$end
$(printed "$log")" "COMPLETED 0
$(expected "$nodes" "$each" "$threads" "$devices")"
      [[ $name == gpu2 ]] || continue
      export KOLO_DOCTOR=no
      check "and the log says who ran where" is "$(awk '/^rank  node/ { on = 1; next } !/^[0-9]/ { on = 0 } on { print $1, $2, $3, $7, $8 }' "$log")" \
        "$(doctor_says "$nodes")"
    done
    check "the log says which nodes" grep -qE "^kolo job $id, start 1, .*: node.*, tasks a node: 4.*, CPUs a task: 8: " "$log"
  done
done
KOLO_LAUNCHER=mpirun job "$work/one-task.log" --nodes=2 --ntasks-per-node=1 --cpus-per-task=6 --gres=gpu:3 "$source/slurm/gpu2.sbatch" "$ranks"
check "one task a node, mpirun: the ranks share its CPUs" is "$end $(printed "$log")" "COMPLETED 0 $(expected 2 3 2 0,1,2)"
export OMP_NUM_THREADS=1

# srun would hand on no more than sbatch has been told to, and nothing of what job.sh sets.
for launcher in srun mpirun; do
  KOLO_LAUNCHER=$launcher job "$work/export-$launcher.log" --nodes=2 --export=PATH,KOLO_LAUNCHER,KOLO_DOCTOR,OMPI_ALLOW_RUN_AS_ROOT,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM,OMPI_MCA_btl_tcp_if_include,OMPI_MCA_pml \
    "$source/slurm/cpu.sbatch" "$ranks"
  check "sbatch --export: the ranks of $launcher have what the script has" is "$end
$(printed "$log")" "COMPLETED 0
$(expected 2 4 8 none)"
done

printf -- '--lr 0.5\n--lr 1.0 --name {}' > "$work/settings.txt"  # no newline at the end
export KOLO_LAUNCHER=srun
# The second ends with "start again" once, which is no matter of the first.
submit "$work/array-%a.log" --array=1-2 "$source/slurm/array.sbatch" "$work/settings.txt" \
  sh -c 'echo words "$@"; [ "$1" = runs/1 ] || [ "$SLURM_RESTART_COUNT" ] || exit 75' sh "runs/{}"
id=${id}_1 && await 60 && first=$end
id=${id%_1}_2 && await 60
log=$work/array-2.log
check "array.sbatch gives each task its line, and starts one of them again" \
  is "$first, $end, $(grep -hoE 'words.*' "$work"/array-{1,2}.log | grep -v sh | sort)" \
  "COMPLETED 0, COMPLETED 1, words runs/1 --lr 0.5
words runs/2 --lr 1.0 --name 2
words runs/2 --lr 1.0 --name 2"
job "$work/slow-saver.log" --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 "$source/slurm/cpu.sbatch" \
  sh -c '[ "$SLURM_RESTART_COUNT" ] && exit; [ "$SLURM_PROCID" = 0 ] && exit 75; sleep 3; echo saved; exit 75'
check "a rank that has saved its state ends none that still saves" is "$end $(grep -c ': saved' "$log")" "COMPLETED 1 1"
job "$work/array-nodes.log" --array=1 --nodes=2 "$source/slurm/array.sbatch" "$work/settings.txt" "$ranks"
check "array.sbatch on two nodes" is "$end $(printed "$log")" "COMPLETED 0 $(expected 2 1 1 none)"
job "$work/no-line.log" --array=3 "$source/slurm/array.sbatch" "$work/settings.txt" echo words
check "a line that is not there is named" grep -q "settings.txt has no line 3" "$log"

# Scripts whose path has a blank, with arguments that have one, a slash and a line's end.
cp -r "$source/slurm" "$work/own scripts"
for script in ml gpu2 cpu; do
  job "$work/blank-$script.log" --ntasks-per-node=1 --cpus-per-task=1 "$work/own scripts/$script.sbatch" /bin/sh -c $'echo a/b "$@"\ntrue' sh "c  d/e" ''
  check "$script.sbatch in a folder whose name has a blank" is "$end $(grep -c '^0: a/b c  d/e' "$log")" "COMPLETED 0 1"
done
job "$work/blank-array.log" --array=1 "$work/own scripts/array.sbatch" "$work/settings.txt" echo words
check "array.sbatch, too" grep -q '^0: words --lr 0.5' "$log"

# It compares times of jobs and nodes; a year alone would always be the same.
log=$work/times.log id=none end=none
SLURM_TIME_FORMAT=%Y slurm bash -c ". $source/slurm/job.sh; when_of SlurmdStartTime \"\$(scontrol show node node1)\"" > "$log" 2>&1
check "job.sh reads times whatever SLURM_TIME_FORMAT is" grep -qxE '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}' "$log"

# A total of GPUs, of which one node cannot have all.
job "$work/total.log" --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --gpus=8 "$source/slurm/cpu.sbatch" \
  sh -c '[ "$SLURM_RESTART_COUNT" ] || exit 75; exec kolo run true'
check "a job of a total of GPUs starts again" is "${end#* } $(grep -c 'Invalid generic resource' "$log")" "1 0"
check "and kolo run does not guess how many each node has" grep -q 'the job asked for a total of GPUs' "$log"

# A heterogeneous job: srun --het-group starts ranks on all components, and mpirun knows the first alone.
cat > "$work/components.sbatch" << 'END'
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=1
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks-per-node=2 --cpus-per-task=2
srun --het-group=0-1 --mpi=pmix "$1"
kolo run "$1"
kolo doctor --job
srun --het-group=0-1 --ntasks=1 kolo run "$1"
kolo run -H node1:1 "$1"
END
job "$work/components.log" "$work/components.sbatch" "$ranks"
check "a heterogeneous job: srun uses both components, kolo run the first when it is told to" is "$(printed "$log")" \
  "rank 0 of 1, 0 of 1 on node1, node 0 of 1, 1 threads, devices none
rank 0 of 3, 0 of 1 on node1, node 0 of 2, 1 threads, devices none
rank 1 of 3, 0 of 2 on node2, node 1 of 2, 1 threads, devices none
rank 2 of 3, 1 of 2 on node2, node 0 of 1, 1 threads, devices none"
check "else kolo run, kolo doctor and kolo run in a step of both refuse it" is "$(grep -c 'this job of Slurm is heterogeneous' "$log")" 3

# Loader processes in a component of their own: the batches are those that ranks load by themselves. The job is requeued
# as one, with its loader processes.
delivered() { grep -oE 'epoch .*digest.*' "$1" | sort; }
train=$build/tests/bin/delivery_job
kolo run --bind-to none -np 4 "$train" > "$work/alone.log" 2>&1
slurm kolo slurm script --ntasks-per-node=4 --cpus-per-task=2 --time=10 --cpus=3 --units=96 --loader-cpus-per-task=4 \
  sh -c '[ "$KOLO_LOADER" ] || [ "$SLURM_RESTART_COUNT" ] || exit 75; exec "$0"' "$train" > "$work/loaders.sbatch"
job "$work/loaders.log" "$work/loaders.sbatch"
check "loader processes in a second component: the batches are the same, also after a requeue" is "$end
$(delivered "$log")" "COMPLETED 1
$(delivered "$work/alone.log")"
check "they run there" is "$(grep -oE 'KOLO_LOADERS=.*' "$log" | grep -oE 'node[0-9]+:' | sort | uniq -c | xargs)" "6 node2:"
check "and end without a complaint" is "$(grep -cE 'srun: error|STEP .* CANCELLED' "$log")" 0

# One task a node: kolo run starts a rank for each GPU, or as many as it is told, on all nodes, once.
at_prompt() {
  slurm timeout 60 "$@" > "$log" 2>&1 < /dev/null || code=$?
}
log=$work/prompt.log id=none end=none
code=0
at_prompt srun --nodes=2 --ntasks-per-node=3 --gres=gpu:3 --mpi=pmix "$ranks"
check "one task a GPU" is "$code $(printed "$log")" "0 $(expected 2 3 1 0,1,2)"
# Open MPI crashes where a message comes to a rank that Slurm has not yet told that all are there.
code=0
at_prompt env LATE_RANK=5 LD_PRELOAD="$build/tests/bin/late_fence.so" \
  srun --nodes=2 --ntasks-per-node=3 --gres=gpu:3 --mpi=pmix "$ranks"
check "though a rank leaves MPI_Init after the others" is "$code $(printed "$log")" "0 $(expected 2 3 1 0,1,2)"
# Two of MPI_Init's, and kolo's.
check "which it did" test "$(grep -c 'a fence ends late for rank 5' "$log")" -ge 3
code=0
at_prompt env LATE_RANK=3 LD_PRELOAD="$build/tests/bin/late_fence.so" \
  srun --nodes=2 --ntasks-per-node=3 --gres=gpu:3 --mpi=pmix kolo doctor --job
check "and kolo doctor --job is right, too" is "$code $(grep -cE '^[0-5]     node[12]  [0-2] ' "$log")" "0 6"
code=0
at_prompt srun --nodes=2 --ntasks-per-node=1 --gres=gpu:3 --exclusive kolo run "$ranks"
check "one task a node gives the same ranks" is "$code $(printed "$log")" "0 $(expected 2 3 1 0,1,2)"
code=0
at_prompt env -u OMP_NUM_THREADS srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=6 --gres=gpu:3 kolo run "$ranks"
check "whose threads share the CPUs of the task" is "$code $(printed "$log")" "0 $(expected 2 3 2 0,1,2)"
code=0
at_prompt srun --nodes=2 --ntasks-per-node=1 kolo run -np 4 "$ranks"
check "one task a node, and a number" is "$code $(printed "$log")" "0 $(expected 2 2 1 none)"
code=0
at_prompt srun --nodes=2 --ntasks-per-node=1 kolo run -np 2 sh -c 'exit $((5 + RANK))'
check "all tasks end as the job does" is "$(grep -c 'task.*Exited with exit code [56]$' "$log") $((code == 5 || code == 6))" "2 1"
code=0
at_prompt srun --nodes=2 --ntasks-per-node=2 --gres=gpu:3 --mpi=pmix kolo doctor --job
check "kolo doctor --job finds the GPU without a rank" is "$code $(grep -c '^WRONG: 1 GPU of 3 on node[12] is idle' "$log")" "0 2"
code=0
at_prompt srun --nodes=1 --ntasks-per-node=2 kolo run -np 2 "$ranks"
check "several tasks on a node are refused" grep -q 'srun has started kolo run several times on a node' "$log"

# kolo slurm writes such scripts, and knows what the cluster has.
export KOLO_SLURM=$source/slurm
code=0
at_prompt env SBATCH_PARTITION=short SBATCH_TIMELIMIT=1 SBATCH_GPUS_PER_NODE=1 kolo slurm submit --partition ml --nodes 2 --gpus-per-node 3 --cpus-per-task 2 --mem 4G --time 10 \
  --output "$work/submitted.log" --job-name 'a "job" #1' --sbatch --comment=tried "$ranks"
id=$(grep -oP 'Submitted batch job \K\d+' "$log") || id=none
await 60
log=$work/submitted.log
check "kolo slurm submit" is "$code $end $(printed "$log")" "0 COMPLETED 0 $(expected 2 3 1 0,1,2)"
check "what it was given wins over variables for sbatch" \
  is "$(slurm scontrol show job "$id" | grep -oP '(Partition|TimeLimit)=\K\S+' | sort | paste -sd' ')" "00:10:00 ml"
check "with its name" is "$(slurm scontrol show job "$id" | grep -oP 'JobName=\K.*')" 'a "job" #1'
log=$work/prompt.log
# refused WHY OPTION...
refused() {
  local why=$1
  code=0
  slurm kolo slurm submit "${@:2}" "$ranks" > "$log" 2>&1 || code=$?
  check "kolo slurm refuses ${*:2}" is "$code $(sed -n '1d;s/^  //p' "$log")" "2 $why"
}
refused "8 GPUs a node, but the nodes of partition ml have 6 at most" --gpus-per-node 8
refused "54 CPUs a node, but the nodes of partition ml have 48 at most" --cpus-per-task 9 --gpus-per-node 6
refused "--time 31, but partition short allows 30 minutes at most" --partition short --time 31
refused "--mem and --mem-per-cpu exclude each other: give the memory of a node, or of a CPU" --mem 1G --mem-per-cpu 1G
refused "there is no partition big; the cluster has ml, gpu2, short, preemptor, hidden" --partition big
refused "3 nodes, but partition ml has 2" --nodes 3
# Slurm hides nothing from root.
mkdir "$work/user" && install -m 755 "$build/bin/kolo" "$work/user/kolo" && cp -r "$source/slurm" "$work/user/slurm"
code=0
KOLO_SLURM=$work/user/slurm slurm setpriv --reuid=65534 --clear-groups "$work/user/kolo" slurm script --partition hidden true > "$log" 2>&1 || code=$?
check "kolo slurm knows a hidden partition" is "$code $(grep -c -- '--partition=hidden' "$log")" "0 1"
unset KOLO_SLURM

# A program with kolo::launch(): started by srun it is a rank, with one task on each node, too; started plainly in a batch job it
# starts a rank for each task. 240 samples, batches of 8, 3 epochs.
launched=$build/tests/bin/trainer_job
mkdir "$work/by-srun" "$work/one-each" "$work/plain"
submit "$work/by-srun.log" --nodes=2 --ntasks-per-node=2 --wrap "srun --mpi=pmix $launched $work/by-srun"
await 200
check "launch() by srun" is "$end $(grep -c '^trained: 24 steps' "$log") $(sort "$work/by-srun/made" | paste -sd,)" \
  "COMPLETED 0 1 rank 0,rank 1,rank 2,rank 3"
submit "$work/one-each.log" --nodes=2 --ntasks-per-node=1 --wrap "srun --mpi=pmix $launched $work/one-each"
await 200
check "launch() with one task on each node, without GPUs" \
  is "$end $(grep -c '^trained: 45 steps' "$log") $(sort "$work/one-each/made" | paste -sd,)" "COMPLETED 0 1 rank 0,rank 1"
submit "$work/plain.log" --nodes=2 --ntasks-per-node=2 --wrap "$launched $work/plain"
await 200
check "launch() in a batch job, without a launcher" \
  is "$end $(grep -c 'trained: 24 steps' "$log") $(sort "$work/plain/made" | paste -sd,)" "COMPLETED 0 1 rank 0,rank 1,rank 2,rank 3"

# Awaited in the end: the second rank works on after the first has ended, though srun is set up to end it soon (WaitTime).
SLURM_WAIT=2 submit "$work/long.log" --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --mem-per-cpu=100 "$source/slurm/cpu.sbatch" \
  sh -c '[ "$SLURM_PROCID" = 0 ] || { sleep 6 && echo has worked; }'
long=$id long_log=$log

# The module of an installed kolo, with both programs that load modules.
cmake --install "$build" --prefix "$work/prefix" > /dev/null
# try_module NAME HOME: HOME/init/bash is what a shell sources.
try_module() {
  rm -f "$work/module.log" "$work/no-module.log"  # jobs append to their logs
  export MODULESHOME=$2 MODULEPATH=$work/prefix/share/modulefiles
  KOLO_MODULES=kolo job "$work/module.log" --nodes=2 "$source/slurm/cpu.sbatch" sh -c 'command -v kolo'
  check "module load kolo in a batch job, $1" is "$end, $(grep -c " $work/prefix/bin/kolo$" "$log") ranks" "COMPLETED 0, 8 ranks"
  KOLO_MODULES=kool job "$work/no-module.log" --nodes=1 "$source/slurm/cpu.sbatch" true
  check "a module that is not there is told, $1" \
    is "$end, $(grep -c 'a module of KOLO_MODULES="kool" cannot be loaded' "$log")" "FAILED 0, 1"
  unset MODULESHOME MODULEPATH
}
if [[ -f /usr/share/modules/init/bash ]]; then
  try_module "Environment Modules" /usr/share/modules
else
  missing "module load kolo in a batch job" "no Environment Modules (apt-get install environment-modules)"
fi
if init=$("$source/tests/install/lmod.sh" "$work/lmod"); then
  try_module Lmod "${init%/init/bash}"
else
  missing "module load kolo in a batch job" "no Lmod (apt-get download does not give it)"
fi

# A shell on a node, as a user has it.
printf 'kolo run %q < /dev/null\nsrun --mpi=pmix %q < /dev/null\nexit 3\n' "$ranks" "$ranks" > "$work/typed"
for nodes in 1 2; do
  code=0
  slurm timeout 60 script -qec "$source/slurm/interactive.sh --nodes=$nodes --ntasks-per-node=2 --gres=none" /dev/null \
    < "$work/typed" > "$log" 2>&1 || code=$?
  check "interactive.sh: a shell in which kolo run and srun use all of $nodes nodes" \
    is "$code $(printed "$log" | tr -d '\r' | uniq -c | grep -c "2 rank . of $((2 * nodes))")" "3 $((2 * nodes))"
done
printf 'kolo run %q < /dev/null\nexit 3\n' "$ranks" > "$work/typed"
code=0
slurm timeout 60 script -qec "srun -N 1 --ntasks-per-node=6 -p ml --time=08:00:00 --pty bash" /dev/null \
  < "$work/typed" > "$log" 2>&1 || code=$?
check "srun --pty bash: kolo run starts as many ranks as there are tasks" \
  is "$code $(printed "$log" | tr -d '\r' | grep -c 'rank . of 6')" "3 6"
printf 'kolo doctor --job < /dev/null\nsrun --overlap --mpi=pmix kolo doctor --job < /dev/null\nexit 3\n' > "$work/typed"
code=0
slurm timeout 60 script -qec "srun --nodes=1 --ntasks-per-node=2 --mpi=pmix --pty bash" /dev/null \
  < "$work/typed" > "$log" 2>&1 || code=$?
check "srun --pty bash with PMIx: kolo doctor --job starts the ranks, and is one in a step" \
  is "$code $(tr -d '\r' < "$log" | grep -cE '^[01]     node[12]  [01] ')" "3 4"
code=0
slurm timeout 60 script -qec "srun --nodes=2 --ntasks-per-node=1 --pty kolo run mktemp $work/ran-XXXXXX" /dev/null \
  < /dev/null > "$log" 2>&1 || code=$?
check "srun --pty kolo run starts the ranks once" is "$code $(find "$work" -name 'ran-*' | wc -l)" "0 2"

# Only some hosts of a job; more than the job has.
job "$work/some.log" --nodes=2 --ntasks-per-node=2 --wrap "kolo run -H node2:2 $ranks; kolo run -H node3 $ranks; kolo run -np 5 $ranks"
check "-H takes some of the job's hosts" is "$(printed "$log" | grep -c 'on node2')" 2
check "but no others" grep -q "host node3 does not belong to this job of Slurm, which has node1:2,node2:2" "$log"
check "and no more ranks than tasks" grep -q "have 4: node1:2,node2:2; ask Slurm for more tasks" "$log"

id=$long log=$long_log
await 90
check "a rank may work on after another has ended" is "$end $(grep -c '1: has worked' "$log")" "COMPLETED 0 1"
finish
