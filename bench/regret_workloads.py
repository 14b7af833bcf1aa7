# SPDX-License-Identifier: Apache-2.0
"""The workloads of regret.py: a kernel with types, constants and sizes for a GPU and for a CPU.

A third of them is held out by kernel: no rule and no constant of the compiler may be chosen by
looking at a row of a kernel in HELD_OUT. Nothing here needs torch."""

import pathlib
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]

HELD_OUT = {
    "bmm", "matmul_f8", "int4_matmul", "fp8_blocks", "lora", "linear_rms_norm",
    "residual_rms_norm", "softmax_middle", "cross_entropy_gradient", "argmax_rows", "var_columns",
    "cumsum_columns", "permute_021", "rotary_heads", "conv_planes", "conv_planes_depth",
    "average_pool_first", "softcap", "alibi", "linear_attention", "instance_norm_first",
    "conv_group_norm", "matvec", "quantize_blocks", "gather_rows",
}


@dataclass(frozen=True)
class Workload:
    source: str  # FILE:KERNEL, below the root
    consts: tuple  # of (generic or const parameter, value)
    sizes: tuple  # of (size, number)
    device: str  # the kind that it is for: "gpu" or "cpu"
    by_hand: str = ""  # FILE:KERNEL of a tiled form that takes the same inputs
    numbers: tuple = field(default=(), compare=False)  # of (scalar parameter, value)

    @property
    def kernel(self):
        return self.source.partition(":")[2]

    @property
    def held_out(self):
        return self.kernel in HELD_OUT

    @property
    def name(self):
        words = [str(v) if k == "T" else f"{k}={v}" for k, v in (*self.consts, *self.sizes)]
        return " ".join([self.kernel, *words])

    def words(self):
        """Words of the command line that say types and sizes."""
        consts = ",".join(f"{k}={v}" for k, v in self.consts)
        sizes = ",".join(f"{k}={v}" for k, v in self.sizes)
        return [*(["--set", consts] if consts else []), "--size", sizes]


WORKLOADS = []
SURVEY, BLOCKS, OWN = (f"bench/programs/{name}.tile" for name in ("survey", "blocks", "regret"))
ATTENTION = "bench/programs/attention_one_line.tile"
CONVOLUTIONS = "bench/programs/convolutions.tile"


def pairs(text):
    """"M=4096 N=64" as ((M, 4096), (N, 64)); what is no number stays a text."""
    found = (word.split("=") for word in text.split())
    return tuple((k, int(v) if v.lstrip("-").isdigit() else v) for k, v in found)


def add(source, gpu, cpu="", by_hand="", numbers=()):
    """gpu, cpu: `types and constants | sizes` of each workload, by `;`. `bf16` alone is T's."""
    for device, texts in (("gpu", gpu), ("cpu", cpu)):
        for text in filter(None, (part.strip() for part in texts.split(";"))):
            consts, _, sizes = text.partition("|")
            consts = " ".join(w if "=" in w else f"T={w}" for w in consts.split())
            WORKLOADS.append(Workload(source, pairs(consts), pairs(sizes), device, by_hand,
                                      tuple(numbers)))


# ---- products ----

add("examples/matmul.tile:matmul",
    "bf16 | M=4096 N=4096 K=4096; bf16 | M=2000 N=3000 K=1000; bf16 | M=1000 N=1000 K=1000;"
    "bf16 | M=128 N=128 K=8192; f32 | M=2048 N=2048 K=2048",
    "f32 | M=512 N=512 K=512; f32 | M=300 N=1000 K=777")
add("bench/programs/matmul_nt.tile:matmul_nt",
    "bf16 | M=16 N=8192 K=8192; bf16 | M=300 N=7168 K=7168; f16 | M=16384 N=4096 K=1024",
    "f32 | M=384 N=768 K=512")
add("bench/programs/matmul_tn.tile:matmul_tn", "bf16 | M=3072 N=3072 K=3072",
    "f32 | M=384 N=384 K=384")
add("bench/programs/bmm.tile:bmm",
    "bf16 | B=512 M=256 N=256 K=64; bf16 | B=64 M=130 N=70 K=500", "f32 | B=32 M=64 N=64 K=64")
add("bench/programs/matmul_f8.tile:matmul_f8", "f8e4m3 | M=4096 N=4096 K=4096")
add("examples/int4_matmul.tile:int4_matmul", "f16 | M=16 N=8192 K=8192; f16 | M=512 N=4096 K=4096")
add(f"{BLOCKS}:w8a8", "| M=4096 N=4096 K=4096; | M=64 N=4096 K=4096")
add(f"{BLOCKS}:fp8_blocks", "| M=2048 G=16 H=16")
add(f"{OWN}:grouped_rows", "bf16 | R=8192 E=8 K=2048 N=2048",
    by_hand="examples/grouped_matmul.tile:grouped_matmul")
add(f"{SURVEY}:matvec", "bf16 | M=16384 N=8192", "f32 | M=2048 N=2048")
add(f"{SURVEY}:vecmat", "bf16 | M=8192 N=16384", "f32 | M=2048 N=2048")

# ---- products with something behind ----

add("examples/linear.tile:linear",
    "bf16 | M=4096 N=4096 K=4096; bf16 | M=4000 N=4104 K=1024", "f32 | M=256 N=512 K=512")
add("bench/programs/gated.tile:gated", "bf16 | M=4096 N=4096 K=2048", "f32 | M=128 N=512 K=512")
add(f"{BLOCKS}:lora", "bf16 | M=4096 N=4096 K=4096 R=16")
add(f"{OWN}:linear_softmax", "bf16 | M=4096 N=1024 K=2048", "f32 | M=256 N=512 K=256")
add(f"{OWN}:linear_rms_norm", "bf16 | M=4096 N=4096 K=2048", "f32 | M=256 N=512 K=256")
add(f"{OWN}:linear_row_sums", "bf16 | M=8192 N=4096 K=1024")
add(f"{OWN}:linear_cross_entropy", "bf16 | M=2048 V=32000 K=1024")

# ---- rows, columns, the middle ----

add(f"{SURVEY}:softmax_rows",
    "bf16 | M=8192 N=4096; bf16 | M=65536 N=1000; f32 | M=2048 N=50257; f32 | M=500000 N=100",
    "f32 | M=1024 N=1024; f32 | M=64 N=20001")
add(f"{SURVEY}:softmax_middle", "bf16 | A=64 M=256 N=4096", "f32 | A=8 M=64 N=1024")
add(f"{SURVEY}:layer_norm_rows", "bf16 | M=16384 N=4096; bf16 | M=65536 N=1000",
    "f32 | M=1024 N=1024")
add(f"{SURVEY}:residual_rms_norm", "bf16 | M=8192 N=4096; bf16 | M=4096 N=8192",
    "f32 | M=1024 N=1000")
add(f"{SURVEY}:sum_rows", "f32 | M=16384 N=4096; f32 | M=32 N=2097152", "f32 | M=1024 N=4096")
add(f"{SURVEY}:sum_columns", "f32 | M=16384 N=4096; bf16 | M=2097152 N=32",
    "f32 | M=4096 N=1024; f32 | M=100000 N=33")
add(f"{SURVEY}:var_columns", "f32 | M=16384 N=4096", "f32 | M=4096 N=1000")
add(f"{SURVEY}:max_middle", "bf16 | A=64 M=256 N=4096", "f32 | A=16 M=256 N=512")
add(f"{SURVEY}:argmax_rows", "f32 | M=4096 N=50257", "f32 | M=1024 N=4096")
add(f"{SURVEY}:batch_norm_last", "bf16 | M=200704 C=256", "f32 | M=20000 C=64")
add(f"{SURVEY}:group_norm_last", "bf16 | B=16 L=4096 C=512", "f32 | B=2 L=1024 C=128")
add(f"{SURVEY}:instance_norm_first", "bf16 | B=32 C=256 S=3136", "f32 | B=4 C=64 S=3136")
add(f"{SURVEY}:cross_entropy_rows", "bf16 | M=8192 N=32000", "f32 | M=256 N=8000")
add(f"{SURVEY}:cross_entropy_gradient", "bf16 | M=4096 N=32000", "f32 | M=256 N=8000")
add(f"{OWN}:quantize_blocks", "bf16 | M=16384 G=32")

# ---- scans and what is computed one by one ----

add(f"{SURVEY}:cumsum_rows", "f32 | M=16384 N=4096", "f32 | M=512 N=4096")
add(f"{SURVEY}:cumsum_columns", "f32 | M=16384 N=4096", "f32 | M=4096 N=512")
add(f"{SURVEY}:recurrence_middle", "f32 | B=8 L=4096 D=1024", "f32 | B=2 L=1024 D=256")
add(f"{SURVEY}:gelu_all", "bf16 | N=67108864", "f32 | N=1000000")
add(f"{SURVEY}:swiglu_rows", "bf16 | M=8192 N=14336", "f32 | M=256 N=4096")
add(f"{SURVEY}:rotary_heads", "bf16 | B=2 S=4096 H=32 D=128", "f32 | B=1 S=512 H=8 D=64")
add(f"{SURVEY}:adam_step", "| N=33554432", "| N=1000000")

# ---- views and gathers ----

add("examples/transpose.tile:transpose", "f32 | M=8192 N=8192; bf16 | M=15001 N=9003",
    "f32 | M=2048 N=2048")
add(f"{SURVEY}:permute_0213", "bf16 | A=8 B=2048 C=32 D=128", "f32 | A=2 B=256 C=8 D=64")
add(f"{SURVEY}:permute_021", "bf16 | A=64 B=1024 C=1024", "f32 | A=8 B=300 C=500")
add(f"{SURVEY}:gather_rows", "f32 | V=100000 D=128 N=524288", "f32 | V=10000 D=64 N=20000")

# ---- windows ----

add(f"{CONVOLUTIONS}:conv_last",
    "bf16 pad=1 | B=32 H=56 W=56 C=128 O=128 R=3 S=3; bf16 | B=32 H=56 W=56 C=256 O=64 R=1 S=1;"
    "bf16 stride=2 pad=1 | B=16 H=57 W=55 C=96 O=200 R=3 S=3",
    "f32 pad=1 | B=1 H=28 W=28 C=64 O=64 R=3 S=3")
add(f"{CONVOLUTIONS}:conv_planes", "bf16 pad=1 | B=32 C=128 H=28 W=28 O=128 R=3 S=3",
    "f32 pad=1 | B=1 C=32 H=28 W=28 O=32 R=3 S=3")
add(f"{CONVOLUTIONS}:conv_depth", "bf16 pad=3 | B=32 H=56 W=56 C=96 R=7 S=7",
    "f32 pad=1 | B=2 H=56 W=56 C=64 R=3 S=3")
add(f"{CONVOLUTIONS}:conv_planes_depth", "bf16 pad=1 | B=32 C=144 H=56 W=56 R=3 S=3",
    "f32 pad=1 | B=2 C=64 H=56 W=56 R=3 S=3")
add("bench/programs/max_pool.tile:max_pool", "f32 | B=64 C=64 H=112 W=112",
    "f32 | B=4 C=16 H=112 W=112")
add(f"{SURVEY}:average_pool_first", "bf16 | B=32 C=64 H=112 W=112", "f32 | B=4 C=16 H=56 W=56")
add(f"{OWN}:conv_group_norm", "bf16 | B=16 H=32 W=32 C=128 O=128", "f32 | B=1 H=16 W=16 C=32 O=32")
add(f"{OWN}:conv_relu_pool", "bf16 | B=32 H=56 W=56 C=64 O=64", "f32 | B=1 H=28 W=28 C=32 O=32")

# ---- attention ----

add(f"{ATTENTION}:plain", "bf16 | B=4 H=16 S=2048 L=2048 D=128", "f32 | B=1 H=4 S=256 L=256 D=64",
    by_hand=f"{ATTENTION}:plain_by_hand")
add(f"{ATTENTION}:causal", "bf16 | B=4 H=16 S=4096 D=64; bf16 | B=2 H=32 S=3000 D=128",
    "f32 | B=1 H=4 S=300 D=64", by_hand=f"{ATTENTION}:causal_by_hand")
add(f"{ATTENTION}:softcap", "bf16 | B=4 H=16 S=2048 D=64", "f32 | B=1 H=4 S=256 D=64",
    numbers=[("cap", 30.0)])
add(f"{ATTENTION}:alibi", "bf16 | B=4 H=16 S=2048 D=128", "f32 | B=1 H=4 S=256 D=64")
add(f"{OWN}:decode", "bf16 | B=16 G=8 R=4 L=8192 D=128", "f32 | B=2 G=2 R=4 L=2048 D=64",
    by_hand="examples/attention_decode.tile:attention_decode", numbers=[("scale", 0.125)])
add(f"{BLOCKS}:linear_attention", "bf16 | B=64 S=4096 L=4096 D=64", "f32 | B=4 S=256 L=256 D=32")


def of_device(device):
    return [w for w in WORKLOADS if w.device == ("cpu" if device == "cpu" else "gpu")]


def by_name(name, device):
    return next((w for w in of_device(device) if w.name == name), None)
