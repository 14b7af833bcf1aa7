# SPDX-License-Identifier: Apache-2.0
"""Every elementwise op on every element type goes through every GPU back end: LLVM ends the process
on an instruction that it cannot select, so this finds what a target must not receive.

    ops.py --emit TOOL --target NAME --kind ptx [--emulator TOOL]

With --emulator, for AMD: all that is made can be disassembled."""

import argparse
import os
import subprocess
import sys
import tempfile

FLOATS = ["f32", "f64"]
SIGNED = ["i4", "i8", "i16", "i32", "i64"]
INTEGERS = SIGNED + ["u4", "u8", "u16", "u32", "u64"]
NARROW = ["f16", "bf16"]
BITCASTS = {"f32": ["i32", "u32"], "f64": ["i64"], "f16": ["i16"], "bf16": ["u16"], "i32": ["f32"]}
FAST = ["log2", "tanh", "sin", "cos", "sqrt", "rsqrt", "reciprocal"]
ARITHMETIC = ["add", "sub", "mul", "div", "mod", "min", "max"]
PREDICATES = ["eq", "ne", "lt", "le", "gt", "ge"]


def operations(dtype):
    """(text of the op on %a and %b, element type of its result)"""
    found = []
    if dtype in FLOATS + INTEGERS:
        found += [(f"{op} %a, %b", dtype) for op in ARITHMETIC]
        found += [("neg %a", dtype)]
    if dtype in INTEGERS:
        found += [(f"{op} %a, %b", dtype) for op in ("shl", "shr")]
    if dtype in INTEGERS + ["bool"]:
        found += [(f"{op} %a, %b", dtype) for op in ("and", "or", "xor")] + [("not %a", dtype)]
    if dtype in FLOATS + SIGNED:
        found += [("abs %a", dtype)]
    if dtype in FLOATS:
        found += [(f"{op} %a", dtype) for op in ("sqrt", "floor", "ceil", "trunc", "rint")]
        found += [("fma %a, %b, %a", dtype), ("isnan %a", "bool")]
    if dtype == "f32":
        found += [("fast_exp2 %a", dtype)]
        found += [(f"fast_{fn} %a, %b", dtype) for fn in FAST]
    if dtype not in NARROW:
        found += [(f"cmp %a, %b pred={pred}", "bool") for pred in PREDICATES]
    casts = [to for to in FLOATS + INTEGERS + NARROW + ["bool"] if to != dtype]
    found += [("cast %a", to) for to in casts]
    return found + [("bitcast %a", to) for to in BITCASTS.get(dtype, [])]


def function(dtype):
    found = operations(dtype)
    lines = [f"func ops_{dtype} level staged padded {{", "size N"]
    lines += [f"in %{name}: tensor<{dtype}[N]>" for name in "xy"]
    lines += [f"out %o{i}: tensor<{to}[N]>" for i, (_, to) in enumerate(found)]
    lines += ["body {", "launch dims=[N] steps=[512] warps=[4] {", "(%n: range)"]
    lines += [f"%{name} = load %{tensor}[%n] guard=[1] : {dtype}[%n]"
              for name, tensor in ("ax", "by")]
    lines += [f"%v{i} = {text} : {to}[%n]" for i, (text, to) in enumerate(found)]
    lines += [f"store %o{i}[%n], %v{i} guard=[1]" for i in range(len(found))]
    return "\n".join(lines + ["}", "}", "}", ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--emit", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--emulator")
    options = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "code")
        for dtype in FLOATS + INTEGERS + NARROW + ["bool"]:
            done = subprocess.run(
                [options.emit, "--target", options.target, "--pass", "assign_layouts", "--pass",
                 "vectorize", "--emit", options.kind, "-o", code, "-"],
                input=function(dtype), capture_output=True, text=True)
            if not done.returncode and options.emulator:
                done = subprocess.run([options.emulator, "--decode", code], capture_output=True,
                                      text=True)
            if done.returncode:
                failed.append(f"{dtype}: exit {done.returncode}: {done.stderr[:500]}")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
