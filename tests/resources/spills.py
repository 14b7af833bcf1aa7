#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spills.py --tessera PROGRAM [--target NAME]… [--only PATTERN] [--kernelbench FOLDER]
[--folder FOLDER]… [--part K/N]: which launches load or store spilled registers in a loop.

Compiles what resources.py compiles to machine code, as a user gets it: where the assembler spilled,
other tiles may have been tried. Needs ptxas and nvdisasm, but no GPU. Prints each launch that
loads or stores spilled registers in a loop, with the number of these accesses in its deepest loop
that has any, and ends with the share of such launches. It always exits with 0, since it measures.
It takes about half a second of a processor a launch."""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name)
                for name in ("calibration", "codegen/nvptx", "digests", "")]
import resources  # noqa: E402
import suite  # noqa: E402
from calibration import functions  # noqa: E402
from loops import loops_of  # noqa: E402
from tools import find_tool  # noqa: E402

TARGETS = ("sm_90a", "sm_80", "sm_100a")
SPILL = re.compile(r"\b(STL|LDL)(\.(?!LU)\w+)*\b")


def spilled(code, labels):
    """The spills of the deepest loop that has any: (depth, accesses); None: no loop has one."""
    loops = [set(loop) for loop in loops_of(code, labels)]
    at = [i for i, text in enumerate(code) if SPILL.search(text)]
    depths = collections.Counter(sum(i in loop for loop in loops) for i in at)
    deepest = max(depths, default=0)
    return (deepest, depths[deepest]) if deepest else None


def attempt(options, job):
    """[(symbol, spills or None)] of the launches; none if the target refuses the program."""
    (name, source, sets, sizes), target = job
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/a.cubin"
        command = [options.tessera, "compile", source, "--target", target, "--emit", "cubin",
                   "-o", cubin, "--no-pins", "--timeout", "0"]
        command += (["--set", sets] if sets else []) + (["--size", sizes] if sizes else [])
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            return job, []
        sass = subprocess.run([options.nvdisasm, "-c", cubin], capture_output=True, text=True)
    return job, [(symbol, spilled(code, labels)) for symbol, code, labels in functions(sass.stdout)]


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--kernelbench", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, action="append", default=[])
    options = suite.options_of(parser)
    options.root, options.nvdisasm = ROOT, find_tool("nvdisasm", "NVDISASM")
    if not options.nvdisasm:
        sys.exit("there is no nvdisasm")
    os.environ["TESSERA_CACHE"] = "off"
    count, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        found = list(resources.programs(options, pathlib.Path(folder)))
        jobs = list(suite.part_of(options, ((program, target) for program in found
                                            for target in options.target or TARGETS)))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for job, launches in pool.map(lambda job: attempt(options, job), jobs):
                count += len(launches)
                for symbol, spills in launches:
                    if spills:
                        bad += 1
                        (name, _, sets, sizes), target = job
                        print(f"{target} {name} {symbol} {sets} {sizes}: {spills[1]} accesses in "
                              f"a loop of depth {spills[0]}", flush=True)
    print(f"{bad} of {count} launches spill in a loop ({100 * bad / max(1, count):.2f} %)")


if __name__ == "__main__":
    main()
