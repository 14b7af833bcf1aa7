# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and attention: what bounds them is arithmetic."""

import math

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from workload import Workload, random

def linear(dtype, m, n, k):
    x, w, b = random(dtype, m, k), random(dtype, n, k), random(dtype, n)
    y, z = random(dtype, m, n), random(dtype, m, n)
    peers = {"cuBLAS product": lambda: torch.mm(x, w.T, out=z),
             "torch linear, gelu": lambda: functional.gelu(functional.linear(x, w, b),
                                                           approximate="tanh"),
             "cuBLASLt fused": lambda: torch._addmm_activation(b, x, w.T, use_gelu=True)}
    return Workload(
        "examples/linear", f"linear {dtype} {m}×{n}×{k}", {"T": dtype}, {"x": x, "w": w, "b": b}, y,
        2 * m * n * k, "TFLOP/s", peers,
        lambda: functional.gelu(torch.mm(x, w.T).float() + b.float(), approximate="tanh"),
        {"f32": 1e-5, "f16": 2e-3, "bf16": 8e-3}[dtype])


def attention(dtype, b, h, s, d, causal):
    q, k, v, o = (random(dtype, b, h, s, d) for _ in range(4))
    scale = 1 / math.sqrt(d)

    def library(backend):
        def launch():
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal,
                                                               scale=scale)
        return launch

    peers = {"cuDNN": library(SDPBackend.CUDNN_ATTENTION),
             "FlashAttention-2": library(SDPBackend.FLASH_ATTENTION)}
    label = f"attention {dtype} {b}×{h}×{s}, d{d}{' causal' if causal else ''}"
    consts = {"T": dtype, "D": d, "causal": "true" if causal else "false"}
    return Workload("examples/attention", label, consts,
                    {"q": q, "k": k, "v": v, "scale": scale}, o,
                    4 * b * h * s * s * d / (2 if causal else 1), "TFLOP/s", peers,
                    library(SDPBackend.FLASH_ATTENTION), {"f16": 2e-3, "bf16": 1e-2}[dtype])


SUITE = {
    "linear-8192": lambda: linear("bf16", 8192, 8192, 8192),
    "linear-4096": lambda: linear("bf16", 4096, 4096, 4096),
    "linear-2048": lambda: linear("bf16", 2048, 2048, 2048),
    "linear-k1024": lambda: linear("bf16", 16384, 4096, 1024),
    "linear-odd": lambda: linear("bf16", 4000, 4104, 4096),
    "linear-f16-4096": lambda: linear("f16", 4096, 4096, 4096),
    "attention-full": lambda: attention("bf16", 4, 32, 4096, 128, False),
    "attention-causal": lambda: attention("bf16", 4, 32, 4096, 128, True),
    "attention-long": lambda: attention("bf16", 1, 32, 16384, 128, True),
    "attention-d64": lambda: attention("bf16", 4, 32, 4096, 64, False),
}
