# SPDX-License-Identifier: Apache-2.0
"""long_k.py TESSERA SOURCE [DEVICE]: the error of products of numbers of one sign, relative to the
sum of their terms. A GPU adds as many products in one sum as cuBLAS does, and is as far off."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

MOST = {"cpu": 1e-5, "cuda": 2.2e-5}
SIZES = {"cpu": [(5, 3, 65536), (17, 40, 20001), (1, 8, 65536), (3, 5, 1000000)],
         "cuda": [(5, 3, 20001), (3, 4, 16384)]}


def run(tessera, device, source, kernel, x, y, folder):
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    subprocess.run([tessera, "run", f"{source}:{kernel}", "--device", device,
                    f"x={folder}/x.npy", f"y={folder}/y.npy", "-o", folder / "out.npy"],
                   check=True, stdout=subprocess.DEVNULL)
    want = x.astype(float) @ y.astype(float)
    want = want + want.max(axis=1, keepdims=True) if kernel == "rows" else want
    worst = (np.abs(np.load(folder / "out.npy") - want) / want).max()
    if not worst <= MOST[device]:
        sys.exit(f"{kernel} {x.shape} by {y.shape}: an error of {worst}")


def main():
    tessera, source, device = (*sys.argv[1:], "cpu")[:3]
    rng = np.random.default_rng(1)
    makes = (lambda *s: np.full(s, 0.1, np.float32),
             lambda *s: (1 + rng.random(s)).astype(np.float32))
    with tempfile.TemporaryDirectory() as folder:
        for kernel in ("mm", "by_hand", "rows"):
            for m, n, k in SIZES[device]:
                for make in makes:
                    run(tessera, device, source, kernel, make(m, k), make(k, n),
                        pathlib.Path(folder))


if __name__ == "__main__":
    main()
