#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs_architecture.py --tessera PROGRAM [--check]: the excerpts of docs/architecture.md.

The document is written by hand; between its marks stand what the program prints of one kernel at
each level, cut to the lines of interest, and where the sources decide what of the schedule. With
--check it only says whether they are current.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import docs

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/architecture.md"
MARK = re.compile(r"(<!-- (excerpt|table): (\w+) -->\n).*?(<!-- /\2 -->)", re.S)
SOURCE = """\
kernel linear(x: bf16[M, K], w: bf16[K, N], b: bf16[N]) -> bf16[M, N] = relu(x @ w + b)
"""
COMPILE = "tessera compile linear.tile --target sm_90a --size M=8192,N=8000,K=8192"
EXPLAIN = COMPILE.replace("compile", "explain")
WIDTH = 116

# The passes whose output is shown: {name in the document: spelling in --print-after}.
PASSES = {
    "frontend": "frontend",
    "fuse": "fuse",
    "tile": "tile",
    "bounds": "bounds",
    "stage": "stage",
    "layout": "assign_layouts",
    "vectorize": "vectorize",
}

# {name: (pass, or None and the rest of a command; pieces)}; a piece is the first line that matches,
# up to the next one that matches its second pattern, or with so many lines behind it, or alone.
EXCERPTS = {
    "frontend": ("frontend", [(r"^  in %x", r"^  out "), (r"^  body", r"^  }")]),
    "fuse": ("fuse", [(r"^  body", r"%0 = "), (r"%2 = dot", None), (r"store %out", r"^  }")]),
    "schedule": ("tile", [(r"^  schedule ", r"warps = ")]),
    "tile": ("tile", [(r"^  body", r"^  }")]),
    "bounds": ("bounds", [(r"load %x", r"load %w"), (r"load %b", None), (r"store %out", None)]),
    "buffers": ("stage", [(r"^    launch", r"roles ")]),
    "producer": ("stage", [(r"^      roles ", r"^        } : i32")]),
    "consumer": ("stage", [(r"^      } {", r"= for "), (r"wait %full", r"arrive %empty"),
                           (r"load %b", None), (r"max ", r"bulk_store")]),
    "layouts": ("layout", [(r"^  layout L0", r"^  layout L1"), (r"%out.2 = shared", r"%empty = "),
                           (r"dot_async", None), (r"load %b", r"= broadcast")]),
    "vectors": ("vectorize", [(r"^    launch", None), (r"load %b", None)]),
    "plan": (None, "--emit launch", [(r'"maps"', r'"swizzle"'), (r'"launches"', r'"args"')]),
    "ptx": (None, "--emit ptx", [(r"setmaxnreg.dec", None), (r"mbarrier.try_wait", None),
                                 (r"arrive.expect_tx", None),
                                 (r"cp.async.bulk.tensor.2d.shared", None),
                                 (r"setmaxnreg.inc", None), (r"wgmma.fence", None),
                                 (r"wgmma.mma_async", None), (r"wgmma.commit_group", None),
                                 (r"wgmma.wait_group", None)]),
    "explain": (None, "explain", [(r"^schedule", r"warps"), (r"^# linear_0", 3), (r"waves, ", 1)]),
}


def command_of(name):
    kind, *rest = EXCERPTS[name]
    if kind:
        return f"{COMPILE} --emit ir -o o.ir --print-after {PASSES[kind]}"
    return EXPLAIN if rest[0] == "explain" else f"{COMPILE} {rest[0]} -o -"


def without_numbers(text):
    """PTX without the numbers of registers, which any change of the compiler changes."""
    return re.sub(r"%(rd|r|p)\d+\b", r"%\1", re.sub(r"\{%r\d+(, %r\d+){2,}\}", "{…}", text))


def output_of(tessera, command, folder, known):
    """The lines that a command prints; each runs once."""
    if command not in known:
        done = subprocess.run([str(tessera), *command.split()[1:]], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise SystemExit(f"docs_architecture.py: {command}: {done.stdout}")
        text = without_numbers(done.stdout) if "--emit ptx" in command else done.stdout
        known[command] = text.expandtabs(4).split("\n")
    return known[command]


def pieces(lines, wanted):
    """The pieces, without the indentation that all have; a line `…` for what lies between."""
    found, at = [], 0
    for first, last in wanted:
        begin = next((i for i in range(at, len(lines)) if re.search(first, lines[i])), None)
        if begin is None or last is None:
            end = begin
        elif isinstance(last, int):
            end = begin + last
        else:
            end = next((i for i in range(begin + 1, len(lines)) if re.search(last, lines[i])), None)
        if end is None:
            raise SystemExit(f"docs_architecture.py: no line matches {first} … {last}")
        if found and begin > at:
            found.append(re.match(r" *", lines[begin])[0] + "…")
        found += lines[begin:end + 1]
        at = end + 1
    spaces = min(len(line) - len(line.lstrip()) for line in found if line.strip())
    cut = [line[spaces:].rstrip() for line in found]
    return [line if len(line) <= WIDTH else line[:WIDTH - 2] + " …" for line in cut]


def excerpt(tessera, name, folder, known):
    command = command_of(name)
    shown = pieces(output_of(tessera, command, folder, known), EXCERPTS[name][-1])
    return "```text\n$ " + command + "\n" + "\n".join(shown) + "\n```\n"


# ---- where the schedule is decided ----

FUNCTION = re.compile(r"^(?!typedef|static const|enum|struct)[a-zA-Z][^;={}]*?(\w+)\([^;{}]*\)\n\{",
                      re.M)
DECIDES = re.compile(r'schedule_decide_(?:int|symbol|on)\(\s*[^,()]+,\s*"(\w+)"', re.M)


def places():
    """{key: [(file, function)]}: the calls that take the user's value or record the derived one."""
    found = {}
    for path in sorted((ROOT / "passes").rglob("*.c")):
        text = path.read_text()
        heads = [(m.start(), m[1]) for m in FUNCTION.finditer(text)]
        for m in DECIDES.finditer(text):
            name = [head for at, head in heads if at < m.start()][-1]
            found.setdefault(m[1], []).append((path.relative_to(ROOT).as_posix(), name))
    return found


def decisions():
    found, lines = places(), []
    for row in docs.rows("ir/schedule.def", "SCHEDULE_ENTRY"):
        key, owners = row[0], row[3].split()
        # A pass that asks a helper with the key as an argument is its own place.
        where = found.get(key) or [(path, f"pass_{owner}") for owner in owners
                                   for path, _ in [docs.contract(owner)] if path]
        if not where:
            raise SystemExit(f"docs_architecture.py: nobody decides {key}")
        lines += [[f"`{key}`", f"`{name}`", f"`{path}`"] for path, name in dict.fromkeys(where)]
    return docs.table(["schedule key", "function", "file"], lines)


LEVELS = [("T", "tensor", "whole tensors; `parallel` groups of statements"),
          ("L", "loop", "`launch`, `for`, tiles whose axes are ranges"),
          ("S", "staged", "shared memory, mbarriers, roles, asynchronous copies and dots")]


def level_rows():
    legal = [row[5] for row in docs.rows("ir/ops.def", "OP")]
    return docs.table(["level", "letter", "legal ops", "what a function consists of"],
                      [[name, letter, str(sum(letter in levels for levels in legal)), what]
                       for letter, name, what in LEVELS])


TABLES = {"decisions": decisions, "levels": level_rows}


def made(tessera):
    known = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "linear.tile").write_text(SOURCE)

        def block(mark):
            text = TABLES[mark[3]]() if mark[2] == "table" else \
                excerpt(tessera, mark[3], folder, known)
            return f"{mark[1]}\n{text}\n{mark[4]}"

        return MARK.sub(block, DOCUMENT.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = made(options.tessera.resolve())
    if text == DOCUMENT.read_text():
        print("current")
        return 0
    if options.check:
        print("not current, run `make docs`: docs/architecture.md")
        return 1
    DOCUMENT.write_text(text)
    print("written: docs/architecture.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
