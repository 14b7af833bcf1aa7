#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survey.py --tessera PROGRAM: many small programs beside torch and the copy rate, quickly.

bench/gpu.py measures few programs well; this one measures many, each in short bursts, to find those
that are far from what the card can do. Each answer is compared with torch in f64 before it is timed.
A line a case: what share of the copy rate ours and torch reach (of the card's product rate, where a
case is a product), and how wrong ours is.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as functional

import ours
from workload import DTYPES

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOTH, WIDE, NARROW = ("f32", "bf16"), ("f32",), ("bf16",)
TOLERANCE = {"f32": 2e-5, "bf16": 6e-3}


@dataclass
class Case:
    kernel: str
    sizes: list        # what `inputs` is called with, after the type
    inputs: object     # (make, *size) → {parameter: array}
    peer: object       # torch's version: (**inputs) → array, or {result: array}
    types: tuple = BOTH
    small: tuple = ()  # sizes for the CPU
    consts: object = None  # (*size) → {const parameter: value}
    flops: object = None   # (*size) → floating-point operations, where those bound it
    exact: bool = False
    made: object = None    # what ours writes if it is not in the form of torch's result
    library: object = None  # what is timed, where `peer` is no fair competitor


class Make:
    """Arrays of a type on a device."""

    def __init__(self, dtype, device):
        self.dtype, self.device = DTYPES[dtype], device

    def __call__(self, *shape, dtype=None):
        kind = DTYPES[dtype] if dtype else self.dtype
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(kind)

    def at(self, limit, *shape, dtype=torch.int64):
        return torch.randint(limit, shape, device=self.device, dtype=dtype)


def wide(x):
    return x.double() if x.is_floating_point() else x


def x_of(*shape_names):
    """Inputs of one array x of all sizes."""
    return lambda make, *size: {"x": make(*size)}


FLAT = [(2**26,), (2**16,)]
ROWS = [(16384, 4096), (1000000, 33), (2000000, 7), (500000, 100), (32, 2**21), (3000, 20000)]
COLUMNS = [(16384, 4096), (2**21, 32), (300, 200000), (4096, 1000), (1000000, 33)]
MIDDLE = [(64, 256, 4096), (4096, 256, 64), (64, 16384, 64), (2**18, 7, 33)]
CASES = []


def add(*args, **named):
    CASES.append(Case(*args, **named))


def one(kernel, sizes, peer, small, **named):
    """A case of one input, x."""
    add(kernel, sizes, lambda make, *s: {"x": make(*s)}, peer, small=small, **named)


def two(kernel, sizes, peer, small, **named):
    add(kernel, sizes, lambda make, *s: {"x": make(*s), "y": make(*s)}, peer, small=small, **named)


F32 = torch.float32


def sum_of(x, axis):
    return torch.sum(x, axis, dtype=x.dtype if x.dtype == torch.float64 else F32)


def to_f32(x):
    return x if x.dtype == torch.float64 else x.float()


one("sum_all", FLAT, lambda x: torch.sum(x, dtype=to_f32(x).dtype)[None], (1000,))
one("norm_all", FLAT[:1], lambda x: torch.linalg.vector_norm(x, dtype=to_f32(x).dtype)[None], (1000,))
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
one("argmax_rows", [(4096, 50257), (1000000, 33), (65536, 1000)], lambda x: torch.argmax(x, 1),
    (30, 33), types=WIDE)
one("argmax_columns", COLUMNS[:3], lambda x: torch.argmax(x, 0), (30, 33), types=WIDE)
one("mean_last_two", [(256, 256, 32, 32), (64, 2048, 7, 7)],
    lambda x: torch.mean(x, (2, 3), dtype=to_f32(x).dtype), (2, 3, 5, 7))
one("var_rows", ROWS[:5], lambda x: torch.var(to_f32(x), 1, correction=0), (30, 33))
one("var_columns", COLUMNS[:4], lambda x: torch.var(to_f32(x), 0, correction=0), (30, 33))
one("var_middle", MIDDLE[:3], lambda x: torch.var(to_f32(x), 1, correction=0), (3, 30, 33))
one("logsumexp_rows", ROWS[:3] + [(4096, 50257)], lambda x: torch.logsumexp(to_f32(x), 1), (30, 33))
one("logsumexp_columns", COLUMNS[:3], lambda x: torch.logsumexp(to_f32(x), 0), (30, 33))
one("least_and_most", ROWS[:2], lambda x: dict(zip(("low", "high"), torch.aminmax(x, dim=1))), (30, 33))

NORMED = [(20000, 3000), (10000, 6000), (5000, 12000), (3000, 20000), (1500, 40000), (300, 200000),
          (8, 40000), (2000000, 7), (1000000, 33), (500000, 100)]
one("softmax_rows", NORMED, lambda x: torch.softmax(x, 1), (30, 33), types=WIDE)
one("softmax_middle", MIDDLE, lambda x: torch.softmax(x, 1), (3, 30, 33))
one("log_softmax_rows", NORMED[:1] + NORMED[4:6] + NORMED[8:] + [(4096, 50257)],
    lambda x: torch.log_softmax(x, 1), (30, 33))
add("masked_softmax", [(16384, 4096)],
    lambda make, m, n: {"x": make(m, n), "length": make.at(n, m) + 1},
    lambda x, length: torch.softmax(x.masked_fill(
        torch.arange(x.shape[1], device=x.device)[None] >= length[:, None], -torch.inf), 1), small=(30, 33))
add("softmax_gradient", [(16384, 4096), (1000000, 33)],
    lambda make, m, n: {"y": torch.softmax(make(m, n), 1), "dy": make(m, n)},
    lambda y, dy: torch._softmax_backward_data(dy, y, 1, y.dtype), small=(30, 33))
add("layer_norm_rows", NORMED, lambda make, m, n: {"x": make(m, n), "weight": make(n), "bias": make(n)},
    lambda x, weight, bias: functional.layer_norm(x, x.shape[1:], weight, bias), small=(30, 33))


def residual(x, r, weight):
    h = x + r
    return {"h": h, "y": functional.rms_norm(h, h.shape[1:], weight, 1e-6)}


add("residual_rms_norm", [(16384, 4096), (8192, 7168)],
    lambda make, m, n: {"x": make(m, n), "r": make(m, n), "weight": make(n)}, residual, small=(30, 33))


def channels(make, b, l, c):
    return {"x": make(b, l, c), "weight": make(c, dtype="f32"), "bias": make(c, dtype="f32")}


def group_norm(x, weight, bias):
    kind = x.dtype
    return functional.group_norm(x.transpose(1, 2), 32, weight.to(kind), bias.to(kind)).transpose(1, 2).contiguous()


add("group_norm_last", [(64, 3136, 256), (16, 4096, 320)], channels, group_norm, small=(2, 9, 64))
add("batch_norm_last", [(200704, 256), (2**20, 64), (2**15, 2048)],
    lambda make, m, c: {"x": make(m, c), "weight": make(c, dtype="f32"), "bias": make(c, dtype="f32")},
    lambda x, weight, bias: functional.batch_norm(x, None, None, weight.to(x.dtype), bias.to(x.dtype), True), small=(30, 33))
one("instance_norm_first", [(64, 256, 3136), (2048, 512, 49)], lambda x: functional.instance_norm(x), (3, 4, 33))
one("l2_rows", [(16384, 4096), (500000, 128)], lambda x: functional.normalize(x, dim=1), (30, 33))
add("cross_entropy_rows", [(4096, 50257), (8192, 32000), (500000, 100)],
    lambda make, m, n: {"x": make(m, n), "label": make.at(n, m)},
    lambda x, label: functional.cross_entropy(to_f32(x), label, reduction="none"),
    library=lambda x, label: functional.cross_entropy(x, label, reduction="none"), small=(30, 33))
add("cross_entropy_gradient", [(4096, 50257), (16384, 4096)],
    lambda make, m, n: {"x": make(m, n), "label": make.at(n, m), "g": make(m, dtype="f32")},
    lambda x, label, g: ((torch.softmax(to_f32(x), 1) - functional.one_hot(label, x.shape[1])) * g[:, None]).to(x.dtype),
    small=(30, 33))
add("kl_rows", [(16384, 4096), (4096, 50257)],
    lambda make, m, n: {"x": torch.log_softmax(make(m, n), 1), "y": torch.softmax(make(m, n), 1)},
    lambda x, y: functional.kl_div(to_f32(x), to_f32(y), reduction="none").sum(1), small=(30, 33))


def quantized(x):
    s = to_f32(x).abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
    return {"q": (to_f32(x) / s).round().clamp(-127, 127).to(torch.int8), "scale": s[:, 0]}


one("quantize_rows", [(16384, 4096), (8192, 14336), (500000, 128)], quantized, (30, 33))

SCANS = [(4096, 4096), (16384, 4096), (500000, 100), (64, 2**20)]
one("cumsum_rows", SCANS, lambda x: torch.cumsum(x, 1), (30, 33))
one("cumsum_columns", [(4096, 4096), (16384, 4096), (2**20, 64)], lambda x: torch.cumsum(x, 0), (30, 33))
one("cumsum_middle", [(64, 1024, 1024), (16, 65536, 64)], lambda x: torch.cumsum(x, 1), (3, 30, 33))
one("cummax_rows", SCANS[:3], lambda x: torch.cummax(x, 1).values, (30, 33), types=WIDE)
add("cumprod_rows", SCANS[:2], lambda make, m, n: {"x": 1 + make(m, n) * 0.001}, lambda x: torch.cumprod(x, 1),
    small=(30, 33), types=WIDE)


def segment_sums(x, first):
    total = torch.cumsum(x.double(), 0)
    last = torch.cummax(torch.where(first, torch.arange(len(x), device=x.device), 0), 0).values
    return total - torch.where(first[last], (total - x)[last], 0)


def starts(make, n):
    return {"x": make(n), "first": make.at(100, n) == 0}


add("segmented", [(2**26,)], starts, segment_sums, small=(1000,), types=WIDE,
    library=lambda x, first: torch.cumsum(x, 0))
DECAYS = [(4096, 4096), (16384, 4096)]


def recurrence(a, x):
    h, out = torch.zeros_like(x[:, 0], dtype=torch.float64), []
    for i in range(x.shape[1]):
        h = a[:, i] * h + x[:, i]
        out.append(h)
    return torch.stack(out, 1)


def decays(make, *size):
    return {"a": torch.rand(*size, device=make.device).to(make.dtype), "x": make(*size)}


add("recurrence_rows", DECAYS, decays, recurrence, small=(30, 33), types=WIDE,
    library=lambda a, x: torch.cumsum(x, 1))
add("recurrence_middle", [(8, 2048, 4096), (64, 8192, 128)], decays, recurrence, small=(3, 30, 33),
    library=lambda a, x: torch.cumsum(x, 1))

PLANE = [(16384, 4096), (2000000, 33)]
add("add_row", PLANE, lambda make, m, n: {"x": make(m, n), "b": make(n)}, lambda x, b: x + b, small=(30, 33))
add("add_column", PLANE, lambda make, m, n: {"x": make(m, n), "c": make(m)}, lambda x, c: x + c[:, None], small=(30, 33))
add("outer", PLANE, lambda make, m, n: {"a": make(m), "b": make(n)}, lambda a, b: a[:, None] * b, small=(30, 33))
add("scale_channels", [(64, 256, 3136), (256, 2048, 49)],
    lambda make, b, c, s: {"x": make(b, c, s), "w": make(c), "b": make(c)},
    lambda x, w, b: torch.addcmul(b[:, None], x, w[:, None]), small=(3, 4, 33))


def clamp_chain(x, y):
    a = torch.clamp(x * 1.5 - 0.25, -1, 1)
    return torch.where(y > 0, a, torch.where(y < -1, -a, a * y))


two("clamp_chain", FLAT, clamp_chain, (1000,))
one("gelu_all", FLAT[:1], functional.gelu, (1000,))
one("to_bf16", FLAT[:1], lambda x: x.to(torch.bfloat16), (1000,), types=WIDE)
add("from_u8", [(2**28,)], lambda make, n: {"x": make.at(256, n, dtype=torch.uint8)}, lambda x: x.float() / 255,
    small=(1000,), types=WIDE)
one("to_f8", [(2**28,)], lambda x: x.to(torch.bfloat16).to(torch.float8_e4m3fn), (1000,), types=NARROW)


def words(make, n):
    return {"x": make.at(2**31, n, dtype=torch.int32).view(torch.uint32)}


def xorshift(x):
    x = x.view(torch.int32).long()
    x = (x ^ (x << 13)) & 0xffffffff
    x = x ^ (x >> 17)
    x = (x ^ (x << 5)) & 0xffffffff
    return x.to(torch.uint32) if x.device.type == "cpu" else x.to(torch.int32).view(torch.uint32)


add("xorshift", [(2**27,)], words, xorshift, small=(1000,), types=WIDE)
add("complex_product", [(2**26,)], lambda make, n: {"x": make(n, 2), "y": make(n, 2)},
    lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)), small=(1000,), types=WIDE)


def swiglu(x):
    a, b = x.chunk(2, 1)
    return functional.silu(a) * b


add("swiglu_rows", [(16384, 4096), (8192, 14336)], lambda make, m, n: {"x": make(m, 2 * n)}, swiglu, small=(30, 33))


def angles(make, b, s, h, d, part=1):
    t = torch.rand(s, d // part, device=make.device) * 6
    return {"x": make(b, s, h, d), "cosine": t.cos(), "sine": t.sin()}


def rotary_heads(x, cosine, sine):
    a, b = x.chunk(2, 3)
    return (x * cosine[:, None] + torch.cat([-b, a], 3) * sine[:, None]).to(x.dtype)


def rotary_pairs(x, cosine, sine):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cosine[:, None] - b * sine[:, None],
                        b * cosine[:, None] + a * sine[:, None]], -1).flatten(-2).to(x.dtype)


HEADS = [(4, 4096, 32, 128), (8, 2048, 64, 64)]
add("rotary_heads", HEADS, angles, rotary_heads, small=(2, 5, 3, 8))
add("rotary_pairs", HEADS[:1], lambda make, *s: angles(make, *s, part=2), rotary_pairs, small=(2, 5, 3, 8))


def adam(p, g, m, v):
    a, b = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return {"p1": p - 0.001 * (a / 0.5) / (torch.sqrt(b / 0.25) + 1e-8), "m1": a, "v1": b}


add("adam_step", FLAT[:1], lambda make, n: {"p": make(n), "g": make(n), "m": make(n), "v": make(n).abs()}, adam,
    small=(1000,), types=WIDE)

FOUR = [(8, 2048, 32, 128), (8, 32, 2048, 64), (64, 56, 56, 256)]
for order in ("0213", "0321", "1023", "0231"):
    one(f"permute_{order}", FOUR if order in ("0213", "0231") else FOUR[::2],
        lambda x, o=order: x.permute(*map(int, o)).contiguous(), (3, 4, 5, 6))
for order, sizes in ("021", [(64, 256, 3136), (4096, 64, 128), (2**18, 16, 16), (2**20, 3, 32), (2**14, 1000, 3)]), ("210", [(256, 512, 512)]):
    one(f"permute_{order}", sizes, lambda x, o=order: x.permute(*map(int, o)).contiguous(), (3, 4, 5))
add("add_transposed", [(8192, 8192)], lambda make, m, n: {"x": make(m, n), "y": make(n, m)}, lambda x, y: x + y.T, small=(30, 33))
one("flip_rows", PLANE[:1], lambda x: x.flip(1), (30, 33))
one("flip_columns", PLANE[:1], lambda x: x.flip(0), (30, 33))
one("roll_rows", PLANE[:1], lambda x: x.roll(1, 1), (30, 33))
one("pad_rows", PLANE[:1], lambda x: functional.pad(x, (1, 1, 1, 1)), (30, 33))
add("concat_columns", [(16384, 4096), (1000000, 33)], lambda make, m, n: {"x": make(m, n), "y": make(m, n // 2)},
    lambda x, y: torch.cat([x, y], 1), small=(30, 33))
two("stack_last", PLANE[:1], lambda x, y: torch.stack([x, y], 2), (30, 33))
add("every_second", PLANE[:1], lambda make, m, n: {"x": make(m, 2 * n)}, lambda x: x[:, ::2].contiguous(), small=(30, 33))
add("every_second_row", PLANE, lambda make, m, n: {"x": make(2 * m, n)}, lambda x: x[::2].contiguous(), small=(30, 33))
one("difference", PLANE[:1], lambda x: torch.diff(x, dim=1), (30, 33))
one("repeat_rows", [(8192, 2048)], lambda x: x.repeat_interleave(4, 1), (30, 33))
one("upper", [(8192, 8192)], torch.triu, (30, 33))


def enlarge_last(x):
    return functional.interpolate(x.permute(0, 3, 1, 2), scale_factor=2).permute(0, 2, 3, 1).contiguous()


one("upsample", [(32, 56, 56, 256)], enlarge_last, (2, 3, 4, 5))
one("upsample_first", [(32, 256, 56, 56)], lambda x: functional.interpolate(x, scale_factor=2), (2, 3, 4, 5))
add("pixel_shuffle", [(32, 64, 112, 112)], lambda make, b, c, h, w: {"x": make(b, c, 2, 2, h, w)},
    lambda x: functional.pixel_shuffle(x.flatten(1, 3), 2), small=(2, 3, 4, 5))

add("gather_rows", [(100000, 128, 2**20), (100000, 33, 2**20), (50000, 4096, 16384)],
    lambda make, v, d, n: {"x": make(v, d), "at": make.at(v, n)}, lambda x, at: x[at], small=(30, 33, 50))
add("gather_columns", [(16384, 4096, 4096)], lambda make, m, v, n: {"x": make(m, v), "at": make.at(v, n)},
    lambda x, at: x[:, at], small=(30, 33, 50))
add("take_along", [(16384, 4096, 4096)], lambda make, m, v, n: {"x": make(m, v), "at": make.at(v, m, n)},
    lambda x, at: torch.gather(x, 1, at), small=(30, 33, 50))


def scattered(dy, at, x):
    return {"x": torch.zeros_like(x).index_add_(0, at, dy)}


add("scatter_rows", [(100000, 128, 2**20), (50000, 1024, 2**16), (1000, 128, 2**20)],
    lambda make, v, d, n: {"dy": make(n, d), "at": make.at(v, n), "x": torch.zeros(v, d, device=make.device)},
    scattered, small=(30, 33, 50), types=WIDE, made="inout")
add("scatter_permuted", [(2**26,)], lambda make, n: {"x": make(n), "at": torch.randperm(n, device=make.device)},
    lambda x, at: torch.empty_like(x).index_put_((at,), x), small=(1000,))
add("one_hot", [(65536,)], lambda make, n: {"at": make.at(1000, n)},
    lambda at: functional.one_hot(at, 1000).float(), small=(50,), types=WIDE)


def binned(limit):
    return lambda x: torch.bincount(x, minlength=limit).to(torch.int32)


for limit in (16, 256, 65536):
    add("bins", [(2**26,)], lambda make, n, k=limit: {"x": make.at(k, n, dtype=torch.int32)}, binned(limit),
        small=(1000,), types=WIDE, consts=lambda *s, k=limit: {"K": k})
one("sort_rows", [(4096, 1024), (65536, 32), (64, 2**18), (65536, 256)], lambda x: torch.sort(x, 1).values, (30, 33))
add("topk_rows", [(262144, 64), (16384, 1000), (4096, 50257)],
    lambda make, m, n: {"x": make(m, n, dtype="f32").argsort(dim=1).to(make.dtype)},
    lambda x: dict(zip(("value", "at"), torch.topk(x, 4, 1))), small=(30, 33), types=WIDE)


def jacobi(x):
    p = functional.pad(x[None], (1,) * 6)[0]
    c = slice(1, -1)
    return (p[2:, c, c] + p[:-2, c, c] + p[c, 2:, c] + p[c, :-2, c] + p[c, c, 2:] + p[c, c, :-2]) / 6


one("jacobi_3d", [(512, 512, 512), (128, 1000, 1000)], jacobi, (5, 6, 7), types=WIDE)
one("blur_5x5", [(8192, 8192), (2160, 3840)], lambda x: functional.avg_pool2d(x[None, None], 5, 1, 2)[0, 0], (9, 11))


def sobel(x):
    w = torch.tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=x.dtype, device=x.device)
    g = functional.conv2d(x[None, None], torch.stack([w, w.T])[:, None], padding=1)[0]
    return torch.sqrt(g[0] ** 2 + g[1] ** 2)


one("sobel", [(8192, 8192)], sobel, (9, 11), types=WIDE)
one("moving_mean", [(2**26,)], lambda x: functional.avg_pool1d(functional.pad(x[None], (31, 0)), 32, 1)[0], (1000,), types=WIDE)
add("average_pool_first", [(64, 64, 56, 56)], lambda make, b, c, h, w: {"x": make(b, c, 2 * h, 2 * w)},
    lambda x: functional.avg_pool2d(x, 2), small=(2, 3, 4, 5))


def last(function):
    return lambda x, *a, **k: function(x.permute(0, 3, 1, 2), *a, **k).permute(0, 2, 3, 1).contiguous()


one("average_pool_last", [(64, 112, 112, 64)], last(lambda x: functional.avg_pool2d(x, 2)), (2, 8, 10, 5))


def convolve(x, w, **named):
    """Channels last in both; any number of axes."""
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[x.dim() - 3]
    return function(x.movedim(-1, 1), w.movedim(-1, 1), **named).movedim(1, -1)


add("depthwise_stride", [(64, 112, 112, 96), (32, 56, 56, 144)], lambda make, b, h, w, c: {"x": make(b, h, w, c), "w": make(3, 3, c)},
    lambda x, w: functional.conv2d(x.permute(0, 3, 1, 2), w.permute(2, 0, 1)[:, None], stride=2, padding=1,
                                   groups=x.shape[3]).permute(0, 2, 3, 1), small=(2, 8, 9, 5))
add("depthwise_first", [(64, 96, 112, 112), (32, 144, 56, 56)], lambda make, b, c, h, w: {"x": make(b, c, h, w), "w": make(c, 3, 3)},
    lambda x, w: functional.conv2d(x, w[:, None], padding=1, groups=x.shape[1]), small=(2, 5, 8, 9))
add("causal_conv1d", [(8, 2048, 4096)], lambda make, b, l, c: {"x": make(b, l, c), "w": make(4, c)},
    lambda x, w: functional.silu(functional.conv1d(functional.pad(x.mT, (3, 0)), w.T[:, None], groups=x.shape[2])).mT.contiguous(),
    small=(2, 9, 5))

SQUARE = [(8192, 8192), (16384, 1000), (512, 65536)]
add("matvec", SQUARE, lambda make, m, n: {"a": make(m, n), "x": make(n)}, lambda a, x: to_f32(a @ x), small=(30, 33))
add("vecmat", SQUARE, lambda make, m, n: {"a": make(m, n), "x": make(m)}, lambda a, x: to_f32(x @ a), small=(30, 33))
add("batched_matvec", [(256, 512, 512), (8192, 64, 128)], lambda make, b, m, n: {"a": make(b, m, n), "x": make(b, n)},
    lambda a, x: to_f32((a @ x[:, :, None])[:, :, 0]), small=(3, 30, 33))
add("batched_vecmat", [(256, 512, 512), (8192, 64, 128)], lambda make, b, m, n: {"a": make(b, m, n), "x": make(b, m)},
    lambda a, x: to_f32((x[:, None, :] @ a)[:, 0]), small=(3, 30, 33))
two("bilinear", [(16384, 4096), (1000000, 64)], lambda x, y: torch.linalg.vecdot(to_f32(x), to_f32(y)), (30, 33))


def convolution(kernel, sizes, shape, flops, small, peer=convolve, **named):
    add(kernel, sizes, lambda make, *s: {"x": make(*shape(*s)[0]), "w": make(*shape(*s)[1]) * 0.1},
        lambda x, w: peer(x, w, **named), small=small, flops=flops)


convolution("conv1d_channels", [(16, 4096, 256, 256), (16, 4096, 80, 512)], lambda b, l, c, o: ((b, l, c), (o, 3, c)),
            lambda b, l, c, o: 6 * b * l * c * o, (2, 9, 5, 7), padding=1)
convolution("conv3d_channels", [(2, 32, 56, 56, 64, 64)], lambda b, d, h, w, c, o: ((b, d, h, w, c), (o, 3, 3, 3, c)),
            lambda b, d, h, w, c, o: 54 * b * d * h * w * c * o, (1, 3, 4, 5, 5, 7), padding=1)
convolution("conv_dilated", [(16, 56, 56, 128, 128)], lambda b, h, w, c, o: ((b, h, w, c), (o, 3, 3, c)),
            lambda b, h, w, c, o: 18 * b * h * w * c * o, (2, 8, 9, 5, 7), padding=2, dilation=2)
convolution("conv_stem", [(64, 224, 224, 3, 64)], lambda b, h, w, c, o: ((b, h, w, 3), (o, 7, 7, 3)),
            lambda b, h, w, c, o: 2 * 147 * b * h * w // 4 * o, (2, 12, 13, 3, 7), padding=3, stride=2)
convolution("conv_transposed", [(16, 56, 56, 128, 128)], lambda b, h, w, c, o: ((b, h, w, c), (o, 2, 2, c)),
            lambda b, h, w, c, o: 8 * b * h * w * c * o, (2, 4, 5, 5, 7),
            lambda x, w: functional.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(3, 0, 1, 2), stride=2).permute(0, 2, 3, 1))
convolution("conv_first", [(16, 128, 56, 56, 128), (16, 64, 112, 112, 64)], lambda b, c, h, w, o: ((b, c, h, w), (o, c, 3, 3)),
            lambda b, c, h, w, o: 18 * b * h * w * c * o, (2, 5, 8, 9, 7), lambda x, w: functional.conv2d(x, w, padding=1))
convolution("conv_grouped", [(16, 56, 56, 32, 8), (16, 56, 56, 4, 64)], lambda b, h, w, g, c: ((b, h, w, g, c), (g, c, 3, 3, c)),
            lambda b, h, w, g, c: 18 * b * h * w * g * c * c, (2, 8, 9, 3, 5),
            lambda x, w: functional.conv2d(x.flatten(3).permute(0, 3, 1, 2), w.flatten(0, 1).permute(0, 3, 1, 2), padding=1,
                                           groups=x.shape[3]).permute(0, 2, 3, 1).unflatten(3, x.shape[3:]))
EINSUMS = {"scores": ("bhqd,bhkd->bhqk", [(8, 16, 1024, 1024, 64)], lambda b, h, q, k, d: ((b, h, q, d), (b, h, k, d)), "qk"),
           "bhqd_layout": ("bqhd,bkhd->bhqk", [(8, 16, 1024, 1024, 64)], lambda b, h, q, k, d: ((b, q, h, d), (b, k, h, d)), "qk"),
           "bij_bjk": ("bij,bjk->bik", [(64, 1024, 1024, 1024), (4096, 64, 64, 64)], lambda b, i, j, k: ((b, i, j), (b, j, k)), "ab"),
           "ijk_jkl": ("ijk,jkl->il", [(4096, 16, 256, 4096), (1024, 64, 64, 1024)], lambda i, j, k, l: ((i, j, k), (j, k, l)), "ab")}
for name, (formula, sizes, shape, names) in EINSUMS.items():
    add(name, sizes, lambda make, *s, shape=shape, n=names: dict(zip(n, (make(*shape(*s)[0]), make(*shape(*s)[1])))),
        lambda formula=formula, **inputs: torch.einsum(formula, *inputs.values()), small=(2, 3, 5, 7, 4)[:len(sizes[0])],
        flops=lambda *s: 2 * torch.Size(s).numel())


def product(m, n, d):
    return 2 * m * n * d


add("distances", [(4096, 4096, 64)], lambda make, m, n, d: {"x": make(m, d), "y": make(n, d)},
    lambda x, y: torch.cdist(x, y), small=(30, 33, 7), types=WIDE, flops=product)
add("nearest", [(65536, 1024, 64)], lambda make, m, n, d: {"x": make(m, d), "y": make(n, d)},
    lambda x, y: torch.cdist(x, y).argmin(1), small=(30, 33, 7), types=WIDE, flops=product)
add("pi", [(2**27,)], lambda make, n: {}, lambda: torch.tensor([3.14159265], device="cuda" if torch.cuda.is_available() else "cpu"), small=(10**5,), types=WIDE,
    consts=lambda n: {"N": n})


def error_of(result, reference):
    if not result.is_floating_point() or result.dtype.itemsize == 1:
        result, reference = result.double(), reference.double()
        return float((result != reference).double().mean())
    difference = (result.double() - reference.double()).norm()
    return float(difference / reference.double().norm().clamp(min=1e-30))


def poison(tensor):
    if tensor.dtype.itemsize == 1:
        tensor.view(torch.uint8).fill_(0x7f)
    elif tensor.dtype == torch.uint32:
        tensor.view(torch.int32).fill_(-7)
    else:
        tensor.fill_(float("nan") if tensor.is_floating_point() else -7)


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


def answers(case, inputs):
    """What torch makes, in f64 if it can: {result: array}."""
    made = case.peer(**{name: wide(x) for name, x in inputs.items()})
    return made if isinstance(made, dict) else {"": made}


def results_of(case, kernel, inputs, expected, dtype):
    """Arrays for ours, poisoned: {result: array}."""
    if case.made == "inout":
        return None
    made = {}
    for parameter in kernel.outputs:
        like = expected[parameter.name] if "" not in expected else expected[""]
        kind = DTYPES.get(str(parameter.dtype), None) if hasattr(parameter, "dtype") else None
        made[parameter.name] = like
    return made


class Timer:
    """Short bursts: the median of three of about 3 ms each."""

    def __init__(self):
        self.copies = {}

    @staticmethod
    def burst(launch, launches):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(launches):
            launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / launches

    def __call__(self, launch):
        launch()
        once = self.burst(launch, 1)
        if once > 0.05:
            return once
        launches = max(2, min(50, round(0.003 / once)))
        return statistics.median(self.burst(launch, launches) for _ in range(3 if once < 0.02 else 1))

    def copy(self, moved):
        """Seconds of a copy that moves as much."""
        half = max(moved // 2, 16)
        key = half.bit_length()
        if key not in self.copies:
            source = torch.zeros(half, dtype=torch.uint8, device="cuda")
            target = torch.empty_like(source)
            self.copies[key] = half / self(lambda: target.copy_(source))
        return half / self.copies[key]


def listed(small):
    """(case, type, size), each case's first size before any second one."""
    sizes = [(rank, case, dtype, size) for case in CASES for dtype in case.types
             for rank, size in enumerate([case.small] if small else case.sizes)]
    return [entry[1:] for entry in sorted(sizes, key=lambda entry: entry[0])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera")
    parser.add_argument("--only", default="", help="a pattern of kernel, type and sizes")
    parser.add_argument("--cpu", action="store_true", help="small sizes on the CPU, answers alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins after so many")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--warm", default="", help="I/N: compiles every Nth case from the Ith on, no more")
    parser.add_argument("--lines", default="", help="schedule lines for all cases")
    options = parser.parse_args()
    begin, library, timer, failed = time.perf_counter(), ours.use(options.tessera), Timer(), 0
    device = "cpu" if options.cpu else "cuda"
    program = library.load(ROOT / "bench/programs/survey.tile")
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = False
    done = {json.loads(line)["name"] for line in options.json.open()} if (
        options.json and options.json.exists()) else set()
    number = 0
    for case, dtype, size in listed(options.cpu):
        consts = case.consts(*size) if case.consts else {}
        name = f"{case.kernel} {dtype} {'x'.join(map(str, size))}"
        name += "".join(f" {k}={v}" for k, v in consts.items() if k != "N")
        number += 1
        if not re.search(options.only, name) or time.perf_counter() - begin > options.seconds:
            continue
        if name in done:
            continue
        if options.warm:
            part, parts = map(int, options.warm.split("/"))
            if number % parts == part:
                warm(program, case, dtype, size, consts, device)
            continue
        if options.json:  # a case that ends the process is not begun again
            with options.json.open("a") as file:
                file.write(json.dumps({"name": name, "begun": True}) + "\n")
        begun = time.perf_counter()
        row = measure(library, program, timer, case, dtype, size, consts, device, options)
        row["name"], row["wall"] = name, time.perf_counter() - begun
        failed += "problem" in row
        print(show(row), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if device == "cuda":
            torch.cuda.empty_cache()
    print(f"# {time.perf_counter() - begin:.0f} s, {failed} failed")
    return 1 if failed else 0


def warm(program, case, dtype, size, consts, device):
    """Puts a case's code into the cache."""
    try:
        inputs = case.inputs(Make(dtype, device), *size)
        if inputs:
            getattr(program, case.kernel).prepare(**inputs, **consts)
    except Exception as problem:
        print("#", case.kernel, dtype, size, str(problem).split("\n")[0][:200])


def measure(library, program, timer, case, dtype, size, consts, device, options):
    row = {}
    try:
        inputs = case.inputs(Make(dtype, device), *size)
        expected = answers(case, inputs)
        kernel = getattr(program, case.kernel)
        if options.lines:
            kernel = kernel.given(schedule=options.lines)
        called = dict(inputs)
        if case.made == "inout":
            launch = kernel.prepare(**called, **consts)
            made = {name: inputs[name] for name in expected}
            launch()
        else:
            first = time.perf_counter()
            launch = kernel.prepare(**called, **consts) if inputs else None
            made = results(kernel, launch, inputs, consts, expected, device)
            if launch is None:
                launch = kernel.prepare(out=next(iter(made.values())), **consts)
            row["compile"] = time.perf_counter() - first
            for result in made.values():
                poison(result)
            launch()
        if device == "cuda":
            torch.cuda.synchronize()
        # ours by the order of results, or by name
        pairs = zip(made.values(), expected.values()) if "" in expected else [
            (made[n], expected[n]) for n in expected]
        row["error"] = max(error_of(a, b) for a, b in pairs)
        limit = TOLERANCE[dtype] * (100 if case.kernel == "pi" else 1)
        if case.kernel == "quantize_rows":
            limit = 2e-3  # of quotients close to a tie
        if not row["error"] <= limit:
            row["problem"] = f"wrong by {row['error']:.2g}"
        if device == "cpu":
            return row
        del expected
        moved = sum(map(size_of, inputs.values())) + sum(
            size_of(a) for a in made.values()) * (1 if case.made != "inout" else 1)
        row["ours"] = timer(launch)
        peer = case.library or case.peer
        row["torch"] = timer(lambda: peer(**inputs))
        row["copy"] = timer.copy(moved)
        row["rate"] = moved / row["ours"] / 1e12
        if case.flops:
            row["flops"] = case.flops(*size) / row["ours"] / 1e12
    except Exception as problem:
        row["problem"] = f"{type(problem).__name__}: " + " ".join(str(problem).split("\n")[:3])[:300]
    return row


def results(kernel, launch, inputs, consts, expected, device):
    """{name: array} that ours writes."""
    if launch is None:
        return {p.name: torch.empty(1, device=device) for p in kernel.outputs}
    arrays = launch.results
    arrays = arrays if isinstance(arrays, (tuple, list)) else [arrays]
    return dict(zip([p.name for p in kernel.outputs], arrays))


def show(row):
    if "ours" not in row:
        return f"{row['name']:50} {row.get('problem') or 'right, error %.1e' % row['error']}"
    flops = f" {row['flops']:7.1f} TF/s" if "flops" in row else ""
    return (f"{row['name']:50} {row['ours'] * 1e6:9.1f} us {row['rate']:6.3f} TB/s"
            f" copy x{row['copy'] / row['ours']:.2f} torch x{row['torch'] / row['ours']:.2f}{flops}"
            f" err {row['error']:.1e} compile {row.get('compile', 0):.2f} {row.get('problem', '')}")


if __name__ == "__main__":
    sys.exit(main())
