#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# package.sh BUILD VERSION: makes BUILD/tessera-VERSION-x86_64-linux.tar.xz, a folder that may lie
# anywhere on an x86-64 Linux. Done again only when the library or the program is newer.
set -eu
build=$1
version=$2
root=$(cd "$(dirname "$0")/.." && pwd)
name=tessera-$version-x86_64-linux
archive=$build/$name.tar.xz
most_bytes=$((24 * 1024 * 1024))

if [ -e "$archive" ] && [ -z "$(find "$build/bin/tessera" "$build/lib" "$root/include" \
    "$root/examples" "$root/bench" "$root/python" "$root/cmake" "$root/tests/differential" \
    "$root/scripts" "$root/docs" "$root/README.md" -newer "$archive" \
    -type f -not -path '*/__pycache__/*')" ]; then
    echo "$archive"
    exit 0
fi

work=$(mktemp -d "$build/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
to=$work/$name
mkdir -p "$to/licences" "$to/tests"
cmake --install "$build" --prefix "$to" --strip >/dev/null
cp -r "$root/examples" "$root/bench" "$root/python" "$to/"
cp -r "$root/tests/differential" "$to/tests/"
find "$to" -name __pycache__ -prune -exec rm -rf {} +
cp -r "$root/docs" "$to/"
cp "$root/README.md" "$root/LICENSE" "$root/SECURITY.md" "$to/"
for library in llvm-22 zlib1g libzstd-dev libutf8proc-dev libxxhash-dev libsqlite3-dev; do
    cp "/usr/share/doc/$library/copyright" "$to/licences/$library"
done
cp /usr/share/doc/gcc-*-base/copyright "$to/licences/libstdc++"

tar -C "$work" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/$name.tar" "$name"
xz "${TESSERA_XZ:--9e}" -T0 "$work/$name.tar"
bytes=$(stat -c %s "$work/$name.tar.xz")
if [ "$bytes" -gt "$most_bytes" ]; then
    echo "package: $bytes bytes, more than $most_bytes" >&2
    exit 1
fi
mv "$work/$name.tar.xz" "$archive"
echo "$archive ($bytes bytes)"
