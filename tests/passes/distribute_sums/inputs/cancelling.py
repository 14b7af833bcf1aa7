# SPDX-License-Identifier: Apache-2.0
"""Factors of products whose difference is far smaller than they are: cancelling.py PREFIX."""

import sys

import numpy as np

rng = np.random.default_rng(3)
a = rng.standard_normal((9, 300)).astype(np.float32)
b = rng.standard_normal((300, 7)).astype(np.float32)
d = b * (1 + 1e-6 * rng.standard_normal(b.shape)).astype(np.float32)
for name, array in (("a", a), ("b", b), ("d", d)):
    np.save(f"{sys.argv[1]}.{name}.npy", array)
