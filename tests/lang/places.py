# SPDX-License-Identifier: Apache-2.0
"""References of inputs/places.tile."""

import numpy as np

from lang import kernel

SEGMENTS = [dict(R=0, D=8, E=2), dict(R=1, D=8, E=1), dict(R=70, D=20, E=5), dict(R=33, D=8, E=0)]


def segments(at, rows):
    return [(e, max(int(lo), 0), min(int(hi), rows)) for e, (lo, hi) in enumerate(zip(at, at[1:]))]


@kernel(x="f32[R, D]", at="i64[E + 1] in -3 R+5 rising", s="f32[E]", sizes=SEGMENTS)
def scaled(x, at, s):
    y = -x
    for e, lo, hi in segments(at, len(x)):
        y[lo:hi] = x[lo:hi] * s[e]
    return y


@kernel(x="f32[R]", first="i32[E] in 0 R rising", most="i32[E] in -5 2",
        sizes=[dict(R=200, E=3), dict(R=40, E=7)])
def ends(x, first, most):
    y = 0 * x - 1
    for e, (lo, n) in enumerate(zip(first, most)):
        if n > 0:
            y[lo:lo + n] = x[lo:lo + n] + e
    return y


@kernel(x="f32[N]", to="i64[N] permuted", sizes=[dict(N=n) for n in (0, 1, 31, 200)])
def scattered(x, to):
    y = np.full_like(x, -1)
    y[to] = x
    return y


@kernel(x="f32[N, D]", to="i64[N] permuted", sizes=[dict(N=n, D=20) for n in (0, 1, 70)])
def rows_to(x, to):
    y = np.zeros_like(x)
    y[to] = 2 * x
    return y


@kernel(x="f32[E, N]", at="i64[E] permuted", sizes=[dict(E=3, N=1), dict(E=1, N=33)])
def packed(x, at):
    y = np.zeros(x.size)
    for e, row in enumerate(x):
        room = y[at[e]:at[e] + len(row)]
        room[:] = row[:len(room)]
    return y


@kernel(x="f32[E, N]", at="i64[E + 1] in 0 R rising", sizes=[dict(E=4, N=70, R=66)])
def ragged(x, at, R):
    y = np.full(R, 7.0)
    for e, lo, hi in segments(at, R):
        y[lo:hi] = x[e, :max(hi - lo, 0)]
    return y


@kernel(x="f32[R, K]", w="f32[E, K, N]", at="i64[E + 1] in -3 R+5 rising", tolerance=2e-4,
        sizes=[dict(R=1, K=5, N=7, E=1), dict(R=130, K=33, N=40, E=5), dict(R=64, K=0, N=33, E=2)])
def grouped(x, w, at):
    y = np.full((len(x), w.shape[2]), -5.0)
    for e, lo, hi in segments(at, len(x)):
        y[lo:hi] = np.maximum(x[lo:hi] @ w[e], 0)
    return y


@kernel(x="f32[B, 16 * P, D]", table="i64[B, P] permuted",
        sizes=[dict(B=2, D=8, P=3), dict(B=1, D=20, P=1), dict(B=3, D=8, P=0)])
def cached(x, table):
    batches, pages = table.shape
    cache = np.zeros((batches * pages + 1, 16, x.shape[2]))
    for b in range(batches):
        for s in range(16 * pages):
            cache[table[b, s // 16], s % 16] = x[b, s]
    return cache


@kernel(x="f32[R]", at="i64[E + 1] in -3 R+5 rising", s="f32[E]",
        sizes=[dict(R=1, E=1), dict(R=100, E=5)])
def parts(x, at, s):
    y = -x
    for e, lo, hi in segments(at, len(x)):
        y[lo:hi] = x[lo:hi] * s[e]
    return y, y, y


@kernel(x="f32[T, D]", w="f32[E, D, D]", expert="i64[T, 2] in 0 E", gate="f32[T, 2]",
        tolerance=2e-4, sizes=[dict(T=33, D=16, E=4), dict(T=1, D=16, E=3)])
def dispatched(x, w, expert, gate):
    return np.einsum("tk,td,tkdn->tn", gate, x, w[expert])
