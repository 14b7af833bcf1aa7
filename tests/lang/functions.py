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


@kernel(x="f32[M, N]", c="i32[N] in 0 8", n="i64 in 0 4", flag="bool",
        sizes=[dict(M=1, N=1), dict(M=5, N=33), dict(M=17, N=6)])
def written(x, c, n, flag):
    t = np.zeros_like(x)
    for j in range(x.shape[1]):
        t[:, j] = (t[:, j - 1] * 0.5 if j else 0) + x[:, j]
    w = t[:, -1]
    for _ in range(n):
        w = w[0] * w
    z = np.minimum(x, 0.5) if flag else x.copy()
    z[0] = np.arange(x.shape[1])
    q = x.sum(1)[:, None] * x.sum(1)
    return (np.bincount(c, minlength=8).astype(np.int32), t[:, -1], t, x.sum(0), x.T, q,
            w + 2 * x[:, 0], z)


def attention(q, k, v, scale):
    s = np.exp(q @ k.T * scale)
    return s / s.sum(1, keepdims=True) @ v


@kernel(q="f32[S, D]", k="f32[L, D]", v="f32[L, D]",
        sizes=[dict(S=3, L=40, D=8), dict(S=33, L=7, D=20)])
def tiled(q, k, v):
    unit = [a / np.sqrt((a * a).sum(1, keepdims=True)) for a in (q, k)]
    return attention(*unit, attention(k, k, v, 0.5), 0.25) + q


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=70)])
def scalars(x):
    return x.sum(keepdims=True), np.argmax(x, keepdims=True), x * -0.5 + 3


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=70)])
def least(x):
    return x.min(keepdims=True)
