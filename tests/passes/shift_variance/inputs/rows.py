# SPDX-License-Identifier: Apache-2.0
"""Long rows whose mean is far from 0, of equal elements, or far from that of a sixteenth: rows.py PREFIX."""

import sys

import numpy as np

N = 600001
rng = np.random.default_rng(5)
far = 1000 + rng.standard_normal((1, 2, N))
late = rng.random((1, 2, N))
late[..., -5000:] += 1e4
equal = np.full((1, 2, N), 1000.1)
for name, array in (("far", far), ("late", late), ("equal", equal)):
    np.save(f"{sys.argv[1]}.{name}.npy", array.astype(np.float32))
