#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py LIBRARY… [--accept]: what programs that are compiled already rely on, compared by abidiff
with what this folder describes: names, parameters, structures. --accept writes that anew. Prints
`N passed, N failed`."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEADERS = ROOT / "include/tessera"
HELP = """
What programs rely on has changed in {library}. If they go on working, and this is meant, accept it:
    python3 tests/abi/abi.py {library} --accept
They go on where functions or values are added, and where a structure that only the library makes
gets a member at its end. Where the caller makes it, or hands in memory for it, TESSERA_ABI counts
up as well, and the library looks at the new member only for contexts of that version and later.
What is removed, or changes its meaning, takes another SOVERSION in cmake/library.cmake.
"""


def name_of(library):
    return HERE / (library.name.split(".")[0] + ".abi")


def describe(library):
    done = subprocess.run(
        ["abidw", "--exported-interfaces-only", "--headers-dir", HEADERS, "--drop-private-types",
         "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
         "--type-id-style", "hash", library], check=True, capture_output=True, text=True)
    return done.stdout


def differs(library):
    """abidiff's words, or nothing: additions are told, too."""
    with tempfile.NamedTemporaryFile("w", suffix=".abi") as now:
        now.write(describe(library))
        now.flush()
        done = subprocess.run(["abidiff", "--no-show-locs", name_of(library), now.name],
                              capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="+", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--accept", action="store_true")
    options = parser.parse_args()
    good = 0
    for library in options.libraries:
        if options.accept:
            name_of(library).write_text(describe(library))
        told = differs(library)
        print(told + HELP.format(library=library) if told else "", end="")
        good += not told
    print(f"{good} passed, {len(options.libraries) - good} failed")
    return 0 if good == len(options.libraries) else 1


if __name__ == "__main__":
    sys.exit(main())
