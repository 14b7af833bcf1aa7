# SPDX-License-Identifier: Apache-2.0
"""Kernels keep their values in registers: compiles programs for AMD and reads the kernels'
metadata.

    registers.py --tessera TOOL --programs FOLDER --examples FOLDER --target NAME

Checks of every kernel: no scratch memory, no vector or scalar register spilled, no hidden argument,
local memory within 64 KiB. Checks of products whose sizes are free: 16 bytes an access, from global
and from local memory; or copies from one to the other, of 4 bytes a lane on gfx942.
"""

import argparse
import concurrent.futures
import re
import subprocess
import sys

ZERO = ["private_segment_fixed_size", "vgpr_spill_count", "sgpr_spill_count"]
MAX_LOCAL = 65536
ODD = {"M": 131, "N": 67, "K": 61}
PRODUCTS = {"linear": "MNK", "gated": "MNK", "gram": "MK"}
ROWS = {"softmax": "MN", "layer_norm": "MN", "rms_norm": "MN"}
EXAMPLES = {"linear", "softmax", "attention"}


def sizes(axes):
    return ["--size", ",".join(f"{axis}={ODD[axis]}" for axis in axes)]


def cases():
    """(program, options, does it copy 16 bytes at a time?)"""
    for name, axes in PRODUCTS.items():
        for dtype in ["f32", "f16", "bf16"]:
            yield name, ["--set", f"T={dtype}"], True
            yield name, ["--set", f"T={dtype}"] + sizes(axes), False
    for name, axes in ROWS.items():
        yield name, ["--set", "T=bf16"], False
        yield name, ["--set", "T=bf16"] + sizes(axes), False
    for depth, dtype, causal in [(64, "bf16", "true"), (80, "bf16", "false"), (96, "f32", "true"),
                                 (128, "bf16", "true"), (256, "f16", "false")]:
        chosen = [f"T={dtype}", f"D={depth}", f"causal={causal}"]
        yield "attention", [word for one in chosen for word in ("--set", one)], True


def compile_asm(options, name, chosen):
    folder = options.examples if name in EXAMPLES else options.programs
    return subprocess.run([options.tessera, "compile", f"{folder}/{name}.tile", *chosen, "--target",
                           options.target, "--emit", "asm", "-o", "-"], capture_output=True,
                          text=True)


def faults(asm, wide):
    for key in ZERO:
        for value in re.findall(rf"\.{key}: +(\d+)", asm):
            if value != "0":
                yield f"{key} is {value}"
    for value in re.findall(r"\.group_segment_fixed_size: +(\d+)", asm):
        if int(value) > MAX_LOCAL:
            yield f"{value} bytes of local memory"
    if ".amdhsa_kernel" not in asm:
        yield "no kernel"
    if ".value_kind:     hidden" in asm:
        yield "hidden arguments"
    if wide and not re.search(r"global_load_(b128|dwordx4|lds_dword)", asm):
        yield "no load of 16 bytes from global memory"
    if wide and not re.search(r"ds_(read|load)(_b128|2?\w*_b64)", asm):
        yield "no load of 16 bytes, whole or in two halves, from local memory"


def check(options, case):
    name, chosen, wide = case
    made = compile_asm(options, name, chosen)
    found = list(faults(made.stdout, wide)) if made.returncode == 0 else [made.stderr.strip()]
    return [f"{options.target} {name} {' '.join(chosen)}: {fault}" for fault in found]


def main():
    parser = argparse.ArgumentParser()
    for option in ["tessera", "programs", "examples", "target"]:
        parser.add_argument("--" + option, required=True)
    options = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [fault for of_case in pool.map(lambda case: check(options, case), cases())
                 for fault in of_case]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
