# SPDX-License-Identifier: Apache-2.0
"""References of inputs/lanes.tile."""

import numpy as np

from lang import kernel

IMAGES = [dict(H=1, W=1), dict(H=5, W=7), dict(H=16, W=33), dict(H=2, W=1), dict(H=0, W=3)]


def padded(x, value):
    return np.pad(x, 1, constant_values=value)


def windows(x, r, s):
    if x.shape[0] < r:
        return np.zeros((0, x.shape[1] - s + 1, r, s))
    return np.lib.stride_tricks.sliding_window_view(x, (r, s))


@kernel(x="f32[M, K]", w="f32[K, N]", set="T=f32",
        sizes=[dict(M=3, K=5, N=4), dict(M=33, K=65, N=17), dict(M=2, K=0, N=3),
               dict(M=1, K=1, N=1)])
def product(x, w):
    return x @ w


@kernel(x="bf16[M, K]", w="bf16[K, N]", set="T=bf16", sizes=[dict(M=19, K=35, N=18)])
def product_(x, w):
    return x @ w


@kernel(x="f32[H, W]", sizes=IMAGES)
def blur(x):
    return windows(padded(x, 0), 3, 3).mean((2, 3))


@kernel(x="f32[H, W]", sizes=IMAGES)
def pool(x):
    return windows(padded(x, -np.inf), 3, 3).max((2, 3))


@kernel(x="f32[H, W]", w="f32[R, S]", sizes=[dict(H=5, W=7, R=3, S=2), dict(H=17, W=33, R=1, S=5)])
def valid(x, w):
    return np.einsum("ijrs,rs->ij", windows(x, *w.shape), w)


@kernel(x="f32[N]", edge="f32", sizes=[dict(N=1), dict(N=9), dict(N=257)])
def clamped(x, edge):
    return np.append(edge, x[:-1]) + x + np.append(x[1:], edge * 2)


def looked_up(t, ids):
    inside = (ids >= 0) & (ids < len(t))
    return np.where(inside[..., None], t[np.where(inside, ids, 0)], 0)


@kernel(t="bf16[V, D]", ids="i32[N] in -2 V+2", set="T=bf16",
        sizes=[dict(V=10, D=5, N=7), dict(V=3, D=130, N=33)])
def embed(t, ids):
    return looked_up(t, ids)


@kernel(t="f32[V, D]", ids="i64[N, M] in -2 V+2", sizes=[dict(V=10, D=5, N=7, M=3)])
def embed_whole(t, ids):
    return looked_up(t, ids)


@kernel(x="f32[N, N]", a="i32[M] in 0 N", b="i64[M] in 0 N", sizes=[dict(N=6, M=11)])
def pairs(x, a, b):
    return x[a, b]


@kernel(x="f32[N, N]", sizes=[dict(N=1), dict(N=37)])
def diagonal(x):
    return np.diag(x), np.trace(x)[None]


@kernel(x="f32[M, N]", sizes=[dict(M=4, N=5), dict(M=65, N=33)])
def local(x):
    t = x.T * 2
    return t + np.concatenate([np.ones((len(t), 1)), t[:, :-1]], axis=1)


@kernel(x="f32[N, M]", sizes=[dict(N=4, M=5), dict(N=33, M=7), dict(N=2, M=65)])
def conditional(x):
    n, m = x.shape
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    mean = np.where(i != j, x, 0).sum(1) / (i != j).sum(1)
    most = np.where(x < 0.5, x, -np.inf).max(1)
    return mean, most, (x > -1).all(1), ((x > 1) & (j > i)).any(1)


@kernel(x="i8[N, M] in -128 128", sizes=[dict(N=4, M=5), dict(N=3, M=200)])
def integers(x):
    n, m = x.shape
    wide = x.astype(np.int32)
    product = np.prod(wide + 0, axis=1, dtype=np.int32) + 1
    return (wide.sum(1, dtype=np.int32), product, x.min(1),
            np.arange(n)[:, None] * 100.0 + np.arange(m)[None, :])


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=70)])
def in_function(x):
    p = np.pad(x, 1)
    return p[:-2] * 0.25 + x * 0.5 + p[2:] * 0.25


@kernel(x="f32[B, M, K]", w="f32[B, K, N]", sizes=[dict(B=3, M=4, K=5, N=6)])
def matrix_each(x, w):
    return x @ w


@kernel(x="f32[M, N]", sizes=[dict(M=4, N=5), dict(M=3, N=130)])
def rows_whole(x):
    return x - x.mean(1, keepdims=True), x.T * 2


@kernel(x="f32[N]", sizes=[dict(N=2), dict(N=3), dict(N=130)])
def inner(x):
    y = np.zeros_like(x)
    y[1:-1] = x[:-2] + x[2:]
    return y


@kernel(x="f32[N]", to="i32[N] in 0 4", sizes=[dict(N=9, M=30), dict(N=20, M=100)])
def scattered(x, to, M):
    y = np.full(M, -1.0)
    for i, k in enumerate(to + 4 * np.arange(len(x))):
        if 0 <= k < M:
            y[k] = x[i]
    return y, x[None, :] - x[:, None]


@kernel(x="f32[N, D]", c="f32[K, D]", sizes=[dict(N=5, D=3, K=4), dict(N=33, D=17, K=9)])
def nearest(x, c):
    return ((x[:, None, :] - c[None]) ** 2).sum(2).min(1)


@kernel(x="f32[M]", y="f32[N]", sizes=[dict(M=3, N=5), dict(M=130, N=33)])
def outer(x, y):
    return np.outer(x, y) + np.arange(len(x))[:, None] - np.arange(len(y))[None, :]
