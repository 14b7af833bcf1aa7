#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py RESULTS.json [README.md [RECORDS.json]]: puts what gpu.py --json kept into documents.

A row is found by its workload. In the tables of the document the column `before` stays as it is;
rows that no table has are printed, to be put where they belong. In bench/results.json a row is
replaced or added, with today's date; `make docs` makes the tables of docs/performance.md from it.
"""

import datetime
import json
import pathlib
import re
import sys

import verdict

WIDTH = 120  # columns of a line of a document
HERE = pathlib.Path(__file__).resolve().parent


def rows_text(workload, unit, before, ours, peers, goals, rounds):
    """One row of a table; where it would be too long for a document, a row for each peer, of which
    the later ones leave the cells of the workload empty."""
    row = "| " + " | ".join([workload, unit, before, ours, " · ".join(peers), ", ".join(goals),
                             rounds]) + " |"
    if len(row) <= WIDTH:
        return [row]
    of_peer = {goal[:goal.rindex(" ", 0, goal.rindex(":"))]: goal for goal in goals}
    named = [of_peer.pop(re.sub(r" [\d.e+]+(?:, ×[\d.]+)?$", "", peer), "") for peer in peers]
    for goal in of_peer.values():  # of the best peer, or of one that was not measured
        at = named.index("") if "" in named else 0
        named[at] = f"{named[at]}, {goal}".strip(", ")
    later = [f"| | | | | {peer} | {goal} | |" for peer, goal in zip(peers, named)]
    first = f"| {workload} | {unit} | {before} | {ours} | {peers[0]} | {named[0]} | {rounds} |"
    if len(first) <= WIDTH:
        return [first, *later[1:]]
    return [f"| {workload} | {unit} | {before} | {ours} | | | {rounds} |", *later]


def rows_of(result, before):
    ours = result.get("ours")
    peers = [f"{name} {entry['rate']:.3g}, ×{ours['rate'] / entry['rate']:.2f}" if ours else
             f"{name} {entry['rate']:.3g}" for name, entry in result["peers"].items()]
    return rows_text(result["workload"], result["unit"], before,
                     f"{ours['rate']:.4g}" if ours else "–", peers, verdict.cells(result),
                     str(result.get("rounds", "–")))


def update_document(document, latest):
    """Returns the results that no table of the document has."""
    left, lines, replaced = dict(latest), [], False
    for line in document.read_text().splitlines():
        cells = re.split(r" *\| *", line.strip("| "))
        if line.startswith("| | | | | ") and replaced:
            continue  # further peers of the row that was replaced
        replaced = line.startswith("| ") and cells[0] in left
        lines += rows_of(left.pop(cells[0]), cells[2]) if replaced else [line]
    document.write_text("\n".join(lines) + "\n")
    return left


def record_of(result, date):
    """A row of bench/results.json, as docs_results.py reads it."""
    ours = result["ours"]["rate"]
    return {"workload": result["workload"], "unit": result["unit"], "ours": float(f"{ours:.4g}"),
            "peers": [{"name": name, "rate": float(f"{entry['rate']:.4g}"),
                       "ratio": round(ours / entry["rate"], 2)}
                      for name, entry in result["peers"].items()],
            "goals": verdict.of(result), "rounds": result.get("rounds"), "recorded": date}


def json_text(records):
    """One line a row, so that a change of one row is a change of one line."""
    parts = []
    for name, part in records.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},"
                 for key, value in part.items() if key != "rows"]
        rows = ",\n".join("   " + json.dumps(row, ensure_ascii=False) for row in part["rows"])
        parts.append("\n".join([f" {json.dumps(name)}: {{", *lines, '  "rows": [', rows,
                                "  ]", " }"]))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def update_records(path, latest, date):
    records = json.loads(path.read_text())
    rows = {row["workload"]: row for row in records["gpu"]["rows"]}
    for workload, result in latest.items():
        if result.get("ours"):
            new = record_of(result, date)
            if rows.get(workload, {}).get("summary"):
                new["summary"] = True
            rows[workload] = new
    records["gpu"]["rows"] = list(rows.values())
    path.write_text(json_text(records))


def main():
    words = [pathlib.Path(word) for word in sys.argv[1:]]
    document = words[1] if len(words) > 1 else HERE / "README.md"
    records = words[2] if len(words) > 2 else HERE / "results.json"
    latest = {row["workload"]: row for row in map(json.loads, words[0].read_text().splitlines())}
    for result in update_document(document, latest).values():
        print("\n".join(rows_of(result, "–")))
    update_records(records, latest, datetime.date.today().isoformat())


if __name__ == "__main__":
    main()
