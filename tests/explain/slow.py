#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow.py TESSERA [--all [FOLDER…]]: what `explain` takes beyond compiling, in seconds of the CPU
that are its own (user time): at most LIMIT at any size. Without --all: the programs that have
taken longest. With it: all kernels of the examples and of the folders at tiny, odd and huge sizes,
the slowest of which are printed."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "growth")]
import patience  # noqa: E402
import shapes  # noqa: E402

LIMIT, SHOWN = 1.0, 10
TARGETS = {"sm_90a": "cubin", "gfx942": "hsaco"}
SIZES = ((1,), (7, 3, 5), (4096,), (100003, 9973, 4099), (1 << 20, 1 << 14, 128), (1 << 33, 3))
CASES = ROOT / "tests/cases"


def user_seconds(command):
    """And whether it ended well."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime, child.returncode


def beyond(tessera, source, arguments, target):
    """None: it does not compile with these sizes."""
    whole, code = user_seconds([tessera, "explain", source, *arguments, "--target", target])
    if code:
        assert code in (1, 2), f"{source} {arguments} {target}: exit status {code}"
        return None
    emit = ["--emit", TARGETS[target], "-o", os.devnull]
    part, _ = user_seconds([tessera, "compile", source, *arguments, "--target", target, *emit])
    return whole - part


def kernels(path):
    """Name, and the arguments of each choice of sizes."""
    for name, params in re.findall(r"^kernel (\w+)\s*\(((?:.|\n)*?)\)\s*->", path.read_text(),
                                   re.M):
        axes = re.findall(r"\[([^\]]*)\]", params)
        sizes = list(dict.fromkeys(re.findall(r"\b[A-Z]\w*", " ".join(axes))))
        types = set(re.findall(r":\s*([A-Z]\w*)\[", params))
        sets = [word for one in sorted(types) for word in ("--set", f"{one}=bf16")]
        for values in SIZES if sizes else ():
            given = ",".join(f"{s}={values[i % len(values)]}" for i, s in enumerate(sizes))
            yield name, [*sets, "--size", given]


def heavy(folder):
    made = folder / "mlps.tile"
    made.write_text(shapes.mlps(5))
    yield str(made), ["--size", "M=8192,D=4096,H=8192"]
    huge = "B=100003,H=9973,C=4099,O=100003,R=9973"
    yield str(CASES / "compile_time/doubled_index.tile"), ["--set", "T=bf16", "--size", huge]
    yield f"{CASES / 'square_axes.tile'}:mlp_all_square", ["--size", "N=8G"]
    yield str(ROOT / "examples/life.tile"), ["--size", "H=8G,W=3"]
    odd = "M=100003,K=9973,N=4099"
    yield str(ROOT / "examples/gated_mlp.tile"), ["--set", "T=bf16", "--size", odd]
    yield f"{ROOT / 'examples/power.tile'}:running_product", ["--size", "N=1M"]


def everything(folders):
    for folder in (ROOT / "examples", *map(pathlib.Path, folders)):
        for path in sorted(folder.rglob("*.tile")):
            for name, arguments in kernels(path):
                yield f"{path}:{name}", arguments


def main():
    tessera, every = sys.argv[1], sys.argv[2:3] == ["--all"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        programs = everything(sys.argv[3:]) if every else heavy(pathlib.Path(folder))
        for source, arguments in programs:
            for target in TARGETS:
                seconds = beyond(tessera, source, arguments, target)
                if seconds is not None:
                    found.append((seconds, source, " ".join(arguments), target))
    found.sort(reverse=True)
    for seconds, *what in found[:SHOWN]:
        print(f"{seconds:6.2f} s", *what)
    assert every or len(found) >= 2 * len(TARGETS), found
    if found[0][0] > patience.seconds(LIMIT):
        sys.exit(f"explain takes more than {LIMIT} seconds beyond compiling")


main()
