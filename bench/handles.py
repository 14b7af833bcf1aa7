#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""handles.py --tessera PROGRAM: from source text to a function's handle; the context exists.

Variants of `add` and of a product of bf16 (8192³), each a text that was not seen before; run with
CUDA_CACHE_DISABLE=1 (set here) and TESSERA_CACHE=off, so that no cache helps. Triton's way is timed
beside it: its product is one tile of 128 × 256, 64 deep, in a loop of three stages.
"""

import argparse
import importlib.util
import os
import pathlib
import statistics
import tempfile
import time
from dataclasses import dataclass

os.environ["CUDA_CACHE_DISABLE"] = "1"
os.environ["TESSERA_CACHE"] = "off"

import torch  # noqa: E402 (after the environment is set)

import ours  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRITON_ADD = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, z, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    v = tl.load(x + at, mask=inside) + {i} * tl.load(y + at, mask=inside)
    tl.store(z + at, v, mask=inside)
"""
TRITON_PRODUCT = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, z, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    columns = tl.program_id(1) * bn + tl.arange(0, bn)
    depth = tl.arange(0, bk)
    left = x + rows[:, None] * k + depth[None, :]
    right = y + depth[:, None] * n + columns[None, :]
    sums = tl.zeros((bm, bn), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, bk)):
        a = tl.load(left, mask=depth[None, :] < k - step * bk, other=0.0)
        b = tl.load(right, mask=depth[:, None] < k - step * bk, other=0.0)
        sums = tl.dot(a, b, sums)
        left += bk
        right += bk * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(z + rows[:, None] * n + columns[None, :], ({i} * sums).to(tl.bfloat16), mask=inside)
"""


@dataclass
class Work:
    """One kernel in many texts: ours, {i} for the number; Triton's, and how it is asked for."""
    text: str
    consts: dict
    tensors: tuple
    reference: object  # i → what z must be
    tolerance: float
    triton: str
    warm_up: object  # kernel → compiled
    variants: int = 20


def add():
    x, y, z = (torch.randn(2**20, device="cuda") for _ in range(3))
    return Work("kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + {i} * y\n", {}, (x, y, z),
                lambda i: torch.add(x, y, alpha=i), 1e-6, TRITON_ADD,
                lambda kernel: kernel.warmup(x, y, z, x.numel(), 1024, grid=(1,)))


def product():
    n = 8192
    x, y, z = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(3))
    text = "kernel product(x: T[M, K], y: T[K, N]) -> T[M, N] where T: float = {i} * (x @ y)\n"
    return Work(text, {"T": "bf16"}, (x, y, z), lambda i: i * (x @ y), 2e-2, TRITON_PRODUCT,
                lambda kernel: kernel.warmup(x, y, z, n, n, n, 128, 256, 64, grid=(1,),
                                             num_warps=8, num_stages=3), 7)


def compiled(library, folder, work):
    x, y, z = work.tensors
    times = []
    for i in range(1, work.variants + 1):
        path = folder / f"variant{i}.tile"
        path.write_text(work.text.format(i=i))
        begin = time.perf_counter()
        launch = ours.prepare(library, path, work.consts, {"x": x, "y": y}, z)
        times.append(time.perf_counter() - begin)
        launch()
        torch.cuda.synchronize()
        wanted = work.reference(i).float()
        assert (z.float() - wanted).norm() <= work.tolerance * wanted.norm()
    return times


def triton(folder, work):
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    times = []
    for i in range(1, work.variants + 1):
        path = folder / f"variant{i}.py"
        path.write_text(work.triton.format(i=i))
        specification = importlib.util.spec_from_file_location(f"variant{i}", path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        begin = time.perf_counter()
        work.warm_up(module.kernel)._init_handles()
        times.append(time.perf_counter() - begin)
    return times


def show(name, times):
    ms = [t * 1e3 for t in times]
    print(f"{name}: median {statistics.median(ms):.1f} ms, {min(ms):.1f} to {max(ms):.1f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera")
    options = parser.parse_args()
    library = ours.use(options.tessera)
    for name, make in (("add", add), ("product", product)):
        work = make()
        with tempfile.TemporaryDirectory() as folder:
            show(f"{name}, ours", compiled(library, pathlib.Path(folder), work))
            show(f"{name}, triton", triton(pathlib.Path(folder), work))


if __name__ == "__main__":
    main()
