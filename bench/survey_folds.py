# SPDX-License-Identifier: Apache-2.0
"""Cases of survey.py: sums and their kin, rows that are normalized, scans."""

import torch
import torch.nn.functional as functional

from survey_cases import WIDE, FLAT, ROWS, COLUMNS, MIDDLE, add, one, two, sum_of, to_f32

one("sum_all", FLAT, lambda x: torch.sum(x, dtype=to_f32(x).dtype)[None], (1000,))
one(
    "norm_all",
    FLAT[:1],
    lambda x: torch.linalg.vector_norm(x, dtype=to_f32(x).dtype)[None],
    (1000,),
)
one("max_all", FLAT[:1], lambda x: torch.max(x)[None], (1000,))
one("var_all", FLAT[:1], lambda x: torch.var(to_f32(x), correction=0)[None], (1000,))
one("softmax_all", FLAT[:1], lambda x: torch.softmax(x, 0), (1000,))
one("argmax_all", FLAT[:1], lambda x: torch.argmax(x)[None], (1000,), types=WIDE)
one("count", FLAT[:1], lambda x: torch.sum(x > 0.5)[None], (1000,))
two("dot_all", FLAT[:1], lambda x, y: torch.dot(x, y)[None].to(to_f32(x).dtype), (1000,))
one("sum_rows", ROWS, lambda x: sum_of(x, 1), (30, 33))
one("sum_columns", COLUMNS, lambda x: sum_of(x, 0), (30, 33))
one("sum_middle", MIDDLE, lambda x: sum_of(x, 1), (3, 30, 33))
one("sum_two", [(64, 64, 64, 256), (16, 512, 128, 64)], lambda x: sum_of(x, (0, 2)), (3, 4, 5, 6))
one("max_rows", ROWS[:3], lambda x: torch.amax(x, 1), (30, 33))
one("max_columns", COLUMNS[:3], lambda x: torch.amax(x, 0), (30, 33))
one("max_middle", MIDDLE[:3], lambda x: torch.amax(x, 1), (3, 30, 33))
one(
    "argmax_rows",
    [(4096, 50257), (1000000, 33), (65536, 1000)],
    lambda x: torch.argmax(x, 1),
    (30, 33),
    types=WIDE,
)
one("argmax_columns", COLUMNS[:3], lambda x: torch.argmax(x, 0), (30, 33), types=WIDE)
one(
    "mean_last_two",
    [(256, 256, 32, 32), (64, 2048, 7, 7)],
    lambda x: torch.mean(x, (2, 3), dtype=to_f32(x).dtype),
    (2, 3, 5, 7),
)
one("var_rows", ROWS[:5], lambda x: torch.var(to_f32(x), 1, correction=0), (30, 33))
one("var_columns", COLUMNS[:4], lambda x: torch.var(to_f32(x), 0, correction=0), (30, 33))
one("var_middle", MIDDLE[:3], lambda x: torch.var(to_f32(x), 1, correction=0), (3, 30, 33))
one("logsumexp_rows", ROWS[:3] + [(4096, 50257)], lambda x: torch.logsumexp(to_f32(x), 1), (30, 33))
one("logsumexp_columns", COLUMNS[:3], lambda x: torch.logsumexp(to_f32(x), 0), (30, 33))
one(
    "least_and_most",
    ROWS[:2],
    lambda x: dict(zip(("low", "high"), torch.aminmax(x, dim=1))),
    (30, 33),
)

NORMED = [
    (20000, 3000),
    (10000, 6000),
    (5000, 12000),
    (3000, 20000),
    (1500, 40000),
    (300, 200000),
    (8, 40000),
    (2000000, 7),
    (1000000, 33),
    (500000, 100),
]
one("softmax_rows", NORMED, lambda x: torch.softmax(x, 1), (30, 33), types=WIDE)
one("softmax_middle", MIDDLE, lambda x: torch.softmax(x, 1), (3, 30, 33))
one(
    "log_softmax_rows",
    NORMED[:1] + NORMED[4:6] + NORMED[8:] + [(4096, 50257)],
    lambda x: torch.log_softmax(x, 1),
    (30, 33),
)
add(
    "masked_softmax",
    [(16384, 4096)],
    lambda make, m, n: {"x": make(m, n), "length": make.at(n, m) + 1},
    lambda x, length: torch.softmax(
        x.masked_fill(
            torch.arange(x.shape[1], device=x.device)[None] >= length[:, None], -torch.inf
        ),
        1,
    ),
    small=(30, 33),
)
add(
    "softmax_gradient",
    [(16384, 4096), (1000000, 33)],
    lambda make, m, n: {"y": torch.softmax(make(m, n), 1), "dy": make(m, n)},
    lambda y, dy: torch._softmax_backward_data(dy, y, 1, y.dtype),
    small=(30, 33),
)
add(
    "layer_norm_rows",
    NORMED,
    lambda make, m, n: {"x": make(m, n), "weight": make(n), "bias": make(n)},
    lambda x, weight, bias: functional.layer_norm(x, x.shape[1:], weight, bias),
    small=(30, 33),
)


def residual(x, r, weight):
    h = x + r
    return {"h": h, "y": functional.rms_norm(h, h.shape[1:], weight, 1e-6)}


add(
    "residual_rms_norm",
    [(16384, 4096), (8192, 7168)],
    lambda make, m, n: {"x": make(m, n), "r": make(m, n), "weight": make(n)},
    residual,
    small=(30, 33),
)


def channels(make, b, l, c):
    return {"x": make(b, l, c), "weight": make(c, dtype="f32"), "bias": make(c, dtype="f32")}


def group_norm(x, weight, bias):
    kind = x.dtype
    return (
        functional.group_norm(x.transpose(1, 2), 32, weight.to(kind), bias.to(kind))
        .transpose(1, 2)
        .contiguous()
    )


add("group_norm_last", [(64, 3136, 256), (16, 4096, 320)], channels, group_norm, small=(2, 9, 64))
add(
    "batch_norm_last",
    [(200704, 256), (2**20, 64), (2**15, 2048)],
    lambda make, m, c: {
        "x": make(m, c),
        "weight": make(c, dtype="f32"),
        "bias": make(c, dtype="f32"),
    },
    lambda x, weight, bias: functional.batch_norm(
        x, None, None, weight.to(x.dtype), bias.to(x.dtype), True
    ),
    small=(30, 33),
)
one(
    "instance_norm_first",
    [(64, 256, 3136), (2048, 512, 49)],
    lambda x: functional.instance_norm(x),
    (3, 4, 33),
)
one("l2_rows", [(16384, 4096), (500000, 128)], lambda x: functional.normalize(x, dim=1), (30, 33))
add(
    "cross_entropy_rows",
    [(4096, 50257), (8192, 32000), (500000, 100)],
    lambda make, m, n: {"x": make(m, n), "label": make.at(n, m)},
    lambda x, label: functional.cross_entropy(to_f32(x), label, reduction="none"),
    library=lambda x, label: functional.cross_entropy(x, label, reduction="none"),
    small=(30, 33),
)
add(
    "cross_entropy_gradient",
    [(4096, 50257), (16384, 4096)],
    lambda make, m, n: {"x": make(m, n), "label": make.at(n, m), "g": make(m, dtype="f32")},
    lambda x, label, g: (
        (torch.softmax(to_f32(x), 1) - functional.one_hot(label, x.shape[1])) * g[:, None]
    ).to(x.dtype),
    small=(30, 33),
)
add(
    "kl_rows",
    [(16384, 4096), (4096, 50257)],
    lambda make, m, n: {"x": torch.log_softmax(make(m, n), 1), "y": torch.softmax(make(m, n), 1)},
    lambda x, y: functional.kl_div(to_f32(x), to_f32(y), reduction="none").sum(1),
    small=(30, 33),
)


def quantized(x):
    s = to_f32(x).abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
    return {"q": (to_f32(x) / s).round().clamp(-127, 127).to(torch.int8), "scale": s[:, 0]}


one("quantize_rows", [(16384, 4096), (8192, 14336), (500000, 128)], quantized, (30, 33))

SCANS = [(4096, 4096), (16384, 4096), (500000, 100), (64, 2**20)]
one("cumsum_rows", SCANS, lambda x: torch.cumsum(x, 1), (30, 33))
one(
    "cumsum_columns",
    [(4096, 4096), (16384, 4096), (2**20, 64)],
    lambda x: torch.cumsum(x, 0),
    (30, 33),
)
one("cumsum_middle", [(64, 1024, 1024), (16, 65536, 64)], lambda x: torch.cumsum(x, 1), (3, 30, 33))
one("cummax_rows", SCANS[:3], lambda x: torch.cummax(x, 1).values, (30, 33), types=WIDE)
add(
    "cumprod_rows",
    SCANS[:2],
    lambda make, m, n: {"x": 1 + make(m, n) * 0.001},
    lambda x: torch.cumprod(x, 1),
    small=(30, 33),
    types=WIDE,
)


def segment_sums(x, first):
    total = torch.cumsum(x.double(), 0)
    last = torch.cummax(torch.where(first, torch.arange(len(x), device=x.device), 0), 0).values
    return total - torch.where(first[last], (total - x)[last], 0)


def starts(make, n):
    return {"x": make(n), "first": make.at(100, n) == 0}


add(
    "segmented",
    [(2**26,)],
    starts,
    segment_sums,
    small=(1000,),
    types=WIDE,
    library=lambda x, first: torch.cumsum(x, 0),
)
DECAYS = [(4096, 4096), (16384, 4096)]


def recurrence(a, x):
    h, out = torch.zeros_like(x[:, 0], dtype=torch.float64), []
    for i in range(x.shape[1]):
        h = a[:, i] * h + x[:, i]
        out.append(h)
    return torch.stack(out, 1)


def decays(make, *size):
    return {"a": torch.rand(*size, device=make.device).to(make.dtype), "x": make(*size)}


add(
    "recurrence_rows",
    DECAYS,
    decays,
    recurrence,
    small=(30, 33),
    types=WIDE,
    library=lambda a, x: torch.cumsum(x, 1),
)
add(
    "recurrence_middle",
    [(8, 2048, 4096), (64, 8192, 128)],
    decays,
    recurrence,
    small=(3, 30, 33),
    library=lambda a, x: torch.cumsum(x, 1),
)
