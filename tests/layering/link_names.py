#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""link_names.py BUILD: no two components that are linked into one program or shared library define
one global name. Components are archives, of which the linker takes what it finds first, and says
nothing. What is linked comes from build.ninja. Prints `N passed, N failed`."""

import collections
import pathlib
import re
import subprocess
import sys


def linked(build):
    """{program or shared library, or archive: the objects and archives that it is linked from}"""
    made = {}
    for block in re.split(r"\n(?=build )", (build / "build.ninja").read_text()):
        head = block.split("\n")[0]
        rule = re.match(r"build ((?:bin|lib)/\S+|libtessera\S*\.a): "
                        r"\w+_(?:EXECUTABLE|SHARED_LIBRARY|STATIC_LIBRARY)_LINKER__", head)
        if rule:
            libraries = re.search(r"LINK_LIBRARIES = (.*)", block)
            made[rule[1]] = re.findall(r"CMakeFiles/\S+?\.o\b", head) + \
                re.findall(r"(?<= )libtessera\S*\.a\b", libraries[1] if libraries else "")
    return made


def names_of(build, objects):
    """{object: the global names that it defines}"""
    listing = subprocess.run(["nm", "-A", "--defined-only", "--extern-only", "--format=posix",
                              *objects], check=True, capture_output=True, text=True,
                             cwd=build).stdout
    names = collections.defaultdict(set)
    for line in listing.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        if kind in "TDBR":
            names[path].add(name)
    return names


def main():
    build = pathlib.Path(sys.argv[1])
    made = linked(build)
    names = names_of(build, sorted({p for parts in made.values() for p in parts
                                    if p.endswith(".o")}))
    checked, failures = 0, 0
    for target, parts in sorted(made.items()):
        if target.endswith(".a"):
            continue
        objects = {p for p in parts if p.endswith(".o")}
        objects |= {p for part in parts if part.endswith(".a") for p in made[part]}
        where = collections.defaultdict(set)
        for path in objects:
            for name in names[path]:
                where[name].add(path)
        checked += len(where)
        for name, found in sorted(where.items()):
            if len(found) > 1:
                failures += 1
                print(f"{target}: {name} is defined by {', '.join(sorted(found))}")
    print(f"{checked - failures} passed, {failures} failed")
    return 1 if failures or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
