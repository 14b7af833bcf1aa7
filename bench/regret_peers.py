# SPDX-License-Identifier: Apache-2.0
"""The inputs of regret.py's workloads, and what torch computes for the same: eager, for the check
and as a peer, and which of them torch.compile is worth a try for."""

import torch
import torch.nn.functional as functional

from workload import DTYPES

F32 = torch.float32
INTEGERS = {"i8": torch.int8, "i32": torch.int32, "i64": torch.int64}
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2, "f16": 4e-3, "f8e4m3": 2e-2, "": 2e-2}


def wide(x):
    """In f32, or f64 of f32: what the answer is compared with is computed in it."""
    if not torch.is_tensor(x) or not x.is_floating_point():
        return x
    return x.to(torch.float64 if x.dtype == F32 else F32)


def up(x):
    """Of 16 bits in f32; else as it is."""
    return x.float() if x.dtype.itemsize <= 2 else x


# ---- inputs ----

SMALL = {"w", "gate", "up"}  # matrices: scaled by what is summed over them
SUMMED = {"matmul_f8", "w8a8", "fp8_blocks"}  # whose matrices stay as they are


def limit_of(workload, name):
    """Below what an index must be."""
    sizes = dict(workload.sizes)
    for key in {"label": "VN", "at": "V", "group": "E"}.get(name, ""):
        if key in sizes:
            return sizes[key]
    return 127


def make_input(workload, name, dtype, shape, device):
    if dtype in INTEGERS and dtype != "i8":
        x = torch.randint(0, limit_of(workload, name), shape, device=device)
        x = x.to(INTEGERS[dtype])
        return x.sort().values if name == "group" else x
    if dtype == "i8":
        return torch.randint(-127, 128, shape, device=device, dtype=torch.int8)
    if dtype == "i4":
        return torch.randint(0, 256, (*shape[:-1], shape[-1] // 2), device=device,
                             dtype=torch.uint8)
    x = torch.randn(shape, device=device, dtype=F32)
    if name in SMALL and len(shape) > 1 and workload.kernel not in SUMMED:
        x = x * (max(shape[0], 1) / max(x.numel(), 1)) ** 0.5
    if workload.kernel == "adam_step" and name == "v":
        x = x.abs()  # a mean of squares
    return x.to(DTYPES[dtype])


def make_inputs(workload, kernel, compiled, device):
    """{parameter: array or number}: as the workload's kernel takes them."""
    numbers, made, index = dict(workload.numbers), {}, 0
    for p in kernel.inputs:
        if p.is_const:
            continue
        dtype, shape = compiled.shape(index)
        index += 1
        made[p.name] = numbers[p.name] if shape is None else make_input(
            workload, p.name, dtype, shape, device)
    return made


# ---- torch's versions: exact in wide arrays, the library's call in narrow ones ----

def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def conv(x, w, stride=1, pad=0, **named):
    """Channels last."""
    return last(functional.conv2d(first(x), first(w), stride=stride, padding=pad, **named))


def conv_depth(x, w, stride=1, pad=0):
    c = x.shape[-1]
    return last(functional.conv2d(first(x), w.permute(2, 0, 1)[:, None], stride=stride,
                                  padding=pad, groups=c))


def rms(x, weight):
    return functional.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), 1e-6)


def layer(x, weight, bias):
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def residual_rms_norm(x, r, weight):
    h = x + r
    return h, rms(h, weight)


def group_norm_last(x, weight, bias, groups=32):
    return functional.group_norm(x.mT, groups, weight.to(x.dtype), bias.to(x.dtype)).mT


def batch_norm_last(x, weight, bias):
    return functional.batch_norm(x, None, None, weight.to(x.dtype), bias.to(x.dtype), True)


def conv_group_norm(x, w, weight, bias):
    y = functional.conv2d(first(x), first(w), padding=1)
    return last(functional.group_norm(y, 32, weight.to(x.dtype), bias.to(x.dtype)))


def conv_relu_pool(x, w, b):
    return last(functional.max_pool2d(
        functional.relu(functional.conv2d(first(x), first(w), b, padding=1)), 2))


def swiglu_rows(x):
    a, b = x.chunk(2, -1)
    return functional.silu(a) * b


def rotary_heads(x, cosine, sine):
    a, b = x.chunk(2, -1)
    turned = torch.cat([-b, a], -1)
    return (x * cosine[:, None] + turned * sine[:, None]).to(x.dtype)


def adam_step(p, g, m, v):
    a, b = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.001 * (a / 0.5) / ((b / 0.25).sqrt() + 1e-8), a, b


def recurrence(a, x):
    """h = a h + x along axis 1, by doubling."""
    a, x, step = a.clone(), x.clone(), 1
    while step < x.shape[1]:
        x[:, step:] = x[:, step:] + a[:, step:] * x[:, :-step].clone()
        a[:, step:] = a[:, step:] * a[:, :-step].clone()
        step *= 2
    return x


def cross_entropy(x, label):
    return functional.cross_entropy(x, label, reduction="none")


def cross_entropy_gradient(x, label, g):
    p = torch.softmax(up(x), 1)
    p[torch.arange(len(label), device=p.device), label] -= 1
    return (p * g[:, None]).to(x.dtype)


def quantize_blocks(x):
    g = up(x).view(len(x), -1, 128)
    s = g.abs().amax(2).clamp(min=1e-10) / 448
    q = (g / s[:, :, None]).to(torch.float8_e4m3fn)
    return q.view(x.shape), s


def grouped(x, w, group):
    ends = torch.bincount(group.long(), minlength=len(w)).cumsum(0).tolist()
    return torch.cat([x[a:b] @ w[i] for i, (a, b) in enumerate(zip([0, *ends], ends))])


def widened(w, scale):
    """Weights of four bits, with their scales, as a matrix."""
    low, high = (w & 15).to(torch.int8), (w >> 4).to(torch.int8)
    plain = torch.stack([low, high], 2).view(len(w), -1)
    plain = (plain - 16 * (plain > 7)).to(scale.dtype)
    return plain * scale.T.repeat_interleave(128, 1)


def int4(x, w, scale):
    return x @ widened(w, scale).T


def w8a8(x, w, s, t):
    if x.device.type == "cpu" or x.shape[0] <= 16:
        return x.float() @ w.float().T * s[:, None] * t
    return torch._int_mm(x, w.T) * s[:, None] * t


def fp8_blocks(a, w, s, t):
    rows = a.float() * s.repeat_interleave(128, 1)
    return rows @ (w.float() * t.repeat_interleave(128, 0).repeat_interleave(128, 1)).T


def matmul_f8(a, b):
    return (a.float() if a.dtype.itemsize == 1 else a) @ (b.float() if b.dtype.itemsize == 1
                                                          else b).T


def attention(q, k, v, mask=None, cap=None, scale=None):
    s = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    s = torch.tanh(s / cap) * cap if cap else s
    s = s if mask is None else s.masked_fill(~mask, -float("inf"))
    return torch.softmax(s, -1) @ v


def lower(q):
    i = torch.arange(q.shape[-2], device=q.device)
    return i[:, None] >= i


def alibi(q, k, v, slope):
    i = torch.arange(q.shape[-2], device=q.device)
    s = q @ k.mT * q.shape[-1] ** -0.5 - slope[:, None, None] * (i[:, None] - i)
    return (torch.softmax(s.masked_fill(i[:, None] < i, -float("inf")), -1).to(v.dtype)) @ v


def linear_attention(q, k, v):
    phi, psi = functional.elu(k) + 1, functional.elu(q) + 1
    return (psi @ (phi.mT @ v)) / (psi @ phi.sum(1)[:, :, None])


def sdpa(**named):
    return lambda q, k, v, **_: functional.scaled_dot_product_attention(q, k, v, **named)


def average_pool(x):
    return functional.avg_pool2d(x, 2)


PEERS = {
    "matmul": lambda a, b: a @ b,
    "matmul_nt": lambda a, b: a @ b.T,
    "matmul_tn": lambda a, b: a.T @ b,
    "bmm": lambda a, b: a @ b,
    "matmul_f8": matmul_f8,
    "int4_matmul": int4,
    "w8a8": w8a8,
    "fp8_blocks": fp8_blocks,
    "grouped_rows": grouped,
    "matvec": lambda a, x: a @ x,
    "vecmat": lambda a, x: x @ a,
    "linear": lambda x, w, b: functional.gelu(functional.linear(x, w, b), approximate="tanh"),
    "gated": lambda x, gate, up: functional.silu(x @ gate.T) * (x @ up.T),
    "lora": lambda x, w, a, b: x @ w + x @ a @ b * 2,
    "linear_softmax": lambda x, w: torch.softmax(x @ w.T, 1),
    "linear_rms_norm": lambda x, w, weight: rms(x @ w.T, weight),
    "linear_row_sums": lambda x, w: (x @ w.T).sum(1),
    "linear_cross_entropy": lambda x, w, label: cross_entropy(x @ w.T, label),
    "softmax_rows": lambda x: torch.softmax(x, 1),
    "softmax_middle": lambda x: torch.softmax(x, 1),
    "layer_norm_rows": layer,
    "residual_rms_norm": residual_rms_norm,
    "sum_rows": lambda x: x.sum(1),
    "sum_columns": lambda x: x.sum(0),
    "var_columns": lambda x: x.var(0, correction=0),
    "max_middle": lambda x: x.amax(1),
    "argmax_rows": lambda x: x.argmax(1),
    "batch_norm_last": batch_norm_last,
    "group_norm_last": group_norm_last,
    "instance_norm_first": lambda x: functional.instance_norm(x),
    "cross_entropy_rows": cross_entropy,
    "cross_entropy_gradient": cross_entropy_gradient,
    "quantize_blocks": quantize_blocks,
    "cumsum_rows": lambda x: x.cumsum(1),
    "cumsum_columns": lambda x: x.cumsum(0),
    "recurrence_middle": recurrence,
    "gelu_all": functional.gelu,
    "swiglu_rows": swiglu_rows,
    "rotary_heads": rotary_heads,
    "adam_step": adam_step,
    "transpose": lambda x: x.T.contiguous(),
    "permute_0213": lambda x: x.permute(0, 2, 1, 3).contiguous(),
    "permute_021": lambda x: x.permute(0, 2, 1).contiguous(),
    "gather_rows": lambda x, at: functional.embedding(at, x),
    "conv_last": conv,
    "conv_planes": lambda x, w, pad=0: functional.conv2d(x, w, padding=pad),
    "conv_depth": conv_depth,
    "conv_planes_depth": lambda x, w, pad=0: functional.conv2d(x, w[:, None], padding=pad,
                                                               groups=len(w)),
    "max_pool": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "average_pool_first": average_pool,
    "conv_group_norm": conv_group_norm,
    "conv_relu_pool": conv_relu_pool,
    "plain": attention,
    "causal": lambda q, k, v: attention(q, k, v, lower(q)),
    "softcap": lambda q, k, v, cap: attention(q, k, v, lower(q), cap),
    "alibi": alibi,
    "decode": lambda q, k, v, scale: attention(q, k, v, None, None, scale),
    "linear_attention": linear_attention,
}

# What is timed instead, where the version above is no fair competitor; None: nothing is.
LIBRARY = {
    "plain": sdpa(),
    "causal": sdpa(is_causal=True),
    "decode": lambda q, k, v, scale: functional.scaled_dot_product_attention(q, k, v, scale=scale),
    "recurrence_middle": None,
    "fp8_blocks": None,
    "sum_rows": lambda x: torch.sum(x, 1, dtype=F32),
    "sum_columns": lambda x: torch.sum(x, 0, dtype=F32),
}

# Where torch.compile may do better than eager torch.
COMPILED = {
    "linear", "gated", "lora", "linear_softmax", "linear_rms_norm", "linear_row_sums",
    "linear_cross_entropy", "softmax_rows", "softmax_middle", "layer_norm_rows",
    "residual_rms_norm", "var_columns", "max_middle", "batch_norm_last", "group_norm_last",
    "instance_norm_first", "cross_entropy_rows", "cross_entropy_gradient", "quantize_blocks",
    "swiglu_rows", "rotary_heads", "adam_step", "max_pool", "average_pool_first",
    "conv_group_norm", "conv_relu_pool", "softcap", "alibi", "linear_attention", "conv_depth",
    "conv_planes_depth",
}


def consts_of(workload):
    """The constants that torch's version takes."""
    return {k: v for k, v in workload.consts if k in ("stride", "pad")}


def reference(workload, inputs):
    """The answers, as a list, in wide types."""
    made = PEERS[workload.kernel](**{k: wide(x) for k, x in inputs.items()},
                                  **consts_of(workload))
    return list(made) if isinstance(made, (tuple, list)) else [made]


def scaled(a, b):
    one = torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)


def times_widened(x, w, scale):
    plain = widened(w, scale)
    return lambda: x @ plain.T


def grouped_call(x, w, group):
    ends = torch.bincount(group.long(), minlength=len(w)).cumsum(0).to(torch.int32)
    return lambda: torch._grouped_mm(x, w, offs=ends, out_dtype=x.dtype)


# What torch has prepared before it is timed, on a GPU.
PREPARED = {"matmul_f8": scaled, "int4_matmul": times_widened, "grouped_rows": grouped_call}


def library(workload, inputs):
    """What torch is timed with, as a function of nothing; None: there is none."""
    kernel = workload.kernel
    if kernel in PREPARED:
        on_gpu = any(torch.is_tensor(x) and x.is_cuda for x in inputs.values())
        return PREPARED[kernel](**inputs) if on_gpu else None
    call = LIBRARY.get(kernel, PEERS[kernel])
    consts = consts_of(workload)
    return call and (lambda: call(**inputs, **consts))
