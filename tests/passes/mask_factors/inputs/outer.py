# SPDX-License-Identifier: Apache-2.0
"""outer.py PREFIX [RESULT]: inputs of outer.tile; with the result of `rows`, whether it is right.

A row that is off has the result 0, also where an element of a factor is NaN."""

import sys

import numpy as np

rng = np.random.default_rng(7)
a = rng.standard_normal((5, 20), dtype=np.float32)
w = rng.standard_normal((20, 6), dtype=np.float32)
on = np.array([True, False, True, False, True])
a[1, 3] = np.nan

if len(sys.argv) == 2:
    arrays = {"a": a, "w": w, "on": on}
    arrays["length"] = np.array([5, 0, 30], np.int32)
    arrays["n"] = np.array([3, 0, 7, 5], np.int32)
    for name, array in arrays.items():
        np.save(f"{sys.argv[1]}.{name}.npy", array)
else:
    expected = np.where(on[:, None], a @ w, 0)
    np.testing.assert_allclose(np.load(sys.argv[2]), expected, rtol=1e-5, atol=1e-5)
