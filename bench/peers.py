# SPDX-License-Identifier: Apache-2.0
"""The workloads: their tensors, what the vendor's libraries and Triton offer for them, and what
each does. The first peer of a workload is the one that ours is compared with."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass
class Workload:
    program: str
    label: str
    consts: dict     # generic and const parameters of the program
    inputs: dict     # tensors and scalars by parameter
    result: object   # the tensor that ours writes
    work: float      # bytes moved, or floating-point operations
    unit: str        # "TB/s" or "TFLOP/s"
    peers: dict      # name → launch
    reference: object  # () → tensor that ours is compared with
    tolerance: float   # of the norm of the difference, relative


def random(dtype, *shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(DTYPES[dtype])


@triton.jit
def triton_add(x, y, z, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def triton_softmax(x, y, n, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, block)
    v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


def copy_peer(moved):
    """A device-to-device copy that moves as many bytes."""
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def add(n):
    x, y, z, w = random("f32", n), random("f32", n), random("f32", n), random("f32", n)
    grid = (triton.cdiv(n, 4096),)
    peers = {"copy": copy_peer(12 * n), "torch": lambda: torch.add(x, y, out=w),
             "triton": lambda: triton_add[grid](x, y, w, n, 4096, num_warps=8)}
    return Workload("add", f"add f32 {n}", {}, {"x": x, "y": y}, z, 12 * n, "TB/s", peers,
                    lambda: x + y, 0)


def softmax(dtype, m, n):
    x, y, w = random(dtype, m, n), random(dtype, m, n), random(dtype, m, n)
    moved = 2 * x.numel() * x.element_size()
    block = triton.next_power_of_2(n)
    warps = max(4, min(32, block // 512))
    peers = {"copy": copy_peer(moved), "torch": lambda: torch.softmax(x, 1, out=w),
             "triton": lambda: triton_softmax[(m,)](x, w, n, block, num_warps=warps)}
    return Workload("softmax", f"softmax {dtype} {m}×{n}", {"T": dtype}, {"x": x}, y, moved, "TB/s",
                    peers, lambda: torch.softmax(x.float(), 1),
                    {"f32": 1e-6, "f16": 1e-3, "bf16": 5e-3}[dtype])


def linear(dtype, m, n, k):
    x, w, b = random(dtype, m, k), random(dtype, n, k), random(dtype, n)
    y, z = random(dtype, m, n), random(dtype, m, n)
    peers = {"cuBLAS product": lambda: torch.mm(x, w.T, out=z),
             "torch linear, gelu": lambda: functional.gelu(functional.linear(x, w, b),
                                                           approximate="tanh"),
             "cuBLASLt fused": lambda: torch._addmm_activation(b, x, w.T, use_gelu=True)}
    return Workload(
        "linear", f"linear {dtype} {m}×{n}×{k}", {"T": dtype}, {"x": x, "w": w, "b": b}, y,
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
    return Workload("attention", label, consts, {"q": q, "k": k, "v": v, "scale": scale}, o,
                    4 * b * h * s * s * d / (2 if causal else 1), "TFLOP/s", peers,
                    library(SDPBackend.FLASH_ATTENTION), {"f16": 2e-3, "bf16": 1e-2}[dtype])


SUITE = {
    "add": lambda: add(2**28),
    "softmax-bf16-16384": lambda: softmax("bf16", 8192, 16384),
    "softmax-bf16-8192": lambda: softmax("bf16", 16384, 8192),
    "softmax-bf16-1024": lambda: softmax("bf16", 131072, 1024),
    "softmax-bf16-5120": lambda: softmax("bf16", 26112, 5120),
    "softmax-bf16-5000": lambda: softmax("bf16", 26112, 5000),
    "softmax-bf16-12288": lambda: softmax("bf16", 10880, 12288),
    "softmax-bf16-20000": lambda: softmax("bf16", 6528, 20000),
    "softmax-bf16-32768": lambda: softmax("bf16", 4096, 32768),
    "softmax-bf16-odd": lambda: softmax("bf16", 16384, 8191),
    "softmax-bf16-odd-16383": lambda: softmax("bf16", 8192, 16383),
    "softmax-bf16-odd-1001": lambda: softmax("bf16", 131072, 1001),
    "softmax-f32-8192": lambda: softmax("f32", 8192, 8192),
    "softmax-f32-512": lambda: softmax("f32", 131072, 512),
    "softmax-f32-14336": lambda: softmax("f32", 4608, 14336),
    "softmax-f32-odd-8191": lambda: softmax("f32", 8192, 8191),
    "softmax-f32-odd-1001": lambda: softmax("f32", 65536, 1001),
    "softmax-f32-65536": lambda: softmax("f32", 1024, 65536),
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
