#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are bugs noticed? A copy of the tree is built; each bug of plants.py in turn is put into it, the
copy built again, and the quick suites run until one notices. Prints who noticed what, then
`N passed, M failed`; fails where fewer than 95 % are noticed.

    plant.py --work FOLDER [--only N…] [--programs 200]"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import time

from plants import PLANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["tessera", "tessera-fuzz", "tessera-interp"]


def copy(tree):
    """What git knows, as it is here now."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split("\n")
    for name in filter(None, names):
        source, to = ROOT / name, tree / name
        if source.is_file() and (not to.is_file() or to.read_bytes() != source.read_bytes()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)


def build(options):
    tree, folder = options.work / "tree", options.work / "build"
    if not (folder / "build.ninja").is_file():
        subprocess.run(["cmake", "-G", "Ninja", "-S", tree, "-B", folder], check=True,
                       stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-C", folder, *TARGETS], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout[-2000:]


def suites(options):
    """The quick ones, those that notice most first."""
    tests, built = options.work / "tree" / "tests", options.work / "build"
    python = sys.executable
    return [
        ("fuzz", [python, tests / "fuzz/fuzz.py", "--fuzz", built / "tests/tessera-fuzz",
                  "--count", str(options.programs), "--passes", "--no-shrink",
                  "--out", options.work / "failures"]),
        ("lang", [python, tests / "lang/lang.py", "--tessera", built / "bin/tessera",
                  "--device", "interp,cpu"]),
        ("agree", [python, tests / "agree/agree.py", "--tessera", built / "bin/tessera", "--few",
                   "--device", "cpu"]),
        ("oracle", [python, tests / "interp/oracle.py", "--interp",
                    built / "tests/tessera-interp"]),
    ]


def noticed_by(options):
    for name, command in suites(options):
        try:
            done = subprocess.run([str(c) for c in command], cwd=options.work / "tree",
                                  capture_output=True, timeout=options.seconds)
        except subprocess.TimeoutExpired:
            return name
        if done.returncode:
            return name
    return None


def plant(options, row):
    """The suite that notices the bug, or why there is no answer."""
    _, name, good, bad = row
    path = options.work / "tree" / name
    text = path.read_text()
    if text.count(good) != 1:
        return None, f"{name} has {text.count(good)} times {good!r}"
    path.write_text(text.replace(good, bad))
    try:
        problem = build(options)
        return (None, problem) if problem else (noticed_by(options), None)
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=300, help="that a suite may take")
    options = parser.parse_args()
    options.work = options.work.resolve()
    copy(options.work / "tree")
    problem = build(options)
    if problem:
        sys.exit(problem)
    if not options.only:
        wrong = noticed_by(options)
        if wrong:
            sys.exit(f"without any bug {wrong} fails")
    found = tried = 0
    for n, row in enumerate(PLANTS, 1):
        if options.only and n not in options.only:
            continue
        start = time.time()
        suite, problem = plant(options, row)
        tried += 1
        found += suite is not None
        print(f"{n:2} {suite or 'NOBODY':7} {time.time() - start:4.0f} s  {row[0]}"
              + (f"\n   {problem}" if problem else ""), flush=True)
    print(f"{found} passed, {tried - found} failed")
    return 0 if found >= 0.95 * tried else 1


if __name__ == "__main__":
    sys.exit(main())
