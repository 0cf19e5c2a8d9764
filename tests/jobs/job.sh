# shellcheck shell=bash disable=SC2034
# Sourced by the tests of whole jobs: job.sh sets bin, source and work, and counts checks.
bin=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KOLO_SHUTDOWN_TIMEOUT_SECONDS=5
export FAULTY_JOB_MOMENT=$work/moment  # when the rank of faulty_job did what was wrong

# kolo_run ARGS...: the job's output goes to $work/out and $work/err, its exit code to $code.
kolo_run() {
  code=0
  rm -f "$FAULTY_JOB_MOMENT"
  timeout 300 "$bin/kolo" run --allow-run-as-root "$@" >"$work/out" 2>"$work/err" || code=$?
}

# ended_within SECONDS: succeeds if faulty_job, which has just ended, ended at most SECONDS after its fault. The time before
# the fault does not count, because it grows with the machine's load.
ended_within() {
  local now=$EPOCHREALTIME moment
  moment=$(cat "$FAULTY_JOB_MOMENT") || return 1
  awk "BEGIN { exit !($now - $moment <= $1) }"
}

show_failure() {
  echo "  exit code ${code:-?}"
  sed 's/^/  out: /' "$work/out" | tail -n 20
  sed 's/^/  err: /' "$work/err" | tail -n 20
  if [[ -e $work/diagnosis ]]; then sed 's/^/  diagnosis: /' "$work/diagnosis" | tail -n 20; fi
}
# shellcheck source=../checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
