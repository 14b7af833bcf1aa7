#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu.py --tessera PROGRAM: ours beside the vendor's libraries, in one process, on one card.

Every answer is compared with a reference before it is timed. Prints a table in Markdown, and one
line of JSON a row into --json.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import torch

from ours import Library
from peers import SUITE
from timing import compare

ROOT = pathlib.Path(__file__).resolve().parents[1]


def relative_error(ours, reference):
    difference = (ours.float() - reference.float()).norm()
    return float(difference / reference.float().norm())


def measure(library, examples, name, rounds):
    """The row of one workload: a dictionary."""
    load = SUITE[name]()
    row = {"name": name, "workload": load.label, "unit": load.unit, "peers": {}}
    competitors = dict(load.peers)
    try:
        begin = time.perf_counter()
        kernel = library.compile(examples / f"{load.program}.tile", load.consts, load.inputs,
                                 load.result)
        load.result.fill_(float("nan"))
        launch = kernel.prepare()
        launch()
        torch.cuda.synchronize()
        row["compile_seconds"] = time.perf_counter() - begin
        row["error"] = relative_error(load.result, load.reference())
        row["right"] = row["error"] <= load.tolerance
        if row["right"]:
            competitors["ours"] = launch
    except RuntimeError as problem:
        row["problem"] = str(problem).split("\n")[0]
    for peer, timed in compare(competitors, rounds).items():
        entry = {"rate": load.work / timed.seconds / 1e12, "seconds": timed.seconds,
                 "spread": timed.spread}
        if peer == "ours":
            row["ours"] = entry
        else:
            row["peers"][peer] = entry
    return row


def show(row):
    """A row of the table: ours, then each peer with its rate and ours over it."""
    ours = row.get("ours")
    if ours:
        first = f"{ours['rate']:.4g} (±{ours['spread'] * 50:.1f} %)"
    else:
        first = row.get("problem") or f"wrong: relative error {row['error']:.2g}"
    cells = []
    for peer, entry in row["peers"].items():
        ratio = f", ×{ours['rate'] / entry['rate']:.2f}" if ours else ""
        cells.append(f"{peer} {entry['rate']:.4g}{ratio}")
    error = f"{row['error']:.1e}" if "error" in row else "–"
    return f"| {row['workload']} | {row['unit']} | {first} | {' · '.join(cells)} | {error} |"


def describe():
    """The card, its driver and its limits, in one line."""
    fields = "name,driver_version,power.limit,clocks.max.sm,clocks.max.mem"
    try:
        return subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return torch.cuda.get_device_name()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera")
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "examples")
    parser.add_argument("--only", default="", help="a pattern of names: " + " ".join(SUITE))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    library = Library(options.tessera.resolve().parents[1] / "lib" / "libtessera.so")
    torch.manual_seed(1)
    print(f"{describe()}; torch {torch.__version__}, CUDA {torch.version.cuda},"
          f" cuDNN {torch.backends.cudnn.version()}; median of {options.rounds} rested bursts\n")
    print("| workload | unit | ours (half spread) | peers, ours over each | relative error |")
    print("|---|---|---|---|---|", flush=True)
    missed = 0
    for name in SUITE:
        if not re.search(options.only, name):
            continue
        row = measure(library, options.examples, name, options.rounds)
        missed += "ours" not in row
        print(show(row), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
        torch.cuda.empty_cache()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
