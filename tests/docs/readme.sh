#!/usr/bin/env bash
# readme.sh SOURCE MPIRUN PROGRAM: the program of README.md runs on two ranks, and rank 0 saves what it has trained.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$1/tests/mpirun.sh" "$2" 2 "$3" > out
cat out
grep -qxE 'loss 0[.][0-4][0-9]*' out  # from any weights; untrained it would be log(3), 1.1
[[ $(wc -l < out) == 1 && -s net.pt ]]
