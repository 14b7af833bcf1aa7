# SPDX-License-Identifier: Apache-2.0
"""What each example means, in NumPy, and the sizes at which it is compared.

An entry is CASES[name] = (sizes, make, reference, tolerance, types): a list of dicts of sizes, a
function of (rng, sizes) that gives the arguments by name (arrays, or scalars), a function of the
arguments that gives the results by name in float64 or integers, and the distance that is allowed,
relative to 1 + |value| (0: equal). Constants given to --set stand in a dict under "set".
"""

import math
import zlib

import numpy as np

CASES = {}


def case(name, sizes, make, reference, tolerance=2e-6, types=("f32",)):
    CASES[name] = (sizes, make, reference, tolerance, types)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def vectors(*lengths):
    return [{"N": n} for n in lengths]


LENGTHS = vectors(0, 1, 3, 64, 1000, 4097)
MATRICES = [
    {"M": 1, "N": 1},
    {"M": 3, "N": 5},
    {"M": 7, "N": 64},
    {"M": 33, "N": 129},
    {"M": 128, "N": 257},
]
PLANES = [{"H": 1, "W": 1}, {"H": 2, "W": 3}, {"H": 17, "W": 64}, {"H": 65, "W": 127}]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x) if np.size(x) else x


def two(rng, s):
    return {"x": normal(rng, s["N"]), "y": normal(rng, s["N"])}


def plane(rng, s):
    return {"x": normal(rng, s["H"], s["W"])}


def matrix(rng, s):
    return {"x": normal(rng, s["M"], s["N"])}


case("saxpy", LENGTHS, lambda rng, s: {"a": 1.5, **two(rng, s)}, lambda a, x, y: {"y": a * x + y})
case(
    "chain",
    LENGTHS,
    two,
    lambda x, y: {"": sigmoid(0.5 * (x * y + 0.5) * (1 + erf((x * y + 0.5) / math.sqrt(2))))},
    types=("f32", "bf16", "f16"),
)
case(
    "swiglu",
    MATRICES,
    lambda rng, s: {"x": normal(rng, s["M"], 2 * s["N"])},
    lambda x: {
        "": x[:, : x.shape[1] // 2] * sigmoid(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]
    },
    types=("f32", "bf16"),
)
case("transpose", MATRICES, matrix, lambda x: {"": x.T}, 0, types=("f32", "bf16"))
case(
    "total",
    vectors(1, 3, 64, 1000, 4097, 100003),
    lambda rng, s: {"x": normal(rng, s["N"])},
    lambda x: {"total": [x.sum()], "average": [x.mean()], "least": [x.min()], "most": [x.max()]},
    1e-4,
)
case(
    "argmax",
    MATRICES,
    matrix,
    lambda x: {"value": x.max(axis=1), "at": x.argmax(axis=1)},
    0,
    types=("f32", "bf16"),
)


def layer_norm(x, weight, bias):
    d = x - x.mean(axis=1, keepdims=True)
    return {"": d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * weight + bias}


case(
    "layer_norm",
    MATRICES,
    lambda rng, s: {**matrix(rng, s), "weight": normal(rng, s["N"]), "bias": normal(rng, s["N"])},
    layer_norm,
    1e-5,
    types=("f32", "bf16"),
)


def layer_norm_backward(x, weight, dy):
    d = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)
    n, g = d * scale, dy * weight
    dx = scale * (g - g.mean(axis=1, keepdims=True) - n * (g * n).mean(axis=1, keepdims=True))
    return {"dx": dx, "dweight": (dy * n).sum(axis=0), "dbias": dy.sum(axis=0)}


case(
    "layer_norm_backward",
    MATRICES[1:],
    lambda rng, s: {
        **matrix(rng, s),
        "weight": normal(rng, s["N"]),
        "dy": normal(rng, s["M"], s["N"]),
    },
    layer_norm_backward,
    1e-4,
)
case(
    "rms_norm",
    MATRICES,
    lambda rng, s: {**matrix(rng, s), "weight": normal(rng, s["N"])},
    lambda x, weight: {"": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight},
    1e-5,
    types=("f32", "bf16"),
)
case(
    "welford",
    MATRICES,
    matrix,
    lambda x: {"average": x.mean(axis=1), "variance": x.var(axis=1)},
    1e-5,
)


def dropout_properties(x, p, seed, y):
    kept = y != 0
    assert np.allclose(y[kept], (x / np.float32(1 - p))[kept], rtol=1e-6)
    if len(x) > 500:
        assert abs(kept.mean() - (1 - p)) < 0.1


case(
    "dropout",
    LENGTHS,
    lambda rng, s: {"x": normal(rng, s["N"]) + 10, "p": 0.25, "seed": 7},
    dropout_properties,
)
case(
    "cumsum",
    vectors(0, 1, 3, 64, 1000, 4097, 70001),
    lambda rng, s: {"x": normal(rng, s["N"])},
    lambda x: {
        "total": np.cumsum(x),
        "before": np.cumsum(x) - x,
        "after": np.cumsum(x[::-1])[::-1],
    },
    1e-4,
)


def recurrence(a, b):
    h, y = np.zeros(a.shape[0]), np.zeros_like(b)
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        y[:, t] = h
    return {"": y}


case(
    "recurrence",
    [{"B": 1, "L": 1}, {"B": 3, "L": 65}, {"B": 16, "L": 1000}],
    lambda rng, s: {
        "a": rng.random((s["B"], s["L"])).astype(np.float32),
        "b": normal(rng, s["B"], s["L"]),
    },
    recurrence,
    1e-5,
)
case(
    "histogram",
    LENGTHS,
    lambda rng, s: {"x": (rng.random(s["N"]) * 1.1 - 0.05).astype(np.float32)},
    lambda x: {
        "count": np.bincount(
            np.floor(np.float32(x) * np.float32(64)).astype(int)[
                (x >= 0) & (np.float32(x) * np.float32(64) < 64)
            ],
            minlength=64,
        )
    },
    0,
)
case(
    "rank_sort",
    vectors(1, 3, 64, 300),
    lambda rng, s: {"x": np.round(normal(rng, s["N"]), 1)},
    lambda x: {"y": np.sort(x)},
    0,
)


def embedding(table, ids):
    good = (ids >= 0) & (ids < len(table))
    return {"e": np.where(good[..., None], table[np.where(good, ids, 0)], 0)}


case(
    "embedding",
    [{"V": 10, "D": 3, "B": 2, "S": 5}, {"V": 1000, "D": 64, "B": 3, "S": 33}],
    lambda rng, s: {
        "table": normal(rng, s["V"], s["D"]),
        "ids": rng.integers(-2, s["V"] + 2, (s["B"], s["S"])),
    },
    embedding,
    0,
    types=("f32", "bf16"),
)


def scatter_add(ids, dy):
    table = np.zeros((100, dy.shape[1]))
    good = (ids >= 0) & (ids < 100)
    np.add.at(table, ids[good], dy[good])
    return {"table": table}


case(
    "scatter_add",
    [{"N": 1, "D": 1}, {"N": 77, "D": 5}, {"N": 1000, "D": 32}],
    lambda rng, s: {"ids": rng.integers(-3, 103, s["N"]), "dy": normal(rng, s["N"], s["D"])},
    scatter_add,
    1e-5,
)


def segments(rng, s):
    cuts = np.sort(rng.integers(0, s["N"] + 1, s["S"] - 1))
    return {
        "x": normal(rng, s["N"]),
        "start": np.concatenate([[0], cuts, [s["N"]]]).astype(np.int64),
    }


case(
    "segment_sum",
    [{"N": 1, "S": 1}, {"N": 100, "S": 7}, {"N": 1000, "S": 40}],
    segments,
    lambda x, start: {"y": [x[a:b].sum() for a, b in zip(start[:-1], start[1:])]},
    1e-5,
)
def quantize(x):
    s = (
        np.maximum(np.abs(np.float32(x)).max(axis=1, keepdims=True), np.float32(1e-12))
        / np.float32(127)
    ).astype(np.float32)
    return {"q": np.clip(np.rint(np.float32(x) / s), -127, 127), "scale": s[:, 0]}


case("quantize", MATRICES, matrix, quantize)


def mandelbrot(xs, ys):
    n = np.zeros((len(ys), len(xs)), int)
    for i, b in enumerate(ys):
        for j, a in enumerate(xs):
            x = y = np.float32(0)
            k = 0
            while float(np.float32(x)) ** 2 + float(y) ** 2 <= 4 and k < 100:
                x, y = np.float32(x * x - y * y + a), np.float32(2 * x * y + b)
                k += 1
            n[i, j] = k
    return {"n": n}


case(
    "mandelbrot",
    [{"W": 1, "H": 1}, {"W": 8, "H": 4}],
    lambda rng, s: {
        "xs": np.linspace(-2.1, -1.6, s["W"], dtype=np.float32),
        "ys": np.linspace(0.3, 1.17, s["H"], dtype=np.float32),
    },
    mandelbrot,
    0,
)


def nbody(p, mass):
    d = p[None, :, :] - p[:, None, :]
    r = ((d * d).sum(axis=2) + 1e-3) ** -1.5
    return {"a": np.einsum("j,ij,ijc->ic", mass, r, d)}


case(
    "nbody",
    vectors(1, 3, 64, 129),
    lambda rng, s: {"p": normal(rng, s["N"], 3), "mass": rng.random(s["N"]).astype(np.float32)},
    nbody,
    1e-3,
)


def black_scholes(s, k, t, r, v):
    d = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
    e = d - v * np.sqrt(t)
    phi = lambda x: 0.5 * (1 + erf(x / math.sqrt(2)))
    call = s * phi(d) - k * np.exp(-r * t) * phi(e)
    return {"call": call, "put": call - s + k * np.exp(-r * t)}


case(
    "black_scholes",
    LENGTHS,
    lambda rng, s: {
        **{n: (rng.random(s["N"]) * 50 + 25).astype(np.float32) for n in "sk"},
        "t": (rng.random(s["N"]) + 0.2).astype(np.float32),
        "r": 0.02,
        "v": 0.3,
    },
    black_scholes,
    1e-4,
)
case(
    "dft",
    [{"B": 1, "N": 1}, {"B": 3, "N": 17}, {"B": 4, "N": 64}],
    lambda rng, s: {"re": normal(rng, s["B"], s["N"]), "im": normal(rng, s["B"], s["N"])},
    lambda re, im: {"yr": np.fft.fft(re + 1j * im).real, "yi": np.fft.fft(re + 1j * im).imag},
    1e-4,
)


def rotary(x):
    d = x.shape[3]
    angle = np.arange(x.shape[1])[:, None] * 10000.0 ** ((np.arange(d) % (d // 2)) * -2 / d)
    other = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=3)
    return {"y": x * np.cos(angle)[:, None] + other * np.sin(angle)[:, None]}


case(
    "rotary",
    [{"B": 1, "S": 1, "H": 1, "D": 2}, {"B": 2, "S": 33, "H": 3, "D": 16}],
    lambda rng, s: {"x": normal(rng, s["B"], s["S"], s["H"], s["D"])},
    rotary,
    1e-4,
    types=("f32", "bf16"),
)


def cross_entropy(x, label):
    p = softmax(x)
    hit = np.arange(x.shape[1]) == label[:, None]
    return {"loss": -np.log(p[hit]), "dx": p - hit}


case(
    "cross_entropy",
    MATRICES,
    lambda rng, s: {**matrix(rng, s), "label": rng.integers(0, s["N"], s["M"])},
    cross_entropy,
    1e-5,
)
case(
    "kl_divergence",
    MATRICES,
    lambda rng, s: {k: softmax(normal(rng, s["M"], s["N"])).astype(np.float32) for k in "pq"},
    lambda p, q: {"": (p * (np.log(p) - np.log(q))).sum(axis=1)},
    1e-5,
)


def top2(x):
    at = np.argsort(-x, axis=1, kind="stable")[:, :2]
    return {"value": np.take_along_axis(x, at, 1), "at": at}


case("top2", MATRICES[1:], matrix, top2, 0)
case(
    "linear_attention",
    [{"B": 1, "S": 1, "D": 1, "E": 1}, {"B": 2, "S": 33, "D": 16, "E": 20}],
    lambda rng, s: {
        "q": normal(rng, s["B"], s["S"], s["D"]),
        "k": normal(rng, s["B"], s["S"], s["D"]),
        "v": normal(rng, s["B"], s["S"], s["E"]),
    },
    lambda q, k, v: {"": q @ (np.swapaxes(k, 1, 2) @ v)},
    1e-4,
)


def gqa_decode(q, k, v):
    groups = k.shape[2]
    at = np.arange(q.shape[1]) * groups // q.shape[1]
    s = np.einsum("bhd,blhd->bhl", q, k[:, :, at]) / np.sqrt(q.shape[2])
    return {"o": np.einsum("bhl,blhd->bhd", softmax(s), v[:, :, at])}


case(
    "gqa_decode",
    [{"B": 1, "H": 1, "G": 1, "L": 1, "D": 1}, {"B": 2, "H": 8, "G": 2, "L": 65, "D": 16}],
    lambda rng, s: {
        "q": normal(rng, s["B"], s["H"], s["D"]),
        **{n: normal(rng, s["B"], s["L"], s["G"], s["D"]) for n in "kv"},
    },
    gqa_decode,
    1e-5,
)
case(
    "pairwise",
    [{"M": 1, "N": 1, "D": 1}, {"M": 17, "N": 9, "D": 5}, {"M": 65, "N": 64, "D": 33}],
    lambda rng, s: {"x": normal(rng, s["M"], s["D"]), "y": normal(rng, s["N"], s["D"])},
    lambda x, y: {"": np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2))},
    3e-3,
)
case(
    "power",
    vectors(1, 5, 100),
    lambda rng, s: {"x": normal(rng, s["N"], 2, 2) * 0.7},
    lambda x: {"y": np.linalg.matrix_power(x, 8)},
    1e-4,
)


def collatz(n):
    steps = []
    for x in n:
        x, k = int(x), 0
        while x > 1:
            x, k = (x // 2 if x % 2 == 0 else 3 * x + 1), k + 1
        steps.append(k)
    return {"steps": np.array(steps, int)}


case(
    "collatz",
    vectors(0, 1, 100, 1000),
    lambda rng, s: {"n": rng.integers(0, 100000, s["N"])},
    collatz,
    0,
)
case(
    "search",
    [{"T": 1, "N": 1}, {"T": 100, "N": 333}],
    lambda rng, s: {"table": np.sort(normal(rng, s["T"])), "x": normal(rng, s["N"])},
    lambda table, x: {"at": np.searchsorted(table, x)},
    0,
)
case(
    "image",
    PLANES,
    lambda rng, s: {"rgb": rng.integers(0, 256, (s["H"], s["W"], 3)).astype(np.uint8)},
    lambda rgb: {
        "y": np.rint(
            np.float32(0.299) * np.float32(rgb[..., 0])
            + np.float32(0.587) * np.float32(rgb[..., 1])
            + np.float32(0.114) * np.float32(rgb[..., 2])
        )
    },
    1,
)  # 1: fma may round a tie otherwise
case(
    "flip",
    MATRICES,
    matrix,
    lambda x: {
        "back": x[:, ::-1],
        "wide": np.pad(x, ((0, 0), (1, 1))),
        "twice": np.concatenate([x, -x]),
    },
    0,
)


def smooth_l1(x, y):
    d = np.abs(x - y)
    return {"": [np.where(d < 1, 0.5 * d * d, d - 0.5).mean()]}


case("smooth_l1", LENGTHS[1:], two, smooth_l1, 1e-5)


def adam(p, g, m, v, lr, step):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return {
        "p": p - lr * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8),
        "m": m,
        "v": v,
    }


case(
    "adam",
    LENGTHS,
    lambda rng, s: {
        **{n: normal(rng, s["N"]) for n in "pgm"},
        "v": rng.random(s["N"]).astype(np.float32),
        "lr": 1e-3,
        "step": 3.0,
    },
    adam,
    1e-5,
)


def interpolate(x):
    h, w = x.shape
    u = np.clip((np.arange(64) + 0.5) * h / 64 - 0.5, 0, h - 1)
    v = np.clip((np.arange(64) + 0.5) * w / 64 - 0.5, 0, w - 1)
    a, b = np.floor(u).astype(int), np.floor(v).astype(int)
    c, d, s, t = np.minimum(a + 1, h - 1), np.minimum(b + 1, w - 1), (u - a)[:, None], v - b
    return {
        "y": (1 - s) * ((1 - t) * x[a][:, b] + t * x[a][:, d])
        + s * ((1 - t) * x[c][:, b] + t * x[c][:, d])
    }


case(
    "interpolate",
    [{"H": 1, "W": 1}, {"H": 5, "W": 9}, {"H": 100, "W": 80}],
    plane,
    interpolate,
    1e-4,
)


def some_not_finite(rng, s):
    """Rows that begin with -inf, hold nothing else, or hold one +inf or NaN."""
    x = normal(rng, s["M"], s["N"])
    x[0::5, : -(-s["N"] // 2)] = -np.inf
    x[1::5] = -np.inf
    x[2::5, -1] = np.inf
    x[3::5, -1] = np.nan
    return {"x": x}


ONLINE = [*MATRICES, {"M": 5, "N": 0}, *({**s, "edge": True} for s in MATRICES)]
case("softmax_online", ONLINE, lambda rng, s: (some_not_finite if "edge" in s else matrix)(rng, s),
     lambda x: {"": softmax(x) if x.shape[1] else x}, 1e-5)


def pi(seed, y):
    assert abs(y[0] - math.pi) < 0.05


case("monte_carlo", [{}], lambda rng, s: {"seed": 1}, pi)


def moe_gate(x):
    p = softmax(x)
    at = np.argsort(-p, axis=1, kind="stable")[:, :2]
    w = np.take_along_axis(p, at, 1)
    return {"weight": w / w.sum(axis=1, keepdims=True), "expert": at}


case(
    "moe_gate",
    [{"M": 1, "E": 2}, {"M": 33, "E": 8}, {"M": 100, "E": 64}],
    lambda rng, s: {"x": normal(rng, s["M"], s["E"])},
    moe_gate,
    1e-5,
)


def kmeans(x, c):
    near = ((x[:, None] - c[None]) ** 2).sum(axis=2).argmin(axis=1)
    size = np.bincount(near, minlength=len(c))
    total = np.zeros_like(c)
    np.add.at(total, near, x)
    centre = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], c)
    return {"label": near, "centre": centre, "size": size}


case(
    "kmeans",
    [{"N": 1, "D": 1, "K": 1}, {"N": 300, "D": 7, "K": 5}],
    lambda rng, s: {"x": normal(rng, s["N"], s["D"]), "c": normal(rng, s["K"], s["D"])},
    kmeans,
    1e-5,
)
case(
    "crc",
    [{"M": 1, "N": 1}, {"M": 17, "N": 100}],
    lambda rng, s: {"x": rng.integers(0, 256, (s["M"], s["N"])).astype(np.uint8)},
    lambda x: {"c": [zlib.crc32(row.tobytes()) for row in x]},
    0,
)
