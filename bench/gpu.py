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

import fused
import memory
import ours
import products
import survey
import verdict
from timing import compare

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUITE = memory.SUITE | products.SUITE | fused.SUITE | survey.SUITE


def relative_error(result, reference):
    """Of the norm of the difference; of integers, 0 or 1."""
    if not result.is_floating_point():
        return float(not torch.equal(result, reference.to(result.dtype)))
    reference = reference.double() if reference.dtype == torch.float64 else reference.float()
    return float((result.to(reference.dtype) - reference).norm() / reference.norm())


def worst_error(load):
    reference = load.reference()
    if not isinstance(reference, dict):
        reference = {"": reference}
    return max(relative_error(result, reference[name])
               for name, result in load.results().items())


def poison(tensor):
    tensor.fill_(float("nan") if tensor.is_floating_point() else -7)


def best_peer(row):
    return max((e["rate"] for n, e in row["peers"].items() if n != "copy"), default=0)


def judge(load, row):
    """{goal: [ratio, least]} of a row that was timed."""
    found = {}
    for goal, least in load.goals.items():
        peer = best_peer(row) if goal == "best" else row["peers"][goal]["rate"]
        found[goal] = [row["ours"]["rate"] / peer, least]
    return found


def measure(library, root, name, rounds):
    """The row of one workload: a dictionary."""
    load = SUITE[name]()
    row = {"name": name, "workload": load.label, "unit": load.unit, "rounds": rounds, "peers": {}}
    competitors = dict(load.peers)
    try:
        begin = time.perf_counter()
        path = f"{root / load.program}.tile" + (f":{load.kernel}" if load.kernel else "")
        launch = ours.prepare(library, path, load.consts, load.inputs, load.result)
        for result in load.results().values():
            poison(result)
        launch()
        torch.cuda.synchronize()
        row["compile_seconds"] = time.perf_counter() - begin
        row["error"] = worst_error(load)
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
    if "ours" in row:
        row["goals"] = judge(load, row)
    return row


def show(row):
    """A row of the table: ours, then each peer with its rate and ours over it."""
    mine = row.get("ours")
    if mine:
        first = f"{mine['rate']:.4g} (±{mine['spread'] * 50:.1f} %)"
    else:
        first = row.get("problem") or f"wrong: relative error {row['error']:.2g}"
    cells = []
    for peer, entry in row["peers"].items():
        ratio = f", ×{mine['rate'] / entry['rate']:.2f}" if mine else ""
        cells.append(f"{peer} {entry['rate']:.4g}{ratio}")
    error = f"{row['error']:.1e}" if "error" in row else "–"
    return (f"| {row['workload']} | {row['unit']} | {first} | {' · '.join(cells)} | {error}"
            f" | {verdict.of(row)} |")


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
    parser.add_argument("--only", default="", help="a pattern of names: " + " ".join(SUITE))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    library = ours.use(options.tessera)
    torch.manual_seed(1)
    print(f"{describe()}; torch {torch.__version__}, CUDA {torch.version.cuda},"
          f" cuDNN {torch.backends.cudnn.version()}; median of {options.rounds} rested bursts\n")
    print("| workload | unit | ours (half spread) | peers, ours over each | relative error"
          " | at least |")
    print("|---|---|---|---|---|---|", flush=True)
    missed = 0
    for name in SUITE:
        if not re.search(options.only, name):
            continue
        row = measure(library, ROOT, name, options.rounds)
        missed += "ours" not in row
        print(show(row), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
        torch.cuda.empty_cache()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
