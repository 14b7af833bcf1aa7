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


@kernel(x="f32[S, L]", sizes=SHAPES + [dict(S=100, L=50)])
def parts(x):
    i = np.arange(len(x))[:, None]
    within = i % 48
    times = np.where(within < 8, 2, np.where(within < 24, 1, 3))
    return x * i + i // 48 * 48, x * times, x[:, 0]


@kernel(x="f32[B, S, L]", sizes=[dict(B=2, S=5, L=1), dict(B=3, S=40, L=33)])
def some(x):
    y, w = x.copy(), x[:, :, 0].copy()
    for b in range(1, len(x)):
        for i in range(2, x.shape[1] - 1):
            y[b, i] = x[b - 1, i] * b + i
    w[2:, :3] = 0
    w[2:, 3:] *= 2
    return y, x + 2 * x[:, :1, :1], w


@kernel(x="f32[N, D]", y="f32[N, D]", sizes=[dict(N=4, D=8), dict(N=50, D=20)], tolerance=2e-4)
def blocks(x, y):
    o, p = np.zeros_like(x), np.zeros_like(x)
    for i in range(1, len(x) - 2, 16):
        rows = slice(i, min(i + 16, len(x) - 2))
        o[rows] = x[rows] @ (y[rows].T @ x[rows])
    for i in range(0, len(x), 32):
        rows = slice(i, i + 32)
        p[rows] = x[rows] @ (x[rows].T @ y[rows])
    return o, p


@kernel(x="f32[S, L] in -1 1", flag="bool", n="i64 in 0 5", sizes=SHAPES)
def branches(x, flag, n):
    if x.max() > n or n > 3:
        return x * 2
    return x + n if n == 2 else x if flag else -x


@kernel(x="f32[S, L]", sizes=[dict(S=33, L=70), dict(S=16, L=32), dict(S=5, L=130)])
def numbered(x):
    columns = np.arange(0, x.shape[1], 32)
    sums = np.add.reduceat(x, columns, axis=1)
    tops = np.maximum.reduceat(np.maximum.reduceat(x, columns, axis=1), np.arange(0, len(x), 16))
    return sums, tops
