# SPDX-License-Identifier: Apache-2.0
"""Cases of survey.py: element by element, views, gathers and scatters, orders."""

import torch
import torch.nn.functional as functional

from survey_cases import WIDE, NARROW, FLAT, add, one, two

PLANE = [(16384, 4096), (2000000, 33)]
add(
    "add_row",
    PLANE,
    lambda make, m, n: {"x": make(m, n), "b": make(n)},
    lambda x, b: x + b,
    small=(30, 33),
)
add(
    "add_column",
    PLANE,
    lambda make, m, n: {"x": make(m, n), "c": make(m)},
    lambda x, c: x + c[:, None],
    small=(30, 33),
)
add(
    "outer",
    PLANE,
    lambda make, m, n: {"a": make(m), "b": make(n)},
    lambda a, b: a[:, None] * b,
    small=(30, 33),
)
add(
    "scale_channels",
    [(64, 256, 3136), (256, 2048, 49)],
    lambda make, b, c, s: {"x": make(b, c, s), "w": make(c), "b": make(c)},
    lambda x, w, b: torch.addcmul(b[:, None], x, w[:, None]),
    small=(3, 4, 33),
)


def clamp_chain(x, y):
    a = torch.clamp(x * 1.5 - 0.25, -1, 1)
    return torch.where(y > 0, a, torch.where(y < -1, -a, a * y))


two("clamp_chain", FLAT, clamp_chain, (1000,))
one("gelu_all", FLAT[:1], functional.gelu, (1000,))
one("to_bf16", FLAT[:1], lambda x: x.to(torch.bfloat16), (1000,), types=WIDE)
add(
    "from_u8",
    [(2**28,)],
    lambda make, n: {"x": make.at(256, n, dtype=torch.uint8)},
    lambda x: x.float() / 255,
    small=(1000,),
    types=WIDE,
)
one(
    "to_f8",
    [(2**28,)],
    lambda x: x.to(torch.bfloat16).to(torch.float8_e4m3fn),
    (1000,),
    types=NARROW,
)


def words(make, n):
    return {"x": make.at(2**31, n, dtype=torch.int32).view(torch.uint32)}


def xorshift(x):
    x = x.view(torch.int32).long()
    x = (x ^ (x << 13)) & 0xFFFFFFFF
    x = x ^ (x >> 17)
    x = (x ^ (x << 5)) & 0xFFFFFFFF
    return x.to(torch.uint32) if x.device.type == "cpu" else x.to(torch.int32).view(torch.uint32)


add("xorshift", [(2**27,)], words, xorshift, small=(1000,), types=WIDE)
add(
    "complex_product",
    [(2**26,)],
    lambda make, n: {"x": make(n, 2), "y": make(n, 2)},
    lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
    small=(1000,),
    types=WIDE,
)


def swiglu(x):
    a, b = x.chunk(2, 1)
    return functional.silu(a) * b


add(
    "swiglu_rows",
    [(16384, 4096), (8192, 14336)],
    lambda make, m, n: {"x": make(m, 2 * n)},
    swiglu,
    small=(30, 33),
)


def angles(make, b, s, h, d, part=1):
    t = torch.rand(s, d // part, device=make.device) * 6
    return {"x": make(b, s, h, d), "cosine": t.cos(), "sine": t.sin()}


def rotary_heads(x, cosine, sine):
    a, b = x.chunk(2, 3)
    return (x * cosine[:, None] + torch.cat([-b, a], 3) * sine[:, None]).to(x.dtype)


def rotary_pairs(x, cosine, sine):
    a, b = x[..., ::2], x[..., 1::2]
    return (
        torch.stack(
            [a * cosine[:, None] - b * sine[:, None], b * cosine[:, None] + a * sine[:, None]], -1
        )
        .flatten(-2)
        .to(x.dtype)
    )


HEADS = [(4, 4096, 32, 128), (8, 2048, 64, 64)]
add("rotary_heads", HEADS, angles, rotary_heads, small=(2, 5, 3, 8))
add(
    "rotary_pairs",
    HEADS[:1],
    lambda make, *s: angles(make, *s, part=2),
    rotary_pairs,
    small=(2, 5, 3, 8),
)


def adam(p, g, m, v):
    a, b = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return {"p1": p - 0.001 * (a / 0.5) / (torch.sqrt(b / 0.25) + 1e-8), "m1": a, "v1": b}


add(
    "adam_step",
    FLAT[:1],
    lambda make, n: {"p": make(n), "g": make(n), "m": make(n), "v": make(n).abs()},
    adam,
    small=(1000,),
    types=WIDE,
)

FOUR = [(8, 2048, 32, 128), (8, 32, 2048, 64), (64, 56, 56, 256)]
for order in ("0213", "0321", "1023", "0231"):
    one(
        f"permute_{order}",
        FOUR if order in ("0213", "0231") else FOUR[::2],
        lambda x, o=order: x.permute(*map(int, o)).contiguous(),
        (3, 4, 5, 6),
    )
for order, sizes in (
    "021",
    [(64, 256, 3136), (4096, 64, 128), (2**18, 16, 16), (2**20, 3, 32), (2**14, 1000, 3)],
), ("210", [(256, 512, 512)]):
    one(
        f"permute_{order}",
        sizes,
        lambda x, o=order: x.permute(*map(int, o)).contiguous(),
        (3, 4, 5),
    )
add(
    "add_transposed",
    [(8192, 8192)],
    lambda make, m, n: {"x": make(m, n), "y": make(n, m)},
    lambda x, y: x + y.T,
    small=(30, 33),
)
one("flip_rows", PLANE[:1], lambda x: x.flip(1), (30, 33))
one("flip_columns", PLANE[:1], lambda x: x.flip(0), (30, 33))
one("roll_rows", PLANE[:1], lambda x: x.roll(1, 1), (30, 33))
one("pad_rows", PLANE[:1], lambda x: functional.pad(x, (1, 1, 1, 1)), (30, 33))
add(
    "concat_columns",
    [(16384, 4096), (1000000, 33)],
    lambda make, m, n: {"x": make(m, n), "y": make(m, n // 2)},
    lambda x, y: torch.cat([x, y], 1),
    small=(30, 33),
)
two("stack_last", PLANE[:1], lambda x, y: torch.stack([x, y], 2), (30, 33))
add(
    "every_second",
    PLANE[:1],
    lambda make, m, n: {"x": make(m, 2 * n)},
    lambda x: x[:, ::2].contiguous(),
    small=(30, 33),
)
add(
    "every_second_row",
    PLANE,
    lambda make, m, n: {"x": make(2 * m, n)},
    lambda x: x[::2].contiguous(),
    small=(30, 33),
)
one("difference", PLANE[:1], lambda x: torch.diff(x, dim=1), (30, 33))
one("repeat_rows", [(8192, 2048)], lambda x: x.repeat_interleave(4, 1), (30, 33))
one("upper", [(8192, 8192)], torch.triu, (30, 33))


def enlarge_last(x):
    return (
        functional.interpolate(x.permute(0, 3, 1, 2), scale_factor=2)
        .permute(0, 2, 3, 1)
        .contiguous()
    )


one("upsample", [(32, 56, 56, 256)], enlarge_last, (2, 3, 4, 5))
one(
    "upsample_first",
    [(32, 256, 56, 56)],
    lambda x: functional.interpolate(x, scale_factor=2),
    (2, 3, 4, 5),
)
add(
    "pixel_shuffle",
    [(32, 64, 112, 112)],
    lambda make, b, c, h, w: {"x": make(b, c, 2, 2, h, w)},
    lambda x: functional.pixel_shuffle(x.flatten(1, 3), 2),
    small=(2, 3, 4, 5),
)

add(
    "gather_rows",
    [(100000, 128, 2**20), (100000, 33, 2**20), (50000, 4096, 16384)],
    lambda make, v, d, n: {"x": make(v, d), "at": make.at(v, n)},
    lambda x, at: x[at],
    small=(30, 33, 50),
)
add(
    "gather_columns",
    [(16384, 4096, 4096)],
    lambda make, m, v, n: {"x": make(m, v), "at": make.at(v, n)},
    lambda x, at: x[:, at],
    small=(30, 33, 50),
)
add(
    "take_along",
    [(16384, 4096, 4096)],
    lambda make, m, v, n: {"x": make(m, v), "at": make.at(v, m, n)},
    lambda x, at: torch.gather(x, 1, at),
    small=(30, 33, 50),
)


def scattered(dy, at, x):
    return {"x": torch.zeros_like(x).index_add_(0, at, dy)}


add(
    "scatter_rows",
    [(100000, 128, 2**20), (50000, 1024, 2**16), (1000, 128, 2**20)],
    lambda make, v, d, n: {
        "dy": make(n, d),
        "at": make.at(v, n),
        "x": torch.zeros(v, d, device=make.device),
    },
    scattered,
    small=(30, 33, 50),
    types=WIDE,
    made="inout",
)
add(
    "scatter_permuted",
    [(2**26,)],
    lambda make, n: {"x": make(n), "at": torch.randperm(n, device=make.device)},
    lambda x, at: torch.empty_like(x).index_put_((at,), x),
    small=(1000,),
)
add(
    "one_hot",
    [(65536,)],
    lambda make, n: {"at": make.at(1000, n)},
    lambda at: functional.one_hot(at, 1000).float(),
    small=(50,),
    types=WIDE,
)


def binned(limit):
    return lambda x: torch.bincount(x, minlength=limit).to(torch.int32)


for limit in (16, 256, 65536):
    add(
        "bins",
        [(2**26,)],
        lambda make, n, k=limit: {"x": make.at(k, n, dtype=torch.int32)},
        binned(limit),
        small=(1000,),
        types=WIDE,
        consts=lambda *s, k=limit: {"K": k},
    )
one(
    "sort_rows",
    [(4096, 1024), (65536, 32), (64, 2**18), (65536, 256)],
    lambda x: torch.sort(x, 1).values,
    (30, 33),
)
add(
    "topk_rows",
    [(262144, 64), (16384, 1000), (4096, 50257)],
    lambda make, m, n: {"x": make(m, n, dtype="f32").argsort(dim=1).to(make.dtype)},
    lambda x: dict(zip(("value", "at"), torch.topk(x, 4, 1))),
    small=(30, 33),
    types=WIDE,
)
