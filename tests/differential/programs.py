# SPDX-License-Identifier: Apache-2.0
"""The four programs: their inputs, the sizes at which they are compared, what they mean in float64.

A reference gives the value and a bound on the distance that any executor may have from it. The
bounds are derived from the operations (u: half a unit in the last place), not fitted.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from arrays import EPSILON, random

U32 = EPSILON["f32"]
EXP = 2.0**-20  # relative: the library's exp (4 ulp), or fast.exp within its stated bound
TANH = 2.0**-20


@dataclass
class Case:
    program: str
    dtype: str
    sizes: dict
    consts: dict = field(default_factory=dict)
    scalars: dict = field(default_factory=dict)

    def __str__(self):
        words = [f"{k}={v}" for k, v in {**self.sizes, **self.consts}.items()]
        return f"{self.program} {self.dtype} {' '.join(words)}"


def rounding(dtype, value):
    """How far the value may move when it is rounded to the type: half a unit in the last place,
    below the least normal number half of the least one there is."""
    least = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[dtype]
    return np.abs(value) * EPSILON[dtype] * 1.01 + least / 2


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def add_inputs(case, rng):
    n = case.sizes["N"]
    return {"x": random(rng, case.dtype, (n,)), "y": random(rng, case.dtype, (n,))}


def add_reference(case, x, y):
    value = x + y
    return value, rounding(case.dtype, value)


def softmax_inputs(case, rng):
    return {"x": random(rng, case.dtype, (case.sizes["M"], case.sizes["N"]), 3)}


def softmax_reference(case, x):
    if x.size == 0:
        return x, np.zeros_like(x)
    shifted = x - x.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    value = e / e.sum(axis=1, keepdims=True)
    # shifted is rounded once; exp twice (numerator, sum); a sum of n terms in any order; a division
    relative = 2 * (np.abs(shifted).max() * U32 + EXP) + (x.shape[1] + 2) * U32
    return value, value * relative + rounding(case.dtype, value)


def linear_inputs(case, rng):
    m, n, k = (case.sizes[s] for s in "MNK")
    return {"x": random(rng, case.dtype, (m, k)), "w": random(rng, case.dtype, (n, k)),
            "b": random(rng, case.dtype, (n,))}


def linear_reference(case, x, w, b):
    sum_, size = x @ w.T + b, np.abs(x) @ np.abs(w).T + np.abs(b)
    value = gelu(sum_)
    # gelu's slope is below 1.13; its own operations err relative to |sum|
    bound = 1.13 * (x.shape[1] + 1) * U32 * size + np.abs(sum_) * (TANH + 16 * U32)
    return value, bound * 1.01 + rounding(case.dtype, value)


def attention_inputs(case, rng):
    b, h, s, l, d = (case.sizes[n] for n in "BHSLD")
    return {"q": random(rng, case.dtype, (b, h, s, d)), "k": random(rng, case.dtype, (b, h, l, d)),
            "v": random(rng, case.dtype, (b, h, l, d))}


def attention_reference(case, q, k, v):
    s, l, d = q.shape[2], k.shape[2], q.shape[3]
    if l == 0:
        return np.zeros(q.shape), np.zeros(q.shape)
    scores = np.einsum("bhid,bhjd->bhij", q, k) * case.scalars["scale"]
    spread = np.einsum("bhid,bhjd->bhij", np.abs(q), np.abs(k)) * case.scalars["scale"]
    if case.consts["causal"] == "true":
        scores = np.where(np.arange(s)[:, None] >= np.arange(l)[None, :], scores, -np.inf)
    p = np.exp(scores - scores.max(axis=3, keepdims=True, initial=-np.inf))
    p /= p.sum(axis=3, keepdims=True)
    value = np.einsum("bhij,bhjd->bhid", p, v)
    size = np.einsum("bhij,bhjd->bhid", p, np.abs(v))
    # an absolute error of a score is a relative error of its weight; weights are rounded to T
    relative = 4 * ((d + 2) * U32 * spread.max(initial=0) + EXP) + 2 * (l + 4) * U32
    weights = size * EPSILON[case.dtype] + rounding(case.dtype, 0) * np.abs(v).sum(2, keepdims=True)
    return value, (size * relative + weights) * 1.01 + rounding(case.dtype, value)


PROGRAMS = {
    "add": (add_inputs, add_reference),
    "softmax": (softmax_inputs, softmax_reference),
    "linear": (linear_inputs, linear_reference),
    "attention": (attention_inputs, attention_reference),
}

ADD = [0, 1, 2, 3, 7, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024, 1025, 2047, 4093,
       4096, 4097, 8191, 10007, 65535, 65536, 65537, 100003, 131072, 1000003]
SOFTMAX = [(0, 5), (5, 0), (1, 1), (1, 2), (2, 3), (3, 7), (7, 31), (4, 32), (5, 33), (1, 127),
           (2, 128), (3, 129), (127, 64), (128, 65), (129, 63), (13, 255), (16, 256), (11, 257),
           (17, 1000), (64, 1023), (31, 1024), (33, 1025), (3, 2048), (5, 4093), (2, 4096),
           (1, 8192), (3, 10007), (1, 65535), (2, 65536), (1, 65537), (9, 768), (3, 1536),
           (2, 3000),
           (2, 5000), (3, 5120), (1, 14336), (1, 24000), (2113, 1000)]
LINEAR = [(0, 8, 8), (8, 0, 8), (8, 8, 0), (1, 1, 1), (2, 3, 5), (7, 13, 17), (16, 16, 16),
          (31, 33, 32), (64, 64, 64), (63, 65, 64), (65, 63, 63), (127, 129, 31), (128, 128, 64),
          (129, 127, 65), (128, 256, 64), (128, 256, 128), (127, 255, 63), (129, 257, 65),
          (1, 256, 128), (256, 1, 128), (200, 136, 72), (136, 200, 1), (97, 101, 103),
          (256, 256, 256), (255, 257, 259), (3, 5, 65536), (2, 4096, 64), (4096, 2, 40),
          (192, 320, 192), (264, 520, 136)]
# B, H, S, L, D
ATTENTION = [(1, 1, 1, 1, 64), (1, 1, 2, 3, 64), (0, 1, 4, 4, 64), (1, 2, 0, 5, 64),
             (1, 1, 5, 0, 64), (2, 1, 7, 7, 80), (1, 2, 16, 16, 96), (1, 1, 31, 33, 64),
             (1, 1, 64, 64, 64), (2, 3, 63, 65, 64), (1, 1, 65, 63, 128), (1, 1, 127, 129, 64),
             (1, 1, 128, 128, 128), (1, 2, 129, 127, 128), (1, 1, 128, 256, 64),
             (1, 1, 256, 128, 64), (1, 1, 1, 257, 128), (1, 1, 257, 1, 64), (1, 1, 130, 300, 80),
             (1, 1, 300, 130, 96), (3, 2, 17, 19, 64), (1, 1, 255, 255, 128),
             (1, 1, 192, 192, 64), (1, 5, 11, 13, 96), (1, 1, 100, 512, 64), (1, 1, 3, 1000, 128),
             (1, 1, 384, 384, 64), (1, 1, 2, 4096, 64), (1, 1, 16, 16, 256), (1, 1, 130, 70, 256)]
FEW = {"add": [0, 1, 129, 1000, 65537],
       "softmax": [(5, 0), (1, 1), (3, 129), (17, 1000), (1, 65537)],
       "linear": [(8, 8, 0), (1, 1, 1), (7, 13, 17), (129, 127, 65), (136, 200, 72)],
       "attention": [(1, 1, 5, 0, 64), (1, 2, 1, 3, 64), (2, 1, 63, 65, 80), (1, 1, 129, 127, 128)]}


def cases(full, programs, dtypes):
    for dtype in dtypes:
        if "add" in programs and dtype == "f32":
            for n in ADD if full else FEW["add"]:
                yield Case("add", dtype, {"N": n})
        if "softmax" in programs:
            for m, n in SOFTMAX if full else FEW["softmax"]:
                yield Case("softmax", dtype, {"M": m, "N": n})
        if "linear" in programs:
            for m, n, k in LINEAR if full else FEW["linear"]:
                yield Case("linear", dtype, {"M": m, "N": n, "K": k})
        if "attention" in programs:
            for sizes in ATTENTION if full else FEW["attention"]:
                for causal in ("false", "true"):
                    named = dict(zip("BHSLD", sizes))
                    yield Case("attention", dtype, named, {"causal": causal},
                               {"scale": round(1 / math.sqrt(named["D"]), 6)})
