# SPDX-License-Identifier: Apache-2.0
"""The family of attention, in NumPy. Importing this adds its cases to references.CASES."""

import numpy as np
from references import case, normal, softmax

TYPES = ("f32", "bf16", "f16")
SCALE = 0.125


def scores(q, k, seen=True):
    """Of [..., S, D] and [..., L, D]; what is not `seen`, [S, L], counts as -inf."""
    return np.where(seen, q @ np.swapaxes(k, -1, -2) * SCALE, -np.inf)


def back(rows, keys):
    """How far each key lies behind each row."""
    return np.arange(rows)[:, None] - np.arange(keys)[None, :]


def log_sum(s):
    top = s.max(axis=-1)
    return top + np.log(np.exp(s - top[..., None]).sum(axis=-1))


def heads(rng, s, names, count, rows):
    return {n: normal(rng, s["B"], s[count], s[rows], s["D"]) for n in names}


EDGES = ("first", "all", "inf", "nan")


def edged(made, s, axis=-2, first=128):
    """Scores of the first keys, or of all, become -inf; the last key's become +inf or NaN. `axis`:
    which one of k its keys are."""
    if "edge" in s:
        keys = {"first": slice(first), "all": slice(None)}.get(s["edge"], slice(-1, None))
        made["q"][..., 0] = 1
        k = np.moveaxis(made["k"], axis, 0)
        k[keys, ..., 0] = {"inf": np.inf, "nan": np.nan}.get(s["edge"], -np.inf)
    return made


def with_edges(sizes, edges=EDGES):
    return [{**sizes, "edge": edge} for edge in edges]


def empty_softmax(s):
    return softmax(s) if s.shape[-1] else s


def full(q, k, v, scale):
    return {"o": empty_softmax(scores(q, k)) @ v}


case(
    "attention",
    [
        {"B": 1, "H": 1, "S": 3, "L": 0, "D": 64},
        {"B": 1, "H": 2, "S": 130, "L": 257, "D": 80},
        *with_edges({"B": 1, "H": 1, "S": 130, "L": 300, "D": 64}),
    ],
    lambda rng, s: edged({
        **heads(rng, s, "q", "H", "S"),
        **heads(rng, s, "kv", "H", "L"),
        "scale": SCALE,
        "set": {"causal": "false"},
    }, s),
    full,
    2e-5,
    TYPES,
)


def for_heads(q, k):
    return np.arange(q.shape[1]) * k.shape[1] // q.shape[1]


def grouped(q, k, v, scale):
    s = scores(q, k[:, for_heads(q, k)], back(q.shape[2], k.shape[2]) >= 0)
    finite = s if s.shape[-1] else np.full((*s.shape[:-1], 1), -np.inf)
    lse = np.where((finite == -np.inf).all(axis=-1), -np.inf, log_sum(finite))
    return {"o": empty_softmax(s) @ v[:, for_heads(q, k)], "lse": lse}


case(
    "attention_grouped",
    [
        {"B": 1, "H": 1, "G": 1, "S": 1, "L": 1, "D": 64},
        {"B": 2, "H": 6, "G": 2, "S": 130, "L": 257, "D": 80},
        {"B": 1, "H": 3, "G": 3, "S": 257, "L": 131, "D": 64},
        {"B": 1, "H": 1, "G": 1, "S": 3, "L": 0, "D": 64},
        *with_edges({"B": 1, "H": 2, "G": 1, "S": 300, "L": 260, "D": 64}),
    ],
    lambda rng, s: edged({
        **heads(rng, s, "q", "H", "S"),
        **heads(rng, s, "kv", "G", "L"),
        "scale": SCALE,
        "set": {"causal": "true"},
    }, s),
    grouped,
    2e-5,
    TYPES,
)


def window(q, k, v, scale, W):  # noqa: N803
    far = back(q.shape[2], k.shape[2])
    return {"o": softmax(scores(q, k, (far >= 0) & (far < W))) @ v}


case(
    "attention_window",
    [
        {"B": 1, "H": 1, "S": 1, "D": 64, "W": 1},
        {"B": 1, "H": 2, "S": 300, "D": 64, "W": 70},
        {"B": 1, "H": 1, "S": 257, "D": 64, "W": 1000},
        *with_edges({"B": 1, "H": 1, "S": 300, "D": 64, "W": 40}),
    ],
    lambda rng, s: edged({**heads(rng, s, "qkv", "H", "S"), "scale": SCALE, "W": s["W"]}, s),
    window,
    2e-5,
    TYPES,
)


def packed(q, k, v, at, scale):
    o = np.zeros_like(q)
    for first, last in zip(at[:-1], at[1:], strict=True):
        if first == last:
            continue
        part = [np.swapaxes(x[first:last], 0, 1) for x in (q, k, v)]
        o[first:last] = np.swapaxes(softmax(scores(part[0], part[1])) @ part[2], 0, 1)
    return {"o": o}


case(
    "attention_packed",
    [
        {"at": [0, 1]},
        {"at": [0, 100, 103, 103, 331, 400]},
        *with_edges({"at": [0, 100, 103, 103, 500]}),
    ],
    lambda rng, s: edged({
        **{n: normal(rng, s["at"][-1], 2, 64) for n in "qkv"},
        "at": np.array(s["at"], np.int32),
        "scale": SCALE,
    }, s, 0, 256),
    packed,
    2e-5,
    TYPES,
)


def paged(q, k, v, table, length, scale):
    b, _, rows, d = q.shape
    o = np.zeros_like(q)
    for i in range(b):
        keys, values = (
            np.swapaxes(x[table[i]], 0, 1).reshape(x.shape[1], -1, d)[:, : length[i]]
            for x in (k, v)
        )
        own = for_heads(q, keys[None])
        seen = back(rows, length[i]) + length[i] - rows >= 0
        o[i] = empty_softmax(scores(q[i], keys[own], seen)) @ values[own]
    return {"o": o}


def make_paged(rng, s):
    pages = -(-max(s["length"]) // s["R"])
    b = len(s["length"])
    table = rng.permutation(b * pages + 1)[: b * pages].reshape(b, pages)
    made = {
        "q": normal(rng, b, s["H"], s["S"], s["D"]),
        **{n: normal(rng, b * pages + 1, s["G"], s["R"], s["D"]) for n in "kv"},
        "table": table.astype(np.int32),
        "length": np.array(s["length"], np.int64),
        "scale": SCALE,
    }
    if "edge" in s:  # of each sequence's first page, of all pages, or of its last one
        walked = {"first": table[:, 0], "all": table}.get(s["edge"], table[:, -1])
        made["q"][..., 0] = 1
        made["k"][walked.ravel(), ..., 0] = {"inf": np.inf, "nan": np.nan}.get(s["edge"], -np.inf)
    return made


case(
    "attention_paged",
    [
        {"length": [1], "H": 1, "G": 1, "S": 1, "R": 64, "D": 64},
        {"length": [200, 64, 130], "H": 4, "G": 2, "S": 3, "R": 64, "D": 64},
        {"length": [0, 70, 1], "H": 1, "G": 1, "S": 3, "R": 64, "D": 64},
        *with_edges({"length": [200, 64, 130], "H": 1, "G": 1, "S": 3, "R": 64, "D": 64}),
    ],
    make_paged,
    paged,
    2e-5,
    TYPES,
)


def paged_decode(q, k, v, table, length, scale):
    b, g, h, d = q.shape
    return {"o": paged(q.reshape(b, g * h, 1, d), k, v, table, length, scale)["o"].reshape(q.shape)}


def make_paged_decode(rng, s):
    made = make_paged(rng, {**s, "H": s["G"] * s["H"], "S": 1})
    made["q"] = made["q"].reshape(-1, s["G"], s["H"], s["D"])
    return made


case(
    "attention_paged_decode",
    [
        {"length": [1], "H": 1, "G": 1, "R": 64, "D": 64},
        {"length": [1100, 64, 2130], "H": 3, "G": 2, "R": 64, "D": 64},
        {"length": [0, 70, 1], "H": 1, "G": 1, "R": 64, "D": 64},
        *with_edges({"length": [1100, 64, 2130], "H": 3, "G": 1, "R": 64, "D": 64}),
    ],
    make_paged_decode,
    paged_decode,
    2e-5,
    TYPES,
)

case(
    "attention_decode",
    [
        {"B": 1, "G": 1, "R": 1, "L": 1, "D": 64},
        {"B": 2, "G": 3, "R": 4, "L": 700, "D": 64},
        {"B": 1, "G": 1, "R": 2, "L": 0, "D": 64},
        *with_edges({"B": 1, "G": 2, "R": 4, "L": 700, "D": 64}),
    ],
    lambda rng, s: edged({
        **heads(rng, s, "q", "G", "R"),
        **heads(rng, s, "kv", "G", "L"),
        "scale": SCALE,
        "set": {"C": 256},
    }, s),
    full,
    2e-5,
    TYPES,
)


def backward(q, k, v, o, g, lse, scale):
    p = np.exp(scores(q, k, back(q.shape[2], k.shape[2]) >= 0) - lse[..., None])
    d = p * (g @ np.swapaxes(v, 2, 3) - (g * o).sum(axis=3, keepdims=True)) * SCALE
    turned = np.swapaxes(d, 2, 3), np.swapaxes(p, 2, 3)
    return {"dq": d @ k, "dk": turned[0] @ q, "dv": turned[1] @ g}


def make_backward(rng, s):
    made = {**heads(rng, s, "qg", "H", "S"), **heads(rng, s, "kv", "H", "L")}
    s = scores(made["q"], made["k"], back(s["S"], s["L"]) >= 0)
    made["o"] = (softmax(s) @ made["v"]).astype(np.float32)
    made["lse"] = log_sum(s).astype(np.float64)
    return {**made, "scale": SCALE, "set": {"causal": "true"}}


case(
    "attention_backward",
    [
        {"B": 1, "H": 1, "S": 1, "L": 1, "D": 64},
        {"B": 1, "H": 2, "S": 200, "L": 200, "D": 64},
        {"B": 1, "H": 1, "S": 130, "L": 257, "D": 64},
    ],
    make_backward,
    backward,
    1e-4,
    TYPES,
)
