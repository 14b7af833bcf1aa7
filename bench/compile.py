#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile.py --tessera PROGRAM: how long a process takes from source to code, what its parts
take, and how much memory a run on the CPU takes beyond its arrays. Prints tables in Markdown."""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = [("add", []), ("softmax", ["--set", "T=bf16"]), ("linear", ["--set", "T=bf16"]),
            ("linear", ["--set", "T=bf16", "--size", "M=8192,N=8192,K=8192"]),
            ("attention", ["--set", "T=bf16,D=128,causal=true"])]
PARTS = ["front end", "passes", "emission", "LLVM middle", "LLVM back"]


def run(command, said=subprocess.DEVNULL):
    """(seconds, seconds of CPU, most resident bytes) of one process."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"exit {child.returncode}: {' '.join(command)}")
    cpu = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begin, cpu, usage.ru_maxrss * 1024


def part_of(row):
    """Which of PARTS a row of --time-passes belongs to."""
    parts = {"frontend": 0, "emit": 2, "llvm-verify": 3, "llvm-middle": 3, "llvm-back": 4}
    return parts.get(row, 1)


def split(command):
    """Milliseconds of each part of one compilation."""
    sums = [0.0] * len(PARTS)
    with tempfile.TemporaryFile("w+") as said:
        run(command + ["--time-passes"], said)
        said.seek(0)
        for line in said:
            name, ms, unit = line.split()
            assert unit == "ms", line
            sums[part_of(name)] += float(ms)
    return sums


def compile_times(tessera, examples, target, kind, times):
    print(f"\nsource to {kind} for {target}, ms, medians of {times} processes\n")
    print("| program | wall | CPU | " + " | ".join(PARTS) + " |")
    print("|---" * (3 + len(PARTS)) + "|")
    for program, more in PROGRAMS:
        command = [tessera, "compile", str(examples / f"{program}.tile"), "--target", target,
                   "--emit", kind, "-o", "-"] + more
        name = f"{program}, sizes given" if "--size" in more else program
        runs = [run(command) for _ in range(times)]
        parts = [split(command) for _ in range(times)]
        cells = [statistics.median(r[n] for r in runs) * 1e3 for n in range(2)]
        cells += [statistics.median(p[n] for p in parts) for n in range(len(PARTS))]
        print(f"| {name} | " + " | ".join(f"{c:.1f}" for c in cells) + " |", flush=True)


def memory_of_run(tessera, examples):
    with tempfile.TemporaryDirectory() as folder:
        x = np.ones((64, 1024), dtype=np.float32)
        np.save(f"{folder}/x.npy", x)
        command = [tessera, "run", str(examples / "softmax.tile"), f"x={folder}/x.npy", "--device",
                   "cpu", "-o", f"{folder}/y.npy"]
        seconds, _, peak = run(command)
    print(f"\n`tessera run` on the CPU, softmax f32 64×1024: {seconds * 1e3:.0f} ms,"
          f" {(peak - 2 * x.nbytes) / 2**20:.0f} MiB beyond the arrays")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", default=str(ROOT / "bin" / "tessera"))
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "examples")
    parser.add_argument("--times", type=int, default=11)
    options = parser.parse_args()
    compile_times(options.tessera, options.examples, "sm_90a", "ptx", options.times)
    compile_times(options.tessera, options.examples, "native", "obj", options.times)
    memory_of_run(options.tessera, options.examples)


if __name__ == "__main__":
    main()
