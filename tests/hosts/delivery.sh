#!/usr/bin/env bash
# delivery.sh BUILD: loader processes on hosts of their own. The batches are those of a job without them, also when the host of
# one is lost in mid-epoch.
set -euo pipefail
build=$1
# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh" 3
show_failure() { tail -n 20 "$work/out"; }
# shellcheck source=../checks.sh
. "$here/../checks.sh"
job=$build/tests/bin/delivery_job
slow=(--load-ms 5 --epochs 20)

# on_head ARGS...: kolo run on the head.
on_head() {
  timeout 100 "$here/hosts.sh" on "$work" head "$build/bin/kolo" run --allow-run-as-root "$@" >"$work/out" 2>&1 </dev/null
}
epochs() { sed -n '/ epoch /p' "$work/out"; }

code=0
on_head -H node1:1,node2:1 -np 2 "$job" || code=$?
alone=$(epochs)
check "without loaders: two epochs" is "$code $(grep -c '960 samples, digest' <<<"$alone")" "0 2"
on_head -H node1:1,node2:1,node3:2 -np 2 --cpus 2 --units 64 --verbose "$job" || code=$?
check "2 loaders on the third host: the same batches" is "$code $(epochs)" "0 $alone"
check "they run on the third host" grep -qE "KOLO_LOADERS='?node3:[0-9]+,[^ ]* node3:" "$work/out"
check "the token is not shown" is "$(grep -c 'KOLO_LOADER_TOKEN=[.][.][.]' "$work/out")" 1

on_head -H node1:1 -np 1 "$job" "${slow[@]}" || code=$?
alone=$(epochs)
rm "$work/out"
on_head -H node1:1,node2:1,node3:1 -np 1 --cpus 2 "$job" "${slow[@]}" &
runner=$!
for ((i = 0; i < 1200; ++i)); do
  ! grep -q 'epoch 0' "$work/out" 2>/dev/null || break
  sleep 0.05
done
"$here/hosts.sh" kill "$work" node3
wait "$runner" || code=$?
check "the host of a loader is lost: the same batches" is "$code $(epochs)" "0 $alone"
check "and it is said" grep -q 'loader process 1 (node3:[0-9]*) is lost' "$work/out"
finish
