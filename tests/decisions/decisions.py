#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decisions.py --tessera PROGRAM [--write]: compares what the cost models and heuristics derive
with decisions.data, or writes it. Prints `N passed, N failed`.

decisions.data has a program with its options on a line, and below it, indented, what `explain` says
of it: the schedule without its reasons, the waves of tiles that the reason of `tile` gives, and the
grid of each launch. A change of a model or of one of its constants is made visible there by one
command, `make docs`, and its diff is read like one of the code; tests of passes check what a pass
does with a number that they give. Lines that begin with # are comments and stay."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import patience  # noqa: E402

DATA = pathlib.Path(__file__).with_name("decisions.data")
WAVES = re.compile(r"\d+ tiles [^:;]*: [\d.]+ waves")
GRID = re.compile(r"^# (\w+: .*?blocks? of \d+ threads)", re.M)


def cases(text):
    """(lines before it and the command's own, words of the command) of each case, and what follows
    the last one."""
    found, before = [], []
    for line in text.splitlines():
        if not line.startswith("    "):
            before.append(line)
            if line and not line.startswith("#"):
                found.append((before, line.split()))
                before = []
    return found, before


def decided(tessera, words):
    """The lines that `explain` derives."""
    done = subprocess.run([tessera, "explain", *options(words)], cwd=ROOT, capture_output=True,
                          text=True, timeout=patience.seconds(120),
                          env={**os.environ, "TESSERA_CACHE": "off"})
    if done.returncode:
        return [f"error: {done.stderr.strip().splitlines()[0]}"]
    block, report = done.stdout.split("\n}\n", 1)
    lines = []
    for line in block.splitlines()[1:]:
        entry, _, reason = line.strip().partition("  # ")
        lines.append(entry)
        lines += [f"# {waves}" for waves in WAVES.findall(reason)]
    return lines + [f"# {grid}" for grid in GRID.findall(report)]


def options(words):
    """A schedule entry is written without quotes: `--schedule tile N 128`."""
    found = []
    for word in words:
        if len(found) > 1 and not word.startswith("--") and found[-2] == "--schedule":
            found[-1] += " " + word
        else:
            found.append(word)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    old = DATA.read_text()
    listed, rest = cases(old)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = pool.map(lambda case: decided(arguments.tessera.resolve(), case[1]), listed)
        blocks = [before + ["    " + line for line in lines]
                  for (before, _), lines in zip(listed, made)]
    text = "\n".join(line for block in [*blocks, rest] for line in block) + "\n"
    if arguments.write:
        DATA.write_text(text)
        return 0
    failed = 0
    for block, was in zip(blocks, parts(old)):
        if block != was:
            failed += 1
            print("\n".join(["was", *was, "is", *block]))
    print(f"{len(blocks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def parts(text):
    """The text cut behind the last indented line of each case."""
    found, block, inside = [], [], False
    for line in text.splitlines():
        if inside and not line.startswith("    "):
            found.append(block)
            block = []
        inside = line.startswith("    ") or bool(line) and not line.startswith("#")
        block.append(line)
    return [*found, block] if inside else found


if __name__ == "__main__":
    sys.exit(main())
