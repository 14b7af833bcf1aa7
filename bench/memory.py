# SPDX-License-Identifier: Apache-2.0
"""Work that memory bounds: element-wise, rows, columns, scans, gathers, atomics, orders."""

import torch
import torch.nn.functional as functional
import triton

import triton_peers
from workload import DTYPES, EXACT_TO, Workload, compiled, copy_peer, named, random

PEERS = {"best": 1.0}


def add(n):
    x, y, z, w = random("f32", n), random("f32", n), random("f32", n), random("f32", n)
    grid = (triton.cdiv(n, 4096),)
    peers = {"copy": copy_peer(12 * n), "torch": lambda: torch.add(x, y, out=w),
             "triton": lambda: triton_peers.add[grid](x, y, w, n, 4096, num_warps=8)}
    return Workload("examples/add", f"add f32 {n}", {}, {"x": x, "y": y}, z, 12 * n, "TB/s", peers,
                    lambda: x + y, 0, PEERS)


def chain(n):
    x, y, z, w = random("f32", n), random("f32", n), random("f32", n), random("f32", n)
    grid = (triton.cdiv(n, 1024),)
    peers = {"copy": copy_peer(12 * n),
             "compile": compiled(lambda: torch.sigmoid(functional.gelu(x * y + 0.5))),
             "triton": lambda: triton_peers.chain[grid](x, y, w, n, 1024, num_warps=4)}
    return Workload("examples/chain", f"chain f32 {n}", {"T": "f32"}, {"x": x, "y": y}, z, 12 * n,
                    "TB/s", peers, lambda: torch.sigmoid(functional.gelu(x * y + 0.5)), 1e-6, PEERS)


def total(n):
    x, y = random("f32", n), torch.empty(1, device="cuda")
    peers = {"copy": copy_peer(4 * n), "torch": lambda: torch.sum(x)}
    return Workload("bench/programs/sum", f"sum f32 {n}", {"T": "f32"}, {"x": x}, y, 4 * n, "TB/s",
                    peers, lambda: x.double().sum()[None], 1e-3, {"copy": 0.97})


def cumsum(n):
    x, y, w = random("f32", n), random("f32", n), random("f32", n)
    peers = {"copy": copy_peer(8 * n), "torch": lambda: torch.cumsum(x, 0, out=w)}
    return Workload("bench/programs/cumsum", f"cumsum f32 {n}", {}, {"x": x}, y, 8 * n, "TB/s",
                    peers, lambda: torch.cumsum(x.double(), 0), 1e-4, {"copy": 0.85})


def transpose(dtype, m, n):
    x, y, w = random(dtype, m, n), random(dtype, n, m), random(dtype, n, m)
    moved = 2 * x.numel() * x.element_size()
    peers = {"copy": copy_peer(moved), "torch": lambda: w.copy_(x.T)}
    return Workload("examples/transpose", f"transpose {dtype} {m}×{n}", {"T": dtype}, {"x": x}, y,
                    moved, "TB/s", peers, lambda: x.T, 0, {"copy": 0.85})


def row_goals(n):
    return {"copy": 0.8} if n > 100000 else {"triton": 1.0, "copy": 0.88}


def softmax(dtype, m, n):
    x, y, w = random(dtype, m, n), random(dtype, m, n), random(dtype, m, n)
    moved = 2 * x.numel() * x.element_size()
    block, warps = triton_peers.whole_row(n)
    peers = {"copy": copy_peer(moved), "torch": lambda: torch.softmax(x, 1, out=w),
             "triton": lambda: triton_peers.softmax[(m,)](x, w, n, block, num_warps=warps)}
    return Workload("examples/softmax", f"softmax {dtype} {m}×{n}", {"T": dtype}, {"x": x}, y,
                    moved, "TB/s", peers, lambda: torch.softmax(x.float(), 1), EXACT_TO[dtype],
                    row_goals(n))


def layer_norm(dtype, m, n):
    x, y, w = random(dtype, m, n), random(dtype, m, n), random(dtype, m, n)
    weight, bias = random(dtype, n), random(dtype, n)
    moved = 2 * x.numel() * x.element_size()
    block, warps = triton_peers.whole_row(n)
    peers = {"copy": copy_peer(moved),
             "torch": lambda: functional.layer_norm(x, (n,), weight, bias),
             "triton": lambda: triton_peers.layer_norm[(m,)](x, weight, bias, w, n, 1e-5, block,
                                                             num_warps=warps)}
    return Workload("examples/layer_norm", f"layer norm {dtype} {m}×{n}", {"T": dtype},
                    {"x": x, "weight": weight, "bias": bias}, y, moved, "TB/s", peers,
                    lambda: functional.layer_norm(x.float(), (n,), weight.float(), bias.float()),
                    EXACT_TO[dtype], row_goals(n))


def rms_norm(dtype, m, n):
    x, y, w, weight = (random(dtype, m, n), random(dtype, m, n), random(dtype, m, n),
                       random(dtype, n))
    moved = 2 * x.numel() * x.element_size()
    block, warps = triton_peers.whole_row(n)
    peers = {"copy": copy_peer(moved),
             "torch": lambda: functional.rms_norm(x, (n,), weight, 1e-6),
             "triton": lambda: triton_peers.rms_norm[(m,)](x, weight, w, n, 1e-6, block,
                                                           num_warps=warps)}
    return Workload("examples/rms_norm", f"RMS norm {dtype} {m}×{n}", {"T": dtype},
                    {"x": x, "weight": weight}, y, moved, "TB/s", peers,
                    lambda: functional.rms_norm(x.float(), (n,), weight.float(), 1e-6),
                    EXACT_TO[dtype], row_goals(n))


def layer_norm_backward(dtype, m, n):
    x, dy, weight = random(dtype, m, n), random(dtype, m, n), random("f32", n)
    results = {"dx": random(dtype, m, n), "dweight": random("f32", n), "dbias": random("f32", n)}
    moved = 3 * x.numel() * x.element_size()

    def reference():
        x64 = x.double().requires_grad_()
        w64, b64 = weight.double().requires_grad_(), torch.zeros_like(weight, dtype=torch.float64)
        b64.requires_grad_()
        functional.layer_norm(x64, (n,), w64, b64).backward(dy.double())
        return {"dx": x64.grad, "dweight": w64.grad, "dbias": b64.grad}

    low = weight.to(DTYPES[dtype])
    _, mean, scale = torch.ops.aten.native_layer_norm(x, (n,), low, low, 1e-5)

    def library():
        return torch.ops.aten.native_layer_norm_backward(dy, x, (n,), mean, scale, low, low,
                                                         [True, True, True])

    peers = {"copy": copy_peer(moved), "torch": library, "compile": compiled(library)}
    return Workload("bench/programs/layer_norm_backward", f"layer norm backward {dtype} {m}×{n}",
                    {"T": dtype}, {"x": x, "weight": weight, "dy": dy}, results, moved, "TB/s",
                    peers, reference, EXACT_TO[dtype], PEERS)


def column_sum(m, n):
    x, y = random("f32", m, n), random("f32", n)
    peers = {"copy": copy_peer(4 * m * n), "torch": lambda: torch.sum(x, 0)}
    return Workload("bench/programs/column_sum", f"column sums f32 {m}×{n}", {"T": "f32"}, {"x": x},
                    y, 4 * m * n, "TB/s", peers, lambda: x.double().sum(0), 1e-5, {"copy": 0.85})


def softmax_columns(dtype, m, n):
    x, y, w = random(dtype, m, n), random(dtype, m, n), random(dtype, m, n)
    moved = 2 * x.numel() * x.element_size()
    peers = {"copy": copy_peer(moved), "torch": lambda: torch.softmax(x, 0, out=w)}
    return Workload("bench/programs/softmax_columns", f"softmax axis 0 {dtype} {m}×{n}",
                    {"T": dtype}, {"x": x}, y, moved, "TB/s", peers,
                    lambda: torch.softmax(x.float(), 0),
                    1e-5 if dtype == "f32" else EXACT_TO[dtype], {"copy": 0.85})


def torch_peers(moved, function):
    return {"copy": copy_peer(moved), "torch": function, "compile": compiled(function)}


def max_pool(b, c, h, w, last):
    """`last`: channels last."""
    p, q = (h - 1) // 2 + 1, (w - 1) // 2 + 1
    x = random("f32", *((b, h, w, c) if last else (b, c, h, w)))
    y = random("f32", *((b, p, q, c) if last else (b, c, p, q)))
    image = x.permute(0, 3, 1, 2) if last else x

    def library():
        return functional.max_pool2d(image, 3, 2, 1)

    def reference():
        return library().permute(0, 2, 3, 1) if last else library()

    moved = 4 * (x.numel() + y.numel())
    return Workload("examples/max_pool" if last else "bench/programs/max_pool",
                    f"max pool f32 {b}×{c}×{h}×{w}{' channels last' if last else ''}",
                    {} if last else {"T": "f32"}, {"x": x}, y, moved, "TB/s",
                    torch_peers(moved, library), reference, 0, PEERS)


def batch_norm(b, c, s):
    x, y, weight, bias = (random("f32", b, c, s), random("f32", b, c, s), random("f32", c),
                          random("f32", c))

    def library():
        return functional.batch_norm(x, None, None, weight, bias, training=True)

    moved = 8 * x.numel()
    return Workload("bench/programs/batch_norm", f"batch norm f32 {b}×{c}×{s}", {"T": "f32"},
                    {"x": x, "weight": weight, "bias": bias}, y, moved, "TB/s",
                    torch_peers(moved, library), library, 1e-5, PEERS)


def group_norm(b, g, k, s):
    x, y, weight, bias = (random("f32", b, g, k, s), random("f32", b, g, k, s), random("f32", g, k),
                          random("f32", g, k))

    def library():
        return functional.group_norm(x.view(b, g * k, s), g, weight.view(-1), bias.view(-1))

    moved = 8 * x.numel()
    return Workload("bench/programs/group_norm", f"group norm f32 {b}×{g * k}×{s}, {g} groups",
                    {"T": "f32"}, {"x": x, "weight": weight, "bias": bias}, y, moved, "TB/s",
                    torch_peers(moved, library), lambda: library().view(b, g, k, s), 1e-5, PEERS)


def histogram(n):
    x, y = torch.rand(n, device="cuda"), torch.zeros(256, dtype=torch.int64, device="cuda")
    peers = {"copy": copy_peer(4 * n), "torch": lambda: torch.histc(x, 256, 0, 1)}
    return Workload("bench/programs/histogram", f"histogram f32 {n}, 256 bins", {}, {"x": x}, y,
                    4 * n, "TB/s", peers,
                    lambda: torch.bincount((x * 256).long().clamp(max=255), minlength=256), 0,
                    PEERS)


def embedding(dtype, vocabulary, d, n):
    table = random(dtype, vocabulary, d)
    ids = torch.randint(vocabulary, (1, n), device="cuda")
    y = random(dtype, 1, n, d)

    def library():
        return functional.embedding(ids, table)

    moved = 2 * y.numel() * y.element_size() + 8 * n
    return Workload("examples/embedding", f"embedding {dtype} {n} of {vocabulary}×{d}",
                    {"T": dtype}, {"table": table, "ids": ids}, y, moved, "TB/s",
                    torch_peers(moved, library), library, 0, PEERS)


def dropout(n):
    x, y = random("f32", n), random("f32", n)

    def library():
        return functional.dropout(x, 0.25)

    def reference():  # which ones are kept is ours alone; what is kept must be scaled
        kept = y != 0
        share = kept.float().mean().item()
        return torch.where(kept, x / 0.75, 0) if abs(share - 0.75) < 1e-3 else x

    return Workload("examples/dropout", f"dropout f32 {n}", {}, {"x": x, "p": 0.25, "seed": 7}, y,
                    8 * n, "TB/s", torch_peers(8 * n, library), reference, 1e-6, PEERS)


def cross_entropy(dtype, m, n):
    x, y = random(dtype, m, n), random("f32", m)
    label = torch.randint(n, (m,), device="cuda")

    def library():
        return functional.cross_entropy(x, label, reduction="none")

    moved = x.numel() * x.element_size()
    return Workload("bench/programs/cross_entropy", f"cross entropy {dtype} {m}×{n}", {"T": dtype},
                    {"x": x, "label": label}, y, moved, "TB/s", torch_peers(moved, library),
                    lambda: functional.cross_entropy(x.float(), label, reduction="none"), 1e-5,
                    PEERS)


def topk(m, n, k):
    """No element is twice in a row: which of two equal ones comes first is torch's affair."""
    x = random("f32", m, n).argsort(dim=1).float()
    results = {"value": random("f32", m, k),
               "at": torch.zeros(m, k, dtype=torch.int64, device="cuda")}

    def reference():
        value, at = torch.topk(x, k, dim=1)
        return {"value": value, "at": at}

    return Workload("bench/programs/topk", f"topk f32 {m}×{n}, k {k}", {"T": "f32", "k": k},
                    {"x": x}, results, 4 * m * n, "TB/s",
                    torch_peers(4 * m * n, lambda: torch.topk(x, k, dim=1)), reference, 0, PEERS)


def sort(n):
    x, y = random("f32", n), random("f32", n)
    return Workload("bench/programs/sort", f"sort f32 {n}", {}, {"x": x}, y, 8 * n, "TB/s",
                    {"copy": copy_peer(8 * n), "torch": lambda: torch.sort(x)},
                    lambda: torch.sort(x).values, 0, PEERS)


ROWS = [(16384, 4096), (32768, 1024), (8192, 16384), (65536, 1000)]
LONG = [(1024, 131072)]
NORMS = {"softmax": (softmax, ROWS + LONG), "layer-norm": (layer_norm, ROWS + LONG),
         "rms-norm": (rms_norm, ROWS)}
# Sizes between the listed ones: a schedule that only a listed size gets would be a defect.
BETWEEN = [("bf16", 26112, 5120), ("bf16", 26112, 5000), ("bf16", 10880, 12288),
           ("bf16", 6528, 20000), ("bf16", 4096, 32768), ("bf16", 16384, 8191),
           ("bf16", 8192, 16383), ("bf16", 131072, 1001), ("f32", 8192, 8192),
           ("f32", 131072, 512), ("f32", 4608, 14336), ("f32", 8192, 8191), ("f32", 65536, 1001),
           ("f32", 1024, 65536)]
COLUMNS = [("f32", 1024, 131072), ("f32", 4096, 32768), ("f32", 12000, 10000),
           ("bf16", 1024, 131072), ("bf16", 4096, 65536), ("bf16", 8192, 32768),
           ("bf16", 12000, 10000), ("bf16", 16384, 16384)]


SUITE = {
    "add": named(add, 2**28), "chain": named(chain, 2**27), "sum": named(total, 2**28),
    "cumsum-26": named(cumsum, 2**26), "cumsum-28": named(cumsum, 2**28),
    "transpose-f32": named(transpose, "f32", 16384, 16384),
    "transpose-bf16": named(transpose, "bf16", 16384, 16384),
    "transpose-odd": named(transpose, "f32", 15001, 17003),
    **{f"{name}-{dtype}-{m}x{n}": named(make, dtype, m, n)
       for name, (make, sizes) in NORMS.items() for dtype in ("bf16", "f32") for m, n in sizes},
    **{f"between-softmax-{dtype}-{m}x{n}": named(softmax, dtype, m, n) for dtype, m, n in BETWEEN},
    "columns-sum": named(column_sum, 16384, 16384),
    "columns-softmax": named(softmax_columns, "f32", 16384, 16384),
    **{f"columns-softmax-{dtype}-{m}x{n}": named(softmax_columns, dtype, m, n)
       for dtype, m, n in COLUMNS},
    "max-pool": named(max_pool, 64, 64, 112, 112, False),
    "max-pool-last": named(max_pool, 64, 64, 112, 112, True),
    "batch-norm": named(batch_norm, 64, 256, 3136),
    "group-norm": named(group_norm, 64, 32, 8, 3136),
    "histogram": named(histogram, 2**26), "embedding": named(embedding, "f32", 100000, 128, 2**22),
    "dropout": named(dropout, 2**27), "cross-entropy": named(cross_entropy, "bf16", 16384, 32000),
    "topk": named(topk, 16384, 4096, 8), "sort": named(sort, 2**26),
    "layer-norm-backward": named(layer_norm_backward, "bf16", 16384, 4096),
}
