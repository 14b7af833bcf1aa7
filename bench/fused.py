# SPDX-License-Identifier: Apache-2.0
"""Products with what follows them, and convolutions."""

import torch
import torch.nn.functional as functional

from workload import Workload, compiled, named, random

BARE = 0.97  # of the product alone
FUSED = 1.05  # of torch.compile


def linear_relu(m, n, k):
    x, w, b = random("bf16", m, k), random("bf16", n, k), random("bf16", n)
    y, z = random("bf16", m, n), random("bf16", m, n)
    peers = {"cuBLAS product": lambda: torch.mm(x, w.T, out=z),
             "compile": compiled(lambda: torch.relu(functional.linear(x, w, b)))}
    return Workload("bench/programs/linear_relu", f"linear, relu bf16 {m}×{n}×{k}", {"T": "bf16"},
                    {"x": x, "w": w, "b": b}, y, 2 * m * n * k, "TFLOP/s", peers,
                    lambda: torch.relu(torch.mm(x, w.T).float() + b.float()), 8e-3,
                    {"cuBLAS product": BARE, "compile": FUSED})


def gated(m, n, k):
    x, gate, up = random("bf16", m, k), random("bf16", n, k), random("bf16", n, k)
    gate, up = gate / k**0.5, up / k**0.5
    y = random("bf16", m, n)

    def eager():
        return functional.silu(functional.linear(x, gate)) * functional.linear(x, up)

    def exact():
        wide = [torch.mm(x, w.T).float() for w in (gate, up)]
        return functional.silu(wide[0]) * wide[1]

    return Workload("bench/programs/gated", f"gated MLP bf16 {m}×{n}×{k}", {"T": "bf16"},
                    {"x": x, "gate": gate, "up": up}, y, 4 * m * n * k, "TFLOP/s",
                    {"compile": compiled(eager)}, exact, 1e-2, {"compile": FUSED})


def conv2d(b, h, w, c, o, size):
    x, k, bias = random("bf16", b, h, w, c), random("bf16", o, size, size, c), random("bf16", o)
    k = k / (c * size * size) ** 0.5
    y = random("bf16", b, h, w, o)
    images, filters = x.permute(0, 3, 1, 2), k.permute(0, 3, 1, 2)  # channels last, as they lie

    def library():
        return torch.relu(functional.conv2d(images, filters, bias, padding=size // 2))

    torch.backends.cudnn.benchmark = True
    return Workload("examples/conv2d", f"conv2d {size}×{size}, relu bf16 {b}×{h}×{w}×{c} → {o}",
                    {"T": "bf16", "pad": size // 2}, {"x": x, "w": k, "bias": bias}, y,
                    2 * b * h * w * o * size * size * c, "TFLOP/s",
                    {"cuDNN": library, "compile": compiled(library)},
                    lambda: library().permute(0, 2, 3, 1).float(), 1e-2, {"best": 1.0})


def depthwise(b, h, w, c, size):
    x, k = random("f32", b, h, w, c), random("f32", size, size, c)
    y = random("f32", b, h, w, c)
    images, filters = x.permute(0, 3, 1, 2), k.permute(2, 0, 1)[:, None].contiguous()

    def library():
        return functional.conv2d(images, filters, padding=size // 2, groups=c)

    return Workload("examples/depthwise", f"depthwise {size}×{size} f32 {b}×{h}×{w}×{c}", {},
                    {"x": x, "w": k}, y, 2 * b * h * w * c * size * size, "TFLOP/s",
                    {"cuDNN": library, "compile": compiled(library)},
                    lambda: library().permute(0, 2, 3, 1), 1e-5, {"best": 1.0})


SUITE = {
    "fused-relu": named(linear_relu, 8192, 8192, 8192),
    "fused-gated": named(gated, 8192, 8192, 8192),
    "conv-3x3": named(conv2d, 32, 56, 56, 256, 256, 3),
    "conv-1x1": named(conv2d, 32, 56, 56, 256, 256, 1),
    "conv-depthwise": named(depthwise, 32, 56, 56, 256, 7),
}
