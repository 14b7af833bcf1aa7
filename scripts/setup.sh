#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, on a bare Debian 12 as root. Quick when all is there.
set -eu

packages="llvm-22-dev liblld-22-dev llvm-22-tools lld-22 zlib1g-dev libzstd-dev libutf8proc-dev
libxxhash-dev libsqlite3-dev cmake ninja-build gcc g++ libc6-dev make ccache check pkg-config \
python3 python3-numpy python3-venv
libopenblas0-pthread xz-utils chromium abigail-tools"

# shellcheck disable=SC2086
present=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $packages 2>/dev/null |
    sed -n 's/ installed$//p' | tr '\n' ' ' || true)
missing=
for package in $packages; do
    case " $present " in
    *" $package "*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
    echo "setup: as root, run: apt-get install$missing" >&2
    exit 3
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
# shellcheck disable=SC2086
apt-get -qq install -y --no-install-recommends $missing >/dev/null
