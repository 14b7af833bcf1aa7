# SPDX-License-Identifier: Apache-2.0
"""Every example becomes machine code, for each target, with nothing but its source known, and keeps
its values in registers.

    examples.py --tessera PROGRAM --examples FOLDER --target NAME… [--emulator TOOL]
                [--some N]

A program that is generic has another element type for each next target. NVIDIA: the assembler tells
of no stack and no spill, and warns of nothing. AMD, in the metadata of the code object: no scratch
memory, no vector register spilled, hidden arguments for persistent launches alone; version 5; the
block, its arguments and where they lie are those of the launch description, and local memory fits;
all of its code can be disassembled (--emulator). --some: each on N of the targets, in turn.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "nvptx"))
from tools import find_tool  # noqa: E402

BOUND = {"attention": ["causal=true", "D=64"],
         "attention_backward": ["causal=true", "D=64"],
         "attention_decode": ["D=64"],
         "attention_grouped": ["causal=true", "D=64"],
         "attention_packed": ["D=64"],
         "attention_paged": ["D=64", "R=64"],
         "attention_paged_decode": ["D=64", "R=64"],
         "attention_window": ["D=64"]}  # what has no default
TYPES = ["bf16", "f32", "f16"]
ZERO = ["private_segment_fixed_size", "vgpr_spill_count"]
WAVE = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
LOCAL = {"gfx950": 163840}  # bytes of a block; others: 65536


def compile_one(options, source, dtype, target, kind, path):
    """None, or what is wrong."""
    command = [options.tessera, "compile", str(source), "--target", target, "--emit", kind,
               "-o", path]
    command += ["--set", f"T={dtype}"] if "where T: " in source.read_text() else []
    command += [word for value in BOUND.get(source.stem, []) for word in ("--set", value)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip()[:500] if done.returncode else None


def nvidia(options, source, dtype, target, path):
    problem = compile_one(options, source, dtype, target, "ptx", path)
    if problem:
        return [problem]
    done = subprocess.run([options.ptxas, "-v", "-lineinfo", f"-arch={target}", "-o",
                           path + ".cubin", path], capture_output=True, text=True)
    if done.returncode:
        return [done.stderr[:500]]
    found = [line.strip() for line in done.stderr.splitlines()
             if re.search(r"[1-9]\d* bytes (stack frame|spill)", line)]
    if not re.search(r"bytes spill", done.stderr):
        found.append("the assembler tells of no kernel")
    return found + re.findall(r".*warning.*", done.stderr)


def one(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def kernel_faults(target, launch, notes):
    for key in ZERO:
        if one(rf"\.{key}: +(\d+)", notes) != 0:
            yield f"{key} is {one(rf'.{key}: +([0-9]+)', notes)}"
    if ("hidden_block_count_x" in notes) != launch["persistent"]:
        yield "hidden arguments but where blocks walk, or none there"
    block = re.search(r"\.reqd_workgroup_size:\s+- (\d+)\s+- (\d+)\s+- (\d+)", notes)
    if not block or [int(n) for n in block.groups()] != [launch["threads"], 1, 1]:
        yield f"blocks of {block and block.groups()}, described as {launch['threads']}"
    if one(r"\.max_flat_workgroup_size: (\d+)", notes) != launch["threads"]:
        yield "more threads a block than there are"
    if one(r"\.wavefront_size: +(\d+)", notes) != WAVE[target]:
        yield "another width of waves"
    if one(r"\.group_segment_fixed_size: (\d+)", notes) > LOCAL.get(target, 65536):
        yield "more local memory than there is"
    listed = re.findall(r"\.offset: +(\d+)\s+\.size: +(\d+)", notes)
    described = [(str(arg["offset"]), str(arg["bytes"])) for arg in launch["args"]]
    if (listed[:len(described)] if launch["persistent"] else listed) != described:
        yield f"arguments at {listed}, described at {described}"
    if described and one(r"\.kernarg_segment_size: (\d+)", notes) < sum(map(int, described[-1])):
        yield "arguments lie past their segment"


def amd(options, source, dtype, target, path):
    problem = (compile_one(options, source, dtype, target, "hsaco", path) or
               compile_one(options, source, dtype, target, "launch", path + ".json"))
    if problem:
        return [problem]
    decoded = subprocess.run([options.emulator, "--decode", path], capture_output=True, text=True)
    if decoded.returncode:
        return [decoded.stderr]
    notes = subprocess.run([options.readobj, "--notes", "--file-header", path], capture_output=True,
                           text=True).stdout
    launches = json.loads(pathlib.Path(path + ".json").read_text())["launches"]
    kernels = re.split(r"\n  - (?=\.a)", notes)[1:]
    by_name = {re.search(r"\.name: +(\S+)", kernel)[1]: kernel for kernel in kernels}
    found = [] if "ABIVersion: 3" in notes else ["not version 5 of code objects"]
    if sorted(by_name) != sorted(launch["symbol"] for launch in launches):
        return found + [f"kernels {sorted(by_name)} are not those described"]
    return found + [f"{launch['symbol']}: {fault}" for launch in launches
                    for fault in kernel_faults(target, launch, by_name[launch["symbol"]])]


def check(options, folder, source, at):
    target, dtype = options.targets[at], TYPES[at % len(TYPES)]
    path = os.path.join(folder, f"{source.stem}.{target}")
    way = amd if target.startswith("gfx") else nvidia
    return [f"{source.stem}, {target}, {dtype}: {problem}"
            for problem in way(options, source, dtype, target, path)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--examples", required=True, type=pathlib.Path)
    parser.add_argument("--target", dest="targets", action="append", required=True)
    parser.add_argument("--some", type=int, default=0)
    parser.add_argument("--emulator", help="tessera-amdgcn, for AMD")
    options = parser.parse_args()
    options.ptxas = find_tool("ptxas", "TESSERA_PTXAS")
    options.readobj = shutil.which("llvm-readobj-22") or "llvm-readobj"
    n = len(options.targets)
    jobs = [(source, at) for i, source in enumerate(sorted(options.examples.glob("*.tile")))
            for at in range(n) if not options.some or (at - i * options.some) % n < options.some]
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda job: check(options, folder, *job), jobs))
    problems = [problem for some in found for problem in some]
    print(f"{len(jobs)} compiled")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
