# SPDX-License-Identifier: Apache-2.0
"""References of inputs/together.tile."""

import arrays
import numpy as np

from lang import kernel


def shifted(x):
    """The four neighbours, 0 outside."""
    p = np.pad(x, 1)
    return p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]


@kernel(x="i32[H, W] in 0 2", sizes=[dict(H=1, W=1), dict(H=17, W=33)])
def life(x):
    h, w = x.shape
    p = np.pad(x, 1)
    n = sum(p[r:r + h, s:s + w] for r in range(3) for s in range(3)) - x
    return ((n == 3) | ((n == 2) & (x == 1))).astype(np.int32)


@kernel(x="f32[H, W]", n="i64 in 3 4", sizes=[dict(H=5, W=6), dict(H=33, W=18)])
def jacobi(x, n):
    for _ in range(n):
        x = 0.25 * sum(shifted(x))
    return x


@kernel(x="f32[M, N]", f="bool[M]", sizes=[dict(M=5, N=6), dict(M=33, N=18)])
def signs(x, f):
    return np.where(f[:, None], x * 2, -x)


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=70)])
def ranked(x):
    return np.sort(x)


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=70)])
def inplace(x):
    return x * 2 + np.append(0, x[:-1])


@kernel(q="f32[M, D]", x="f32[N, D]", sizes=[dict(M=3, N=40, D=5), dict(M=33, N=7, D=17)])
def knn(q, x):
    d = ((q[:, None] - x[None]) ** 2).sum(2)
    return d.min(1), d.argmin(1)


@kernel(p="f32[L, S]", t="f32[S, S]", sizes=[dict(L=4, S=5), dict(L=9, S=33)])
def viterbi(p, t):
    a = np.zeros(len(t))
    for row in p:
        a = (a[:, None] + t).max(0) + row
    return a


@kernel(x="f32[M, N]", w="f32[16]", q="f32[M, N]", sizes=[dict(M=33, N=70), dict(M=5, N=16)])
def tiled(x, w, q):
    return x[:, :16] @ w, q * 2 + np.arange(1, x.shape[1] + 1)


@kernel(x="f32[N, N]", sizes=[dict(N=1), dict(N=20)])
def triangle(x):
    return np.cumsum(np.tril(x).sum(1))


@kernel(x="f32[N]", n="i64 in 0 4", flag="bool", sizes=[dict(N=k) for k in (1, 2, 3, 4, 70)])
def repeated(x, n, flag):
    y = (x + 1) * 2.0**n + 1
    return (y * 3 if flag else y) - 1


@kernel(x="f32[N]", flag="bool", n="i64 in 0 4", sizes=[dict(N=k) for k in (1, 2, 3, 4, 70)])
def either(x, flag, n):
    z = x.copy() if flag else np.full(len(x), 7.0)
    z[:n] = -1
    return (x if flag else -x), z


def to_tf32(x):
    bits = np.asarray(x, np.float32).view(np.int32)
    return ((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fff).view(np.float32).astype(np.float64)


@kernel(x="f32[M, K]", w="f32[K, N]", p="bf16[M, K]",
        sizes=[dict(M=1, K=1, N=1), dict(M=7, K=33, N=20), dict(M=130, K=65, N=40)])
def precise(x, w, p):
    half = w.astype(np.float16).astype(np.float64)
    return (x @ w, to_tf32(x) @ to_tf32(w),
            arrays.round_to("bf16", x).astype(np.float64) @
            arrays.round_to("bf16", w).astype(np.float64), p @ half)


@kernel(x="f64[N]", k="i64[N]", u="u8[M, N]", tolerance=0,
        sizes=[dict(N=2, M=1), dict(N=33, M=5), dict(N=130, M=3)])
def ordered(x, k, u):
    at = np.argsort(-u.astype(np.int64), axis=1, kind="stable")[:, :2]
    return (np.sort(np.float64(1) + x * 1e-12), np.argsort(k, kind="stable"),
            np.take_along_axis(u, at, 1), at)


@kernel(x="f32[N, 2*D]", sizes=[dict(N=5, D=0), dict(N=0, D=3), dict(N=7, D=1), dict(N=9, D=33)])
def turned(x):
    return np.stack([-x[:, 1::2], x[:, ::2]], axis=2).reshape(x.shape)
