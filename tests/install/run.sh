#!/usr/bin/env bash
# run.sh BUILD SOURCE CMAKE MPIRUN: installs BUILD into an empty prefix, moves the prefix, builds the
# outside project against it, and runs it and the installed kolo.
set -euo pipefail
build=$1 source=$2 cmake=$3 mpirun=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
"$cmake" -S "$source/tests/install" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }
"$source/tests/mpirun.sh" "$mpirun" 2 "$work/build/outside" | tee "$work/out"
grep -qx '2 ranks, right' "$work/out"
"$work/prefix/bin/kolo" --version
"$work/prefix/bin/kolorun" --allow-run-as-root -np 2 "$work/build/outside" | grep -q '2 ranks, right'
