#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the verifier says of programs that read values along several axes, after each pass. It must
say nothing; with a bug of mutants.py that is about axes, that some program's IR is invalid.

    axes.py --tessera PROGRAM
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases"
PROGRAMS = """
kernel largest(x: f32[M, K], w: f32[K, K]) -> f32[M, K] = x @ w - max(x, axis=1)
kernel running_beside(x: f32[M, K], w: f32[K, K]) -> f32[M, K] = x @ w + cumsum(x, axis=1)
kernel columns(x: f32[M, K], v: f32[M, 1]) -> f32[1, K] = sum(x * v, axis=0)
kernel turned(x: f32[K, K]) -> f32[K, K] = x * x.T
kernel norms(x: f32[M, K]) -> f32[M, K] = x / sqrt(sum(x * x, axis=1))
kernel running(x: f32[M, K]) -> f32[M, K] = cumsum(x, axis=1)
kernel cascade(q: f16[M, 64], k: f16[L, 64], v: f16[L, 64]) -> f16[M, 64] = softmax(q @ k.T) @ v
kernel product(x: f16[M, K], w: f16[K, N]) -> f32[M, N] = x @ w
"""
# Kernels, and what else the command says.
JOBS = [("gate_by_score", "sm_90a"), ("householder", "native"), ("two_results", "gfx942"),
        ("largest", "sm_90a"), ("running_beside", "native"), ("columns", "native"),
        ("turned", "native"), ("norms", "sm_90a"), ("norms", "sm_90a", "--size", "M=64,K=65536"),
        ("running", "native"), ("cascade", "sm_90a"), ("cascade", "native"),
        ("product", "sm_90a"), ("product", "sm_90a", "--size", "M=64,N=64,K=8192")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "axes.tile"
        source.write_text(PROGRAMS)
        for name, target, *words in JOBS:
            case = CASES / f"{name}.tile"
            kernel = case if case.exists() else f"{source}:{name}"
            done = subprocess.run([options.tessera, "compile", kernel, "--target", target,
                                   "--verify", "--stop-after", "vectorize", "--emit", "ir", "-o",
                                   "-", *words], capture_output=True, text=True)
            bad += "invalid IR" in done.stderr
            if done.returncode:
                print(f"{name} {target}: {done.stderr}")
            if done.returncode and "invalid IR" not in done.stderr:
                return 0  # another one has noticed, and not the verifier
    print(f"{len(JOBS) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
