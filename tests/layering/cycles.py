#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cycles.py BUILD [--write] [--list FILE]: groups of object files, and of folders, that need each
other, as `nm` tells from the names that they define and use. They must be those of cycles.txt: a
new one is a mistake in the layering, one that is gone leaves the list (--write). Prints
`N passed, N failed`."""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Written by tests/layering/cycles.py BUILD --write: folders, then object files, that need each
# other. A group is a strongly connected component of the graph of who uses whose names.
"""


def objects(build):
    """{object: (defined names, used names)} of the components, and of what libraries add."""
    # Not what an earlier build of moved sources has left.
    built = set(re.findall(r"CMakeFiles/\S+?\.o\b", (build / "build.ninja").read_text()))
    paths = [p for folder in sorted((build / "CMakeFiles").glob("tessera*.dir"))
             for p in sorted(folder.rglob("*.o")) if p.relative_to(build).as_posix() in built
             and "__" not in p.relative_to(folder).parts[0]]
    listing = subprocess.run(["nm", "-A", "--extern-only", "--format=posix", *map(str, paths)],
                             check=True, capture_output=True, text=True).stdout
    found = {str(p): (set(), set()) for p in paths}
    for line in listing.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        found[path][kind in "Uwv"].add(name)
    return found


def uses(found):
    """{object: objects whose names it uses}"""
    # The entry points that libtessera and libtessera-launch both have are used by neither.
    home = {name: path for path, (defined, _) in found.items() for name in defined}
    return {path: {home[n] for n in used if n in home} - {path}
            for path, (_, used) in found.items()}


def groups(graph):
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    index, low, stack, on, made = {}, {}, [], set(), []
    for root in sorted(graph):
        work = [(root, iter(sorted(graph[root])))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        made.append(sorted(stack[at:]))
                    on -= set(stack[at:])
                    del stack[at:]
    return sorted(made)


def source_of(path):
    return re.sub(r"\.(c|cpp)\.o$", "", path.split(".dir/", 1)[1])


def cycles(build):
    """{"folders" or "objects": groups of names}"""
    graph = {source_of(p): {source_of(o) for o in others} - {source_of(p)}
             for p, others in uses(objects(build)).items()}
    folders = collections.defaultdict(set)
    for name, others in graph.items():
        mine = name.rpartition("/")[0]
        folders[mine] |= {o.rpartition("/")[0] for o in others} - {mine}
    return {"folders": groups(folders), "objects": groups(graph)}


def text_of(found):
    made = HEAD
    for kind, listed in found.items():
        inside = sum(map(len, listed))
        made += f"\n# {kind}: {len(listed)} groups of {inside}\n"
        made += "\n".join(f"{kind}\n" + "".join(f"  {n}\n" for n in group) for group in listed)
    return made


def read(path):
    found = {"folders": [], "objects": []}
    for line in path.read_text().splitlines():
        if line in found:
            found[line].append([])
            kind = line
        elif line.startswith("  "):
            found[kind][-1].append(line.strip())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "cycles.txt")
    options = parser.parse_args()
    found = cycles(options.build)
    for kind, listed in found.items():
        print(f"{kind}: {len(listed)} groups of {sum(map(len, listed))}")
    if options.write:
        options.list.write_text(text_of(found))
        return 0
    known, failures = read(options.list), 0
    for kind, listed in found.items():
        for group in listed:
            if group not in known[kind]:
                old = {n for g in known[kind] for n in g}
                new = [n for n in group if n not in old]
                print(f"{kind} need each other, which is not listed: "
                      f"{' '.join(new or group)}")
                failures += 1
        for group in known[kind]:
            if group not in listed:
                print(f"{kind} do not need each other any more as listed (--write): "
                      f"{' '.join(group[:8])} …")
                failures += 1
    good = sum(len(listed) for listed in found.values())
    print(f"{max(good - failures, 0)} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
