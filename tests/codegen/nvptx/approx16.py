# SPDX-License-Identifier: Apache-2.0
"""Softmax of 16-bit rows, long enough for clusters: elements lie near their row's greatest, or
far from it, or are no numbers. The exponentials are hardware's.

    approx16.py --tessera PROGRAM --device DEVICE
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "differential")]

from arrays import load, round_to, save  # noqa: E402

ROWS, COLUMNS = 3, 32760  # a cluster of two, whose last tile has an end


def cases():
    base = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    yield "near", base
    yield "wide", base * 60
    edge = np.full_like(base, -86)
    edge[:, 1::3], edge[:, 2] = -86.5, 0
    yield "edge", edge
    yield "huge", base * 1e4
    masked = base.copy()
    masked[:, COLUMNS // 2:] = -np.inf
    yield "masked", masked
    for name, value in (("nan", np.nan), ("inf", np.inf)):
        some = base.copy()
        some[::2, COLUMNS // 3] = value
        yield name, some
    yield "nothing", np.full_like(base, -np.inf)


def softmax(x):
    with np.errstate(invalid="ignore", under="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    failed = 0
    for dtype, epsilon in (("bf16", 2.0**-8), ("f16", 2.0**-10)):
        for name, x in cases():
            x = round_to(dtype, x)
            with tempfile.TemporaryDirectory() as folder:
                paths = [pathlib.Path(folder) / f"{part}.npy" for part in "xy"]
                save(paths[0], dtype, x)
                subprocess.run([options.tessera, "run", ROOT / "examples/softmax.tile", "--set",
                                f"T={dtype}", f"x={paths[0]}", "-o", f"out={paths[1]}",
                                "--device", options.device], check=True, capture_output=True)
                got, want = load(paths[1]).astype(np.float64), softmax(x)
            close = np.allclose(got, want, rtol=epsilon, atol=2.0**-24, equal_nan=True)
            failed += not close
            if not close:
                print(f"{dtype} {name}: off")
    sys.exit(failed != 0)


main()
