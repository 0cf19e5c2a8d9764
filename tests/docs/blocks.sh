#!/usr/bin/env bash
# blocks.sh SOURCE MPIRUN PROGRAM: the code of the pages runs on two ranks.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$1/tests/mpirun.sh" "$2" 2 "$3"
