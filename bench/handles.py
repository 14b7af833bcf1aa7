#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""handles.py --tessera PROGRAM: from source text to a function's handle; the context exists.

Twenty variants of `add`, each a text that was not seen before; run with CUDA_CACHE_DISABLE=1 (set
here) and TESSERA_CACHE=off, so that no cache helps. Triton's way is timed beside it where it is
installed.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

os.environ["CUDA_CACHE_DISABLE"] = "1"
os.environ["TESSERA_CACHE"] = "off"

import torch  # noqa: E402 (after the environment is set)

import ours  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
VARIANTS = 20
TRITON = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, z, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    v = tl.load(x + at, mask=inside) + {i} * tl.load(y + at, mask=inside)
    tl.store(z + at, v, mask=inside)
"""


def compiled(library, folder, tensors):
    x, y, z = tensors
    times = []
    for i in range(VARIANTS):
        path = folder / f"add{i}.tile"
        path.write_text(f"kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + {i} * y\n")
        begin = time.perf_counter()
        launch = ours.prepare(library, path, {}, {"x": x, "y": y}, z)
        times.append(time.perf_counter() - begin)
        launch()
        torch.cuda.synchronize()
        assert torch.allclose(z, torch.add(x, y, alpha=i), rtol=1e-6, atol=1e-6)
    return times


def triton(folder, tensors):
    import importlib.util
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    x, y, z = tensors
    times = []
    for i in range(VARIANTS):
        path = folder / f"variant{i}.py"
        path.write_text(TRITON.format(i=i))
        specification = importlib.util.spec_from_file_location(f"variant{i}", path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        begin = time.perf_counter()
        module.kernel.warmup(x, y, z, x.numel(), 1024, grid=(1,))._init_handles()
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
    tensors = [torch.randn(2**20, device="cuda") for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        show("ours", compiled(library, pathlib.Path(folder), tensors))
        show("triton", triton(pathlib.Path(folder), tensors))


if __name__ == "__main__":
    main()
