#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names.py BUILD: no two rooms that are linked together define one global name. Rooms are archives,
of which the linker takes what it finds first, and says nothing. Prints `N passed, N failed`."""

import collections
import pathlib
import subprocess
import sys

# One of each pair stands for the other one: the opener for what a library of its own holds, the
# whole runtime for launching alone, the worker for the program.
APART = ({"tessera_opener", "tessera_codegen"}, {"tessera_runtime", "tessera_launch"},
         {"tessera_runtime", "tessera_launch_alone"}, {"tessera", "tessera-worker"})


def defined(files):
    listing = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix",
                              *map(str, files)], check=True, capture_output=True, text=True).stdout
    words = [line.split() for line in listing.splitlines()]
    return {row[0] for row in words if len(row) > 1 and row[1] in "TDBR"}


def rooms(build):
    """(its name, the names that it defines)"""
    for folder in sorted((build / "CMakeFiles").glob("tessera*.dir")):
        objects = sorted(folder.rglob("*.o"))
        if objects:
            yield folder.name.removesuffix(".dir"), defined(objects)


def main():
    where = collections.defaultdict(list)
    for room, names in rooms(pathlib.Path(sys.argv[1])):
        for name in names:
            where[name].append(room)
    failures = {name: found for name, found in where.items()
                if len(found) > 1 and set(found) not in APART}
    for name, found in sorted(failures.items()):
        print(f"{name}: defined by {', '.join(found)}")
    print(f"{len(where) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not where else 0


if __name__ == "__main__":
    sys.exit(main())
