#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py RESULTS.json [README.md]: puts what gpu.py --json kept into the tables of a document.

A row is found by its workload; the column `before` stays as it is. Rows that no table has are
printed, to be put where they belong.
"""

import json
import pathlib
import re
import sys

import verdict


def row_of(result, before):
    ours = result.get("ours")
    peers = [f"{name} {entry['rate']:.3g}, ×{ours['rate'] / entry['rate']:.2f}" if ours else
             f"{name} {entry['rate']:.3g}" for name, entry in result["peers"].items()]
    cells = [result["workload"], result["unit"], before, f"{ours['rate']:.4g}" if ours else "–",
             " · ".join(peers), verdict.of(result), str(result.get("rounds", "–"))]
    return "| " + " | ".join(cells) + " |"


def main():
    results, document = pathlib.Path(sys.argv[1]), pathlib.Path(
        sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).with_name("README.md"))
    latest = {row["workload"]: row for row in map(json.loads, results.read_text().splitlines())}
    lines = document.read_text().splitlines()
    for i, line in enumerate(lines):
        cells = re.split(r" *\| *", line.strip("| "))
        if line.startswith("| ") and cells[0] in latest:
            lines[i] = row_of(latest.pop(cells[0]), cells[2])
    document.write_text("\n".join(lines) + "\n")
    for result in latest.values():
        print(row_of(result, "–"))


if __name__ == "__main__":
    main()
