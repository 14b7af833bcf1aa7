#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# package.sh BUILD VERSION [DIR]: makes tessera-VERSION-x86_64-linux.tar.xz in DIR (BUILD), a folder
# that may lie anywhere on an x86-64 Linux. Done again only when a file of it is newer.
set -eu
build=$1
version=$2
root=$(cd "$(dirname "$0")/.." && pwd)
name=tessera-$version-x86_64-linux
archive=${3:-$build}/$name.tar.xz
most_bytes=$((24 * 1024 * 1024))

if [ -e "$archive" ] && [ -z "$(find "$build/bin/tessera" "$build/lib" "$root/include" \
    "$root/examples" "$root/bench" "$root/python" "$root/cmake" "$root/tests/differential" \
    "$root/scripts" "$root/docs" "$root/editors" "$root/lessons" "$root/README.md" \
    "$root/playground" \
    -newer "$archive" -type f -not -path '*/__pycache__/*')" ]; then
    echo "$archive"
    exit 0
fi

work=$(mktemp -d "$build/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
to=$work/$name
TESSERA_PACKAGING=archive cmake --install "$build" --prefix "$to" --strip >/dev/null
mkdir -p "$to/tests"
cp -r "$root/bench" "$root/python" "$to/"
cp -r "$root/tests/differential" "$to/tests/"
find "$to" -name __pycache__ -prune -exec rm -rf {} +
for part in README.md SECURITY.md docs examples licences course.html \
    playground.html; do
    [ -e "$to/share/doc/tessera/$part" ] || { echo "package: no $part" >&2; exit 1; }
    ln -s "share/doc/tessera/$part" "$to/$part"
done
ln -s share/doc/tessera/copyright "$to/LICENSE"
[ "$(ls "$to/licences/" | wc -l)" -eq 8 ] || { echo "package: a licence is missing" >&2; exit 1; }

tar -C "$work" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/$name.tar" "$name"
xz "${TESSERA_XZ:--9e}" -T0 "$work/$name.tar"
bytes=$(stat -c %s "$work/$name.tar.xz")
if [ "$bytes" -gt "$most_bytes" ]; then
    echo "package: $bytes bytes, more than $most_bytes" >&2
    exit 1
fi
mv "$work/$name.tar.xz" "$archive"
echo "$archive ($bytes bytes)"
