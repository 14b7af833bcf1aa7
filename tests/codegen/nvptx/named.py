#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""named.py TESSERA: the functions of ir/named_functions.def that have a bound, as NVIDIA targets
approximate them where a sum is rounded to 16 bits.

Each runs on the emulator of PTX, on all bf16 and f16 numbers and on a sample of f32 numbers. The
result must be what rounding gives of a number within the function's bound of the exact one, which
NumPy computes in f64. The emulator's 2^a and 1 / a are exact: `HARDWARE` is left for what those of
a device are off by.
"""

import math
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "differential")]

from arrays import load, round_to, save  # noqa: E402

HARDWARE = 2.0**-20
PROGRAM = """kernel f(x: T[M, K]) -> R[M, 1] where T: float, R: float = R({name}(sum(x, axis=1)))
"""
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def at_least(least, x):
    """What lies below has the same result, 0, but is no infinity to multiply it by."""
    return np.maximum(x, least)


def sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def gelu_tanh(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def mish(x):
    e = np.exp(np.minimum(x, 40))
    return x * np.where(x > 40, 1, e * (e + 2) / (e * (e + 2) + 2))


FUNCTIONS = {
    "exp": np.exp,
    "expm1": np.expm1,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "silu": lambda x: at_least(-750, x) * sigmoid(x),
    "gelu": lambda x: at_least(-40, x) * 0.5 * erfc(at_least(-40, x) * -math.sqrt(0.5)),
    "gelu_tanh": lambda x: gelu_tanh(at_least(-40, x)),
    "mish": lambda x: mish(at_least(-750, x)),
}


def bounds():
    text = (ROOT / "ir" / "named_functions.def").read_text()
    rows = re.findall(r"^NAMED\((\w+), (\S+), (\S+)\)", text, re.M)
    return {name: (float.fromhex(share), float.fromhex(near))
            for name, share, near in rows if share != "0"}


def numbers(dtype):
    if dtype == "f32":
        bits = np.random.default_rng(3).integers(0, 2**32, 2**16, dtype=np.uint32)
        near = np.random.default_rng(4).standard_normal(2**16).astype(np.float32)
        return np.concatenate([bits.view(np.float32), near, near * 8, near * 64])
    bits = np.arange(0, 2**16, dtype=np.uint32)
    if dtype == "bf16":
        return (bits << 16).view(np.float32)
    return bits.astype(np.uint16).view(np.float16)


def run(tessera, folder, name, dtype, narrow, x):
    (folder / "f.tile").write_text(PROGRAM.format(name=name))
    save(folder / "x.npy", dtype, x.reshape(-1, 1))
    done = subprocess.run(
        [tessera, "run", folder / "f.tile", "--set", f"T={dtype},R={narrow}",
         f"x={folder / 'x.npy'}", "-o", f"out={folder / 'y.npy'}", "--device", "cuda"],
        capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} of {dtype}: {done.stderr}")
    return np.asarray(load(folder / "y.npy"), np.float64).ravel()


def is_approximated(tessera, folder, name):
    (folder / "f.tile").write_text(PROGRAM.format(name=name))
    code = subprocess.run([tessera, "compile", folder / "f.tile", "--set", "T=f32,R=f16",
                           "--target", "sm_90a", "--emit", "ptx", "-o", "-"],
                          check=True, capture_output=True, text=True).stdout
    return "ex2.approx" in code


def wrong(name, narrow, x, got, share, near):
    """The first number that is off, with its result; None: there is none."""
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
        off = np.abs(exact) * (share - HARDWARE) + near + (np.abs(exact) < 2.0**-125) * 2.0**-125
        off = np.where(np.isinf(exact), 0, off)
        least, most = (round_to(narrow, exact + s * off).astype(np.float64) for s in (-1, 1))
    fits = (least <= got) & (got <= most) | np.isnan(exact) & np.isnan(got)
    at = np.flatnonzero(~fits)
    return (at.size, x[at[0]], got[at[0]], exact[at[0]]) if at.size else None


def main():
    tessera, table = sys.argv[1], bounds()
    if table.keys() != FUNCTIONS.keys():
        sys.exit(f"named_functions.def has {sorted(table)}, this file {sorted(FUNCTIONS)}")
    failed = 0
    for name, (share, near) in table.items():
        with tempfile.TemporaryDirectory() as folder:
            if not is_approximated(tessera, pathlib.Path(folder), name):
                print(f"{name}: the exact function")
                failed += 1
        for dtype, narrow in (("bf16", "bf16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "f16")):
            x = numbers(dtype)
            with tempfile.TemporaryDirectory() as folder:
                got = run(tessera, pathlib.Path(folder), name, dtype, narrow, x)
            bad = wrong(name, narrow, x, got, share, near)
            failed += bad is not None
            if bad:
                print(f"{name} of {dtype} as {narrow}: {bad[0]} off, first {bad[1:]}")
    sys.exit(failed != 0)


main()
