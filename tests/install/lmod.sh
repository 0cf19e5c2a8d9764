#!/usr/bin/env bash
# lmod.sh DIR: unpacks Debian's Lmod into DIR, for its package cannot be installed beside environment-modules, and
# prints the script that a shell sources. Needs apt.
set -euo pipefail
dir=$(realpath "$1")
mkdir -p "$dir/packages"
cd "$dir/packages"
apt-get download lmod lua5.3 lua-posix lua-filesystem lua-term lua-json lua-lpeg lua-bit32 > /dev/null 2>&1
for package in *.deb; do dpkg-deb --extract "$package" "$dir"; done
lmod=$(echo "$dir"/usr/share/lmod/[0-9]*)
# Its paths are written into its files.
libraries=$(cd "$dir" && find usr/lib -type d -path '*/lua/5.3' -print -quit)
grep -rlI -e /usr/share/lmod -e /usr/bin/lua5.3 -e /usr/share/lua/5.3 -e "/$libraries" "$lmod" | while read -r file; do
  sed -i -e "s#\(/usr/share/lmod\|/usr/bin/lua5.3\|/usr/share/lua/5.3\|/$libraries\)#$dir\1#g" "$file"
done
echo "$dir/usr/share/lmod/lmod/init/bash"
