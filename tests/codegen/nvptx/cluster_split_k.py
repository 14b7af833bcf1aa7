#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products whose shares of k are a cluster's, executed by the emulator of PTX and compared with
NumPy: all units and ways of copying, tiles with ends along each axis, shares that are empty, what
is done with the product. Operands are small integers, so that every sum is exact.

    cluster_split_k.py --tessera PROGRAM --emulator PROGRAM [--every N]
"""

import pathlib
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(TESTS / "codegen" / "emulator"), str(TESTS)]
import launcher  # noqa: E402
import suite  # noqa: E402

SMALL = ("tile M 64", "tile N 64")
# With a row that is added, and a maximum behind it.
SOURCE = """kernel product(a: {T}[M, K], b: {B}[N, K], c: f32[N]) -> f32[M, N] =
    max(f32({W}(a) @ {W}(b).T) + c, 0)
"""
WIDE = {"i8": "i32", "f64": "f64"}  # what is summed


@dataclass
class Case:
    dtype: str
    sizes: tuple  # M, N, K
    blocks: int
    lines: tuple = SMALL
    right: str = ""  # the right operand's type, if it is another


CASES = [
    Case("f16", (64, 64, 512), 4),
    Case("bf16", (70, 72, 520), 4),
    Case("f16", (3, 65, 130), 2),
    Case("f16", (64, 80, 200), 8),  # more blocks than steps: some shares are empty
    Case("bf16", (60, 136, 512), 8, ("tile M 64", "tile N 128")),
    Case("f16", (130, 64, 256), 2, ("tile M 128", "tile N 64")),
    Case("f16", (70, 64, 136), 4, (*SMALL, "instruction mma")),
    Case("f16", (30, 64, 72), 4, (*SMALL, "instruction fma")),
    Case("f16", (70, 65, 140), 2, (*SMALL, "copy registers")),
    Case("f32", (40, 72, 60), 4),
    Case("i8", (64, 64, 512), 4),
    Case("f64", (40, 64, 66), 2),
    Case("bf16", (13, 144, 141), 8, ()),  # parts that divide the columns, and lie past their end
    Case("bf16", (20, 300, 512), 4, (), "i4"),
]


def attempt(options, case):
    rng = np.random.default_rng(1)
    m, n, k = case.sizes
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float64) for rows in (m, n))
    c = rng.integers(-9, 10, n).astype(np.float64)
    lines = (f"split_k {case.blocks}", f"cluster {case.blocks}", *case.lines)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "product.tile"
        source.write_text(SOURCE.format(T=case.dtype, B=case.right or case.dtype,
                                        W=WIDE.get(case.dtype, "f32")))
        words = [word for line in lines for word in ("--schedule", line)]
        try:
            code, plan = launcher.Compiler(options.tessera, folder).compile(
                source, "sm_90a", ["--size", f"M={m},N={n},K={k}", *words])
            if [launch["cluster"] for launch in plan["launches"]] != [case.blocks]:
                return "it is not one launch of clusters"
            answer = next(iter(launcher.emulate(options.emulator, code, plan,
                                                {"a": a, "b": b, "c": c}, folder).values()))
        except launcher.Failure as failure:
            return str(failure)[:500]
    return None if np.array_equal(answer, np.maximum(a @ b.T + c, 0)) else "the answer is wrong"


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--every", type=int, default=1, help="one of so many cases")
    options = suite.options_of(parser)
    return suite.run(options, CASES[::options.every], lambda case: attempt(options, case),
                     lambda case: f"{case.dtype} {case.sizes} in {case.blocks} {case.lines}")


if __name__ == "__main__":
    sys.exit(main())
