#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The editors' files know every keyword and type that the lexer and the type table have, and colour
a sample as they should. Prints `N passed, N failed`."""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VSCODE, VIM = ROOT / "editors/vscode", ROOT / "editors/vim"
SAMPLE = {  # the part of a line, and the scope that it must have
    "kernel add(x: f32[N]) -> f32[N] = x + 0x1f": {
        "kernel": "keyword.declaration", "add": "entity.name.function", "f32": "storage.type",
        "->": "keyword.operator", "0x1f": "constant.numeric.integer"},
    "    let y = fast.exp(x - 1.5e-3) where T: float  # why": {
        "let": "keyword.declaration", "fast.exp": "entity.name.function",
        "1.5e-3": "constant.numeric.float", "where": "keyword.other", "# why": "comment.line"},
    "where(x > 0, inf, f8e4m3(x))": {"where": "entity.name.function", "inf": "constant.language"},
    'import "a.tile"': {"import": "keyword.declaration", '"': "string.quoted"},
}


def words_of_tables():
    tokens = (ROOT / "frontend/syntax/tokens.def").read_text()
    types = (ROOT / "ir/dtypes.def").read_text()
    types = types[:types.index("#ifdef DTYPE_OF_UNITS")]  # no source can name the others
    return re.findall(r'^KEYWORD\(\w+, "(\w+)"\)', tokens, re.M) + \
        re.findall(r'^DTYPE\(\w+, "(\w+)"', types, re.M)


def patterns_of(node, repository):
    """Flat list of (scope, regular expression) in the order of the grammar."""
    if "include" in node:
        return patterns_of(repository[node["include"][1:]], repository)
    found = []
    expression = node.get("match") or node.get("begin")
    if expression:
        captures = {int(n): c["name"] for n, c in node.get("captures", {}).items()}
        found.append((node.get("name"), captures, re.compile(expression)))
        return found
    for inner in node.get("patterns", []):
        found += patterns_of(inner, repository)
    return found


def scopes(line, patterns):
    """[(text, scope)] of a line, as an editor finds them: the leftmost match, the first rule."""
    found, at = [], 0
    while at < len(line):
        hits = [(m.start(), i, m) for i, (_, _, r) in enumerate(patterns)
                if (m := r.search(line, at)) and m.end() > at]
        if not hits:
            break
        _, i, match = min(hits, key=lambda hit: hit[:2])
        name, captures, _ = patterns[i]
        found.append((match[0], name))
        found += [(match[n], scope) for n, scope in captures.items()]
        at = match.end()
    return found


def main():
    grammar = json.loads((VSCODE / "syntaxes/tile.tmLanguage.json").read_text())
    package = json.loads((VSCODE / "package.json").read_text())
    json.loads((VSCODE / "language-configuration.json").read_text())
    syntax = (VIM / "syntax/tile.vim").read_text()
    patterns = patterns_of(grammar, grammar["repository"])
    failures, passed = [], 0
    vim = set(re.findall(r"\w+", " ".join(
        re.findall(r"^syntax (?:keyword|match) \w+ (.*)$", syntax, re.M))))
    for word in words_of_tables():
        known = any(text == word and scope for text, scope in scopes(word, patterns))
        for good, where in ((known, "vscode"), (word in vim, "vim")):
            passed += good
            failures += [] if good else [f"editors/{where}: no '{word}'"]
    for line, wanted in SAMPLE.items():
        found = scopes(line, patterns)
        for part, scope in wanted.items():
            good = any(text == part and (name or "").startswith(scope) for text, name in found)
            passed += good
            failures += [] if good else [f"'{part}' of '{line}' is no {scope}: {found}"]
    for grammar_file in package["contributes"]["grammars"]:
        good = (VSCODE / grammar_file["path"]).exists()
        passed += good
        failures += [] if good else [f"{grammar_file['path']} does not exist"]
    print("\n".join([*failures, f"{passed} passed, {len(failures)} failed"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
