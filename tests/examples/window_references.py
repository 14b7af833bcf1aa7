# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and stencils, in NumPy. Importing this adds its cases to references.CASES."""

import numpy as np
from references import PLANES, case, normal, plane

def conv2d(x, w, bias, stride=2, pad=1):
    n, h, wd, c = x.shape
    o, r, s, _ = w.shape
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    p, q = (h + 2 * pad - r) // stride + 1, (wd + 2 * pad - s) // stride + 1
    y = np.zeros((n, p, q, o)) + bias
    for i in range(r):
        for j in range(s):
            y += (
                x[:, i : i + stride * (p - 1) + 1 : stride, j : j + stride * (q - 1) + 1 : stride]
                @ w[:, i, j].T
            )
    return {"y": np.maximum(y, 0)}


def conv2d_inputs(rng, s):
    return {
        "x": normal(rng, s["B"], s["H"], s["W"], s["C"]),
        "w": normal(rng, s["O"], s["R"], s["R"], s["C"]),
        "bias": normal(rng, s["O"]),
        "set": {"stride": 2, "pad": 1},
    }


case(
    "conv2d",
    [
        {"B": 1, "H": 3, "W": 3, "C": 1, "O": 1, "R": 3},
        {"B": 2, "H": 8, "W": 7, "C": 3, "O": 5, "R": 3},
        {"B": 1, "H": 14, "W": 14, "C": 16, "O": 33, "R": 3},
        {"B": 1, "H": 9, "W": 11, "C": 4, "O": 8, "R": 1},
    ],
    conv2d_inputs,
    conv2d,
    1e-5,
    types=("f32", "bf16"),
)


def depthwise(x, w):
    r, s, _ = w.shape
    xp = np.pad(x, ((0, 0), (r // 2, r - 1 - r // 2), (s // 2, s - 1 - s // 2), (0, 0)))
    return {
        "y": sum(
            xp[:, i : i + x.shape[1], j : j + x.shape[2]] * w[i, j]
            for i in range(r)
            for j in range(s)
        )
    }


IMAGES = [
    {"B": 1, "H": 1, "W": 1, "C": 1},
    {"B": 2, "H": 9, "W": 7, "C": 3},
    {"B": 1, "H": 33, "W": 31, "C": 16},
]
case(
    "depthwise",
    IMAGES,
    lambda rng, s: {
        "x": normal(rng, s["B"], s["H"], s["W"], s["C"]),
        "w": normal(rng, 3, 3, s["C"]),
    },
    depthwise,
    1e-5,
)


def conv_transpose(x, w):
    b, n, _ = x.shape
    r, _, o = w.shape
    y = np.zeros((b, (n - 1) * 2 + r, o))
    for i in range(n):
        for k in range(r):
            y[:, i * 2 + k] += x[:, i] @ w[k]
    return {"y": y}


case(
    "conv_transpose",
    [{"B": 1, "L": 1, "C": 1}, {"B": 2, "L": 17, "C": 5}],
    lambda rng, s: {"x": normal(rng, s["B"], s["L"], s["C"]), "w": normal(rng, 3, s["C"], 4)},
    conv_transpose,
    1e-5,
)


def max_pool(x):
    xp = np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0)), constant_values=-np.inf)
    p, q = (x.shape[1] - 1) // 2 + 1, (x.shape[2] - 1) // 2 + 1
    return {
        "y": np.max(
            [
                xp[:, i : i + 2 * p : 2, j : j + 2 * q : 2][:, :p, :q]
                for i in range(3)
                for j in range(3)
            ],
            axis=0,
        )
    }


case(
    "max_pool",
    IMAGES,
    lambda rng, s: {"x": normal(rng, s["B"], s["H"], s["W"], s["C"])},
    max_pool,
    0,
)


def jacobi(x):
    y = x.copy()
    y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return {"y": y}


def blur(x):
    p = np.pad(x, 1)
    rows = (p[:, :-2] + p[:, 1:-1] + p[:, 2:]) / 3
    return {"y": (rows[:-2] + rows[1:-1] + rows[2:]) / 3}


def life(x):
    near = sum(np.roll(x.astype(int), (r, s), (0, 1)) for r in (-1, 0, 1) for s in (-1, 0, 1)) - x
    return {"y": (near == 3) | ((near == 2) & (x == 1))}


case("jacobi", PLANES, plane, jacobi)
case("blur", PLANES, plane, blur)
case(
    "life",
    PLANES,
    lambda rng, s: {"x": rng.integers(0, 2, (s["H"], s["W"])).astype(np.uint8)},
    life,
    0,
)
