# SPDX-License-Identifier: Apache-2.0
"""What LLVM 22.1.8 gets wrong on AMD does not reach its back end, on any target and at any level.

    miscompiled.py --tessera PROGRAM FILE.tile

An `or` of 64 bits whose right side is an inverted narrow value is split into words
(codegen/amdgcn/amdgcn_workarounds.c); sums of products of bytes become no v_dot4.
"""

import argparse
import concurrent.futures
import re
import subprocess
import sys

TARGETS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]


def compiled(options, kernel, target, level, kind):
    return subprocess.run([options.tessera, "compile", f"{options.source}:{kernel}", "--target",
                           target, "--optimize", str(level), "--emit", kind, "-o", "-"],
                          capture_output=True, text=True, check=True).stdout


def faults(options, target, level):
    llvm = compiled(options, "inverted", target, level, "llvm")
    if re.search(r"= or (disjoint )?i64", llvm):
        yield "an `or` of 64 bits is whole"
    if "<2 x i32> splat (i32 -1)" not in llvm:
        yield "no high word of ones"
    if not re.search(r"_mov_b\w+ \S+, -1$", compiled(options, "inverted", target, level, "asm"),
                     re.MULTILINE):
        yield "no high word of ones in the machine code"
    if "v_dot" in compiled(options, "products", target, level, "asm"):
        yield "sums of products of bytes are a v_dot"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    parser.add_argument("source")
    options = parser.parse_args()
    cases = [(target, level) for target in TARGETS for level in range(4)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: list(faults(options, *case)), cases))
    problems = [f"{target} at level {level}: {problem}"
                for (target, level), some in zip(cases, found) for problem in some]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
