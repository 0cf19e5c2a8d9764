#!/usr/bin/env bash
# The metrics of a whole job, as Prometheus asks for them.
set -euo pipefail
# shellcheck source=job.sh
. "$(dirname "$0")/job.sh"
job=$bin/../tests/bin/faulty_job
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
get() { # PATH: the answer's body, or what is wrong
  python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode(), end="")' "http://127.0.0.1:$port$1" 2>&1
}

# Rank 1 sleeps for 20 s amid its steps; it has made two of them then.
timeout 100 "$bin/kolo" run --allow-run-as-root -np 2 --metrics-port "$port" "$job" sleep 1 20 >"$work/out" 2>"$work/err" &
launcher=$!
for _ in $(seq 100); do
  get /metrics >"$work/metrics" || true
  grep -q '^kolo_operations_total{rank="1",operation="allreduce"} 7$' "$work/metrics" && break
  sleep 0.05
done
check "rank 1 tells what it has done" grep -q '^kolo_operations_total{rank="1",operation="allreduce"} 7$' "$work/metrics"
check "and in which step it is" grep -q '^kolo_step{rank="1"} 3$' "$work/metrics"
check "rank 0 likewise" grep -qE '^kolo_bytes_total\{rank="0",operation="allreduce"\} 1216000$' "$work/metrics"
check "other pages are refused" grep -q "404" <(get /)
python=$source/.deps/venv/bin/python
if "$python" -c 'import prometheus_client' 2>/dev/null; then
  "$python" - "$work/metrics" >"$work/parsed" 2>"$work/err2" <<'PY' && code=0 || code=$?
import sys
from prometheus_client.parser import text_string_to_metric_families
families = {f.name: f for f in text_string_to_metric_families(open(sys.argv[1]).read())}
assert families["kolo_operations"].type == "counter", families.keys()
wait = families["kolo_wait_seconds"]
assert wait.type == "histogram"
counts = [s.value for s in wait.samples if s.name.endswith("_bucket") and s.labels["rank"] == "1"]
assert counts == sorted(counts) and len(counts) == 15, counts
total = [s.value for s in wait.samples if s.name.endswith("_count") and s.labels["rank"] == "1"]
assert total == [counts[-1]], (total, counts)
print(len(families))
PY
  check "Prometheus' own parser reads it" test "$code" -eq 0
else
  echo "SKIPPED: Prometheus' own parser (scripts/setup installs prometheus-client)"
fi
wait $launcher && code=0 || code=$?
check "the job ends well" test "$code" -eq 0
check "and then nobody answers" grep -q "refused" <(get /metrics)

# A port that is taken: the job does without.
python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)' >"$work/port" &
holder=$!
while [[ ! -s $work/port ]]; do sleep 0.05; done
port=$(cat "$work/port")
kolo_run -np 2 --metrics-port "$port" "$job" sleep 9
check "with a port that is taken a job goes on" test "$code" -eq 0
check "and says so" grep -q "metrics cannot be served on 127.0.0.1 port $port: Address already in use" "$work/err"
kill $holder
kolo_run -np 2 --metrics-port 99999 "$job" sleep 9
check "what is no port is refused" grep -q -- "--metrics-port must be from 1 to 65535" "$work/err"
finish
