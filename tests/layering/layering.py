#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the source tree: who includes what, and the look of the sources. Prints
`N passed, N failed`.

- a file of a component includes its own folder, what the INCLUDES of its `tessera_component` in
  CMakeLists.txt lists (`folder/*`: with the folders below), what those may include, and the system;
  LLVM only where INCLUDES lists it, in headers only codegen/llvm/llvm.h. INCLUDE_EXCEPTIONS there
  lists the includes that do not fit yet; one that is not needed any more fails
- no two sources of components have one basename, a .c and its .h aside
- every source begins with one SPDX line, has lines of at most 100 columns, no tabs, no trailing
  blanks (text tests and tables may be wider; text tests, lessons and templates
  need no SPDX line)
- text tests compare something, in lines that can be read (text_tests.py); documents have lines of
  at most 120 columns and short cells (documents.py)
- a file that a comment or a document names exists (file_names.py)
- no absolute path of the machine on which it was written; nothing left to do behind
- files under 600 lines are normal: longer ones are reported, above 900 they fail
"""

import collections
import pathlib
import re
import subprocess
import sys

import documents
import file_names
import text_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENT = re.compile(r'^tessera_component\((\w+)\s+(\S+)\s+"([^"]*)"([^)]*)\)', re.M)
EXCEPTIONS = re.compile(r"^set\(INCLUDE_EXCEPTIONS([^)]*)\)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
CODE = {".c", ".h", ".cpp", ".def"}
TEXT = CODE | {".py", ".sh", ".cmake", ".in", ".txt", ".tile", ".ir", ".test"}
MACHINE = re.compile(r"(?<![\w.$}])/(?:home|root|work|Users)/[\w.]")
LEFT_BEHIND = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
LONG, TOO_LONG = 600, 900
SELF = "tests/layering/layering.py"
# A header of the loader, and the source of the library that it opens.
SAME_BASENAME = {"runtime/codegen_loader/codegen_table.h",
                 "runtime/codegen_loader/library/codegen_table.c"}


class Component:
    def __init__(self, name, folder, holds, options):
        self.name, self.folder, self.holds = name, folder, holds.replace("\\\n", "")
        words = options.split()
        self.includes = words[words.index("INCLUDES") + 1:]
        for option in ("PART_OF", "EXECUTABLE"):
            if option in self.includes:
                self.includes = self.includes[:self.includes.index(option)]


def read_components():
    """{folder: Component}, in the order of CMakeLists.txt."""
    text = re.sub(r"^\s*#[^\n]*\n", "", (ROOT / "CMakeLists.txt").read_text(), flags=re.M)
    return {m[2]: Component(*m.groups()) for m in COMPONENT.finditer(text)}


def read_exceptions():
    """(file, header) pairs."""
    found = EXCEPTIONS.search((ROOT / "CMakeLists.txt").read_text())
    words = re.sub(r"#[^\n]*", "", found[1]).split() if found else []
    return set(zip(words[::2], words[1::2], strict=True))


def component_of(path, components):
    """The component whose folder holds the path: the longest one."""
    found = [c for c in components.values() if path.startswith(c.folder + "/")]
    return max(found, key=lambda c: len(c.folder), default=None)


def named(entry, components):
    """The folders that an entry of INCLUDES stands for."""
    if entry.endswith("/*"):
        entry = entry[:-2]
        return [f for f in components if f == entry or f.startswith(entry + "/")]
    return [entry] if entry in components else []


def allowed(component, components):
    """The folders and headers that it may include: what it names, and what those may include."""
    found, todo = set(), [component.folder]
    while todo:
        folder = todo.pop()
        if folder in found:
            continue
        found.add(folder)
        for entry in components[folder].includes:
            inside = named(entry, components)
            todo += inside
            found |= set() if inside else {entry}
    return found


def include_problem(path, bracket, target, component, components):
    """Why this include is not allowed, or None."""
    if target.startswith("llvm-c/"):
        fits = path == "codegen/llvm/llvm.h" or \
            "LLVM" in component.includes and not path.endswith(".h")
        return None if fits else "llvm-c stays behind codegen/llvm/llvm.h"
    if target.startswith(("llvm/", "lld/")):
        fits = "LLVM" in component.includes and path.endswith(".cpp")
        return None if fits else "LLVM's C++ is for .cpp of codegen/llvm"
    if target.startswith("tessera/"):
        target = "include/" + target
    elif bracket == "<":
        return None
    if not (ROOT / target).is_file():
        return f"no file {target} (includes are written from the root)"
    other = component_of(target, components)
    if other is None:
        return f"{target} is in no component"
    may = allowed(component, components)
    if other.folder in may or target in may:
        return None
    return (f"{component.folder} may not include {target}: INCLUDES lists "
            f"{' '.join(component.includes) or 'nothing'}")


def check_includes(path, text, components, exceptions, fail):
    component = component_of(path, components)
    if component is None:
        return
    for match in INCLUDE.finditer(text):
        why = include_problem(path, match[1], match[2], component, components)
        if why and (path, match[2]) in exceptions:
            exceptions.remove((path, match[2]))
        elif why:
            line = text.count("\n", 0, match.start()) + 1
            fail(f"{path}:{line}: {why}")


def check_basenames(paths, components, fail):
    found = collections.defaultdict(set)
    for path in paths:
        suffix = pathlib.Path(path).suffix
        if suffix in CODE and component_of(path, components) and path not in SAME_BASENAME:
            found[pathlib.Path(path).stem].add(path.removesuffix(suffix))
    for name, places in sorted(found.items()):
        if len(places) > 1:
            fail(f"{name}: one basename of {', '.join(sorted(places))}")


def check_look(path, text, fail):
    lines = text.split("\n")
    wide = pathlib.Path(path).suffix in {".def", ".tile", ".ir", ".test"}
    golden = path.startswith("tests/diagnostics/golden/")
    text_test = wide and path.startswith("tests/") or golden
    shown = path.startswith(("lessons/", "templates/"))  # to users, as it is
    spdx = "SPDX-License-Identifier: Apache-2.0" in "\n".join(lines[:2])
    if not text_test and not shown and not spdx:
        fail(f"{path}:1: no SPDX line")
    for number, line in enumerate(lines, 1):
        if len(line) > 100 and not wide and not golden:
            fail(f"{path}:{number}: {len(line)} columns")
        if line != line.rstrip() and not golden or ("\t" in line and not text_test):
            fail(f"{path}:{number}: tab or trailing blank")
        if MACHINE.search(line) and path != SELF:
            fail(f"{path}:{number}: a path of one machine")
        if LEFT_BEHIND.search(line) and path != SELF:
            fail(f"{path}:{number}: something is left to do here")
    if len(lines) > TOO_LONG:
        fail(f"{path}: {len(lines)} lines: look for the seam")


def report_problems(path, found, fail):
    for number, what in found:
        fail(f"{path}:{number}: {what}")


def tracked():
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        listed = listed.split("\n")
    except (OSError, subprocess.CalledProcessError):  # an exported tree
        listed = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        listed = [p for p in listed if not re.match(r"build|\.git/", p)]
    return [p for p in listed if p and (ROOT / p).is_file()]


def report(lengths):
    code = sorted(n for path, n in lengths.items() if pathlib.Path(path).suffix in CODE)
    if code:
        print(f"{len(code)} files of C, {sum(code)} lines; median {code[len(code) // 2]},"
              f" p90 {code[len(code) * 9 // 10]}, longest {code[-1]}")
    for path, n in sorted(lengths.items(), key=lambda item: -item[1]):
        if n > LONG and not path.endswith(".md"):
            print(f"note: {path} has {n} lines")


def check_file(path, text, components, exceptions, names, fail):
    suffix = pathlib.Path(path).suffix
    if suffix in CODE | {".md"}:
        report_problems(path, names.problems(path, text), fail)
    if suffix == ".md":
        report_problems(path, documents.problems(text), fail)
        return
    if suffix in CODE:
        check_includes(path, text, components, exceptions, fail)
    check_look(path, text, fail)
    if path.startswith("tests/") and suffix in text_tests.SUFFIXES:
        report_problems(path, text_tests.problems(text), fail)


def main():
    components, exceptions = read_components(), read_exceptions()
    failures, passed, checked, lengths, paths = [], 0, 0, {}, tracked()
    names = file_names.Names(paths)
    for path in paths:
        if pathlib.Path(path).suffix not in TEXT | {".md"}:
            continue
        text = (ROOT / path).read_text(errors="replace")
        before = len(failures)
        check_file(path, text, components, exceptions, names, failures.append)
        lengths[path] = text.count("\n")
        checked += 1
        passed += len(failures) == before
    bad = checked - passed
    before = len(failures)
    check_basenames(paths, components, failures.append)
    for path, header in sorted(exceptions):
        failures.append(f"CMakeLists.txt: INCLUDE_EXCEPTIONS: {path} {header}: is no exception")
    bad += len(failures) - before
    print("\n".join(failures), end="\n" if failures else "")
    report(lengths)
    print(f"{passed} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
