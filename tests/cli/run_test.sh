#!/usr/bin/env bash
# kolo run, kolo-rank and the MPI's launcher together, with small programs.
#   run_test.sh BIN CLI_MPI_END     the folder with kolo and kolo-rank; the program of mpi_end.cpp
set -u
bin=$(cd "$1" && pwd) || exit 2
mpi_end=$(realpath "$2") || exit 2
work=$(mktemp -d) || exit 2
cd "$work" || exit 2

unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS MKL_NUM_THREADS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0
# A number that only this test's processes carry on their command lines.
mark=$((RANDOM % 9000 + 1000)).$$
kill_left() { pgrep -f "$mark" | xargs -r kill -KILL 2> /dev/null; }
trap 'kill_left; rm -rf "$work"' EXIT

# Fills $out, $err, $code and $took (whole seconds). A hanging command fails its test.
kolo() {
  local start=$SECONDS
  timeout -k 5 60 "$bin/kolo" "$@" > out.txt 2> err.txt < "${input:-/dev/null}"
  code=$?
  took=$((SECONDS - start))
  out=$(tr -d '\0' < out.txt) err=$(tr -d '\0' < err.txt)
}

check() {  # check WHAT COMMAND... : the command must succeed
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'NOT OK: %s\n  exit code %s after %s s\n' "$what" "${code-}" "${took-}"
    printf '  output: %s\n' "${out-}" | cut -c 1-200 | head -n 20
    printf '  errors: %s\n' "${err-}" | cut -c 1-200 | head -n 20
  fi
}
is() { [ "$1" = "$2" ] || { printf '  got "%s", expected "%s"\n' "$1" "$2"; false; }; }
has() { case $1 in *"$2"*) ;; *) printf '  "%s" is missing\n' "$2"; false ;; esac; }
lacks() { case $1 in *"$2"*) printf '  "%s" is there\n' "$2"; false ;; esac; }
last_line_is() { is "$(printf '%s\n' "$err" | tail -n 1)" "$1"; }
nothing_left() {
  local left
  for _ in $(seq 75); do
    left=$(pgrep -f "$mark")
    [ -z "$left" ] && return 0
    sleep 0.2
  done
  ps -o pid,ppid,args -p "$(echo "$left" | paste -sd,)"
  kill_left
  return 1
}
host=$(hostname)
root_only() { [ "$(id -u)" = 0 ]; }

# What every rank finds.
kolo run -np 3 --bind-to none sh -c \
  'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR"; echo "port $MASTER_PORT"'
check "a success has exit code 0" is "$code" 0
check "every rank is told who it is" is "$(grep / out.txt | sort)" \
  "[0] 0/3 0/3 127.0.0.1
[1] 1/3 1/3 127.0.0.1
[2] 2/3 2/3 127.0.0.1"
check "all ranks have one port" is "$(grep -o 'port [0-9][0-9]*' out.txt | sort -u | wc -l)" 1
check "nothing else is said" is "$err" ""
kolo run -np 2 --threads-per-rank 3 sh -c 'echo "$OMP_NUM_THREADS $MKL_NUM_THREADS"'
check "threads are set" is "$(sort out.txt)" "[0] 3 3
[1] 3 3"
OMP_NUM_THREADS=5 kolo run -np 1 sh -c 'echo "$OMP_NUM_THREADS"'
check "threads set by the user stay" is "$out" "[0] 5"
MASTER_ADDR=elsewhere MASTER_PORT=1234 kolo run -np 1 sh -c 'echo "$MASTER_ADDR:$MASTER_PORT"'
check "a rendezvous set by the user stays" is "$out" "[0] elsewhere:1234"
kolo run -np 2 -x "GREETING=a b;c" sh -c 'echo "$GREETING"'
check "-x hands a variable on" is "$(sort out.txt)" "[0] a b;c
[1] a b;c"
kolo run -n 1 echo -np 7 --verbose -x
check "options after the program are the program's" is "$out" "[0] -np 7 --verbose -x"
printf 'first\nsecond\n' > input.txt
input=input.txt kolo run -np 2 sh -c 'read -r line; echo "$line"'
check "standard input goes to rank 0" is "$(sort out.txt)" "[0] first
[1] "

# Output.
kolo run -np 2 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
check "output keeps its stream" is "$(sort out.txt)/$(sort err.txt)" "[0] out 0
[1] out 1/[0] err 0
[1] err 1"
kolo run -np 1 --no-prefix printf 'a\nb'
check "--no-prefix leaves the bytes alone" is "$(od -c < out.txt | head -n 1)" "$(printf 'a\nb' | od -c | head -n 1)"
kolo run -np 1 --timestamp echo hi
check "--timestamp" grep -Eq '^\[0\] [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{3} hi$' out.txt
kolo run -np 1 printf '10%%\r20%%\rend'
check "a carriage return ends a line, and the last one needs no end" \
  is "$(od -c < out.txt)" "$(printf '[0] 10%%\r[0] 20%%\r[0] end\n' | od -c)"
if python3 -c 'import os; os.openpty()' 2> /dev/null; then
  kolo run -np 1 sh -c '[ -t 1 ] && echo terminal'
  check "programs write line by line, as on a terminal" is "$out" "[0] terminal"
  # on_narrow.py COMMAND...: on a terminal of 20 columns; prints what the terminal gets.
  cat > on_narrow.py <<'END'
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, 20, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:  # how a terminal ends
        break
    sys.stdout.buffer.write(part)
os.waitpid(child, 0)
END
  timeout 60 python3 on_narrow.py "$bin/kolo" run -np 1 sh -c \
    'printf "epoch 1, step 2, 3 images/s\033[K\r" >&2; echo hello >&2; printf "epoch 2, step 2, 3 images/s\033[K\r" >&2' > narrow.txt
  check "a progress line is cut to the terminal, and erased before other lines and at the end" is "$(od -c < narrow.txt)" \
    "$(printf '[0] epoch 1, step 2\033[K\r\033[K[0] hello\r\n[0] epoch 2, step 2\033[K\r\033[K' | od -c)"
else
  echo "skipped: programs write line by line, as on a terminal (this system gives no pseudo-terminals)"
fi
# Long and short lines in bursts, on both streams: longer than what launchers read at once.
cat > lines.sh <<'END'
long=$(printf '%05000d' 0 | tr 0 "$RANK")
for i in $(seq 100); do printf '<%s>\n<%s>\n' "$long" "$RANK"; done > "lines.$RANK"
for i in 1 2 3; do cat "lines.$RANK" >&2 & cat "lines.$RANK"; wait; done
END
kolo run -np 4 sh lines.sh
cat out.txt err.txt > both.txt
check "all lines arrive" is "$(wc -l < both.txt)" 4800
check "no two ranks' lines mix" is "$(grep -Ecv '^\[0\] <0+>$|^\[1\] <1+>$|^\[2\] <2+>$|^\[3\] <3+>$' both.txt)" 0
kolo run -np 1 --no-prefix head -c 3000000 /dev/zero
check "a line of 3 MB arrives whole" is "$(wc -c < out.txt)" 3000000

# Standard streams that are closed, or cannot be written.
timeout -k 5 30 "$bin/kolo" run -np 2 sh -c 'echo out; echo "err $RANK" >&2' >&- 2> err.txt
check "a job runs whose standard output is closed" is "$? $(sort err.txt)" "0 [0] err 0
[1] err 1"
timeout -k 5 30 "$bin/kolo" run -np 2 sh -c 'read -r line; echo out; echo err >&2; : > "ran.$RANK"; exit 3' <&- >&- 2>&-
check "and one that has no standard streams, with its exit code" is "$? $(echo ran.*)" "3 ran.0 ran.1"
timeout -k 5 30 "$bin/kolo" run -np 2 echo out > /dev/full 2> err.txt
code=$? err=$(cat err.txt)
check "output that is lost is an error" is "$code" 74
check "which says why at once" has "$err" "kolo run: cannot write to standard output: No space left on device; the job goes on"
check "and at the end" last_line_is \
  "kolo run: some of the output is lost, because it could not be written to standard output: No space left on device"
timeout -k 5 30 "$bin/kolo" run -np 1 sh -c 'echo out; exit 3' > /dev/full 2> err.txt
check "a failed job keeps its exit code" is "$?" 3
timeout -k 5 30 "$bin/kolo" run -np 1 sh -c 'echo err >&2' 2> /dev/full
check "lost errors are an error, too" is "$?" 74
timeout -k 5 30 "$bin/kolo" run -np 1 true > /dev/full
check "nothing is lost where nothing is printed" is "$?" 0
mkdir -p lost/rank-0.log
kolo run -np 1 --output-dir lost echo out
check "so is what is missing in the files of --output-dir" is "$code" 74
for words in --version "run --help" "run --dry-run -np 1 true" "help config" "help man run" "checkpoint --help" \
  "data --help" "trace --help" "bench --help"; do
  # shellcheck disable=SC2086  # words are words
  timeout -k 5 30 "$bin/kolo" $words > /dev/full 2> err.txt
  check "'kolo $words' finds that its output is lost" is \
    "$? $(grep -c 'cannot write to standard output' err.txt)" "74 1"
  # shellcheck disable=SC2086
  timeout -k 5 30 "$bin/kolo" $words >&- 2> err.txt
  check "'kolo $words' may have a closed output" is "$? $(cat err.txt)" "0 "
done
timeout -k 5 30 "$bin/kolo" run -np 1 sh -c 'seq 100000; exit 4' 2> err.txt | head -n 1 > out.txt
check "a job whose reader goes away goes on" is "${PIPESTATUS[0]} $(cat out.txt)" "4 [0] 1"

# Failures.
kolo run -np 3 sh -c "if [ \$RANK = 1 ]; then exit 3; fi; sleep 30; : $mark"
check "a rank's exit code is passed on" is "$code" 3
check "the failed rank is named last" last_line_is \
  "kolo run: rank 1 on host $host exited with code 3; the job was ended"
check "the failed program is named" has "$err" "[1] kolo: sh (pid "
check "the launcher's banners are left out" lacks "$err" "-----"
check "the others are ended" nothing_left
check "at once" [ "$took" -lt 25 ]
kolo run -np 3 sh -c "if [ \$RANK = 2 ]; then sleep 0.3; kill -9 \$\$; fi; sleep 30; : $mark"
check "a signal gives 128 + its number" is "$code" 137
check "a signal is named" last_line_is \
  "kolo run: rank 2 on host $host was killed by signal 9 (SIGKILL); the job was ended"
check "ranks that sleep are ended" nothing_left
kolo run -np 3 sh -c 'trap "exit 9" TERM; if [ $RANK = 1 ]; then sleep 0.3; exit 5; fi; sleep 30 & wait'
check "ranks that were told to end are not blamed" last_line_is \
  "kolo run: rank 1 on host $host exited with code 5; the job was ended"
check "nor is their exit code taken" is "$code" 5
cat > after.sh <<'END'
# after.sh FIRST CODE COMMAND: rank FIRST exits with CODE, and the other rank then runs COMMAND.
if [ "$RANK" = "$1" ]; then
  echo $$ > pid.new && mv pid.new pid
  while [ ! -e ready ]; do sleep 0.01; done
  exit "$2"
fi
while [ ! -e pid ]; do sleep 0.01; done
touch ready
while kill -0 "$(cat pid)"; do sleep 0.01; done 2> /dev/null
sleep 0.1
eval "$3"
END
kolo run -np 2 sh after.sh 1 5 'sleep 0.3; exit 4'
check "the first of two failures is blamed" last_line_is \
  "kolo run: rank 1 on host $host exited with code 5; the job was ended"
rm -f pid ready
kolo run -np 2 sh after.sh 0 4 'echo said'
check "the others of a failed rank have time to say what they know" is "$out $code" "[1] said 4"
kolo run -np 2 "$mpi_end" abort
check "MPI_Abort is named" last_line_is \
  "kolo run: rank 1 on host $host called MPI_Abort with code 7; the job was ended"
check "and its code passed on" is "$code" 7
kolo run -np 2 "$mpi_end" early
check "a rank that leaves without MPI_Finalize is named" last_line_is \
  "kolo run: rank 1 on host $host ended without MPI_Finalize; the job was ended"
check "and is a failure" is "$code" 1
kolo run -np 2 --timeout 1 sh -c "sleep 30; : $mark"
check "--timeout ends the job with 124" is "$code" 124
check "and says so" last_line_is "kolo run: the time limit of --timeout has passed; the job was ended"
check "with nothing left" nothing_left

# Signals to kolo run.
stop() {  # stop SIGNAL PROGRAM [PREFIX...]: when both ranks have said "up", or kolo run has said $await
  : > out.txt
  : > err.txt  # what the last test left there must not be taken for this one's
  # shellcheck disable=SC2086
  timeout -k 5 60 "${@:3}" "$bin/kolo" run -np 2 ${options-} sh -c "$2" > out.txt 2> err.txt < /dev/null &
  local runner=$! start
  for _ in $(seq 300); do
    if [ "${await-}" ]; then grep -q "$await" err.txt && break; else [ "$(grep -c up out.txt)" = 2 ] && break; fi
    sleep 0.1
  done
  start=$SECONDS
  kill "-$1" "$(pgrep -P $runner)"
  wait $runner 2> /dev/null
  code=$? took=$((SECONDS - start)) out=$(cat out.txt) err=$(cat err.txt)
}
stop TERM "echo up; sleep 30; : $mark"
check "SIGTERM gives 143" is "$code" 143
check "SIGTERM is named" last_line_is "kolo run: received SIGTERM; the job was ended"
check "SIGTERM leaves nothing behind" nothing_left
stop INT "echo up; sleep 30 & sleep 30; : $mark"
check "SIGINT gives 130" is "$code" 130
check "SIGINT leaves nothing behind" nothing_left
stop TERM "trap '' TERM INT HUP; echo up; while :; do sleep 1; done; : $mark"
check "a program that ignores SIGTERM is killed" nothing_left
check "after eight seconds" [ "$took" -le 25 ]
stop KILL "echo up; sleep 30; : $mark"
check "a killed kolo run leaves nothing behind" nothing_left
stop USR1 "trap 'echo got it; exit 0' USR1; echo up; while :; do sleep 0.1; done; : $mark"
check "SIGUSR1 reaches the ranks" is "$code $(grep -c 'got it' out.txt)" "0 2"

stop HUP "echo up; sleep 1; echo survived" env --ignore-signal=HUP
check "nohup is obeyed" is "$code $(grep -c survived out.txt)" "0 2"

# Ctrl-Z, and fg. kolo run is in a process group of its own, as under a shell.
states() { ps -o state= -p "$1" | tr -d ' \n'; }
await() {  # await SECONDS COMMAND...
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}
counting() { [ -s count.0 ] && [ -s count.1 ] && [ "$(grep -c 'pid ' out.txt)" = 2 ]; }
in_state() { [ "$(states "$job_pid")$(states "$programs")" = "$1" ]; }
counts() { cat count.0 count.1; }
rm -f count.*
timeout -k 5 60 "$bin/kolo" run -np 2 sh -c "echo pid \$\$
  while :; do i=\$((i + 1)); echo \$i > new.\$RANK; mv new.\$RANK count.\$RANK; sleep 0.1; done; : $mark" \
  > out.txt 2> err.txt < /dev/null &
runner=$!
await 20 counting
job_pid=$(pgrep -P $runner)
programs=$(grep -o 'pid [0-9]*' out.txt | cut -d ' ' -f 2 | paste -sd,)
kill -TSTP "$job_pid"
check "Ctrl-Z stops kolo run and the programs" await 20 in_state TTT
sleep 0.5  # what the programs' children had begun has ended, or is stopped, too
before=$(counts)
sleep 0.5
check "which do nothing then" is "$(counts)" "$before"
kill -CONT "$job_pid"
goes_on() { [ "$(counts)" != "$before" ]; }
check "and go on with it" await 20 goes_on
kill -TSTP "$job_pid"
await 20 in_state TTT
kill -TERM "$job_pid"
kill -CONT "$job_pid"
wait $runner 2> /dev/null
check "a job that is stopped can be ended" is "$?" 143
check "with nothing left" nothing_left

# kolo-rank alone, as on another host, where kolo run cannot clean up.
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1
"$bin/kolo-rank" --master a:1 -- sleep "$mark" 2> /dev/null &
rank=$!
sleeps() { pgrep -f "^sleep $mark" > /dev/null; }
await 20 sleeps
kill -KILL $rank
wait $rank 2> /dev/null
check "a killed kolo-rank takes its program along" nothing_left
sh -c '"$@" 2> /dev/null & wait' sh "$bin/kolo-rank" --master a:1 -- sh -c "sleep $mark; :" 2> /dev/null &
launcher=$!
await 20 sleeps
kill -KILL $launcher
wait $launcher 2> /dev/null
check "a kolo-rank whose launcher dies ends its program and its children" nothing_left
"$bin/kolo-rank" --master a:1 -- sh -c 'trap "" TERM; sleep '"$mark"'; :' 2> /dev/null &
rank=$!
await 20 sleeps
kill -TERM $rank
wait $rank 2> /dev/null
check "kolo-rank kills a program that ignores SIGTERM, and its children" nothing_left
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
"$bin/kolo-rank" --master a:1 -- true > out.txt 2>&1
check "kolo-rank wants a launcher" is "$?" 125

# What cannot be.
kolo run -np 2 no-such-program
check "a missing program is named" has "$err" "cannot start 'no-such-program': No such file"
check "and gives 127" is "$code" 127
echo 'echo hi' > script.sh
kolo run -np 2 ./script.sh
check "a program that is not executable is named" has "$err" "cannot start './script.sh': Permission denied"
check "and gives 126" is "$code" 126
chmod +x script.sh
kolo run -np 2 script.sh
check "a program in this folder is pointed out" has "$err" "write ./script.sh"
for words in "run" "run -np 0 true" "run -np x true" "run --frobnicate true" "run true" "run -np 2" \
  "run -np 3 -H a:1,b:1 true" "run -H a:x true" "run --hostfile none.txt true" "frobnicate" \
  "--frobnicate" "run -x NOT_SET_ANYWHERE -np 1 true" "run -np 1 --mpirun /none/mpirun true" \
  "run -np 1 --config-file none.ini true" "run -np 1 --timeout -3 true" "bench" "bench --np" \
  "doctor --timeout 0" "doctor --timeout nan" "doctor --timeout 1e9" "doctor x" \
  "doctor --frobnicate" "help frobnicate" "run -np 1 --bind-to bogus true" "run -H [::1]:2 true" \
  "run -H me@here:2 true" "run -H w.1.x,w.2.x true" "run -H localhost,127.0.0.1 true" ""; do
  # shellcheck disable=SC2086  # words are words
  kolo $words
  check "'kolo $words' is refused with 2" is "$code" 2
  [ -z "$words" ] || check "'kolo $words' says why" has "$err" "kolo: "
done
kolo run -np 3 -H node1:1,node2:1 true
check "too few slots are named with their hosts" has "$err" "node1:1,node2:1"
if root_only; then
  OMPI_ALLOW_RUN_AS_ROOT='' kolo run -np 1 true
  check "root is refused" is "$code" 2
  check "root is told how" has "$err" "--allow-run-as-root"
  OMPI_ALLOW_RUN_AS_ROOT='' kolo run -np 1 --allow-run-as-root true
  check "root may run when told" is "$code" 0
fi

# Options.
kolo run -np 2 --dry-run -x "A=b c" true
check "--dry-run prints the command" has "$out" "kolo-rank --threads 0"
check "--dry-run quotes" has "$out" "A='b c' "
bash -c "$(cat out.txt)" > dry.txt 2>&1
check "and that command runs" is "$?" 0
printf 'np = 3\nno-prefix = true\n' > job.ini
kolo run --config-file job.ini echo x
check "--config-file" is "$out" "x
x
x"
kolo run -n 2 --config-file job.ini echo x
check "the command line wins" is "$out" "x
x"
printf '# this host\nlocalhost slots=3\n' > hosts.txt
kolo run --hostfile hosts.txt echo x
check "--hostfile gives the number of ranks" is "$(wc -l < out.txt) $code" "3 0"
kolo run --gpus 3 sh -c 'echo "$RANK of $WORLD_SIZE"'
check "--gpus starts a rank for each" is "$(sort out.txt)" "[0] 0 of 3
[1] 1 of 3
[2] 2 of 3"
kolo run --gpus 16 echo x
check "--gpus tells how many hosts are lacking" has "$err" "lacks 1 host of 8 GPUs: this host alone gives 8"
check "with the exit code of a wrong option" is "$code" 2
kolo run -np 2 --tag-output sh -c 'echo a; echo b >&2'
check "--tag-output tells rank, host and stream" is "$(sort out.txt err.txt)" "[0 $host stderr] b
[0 $host stdout] a
[1 $host stderr] b
[1 $host stdout] a"
kolo run -np 2 --output-dir logs sh -c 'echo "I am $RANK"; printf end >&2'
check "--output-dir writes a file for each rank" is "$(sort logs/rank-0.log) $(sort logs/rank-1.log)" "I am 0
end I am 1
end"
check "and shows the output, too" is "$(sort out.txt)" "[0] I am 0
[1] I am 1"
kolo run -np 2 --output-dir /dev/null echo x
check "--output-dir must be a folder" is "$code" 2

# Restarts.
kolo run -np 1 --max-restarts 3 sh -c 'echo "$KOLO_RESTART_COUNT"; [ "$KOLO_RESTART_COUNT" = 2 ] || exit 7'
check "--max-restarts starts again until it works" is "$code $out" "0 [0] 0
[0] 1
[0] 2"
check "and says so" is "$(grep -c 'starts the job again' err.txt)" 2
kolo run -np 2 --max-restarts 1 sh -c 'exit 7'
check "--max-restarts ends in the end" is "$code $(grep -c 'starts the job again' err.txt)" "7 1"
kolo run -np 2 --max-restarts 5 --timeout 1 sh -c "sleep 30; : $mark"
check "what was ended is not started again" is "$code $(grep -c 'starts the job again' err.txt)" "124 0"
kolo run -np 2 --max-restarts 5 sh -c 'exit 75'
check "nor what asks its starter for that" is "$code $(grep -c 'starts the job again' err.txt)" "75 0"
kolo run -np 2 --max-restarts 5 ./nothing
check "nor what cannot be started" is "$code $(grep -c 'starts the job again' err.txt)" "127 0"
options="--max-restarts 5"
stop USR1 "echo up; sleep 30; : $mark"
check "nor what SIGUSR1 has ended" is "$code $(grep -c 'starts the job again' err.txt)" "138 0"
await="the job was ended"
for _ in $(seq 8); do  # it has a second, which may be too little for this test
  stop USR1 'echo up; [ "$KOLO_RESTART_COUNT" = 0 ] || sleep 30; exit 7'
  [ "$code" = 138 ] || break
done
check "nor where it comes between two starts" is "$code $(grep -c 'starts the job again' err.txt)" "7 0"
unset options await

# Open MPI 5 names a folder by its process id, and would not start where a dead one has left such a folder.
mkdir full
most=$(cat /proc/sys/kernel/pid_max) next=$(cat /proc/sys/kernel/ns_last_pid)
for ((i = 0; i < 20000 && i < most; ++i)); do echo "full/ompi.$(((next + i) % most))"; done | xargs mkdir
for i in full/*; do : > "$i/pmix.$host.tool"; done
TMPDIR=$PWD/full kolo run -np 2 echo x
check "what dead launchers left is in nobody's way" is "$code $(wc -l < out.txt)" "0 2"
check "and a job leaves nothing" is "$(find full -maxdepth 1 -name 'kolo*' | wc -l)" 0
rm -rf full
# What is left by a kolo run that was killed is removed by the next one.
mkdir leftovers
sessions() { find leftovers -maxdepth 1 -name 'kolo-run-*' | wc -l; }
export TMPDIR=$PWD/leftovers
stop KILL "echo up; sleep 30; : $mark"
check "a killed kolo run leaves its folder" is "$(sessions)" 1
nothing_left
flights=leftovers/kolo-flight-$(id -u)
mkdir -p "$flights/1" "$flights/2"
sleep 0 & wait $!
for record in 1/flight-rank-0.json 2/flight-rank-0.json; do
  echo "{\"kolo_flight\":1,\"rank\":0,\"size\":1,\"host\":\"$host\",\"process\":$!,\"job\":1}" > "$flights/$record"
done
touch -d '9 days ago' "$flights/1/flight-rank-0.json"
kolo run -np 2 echo x
check "the next one removes it" is "$code $(sessions)" "0 0"
check "and flight records that are old" is "$(find "$flights" -type f)" "$flights/2/flight-rank-0.json"
unset TMPDIR
kolo run -H "$host:2" echo x
check "--host gives the number of ranks" is "$(wc -l < out.txt) $code" "2 0"
kolo run -np 5 --verbose echo x
check "more ranks than cores run" is "$(wc -l < out.txt) $code" "5 0"
check "--verbose shows the command" has "$err" "kolo-rank"
"$bin/kolorun" -np 1 echo x > out.txt 2>&1
check "kolorun is kolo run" is "$? $(cat out.txt)" "0 [0] x"
kolo --version
check "--version" grep -Eq '^kolo [0-9]+\.[0-9]+' out.txt
kolo help config
check "help config lists settings" has "$out" "KOLO_FUSION_THRESHOLD = "
kolo help config --markdown
check "and as a page" has "$out" "| \`KOLO_FUSION_THRESHOLD\`"
kolo help horovod
check "help horovod maps Horovod's names" has "$out" "HOROVOD_FUSION_THRESHOLD
    kolo: KOLO_FUSION_THRESHOLD"
for topic in run doctor slurm bench checkpoint data trace dump; do
  kolo "$topic" --help
  asked=$out
  check "kolo $topic --help" has "$asked" "Usage: kolo $topic"
  kolo help "$topic"
  check "kolo help $topic says the same" is "$out" "$asked"
  kolo help man "$topic"
  check "and there is a man page" has "$out" ".TH KOLO"
  check "with exit codes" has "$out" ".SH EXIT STATUS"
  check "and examples" has "$out" ".SH EXAMPLES"
done
kolo help completion
completed() { # completed WORD..: what bash offers for the last one
  printf '%s\n' "$out" > completion.bash
  bash -c '. ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kolo; echo ${COMPREPLY[*]}' bash "$@"
}
check "completion of commands" is "$(completed kolo d)" "doctor data dump"
check "of options" is "$(completed kolo run --time)" "--timeline --timeout --timestamp"
check "of kolorun's" is "$(completed kolorun --time)" "--timeline --timeout --timestamp"
check "of words" is "$(completed kolo trace m)" "merge"
check "of files" is "$(completed kolo run ./completion)" "./completion.bash"
check "of nothing" is "$(completed kolo run --nonsense)" ""
check "of a value" is "$(completed kolo run -np 2 --bind-to '')" "core socket numa none"
check "of a value's begin" is "$(completed kolo run --bind-to = so)" "socket"
check "of a value behind =" is "$(completed kolo run --bind-to =)" "core socket numa none"
check "of a file" is "$(completed kolo run --hostfile ./completion)" "./completion.bash"
check "of a number: nothing" is "$(completed kolo run -np '')" ""
check "of a program's words: files alone" is "$(completed kolo run -np 2 prog ./completion)" "./completion.bash"
check "and no options of kolo's" is "$(completed kolo run -np 2 prog --time)" ""
check "nor behind --" is "$(completed kolo run -np 2 -- --time)" ""
check "of a batch script's options" is "$(completed kolo slurm script --gpus)" "--gpus-per-node"
check "of the doctor's options" is "$(completed kolo doctor --j)" "--job --json"
check "of benchmarks" is "$(completed kolo bench al)" "allocate allreduce"
check "of a benchmark's options" is "$(completed kolo bench allreduce --ho)" "--host --hostfile"
check "of a timeline's folder" is "$(completed kolo trace report ./completion)" "./completion.bash"
kolo --help
check "help names the report" has "$out" "report where the time goes"
kolo bench --help
benchmarks() { grep -oE '^  [a-z]+  ' | sort | tr -d ' \n'; }
listed=$(benchmarks <<< "$out")
check "bench lists its benchmarks" has "$listed" "gradients"
if [ -x "$bin/kolo-bench" ]; then
  check "all that kolo-bench has" is "$listed" "$("$bin/kolo-bench" --help | benchmarks)"
fi

# Launchers that misbehave.
launcher() { printf '#!/bin/sh\ncase $1 in --version) echo "mpirun (Open MPI) 5.0.0"; exit 0 ;; esac\n%s\n' "$1" > mpirun; chmod +x mpirun; }
launcher 'echo "lost communication with node9" >&2; exit 205'
KOLO_MPIRUN=./mpirun kolo run -np 1 true
check "what only the launcher knows is passed on" has "$err" "lost communication with node9"
check "with its exit code" has "$err" "exit code 205 before any rank started"
check "which is not a rank's" is "$code" 209
launcher "sleep $mark > /dev/null 2>&1 & exit 3"
kolo run --mpirun ./mpirun -np 1 true
check "what a failed launcher leaves is ended" nothing_left
launcher "trap '' TERM INT; while :; do sleep 1; done; : $mark"
kolo run --mpirun ./mpirun -np 1 --timeout 0.5 true
check "a launcher that does not end is killed after eight seconds" is "$code" 124
check "not before" [ "$took" -ge 7 ]
check "with all it started" nothing_left
kolo doctor --mpirun ./mpirun --timeout 1
check "the doctor waits for no launcher" has "$out" "did not end within 1 s"
check "and finds that wrong" is "$code" 1
check "leaving nothing behind" nothing_left
launcher 'kill -SEGV $$'
kolo doctor --mpirun ./mpirun
check "the doctor survives a crash" has "$out" "exit code 139"
kolo doctor --mpirun /none/mpirun
check "the doctor misses a launcher" has "$out" "WRONG: mpirun not found"
kolo doctor --json report.json
check "the doctor finds MPI's thread level" has "$out" "MULTIPLE"
check "the doctor writes JSON" grep -q '"findings"' report.json
# What keeps all of its trials from running is named once, as what it is.
libmpi=$(ldd "$bin/kolo-doctor" | grep -o 'libmpi[^ ]*' | head -n 1)
mkdir broken && echo nonsense > "broken/$libmpi"
LD_LIBRARY_PATH=$work/broken kolo doctor
check "the doctor names a broken library of MPI" has "$out" "WRONG: kolo's programs cannot be loaded: $work/broken/$libmpi: "
check "and where it comes from" has "$out" "remove $work/broken from LD_LIBRARY_PATH"
check "and blames neither LibTorch nor CUDA" is "$(grep -cE 'LibTorch could not|CUDA driver' out.txt)" 0
OMP_NUM_THREADS=two KOLO_FUSION_TRESHOLD=0 TMPDIR=$work/none kolo doctor --mpirun ./mpirun
check "the doctor sees threads that are no number" has "$out" "WRONG: OMP_NUM_THREADS='two' is not a number"
check "and a misspelt variable" has "$out" "is KOLO_FUSION_THRESHOLD meant?"
check "and a folder that does not exist" has "$out" "$work/none, cannot be used: No such file"
OMP_NUM_THREADS=two kolo run -np 1 true
check "kolo run refuses threads that are no number" is "$code $(grep -c "OMP_NUM_THREADS='two'" err.txt)" "2 1"
OMP_NUM_THREADS='' kolo run -np 1 --threads-per-rank 3 sh -c 'echo "$OMP_NUM_THREADS"'
check "an empty number of threads counts as unset" is "$out" "[0] 3"
mkdir full
if unshare -m mount -t tmpfs none full 2> /dev/null; then
  unshare -m sh -c 'mount -t tmpfs -o size=64k none full && ! head -c 1000000 /dev/zero 2> /dev/null > full/file &&
    TMPDIR=$PWD/full exec "$@"' sh "$bin/kolo" run -np 2 echo hi > out.txt 2> err.txt < /dev/null
  check "a job starts where TMPDIR is full" is "$? $(sort out.txt)" "0 [0] hi
[1] hi"
else
  echo "skipped: a full TMPDIR (no mount namespaces here)"
fi
rm report.json
kolo run -np 3 --no-prefix --timeout 50 "$bin/kolo" doctor --job --json report.json
check "the doctor of a job has a row for each rank" is "$code $(printf '%s\n' "$out" | grep -cE "^[012] +$(hostname) +[012] +[0-9]+ cores?: ")" "0 3"
check "and writes JSON" grep -q '"rank 2"' report.json
kolo run -np 2 "$bin/kolo" doctor --job --json /none/report.json
check "it says when that cannot be written" is "$code $(grep -c "cannot write '/none/report.json'" err.txt)" "1 1"
kolo run -np 2 sh -c "[ \$RANK = 1 ] && sleep 50; exec $bin/kolo doctor --job --timeout 3"
check "and says where it waits in vain" has "$err" "is not done after 3 s, but still in MPI_Init_thread"
check "not for long" [ "$took" -le 30 ]
launcher "exec sleep 30"
LSB_HOSTS=$host kolo doctor --job --mpirun ./mpirun --timeout 0.5
check "in a batch job it takes the launcher that it is given, and does not wait for ever" is "$code $((took <= 15))" "124 1"
kolo doctor --job
check "it wants a job" is "$code $(grep -c 'kolo run -np N kolo doctor --job' err.txt)" "2 1"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
