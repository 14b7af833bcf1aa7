# SPDX-License-Identifier: Apache-2.0
"""References of inputs/sorting.tile."""

import numpy as np

from lang import kernel

SIZES = [dict(N=n) for n in (0, 1, 5, 4097, 100003)]


def order(x):
    return np.argsort(x, axis=-1, kind="stable")


@kernel(x="f32[N]", sizes=SIZES)
def row(x):
    return np.sort(x), order(x)


@kernel(x="i32[M, N]", sizes=[dict(M=0, N=5), dict(M=3, N=0), dict(M=70, N=1), dict(M=3, N=65),
                              dict(M=2, N=9001)])
def rows(x, M, N):
    median = np.sort(x)[:, (N - 1) // 2, None] if N else np.zeros((M, 1), np.int32)
    return np.sort(x), order(x), order(order(x)), median


@kernel(k="i32[N] in 0 10", sizes=SIZES)
def ties(k):
    with np.errstate(all="ignore"):
        low = (k % 4) * (k % 4 - 1)
        x = np.where(k < 6, -1.0, 1.0) / low.astype(np.float64)
    x = np.select([k == 0, k == 1, k == 2], [-0.0, 0.0, np.nan], x)
    y = x[order(x)]
    return order(x), np.signbit(y) & ~np.isnan(y), np.isnan(y)


@kernel(a="i64[N]", b="u64[N]", c="f64[N]", sizes=[dict(N=5), dict(N=4097)])
def wide(a, b, c):
    with np.errstate(over="ignore"):
        return (np.sort(a * np.int64(123456789012345)),
                np.sort(b * np.uint64(1234567890123456789)), np.sort(c))


@kernel(a="i8[N]", b="u8[N]", c="i16[N] in -30000 30000", d="f16[N]",
        sizes=[dict(N=5), dict(N=4097)])
def narrow(a, b, c, d):
    return np.sort(a), order(b), order(c), np.sort(d)


@kernel(x="f32[M, N]", sizes=[dict(M=3, N=24), dict(M=2, N=100), dict(M=2, N=5003)])
def largest(x):
    at = order(-x)[:, :24]
    return np.take_along_axis(x, at, 1), at


@kernel(x="f32[M, N]", z="f32[M, N]", sizes=[dict(M=3, N=7), dict(M=2, N=5000)])
def computed(x, z):
    y = np.sort(np.sort((x * z).astype(np.float32)) + x)
    z = np.sort(z)
    return z, y, np.sort(x - z)


@kernel(x="f32[M, 20]", n="i64 in 3 4", sizes=[dict(M=1), dict(M=33)])
def again(x, n):
    for _ in range(int(n)):
        x = np.sort(-x) * 0.5
    return x


@kernel(x="f32[A, B, C]", sizes=[dict(A=2, B=3, C=70), dict(A=1, B=2, C=4100)])
def deep(x):
    return np.sort(x)
