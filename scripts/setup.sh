#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, on a bare Debian 12 as root. Quick when all is there.
# --tests: also NVIDIA's assembler and disassembler, and mypy, of PyPI, into .tools, where there are
# none.
# Where PyPI cannot be reached the tests that need them are skipped, and counted.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

packages="llvm-22-dev liblld-22-dev llvm-22-tools lld-22 zlib1g-dev libzstd-dev libutf8proc-dev
libxxhash-dev libsqlite3-dev cmake ninja-build gcc g++ libc6-dev make ccache check pkg-config \
python3 python3-numpy python3-venv
libopenblas0-pthread xz-utils chromium abigail-tools vim nodejs
zsh fish dpkg-dev file clang-22 libclang-rt-22-dev-wasm32 wasi-libc"

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
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "setup: as root, run: apt-get install$missing" >&2
        exit 3
    fi
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    # shellcheck disable=SC2086
    apt-get -qq install -y --no-install-recommends $missing >/dev/null
fi

# The versions that the tests' numbers of registers are from.
install_tools() {
    wanted=
    mypy="mypy==1.14.1 mypy_extensions==1.0.0 typing_extensions==4.12.2"
    for tool in ptxas=nvidia-cuda-nvcc==13.0.88 nvdisasm=nvidia-cuda-nvdisasm==13.2.51; do
        name=${tool%%=*}
        [ -x "$root/.tools/bin/$name" ] || [ -x "/usr/local/cuda/bin/$name" ] ||
            command -v "$name" >/dev/null || wanted="$wanted ${tool#*=}"
    done
    [ -x "$root/.tools/venv/bin/mypy" ] || wanted="$wanted $mypy"
    [ -z "$wanted" ] && return 0
    echo "setup: from PyPI:$wanted" >&2
    mkdir -p "$root/.tools/bin"
    # shellcheck disable=SC2086
    /usr/bin/python3 -m venv "$root/.tools/venv" &&
        "$root/.tools/venv/bin/pip" install -q --disable-pip-version-check --no-deps $wanted || {
        echo "setup: not there:$wanted; tests that need it are skipped" >&2
        return 0
    }
    for name in ptxas nvdisasm; do
        found=$(find "$root/.tools/venv/lib" -type f -name "$name" | head -n 1)
        [ -z "$found" ] || { chmod +x "$found" && ln -sf "$found" "$root/.tools/bin/$name"; }
    done
}
[ "${1:-}" != --tests ] || install_tools
