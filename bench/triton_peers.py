# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton as its tutorials write them: one program a row, the row in registers."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def chain(x, y, z, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    v = tl.load(x + at, mask=inside) * tl.load(y + at, mask=inside) + 0.5
    v = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    tl.store(z + at, tl.sigmoid(v), mask=inside)


@triton.jit
def softmax(x, y, n, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, block)
    v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def layer_norm(x, weight, bias, y, n, eps, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, block)
    inside = at < n
    v = tl.load(x + row + at, mask=inside, other=0).to(tl.float32)
    centered = tl.where(inside, v - tl.sum(v, 0) / n, 0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 0) / n + eps)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    b = tl.load(bias + at, mask=inside).to(tl.float32)
    tl.store(y + row + at, (centered * scale * w + b).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, weight, y, n, eps, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, block)
    inside = at < n
    v = tl.load(x + row + at, mask=inside, other=0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(v * v, 0) / n + eps)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    tl.store(y + row + at, (v * scale * w).to(y.dtype.element_ty), mask=inside)


def whole_row(n):
    """(block, warps) of a program that holds a row."""
    block = triton.next_power_of_2(n)
    return block, max(4, min(32, block // 512))
