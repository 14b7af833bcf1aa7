# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, and attention (attention.py): what bounds them is arithmetic."""

import torch
import torch.nn.functional as functional

import attention
from workload import Workload, copy_peer, named, random


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


def matmul(dtype, form, m, n, k, goals=None):
    """A bare product; `form`: how each operand lies, N as it is multiplied, T transposed."""
    a = random(dtype, *((k, m) if form[0] == "t" else (m, k)))
    b = random(dtype, *((n, k) if form[1] == "t" else (k, n)))
    left, right = (a.T if form[0] == "t" else a), (b.T if form[1] == "t" else b)
    y, z = random(dtype, m, n), random(dtype, m, n)
    wide = torch.promote_types(y.dtype, torch.float32)
    program = "examples/matmul" if form == "nn" else f"bench/programs/matmul_{form}"
    return Workload(program, f"matmul {form.upper()} {dtype} {m}×{n}×{k}", {"T": dtype},
                    {"a": a, "b": b}, y, 2 * m * n * k, "TFLOP/s",
                    {"cuBLAS": lambda: torch.mm(left, right, out=z)},
                    lambda: left.to(wide) @ right.to(wide),
                    {"f64": 1e-13, "f32": 1e-5, "f16": 2e-3, "bf16": 8e-3}[dtype],
                    goals or {"cuBLAS": 0.97})


def bmm(dtype, batch, m, n, k):
    """Many small products at once."""
    a, b = random(dtype, batch, m, k), random(dtype, batch, k, n)
    y, z = random(dtype, batch, m, n), random(dtype, batch, m, n)
    return Workload("bench/programs/bmm", f"matmul NN {dtype} {batch}×{m}×{n}×{k}", {"T": dtype},
                    {"a": a, "b": b}, y, 2 * batch * m * n * k, "TFLOP/s",
                    {"cuBLAS": lambda: torch.bmm(a, b, out=z)},
                    lambda: a.float() @ b.float(), {"f16": 2e-3, "bf16": 8e-3}[dtype],
                    {"cuBLAS": 0.97})


def in_tf32(multiply):
    """The library may round the operands of f32 products to tf32 meanwhile."""
    def call():
        torch.backends.cuda.matmul.allow_tf32 = True
        multiply()
        torch.backends.cuda.matmul.allow_tf32 = False

    return call


def matmul_tf32(form, n):
    load = matmul("f32", form, n, n, n, {"cuBLAS": 1.0})
    suffix = "" if form == "nn" else f"_{form}"
    load.program, load.consts = f"bench/programs/matmul_tf32{suffix}", {}
    load.label = f"matmul {form.upper()} tf32 {n}×{n}×{n}"
    load.peers = {"cuBLAS": in_tf32(load.peers["cuBLAS"])}
    load.tolerance = 1e-3
    return load


def eight_bits(program, form):
    return f"bench/programs/{program}" + ("" if form == "nt" else f"_{form}")


def matmul_f8(n, form="nt"):
    """8-bit floats; both peers are cuBLAS: sums as ours, or all in the matrix unit. It takes NT
    alone, and is given that where we multiply NN."""
    a, b = random("f8e4m3", n, n), random("f8e4m3", n, n)
    given = b if form == "nt" else b.T.contiguous()
    y, one = random("bf16", n, n), torch.ones((), device="cuda")

    def library(fast):
        return lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)

    return Workload(eight_bits("matmul_f8", form), f"matmul {form.upper()} f8e4m3 {n}×{n}×{n}",
                    {"T": "f8e4m3"}, {"a": a, "b": given}, y, 2 * n**3, "TFLOP/s",
                    {"cuBLAS": library(False), "cuBLAS fast sums": library(True)},
                    lambda: a.float() @ b.T.float(), 8e-3, {"cuBLAS": 1.0})


def matmul_i8(n, form="nt"):
    a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device="cuda") for _ in range(2))
    y = torch.empty(n, n, dtype=torch.int32, device="cuda")
    given = b if form == "nt" else b.T.contiguous()
    return Workload(eight_bits("matmul_i8", form), f"matmul {form.upper()} i8 {n}×{n}×{n}", {},
                    {"a": a, "b": given}, y, 2 * n**3, "TFLOP/s",
                    {"cuBLAS": lambda: torch._int_mm(a, b.T)},
                    lambda: a.double() @ b.T.double(), 0, {"cuBLAS": 1.2})


def int4(m, n=8192, k=8192, dtype="f16"):
    """Weights of four bits with a scale for 128 of a row; the peer multiplies them in 16 bits."""
    x, scale = random(dtype, m, k), random(dtype, k // 128, n)
    w = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
    low, high = (w & 15).to(torch.int8), (w >> 4).to(torch.int8)
    plain = torch.stack([low, high], dim=2).view(n, k)
    plain = (plain - 16 * (plain > 7)).float() * scale.float().T.repeat_interleave(128, dim=1)
    wide, y, z = plain.to(x.dtype), random(dtype, m, n), random(dtype, m, n)
    moved = 2 * (m * k + m * n) + n * k // 2 + 2 * k * n // 128
    return Workload("examples/int4_matmul", f"int4 weights {dtype} {m}×{n}×{k}", {"T": dtype},
                    {"x": x, "w": w, "scale": scale}, y, moved, "TB/s",
                    {f"{dtype} product": lambda: torch.mm(x, wide.T, out=z),
                     "copy": copy_peer(moved)},
                    lambda: x.float() @ plain.T, {"f16": 2e-3, "bf16": 8e-3}[dtype],
                    {f"{dtype} product": 3.0} if m <= 16 else {})


def skinny(m):
    """A few rows by a large matrix: the matrix is read once, and that is all it takes."""
    n = k = 8192
    load = matmul("bf16", "nt", m, n, k, {"cuBLAS": 1.2, "copy": 0.9})
    load.work, load.unit = 2 * (m * k + k * n + m * n), "TB/s"
    load.peers["copy"] = copy_peer(load.work)
    return load


def grouped(dtype, r, e, k, n):
    """Rows of experts, of uneven numbers; the peers take them expert by expert, or as one call."""
    x, w = random(dtype, r, k), random(dtype, e, k, n)
    group = torch.randint(0, e, (r,), device="cuda", dtype=torch.int32).sort().values
    ends = torch.bincount(group, minlength=e).cumsum(0)
    y, z, first = random(dtype, r, n), random(dtype, r, n), [0, *ends.tolist()]

    def each():
        for i in range(e):
            part = slice(first[i], first[i + 1])
            torch.mm(x[part], w[i], out=z[part])

    def together():
        return torch._grouped_mm(x, w, offs=ends.to(torch.int32), out_dtype=x.dtype)

    return Workload("examples/grouped_matmul", f"grouped matmul {dtype} {r} rows, {e} of {k}×{n}",
                    {"T": dtype}, {"x": x, "w": w, "group": group}, y, 2 * r * k * n, "TFLOP/s",
                    attention.offered({"cuBLAS, one by one": each, "grouped_mm": together}),
                    lambda: torch.cat([x[a:b].float() @ w[i].float()
                                       for i, (a, b) in enumerate(zip(first, first[1:]))]),
                    {"f16": 2e-3, "bf16": 8e-3}[dtype], {"best": 1.0})


LARGE = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (16384, 4096, 1024)]
ODD = [(4097, 4095, 1031), (1000, 1000, 1000), (3001, 5003, 2047), (8191, 8193, 4099),
       (2050, 2046, 2042), (511, 16381, 4093)]
BETWEEN = [(4000, 4104, 4096), (6144, 5120, 2560), (3072, 3072, 3072), (1536, 6144, 1536),
           (512, 4096, 4096), (300, 7168, 7168), (777, 2048, 4096), (1280, 8192, 1024),
           (100, 5000, 3000), (2304, 2304, 768), (192, 8192, 8192), (8192, 192, 8192),
           (3000, 3000, 3000), (2040, 2040, 2040)]
SMALL = [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (128, 128, 8192), (64, 64, 65536)]
BATCHES = [(64, 128, 128, 128), (512, 256, 256, 64)]

SUITE = {
    **{f"matmul-{dtype}-{form}-{m}x{n}x{k}": named(matmul, dtype, form, m, n, k)
       for dtype in ("bf16", "f16") for form in ("nn", "nt", "tn") for m, n, k in LARGE},
    **{f"matmul-odd-{m}x{n}x{k}": named(matmul, "bf16", "nn", m, n, k, {"cuBLAS": 3.0})
       for m, n, k in ODD},
    **{f"matmul-between-{m}x{n}x{k}": named(matmul, "bf16", "nn", m, n, k)
       for m, n, k in BETWEEN},
    **{f"matmul-small-{m}x{n}x{k}": named(matmul, "bf16", "nn", m, n, k) for m, n, k in SMALL},
    **{f"matmul-batch-{b}x{m}x{n}x{k}": named(bmm, "bf16", b, m, n, k)
       for b, m, n, k in BATCHES},
    **{f"matmul-rows-{m}": named(skinny, m) for m in (1, 4, 16, 64)},
    **{f"int4-{m}": named(int4, m) for m in (1, 4, 16, 64, 256, 512, 1024, 4096)},
    "int4-bf16-16": named(int4, 16, 8192, 8192, "bf16"),
    **{f"matmul-f32{form and '-' + form}": named(matmul, "f32", form or "nn", 4096, 4096, 4096,
                                                 {"cuBLAS": 1.0}) for form in ("", "nt", "tn")},
    **{f"matmul-f32-{n}": named(matmul, "f32", "nn", n, n, n, {"cuBLAS": 1.0})
       for n in (8192, 2048, 1024)},
    **{f"matmul-f32-{m}x{n}x{k}": named(matmul, "f32", "nn", m, n, k, {"cuBLAS": 1.0})
       for m, n, k in ODD},
    **{f"matmul-f64{form and '-' + form}": named(matmul, "f64", form or "nn", 4096, 4096, 4096,
                                                 {"cuBLAS": 1.0}) for form in ("", "nt", "tn")},
    **{f"matmul-tf32-{form}": named(matmul_tf32, form, 4096) for form in ("nn", "nt", "tn")},
    **{f"matmul-f8-{n}": named(matmul_f8, n) for n in (8192, 4096, 2048)},
    "matmul-f8-nn-4096": named(matmul_f8, 4096, "nn"),
    **{f"matmul-i8-{n}": named(matmul_i8, n) for n in (8192, 4096, 2048)},
    "matmul-i8-nn-4096": named(matmul_i8, 4096, "nn"),
    "linear-8192": lambda: linear("bf16", 8192, 8192, 8192),
    "linear-4096": lambda: linear("bf16", 4096, 4096, 4096),
    "linear-2048": lambda: linear("bf16", 2048, 2048, 2048),
    "linear-k1024": lambda: linear("bf16", 16384, 4096, 1024),
    "linear-odd": lambda: linear("bf16", 4000, 4104, 4096),
    "linear-f16-4096": lambda: linear("f16", 4096, 4096, 4096),
    **{f"grouped-{e}": named(grouped, "bf16", 16384, e, 2048, 2048) for e in (8, 64)},
    **attention.SUITE,
}
