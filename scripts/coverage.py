#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which lines of our C ran, by component and by file: what gcov says of a build with
TESSERA_COVERAGE.

    coverage.py BUILD [--holes 25]"""

import argparse
import collections
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPONENTS = ["support", "ir", "frontend", "passes", "codegen", "runtime/device", "runtime", "tune",
              "cli"]


def lines_of(build):
    """{file: {line: how often}}, of all objects that hold the file."""
    counts = collections.defaultdict(lambda: collections.defaultdict(int))
    notes = [str(p) for p in build.rglob("*.gcda")]
    for at in range(0, len(notes), 50):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *notes[at:at + 50]],
                              capture_output=True, text=True, check=False)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = pathlib.Path(file["file"])
                path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                for line in file["lines"]:
                    counts[str(path)][line["line_number"]] += line["count"]
    return counts


def component_of(path):
    return next((r for r in COMPONENTS if path.startswith(r + "/")), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--holes", type=int, default=25)
    options = parser.parse_args()
    components, files = collections.defaultdict(lambda: [0, 0]), []
    for path, lines in lines_of(options.build).items():
        component = component_of(path)
        if not component or not path.endswith(".c"):
            continue
        ran = sum(1 for n in lines.values() if n)
        files.append((len(lines) - ran, path, ran, len(lines)))
        components[component][0] += ran
        components[component][1] += len(lines)
    for component in COMPONENTS:
        ran, all_ = components[component]
        print(f"{component:15} {100 * ran / max(all_, 1):5.1f} %  {ran} of {all_} lines")
    print("\nlines that never ran:")
    for missed, path, ran, all_ in sorted(files, reverse=True)[:options.holes]:
        print(f"{missed:6} of {all_:5}  {path}")
    ran, all_ = (sum(v[i] for v in components.values()) for i in (0, 1))
    print(f"\nall: {100 * ran / max(all_, 1):.1f} % of {all_} lines")


if __name__ == "__main__":
    main()
