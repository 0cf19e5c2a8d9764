# shellcheck shell=bash
# Sourced by the tests of jobs on a GPU. on_gpu RANKS PROGRAM... runs them on the fake GPU if the test has a FAKE_LIBRARY
# as its third argument, else on the machine's, which all ranks share.
fake=${3:-}
on_gpu() {
  local ranks=$1 where=()
  shift
  if [[ -n $fake ]]; then
    where=(-x "LD_PRELOAD=$fake")
  else
    export KOLO_SHARE_DEVICE=1 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MAX_CTAS=4
  fi
  kolo_run -np "$ranks" --no-prefix "${where[@]}" "$@"
}
