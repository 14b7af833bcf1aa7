# SPDX-License-Identifier: Apache-2.0
"""References of inputs/values.tile."""

import numpy as np

from lang import kernel

SIZES = [dict(N=1), dict(N=7), dict(N=70)]


def saturated(x, dtype):
    info = np.iinfo(dtype)
    return np.clip(np.trunc(x), info.min, info.max).astype(np.int64).astype(dtype)


@kernel(x="f32[N]", n="i32[N] in -1000 1000", sizes=SIZES)
def casts(x, n):
    scaled, large = (np.asarray(x, np.float32) * np.float32(k) for k in (100, 1e9))
    return (saturated(scaled, np.int8), saturated(scaled, np.uint8),
            saturated(np.asarray(large, np.float64), np.int32), n.astype(np.int8),
            n.astype(np.uint8), (n > 0).astype(np.float32))


def shifted(values, by, bits, left):
    """As Python's whole numbers do it: by the width or more, or backwards, all bits go."""
    out = []
    for value, count in zip(values.tolist(), by.tolist()):
        gone = not 0 <= count < bits
        out.append((0 if gone else value << count) if left else value >> (63 if gone else count))
    return np.array(out, dtype=np.int64).astype(values.dtype)


@kernel(n="i32[N] in -100000 100000", u="u16[N] in 0 60000", k="i32[N] in -4 40", sizes=SIZES)
def shifts(n, u, k):
    return (shifted(n, k, 32, True), shifted(n, k, 32, False), shifted(u, k, 16, True),
            shifted(u, k, 16, False))


@kernel(x="f32[N]", y="f32[N]", n="i32[N] in -50 50", m="i32[N] in -3 4", sizes=SIZES)
def rests(x, y, n, m):
    by = np.where(y > 1, 0, np.where(y < -1, np.inf, y)).astype(np.float32)
    zero = m == 0
    whole = np.where(zero, 1, m)
    return (np.float32(x) % by, np.where(zero, 0, n % whole).astype(np.int32),
            np.where(zero, 0, n // whole).astype(np.int32))
