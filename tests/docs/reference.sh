#!/usr/bin/env bash
# reference.sh SOURCE: doxygen has nothing to say of the public headers: all is documented.
set -euo pipefail
cd "$1"
command -v doxygen > /dev/null || { echo "SKIPPED: there is no doxygen"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $work") | doxygen - 2>&1 | tee "$work/said"
[[ ! -s $work/said && -e $work/html/index.html ]]
