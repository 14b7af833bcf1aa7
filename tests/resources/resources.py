#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""resources.py --tessera PROGRAM [--only PATTERN] [--kernelbench FOLDER] [--folder FOLDER]…: what
is derived fits at the first attempt.

Compiles the corpus of tests/digests, the programs of bench/, of lessons/ and of the neighbouring
suites for sm_90a and sm_80, with bf16 and with f32 where the type is free. It fails where the
passes from `tile` on ran again because shared memory or registers did not suffice
(passes/retry_smaller_tiles.c): then a chooser counts less than is allocated. --folder adds the
kernels of the .tile files below it. Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "digests"), str(ROOT / "tests")]
import digests  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

TARGETS = ("sm_90a", "sm_80")
FOLDERS = ("bench/programs", "tests/calibration/programs", "tests/nests/inputs", "lessons")


def below(folders):
    for folder in folders:
        for file in sorted(folder.rglob("*.tile")):
            for name in digests.kernels_of(file):
                label = f"{file.parent.name}/{file.stem}:{name}"
                yield label, f"{file}:{name}", "", {}, {}, TARGETS


def programs(options, folder):
    """[(name, source, types and constants, sizes)]: each once."""
    folders = [ROOT / name for name in FOLDERS] + options.folder
    seen = set()
    for name, source, sets, sizes, prefer, _ in digests.corpus(options, folder) + \
            list(below(folders)):
        if not re.search(options.only, name):
            continue
        given = digests.bound(options.tessera, str(source), sets, prefer, folder / "out")
        taken = {word.split("=")[0] for word in given.split(",")}
        sizes = digests.text_of({k: v for k, v in sizes.items() if k not in taken})
        free = not sets and "=bf16" in given
        for sets in (given, given.replace("=bf16", "=f32")) if free else (given,):
            if (str(source), sets, sizes) not in seen:
                seen.add((str(source), sets, sizes))
                yield name, str(source), sets, sizes


def attempt(options, job):
    (_, source, sets, sizes), target = job
    command = [options.tessera, "compile", source, "--target", target, "--emit", "ir", "-o",
               os.devnull, "--no-pins", "--count-work", "--timeout", "0"]
    command += (["--set", sets] if sets else []) + (["--size", sizes] if sizes else [])
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=patience.seconds(120))
    if done.returncode:
        return suite.LEFT_OUT  # the program, or its target, refuses these types
    retries = re.search(r"^retries +(\d+)$", done.stderr, re.M)
    if not retries:
        return "the number of retries is not printed"
    return f"tiles were chosen again {retries[1]} times" if retries[1] != "0" else None


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--kernelbench", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, action="append", default=[])
    options = suite.options_of(parser)
    options.root = ROOT
    os.environ["TESSERA_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        found = list(programs(options, pathlib.Path(folder)))
        jobs = suite.part_of(options, ((p, target) for p in found for target in TARGETS))
        return suite.run(options, jobs, lambda job: attempt(options, job),
                         lambda job: " ".join((*job[0], job[1])))


if __name__ == "__main__":
    sys.exit(main())
