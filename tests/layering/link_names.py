#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""link_names.py BUILD: no two components that are linked together define one global name.
Components are archives,
of which the linker takes what it finds first, and says nothing. Prints `N passed, N failed`."""

import collections
import pathlib
import re
import subprocess
import sys

# One of each pair stands for the other one: the loader for the library that it opens, the
# whole runtime for launching alone, the worker for the program.
APART = ({"tessera_codegen_loader", "tessera_codegen"}, {"tessera_runtime", "tessera_launch"},
         {"tessera_runtime", "tessera_launch_standalone"}, {"tessera", "tessera-worker"})


def defined(files):
    listing = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix",
                              *map(str, files)], check=True, capture_output=True, text=True).stdout
    words = [line.split() for line in listing.splitlines()]
    return {row[0] for row in words if len(row) > 1 and row[1] in "TDBR"}


def components(build):
    """(its name, the names that it defines)"""
    # Not what an earlier build of moved sources has left.
    built = set(re.findall(r"CMakeFiles/\S+?\.o\b", (build / "build.ninja").read_text()))
    for folder in sorted((build / "CMakeFiles").glob("tessera*.dir")):
        objects = sorted(p for p in folder.rglob("*.o")
                         if p.relative_to(build).as_posix() in built)
        if objects:
            yield folder.name.removesuffix(".dir"), defined(objects)


def main():
    where = collections.defaultdict(list)
    for component, names in components(pathlib.Path(sys.argv[1])):
        for name in names:
            where[name].append(component)
    failures = {name: found for name, found in where.items()
                if len(found) > 1 and set(found) not in APART}
    for name, found in sorted(failures.items()):
        print(f"{name}: defined by {', '.join(found)}")
    print(f"{len(where) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not where else 0


if __name__ == "__main__":
    sys.exit(main())
