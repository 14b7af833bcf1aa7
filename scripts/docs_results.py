# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/performance.md, from the measurements that bench/results.json keeps.

The words of that document are written by hand; each table stands between two marks.
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- /results -->)", re.S)


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(out + ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def strongest(peers):
    """The fastest competitor; a bare copy counts only where there is no other one."""
    others = [peer for peer in peers if peer["name"] != "copy"] or peers
    return max(others, key=lambda peer: peer["rate"])


def copy_ratio(row):
    return next(f"{peer['ratio']:.2f}" for peer in row["peers"] if peer["name"] == "copy")


def has_copy(row):
    return any(peer["name"] == "copy" for peer in row["peers"])


def gpu(rows, memory):
    """The rows that stand for their kind; bench/README.md has all."""
    lines = []
    for row in rows:
        if row.get("summary") and has_copy(row) == memory:
            peer = strongest(row["peers"])
            missed = "**" in row["goals"]
            lines.append([row["workload"], f"{row['ours']:.4g} {row['unit']}",
                          f"{peer['name']} {peer['rate']:.4g}", f"×{peer['ratio']:.2f}",
                          *([copy_ratio(row)] if memory else []),
                          "missed" if missed else "met" if row["goals"] else "–",
                          row["recorded"]])
    return table(["workload", "Tessera", "strongest peer", "ratio",
                  *(["of copy"] if memory else []), "goal", "recorded"], lines)


def gpu_memory(rows):
    return gpu(rows, True)


def gpu_compute(rows):
    return gpu(rows, False)


def cpu(rows):
    return table(["workload", "Tessera", "NumPy", "ratio", "of memcpy", "goal"],
                 [[row["workload"], f"{row['ours']:.4g} {row['unit']}", f"{row['numpy']:.4g}",
                   f"×{row['ratio']:.2f}",
                   f"{row['of_memcpy']:.2f}" if "of_memcpy" in row else "–",
                   f"×{row['goal']:.1f}: " + ("met" if row["ratio"] >= row["goal"] else "missed")]
                  for row in rows])


def compile_time(rows):
    parts = ["front_end", "passes", "emission", "llvm_middle", "llvm_back"]
    return table(["program", "CPU, ms", "front end", "passes", "emission", "LLVM middle",
                  "LLVM back"],
                 [[row["program"], f"{row['cpu_ms']:.1f}", *(f"{row[part]:.1f}" for part in parts)]
                  for row in rows])


def host(rows):
    return table(["operation", "Tessera", "peer", "goal"],
                 [[row["work"], row["ours"], row["peer"], row["goal"]] for row in rows])


# The name in a mark: the part of the records, the function that makes the table.
TABLES = {"gpu_memory": ("gpu", gpu_memory), "gpu_compute": ("gpu", gpu_compute),
          "cpu": ("cpu", cpu), "compile": ("compile", compile_time), "host": ("host", host)}


def performance():
    records = json.loads((ROOT / "bench/results.json").read_text())

    def made(mark):
        name, rows_table = TABLES[mark[2]]
        part = records[name]
        said = f"{part['device']}; `{part['tool']}`"
        said += f"; recorded {part['recorded']}" if "recorded" in part else ""
        return f"{mark[1]}\n{said}:\n\n{rows_table(part['rows'])}\n{mark[3]}"

    return MARK.sub(made, (ROOT / "docs/performance.md").read_text())
