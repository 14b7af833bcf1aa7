# SPDX-License-Identifier: Apache-2.0
"""References of inputs/functions.tile."""

import numpy as np

from lang import kernel


@kernel(x="f32[A, B]", y="f32[B]", z="f32[2 * B]", n="i32[A]", u="f64[A]",
        sizes=[dict(A=1, B=8), dict(A=33, B=70)])
def asked(x, y, z, n, u):
    half = len(y) // 2
    o = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * y
    return o, y[:half] + y[half:], np.tile(y, 2) + z, n * 3, u * 3, y[:-7] + y[7:]
