# SPDX-License-Identifier: Apache-2.0
"""special.py PREFIX: inputs of answers.tile: infinities, NaN, masks that begin with -inf."""
import sys

import numpy as np

prefix = sys.argv[1]
random = np.random.default_rng(7)


def save(name, array):
    np.save(f"{prefix}.{name}.npy", array)


SHAPES = (("f", "f4", (1, 2, 37, 150, 64)), ("h", "f2", (1, 2, 70, 300, 64)))
for name, dtype, (b, h, s, l, d) in SHAPES:
    q, k, v = (random.standard_normal(shape).astype(dtype)
               for shape in ((b, h, s, d), (b, h, l, d), (b, h, l, d)))
    save(name + ".q", q)
    save(name + ".k", k)
    save(name + ".v", v)
    k[..., 0] = np.abs(k[..., 0]) + 1
    q[:, :, 3, 0] = np.inf                  # scores of +inf: NaN
    q[:, :, 4, 0] = -np.inf                 # of -inf alone: NaN
    q[:, :, 5, 5] = np.nan
    k[:, 1, l - 1, 9] = np.nan              # behind the first tile
    save(name + ".special.q", q)
    save(name + ".special.k", k)
    bias = random.standard_normal((s, l)).astype(dtype)
    bias[random.random((s, l)) < 0.3] = -np.inf
    bias[0] = -np.inf                       # nothing counts
    bias[1, :256] = -np.inf                 # nothing in the first tiles
    bias[2, 1:] = -np.inf
    save(name + ".bias", bias)
    save(name + ".length", np.array([l // 3], "i8"))
    save(name + ".none", np.array([0], "i8"))
