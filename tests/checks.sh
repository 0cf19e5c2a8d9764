# shellcheck shell=bash
# Sourced by tests in bash. They define show_failure, which prints what helps to understand one.
passed=0 failed=0

# check WHAT CONDITION...: runs the condition and counts.
check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "ok: $what"
  else
    failed=$((failed + 1))
    echo "NOT OK: $what"
    show_failure
  fi
}

# is GOT EXPECTED
is() { [[ $1 == "$2" ]] || { printf '  got\n%s\n  expected\n%s\n' "$1" "$2"; return 1; }; }

# missing WHAT WHY: it cannot be tried here. In CI everything must be.
missing() {
  if [[ ${CI:-} == true ]]; then
    check "$1: $2" false
  else
    echo "skipped: $1: $2"
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  [[ $failed -eq 0 ]]
}
