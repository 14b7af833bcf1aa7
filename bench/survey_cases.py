# SPDX-License-Identifier: Apache-2.0
"""The cases of survey.py: kernels of programs/survey.tile, their sizes, and torch's versions."""

from dataclasses import dataclass

import torch

from workload import DTYPES

BOTH, WIDE, NARROW = ("f32", "bf16"), ("f32",), ("bf16",)


@dataclass
class Case:
    kernel: str
    sizes: list  # what `inputs` is called with, after the type
    inputs: object  # (make, *size) → {parameter: array}
    peer: object  # torch's version: (**inputs) → array, or {result: array}
    types: tuple = BOTH
    small: tuple = ()  # sizes for the CPU
    consts: object = None  # (*size) → {const parameter: value}
    flops: object = None  # (*size) → floating-point operations, where those bound it
    exact: bool = False
    made: object = None  # what ours writes if it is not in the form of torch's result
    library: object = None  # what is timed, where `peer` is no fair competitor
    program: str = "survey"  # in programs/
    exact_in: object = torch.float64  # what torch's answer to inputs of 16 bits is made in


class Make:
    """Arrays of a type on a device."""

    def __init__(self, dtype, device):
        self.dtype, self.device = DTYPES[dtype], device

    def __call__(self, *shape, dtype=None):
        kind = DTYPES[dtype] if dtype else self.dtype
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(kind)

    def at(self, limit, *shape, dtype=torch.int64):
        return torch.randint(limit, shape, device=self.device, dtype=dtype)


def wide(x, narrow=torch.float64):
    """In f64, or what is of 16 bits in `narrow`."""
    if not x.is_floating_point():
        return x
    return x.to(narrow if x.dtype.itemsize == 2 else torch.float64)


def x_of(*shape_names):
    """Inputs of one array x of all sizes."""
    return lambda make, *size: {"x": make(*size)}


FLAT = [(2**26,), (2**16,)]
ROWS = [(16384, 4096), (1000000, 33), (2000000, 7), (500000, 100), (32, 2**21), (3000, 20000)]
COLUMNS = [(16384, 4096), (2**21, 32), (300, 200000), (4096, 1000), (1000000, 33)]
MIDDLE = [(64, 256, 4096), (4096, 256, 64), (64, 16384, 64), (2**18, 7, 33)]
CASES = []


def add(*args, **named):
    CASES.append(Case(*args, **named))


def one(kernel, sizes, peer, small, **named):
    """A case of one input, x."""
    add(kernel, sizes, lambda make, *s: {"x": make(*s)}, peer, small=small, **named)


def two(kernel, sizes, peer, small, **named):
    add(kernel, sizes, lambda make, *s: {"x": make(*s), "y": make(*s)}, peer, small=small, **named)


F32 = torch.float32


def sum_of(x, axis):
    return torch.sum(x, axis, dtype=x.dtype if x.dtype == torch.float64 else F32)


def to_f32(x):
    return x if x.dtype == torch.float64 else x.float()
