# SPDX-License-Identifier: Apache-2.0
"""References of inputs/flat.tile."""

import math

import numpy as np

from lang import kernel

ROWS = [dict(B=1, S=1, K=1, N=1), dict(B=6, S=5, K=70, N=40), dict(B=3, S=0, K=4, N=5)]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


@kernel(x="f32[B, S, K]", w="f32[K, N]", b="f32[N]", sizes=ROWS, tolerance=2e-3)
def rows(x, w, b):
    return gelu(x @ w + b)


@kernel(x="f16[N, P, Q, C]", w="f16[C, O]", r="f32[N, P, Q, O]", tolerance=2e-3,
        sizes=[dict(N=1, P=1, Q=1, C=1, O=1), dict(N=3, P=5, Q=7, C=33, O=20)])
def pointwise(x, w, r):
    return x @ w + r * 0.5


@kernel(x="f32[A, D, E]", w="f32[D, E, B, C]",
        sizes=[dict(A=1, D=1, E=1, B=1, C=1), dict(A=33, D=3, E=17, B=5, C=7)])
def columns(x, w):
    return np.einsum("ade,debc->abc", x, w)


@kernel(x="f32[B, S, K]", w="f32[K, N]", b="f32[S, 1]", c="f32[B, 1, N]", sizes=ROWS)
def beside(x, w, b, c):
    return x @ w * b + c


@kernel(x="f32[N, N]", w="f32[N, N]", sizes=[dict(N=1), dict(N=17)])
def itself(x, w):
    return (x[:, None] + x[None]) @ w


@kernel(x="f32[S, B, K]", w="f32[K, N]", sizes=ROWS)
def turned(x, w):
    return x.transpose(1, 0, 2) @ w


@kernel(x="f32[A, B, C, D, K]", w="f32[K, N]", m="f32[A, B, C, D, N]",
        sizes=[dict(A=2, B=3, C=4, D=5, K=6, N=7)])
def four(x, w, m):
    return np.where(m > 0, x @ w, m)
