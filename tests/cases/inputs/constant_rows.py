# SPDX-License-Identifier: Apache-2.0
"""constant_rows.py TESSERA SOURCE: the norms of rows of one value, which are 0; on CPU and
interpreter."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

CASES = [(np.float32, 100000.1, (3, 7)), (np.float32, -3.3e-5, (7, 1000)),
         (np.float32, 7.7e15, (1000, 8)), (np.float32, 0.1, (2, 4099)),
         (np.float32, 100000.1, (1, 1000003)), (np.float16, 0.1, (3, 1000))]


def run(tessera, source, kernel, dtype, value, sizes, device, folder):
    if kernel == "groups" and sizes[1] % 8:
        return
    for name, array in (("x", np.full(sizes, value, dtype)), ("w", np.ones(sizes[1], np.float32)),
                        ("b", np.zeros(sizes[1], np.float32))):
        np.save(folder / f"{name}.npy", array)
    names = [f"{name}={folder / name}.npy" for name in "xwb"]
    T = {np.float32: "f32", np.float16: "f16"}[dtype]
    subprocess.run([tessera, "run", f"{source}:{kernel}", "--set", f"T={T}", "--device", device,
                    *names, "-o", folder / "out.npy"], check=True, stdout=subprocess.DEVNULL)
    worst = np.abs(np.load(folder / "out.npy")).max()
    if not worst == 0:
        sys.exit(f"{kernel} of {value} {sizes} on {device}: {worst}")


def main():
    _, tessera, source = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        for kernel in ("layers", "groups", "instances", "variances"):
            for dtype, value, sizes in CASES:
                for device in ("cpu", "interp") if np.prod(sizes) < 100 else ("cpu",):
                    run(tessera, source, kernel, dtype, value, sizes, device, pathlib.Path(folder))


if __name__ == "__main__":
    main()
