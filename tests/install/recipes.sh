#!/usr/bin/env bash
# recipes.sh SOURCE: what the tools for which there are recipes say of them. Exit code 77 without EasyBuild.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONPYCACHEPREFIX=$work python3 -m py_compile "$source/packaging/spack/kolo/package.py"
command -v eb > /dev/null || { echo "SKIPPED: there is no eb (pip install easybuild pycodestyle)"; exit 77; }
init=/usr/share/modules/init/bash
[[ -f $init ]] || { echo "SKIPPED: there are no Environment Modules, which eb wants"; exit 77; }
# shellcheck disable=SC1090
. "$init"
export EASYBUILD_PREFIX=$work/prefix
eb=(eb --allow-use-as-root-and-accept-consequences --modules-tool=EnvironmentModules --module-syntax=Tcl)
"${eb[@]}" --check-style "$source"/packaging/easybuild/*.eb > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"${eb[@]}" --robot --dry-run-short "$source"/packaging/easybuild/*.eb > "$work/log" 2>&1 || { tail "$work/log"; exit 1; }
for package in kolo/0 PyTorch/2 OpenMPI/5 HDF5/1 Boost/1 Highway/1; do
  grep -qF "(module: $package" "$work/log" || { echo "$package is not among what eb would install"; exit 1; }
done
grep -c 'module: ' "$work/log" | xargs echo "modules that eb would install:"
