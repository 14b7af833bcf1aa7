#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs.py --tessera PROGRAM: documents say what is so. Prints
`N passed, N failed, N skipped`.

- the documents that are made from tables are current (scripts/docs.py)
- blocks fenced ```tile NAME are written to that file; with arguments behind the name `tessera run`
  runs it with them on the CPU, checked with the interpreter
- blocks fenced ```console are run: each line after `$ ` in a folder of its own, its output
  compared, where `…` stands for any text of a line, a line that is only `…` for any lines, and a
  number with a fraction for any number
- blocks fenced ```python are one program, which is run; one fenced ```python MODULE… is part of it
  where these modules are
- relative links lead to files; `make` targets that are named exist
"""

import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import patience  # noqa: E402

NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
ANY = re.compile(r"(…)|(-?\d+\.\d+(?:e[+-]?\d+)?)")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def commands(block):
    """(command, expected output) pairs of a console block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def matches(expected, output):
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            at = 0
            for found in ANY.finditer(line):
                pattern += re.escape(line[at:found.start()]) + (".*?" if found[1] else NUMBER)
                at = found.end()
            pattern += re.escape(line[at:]) + r" *\n"
    output = output.rstrip("\n") + "\n" if output.strip() else ""
    return re.fullmatch(pattern, output) is not None


class Report:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0

    def note(self, good, message):
        self.passed += good
        self.failed += not good
        if not good:
            print(message)


def same_python(folder):
    """A folder in which `python3` is the one that runs this, which has NumPy."""
    named = folder / "python"
    named.mkdir(exist_ok=True)
    link = named / "python3"
    if not link.exists():
        link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        link.chmod(0o755)
    return named


def run_block(name, block, folder, tessera, report):
    environment = {**os.environ,
                   "PATH": f"{tessera.parent}:{same_python(folder)}:{os.environ['PATH']}",
                   "XDG_CACHE_HOME": str(folder / "cache")}
    environment.pop("TESSERA_CACHE", None)
    for command, expected in commands(block):
        done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=patience.seconds(300))
        report.note(matches(expected, done.stdout),
                    f"{name}: $ {command}\nsays\n{done.stdout}\nnot\n" + "\n".join(expected))


def run_program(name, words, block, folder, tessera, report):
    (folder / words[0]).write_text(block)
    if len(words) > 1:
        command = [tessera, "run", words[0], *words[1:], "--device", "cpu", "--check"]
        done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=patience.seconds(300))
        report.note(done.returncode == 0, f"{name}: {words[0]}: {done.stdout}")


def sanitized(tessera):
    """Such a library does not load into a Python that is not."""
    library = tessera.parents[1] / "lib" / "libtessera.so.0"
    return b"__asan_init" in library.read_bytes()


def run_python(name, blocks, folder, tessera, report):
    """Blocks that ask for modules that are not here are skipped."""
    here = [block for info, block in blocks
            if all(importlib.util.find_spec(module) for module in info.split())]
    report.skipped += len(blocks) - len(here)
    program = "".join(here)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TESSERA_CACHE": "off",
                   "TESSERA_LIBRARY": str(tessera.parents[1] / "lib" / "libtessera.so.0"),
                   "TESSERA_PROGRAM": str(tessera)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=patience.seconds(300))
    report.note(done.returncode == 0, f"{name}: its Python: {done.stdout}")


def check_file(path, tessera, report):
    name, text = path.relative_to(ROOT), path.read_text()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "examples").symlink_to(ROOT / "examples")
        for language, info, block in FENCE.findall(text):
            if language == "tile" and info.strip():
                run_program(name, info.split(), block, folder, tessera, report)
            elif language == "console":
                run_block(name, block, folder, tessera, report)
        python = [(info, block) for language, info, block in FENCE.findall(text)
                  if language == "python"]
        if python and sanitized(tessera):
            report.skipped += len(python)
        elif python:
            run_python(name, python, folder, tessera, report)
    prose = FENCE.sub("", text)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        report.note((path.parent / target).exists(), f"{name}: link to {target} leads nowhere")
    for target in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", prose):
        report.note((ROOT / target).exists(), f"{name}: {target} does not exist")
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z][a-z-]+)`", prose):
        report.note(re.search(rf"^{target}:", makefile, re.M) is not None,
                    f"{name}: no target {target} in the Makefile")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, required=True)
    tessera = parser.parse_args().tessera.resolve()
    report = Report()
    made = subprocess.run([sys.executable, str(ROOT / "scripts/docs.py"), "--check"],
                          capture_output=True, text=True)
    report.note(made.returncode == 0, made.stdout + made.stderr)
    for script in ("bench/ladder.py", "scripts/docs_architecture.py"):
        made = subprocess.run([sys.executable, str(ROOT / script), "--tessera", str(tessera),
                               "--check"], capture_output=True, text=True)
        report.note(made.returncode == 0, made.stdout + made.stderr)
    for path in [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.exists():
            check_file(path, tessera, report)
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
