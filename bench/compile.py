#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile.py --tessera PROGRAM: how long a process takes from source to PTX, and how much memory
a run on the CPU takes beyond its arrays. Prints tables in Markdown."""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = {"add": [], "softmax": ["T=bf16"], "linear": ["T=bf16"],
            "attention": ["T=bf16", "D=128", "causal=true"]}


def run(command):
    """(seconds, most resident bytes) of one process."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"exit {child.returncode}: {' '.join(command)}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def compile_times(tessera, examples, target, kind, times):
    print(f"\nsource to {kind} for {target}, median of {times} processes\n")
    print("| program | ms |\n|---|---|")
    for program, sets in PROGRAMS.items():
        command = [tessera, "compile", str(examples / f"{program}.tile"), "--target", target,
                   "--emit", kind, "-o", "-"]
        for binding in sets:
            command += ["--set", binding]
        seconds = statistics.median(run(command)[0] for _ in range(times))
        print(f"| {program} | {seconds * 1e3:.1f} |", flush=True)


def memory_of_run(tessera, examples):
    with tempfile.TemporaryDirectory() as folder:
        x = np.ones((64, 1024), dtype=np.float32)
        np.save(f"{folder}/x.npy", x)
        command = [tessera, "run", str(examples / "softmax.tile"), f"x={folder}/x.npy", "--device",
                   "cpu", "-o", f"{folder}/y.npy"]
        seconds, peak = run(command)
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
