# SPDX-License-Identifier: Apache-2.0
"""References of inputs/control.tile."""

import numpy as np

from lang import kernel


@kernel(cx="f32[N] in -2 1", cy="f32[N] in -1 1", most="i64 in 20 21",
        sizes=[dict(N=0), dict(N=1), dict(N=33), dict(N=130)])
def mandel(cx, cy, most):
    f = np.float32
    n = np.zeros(len(cx), np.int32)
    for i in range(len(cx)):
        x = y = f(0)
        # fma as the language rounds it: once
        while f(np.float64(x) * x + f(y * y)) < 4 and n[i] < most:
            t = f(f(np.float64(x) * x - f(y * y)) + f(cx[i]))
            y = f(np.float64(f(2 * x)) * y + cy[i])
            x = t
            n[i] += 1
    return n, np.where(n > 3, 1.0, np.where(n > 1, 2.0, 3.0))


@kernel(start="i64[R] in 0 Z", ends="i64[R] in 0 Z+1", col="i32[Z] in -1 C", val="f32[Z]",
        x="f32[C]", sizes=[dict(R=7, Z=20, C=9), dict(R=40, Z=90, C=30)])
def csr(start, ends, col, val, x):
    y = np.zeros(len(start))
    for r in range(len(start)):
        for k in range(start[r], ends[r]):
            if col[k] < 0:
                break
            y[r] += val[k] * x[col[k]]
    return y


@kernel(x="f32[N]", flag="bool", n="i64 in 0 9",
        sizes=[dict(N=1), dict(N=5), dict(N=6), dict(N=130), dict(N=131), dict(N=132)])
def uniform(x, flag, n):
    a, k = (x + 1 if flag else x * 3), 0
    while k < n:
        a, k = a * 0.5, k + 1
        if k > 5:
            break
        a = a + 1
    return a - min(n, 3)


@kernel(x="f32[M, N]", sizes=[dict(M=3, N=5), dict(M=33, N=20)])
def rows(x):
    y = np.zeros(len(x))
    for i, row in enumerate(x):
        for v in row:
            if v > 1:
                break
            y[i] += v
    return y


@kernel(x="f32[M, N]", sizes=[dict(M=3, N=5), dict(M=33, N=20), dict(M=0, N=2), dict(M=2, N=0)])
def masked(x):
    y = np.full(x.shape, -1.0)
    for i, row in enumerate(x):
        kept = [v * 10 if v > 1 else v for v in row if v > 0]
        y[i, :len(kept)] = kept
    return y, (x > 0).sum(1)


@kernel(x="i64[N] in -3 40", sizes=[dict(N=1), dict(N=65)])
def collatz(x):
    y = np.full(len(x), -1)
    for i, n in enumerate(x):
        if n > 0:
            y[i] = 0
            while n != 1:
                n, y[i] = (n // 2 if n % 2 == 0 else 3 * n + 1), y[i] + 1
    return y


@kernel(x="f32[M, N]", k="i64[M] in -1 9", sizes=[dict(M=3, N=5), dict(M=33, N=7)])
def nested(x, k):
    y = np.zeros(len(x))
    for i, row in enumerate(x):
        for a in range(k[i]):
            p = 1.0
            for v in row:
                if v < -1:
                    break
                p += v * (a + 1)
            if p > 50:
                break
            y[i] += p
    return y


@kernel(x="f32[N] in 0.5 90", sizes=[dict(N=1), dict(N=33)], tolerance=1e-3)
def newton(x):
    return np.sqrt(x)


@kernel(a="f32[B, N, N]", x="f32[B, N]", n="i64[B] in 0 5", sizes=[dict(B=3, N=4)])
def power(a, x, n):
    lower = np.where(np.tril(np.ones(a.shape[1:], bool)), a, -np.inf).max(2)
    return (x * lower).sum(1) * n


@kernel(x="i64[N] in -6 7", sizes=[dict(N=1), dict(N=30)])
def ended(x):
    y, z = np.zeros(len(x), np.int64), np.zeros((len(x), 8), np.int64)
    for i, n in enumerate(x):
        while n > 0:
            y[i] += n
            z[i, n] = y[i]
            y[i] += sum(range(n, 4))
            n -= 1
    return y, z


@kernel(x="f32[M, N]", n="i64 in 0 9", sizes=[dict(M=1, N=1), dict(M=3, N=8), dict(M=33, N=9)])
def skips(x, n):
    y, w = np.zeros(len(x)), np.zeros(len(x))
    for i, row in enumerate(x):
        for v in row:
            if v < 0:
                continue
            y[i] += v
            if v > 1.5:
                break
            y[i] += 1
        w[i] = sum(k for k in range(1, len(row) + 1) if not (k % 2 == 0 and row[0] > 0))
    z = sum(t for t in range(min(n, 7)) if t % 3)
    c = 0
    for k in range(1, n + 1):
        c += sum(t != 2 for t in range(k)) + (100 if k != 4 else 0)
    return y, np.full(x.shape[1], z), w, np.full(x.shape[1], c, np.int32)


@kernel(x="f32[N]", ids="i64[M] in 0 N", n="i64 in 1 N+1",
        sizes=[dict(N=1, M=1), dict(N=20, M=7), dict(N=33, M=300)])
def promised(x, ids, n):
    z = np.zeros(len(ids))
    z[ids % len(ids)] = 1
    return x[ids] * 2, z, x[n - 1:n]


@kernel(x="f32[N]", first="i64[R] in 0 N", ends="i64[R] in 0 N+1",
        sizes=[dict(N=40, R=7), dict(N=130, R=131)])
def switched(x, first, ends):
    y = [x[a:b][x[a:b] >= 0].sum() for a, b in zip(first, ends)]
    return np.array(y) + np.concatenate([[0], x[:len(y) - 1]])


@kernel(p="f32[N]", q="f32[N]", sizes=[dict(N=0), dict(N=1), dict(N=33), dict(N=4097)])
def renamed(p, q):
    return q, 2 * (p + 1), p, p + 1, np.array([np.abs(p + 1).sum()])
