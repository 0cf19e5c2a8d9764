#!/usr/bin/env bash
# shellcheck disable=SC2016
# Several hosts on one machine: each has a network, a name and a /dev/shm of its own; they are joined
# by a bridge in a network of its own, so that nothing leaves the machine. Needs root.
#   hosts.sh up DIR N RATE      makes head, node1 .. nodeN; each sends at most RATE (1gbit)
#   hosts.sh on DIR HOST CMD..  runs CMD there, in the present folder
#   hosts.sh agent HOST CMD..   the same with DIR from KOLO_HOSTS and the words joined, as ssh does
#   hosts.sh cut DIR HOST       a power cut: nothing runs there any more, and nobody is told;  hosts.sh mend DIR HOST
#   hosts.sh kill DIR HOST      nothing runs there any more, and the network tells who had a connection
#   hosts.sh down DIR
set -euo pipefail

number() { [[ $1 == head ]] && echo 100 || echo "${1#node}"; }
holder() { cat "$dir/$1.pid"; }
inside() { nsenter --target "$(holder "$1")" --net --uts --mount -- "${@:2}"; }
# A process that does nothing but keep namespaces.
hold() {
  setsid unshare "${@:2}" sh -c 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec sleep infinity' \
    "$dir/$1.pid" < /dev/null > /dev/null 2>&1 &
  for ((i = 0; i < 100; ++i)); do
    [[ -s $dir/$1.pid ]] && return
    sleep 0.05
  done
  echo "hosts: cannot make the namespaces of $1" >&2
  return 1
}

up() {
  local rate=$2 host hosts=(head)
  mkdir -p "$dir"
  for ((i = 1; i <= $1; ++i)); do hosts+=("node$i"); done
  echo "127.0.0.1 localhost" > "$dir/hosts"
  for host in "${hosts[@]}"; do echo "10.99.0.$(number "$host") $host" >> "$dir/hosts"; done
  hold switch --net --uts --mount
  inside switch ip link add bridge type bridge
  inside switch ip link set bridge up
  for host in "${hosts[@]}"; do
    hold "$host" --net --uts --mount
    inside switch ip link add "$host" type veth peer name eth0 netns "$(holder "$host")"
    inside switch ip link set "$host" master bridge up
    inside "$host" hostname "$host"
    inside "$host" ip link set lo up
    inside "$host" ip address add "10.99.0.$(number "$host")/24" dev eth0
    inside "$host" ip link set eth0 up
    inside "$host" mount --bind "$dir/hosts" /etc/hosts
    inside "$host" mount -t tmpfs -o size=1g shm /dev/shm
    inside "$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256k latency 50ms
  done
}

# kill_in HOLDER [SPARED]: each host's processes are those in its network.
kill_in() {
  local network process
  network=$(readlink "/proc/$1/ns/net" || true)
  [[ $network != "$(readlink /proc/self/ns/net)" ]] || return 0  # another process has the number now
  for process in /proc/[0-9]*; do
    [[ -n $network && $(readlink "$process/ns/net" 2> /dev/null) == "$network" ]] || continue
    [[ ${process#/proc/} == "${2:-}" ]] || kill -9 "${process#/proc/}" 2> /dev/null || true
  done
}

down() {
  local pid_file
  for pid_file in "$dir"/*.pid; do
    [[ -e $pid_file ]] || continue
    kill_in "$(cat "$pid_file")"
    rm -f "$pid_file"
  done
}

command=$1
if [[ $command == agent ]]; then
  dir=$KOLO_HOSTS
  host=$2
  shift 2
  exec nsenter --target "$(holder "$host")" --net --uts --mount -- sh -c "cd '$PWD' && $*"
fi
dir=$2
case $command in
  up) up "$3" "$4" ;;
  on) exec nsenter --target "$(holder "$3")" --net --uts --mount -- sh -c 'cd "$0" && exec "$@"' "$PWD" "${@:4}" ;;
  cut)
    inside "$3" ip link set eth0 down
    kill_in "$(holder "$3")" "$(holder "$3")"
    ;;
  kill) kill_in "$(holder "$3")" "$(holder "$3")" ;;
  mend) inside "$3" ip link set eth0 up ;;
  down) down ;;
  *) exit 2 ;;
esac
