#!/usr/bin/env bash
# packages.sh BUILD SOURCE CMAKE MPIRUN CXX: makes the packages of BUILD, unpacks the archive somewhere, installs the one for
# Debian, and builds and runs outside projects with each.
set -euo pipefail
build=$1 source=$2 cmake=$3 mpirun=$4 cxx=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quietly() { "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
run() { "$source/tests/mpirun.sh" "$mpirun" 2 "$@"; }

quietly "${cmake%cmake}cpack" --config "$build/CPackConfig.cmake" -B "$work/packages"

# use PREFIX NAME CMAKE_OPTION..: the project that finds kolo by CMake, and the installed programs.
use() {
  quietly "$cmake" -S "$source/tests/install" -B "$work/$2" -G Ninja -DCMAKE_BUILD_TYPE=Release "${@:3}"
  quietly "$cmake" --build "$work/$2"
  grep -q "^kolo_DIR:PATH=$1/lib/cmake/kolo$" "$work/$2/CMakeCache.txt"
  run "$work/$2/outside" > "$work/out"
  grep -qx '2 ranks, right' "$work/out"
  "$1/bin/kolo" --version
  "$1/bin/kolorun" --allow-run-as-root -np 2 "$work/$2/outside" < /dev/null > "$work/out"
  grep -q '2 ranks, right' "$work/out"
  echo "$2: right"
}

# The licence is in both, and where Debian looks for it.
tar tzf "$work"/packages/kolo-*.tar.gz > "$work/files"
grep -qx 'kolo-[^/]*/share/doc/kolo/LICENSE' "$work/files"
dpkg-deb --fsys-tarfile "$work"/packages/kolo-*.deb | tar xO ./usr/share/doc/kolo/LICENSE | cmp - "$source/LICENSE"
dpkg-deb --fsys-tarfile "$work"/packages/kolo-*.deb | tar xO ./usr/share/doc/kolo/copyright > "$work/copyright"
grep -qx 'License: Apache-2.0' "$work/copyright"
echo "licence: right"

mkdir "$work/unpacked"
tar xzf "$work"/packages/kolo-*.tar.gz -C "$work/unpacked"
mv "$work"/unpacked/kolo-* "$work/moved"
use "$work/moved" archive -DCMAKE_PREFIX_PATH="$work/moved"

# A LibTorch of another version is refused where the project is configured, not where it is linked.
other=$work/other-torch
mkdir -p "$other/include/ATen" "$other/include/torch/headeronly" "$other/lib"
touch "$other/include/ATen/ATen.h" "$other/lib/libtorch_cpu.so" "$other/lib/libc10.so"
printf '#define TORCH_VERSION_%s\n' 'MAJOR 9' 'MINOR 8' 'PATCH 7' > "$other/include/torch/headeronly/version.h"
torch=$(sed -n 's|^LibTorch_INCLUDE_DIR:PATH=\(.*\)/include$|\1|p' "$build/CMakeCache.txt")  # KOLO_TORCH comes first
if "$cmake" -S "$source/tests/install" -B "$work/refused" -DCMAKE_PREFIX_PATH="$work/moved;$torch" -DKOLO_TORCH="$other" > "$work/log" 2>&1; then
  echo "a project with another LibTorch was configured"
  exit 1
fi
grep -q 'this kolo was built with LibTorch .*, and the LibTorch found is 9.8.7' <<< "$(tr -s ' \n' ' ' < "$work/log")" ||
  { cat "$work/log"; exit 1; }
echo "another LibTorch: refused"

# Uninstalling as docs/installation.md says.
quietly "$cmake" --install "$build" --prefix "$work/removed"
xargs -d '\n' rm < "$build/install_manifest.txt"
[[ -z $(find "$work/removed" ! -type d) ]]
echo "uninstalling: right"

if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH=$work/moved/lib/pkgconfig
  version=$("$work/moved/bin/kolo" --version)
  [[ "kolo $(pkg-config --modversion kolo)" == "$version" ]]
  read -ra flags <<< "$(pkg-config --cflags --libs kolo)"
  "$cxx" -std=c++17 "$source/tests/install/ranks.cpp" "${flags[@]}" -o "$work/ranks"
  run "$work/ranks" | sort | diff - <(printf 'rank 0 of 2\nrank 1 of 2\n')
  echo "pkg-config: right"
else
  echo "pkg-config: skipped, it is not installed"
fi

# What the programs load from packages of Debian the package names. (LibTorch and the MPI it cannot.)
dpkg-deb --extract "$work"/packages/kolo-*.deb "$work/extracted"
named=" $(dpkg-deb --field "$work"/packages/kolo-*.deb Depends | tr -d ,) "
needed=$(ldd "$work"/extracted/usr/bin/kolo* "$work"/extracted/usr/lib/libkolo.so | grep -oP '=> \K/(usr/)?lib/\S+' | sort -u)
for library in $needed; do
  path=$(realpath "$library")
  grep -qF "$(basename "$library")" <(readelf -d "$work"/extracted/usr/bin/kolo* "$work"/extracted/usr/lib/libkolo.so) || continue
  package=$({ dpkg-query --search "$path" || dpkg-query --search "${path#/usr}"; } 2> /dev/null | cut -d: -f1) || continue
  [[ $named == *" $package "* || $library == *libmpi.so* ]] || { echo "the package needs $package ($library), and has:$named"; exit 1; }
done
echo "dependencies of the Debian package: right"

if [[ ${KOLO_TEST_DEBIAN_PACKAGE:-} == 1 ]]; then
  trap 'quietly dpkg --remove kolo; rm -rf "$work"' EXIT
  quietly dpkg --install "$work"/packages/kolo-*.deb
  use /usr debian-package
else  # a test should not change the machine
  use "$work/extracted/usr" debian-package-extracted -DCMAKE_PREFIX_PATH="$work/extracted/usr"
fi
