#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Suites that run programs on a device, on AMD's parts: HIP's runtime is the emulator's there
(emulator/hip.c), so that compiler, launches and code are those of a machine that has the part.

    emulated.py --tessera PROGRAM --fuzz PROGRAM --emulated FOLDER [--long] [PATTERN]

A kernel with scratch memory fails, but for the random programs' that are made without optimization.
--long: each suite on each part; without, on one part each, random programs on all. Prints what
fails, and `N passed, N failed`.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))
import suite  # noqa: E402

OTHERWISE = {"strided": "3f800000", "stdlib": "00010001", "examples": "7fffffff"}
TARGETS = ["gfx1100", "gfx90a", "gfx1201", "gfx942", "gfx950"]


def suites(options):
    """Name, command; of the short run: which part it is for, None: each."""
    tessera, jobs = ["--tessera", options.tessera], ["--jobs", str(options.jobs)]
    hip = ["--device", "hip"]

    def python(path, *words):
        return [sys.executable, str(TESTS / path), *words, *jobs]
    half = [[] if options.long else ["--part", part] for part in ("0/2", "1/2")]
    yield "lang", python("lang/lang.py", *tessera, *hip, *half[0]), "gfx1100"
    yield "strided", python("lang/lang.py", *tessera, *hip, "--strided", "3", *half[1]), "gfx942"
    yield "stdlib", python("stdlib/stdlib.py", *tessera, *hip), "gfx1201"
    count = "400" if options.long else "100"
    yield "meaning", python("fuzz/meaning.py", *tessera, *hip, "--count", count), "gfx90a"
    with tempfile.TemporaryDirectory() as out:
        count = "200" if options.long else "40"
        yield "fuzz", python("fuzz/fuzz.py", "--fuzz", options.fuzz, *hip, "--no-shrink", "--out",
                             out, "--seconds", "120", "--first", "500", "--count", count), "gfx950"
    if options.long:
        yield "examples", python("examples/examples.py", *tessera, *hip), None


def run(options, name, command, target):
    """Passed, failed."""
    env = dict(os.environ, ROCM_PATH=options.emulated, TESSERA_EMULATED=target)
    if name == "fuzz":
        env["TESSERA_EMULATED_SCRATCH"] = "1"
    if name in OTHERWISE:  # what nobody has written is another number there
        env["TESSERA_EMULATED_POISON"] = OTHERWISE[name]
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env)
    lines = done.stdout.strip().splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, 0 skipped)?", lines[-1] if lines else "")
    passed, failed = map(int, counts.groups()) if counts else (0, 1)
    if failed:
        print(f"{name} on {target}:", *lines[:-1], done.stderr[-2000:], sep="\n")
    print(f"{name} on {target}: {passed} passed, {failed} failed, {time.time() - start:.0f} s",
          flush=True)
    return passed, failed


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--fuzz", required=True, type=os.path.abspath)
    parser.add_argument("--emulated", required=True, type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("pattern", nargs="?", default="")
    options = suite.options_of(parser)
    passed = failed = 0
    for name, command, only in suites(options):
        for target in TARGETS if options.long or not only else [only]:
            if re.search(options.pattern, f"{name} {target}"):
                good, bad = run(options, name, command, target)
                passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
