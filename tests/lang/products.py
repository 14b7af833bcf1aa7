# SPDX-License-Identifier: Apache-2.0
"""References of inputs/products.tile."""

import numpy as np

from lang import kernel

# Of results that are rounded to 16 bits: a unit in their last place.
BF16, F16 = 2**-8, 2**-10
# Of a product of two sums in f32: one is off by some units of 2^-20 where it has 200 terms, and the
# other, which it is multiplied by, is up to 60.
TWO_SUMS = 64 * 2**-20
SIZES = [dict(M=19, K=35, N=18), dict(M=130, K=67, N=259), dict(M=1, K=1, N=1),
         dict(M=64, K=72, N=33), dict(M=3, K=0, N=5)]
BATCHES = [dict(size, B=3) for size in SIZES[:2]] + [dict(M=5, K=9, N=7, B=0)]


@kernel(a="bf16[M, K]", b="bf16[K, N]", set="T=bf16", tolerance=BF16, sizes=SIZES)
def nn(a, b):
    return a @ b


@kernel(a="f16[M, K]", b="f16[N, K]", set="T=f16", sizes=SIZES)
def nt(a, b):
    return a @ b.T


@kernel(a="bf16[K, M]", b="bf16[K, N]", set="T=bf16", tolerance=BF16, sizes=SIZES)
def tn(a, b):
    return a.T @ b


@kernel(a="f16[K, M]", b="f16[N, K]", set="T=f16", tolerance=F16, sizes=SIZES)
def tt(a, b):
    return a.T @ b.T


@kernel(a="bf16[B, M, K]", b="bf16[B, K, N]", set="T=bf16", tolerance=BF16, sizes=BATCHES)
def batches(a, b):
    return a @ b


@kernel(a="bf16[B, M, K]", b="bf16[K, N]", set="T=bf16", tolerance=BF16, sizes=BATCHES)
def shared(a, b):
    return a @ b


@kernel(a="bf16[M, K]", set="T=bf16", tolerance=BF16, sizes=[dict(M=19, K=35), dict(M=130, K=67)])
def gram(a):
    return a @ a.T


# The last two: operands that the copy engine brings.
@kernel(a="bf16[M, K]", b="bf16[K, N]", c="bf16[K, N]", set="T=bf16", tolerance=TWO_SUMS,
        sizes=SIZES[:3] + [dict(M=130, K=200, N=264), dict(M=300, K=64, N=8)])
def gated(a, b, c):
    return (a @ b) * (a @ c)


@kernel(a="f16[M, K]", b="f16[K, N]", set="T=f16", tolerance=F16, sizes=SIZES[:2])
def normed(a, b):
    return np.float16(a / np.abs(a).max(axis=1, keepdims=True)) @ b
