# SPDX-License-Identifier: Apache-2.0
"""Float % on the interpreter, the CPU and emulated AMD GPUs against math.fmod, bit for bit, over
pairs of extreme operands and random ones.

    mod.py --tessera PROGRAM --emit TOOL --dtype f32|f64 --ir FILE.ir FILE.tile
"""

import argparse
import ctypes
import math
import os
import shutil
import subprocess
import sys
import tempfile
import types

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu"))
import emulate  # noqa: E402

REAL = {"f32": np.float32, "f64": np.float64}
WORD = {"f32": np.uint32, "f64": np.uint64}


def operands(dtype):
    real, info = REAL[dtype], np.finfo(REAL[dtype])
    sub = float(info.smallest_subnormal)
    extreme = [0.0, sub, 2 * sub, 3 * sub, float(info.tiny) - sub, float(info.tiny), 1.0, 1.5, 3.0,
               7.0, 0.1, 1 / 3, 1 + float(info.eps), 1e30, float(info.max), float(info.max) / 2,
               float(info.max) / 3, math.inf, math.nan]
    extreme = np.array(extreme + [-value for value in extreme], real)
    x, y = (part.ravel() for part in np.meshgrid(extreme, extreme))
    random = np.random.default_rng(7)
    some = random.integers(0, 2 ** (8 * real().itemsize), (2, 4000), WORD[dtype]).view(real)
    near = random.standard_normal((2, 2000)).astype(real) * real(100)
    return np.concatenate([x, some[0], near[0]]), np.concatenate([y, some[1], near[1]])


def reference(a, b, real):
    """The exact remainder, then at most one addition; a zero has the divisor's sign."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return real(math.nan)
    rest = math.fmod(a, b)
    if rest == 0:
        return real(math.copysign(0, b))
    return real(rest) if (rest < 0) == (b < 0) else real(rest) + real(b)


def compare(who, got, want, x, y, word):
    same = (got.view(word) == want.view(word)) | (np.isnan(got) & np.isnan(want))
    if not same.all():
        i = int(np.argmin(same))
        sys.exit(f"{who}: {x[i]!r} % {y[i]!r} is {got[i]!r}, not {want[i]!r}; "
                 f"{int((~same).sum())} of {same.size} differ")


def run_program(options, device, x, y, folder):
    path = lambda name: os.path.join(folder, name + ".npy")
    np.save(path("x"), x)
    np.save(path("y"), y)
    subprocess.run([options.tessera, "run", options.file, "x=" + path("x"), "y=" + path("y"),
                    "--device", device, "-o", path("z")], check=True, capture_output=True)
    return np.load(path("z"))


def run_emulated(options, target, x, y, folder):
    job = types.SimpleNamespace(emit=options.emit, target=target, passes=["all"])
    _, _, library = emulate.build(job, options.ir, {"N": x.size}, folder)
    z = np.zeros_like(x)
    for name, array in (("x", x), ("y", y), ("z", z)):
        ctypes.c_void_p.in_dll(library, "a_" + name).value = array.ctypes.data
    library.run()
    return z


def main():
    parser = argparse.ArgumentParser()
    for name in ("--tessera", "--emit", "--dtype", "--ir"):
        parser.add_argument(name, required=True)
    parser.add_argument("file")
    options = parser.parse_args()
    x, y = operands(options.dtype)
    real, word = REAL[options.dtype], WORD[options.dtype]
    with np.errstate(all="ignore"):
        want = np.array([reference(float(a), float(b), real) for a, b in zip(x, y)], real)
    with tempfile.TemporaryDirectory() as folder:
        for device in ("interp", "cpu"):
            compare(device, run_program(options, device, x, y, folder), want, x, y, word)
        if not shutil.which("llc-22"):
            print("left out: no llc-22")
            return
        for target in emulate.WAVES:
            compare(target, run_emulated(options, target, x, y, folder), want, x, y, word)


if __name__ == "__main__":
    main()
