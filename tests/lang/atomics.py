# SPDX-License-Identifier: Apache-2.0
"""References of inputs/atomics.tile."""

import numpy as np

from lang import kernel

SIZES = [dict(N=0, K=3), dict(N=1, K=1), dict(N=200, K=7), dict(N=33, K=70)]


@kernel(x="i32[N] in -1 K+1", sizes=SIZES)
def histogram(x, K):
    return np.bincount(x[(x >= 0) & (x < K)], minlength=K).astype(np.int32)


@kernel(x="i32[N, M] in 0 K", v="f32[N, M]", sizes=[dict(N=5, M=7, K=3)])
def whole(x, v, K):
    return np.bincount(x.ravel(), v.ravel(), K)


@kernel(key="i32[N] in 0 K", x="i32[N] in 0 64", sizes=SIZES)
def extremes(key, x, K):
    lo, hi, bits, odd = (np.full(K, v, np.int32) for v in (1000, -1000, 0, -1))
    np.minimum.at(lo, key, x)
    np.maximum.at(hi, key, x)
    np.bitwise_or.at(bits, key, x)
    np.bitwise_and.at(odd, key[x % 2 != 0], x[x % 2 != 0])
    return lo, hi, bits, odd


@kernel(x="f32[N]", sizes=[dict(N=1), dict(N=200)])
def tickets(x):
    n = int((x > 0).sum())
    return np.array([n]), np.where(x > 0, 1, -1), np.array([n * (n - 1) // 2])


@kernel(x="i32[N] in 0 9", sizes=[dict(N=1), dict(N=33)])
def exchanged(x):
    i = np.arange(len(x), dtype=np.int32)
    return x[::-1], i[::-1], np.where(x == i, 77, i), i


@kernel(x="f32[N]", at="i64[N] in 0 K+4", sizes=[dict(N=40, K=7)])
def edges(x, at, K):
    y = np.zeros((K, 2))
    inside = (at >= 2) & (at < K + 2)
    np.add.at(y, at[inside] - 2, x[inside, None] * np.array([1, 2]))
    return y


@kernel(x="i32[N] in -1 17", v="f32[N]", u="f64[N]", sizes=[dict(N=0), dict(N=1), dict(N=5000)])
def small(x, v, u):
    h, hi = np.arange(16) * 1000000007, np.full(12, -9000000000000)
    octets = np.add.outer(np.arange(5), np.arange(7)).astype(np.uint8)
    shorts, odd = np.full(9, 32000, np.int16), np.full(4, 7, np.uint32)
    lo, sums, twice = np.full(12, 0.5), np.full(3, -0.0), np.zeros(6, np.int64)
    wide = x.astype(np.int64)
    inside = (x >= 0) & (x < 16)
    np.add.at(h, x[inside], 1)
    np.add.at(octets, (x % 5, x % 7), (x % 256).astype(np.uint8))
    np.add.at(shorts, x % 9, np.int16(1000))
    at = (v * np.float32(4)).astype(np.int64)
    near = (at >= 0) & (at < 12)
    np.minimum.at(lo, at[near], v[near])
    near = (x >= 0) & (x < 12)
    np.maximum.at(hi, x[near], wide[near] << 40)
    np.bitwise_xor.at(odd, x % 4, (x + 1000).astype(np.uint32))
    np.add.at(sums, x[u > 0] % 3, u[u > 0])
    for k in range(3):
        np.add.at(twice, (x + k) % 6, k - 1)
    return h, octets, shorts, lo, hi, odd, sums, twice
