# SPDX-License-Identifier: Apache-2.0
"""References of inputs/tiles.tile."""

import numpy as np

from lang import kernel

SHAPES = [dict(S=1, L=1), dict(S=33, L=70), dict(S=16, L=32), dict(S=5, L=130)]


@kernel(x="f32[S, L]", w="f32[L]", ids="i32[L] in 0 L", sizes=SHAPES)
def outside(x, w, ids):
    y = (x - x.mean(1, keepdims=True)) * w
    o = 2 * y - y.max(1, keepdims=True) + np.where(y > 0, (x * x).sum(), 2 * len(x))
    return o, 3 * (x + 1) + y[:, ids], np.zeros(len(x), np.int64)


@kernel(m="f32[N]", g="f32[N]", sizes=[dict(N=4), dict(N=70)])
def before(m, g):
    m = m * 0.5 + g
    return np.zeros_like(m), m + m[3]


@kernel(q="f32[S, D]", k="f32[L, D]", sizes=[dict(S=3, L=40, D=8), dict(S=33, L=7, D=20)])
def scores(q, k):
    unit = q / np.sqrt((q * q).sum(1, keepdims=True))
    return (unit @ k.T).max(1, keepdims=True)
