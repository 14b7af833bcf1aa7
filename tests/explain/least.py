#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""least.py TESSERA: what `explain` says does not contradict itself, over programs and targets: what
is expected takes at least the least time, and a loop of data says so."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = [
    ("examples/add.tile", ["--size", "N=64M"]),
    ("examples/add.tile", ["--size", "N=1000"]),
    ("examples/softmax.tile", ["--set", "T=bf16", "--size", "M=8192,N=4096"]),
    ("examples/softmax.tile", ["--set", "T=f32", "--size", "M=3,N=100000"]),
    ("examples/linear.tile", ["--set", "T=bf16", "--size", "M=4096,N=4096,K=4096"]),
    ("examples/linear.tile", ["--set", "T=bf16", "--size", "M=64,N=64,K=1M"]),
    ("examples/attention.tile", ["--set", "T=bf16,causal=true,D=128",
                                 "--size", "B=1,H=8,S=2k,L=2k"]),
    ("examples/scatter_add.tile", ["--size", "N=100k,D=64,V=1000"]),
]
TARGETS = ["sm_90a", "gfx942"]


def check(tessera, source, arguments, target):
    done = subprocess.run([tessera, "explain", ROOT / source, *arguments, "--target", target,
                           "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return 0
    for launch in json.loads(done.stdout)["launches"]:
        roof = launch.get("roofline", launch)
        least = max(roof.get("memory_seconds", 0), roof.get("compute_seconds", 0))
        expected = launch.get("predicted_seconds")
        assert expected is None or expected >= 0.999 * least, (source, target, expected, least)
        assert launch["uncertain"] or not launch["trip_count_is_data"], (source, target)
    return 1


def main():
    done = sum(check(sys.argv[1], source, arguments, target)
               for source, arguments in PROGRAMS for target in TARGETS)
    assert done >= len(TARGETS) * 5, done


main()
