# SPDX-License-Identifier: Apache-2.0
"""Attention and its family, beside cuDNN and FlashAttention-2, as torch calls them."""

import math

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from workload import Workload, copy_peer, named, random

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
TOLERANCE = {"f16": 2e-3, "bf16": 1e-2}


def library(backend, q, k, v, **options):
    def launch():
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, **options)
    return launch


def offered(peers):
    """Those that take these arguments."""
    found = {}
    for name, launch in peers.items():
        try:
            launch()
            found[name] = launch
        except RuntimeError as error:
            print(f"# {name}: {str(error).splitlines()[0]}")
    return found


def libraries(q, k, v, **options):
    return offered({name: library(backend, q, k, v, **options)
                    for name, backend in BACKENDS.items()})


def flops(b, h, s, length, d, causal, products=2):
    return 2 * products * b * h * s * length * d / (2 if causal else 1)


def words(causal):
    return " causal" if causal else ""


def forward(dtype, b, h, s, d, causal, length=None, goal=1.0):
    """s queries of each head, and as many keys, or `length`."""
    keys = length or s
    q, o = random(dtype, b, h, s, d), random(dtype, b, h, s, d)
    k, v = random(dtype, b, h, keys, d), random(dtype, b, h, keys, d)
    options = {"is_causal": causal, "scale": 1 / math.sqrt(d)}
    peers = libraries(q, k, v, **options)
    size = f"{s} to {keys}" if length else s
    return Workload("examples/attention", f"attention {dtype} {b}×{h}×{size}, d{d}{words(causal)}",
                    {"T": dtype, "D": d, "causal": "true" if causal else "false"},
                    {"q": q, "k": k, "v": v, "scale": options["scale"]}, o,
                    flops(b, h, s, keys, d, causal), "TFLOP/s", peers,
                    library(SDPBackend.FLASH_ATTENTION, q, k, v, **options), TOLERANCE[dtype],
                    {"cuDNN" if "cuDNN" in peers else "best": goal})


def logarithms(q, k, v, causal, scale):
    """The result and what each row was divided by, as its logarithm."""
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)
    return found[0], found[1]


def grouped(dtype, b, h, g, s, d, causal, length=None):
    keys = length or s
    q, o = random(dtype, b, h, s, d), random(dtype, b, h, s, d)
    k, v = random(dtype, b, g, keys, d), random(dtype, b, g, keys, d)
    scale = 1 / math.sqrt(d)
    size = f"{s} to {keys}" if length else s

    def reference():
        wide = [x.repeat_interleave(h // g, dim=1) for x in (k, v)]
        return dict(zip(("o", "lse"), logarithms(q, *wide, causal, scale), strict=True))

    return Workload("examples/attention_grouped",
                    f"attention {dtype} {b}×{h}/{g}×{size}, d{d}{words(causal)}",
                    {"T": dtype, "D": d, "causal": "true" if causal else "false"},
                    {"q": q, "k": k, "v": v, "scale": scale},
                    {"o": o, "lse": torch.empty(b, h, s, device="cuda")},
                    flops(b, h, s, keys, d, causal), "TFLOP/s",
                    libraries(q, k, v, is_causal=causal, scale=scale, enable_gqa=True), reference,
                    TOLERANCE[dtype], {"cuDNN": 1.0})


def packed(dtype, lengths, h, d):
    n = sum(lengths)
    q, k, v, o = (random(dtype, n, h, d) for _ in range(4))
    at = torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], device="cuda")
    narrow, most, scale = at.to(torch.int32), max(lengths), 1 / math.sqrt(d)

    def flash():
        return torch.ops.aten._flash_attention_forward(q, k, v, narrow, narrow, most, most, 0.0,
                                                       False, False, scale=scale)[0]

    return Workload("examples/attention_packed",
                    f"attention {dtype} packed, {len(lengths)} of {min(lengths)} to {most}, d{d}",
                    {"T": dtype, "D": d}, {"q": q, "k": k, "v": v, "at": narrow, "scale": scale}, o,
                    sum(flops(1, h, x, x, d, False) for x in lengths), "TFLOP/s",
                    offered({"FlashAttention-2": flash}), flash, TOLERANCE[dtype], {"best": 1.0})


def decode(dtype, b, h, g, length, d):
    q, o = random(dtype, b, g, h // g, d), random(dtype, b, g, h // g, d)
    k, v = random(dtype, b, g, length, d), random(dtype, b, g, length, d)
    scale, moved = 1 / math.sqrt(d), 2 * 2 * b * g * length * d
    row = q.view(b, h, 1, d)
    peers = libraries(row, k, v, scale=scale, enable_gqa=True)
    peers["copy"] = copy_peer(moved)

    def reference():
        s = (q.float() @ k.float().transpose(2, 3)) * scale
        return torch.softmax(s, dim=3) @ v.float()

    return Workload("examples/attention_decode",
                    f"attention {dtype} decode {b}×{h}/{g}, cache {length}, d{d}",
                    {"T": dtype, "D": d}, {"q": q, "k": k, "v": v, "scale": scale}, o, moved,
                    "TB/s", peers, reference, TOLERANCE[dtype], {"copy": 0.85})


def window(dtype, b, h, s, d, reach):
    """Of each query the latest `reach` keys."""
    q, k, v, o = (random(dtype, b, h, s, d) for _ in range(4))
    turned, scale = [x.transpose(1, 2) for x in (q, k, v)], 1 / math.sqrt(d)

    def flash():
        return torch.ops.aten._flash_attention_forward(*turned, None, None, s, s, 0.0, True, False,
                                                       scale=scale, window_size_left=reach - 1,
                                                       window_size_right=0)[0].transpose(1, 2)

    pairs = sum(min(i + 1, reach) for i in range(s))
    return Workload("examples/attention_window",
                    f"attention {dtype} {b}×{h}×{s}, latest {reach}, d{d}", {"T": dtype, "D": d},
                    {"q": q, "k": k, "v": v, "scale": scale, "W": reach}, o,
                    4 * b * h * pairs * d, "TFLOP/s", offered({"FlashAttention-2": flash}), flash,
                    TOLERANCE[dtype], {"best": 1.0})


def paged(dtype, b, h, g, s, length, d, page):
    """The latest s tokens of each sequence, against all of it in pages that lie anywhere; cuDNN
    has it in one piece."""
    pages = length // page
    q, o = random(dtype, b, h, s, d), random(dtype, b, h, s, d)
    k, v = random(dtype, b * pages, g, page, d), random(dtype, b * pages, g, page, d)
    table = torch.randperm(b * pages, device="cuda").view(b, pages).to(torch.int32)
    whole = [x[table.long()].transpose(1, 2).reshape(b, g, length, d) for x in (k, v)]
    row = torch.arange(length, device="cuda")
    hidden = row[None, :] > (row[-s:])[:, None]
    scale = 1 / math.sqrt(d)
    peers = libraries(q, *whole, scale=scale, enable_gqa=True) if s == 1 else {}

    def reference():
        wide = [x.repeat_interleave(h // g, dim=1).float() for x in whole]
        scores = (q.float() @ wide[0].transpose(2, 3)) * scale
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=3) @ wide[1]

    moved = 2 * 2 * b * g * length * d
    peers["copy"] = copy_peer(moved)
    inputs = {"q": q, "k": k, "v": v, "table": table, "scale": scale,
              "length": torch.full((b,), length, device="cuda")}
    if s == 1:  # the heads of a key head are the rows
        inputs["q"], o = (x.view(b, g, h // g, d) for x in (q, o))
    by_heads = reference if s > 1 else lambda: reference().view(o.shape)
    return Workload("examples/attention_paged" + ("_decode" if s == 1 else ""),
                    f"attention {dtype} paged {b}×{h}/{g}×{s}, cache {length}, d{d}",
                    {"T": dtype, "D": d, "R": page},
                    inputs, o, moved, "TB/s", peers, by_heads, TOLERANCE[dtype], {"copy": 0.85})


def gradients(backend, tensors, g, deterministic, **options):
    with sdpa_kernel(backend):
        o = functional.scaled_dot_product_attention(*tensors, **options)

    def launch():
        torch.use_deterministic_algorithms(deterministic)
        found = torch.autograd.grad(o, tensors, g, retain_graph=True)
        torch.use_deterministic_algorithms(False)
        return found
    return launch


def backward(dtype, b, h, s, d, causal):
    q, k, v, g = (random(dtype, b, h, s, d) for _ in range(4))
    scale = 1 / math.sqrt(d)
    o, lse = logarithms(q, k, v, causal, scale)
    tensors = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    peers = offered({f"{name}{', deterministic' if fixed else ''}":
                     gradients(backend, tensors, g, fixed, is_causal=causal, scale=scale)
                     for name, backend in BACKENDS.items() for fixed in (False, True)})
    names = ("dq", "dk", "dv")
    flash = peers["FlashAttention-2"]
    fixed = {name: 1.0 for name in peers if "deterministic" in name}
    return Workload("examples/attention_backward",
                    f"attention backward {dtype} {b}×{h}×{s}, d{d}{words(causal)}",
                    {"T": dtype, "D": d, "causal": "true" if causal else "false"},
                    {"q": q, "k": k, "v": v, "o": o, "g": g, "lse": lse, "scale": scale},
                    {name: torch.empty_like(q) for name in names},
                    flops(b, h, s, s, d, causal, 5), "TFLOP/s", peers,
                    lambda: dict(zip(names, flash(), strict=True)), 2 * TOLERANCE[dtype],
                    {"best": 0.9, **fixed})


LENGTHS = [128, 3000, 700, 2048, 257, 4096, 1111, 5000, 64, 3300, 900, 1800, 2500, 300, 6000, 1500]

SUITE = {
    "attention-full": named(forward, "bf16", 4, 32, 4096, 128, False),
    "attention-causal": named(forward, "bf16", 4, 32, 4096, 128, True),
    "attention-long": named(forward, "bf16", 1, 32, 16384, 128, True),
    **{f"attention-d{d}": named(forward, "bf16", 4, 32, 4096, d, False) for d in (64, 80, 96, 256)},
    "attention-d64-causal": named(forward, "bf16", 4, 32, 4096, 64, True),
    "attention-f16": named(forward, "f16", 4, 32, 4096, 128, False),
    "attention-257": named(forward, "bf16", 64, 32, 257, 128, False),
    "attention-3000": named(forward, "bf16", 4, 32, 3000, 128, False),
    "attention-3000-causal": named(forward, "bf16", 4, 32, 3000, 128, True),
    "attention-grouped": named(grouped, "bf16", 4, 32, 8, 4096, 128, True),
    "attention-packed": named(packed, "bf16", LENGTHS, 16, 128),
    "attention-decode": named(decode, "bf16", 16, 32, 8, 16384, 128),
    "attention-backward": named(backward, "bf16", 4, 32, 4096, 128, True),
    "attention-backward-full": named(backward, "bf16", 4, 32, 4096, 128, False),
    "attention-backward-d64": named(backward, "bf16", 4, 32, 4096, 64, True),
}

# Rows between those: a batch of 16384 tokens in sequences of many lengths, few heads, few queries.
WIDE = {
    **{f"attention-wide-{s}-d{d}{'-causal' if causal else ''}":
       named(forward, "bf16", max(1, 16384 // s), 2048 // d, s, d, causal)
       for d in (64, 128) for causal in (False, True)
       for s in (64, 128, 200, 500, 1000, 2000, 8192)},
    **{f"attention-heads-{h}x{s}{'-causal' if causal else ''}":
       named(forward, "bf16", 1, h, s, 128, causal)
       for h, s in ((8, 512), (8, 2048), (4, 4096), (1, 8192)) for causal in (False, True)},
    **{f"attention-queries-{b}x{h}x{s}": named(forward, "bf16", b, h, s, 128, False, 8192)
       for b, h in ((8, 32), (1, 16)) for s in (1, 4, 16, 64)},
    "attention-grouped-512": named(grouped, "bf16", 4, 32, 8, 512, 128, False, 4096),
    "attention-grouped-16": named(grouped, "bf16", 16, 32, 8, 16, 128, False, 8192),
    "attention-window-4096": named(window, "bf16", 1, 32, 16384, 128, 4096),
    "attention-window-300": named(window, "bf16", 4, 32, 4096, 128, 300),
    "attention-packed-d64": named(packed, "bf16", LENGTHS, 16, 64),
    "attention-packed-short": named(packed, "bf16", [64 + i for i in range(128)], 16, 128),
    "attention-paged": named(paged, "bf16", 16, 32, 8, 1, 8192, 128, 64),
    "attention-paged-64": named(paged, "bf16", 4, 32, 8, 64, 8192, 128, 128),
    **{f"attention-decode-{b}x{length}": named(decode, "bf16", b, 32, 8, length, 128)
       for b, length in ((1, 4096), (1, 131072), (64, 1000))},
}
SUITE |= WIDE
