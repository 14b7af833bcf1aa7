# SPDX-License-Identifier: Apache-2.0
"""Each way of making code for a GPU, by the schedule line that asks for it, at sizes that nothing
divides."""

from dataclasses import dataclass

ATTENTION = "examples/attention.tile --set T={},D={},causal={} --size B={},H={},S={},L={} scale=0.1"
BACKWARD = ("examples/attention_backward.tile --set T=bf16,D={},causal={}"
            " --size B={},H={},S={},L={} scale=0.1")
ONE_LINE = "bench/programs/attention_one_line.tile:{} --set T={},D={} --size {}"
MATMUL = "examples/matmul.tile --set T={} --size M={},N={},K={}"
LINEAR = "examples/linear.tile --set T=bf16 --size M={},N={},K={}"
INT4 = "examples/int4_matmul.tile --set T={} --size M={},N={},K={}"
GATED = "examples/gated_mlp.tile --set T=bf16 --size M={},N={},K={}"
CONVOLUTIONS = "bench/programs/convolutions.tile"
PLANES = CONVOLUTIONS + ":conv_planes --set T=bf16 --size B={},C={},H={},W={},O={},R={},S={}"
LAST = CONVOLUTIONS + ":conv_last --set T=bf16 --size B={},H={},W={},C={},O={},R={},S={}"
GROUPS = CONVOLUTIONS + ":conv_groups --set T=bf16 --size B={},H={},W={},G={},C={},O={},R={},S={}"


@dataclass
class Case:
    title: str
    words: str           # of `tessera run`
    lines: tuple = ()    # of a schedule, that ask for what is not derived
    raced: bool = False  # worth a search for races: shared memory is handed over


# ---- what is derived, where masks cut ----

DERIVED = [
    Case("attention, causal", ATTENTION.format("bf16", 64, "true", 2, 3, 129, 129)),
    Case("attention", ATTENTION.format("bf16", 64, "false", 2, 3, 200, 333)),
    Case("attention, causal", ATTENTION.format("bf16", 128, "true", 3, 3, 300, 300)),
    Case("attention, more keys than rows", ATTENTION.format("f16", 128, "true", 1, 2, 65, 500)),
    Case("attention, a block each", ATTENTION.format("bf16", 128, "false", 1, 13, 257, 257)),
    Case("attention, odd heads", ATTENTION.format("bf16", 64, "true", 3, 7, 333, 333)),
    Case("attention, short rows", ATTENTION.format("bf16", 64, "false", 2, 17, 77, 65)),
    Case("attention, 80 elements", ATTENTION.format("bf16", 80, "true", 5, 4, 100, 100)),
    Case("attention, 256 elements", ATTENTION.format("bf16", 256, "true", 1, 2, 150, 170)),
    Case("attention, 40 elements", ONE_LINE.format("causal", "bf16", 40, "B=1,H=2,S=200")),
    Case("attention, 72 elements", ONE_LINE.format("plain", "f16", 72, "B=2,H=1,S=130,L=333")),
    Case("attention, 120 elements", ONE_LINE.format("groups", "bf16", 120, "B=1,H=4,G=2,S=150")),
    Case("attention, no keys", ATTENTION.format("bf16", 64, "false", 1, 1, 5, 0)),
    Case("gradients", BACKWARD.format(128, "true", 1, 2, 300, 300)),
    Case("gradients", BACKWARD.format(128, "false", 2, 1, 129, 640)),
    Case("gradients, fewer keys", BACKWARD.format(128, "true", 1, 1, 500, 200)),
    Case("gradients", BACKWARD.format(64, "true", 1, 2, 333, 333)),
    Case("product", MATMUL.format("bf16", 777, 333, 555)),
    Case("product, long contraction", MATMUL.format("f16", 65, 130, 4100)),
    Case("product, one row", MATMUL.format("bf16", 1, 1000, 1000)),
    Case("product, f32", MATMUL.format("f32", 300, 301, 302)),
    Case("product, f32, several tiles a block", MATMUL.format("f32", 1700, 1701, 80), raced=True),
    Case("product, f64", MATMUL.format("f64", 130, 70, 90)),
    Case("product and bias and gelu", LINEAR.format(300, 520, 264)),
    Case("weights of four bits, few rows", INT4.format("f16", 5, 264, 1024)),
    Case("weights of four bits, by warp groups", INT4.format("f16", 300, 520, 640), raced=True),
    Case("weights of four bits, in shares", INT4.format("bf16", 40, 264, 2048), raced=True),
    Case("two products joined", GATED.format(200, 333, 264)),
    Case("convolution", PLANES.format(3, 72, 11, 13, 40, 3, 3) + " --set stride=1,pad=1"),
    Case("convolution, few channels",
         LAST.format(2, 23, 25, 3, 64, 7, 7) + " --set stride=2,pad=3"),
    Case("convolution, groups",
         GROUPS.format(3, 13, 15, 3, 20, 33, 3, 3) + " --set stride=2,pad=1"),
]

# ---- what lines ask for ----

ASKED = [
    Case("multicast", MATMUL.format("bf16", 520, 264, 392), ("multicast M 2",), raced=True),
    Case("multicast, both", MATMUL.format("bf16", 1000, 1000, 200), ("multicast M 2",), raced=True),
    Case("tail", "tests/passes/tile/tail.tile:nn --set T=bf16 --size M=640,N=520,K=1096",
         ("tile M 128, N 128", "split_k_tail M 512"), raced=True),
    Case("epilogue warpgroup", LINEAR.format(300, 520, 264), ("tile M 128, N 128",
                                                              "epilogue warpgroup")),
    Case("epilogue block", LINEAR.format(300, 520, 264),
         ("tile M 128, N 128", "epilogue block"), raced=True),
    Case("keep", BACKWARD.format(128, "true", 1, 2, 300, 300), ("materialize on",), raced=True),
    Case("keep, 64 elements", BACKWARD.format(64, "true", 1, 2, 300, 300),
         ("materialize on",), raced=True),
    Case("materialize off", BACKWARD.format(128, "true", 1, 2, 300, 300), ("materialize off",)),
    Case("ping-pong", MATMUL.format("bf16", 300, 520, 392),
         ("tile M 128, N 128, K 64", "warps 8", "pingpong on"), raced=True),
    Case("rows that a tile has not", MATMUL.format("bf16", 200, 64, 256),
         ("tile M 192", "pipeline 1")),
    Case("rows that a tile has not, along m",
         "bench/programs/matmul_tn.tile --set T=bf16 --size M=600,N=64,K=264",
         ("tile M 384", "pipeline 1")),
    Case("persistent", MATMUL.format("bf16", 900, 1100, 328), ("persistent on",), raced=True),
    Case("persistent off", MATMUL.format("bf16", 900, 1100, 328), ("persistent off",)),
    Case("shares", MATMUL.format("bf16", 130, 264, 2056), ("split_k 4",), raced=True),
    Case("shares in a cluster", MATMUL.format("bf16", 130, 264, 2056),
         ("tile M 64", "tile N 64", "split_k 4", "cluster 4"), raced=True),
    Case("shares in a cluster, and gelu", LINEAR.format(65, 136, 1000),
         ("tile M 64", "tile N 128", "split_k 8", "cluster 8"), raced=True),
    Case("shares in a cluster, f32", MATMUL.format("f32", 70, 130, 600),
         ("tile M 64", "tile N 64", "split_k 2", "cluster 2"), raced=True),
    Case("weights of four bits, shares in a cluster", INT4.format("bf16", 20, 264, 1024),
         ("split_k 4", "cluster 4"), raced=True),
    Case("swap", MATMUL.format("bf16", 24, 520, 392), ("swap_ab on",)),
    Case("copies by threads", MATMUL.format("bf16", 300, 264, 392), ("copy async",), raced=True),
    Case("copies through registers", MATMUL.format("bf16", 300, 264, 392),
         ("copy registers",), raced=True),
    Case("products of warps", MATMUL.format("bf16", 300, 264, 392), ("instruction mma",),
         raced=True),
    Case("products of threads", MATMUL.format("bf16", 70, 60, 50), ("instruction fma",)),
    Case("windows by the copy engine",
         PLANES.format(3, 72, 11, 13, 40, 3, 3) + " --set stride=1,pad=1",
         ("im2col bulk",), raced=True),
    Case("windows by the copy engine, 5×3",
         PLANES.format(2, 70, 13, 9, 33, 5, 3) + " --set stride=2,pad=2",
         ("im2col bulk",), raced=True),
    Case("windows by the copy engine, the stem",
         LAST.format(2, 23, 25, 3, 64, 7, 7) + " --set stride=2,pad=3",
         ("im2col bulk",), raced=True),
    Case("windows by the copy engine, patches",
         LAST.format(2, 50, 49, 3, 40, 16, 16) + " --set stride=16,pad=0", ("im2col bulk",)),
    Case("windows by the copy engine, 100 channels",
         LAST.format(2, 9, 11, 100, 40, 3, 3) + " --set stride=1,pad=1", ("im2col bulk",)),
    Case("windows by the copy engine, groups of 4",
         GROUPS.format(3, 13, 15, 5, 4, 6, 3, 3) + " --set stride=1,pad=1", ("im2col bulk",)),
    Case("windows by the copy engine, groups of 20",
         GROUPS.format(3, 13, 15, 3, 20, 33, 3, 3) + " --set stride=2,pad=1",
         ("im2col bulk",), raced=True),
    Case("windows that pool a convolution",
         "bench/programs/regret.tile:conv_relu_pool --set T=bf16 --size B=3,H=23,W=25,C=72,O=72",
         ("pooling fused",), raced=True),
    Case("windows that pool a convolution, 16 channels",
         "bench/programs/regret.tile:conv_relu_pool --set T=bf16 --size B=2,H=17,W=19,C=16,O=40",
         ("pooling fused",), raced=True),
    Case("rows over a cluster", "examples/softmax.tile --set T=bf16 --size M=5,N=20001",
         ("reduction resident", "cluster 4"), raced=True),
    Case("rows in tiles", "examples/softmax.tile --set T=f32 --size M=7,N=5003",
         ("reduction looped",)),
    Case("a scan that looks back", "examples/recurrence.tile --size B=2,L=300007",
         ("scan lookback",), raced=True),
    Case("a scan in shares", "examples/recurrence.tile --size B=2,L=300007", ("scan two_pass",)),
    Case("transposing tiles", "examples/transpose.tile --set T=bf16 --size M=333,N=517",
         ("swizzle off",)),
]
