# SPDX-License-Identifier: Apache-2.0
"""constant_example.py TESSERA SOURCE: layer_norm of rows of one value, on the CPU."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

_, tessera, source = sys.argv
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for m, n in ((3, 7), (2, 1000), (1, 4097)):
        np.save(folder / "x.npy", np.full((m, n), 100000.1, np.float32))
        np.save(folder / "w.npy", np.ones(n, np.float32))
        np.save(folder / "b.npy", np.zeros(n, np.float32))
        subprocess.run([tessera, "run", source, "--set", "T=f32", "--device", "cpu",
                        *(f"{key}={folder}/{file}.npy" for key, file in
                          (("x", "x"), ("weight", "w"), ("bias", "b"))),
                        "-o", folder / "out.npy"], check=True, stdout=subprocess.DEVNULL)
        worst = np.abs(np.load(folder / "out.npy")).max()
        if not worst <= 1e-5:
            sys.exit(f"{m} rows of {n}: {worst}")
