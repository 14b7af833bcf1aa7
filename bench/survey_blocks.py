# SPDX-License-Identifier: Apache-2.0
"""Cases of survey.py: blocks of models (programs/blocks.tile)."""

from functools import partial

import torch
import torch.nn.functional as functional

from survey_cases import BOTH, NARROW, WIDE, CASES, Case, to_f32


def add(kernel, sizes, inputs, peer, small, types=NARROW, **named):
    CASES.append(Case(kernel, sizes, inputs, peer, types, small, program="blocks", **named))


def first(x):
    """Channels first, as torch's convolutions take them; a view."""
    return x.movedim(-1, 1)


def filters(w):
    return w.movedim(-1, 1)


def conv(x, w, **named):
    return functional.conv2d(first(x), filters(w), **named).movedim(1, -1)


def scaled(make, *shape):
    """Weights of a sum over all but the first axis."""
    count = max(torch.Size(shape[1:]).numel(), 1)
    return make(*shape) * count**-0.5


def wide_vector(make, n):
    return make(n, dtype="f32")


def group_norm(x, weight, bias, groups=32):
    y = functional.group_norm(to_f32(first(x)), groups, weight, bias)
    return y.movedim(1, -1)


add(
    "norm_silu_conv",
    [(2, 64, 64, 320, 320), (8, 32, 32, 640, 640)],
    lambda make, b, h, w, c, o: {
        "x": make(b, h, w, c),
        "weight": wide_vector(make, c),
        "bias": wide_vector(make, c),
        "w": scaled(make, o, 3, 3, c),
    },
    lambda x, weight, bias, w: conv(
        functional.silu(group_norm(x, weight, bias)).to(x.dtype), w, padding=1
    ),
    (1, 4, 5, 32, 8),
)
add(
    "enlarged_conv",
    [(2, 64, 64, 320, 320), (4, 32, 32, 640, 640)],
    lambda make, b, h, w, c, o: {"x": make(b, h, w, c), "w": scaled(make, o, 3, 3, c)},
    lambda x, w: conv(
        functional.interpolate(first(x), scale_factor=2).movedim(1, -1), w, padding=1
    ),
    (1, 4, 5, 16, 8),
)
add(
    "residual_convs",
    [(32, 56, 56, 64), (32, 14, 14, 256)],
    lambda make, b, h, w, c: {
        "x": make(b, h, w, c),
        "w": scaled(make, c, 3, 3, c),
        "v": scaled(make, c, 3, 3, c),
    },
    lambda x, w, v: functional.relu(
        conv(functional.relu(conv(x, w, padding=1)), v, padding=1) + x
    ),
    (1, 4, 5, 16),
)


def depthwise_norm(x, w, weight, bias):
    c = x.shape[-1]
    y = functional.conv2d(to_f32(first(x)), to_f32(w)[:, None], padding=3, groups=c)
    return functional.layer_norm(y.movedim(1, -1), (c,), weight, bias)


def depthwise_norm_library(x, w, weight, bias):
    c = x.shape[-1]
    y = functional.conv2d(first(x), w[:, None], padding=3, groups=c)
    return functional.layer_norm(y.movedim(1, -1), (c,), weight.to(x.dtype), bias.to(x.dtype))


add(
    "depthwise_norm",
    [(32, 56, 56, 96), (32, 14, 14, 384)],
    lambda make, b, h, w, c: {
        "x": make(b, h, w, c),
        "w": make(c, 7, 7),
        "weight": wide_vector(make, c),
        "bias": wide_vector(make, c),
    },
    depthwise_norm,
    (1, 8, 9, 16),
    library=depthwise_norm_library,
)
add(
    "causal_conv",
    [(8, 4096, 2048), (1, 8192, 5120)],
    lambda make, b, n, c: {"x": make(b, n, c), "w": make(c, 4), "bias": make(c)},
    lambda x, w, bias: functional.silu(
        functional.conv1d(
            functional.pad(x.mT, (3, 0)), w[:, None], bias, groups=x.shape[2]
        ).mT
    ),
    (2, 33, 16),
)


def linear_attention(q, k, v):
    phi, psi = functional.elu(k) + 1, functional.elu(q) + 1
    return (psi @ (phi.mT @ v)) / (psi @ phi.sum(1)[:, :, None])


def relu_attention(q, k, v):
    r = functional.relu(q @ k.mT)
    return (r @ v) / (to_f32(r).sum(2, keepdim=True) + 1e-6).to(q.dtype)


def retention(q, k, v, decay):
    i = torch.arange(q.shape[1], device=q.device)
    kept = torch.tril(torch.exp((i[:, None] - i).clamp(min=0) * decay))
    return (q @ k.mT * kept.to(q.dtype)) @ v


def three(make, *shape):
    return {name: make(*shape) for name in "qkv"}


HEADS = [(64, 4096, 64), (64, 2048, 128)]
add("linear_attention", HEADS, three, linear_attention, (2, 70, 16))
add("relu_attention", HEADS, three, relu_attention, (2, 70, 16))
add(
    "retention",
    HEADS,
    lambda make, *s: three(make, *s),
    partial(retention, decay=-0.01),
    (2, 70, 16),
    consts=lambda *s: {"decay": -0.01},
)
add(
    "cosine_attention",
    [(4, 16, 4096, 64)],
    three,
    lambda q, k, v: functional.scaled_dot_product_attention(
        functional.normalize(q, dim=-1), functional.normalize(k, dim=-1), v, scale=10.0
    ),
    (1, 2, 70, 16),
)
add(
    "blocks_dct",
    [(16384,)],
    lambda make, b: {"x": make(b, 64, 64), "c": scaled(make, 64, 64)},
    lambda x, c: c @ x @ c.T,
    (3,),
)


def twice(m, n, k):
    return 2 * m * n * k


SQUARE = [(4096, 4096, 4096)]
add(
    "w8a8",
    [*SQUARE, (16, 4096, 4096)],
    lambda make, m, n, k: {
        "x": make.at(255, m, k, dtype=torch.int32).sub(127).to(torch.int8),
        "w": make.at(255, n, k, dtype=torch.int32).sub(127).to(torch.int8),
        "s": make(m, dtype="f32"),
        "t": make(n, dtype="f32"),
    },
    lambda x, w, s, t: (x.double() @ w.double().T * s[:, None] * t).to(torch.bfloat16),
    (33, 17, 50),
    flops=twice,
    library=lambda x, w, s, t: (torch._int_mm(x, w.T) * s[:, None] * t).to(torch.bfloat16)
    if x.shape[0] > 16
    else x.bfloat16() @ w.bfloat16().T,
)


def complex_matrices(a, b):
    return torch.stack([a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]])


add(
    "complex_matrices",
    SQUARE,
    lambda make, m, n, k: {"a": make(2, m, k), "b": make(2, k, n)},
    complex_matrices,
    (33, 17, 50),
    flops=lambda m, n, k: 8 * m * n * k,
)
add(
    "bilinear_layer",
    [(512, 512, 512, 512)],
    lambda make, b, i, j, o: {"x": make(b, i), "w": scaled(make, o, i, j), "y": make(b, j)},
    lambda x, w, y: functional.bilinear(x, y, w),
    (9, 20, 24, 10),
)
add(
    "mttkrp",
    [(512, 512, 512, 32)],
    lambda make, i, j, k, r: {"t": make(i, j, k), "b": make(j, r), "c": make(k, r)},
    lambda t, b, c: torch.einsum("ijk,jr,kr->ir", t, b, c),
    (9, 20, 24, 10),
)


def fp8_blocks(a, w, s, t):
    wide_a = a.to(s.dtype) * s.repeat_interleave(128, 1)
    wide_w = w.to(s.dtype) * t.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return wide_a @ wide_w.T


add(
    "fp8_blocks",
    SQUARE,
    lambda make, m, n, k: {
        "a": make(m, k, dtype="f32").to(torch.float8_e4m3fn),
        "w": make(n, k, dtype="f32").to(torch.float8_e4m3fn),
        "s": make(m, k // 128, dtype="f32").abs(),
        "t": make(n // 128, k // 128, dtype="f32").abs(),
    },
    fp8_blocks,
    (33, 256, 256),
    flops=twice,
    library=lambda a, w, s, t: a.bfloat16() @ w.bfloat16().T,
)
add(
    "below_diagonal",
    [(4096, 4096)],
    lambda make, m, n: {"a": make(m, m), "b": make(m, n)},
    lambda a, b: torch.tril(a) @ b,
    (70, 33),
    types=BOTH,
    flops=lambda m, n: m * m * n,
    library=lambda a, b: a @ b,
)


def product(make, m, n, k):
    return {"x": make(m, k), "w": scaled(make, n, k).T.contiguous()}


add(
    "relu_product",
    SQUARE,
    product,
    lambda x, w: functional.relu(x) @ w,
    (33, 17, 50),
    flops=twice,
)
add(
    "lora",
    [(8192, 4096, 4096, 16)],
    lambda make, m, n, k, r: {
        **product(make, m, n, k),
        "a": scaled(make, k, r),
        "b": scaled(make, r, n),
    },
    lambda x, w, a, b: x @ w + x @ a @ b * 2,
    (33, 17, 50, 4),
)
add(
    "swiglu_block",
    [(4096, 4096, 11008), (16, 4096, 11008)],
    lambda make, m, c, f: {
        "x": make(m, c),
        "w": scaled(make, f, c).T.contiguous(),
        "v": scaled(make, f, c).T.contiguous(),
        "u": scaled(make, c, f).T.contiguous(),
    },
    lambda x, w, v, u: (functional.silu(x @ w) * (x @ v)) @ u,
    (33, 24, 50),
)
add(
    "narrow_mlp",
    [(65536, 64, 256), (65536, 128, 512)],
    lambda make, m, c, f: {
        "x": make(m, c),
        "w": scaled(make, f, c).T.contiguous(),
        "b": make(f),
        "v": scaled(make, c, f).T.contiguous(),
        "c": make(c),
    },
    lambda x, w, b, v, c: x + functional.gelu(x @ w + b) @ v + c,
    (33, 64, 50),
)
add(
    "norm_product",
    SQUARE,
    lambda make, m, n, c: {
        "x": make(m, c),
        "weight": make(c),
        "w": scaled(make, n, c).T.contiguous(),
    },
    lambda x, weight, w: functional.rms_norm(x, (x.shape[1],), weight, 1e-6) @ w,
    (33, 17, 50),
    flops=twice,
)
add(
    "product_norm",
    [(8192, 4096, 4096)],
    lambda make, m, n, k: {**product(make, m, n, k), "r": make(m, n), "weight": make(n)},
    lambda x, w, r, weight: functional.rms_norm(x @ w + r, (w.shape[1],), weight, 1e-6),
    (33, 17, 50),
    flops=twice,
)


def rotated_heads(x, w, angle):
    q = (x @ w).view(x.shape[0], -1, 64)
    low, high = q[..., :32], q[..., 32:]
    cos, sin = angle.cos()[:, None].to(q.dtype), angle.sin()[:, None].to(q.dtype)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


add(
    "rotated_heads",
    [(8192, 64, 4096)],
    lambda make, s, h, c: {
        "x": make(s, c),
        "w": scaled(make, 64 * h, c).T.contiguous(),
        "angle": make(s, 32, dtype="f32"),
    },
    rotated_heads,
    (33, 2, 50),
    flops=lambda s, h, c: 128 * s * h * c,
)
add(
    "few_channels_norm",
    [(8, 4096, 128), (2, 4096, 320)],
    lambda make, b, n, c: {
        "x": make(b, n, c),
        "weight": wide_vector(make, c),
        "bias": wide_vector(make, c),
    },
    lambda x, weight, bias: functional.silu(group_norm(x, weight, bias)).to(x.dtype),
    (2, 33, 64),
)


def distillation(s, t):
    s, t = to_f32(s) / 2, to_f32(t) / 2
    p = functional.softmax(t, -1)
    return (p * (functional.log_softmax(t, -1) - functional.log_softmax(s, -1))).sum(-1) * 4


add(
    "distillation",
    [(4096, 32000)],
    lambda make, m, n: {"s": make(m, n), "t": make(m, n)},
    distillation,
    (33, 50),
)


def focal(x, label):
    x, label = to_f32(x), to_f32(label)
    p = torch.sigmoid(x)
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none")
    return ((1 - p * label - (1 - p) * (1 - label)) ** 2 * loss).sum(1)


add(
    "focal",
    [(131072, 91)],
    lambda make, m, n: {
        "x": make(m, n),
        "label": (torch.rand(m, n, device=make.device) < 0.1).to(make.dtype),
    },
    focal,
    (33, 50),
)


def overlap(a, b):
    lo = torch.maximum(a[:, None, :2], b[:, :2])
    hi = torch.minimum(a[:, None, 2:], b[:, 2:])
    both = (hi - lo).clamp(min=0).prod(-1)
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])  # noqa: E731
    return both / (area(a)[:, None] + area(b) - both)


def boxes(make, n):
    low = torch.rand(n, 2, device=make.device)
    return torch.cat([low, low + 0.1 + torch.rand(n, 2, device=make.device)], 1)


add(
    "overlap",
    [(4096, 4096)],
    lambda make, n, m: {"a": boxes(make, n), "b": boxes(make, m)},
    overlap,
    (33, 50),
    types=WIDE,
)


def selective_scan(x, dt, a, bm, cm):
    x, dt, bm, cm = map(to_f32, (x, dt, bm, cm))
    decay = torch.exp(dt[..., None] * a)
    new = (dt * x)[..., None] * bm[:, :, None]
    state, rows = torch.zeros_like(new[:, 0]), []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + new[:, t]
        rows.append((state * cm[:, t, None]).sum(-1))
    return torch.stack(rows, 1)


add(
    "selective_scan",
    [(8, 2048, 1024)],
    lambda make, b, n, d: {
        "x": make(b, n, d),
        "dt": make(b, n, d).abs() * 0.1,
        "a": -make(d, 16, dtype="f32").abs(),
        "bm": make(b, n, 16),
        "cm": make(b, n, 16),
    },
    selective_scan,
    (2, 33, 8),
    library=lambda x, dt, a, bm, cm: (x * dt).cumsum(1) * x,
)


def gradient(function, *wanted):
    """Torch's gradients of a function by name, in the types of its inputs."""

    def peer(**inputs):
        above = inputs.pop("d_out")
        held = {n: x.detach().requires_grad_() for n, x in inputs.items()}
        with torch.enable_grad():
            out = function(**held)
        made = torch.autograd.grad(out, list(held.values()), above.to(out.dtype))
        return dict(zip([f"d_{n}" for n in inputs], made))

    return peer


def rows_with(*names):
    def inputs(make, m, n):
        vectors = {name: make(n) for name in names}
        return {"x": make(m, n), **vectors, "d_out": make(m, n)}

    return inputs


def two_arrays(make, m, n):
    return {"a": make(m, n), "b": make(m, n), "d_out": make(m, n)}


NORMED = [(8192, 4096), (16384, 1024)]
add(
    "layer_norm_gradient",
    NORMED,
    rows_with("weight", "bias"),
    gradient(lambda x, weight, bias: functional.layer_norm(x, x.shape[1:], weight, bias)),
    (33, 50),
)
add(
    "rms_norm_gradient",
    NORMED,
    rows_with("weight"),
    gradient(lambda x, weight: functional.rms_norm(x, x.shape[1:], weight, 1e-6)),
    (33, 50),
)
add(
    "softmax_of_gradient",
    NORMED,
    rows_with(),
    gradient(lambda x: functional.softmax(x, -1)),
    (33, 50),
)
add(
    "swiglu_gradient",
    [(8192, 11008)],
    two_arrays,
    gradient(lambda a, b: functional.silu(a) * b),
    (33, 50),
)
add(
    "geglu_gradient",
    [(8192, 11008)],
    two_arrays,
    gradient(lambda a, b: functional.gelu(a) * b),
    (33, 50),
)
add(
    "attention_gradient",
    [(4, 16, 4096, 64), (4, 16, 4096, 128)],
    lambda make, *s: {**three(make, *s), "d_out": make(*s)},
    gradient(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    ),
    (1, 2, 70, 16),
)
