# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, in NumPy. Importing this adds its cases to references.CASES."""

import math

import numpy as np
from references import MATRICES, case, normal, sigmoid

case(
    "gemv",
    MATRICES,
    lambda rng, s: {"a": normal(rng, s["M"], s["N"]), "x": normal(rng, s["N"])},
    lambda a, x: {"y": a @ x},
    1e-5,
    types=("f32", "bf16"),
)
PRODUCTS = [
    {"M": 1, "N": 1, "K": 1},
    {"M": 7, "N": 5, "K": 3},
    {"M": 64, "N": 128, "K": 65},
    {"M": 129, "N": 257, "K": 100},
]
case(
    "matmul",
    PRODUCTS,
    lambda rng, s: {"a": normal(rng, s["M"], s["K"]), "b": normal(rng, s["K"], s["N"])},
    lambda a, b: {"": a @ b},
    1e-5,
    types=("f32", "bf16", "f16"),
)
case(
    "ladder",
    PRODUCTS,
    lambda rng, s: {"a": normal(rng, s["M"], s["K"]), "b": normal(rng, s["N"], s["K"])},
    lambda a, b: {"": a @ b.T},
    1e-5,
    types=("f32", "bf16", "f16"),
)
case(
    "batched",
    [{"B": b, **s} for b, s in zip((1, 3, 2, 5), PRODUCTS)],
    lambda rng, s: {
        "a": normal(rng, s["B"], s["M"], s["K"]),
        "b": normal(rng, s["B"], s["K"], s["N"]),
        "c": normal(rng, s["K"], s["N"]),
    },
    lambda a, b, c: {"x": a @ b, "y": a @ c},
    1e-5,
    types=("f32", "bf16"),
)
case(
    "einsum",
    [
        {"B": 1, "H": 1, "I": 1, "J": 1, "D": 1},
        {"B": 2, "H": 3, "I": 17, "J": 9, "D": 8},
        {"B": 2, "H": 2, "I": 64, "J": 65, "D": 32},
    ],
    lambda rng, s: {
        "q": normal(rng, s["B"], s["H"], s["I"], s["D"]),
        "k": normal(rng, s["B"], s["J"], s["H"], s["D"]),
    },
    lambda q, k: {"y": np.einsum("bhid,bjhd->bhij", q, k)},
    1e-5,
    types=("f32", "bf16"),
)
case(
    "residual",
    PRODUCTS,
    lambda rng, s: {
        "x": normal(rng, s["M"], s["K"]),
        "w": normal(rng, s["N"], s["K"]),
        "b": normal(rng, s["N"]),
        "r": normal(rng, s["M"], s["N"]),
    },
    lambda x, w, b, r: {"": r + np.maximum(x @ w.T + b, 0)},
    1e-5,
    types=("f32", "bf16"),
)
case(
    "int8_matmul",
    PRODUCTS,
    lambda rng, s: {
        "a": rng.integers(-128, 128, (s["M"], s["K"])).astype(np.int8),
        "b": rng.integers(-128, 128, (s["N"], s["K"])).astype(np.int8),
        "sa": normal(rng, s["M"]),
        "sb": normal(rng, s["N"]),
    },
    lambda a, b, sa, sb: {"": (a.astype(int) @ b.T.astype(int)) * sa[:, None] * sb},
)
case(
    "f8_matmul",
    PRODUCTS,
    lambda rng, s: {
        "a": normal(rng, s["M"], s["K"]),
        "b": normal(rng, s["N"], s["K"]),
        "sa": normal(rng, s["M"]),
        "sb": normal(rng, s["N"]),
    },
    lambda a, b, sa, sb: {"": (a @ b.T) * sa[:, None] * sb},
    1e-4,
    types=("f32",),
)


def grouped(x, w, group):
    """Of no order: the programs have it, the meaning needs none."""
    return {"y": np.einsum("rk,rkn->rn", x, w[group])}


case(
    "grouped_matmul",
    [
        {"R": 1, "E": 1, "K": 1, "N": 1},
        {"R": 300, "E": 5, "K": 33, "N": 130},
        {"R": 400, "E": 9, "K": 136, "N": 72},
    ],
    lambda rng, s: {
        "x": normal(rng, s["R"], s["K"]),
        "w": normal(rng, s["E"], s["K"], s["N"]) / math.sqrt(s["K"]),
        "group": np.sort(rng.integers(0, s["E"], s["R"])).astype(np.int32),
    },
    grouped,
    1e-5,
    types=("f32", "bf16", "f16"),
)


def experts(x, up, down, expert, weight):
    """Each token by the matrices of its experts; those that do not exist add nothing."""
    known = (expert >= 0) & (expert < len(up))
    at = np.where(known, expert, 0)
    hidden = np.einsum("nd,ncdf->ncf", x, up[at])
    hidden = hidden / (1 + np.exp(-hidden))
    return {"y": np.einsum("nc,ncf,ncfd->nd", weight * known, hidden, down[at])}


case(
    "moe_layer",
    [
        {"N": 1, "C": 1, "E": 1, "D": 1, "F": 1},
        {"N": 90, "C": 2, "E": 5, "D": 33, "F": 40},
        {"N": 200, "C": 2, "E": 3, "D": 72, "F": 136},
    ],
    lambda rng, s: {
        "x": normal(rng, s["N"], s["D"]),
        "up": normal(rng, s["E"], s["D"], s["F"]) / math.sqrt(s["D"]),
        "down": normal(rng, s["E"], s["F"], s["D"]) / math.sqrt(s["F"]),
        "expert": rng.integers(-1, s["E"] + 1, (s["N"], s["C"])),
        "weight": normal(rng, s["N"], s["C"]),
    },
    experts,
    1e-5,
    types=("f32",),
)


def int4_full(w, scale):
    """Each weight by the scale of its 128."""
    return w * np.repeat(scale, 128, axis=0)[: w.shape[1]].T


case(
    "int4_matmul",
    PRODUCTS + [{"M": 16, "N": 256, "K": 1024}, {"M": 70, "N": 136, "K": 320}],
    lambda rng, s: {
        "x": normal(rng, s["M"], s["K"]),
        "w": rng.integers(-8, 8, (s["N"], s["K"])).astype(np.int8),
        "scale": normal(rng, (s["K"] + 127) // 128, s["N"]),
    },
    lambda x, w, scale: {"y": x @ int4_full(w.astype(float), scale).T},
    1e-3,
    types=("f32", "f16", "bf16"),
)


def gated_mlp(x, gate, up, down):
    g = x @ gate.T
    return {"": (g * sigmoid(g) * (x @ up.T)) @ down.T}


case(
    "gated_mlp",
    [
        {"M": 1, "N": 1, "K": 1},
        {"M": 3, "N": 5, "K": 7},
        {"M": 64, "N": 128, "K": 64},
        {"M": 131, "N": 67, "K": 61},
        {"M": 200, "N": 264, "K": 136},
    ],
    lambda rng, s: {
        "x": normal(rng, s["M"], s["K"]),
        "gate": normal(rng, s["N"], s["K"]) / math.sqrt(s["K"]),
        "up": normal(rng, s["N"], s["K"]) / math.sqrt(s["K"]),
        "down": normal(rng, s["K"], s["N"]) / math.sqrt(s["N"]),
    },
    gated_mlp,
    1e-5,
    types=("f32", "bf16"),
)
