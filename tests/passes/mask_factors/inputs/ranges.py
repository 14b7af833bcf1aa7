# SPDX-License-Identifier: Apache-2.0
"""Factors of products over ranges from data, NaN where no range is: ranges.py PREFIX."""

import sys

import numpy as np

prefix = sys.argv[1]
rng = np.random.default_rng(2)
B, M, K, N = 4, 70, 200, 72
length = np.array([0, 130, 200, -7], np.int32)
a = rng.standard_normal((B, M, K)).astype(np.float32)
w = rng.standard_normal((B, K, N)).astype(np.float32)
for i, end in enumerate(length):
    a[i, :, max(end, 0):] = np.nan
    w[i, max(end, 0):, :] = np.nan
np.save(prefix + ".length.npy", length)
# Segments of the rows of two matrices; what no segment has is NaN.
at = np.array([3, 3, 70, 64, 190, 1 << 62], np.int64)
x = rng.standard_normal((K, M)).astype(np.float32)
y = rng.standard_normal((K, N)).astype(np.float32)
x[:3] = y[:3] = np.nan
np.save(prefix + ".at.npy", at)
np.save(prefix + ".rows.npy", np.array([0, 1, 64, 1 << 20], np.int32))
# Ranges of the rows of one matrix; in the other one NaN where no row's range is.
first = rng.integers(20, 90, M).astype(np.int32)
end = rng.integers(60, 150, M).astype(np.int32)
v = rng.standard_normal((K, N)).astype(np.float32)
v[:first.min()] = v[end.max():] = np.nan
np.save(prefix + ".first.npy", first)
np.save(prefix + ".end.npy", end)
u = rng.standard_normal((M, K)).astype(np.float32)
for name, array in (("a", a), ("w", w), ("x", x), ("y", y), ("u", u), ("v", v)):
    np.save(f"{prefix}.{name}.npy", array)
    np.save(f"{prefix}.half.{name}.npy", array.astype(np.float16))
np.save(prefix + ".last.npy", np.array([np.iinfo(np.int32).max], np.int32))
