# SPDX-License-Identifier: Apache-2.0
"""References of inputs/folds.tile."""

import numpy as np

from lang import kernel

SIZES = [dict(M=3, N=5), dict(M=33, N=7), dict(M=2, N=130), dict(M=1, N=1)]
EMPTY = [dict(M=0, N=5), dict(M=3, N=0), dict(M=0, N=0)]


@kernel(x="f32[M, N]", sizes=SIZES)
def sums(x):
    return (x.sum(1, keepdims=True), x.max(0, keepdims=True), x.var(1, keepdims=True),
            x.std()[None], x.mean(1, keepdims=True))


@kernel(x="f32[M, N]", sizes=SIZES + EMPTY)
def tests(x):
    return (x > 1).any(1, keepdims=True), (x > -1).all(0, keepdims=True), (x > -9).all()[None]


@kernel(x="f32[M, N]", sizes=SIZES)
def best(x):
    positive = np.where(x > 0, x, np.inf)
    return (x.argmax(1)[:, None], x.argmin(0)[None], x.argmax()[None], x.argmax(1),
            np.where((x > 0).any(1), positive.argmin(1), -1))


@kernel(x="i32[M, N] in 0 3", sizes=SIZES)
def ties(x):
    return x.argmax(1)[:, None], x.argmin(1)[:, None], x.argmin()[None]


@kernel(x="f32[M, N]", sizes=SIZES + EMPTY)
def running(x):
    after = np.cumsum(x[:, ::-1], 1)[:, ::-1] - x
    return (np.cumsum(x, 1), np.maximum.accumulate(x, 0), after,
            np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1])


@kernel(x="i8[N] in -3 4", sizes=[dict(N=1), dict(N=200)])
def counted(x):
    wide = x.astype(np.int32)
    with np.errstate(over="ignore"):
        product = np.cumprod(np.append(1, wide[:-1]), dtype=np.int32)
    return np.cumsum(wide, dtype=np.int32), product


@kernel(x="f32[M, N]", sizes=SIZES + EMPTY)
def lanes_scan(x):
    return np.cumsum(x * 2, 1)


@kernel(x="f32[M, N]", sizes=SIZES)
def by_function(x):
    return x.max(1, keepdims=True), x.max()[None], np.maximum.accumulate(x, 0)


@kernel(x="f32[M, N]", sizes=SIZES)
def moments(x):
    return x.mean(1, keepdims=True), x.var(1, keepdims=True)


@kernel(a="f32[N] in -1 1", b="f32[N]", sizes=[dict(N=1), dict(N=33), dict(N=257)])
def recurrence(a, b):
    y, z = np.zeros(len(a)), np.zeros(len(a))
    for i in range(len(a)):
        y[i] = (y[i - 1] if i else 0) * a[i] + b[i]
    for i in range(len(a)):
        for k in range(i + 1, len(a)):
            z[i] = z[i] * a[k] + b[k]
    return y, z


@kernel(x="f32[N]", sizes=[dict(N=5)])
def tuples(x):
    return (2 * x + 1) * 2, x + 1


@kernel(x="f32[N]", sizes=[dict(N=5), dict(N=0)])
def returned(x):
    return x * 2, x


@kernel(x="f32[M, N]", dy="f32[M, N]",
        sizes=[dict(M=5, N=7), dict(M=1031, N=70), dict(M=3000, N=33), dict(M=0, N=3)])
def activation_backward(x, dy):
    dx = dy * (1 - np.tanh(x) ** 2)
    return dx, dx.sum(0)


@kernel(x="f32[B, M, N]",
        sizes=[dict(B=1, M=500, N=150), dict(B=3, M=401, N=77), dict(B=2, M=3, N=1)])
def centered_rows(x):
    d = x - x.max(2, keepdims=True)
    return d, d.sum(1), d.max((0, 1))[None], d.sum()[None]
