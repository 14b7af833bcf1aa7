#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of the standard library against NumPy, in float64.

A row is the function's call, what it is made of and the same in NumPy; each becomes a kernel and is
run with the interpreter's check, on sizes with tails. Prints `N passed, N failed`."""

import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402
import suite  # noqa: E402

ARGUMENTS = {"x": "f32[M, N]", "y": "f32[M, N]", "z": "f32[M, N]", "w": "f32[N]", "b": "f32[N]",
             "p": "f32[M, N]", "q": "f32[M, N]", "s": "f32[M, N]", "v": "f32[N]", "t": "i64[M]",
             "g": "f32[B, L, 8]", "c": "f32[8]"}
SIZES = [{"M": 1, "N": 1, "B": 1, "L": 1}, {"M": 5, "N": 67, "B": 2, "L": 3}]


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axis=-1):
    m = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=axis, keepdims=True)) + m


def normal(x, axis=-1, eps=1e-5):
    d = x - x.mean(axis=axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=axis, keepdims=True) + eps)


def grouped(x, groups):
    g = x.reshape(*x.shape[:2], groups, -1)
    return normal(g, (1, 3)).reshape(x.shape)


def norm(x):
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


def picked(x, t):
    return x[np.arange(len(t)), t]


# call, type of the result, NumPy, tolerance relative to 1 + |value|
ROWS = [
    ("float_of(bits_of(x))", "f32[M, N]", lambda x: x, 0),
    ("f32(bits_of(x) >> 31)", "f32[M, N]", lambda x: np.signbit(x).astype(float), 0),
    ("softmax(x)", "f32[M, N]", lambda x: softmax(x), 1e-5),
    ("softmax(x, axis=0)", "f32[M, N]", lambda x: softmax(x, 0), 1e-5),
    ("softmax_reference(where(x > 0, x, -inf))", "f32[M, N]", lambda x: np.maximum(x, 0), 0),
    ("logsumexp(x)", "f32[M, 1]", lambda x: logsumexp(x), 1e-5),
    ("log_softmax(x)", "f32[M, N]", lambda x: x - logsumexp(x), 1e-5),
    ("moments(x)", "f32[M, 1]", None, 0),
    ("variance(x)", "f32[M, 1]", lambda x: x.var(axis=1, keepdims=True), 1e-5),
    ("variance(fma(x, 1.0, 4096.0), axis=0)", "f32[1, N]",
     lambda x: (x + np.float32(4096)).astype(np.float32).astype(float).var(axis=0, keepdims=True),
     1e-6),
    ("variance(x, axis=0, correction=-1)", "f32[1, N]",
     lambda x: x.var(axis=0, keepdims=True) * len(x) / (len(x) + 1), 1e-5),
    ("standard_deviation(x)", "f32[M, 1]", lambda x: x.std(axis=1, keepdims=True), 1e-5),
    ("layer_norm(x, w, b)", "f32[M, N]", lambda x, w, b: normal(x) * w + b, 1e-4),
    ("rms_norm(x, w)", "f32[M, N]",
     lambda x, w: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * w, 1e-5),
    ("l2_normalize(x)", "f32[M, N]", lambda x: x / norm(x), 1e-5),
    ("batch_norm(x, w, v, b, b)", "f32[M, N]",
     lambda x, w, v, b: (x - w) / np.sqrt(v + 1e-5) * b + b, 1e-3),
    ("group_norm(g, c, c, groups=2)", "f32[B, L, 8]", lambda g, c: grouped(g, 2) * c + c, 1e-4),
    ("instance_norm(g, c, c)", "f32[B, L, 8]", lambda g, c: normal(g, 1) * c + c, 1e-4),
    ("mse(x, y)", "f32[M, N]", lambda x, y: (x - y) ** 2, 1e-6),
    ("l1(x, y)", "f32[M, N]", lambda x, y: np.abs(x - y), 1e-6),
    ("smooth_l1(x, y, 0.5)", "f32[M, N]",
     lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25), 1e-6),
    ("huber(x, y, 0.5)", "f32[M, N]",
     lambda x, y: np.where(abs(x - y) < 0.5, 0.5 * (x - y) ** 2, 0.5 * (abs(x - y) - 0.25)), 1e-6),
    ("cross_entropy(x, t)", "f32[M]", lambda x, t: -picked(x - logsumexp(x), t), 1e-5),
    ("nll(x, t)", "f32[M]", lambda x, t: -picked(x, t), 0),
    ("binary_cross_entropy(p, q)", "f32[M, N]",
     lambda p, q: -(q * np.log(p) + (1 - q) * np.log(1 - p)), 1e-5),
    ("binary_cross_entropy_logits(x, q)", "f32[M, N]",
     lambda x, q: np.maximum(x, 0) - x * q + np.log1p(np.exp(-abs(x))), 1e-5),
    ("kl_div(x, q)", "f32[M, N]", lambda x, q: q * (np.log(q) - x), 1e-5),
    ("hinge(x, s)", "f32[M, N]", lambda x, s: np.maximum(1 - x * s, 0), 1e-6),
    ("soft_margin(x, s)", "f32[M, N]", lambda x, s: np.log1p(np.exp(-x * s)), 1e-5),
    ("poisson_nll(x, q)", "f32[M, N]", lambda x, q: np.exp(x) - q * x, 1e-5),
    ("cosine_similarity(x, y)", "f32[M, 1]",
     lambda x, y: (x * y).sum(axis=1, keepdims=True) / (norm(x) * norm(y)), 1e-5),
    ("triplet(x, y, z)", "f32[M, 1]",
     lambda x, y, z: np.maximum(norm(x - y) - norm(x - z) + 1, 0), 1e-5),
]


def all_of(n, axes):
    return n if isinstance(n, tuple) else (n,) * axes


def padded(x, pads, value=0):
    return np.pad(x, [(0, 0)] + [(p, p) for p in pads] + [(0, 0)], constant_values=value)


def at_tap(tap, step, out, apart):
    return (slice(None), *[slice(t * d, t * d + s * (n - 1) + 1, s)
                           for t, s, n, d in zip(tap, step, out, apart)])


def windows(x, w, axes, stride=1, pad=0, dilation=1):
    """Convolution, channels last: x [B, …, C], w [O, …, C / groups], by its definition."""
    step, apart, taps = all_of(stride, axes), all_of(dilation, axes), w.shape[1:-1]
    x = padded(x, all_of(pad, axes))
    out = [(n - d * (t - 1) - 1) // s + 1
           for n, t, s, d in zip(x.shape[1:-1], taps, step, apart)]
    groups, y = x.shape[-1] // w.shape[-1], []
    for xs, ws in zip(np.split(x, groups, axis=-1), np.split(w, groups)):
        y.append(sum(xs[at_tap(tap, step, out, apart)] @ ws[(slice(None), *tap)].T
                     for tap in np.ndindex(*taps)))
    return np.concatenate(y, axis=-1)


def transposed(x, w, axes, stride=1, pad=0, dilation=1, more=0):
    step, pads, apart, ends = (all_of(n, axes) for n in (stride, pad, dilation, more))
    full = [(n - 1) * s + d * (t - 1) + 1 + e
            for n, t, s, d, e in zip(x.shape[1:-1], w.shape[1:-1], step, apart, ends)]
    groups, y = x.shape[-1] // w.shape[-1], []
    for xs, ws in zip(np.split(x, groups, axis=-1), np.split(w, groups)):
        y.append(np.zeros((x.shape[0], *full, ws.shape[0])))
        for tap in np.ndindex(*w.shape[1:-1]):
            y[-1][at_tap(tap, step, x.shape[1:-1], apart)] += xs @ ws[(slice(None), *tap)].T
    return np.concatenate(y, axis=-1)[
        (slice(None), *[slice(p, n - p) for n, p in zip(full, pads)])]


def pooled(x, axes, fold, size, stride=None, pad=0, outside=0, dilation=1):
    sizes, apart = all_of(size, axes), all_of(dilation, axes)
    step = all_of(stride or size, axes)
    x = padded(x, all_of(pad, axes), outside)
    out = [(n - d * (t - 1) - 1) // s + 1
           for n, t, s, d in zip(x.shape[1:-1], sizes, step, apart)]
    return fold([x[at_tap(tap, step, out, apart)] for tap in np.ndindex(*sizes)], axis=0)


def last(x):
    return np.moveaxis(x, 1, -1)


def first(x):
    return np.moveaxis(x, -1, 1)


def turned(w, groups=1):
    """Filters of a transposed convolution as PyTorch has them, [C, O / groups, …]: [O, …, C]."""
    parts = [np.moveaxis(v, 0, -1) for v in np.split(w, groups)]
    return np.concatenate(parts)


def over_places(x, groups, eps=1e-5):
    """Group norm, channels last: each sample's groups over all places."""
    g = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    return normal(g, (1, 3), eps).reshape(x.shape)


# call, extents of its arguments, of its result, NumPy
WINDOWS = [
    ("conv1d(x, w, stride=2, pad=1)", {"x": (2, 9, 3), "w": (4, 3, 3)}, (2, 5, 4),
     lambda x, w: windows(x, w, 1, 2, 1)),
    ("conv1d(x, w, dilation=2)", {"x": (2, 9, 3), "w": (4, 3, 3)}, (2, 5, 4),
     lambda x, w: windows(x, w, 1, 1, 0, 2)),
    ("conv1d(x, w, 2, 3, 3, groups=2)", {"x": (2, 11, 6), "w": (8, 3, 3)}, (2, 6, 8),
     lambda x, w: windows(x, w, 1, 2, 3, 3)),
    ("conv1d(x, w, 2, 1, channels_first=true)", {"x": (2, 3, 9), "w": (4, 3, 3)}, (2, 4, 5),
     lambda x, w: first(windows(last(x), last(w), 1, 2, 1))),
    ("conv2d(x, w, stride=2, pad=1)", {"x": (2, 9, 7, 3), "w": (4, 3, 3, 3)}, (2, 5, 4, 4),
     lambda x, w: windows(x, w, 2, 2, 1)),
    ("conv2d(x, w, stride=(2, 1), pad=(0, 2), dilation=(1, 3))",
     {"x": (2, 9, 7, 3), "w": (4, 3, 2, 3)}, (2, 4, 8, 4),
     lambda x, w: windows(x, w, 2, (2, 1), (0, 2), (1, 3))),
    ("conv2d(x, w, 2, 1, 2, groups=3, channels_first=true)",
     {"x": (2, 6, 9, 8), "w": (9, 2, 3, 2)}, (2, 9, 4, 4),
     lambda x, w: first(windows(last(x), last(w), 2, 2, 1, 2))),
    ("conv2d(x, w, pad=1, groups=4)", {"x": (2, 5, 6, 4), "w": (8, 3, 3, 1)}, (2, 5, 6, 8),
     lambda x, w: windows(x, w, 2, 1, 1)),
    ("conv3d(x, w, pad=1)", {"x": (1, 4, 5, 6, 2), "w": (3, 3, 3, 3, 2)}, (1, 4, 5, 6, 3),
     lambda x, w: windows(x, w, 3, 1, 1)),
    ("conv3d(x, w, (1, 2, 2), (1, 0, 1), 2, groups=2)",
     {"x": (1, 5, 7, 6, 4), "w": (6, 2, 3, 2, 2)}, (1, 5, 2, 3, 6),
     lambda x, w: windows(x, w, 3, (1, 2, 2), (1, 0, 1), 2)),
    ("conv3d(x, w, 2, groups=2, channels_first=true)",
     {"x": (1, 4, 5, 7, 6), "w": (6, 2, 2, 3, 2)}, (1, 6, 2, 3, 3),
     lambda x, w: first(windows(last(x), last(w), 3, 2))),
    ("grouped_conv1d(x, w, 2, 1, 2)", {"x": (2, 9, 2, 3), "w": (2, 4, 3, 3)}, (2, 4, 2, 4),
     lambda x, w: np.stack([windows(x[:, :, g], w[g], 1, 2, 1, 2) for g in range(2)], axis=2)),
    ("grouped_conv2d(x, w, pad=1)", {"x": (2, 5, 6, 2, 3), "w": (2, 4, 3, 3, 3)}, (2, 5, 6, 2, 4),
     lambda x, w: np.stack([windows(x[:, :, :, g], w[g], 2, 1, 1) for g in range(2)], axis=3)),
    ("grouped_conv_transpose2d(x, w, 2, 1, (1, 2), 1)",
     {"x": (2, 3, 4, 2, 3), "w": (2, 4, 3, 2, 3)}, (2, 6, 8, 2, 4),
     lambda x, w: np.stack([transposed(x[:, :, :, g], w[g], 2, 2, 1, (1, 2), 1)
                            for g in range(2)], axis=3)),
    ("depthwise_conv1d(x, w, dilation=2, channels_first=true)", {"x": (2, 4, 9), "w": (4, 3)},
     (2, 4, 5), lambda x, w: first(windows(last(x), w[..., None], 1, 1, 0, 2))),
    ("depthwise_conv2d(x, w, pad=1)", {"x": (2, 5, 6, 4), "w": (3, 3, 4)}, (2, 5, 6, 4),
     lambda x, w: windows(x, np.moveaxis(w, -1, 0)[..., None], 2, 1, 1)),
    ("depthwise_conv3d(x, w, 2, (1, 0, 1))", {"x": (1, 4, 5, 6, 3), "w": (3, 2, 3, 3)},
     (1, 2, 2, 3, 3),
     lambda x, w: windows(x, np.moveaxis(w, -1, 0)[..., None], 3, 2, (1, 0, 1))),
    ("conv_transpose1d(x, w, stride=2)", {"x": (2, 5, 3), "w": (4, 3, 3)}, (2, 11, 4),
     lambda x, w: transposed(x, w, 1, 2)),
    ("conv_transpose2d(x, w, stride=2, pad=1)", {"x": (2, 5, 4, 3), "w": (4, 3, 3, 3)},
     (2, 9, 7, 4), lambda x, w: transposed(x, w, 2, 2, 1)),
    ("conv_transpose1d(x, w, stride=3)", {"x": (2, 5, 3), "w": (4, 2, 3)}, (2, 14, 4),
     lambda x, w: transposed(x, w, 1, 3)),
    ("conv_transpose1d(x, w, 3, 2, 2, groups=2, output_pad=2)", {"x": (2, 5, 6), "w": (8, 4, 3)},
     (2, 17, 8), lambda x, w: transposed(x, w, 1, 3, 2, 2, 2)),
    ("conv_transpose1d(x, w, 2, 1, 3, 3, 1, true)", {"x": (2, 6, 5), "w": (6, 2, 4)},
     (2, 6, 17), lambda x, w: first(transposed(last(x), turned(w, 3), 1, 2, 1, 3, 1))),
    ("conv_transpose2d(x, w, stride=3, pad=2)", {"x": (2, 5, 4, 3), "w": (4, 4, 7, 3)},
     (2, 12, 12, 4), lambda x, w: transposed(x, w, 2, 3, 2)),
    ("conv_transpose2d(x, w)", {"x": (2, 5, 4, 3), "w": (4, 3, 2, 3)}, (2, 7, 5, 4),
     lambda x, w: transposed(x, w, 2)),
    ("conv_transpose2d(x, w, (2, 3), (1, 0), (2, 1), 2, (1, 0))",
     {"x": (2, 3, 4, 4), "w": (6, 3, 2, 2)}, (2, 8, 11, 6),
     lambda x, w: transposed(x, w, 2, (2, 3), (1, 0), (2, 1), (1, 0))),
    ("conv_transpose2d(x, w, 2, 1, groups=2, output_pad=1, channels_first=true)",
     {"x": (2, 4, 3, 5), "w": (4, 3, 3, 3)}, (2, 6, 6, 10),
     lambda x, w: first(transposed(last(x), turned(w, 2), 2, 2, 1, 1, 1))),
    ("conv_transpose3d(x, w, 2, 1, output_pad=1)", {"x": (1, 2, 3, 4, 2), "w": (3, 3, 3, 3, 2)},
     (1, 4, 6, 8, 3), lambda x, w: transposed(x, w, 3, 2, 1, 1, 1)),
    ("conv_transpose3d(x, w, (1, 2, 2), 0, (1, 2, 1), 2)",
     {"x": (1, 3, 2, 3, 4), "w": (4, 2, 3, 2, 2)}, (1, 4, 7, 6, 4),
     lambda x, w: transposed(x, w, 3, (1, 2, 2), 0, (1, 2, 1))),
    ("conv_transpose3d(x, w, 2, channels_first=true)",
     {"x": (1, 2, 2, 3, 2), "w": (2, 3, 3, 2, 3)}, (1, 3, 5, 6, 5),
     lambda x, w: first(transposed(last(x), turned(w), 3, 2))),
    ("max_pool1d(x, size=3, stride=2, pad=1)", {"x": (2, 9, 3)}, (2, 5, 3),
     lambda x: pooled(x, 1, np.max, 3, 2, 1, -np.inf)),
    ("max_pool1d(x, 3, dilation=2, channels_first=true)", {"x": (2, 3, 11)}, (2, 3, 3),
     lambda x: first(pooled(last(x), 1, np.max, 3, dilation=2))),
    ("max_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 4, 3, 3), lambda x: pooled(x, 2, np.max, 2)),
    ("max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2))", {"x": (2, 9, 6, 3)}, (2, 5, 4, 3),
     lambda x: pooled(x, 2, np.max, (3, 2), (2, 1), (1, 0), -np.inf, (1, 2))),
    ("max_pool2d(x, 3)", {"x": (2, 9, 6, 3)}, (2, 3, 2, 3), lambda x: pooled(x, 2, np.max, 3)),
    ("max_pool3d(x, 2, 1, 1, 2)", {"x": (1, 3, 4, 5, 2)}, (1, 3, 4, 5, 2),
     lambda x: pooled(x, 3, np.max, 2, 1, 1, -np.inf, 2)),
    ("max_pool3d(x, channels_first=true)", {"x": (1, 2, 4, 5, 6)}, (1, 2, 2, 2, 3),
     lambda x: first(pooled(last(x), 3, np.max, 2))),
    ("avg_pool1d(x, size=3, stride=1, pad=1)", {"x": (2, 9, 3)}, (2, 9, 3),
     lambda x: pooled(x, 1, np.mean, 3, 1, 1)),
    ("avg_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 4, 3, 3), lambda x: pooled(x, 2, np.mean, 2)),
    ("avg_pool2d(x, (2, 3), 2, 1, channels_first=true)", {"x": (2, 3, 9, 6)}, (2, 3, 5, 3),
     lambda x: first(pooled(last(x), 2, np.mean, (2, 3), 2, 1))),
    ("avg_pool3d(x, (1, 2, 3))", {"x": (1, 3, 4, 7, 2)}, (1, 3, 2, 2, 2),
     lambda x: pooled(x, 3, np.mean, (1, 2, 3))),
    ("global_avg_pool1d(x)", {"x": (2, 9, 3)}, (2, 3), lambda x: x.mean(axis=1)),
    ("global_avg_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 3), lambda x: x.mean(axis=(1, 2))),
    ("global_avg_pool3d(x, channels_first=true)", {"x": (2, 3, 4, 5, 6)}, (2, 3),
     lambda x: x.mean(axis=(2, 3, 4))),
    ("layer_norm(x, w, w, channels_first=true)", {"x": (2, 5, 3, 4), "w": (5,)}, (2, 5, 3, 4),
     lambda x, w: first(normal(last(x)) * w + w)),
    ("rms_norm(x, w, channels_first=true)", {"x": (2, 5, 7), "w": (5,)}, (2, 5, 7),
     lambda x, w: first(last(x) / np.sqrt((last(x) ** 2).mean(-1, keepdims=True) + 1e-6) * w)),
    ("batch_norm(x, w, w * w, w, w, channels_first=true)", {"x": (2, 5, 3, 2, 4), "w": (5,)},
     (2, 5, 3, 2, 4), lambda x, w: first((last(x) - w) / np.sqrt(w * w + 1e-5) * w + w)),
    ("means(x)", {"x": (3, 5, 4, 6)}, (5,), lambda x: x.mean(axis=(0, 2, 3))),
    ("variances(x)", {"x": (3, 5, 4, 6)}, (6,), lambda x: x.var(axis=(0, 1, 2))),
    ("group_norm(x, w, w, 2)", {"x": (3, 6), "w": (6,)}, (3, 6),
     lambda x, w: over_places(x, 2) * w + w),
    ("group_norm(x, w, w, 3, channels_first=true)", {"x": (2, 6, 3, 5), "w": (6,)}, (2, 6, 3, 5),
     lambda x, w: first(over_places(last(x), 3) * w + w)),
    ("group_norm(x, w, w, 2)", {"x": (2, 3, 5, 2, 6), "w": (6,)}, (2, 3, 5, 2, 6),
     lambda x, w: over_places(x, 2) * w + w),
    ("instance_norm(x, w, w)", {"x": (2, 3, 5, 6), "w": (6,)}, (2, 3, 5, 6),
     lambda x, w: over_places(x, 6) * w + w),
    ("instance_norm(x, w, w, channels_first=true)", {"x": (2, 3, 2, 5, 4), "w": (3,)},
     (2, 3, 2, 5, 4), lambda x, w: first(over_places(last(x), 3) * w + w)),
    ("sort(x)", {"x": (3, 37)}, (3, 37), lambda x: np.sort(x)),
    ("sort(x)", {"x": (70,)}, (70,), lambda x: np.sort(x)),
    ("sort(x, descending=true)", {"x": (3, 37)}, (3, 37), lambda x: -np.sort(-x)),
    ("f32(argsort(round(x), descending=true))", {"x": (3, 37)}, (3, 37),
     lambda x: np.argsort(-np.rint(x), kind="stable")),
    ("f32(argsort(x))", {"x": (3, 37)}, (3, 37), lambda x: np.argsort(x, kind="stable")),
    ("f32(ranks(round(x)))", {"x": (3, 37)}, (3, 37),
     lambda x: np.argsort(np.argsort(np.rint(x), kind="stable"), kind="stable")),
    ("median(x)", {"x": (4, 9)}, (4, 1), lambda x: np.median(x, axis=1, keepdims=True)),
    ("f32(histogram(x, -1.0, 1.0, bins=5))", {"x": (200,)}, (5,),
     lambda x: np.histogram(x[x < 1], 5, (-1, 1))[0]),
    ("first(topk(x, k=3))", {"x": (4, 19)}, (4, 3), lambda x: -np.sort(-x)[:, :3]),
    ("back(quantize_int8(x)) - x", {"x": (4, 64)}, (4, 64), lambda x: 0 * x),
    ("back(quantize_fp8(x)) - x", {"x": (4, 64)}, (4, 64), lambda x: 0 * x),
]


def each(function):
    return np.vectorize(function, otypes=[float])


ERFC, LOG1P = each(math.erfc), np.log1p
# Of one argument, in f64: the function's call, and the same in NumPy.
DOUBLES = [
    ("sigmoid(x)", lambda x: 1 / (1 + np.exp(-x))),
    ("silu(x)", lambda x: x / (1 + np.exp(-x))),
    ("mish(x)", lambda x: x * np.tanh(np.logaddexp(0, x))),
    ("gelu(x)", lambda x: 0.5 * x * ERFC(-x / math.sqrt(2))),
    ("gelu_tanh(x)",
     lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
    ("quick_gelu(x)", lambda x: x / (1 + np.exp(-1.702 * x))),
    ("softplus(x)", lambda x: np.logaddexp(0, x)),
    ("softplus(x, 0.3)", lambda x: np.logaddexp(0, 0.3 * x) / 0.3),
    ("logsigmoid(x)", lambda x: -np.logaddexp(0, -x)),
    ("leaky_relu(x)", lambda x: np.where(x < 0, 0.01 * x, x)),
    ("rrelu(x)", lambda x: np.where(x < 0, (0.125 + 1 / 3) / 2 * x, x)),
    ("elu(x, 0.7)", lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    ("celu(x, 0.7)", lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))),
    ("selu(x)", lambda x: np.where(x > 0, 1.0507009873554805 * x,
                                   1.7580993408473766 * np.expm1(x))),
    ("hardsigmoid(x)", lambda x: np.clip(x + 3, 0, 6) / 6),
    ("hardswish(x)", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hardshrink(x, 0.1)", lambda x: np.where(abs(x) <= 0.1, 0, x)),
    ("softshrink(x, 0.1)", lambda x: np.sign(x) * np.maximum(abs(x) - 0.1, 0)),
    ("tanhshrink(x)", lambda x: x - np.tanh(x)),
    ("softsign(x)", lambda x: x / (1 + abs(x))),
    ("swiglu(x, 0.1 * x)", lambda x: x / (1 + np.exp(-x)) * 0.1 * x),
    ("geglu(x, 0.1 * x)", lambda x: 0.5 * x * ERFC(-x / math.sqrt(2)) * 0.1 * x),
    ("glu(0.1 * x, x)", lambda x: 0.1 * x / (1 + np.exp(-x))),
    ("erf(x)", each(math.erf)),
    ("erfc(x)", ERFC),
    ("exp(x)", np.exp), ("exp2(x)", np.exp2), ("exp10(0.1 * x)", lambda x: 10 ** (0.1 * x)),
    ("expm1(x)", np.expm1), ("log(abs(x))", lambda x: np.log(abs(x))),
    ("log2(abs(x))", lambda x: np.log2(abs(x))), ("log10(abs(x))", lambda x: np.log10(abs(x))),
    ("log1p(abs(x))", lambda x: LOG1P(abs(x))), ("cbrt(x)", np.cbrt), ("tanh(x)", np.tanh),
    ("sinh(x)", np.sinh), ("cosh(x)", np.cosh), ("sin(x)", np.sin), ("cos(x)", np.cos),
    ("asinh(x)", np.arcsinh), ("atan(x)", np.arctan), ("rsqrt(abs(x))", lambda x: abs(x) ** -0.5),
    ("logit(sigmoid(0.1 * x))", lambda x: 0.1 * x),
    ("logaddexp(x, 0.1 * x)", lambda x: np.logaddexp(x, 0.1 * x)),
    ("xlogy(x, abs(x))", lambda x: x * np.log(abs(x))),
    ("entropy(abs(x))", lambda x: -abs(x) * np.log(abs(x))),
    ("sinc(x)", np.sinc), ("degrees(x)", np.degrees), ("radians(x)", np.radians),
    ("lerp(x, 0.1 * x, 0.5)", lambda x: 0.55 * x),
    ("asin(0.03 * x)", lambda x: np.arcsin(0.03 * x)), ("acos(0.03 * x)",
                                                       lambda x: np.arccos(0.03 * x)),
    ("atan2(x, 0.3 * x - 1)", lambda x: np.arctan2(x, 0.3 * x - 1)),
    ("acosh(1 + abs(x))", lambda x: np.arccosh(1 + abs(x))),
    ("atanh(0.03 * x)", lambda x: np.arctanh(0.03 * x)),
    ("sinpi(x)", lambda x: np.sinc(x) * np.pi * x),
    ("cospi(x)", lambda x: np.cos(np.pi * np.remainder(x, 2))),
    ("mse(x, 0.1)", lambda x: (x - 0.1) ** 2),
    ("smooth_l1(x, 0.1, 0.3)", lambda x: np.where(abs(x - 0.1) < 0.3, (x - 0.1) ** 2 / 0.6,
                                                  abs(x - 0.1) - 0.15)),
    ("poisson_nll(x, 0.1)", lambda x: np.exp(x) - 0.1 * x),
    ("binary_cross_entropy_logits(x, 0.1)", lambda x: np.logaddexp(0, x) - 0.1 * x),
]
WIDE = 1e-13  # of f64, relative to 1 + |value|


def run_doubles(tessera, device, rows):
    """All at once, each a result; f64 throughout: what is rounded to f32 is off by 1e-8."""
    x = np.concatenate([np.linspace(-30, 30, 601) + 0.0123, 2.0 ** -np.arange(1, 40)])
    names = [f"r{i}" for i in range(len(rows))]
    text = (f"kernel k(x: f64[N]) -> ({', '.join(n + ': f64[N]' for n in names)}) {{\n"
            + "".join(f"    {n} = {call}\n" for n, (call, _) in zip(names, rows)) + "}\n")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "k.tile").write_text(text)
        np.save(folder / "x.npy", x)
        command = [tessera, "run", str(folder / "k.tile"), "--device", device, "--check",
                   f"x={folder}/x.npy"]
        command += [word for n in names for word in ("-o", f"{n}={folder / n}.npy")]
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=patience.seconds(300))
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-600:]}"
        for name, (call, reference) in zip(names, rows):
            got = np.load(folder / f"{name}.npy")
            with np.errstate(over="ignore"):
                want = reference(x)
            bad = ~(abs(got - want) <= WIDE * (1 + abs(want)))
            if bad.any():
                return f"{call}: {bad.sum()} differ: {got[bad][0]}, not {want[bad][0]}"
    return None


def source(call, result):
    names = [n for n in ARGUMENTS if f"({n}," in call or f", {n}," in call or f", {n})" in call
             or f"({n})" in call]
    head = ", ".join(f"{n}: {ARGUMENTS[n]}" for n in names)
    if call.startswith("moments"):
        body = f"    let (a, s) = {call}\n    return s - a * a"
    else:
        body = f"    return {call}"
    return names, f"kernel k({head}) -> {result} {{\n{body}\n}}\n"


def inputs(rng, sizes):
    m, n, b, l = (sizes[k] for k in "MNBL")
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    u = lambda *shape: rng.uniform(0.05, 0.95, shape).astype(np.float32)
    return {"x": f(m, n), "y": f(m, n), "z": f(m, n), "w": f(n), "b": f(n), "p": u(m, n),
            "q": u(m, n), "s": np.sign(f(m, n)), "v": u(n), "t": rng.integers(0, n, m),
            "g": f(b, l, 8), "c": f(8)}


def in_doubles(text, values, tolerance):
    """The same kernel of f64, whose answers are f64's; an exact one's are as they are."""
    wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in values.items()}
    return text.replace("f32[", "f64["), wide, WIDE if tolerance else 0


def run_row(tessera, device, row, sizes, double=False):
    call, result, reference, tolerance = row
    if call.startswith("moments"):
        reference = lambda x: x.var(axis=1, keepdims=True) - x.mean(axis=1, keepdims=True) ** 2
        tolerance = 1e-5
    names, text = source(call, result)
    values = inputs(np.random.default_rng(7), sizes)
    text, values = text, {n: values[n] for n in names}
    if double:
        text, values, tolerance = in_doubles(text, values, tolerance)
    return run_kernel(tessera, device, text, values, reference, tolerance)


def run_kernel(tessera, device, text, values, reference, tolerance):
    """None, or what is wrong with the answer of the kernel in this text."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "k.tile").write_text(text)
        for name, value in values.items():
            np.save(folder / f"{name}.npy", value)
        command = [tessera, "run", str(folder / "k.tile"), "--device", device, "--check"]
        command += [f"{n}={folder / n}.npy" for n in values] + ["-o", str(folder / "out.npy")]
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=patience.seconds(120))
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-600:]}"
        got = np.load(folder / "out.npy").astype(np.float64)
    given = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in values.items()}
    with np.errstate(all="ignore"):
        want = np.asarray(reference(**given))
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    bad = ~(np.abs(got - want) <= tolerance * (1 + np.abs(want)))
    return f"{bad.sum()} differ: {got[bad][0]}, not {want[bad][0]}" if bad.any() else None


def tensor(shape):
    return f"f32[{', '.join(str(n) for n in shape)}]"


def run_window(tessera, device, row, double=False):
    call, shapes, result, reference = row
    rng = np.random.default_rng(7)
    values = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    head = ", ".join(f"{n}: {tensor(shape)}" for n, shape in shapes.items())
    text = ("fn first(a) {\n    let (b, c) = a\n    return b\n}\n"
            "fn back(a) {\n    let (b, c) = a\n    return dequantize(b, c)\n}\n"
            "fn means(x) {\n    let (a, s) = batch_moments(x, true)\n    return a\n}\n"
            "fn variances(x) {\n    let (a, s) = batch_moments(x)\n    return s\n}\n"
            f"kernel k({head}) -> {tensor(result)} = {call}\n")
    tolerance = (0.02 if "int8" in call else 0.2 if "fp8" in call
                 else 1e-4 if "norm" in call else 1e-5)
    if double:
        text, values, tolerance = in_doubles(text, values, tolerance)
    return run_kernel(tessera, device, text, values, reference, tolerance)


def main():
    options = suite.options_of(suite.parser(__doc__, device="cpu"))
    jobs = [(run_row, row, sizes) for row in ROWS for sizes in SIZES]
    jobs += [(run_window, row) for row in WINDOWS]
    jobs += [(run_row, row, SIZES[1], True) for row in ROWS
             if "f32(" not in row[0] and "fma" not in row[0]]
    jobs += [(run_window, row, True) for row in WINDOWS if "back(" not in row[0]]
    jobs += [(run_doubles, DOUBLES[i::4]) for i in range(4)]
    return suite.run(options, jobs,
                     lambda job: job[0](options.tessera, options.device, *job[1:]),
                     lambda job: f"{job[0].__name__} {job[1][0]} {job[2:]}")


if __name__ == "__main__":
    sys.exit(main())
