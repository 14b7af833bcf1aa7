# SPDX-License-Identifier: Apache-2.0
"""Intervals of every kind, and NaN where none of them is: intervals.py PREFIX."""

import sys

import numpy as np

prefix = sys.argv[1]
rng = np.random.default_rng(1)
low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
x = rng.standard_normal((300, 9)).astype(np.float32)
at = np.array([0, 40, 40, 41, 100, 90, 130, 299, 299, 1000, -5, 3, low, 7, high, high, 30])
# Consecutive places bound the segments: what no segment has is NaN.
used = np.zeros(300, bool)
for first, last in zip(at[:-1], at[1:]):
    used[max(first, 0):max(last, 0)] = True
x[~used] = np.nan
np.save(prefix + ".x.npy", x)
np.save(prefix + ".v.npy", x[:, 0].copy())
np.save(prefix + ".at.npy", at)
r = rng.standard_normal((7, 300)).astype(np.float32)
length = np.array([0, 1, 299, 300, low, high, 64])
for row, end in zip(r, length):
    row[max(min(end, 299), -1) + 1:] = np.nan
np.save(prefix + ".r.npy", r)
np.save(prefix + ".length.npy", length)
