#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree-sitter grammar, without tree-sitter: that `tree-sitter generate` finds no conflict in it
(lalr.py), that it takes all programs of examples/ and stdlib/ and no others, that it has the
keywords and schedule keys of the compiler's tables, and that queries name what it has. Prints
`N passed, N failed`."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import lalr

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GRAMMAR = ROOT / "editors/tree-sitter-tile"
# What the compiler's parser refuses, too.
WRONG = [
    "kernel f(x f32[N]) -> f32[N] = x",
    "kernel f(x: f32[N]) -> f32[N] = x +",
    "kernel f(x: f32[N]) -> f32[N] { return x",
    "kernel f(x: f32[N]) -> f32[N] { let y = = 3 }",
    "fn f(x) = (x",
    "fn f(x) = x)",
    "fn f(x) { if x { y = 1 } else }",
    "schedule f { tile }",
    "schedule f { nothing 3 }",
    "import",
    "let x = 3",
]
RIGHT = [
    "fn f(x) = where(x > 0, x, -x) if x == 1 else sum(k in 3 if k > 1) x[k] * 2 + 1",
    "fn f(x) { let a = x\n    if a { return a }\n    return (x[1] else 0), var(x) }",
    "fn f(x, tile: const i64 = 2) = tile(x, tile, axis=0)",
    "schedule f as fast on sm_90a, x86-64-v3 when N >= 4 and M < 2 "
    "{ launch 1: tile M 64, N 128; warps 4 }",
    "tune f { tile M in 64, 128\n warps in 2..8 }",
    "fn f(x: T[M, 2 * N]) -> (a: T[M], b: T[N]) where T: float, P = N // 2, N % 2 == 0 { a = x }",
    "derivative of f(x, y, g) = g.T[:, None] ; kernel g = vjp(f, x)",
    "fn f(x) { (a, b) = (b, a)\n    c = x\n    (a, b) = g(c)\n"
    "    for j in 0..4 by exactly 2 { break } }",
]


def load():
    done = subprocess.run(["node", HERE / "grammar_json.js", GRAMMAR / "grammar.js"], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def checks(grammar):
    """(what it is about, None or what is wrong)"""
    tables = lalr.Tables(lalr.Grammar(grammar))
    for problem in sorted(set(tables.problems)):
        yield "conflict", problem
    yield "conflicts that are declared", \
        None if tables.used == set(tables.grammar.declared) else "one is not needed"
    parser = lalr.Parser(tables)
    for path in sorted([*ROOT.glob("examples/*.tile"), *ROOT.glob("stdlib/*.tile")]):
        text = path.read_text()
        at = parser.parse(text)
        yield path.name, None if at is None else f"line {text.count(chr(10), 0, at) + 1}"
    for text in RIGHT:
        at = parser.parse(text)
        yield text, None if at is None else f"not from: {text[at:]}"
    for text in WRONG:
        yield text, "it is taken" if parser.parse(text) is None else None


def words(grammar):
    source = json.dumps(grammar["rules"])
    for path, macro in (("frontend/syntax/tokens.def", r'^(?:KEYWORD|PUNCT)\(\w+, "(.+)"\)'),
                        ("ir/schedule.def", r'^SCHEDULE_ENTRY\("(\w+)"')):
        for word in re.findall(macro, (ROOT / path).read_text(), re.M):
            found = json.dumps({"type": "STRING", "value": word}) in source
            yield f"{path}: {word}", None if found else "the grammar has it not"


def queries(grammar):
    texts = set(re.findall(r'"type": "STRING", "value": "((?:[^"\\]|\\.)*)"',
                           json.dumps(grammar["rules"])))
    fields = set(re.findall(r'"type": "FIELD", "name": "(\w+)"', json.dumps(grammar["rules"])))
    for path in sorted((GRAMMAR / "queries").glob("*.scm")):
        query = re.sub(r"^;.*|#match\? @\S+ \"[^\"]*\"", "", path.read_text(), flags=re.M)
        for name in sorted(set(re.findall(r"\((\w+)", query)) - {"_"}):
            yield f"{path.name}: {name}", None if name in grammar["rules"] else "no such rule"
        for text in sorted(set(re.findall(r'"([^"]+)"', query))):
            yield f"{path.name}: {text}", None if text in texts else "no such token"
        for field in sorted(set(re.findall(r"(\w+): ", query))):
            yield f"{path.name}: {field}", None if field in fields else "no such field"


def main():
    if not shutil.which("node"):
        print("0 passed, 0 failed, 1 skipped")
        return 0
    grammar, passed, failed = load(), 0, 0
    for part in (checks, words, queries):
        for about, problem in part(grammar):
            passed, failed = passed + (not problem), failed + bool(problem)
            if problem:
                print(f"{about}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
