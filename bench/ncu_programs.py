# SPDX-License-Identifier: Apache-2.0
"""The launches of ncu.py: each example, at sizes whose arrays are larger than the L2 cache where
the work allows, and some that tiles do not divide, where guards and unaligned rows cost."""

from typing import NamedTuple


class Case(NamedTuple):
    program: str
    sets: str = ""
    sizes: str = ""
    words: tuple = ()  # for both `explain` and `bench`
    inputs: str = ""  # of `bench`: the name of a function of INPUTS


CASES = [
    Case("adam", "", "N=32M"),
    Case("add", "", "N=256M"),
    Case("argmax", "T=f32", "M=16k,N=4k"),
    Case("attention", "T=bf16,causal=true", "B=4,H=16,S=2k,L=2k,D=128"),
    Case("attention_backward", "T=bf16,causal=true", "B=2,H=8,S=2k,L=2k,D=128"),
    Case("attention_decode", "T=bf16", "B=16,G=8,R=8,L=4k,D=128"),
    Case("attention_grouped", "T=bf16,causal=false", "B=4,H=16,G=4,S=2k,L=2k,D=128"),
    Case("attention_packed", "T=bf16", "", (), "packed"),
    Case("attention_paged", "T=bf16", "", (), "paged"),
    Case("attention_window", "T=bf16", "B=4,H=8,S=4k,D=128", (), "window"),
    Case("batched", "T=bf16", "B=64,M=512,K=512,N=512"),
    Case("black_scholes", "", "N=32M"),
    Case("blur", "", "H=8k,W=8k"),
    Case("chain", "T=f32", "N=64M"),
    Case("collatz", "", "N=1M"),
    Case("conv2d", "T=bf16", "B=16,H=56,W=56,C=64,O=64,R=3,S=3"),
    Case("conv_transpose", "", "B=8,L=1k,C=64,R=4,O=64"),
    Case("crc", "", "M=64k,N=1k"),
    Case("cross_entropy", "", "M=16k,N=4k"),
    Case("cumsum", "", "N=16M"),
    Case("depthwise", "", "B=16,H=112,W=112,C=128,R=3,S=3"),
    Case("dft", "", "B=256,N=512"),
    Case("dropout", "", "N=64M"),
    Case("einsum", "T=bf16", "B=4,H=16,I=1k,J=1k,D=64"),
    Case("embedding", "T=f32", "V=64k,D=1k,B=16,S=2k"),
    Case("f8_matmul", "T=f8e4m3", "M=4k,N=4k,K=4k"),
    Case("flip", "", "M=8k,N=4k"),
    Case("gated_mlp", "T=bf16", "M=2k,K=2k,N=5504"),
    Case("gemv", "T=f32", "M=16k,N=8k"),
    Case("gqa_decode", "", "B=32,H=32,G=8,L=1k,D=128"),
    Case("grouped_matmul", "T=bf16", "", (), "grouped"),
    Case("histogram", "", "N=64M"),
    Case("image", "", "H=8k,W=8k"),
    Case("int4_matmul", "T=bf16", "M=16,N=8k,K=8k"),
    Case("int8_matmul", "", "M=1k,N=1k,K=1k"),
    Case("interpolate", "rows=4096,columns=4096", "H=2k,W=2k"),
    Case("jacobi", "", "H=8k,W=8k"),
    Case("kl_divergence", "", "M=16k,N=4k"),
    Case("kmeans", "", "N=1M,D=16,K=16"),
    Case("ladder", "T=bf16", "M=1k,N=1k,K=1k", ("--schedule", "naive")),
    Case("ladder", "T=bf16", "M=1k,N=1k,K=1k", ("--schedule", "vectorized")),
    Case("ladder", "T=bf16", "M=1k,N=1k,K=1k", ("--schedule", "pipelined")),
    Case("layer_norm", "T=bf16", "M=128k,N=4k"),
    Case("layer_norm_backward", "", "M=16k,N=4k"),
    Case("life", "", "H=16k,W=16k"),
    Case("linear", "T=bf16", "M=8k,N=8k,K=4k"),
    Case("linear_attention", "", "B=16,S=512,D=64,E=64"),
    Case("mandelbrot", "", "H=2k,W=2k"),
    Case("matmul", "T=bf16", "M=8k,N=8k,K=4k"),
    Case("max_pool", "", "B=16,H=224,W=224,C=64"),
    Case("moe_gate", "", "M=256k,E=64"),
    Case("monte_carlo", "n=1000000"),
    Case("nbody", "", "N=16k"),
    Case("pairwise", "", "M=4k,N=4k,D=64"),
    Case("power", "", "N=4M"),
    Case("quantize", "", "M=16k,N=4k"),
    Case("rank_sort", "", "N=16k"),
    Case("recurrence", "", "B=4k,L=4k"),
    Case("residual", "T=bf16", "M=8k,N=8k,K=2k"),
    Case("rms_norm", "T=bf16", "M=32k,N=4k"),
    Case("rotary", "T=f32", "B=8,H=32,S=2k,D=128"),
    Case("saxpy", "", "N=64M"),
    Case("scatter_add", "", "N=1M,D=64"),
    Case("search", "", "T=1M,N=16M"),
    Case("segment_sum", "", "N=16M,S=16k"),
    Case("smooth_l1", "", "N=32M"),
    Case("softmax", "T=bf16", "M=128k,N=4k"),
    Case("softmax_online", "", "M=4k,N=16k"),
    Case("swiglu", "T=bf16", "M=32k,N=4k"),
    Case("top2", "", "M=16k,N=4k"),
    Case("total", "", "N=64M"),
    Case("transpose", "T=f32", "M=16k,N=16k"),
    Case("welford", "", "M=16k,N=4k"),
    Case("softmax", "T=f32", "M=16001,N=4003"),
    Case("transpose", "T=f32", "M=8001,N=8003"),
    Case("add", "", "N=64000001"),
    Case("layer_norm", "T=bf16", "M=32001,N=3003"),
    Case("matmul", "T=f32", "M=1003,N=1001,K=999"),
    Case("linear", "T=bf16", "M=4001,N=4008,K=4104"),
    Case("blur", "", "H=8001,W=8003"),
]


# Arrays that say where other arrays are looked at: random ones would lead outside.
def packed(np):
    at = np.array([0, 3000, 3100, 8192, 16384], np.int32)
    return {"at": at}, "N=16k,H=8,D=128,E=5"


def paged(np):
    table = np.random.default_rng(1).permutation(16 * 32).reshape(16, 32).astype(np.int32)
    return {"table": table, "length": np.full(16, 4000, np.int64)}, (
        "B=16,H=32,G=8,S=4,D=128,P=512,R=128,Z=32"
    )


def grouped(np):
    group = np.repeat(np.arange(8, dtype=np.int32), 1024)
    return {"group": group}, "R=8k,K=2k,N=2k,E=8"


def window(np):
    return {"W": 512}, "B=4,H=8,S=4k,D=128"


INPUTS = {"packed": packed, "paged": paged, "grouped": grouped, "window": window}
