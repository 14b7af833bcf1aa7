# SPDX-License-Identifier: Apache-2.0
"""References of inputs/conv.tile."""

import numpy as np

from lang import kernel

SMALL = dict(B=2, H=6, W=7, C=3, O=4, R=3, S=2)
WIDE = dict(B=1, H=9, W=17, C=33, O=18, R=3, S=3)


def conv(x, w, b, stride, pad):
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[1:3], (1, 2))
    return np.maximum(np.einsum("npqcrs,orsc->npqo", view[:, ::stride, ::stride], w) + b, 0)


@kernel(x="f32[B, H, W, C]", w="f32[O, R, S, C]", b="f32[O]", set="T=f32", sizes=[SMALL, WIDE])
def conv2d(x, w, b):
    return conv(x, w, b, 1, 0)


@kernel(x="f32[B, H, W, C]", w="f32[O, R, S, C]", b="f32[O]", set="T=f32,stride=2,pad=1",
        sizes=[SMALL, WIDE, {**SMALL, "H": 1}])
def conv2d_(x, w, b):
    return conv(x, w, b, 2, 1)


@kernel(x="f32[H, W]", sizes=[dict(H=5, W=8), dict(H=2, W=3), dict(H=33, W=130)])
def pool(x):
    return np.lib.stride_tricks.sliding_window_view(x, (2, 2))[::2, ::2].max((2, 3))


@kernel(x="f32[H, W]", set="R=3,stride=5", sizes=[dict(H=5, W=8), dict(H=33, W=130)])
def pool_(x):
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::5, ::5].max((2, 3))


@kernel(x="f32[H, W, C]", w="f32[3, 3, C]", set="dilation=2", sizes=[dict(H=5, W=8, C=3)])
def depthwise(x, w):
    p = np.pad(x, ((2, 2), (2, 2), (0, 0)))
    h, v, _ = x.shape
    return sum(p[2 * r:2 * r + h, 2 * s:2 * s + v] * w[r, s] for r in range(3) for s in range(3))


@kernel(x="f32[L, G, C]", w="f32[G, O, R, C]", sizes=[dict(L=9, G=2, C=3, O=4, R=3)])
def grouped(x, w):
    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[2], 0)
    return np.einsum("lgcr,gorc->lgo", view, w)


@kernel(x="f32[N]", sizes=[dict(N=0), dict(N=1), dict(N=7), dict(N=130)])
def halves(x):
    n = len(x) // 2
    return x[:2 * n:2] + x[1:2 * n:2]


@kernel(x="f32[L]", w="f32[R]", sizes=[dict(L=5, R=3), dict(L=33, R=4)])
def transposed(x, w):
    y = np.zeros(2 * len(x) + len(w))
    for i, v in enumerate(x):
        y[2 * i:2 * i + len(w)] += v * w
    return y


@kernel(x="f32[N]", sizes=[dict(N=5), dict(N=33)])
def stretched(x):
    return np.repeat(x, 3) * (np.arange(3 * len(x)) % 3)


@kernel(x="f32[N, C, H, W]", w="f32[O, C, R, S]",
        sizes=[dict(N=1, C=1, H=3, W=3, O=1, R=3, S=3), dict(N=2, C=20, H=7, W=9, O=5, R=3, S=2)])
def channels(x, w):
    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("ncpqrs,ocrs->nopq", view, w)


@kernel(x="f32[A, D, 8]", w="f32[D, 8, B, C]",
        sizes=[dict(A=1, D=1, B=1, C=1), dict(A=33, D=20, B=3, C=17)])
def several(x, w):
    return np.einsum("ade,debc->abc", x, w)
