#!/usr/bin/env bash
# modules.sh BUILD SOURCE CMAKE: the modulefile with Environment Modules and with Lmod, in fresh shells.
set -euo pipefail
build=$1 source=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
show_failure() { [[ ! -f $work/out ]] || tail -n 20 "$work/out"; }
# shellcheck source=../checks.sh
. "$source/tests/checks.sh"
"$cmake" --install "$build" --prefix "$work/prefix" > /dev/null
mkdir -p "$work/site/kolo"
version=$("$work/prefix/bin/kolo" --version)
ln -s "$work/prefix/share/modulefiles/kolo/${version#kolo }" "$work/site/kolo/linked"
# One that demands others.
"$cmake" -S "$source" -B "$work/configured" "-DKOLO_MODULE_PREREQS=first/1;second/2" -DKOLO_BUILD_TESTS=OFF > "$work/out" 2>&1
mkdir -p "$work/wants/kolo" "$work/wants/first" "$work/wants/second"
cp "$work/configured/modulefile" "$work/wants/kolo/0"
printf '#%%Module\n' | tee "$work/wants/first/1" > "$work/wants/second/2"

fresh() { # fresh INIT COMMANDS: a shell without this one's variables
  env -i HOME="$work" PATH=/usr/bin:/bin bash --norc --noprofile -c ". '$1'; $2" > "$work/out" 2>&1
}
says() { grep -qxF -- "$1" "$work/out"; }
loaded_with_its_own() { lacks "KOLO_ROOT=" || grep -qE '^LOADEDMODULES=.*second/2' "$work/out"; }
lacks() { ! grep -qF -- "$1" "$work/out"; }

try() { # try NAME INIT
  local variable
  fresh "$2" "module use '$work/prefix/share/modulefiles'; module load kolo; which kolo kolorun; kolo --version; env" || true
  check "$1: the programs are found" says "$work/prefix/bin/kolo"
  check "$1: kolorun, too" says "$work/prefix/bin/kolorun"
  check "$1: they run" says "$version"
  for variable in CPATH=include LIBRARY_PATH=lib LD_LIBRARY_PATH=lib PKG_CONFIG_PATH=lib/pkgconfig; do
    check "$1: ${variable%=*}" says "${variable%=*}=$work/prefix/${variable#*=}"
  done
  check "$1: CMAKE_PREFIX_PATH" says "CMAKE_PREFIX_PATH=$work/prefix"
  check "$1: MANPATH" grep -q "^MANPATH=$work/prefix/share/man" "$work/out"
  if command -v man > /dev/null; then
    fresh "$2" "module use '$work/prefix/share/modulefiles'; module load kolo; man -w kolo-run; man -w ls; man kolorun | cat" || true
    check "$1: man finds the pages" says "$work/prefix/share/man/man1/kolo-run.1"
    if page=$(env -u MANPATH man -w ls 2> /dev/null); then check "$1: and the system's" says "$page"; fi
    check "$1: and shows them" grep -q 'threads-per-rank T' "$work/out"
  else
    missing "$1: man pages" "man is not installed (apt-get install man-db)"
  fi
  fresh "$2" "module use '$work/site'; module load kolo/linked; which kolo" || true
  check "$1: a link to the modulefile does" says "$work/prefix/bin/kolo"
  fresh "$2" "module use '$work/prefix/share/modulefiles'; module load kolo; module unload kolo; env" || true
  check "$1: unloading leaves nothing" lacks "=$work/prefix/lib"
  fresh "$2" "module use '$work/prefix/share/modulefiles' '$work/site'; module load kolo/linked; module load kolo/${version#kolo }; module -t list" || true
  check "$1: one version at a time" is "$(grep -c '^kolo/' "$work/out")" 1
  fresh "$2" "module use '$work/wants'; module load first; module load kolo; env" || true
  check "$1: a module that it demands is named" grep -q 'second/2' "$work/out"
  check "$1: without it nothing is loaded, or it is, too" loaded_with_its_own
  fresh "$2" "module use '$work/wants'; module load first second; module load kolo; env" || true
  check "$1: with it everything is" grep -q '^KOLO_ROOT=' "$work/out"
  fresh "$2" "module use '$work/prefix/share/modulefiles'; module help kolo; module whatis kolo" || true
  check "$1: help" grep -q 'Built with LibTorch' "$work/out"
  mv "$work/prefix" "$work/elsewhere"
  fresh "$2" "module use '$work/elsewhere/share/modulefiles'; module load kolo; which kolo; kolo --version" || true
  check "$1: a prefix that was moved" says "$work/elsewhere/bin/kolo"
  check "$1: works" says "$version"
  mv "$work/elsewhere" "$work/prefix"
}

if command -v groff > /dev/null; then
  for page in "$work"/prefix/share/man/man1/*.1; do
    (cd "$work/prefix/share/man" && groff -man -Tutf8 -ww "$page" 2> "$work/out" > /dev/null)
    check "groff has nothing to say of ${page##*/}" test ! -s "$work/out"
  done
fi
tried=''
for init in /usr/share/modules/init/bash /usr/share/Modules/init/bash; do
  [[ -f $init && -z $tried ]] || continue
  try "Environment Modules" "$init"
  tried=yes
done
[[ -n $tried ]] || missing "Environment Modules" "not installed (apt-get install environment-modules)"
if [[ -f /usr/share/lmod/lmod/init/bash ]]; then
  try Lmod /usr/share/lmod/lmod/init/bash
  tried=yes
elif command -v apt-get > /dev/null && init=$("$source/tests/install/lmod.sh" "$work/lmod"); then
  try Lmod "$init"
  tried=yes
else
  missing Lmod "not installed, and apt-get download does not give it"
fi
finish
[[ -n $tried ]] || {
  echo "SKIPPED: there is no module system"
  exit 77
}
