# SPDX-License-Identifier: Apache-2.0
"""References of inputs/axes.tile."""

import numpy as np

from lang import kernel

MK = [dict(M=5, K=37), dict(M=33, K=7), dict(M=1, K=1), dict(M=70, K=65), dict(M=2, K=0)]
SQUARE = [dict(N=1), dict(N=7), dict(N=37), dict(N=70)]
# A product of up to 70 terms in f32, times another one.
TWO_SUMS = 1e-4


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@kernel(x="f32[M, K]", w="f32[K, 1]", set="T=f32", sizes=MK)
def gate_by_score(x, w):
    return x * sigmoid(x @ w)


@kernel(x="f32[1, N]", sizes=[dict(N=1), dict(N=7), dict(N=300)])
def normalize_row(x):
    return x / np.sqrt(x @ x.T)


@kernel(x="f32[M, K]", y="f32[K]", sizes=MK, tolerance=TWO_SUMS)
def householder(x, y):
    return x - (x @ y[:, None]) * y


@kernel(w="f32[1, M]", x="f32[M, N]", sizes=[dict(M=5, N=37), dict(M=37, N=5), dict(M=1, N=1)])
def two_results(w, x):
    return w @ x, w @ x - x


@kernel(x="bf16[M, K]", w="bf16[K, K]", set="T=bf16", sizes=MK[:4], tolerance=2**-6)
def square_gate(x, w):
    return x * sigmoid(x @ w)


@kernel(x="f32[M, K]", a="f32[K, K]", b="f32[K, K]", sizes=MK, tolerance=TWO_SUMS)
def gated_twice(x, a, b):
    return x + (x @ a) * sigmoid(x @ b)


@kernel(x="f32[M, K]", u="f32[K, 1]", sizes=MK[:4])
def centred_rows(x, u):
    return x - x @ u / x.shape[1]


@kernel(x="f32[M, K]", u="f32[1, M]", sizes=MK)
def centred_columns(x, u):
    return x - u @ x / x.shape[0]


@kernel(x="f32[N, N]", sizes=SQUARE, tolerance=TWO_SUMS)
def centred_gram(x):
    q = x @ x.T
    return (q - q.mean(axis=0) - q.mean(axis=1, keepdims=True) + q.mean(),
            x - x.mean(axis=0) - x.mean(axis=1))


@kernel(x="f32[N, N]", sizes=SQUARE, tolerance=2e-3)
def powers(x):
    return x @ x @ x + x.T @ x


@kernel(x="f32[N, N]", sizes=SQUARE, tolerance=TWO_SUMS)
def grams(x):
    return x.T @ x + x @ x.T


@kernel(x="f32[N, N]", w="f32[N, N]", sizes=SQUARE, tolerance=TWO_SUMS)
def commutator(x, w):
    return x @ w - w @ x, x * w - (x @ w).T


@kernel(x="f32[B, M, K]", w="f32[B, K, 1]", sizes=[dict(B=3, M=5, K=37), dict(B=2, M=1, K=2)])
def gate_of_batches(x, w):
    return x * np.tanh(x @ w)


@kernel(x="f32[B, N, N]", sizes=[dict(B=3, N=7), dict(B=2, N=37)], tolerance=TWO_SUMS)
def square_batches(x):
    return x @ x.swapaxes(1, 2) + x, (x @ x).sum(axis=0)


@kernel(x="f32[N, N]", sizes=SQUARE, tolerance=TWO_SUMS)
def by_index(x):
    return x - x @ x, (x * x.T).sum(axis=1)


@kernel(x="f32[N, N]", sizes=SQUARE, tolerance=TWO_SUMS)
def less_its_trace(x):
    return x - x.trace() * x.T


@kernel(x="f32[M, K]", w="f32[K, 1]", sizes=MK, tolerance=1e-3)
def scanned(x, w):
    t = x.cumsum(axis=1)
    return t * (t @ w), t @ w


@kernel(x="f32[M, K]", w="f32[K, 1]", sizes=MK, tolerance=1e-3)
def scan_of_gate(x, w):
    return (x * (x @ w)).cumsum(axis=1) - x @ w


@kernel(x="f32[M, K]", w="f32[K, K]", sizes=MK[:4], tolerance=TWO_SUMS)
def softmax_gate(x, w):
    return x * softmax(x @ w)


@kernel(x="f32[M, K]", w="f32[K, N]", sizes=[dict(M=5, K=37, N=70), dict(M=37, K=37, N=37)],
        tolerance=TWO_SUMS)
def largest_beside(x, w):
    most = x.max(axis=1, keepdims=True)
    return x @ w - most, x - most


# A gate of a gate: what the first one is off by is multiplied by K.
@kernel(x="f32[M, K]", w="f32[K, 1]", n="i64 in 0 4", sizes=MK[:4], tolerance=1e-2)
def repeated(x, w, n):
    for _ in range(n):
        x = np.tanh(x * (x @ w))
    return x


@kernel(x="f32[M, K]", w="f32[K, 1]", n="i64 in 0 6", sizes=MK[:4], tolerance=TWO_SUMS)
def chosen(x, w, n):
    return (x @ w if n > 2 else x.sum(axis=1, keepdims=True)) * x


@kernel(x="f32[M, K]", y="f32[M, 1]", w="f32[K, 1]", sizes=MK[:4], tolerance=TWO_SUMS)
def least_squares(x, y, w):
    e = x @ w - y
    return x.T @ e, e, w - 0.01 * (x.T @ e)


@kernel(x="f32[B, C, D, H, W]", w="f32[G, J, C, K, R, S]", tolerance=1e-3,
        sizes=[dict(B=2, C=3, D=9, H=8, W=10, G=3, J=2, K=3, R=3, S=3)])
def nine_axes(x, w):
    parts = np.lib.stride_tricks.sliding_window_view(x, w.shape[3:], axis=(2, 3, 4))
    return np.einsum("ncdpqkrs,gjckrs->ng", parts, w)
