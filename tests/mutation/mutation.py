#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are bugs noticed? A copy of the tree gets all bugs of mutants.py at once, asleep, and is built
once. Then each is woken in turn, by TESSERA_PLANTED, and the quick suites run until one notices.
Prints who noticed what, then `N passed, M failed`: none failed where 95 % are noticed.

    mutation.py --work FOLDER [--only N…] [--programs 200]
    mutation.py --table        does each row of the table fit its file?"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from mutants import AXES, PLANTS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"frontend": ["frontend"], "passes": ["passes", "ir"], "codegen": ["codegen"],
         "runtime": ["device", "runtime"]}
TOOLS = ["fuzz", "interp", "opt", "emit", "compare", "front", "amdgcn"]
TARGETS = ["tessera", *(f"tessera-{tool}" for tool in TOOLS),
           *(f"unit_{unit}" for units in UNITS.values() for unit in units)]
PASS_OF = {"layout": "assign_layouts"}  # passes of several files, by folder
ENOUGH = 0.95

# By folder of the bug: the suites that may notice it, those that notice most first. Only NumPy
# knows what a program means (meaning); random programs show that backends agree (fuzz).
SUITES = {
    "frontend": ["meaning", "lang", "text", "stdlib", "units", "examples"],
    "passes": ["fuzz", "own", "lang", "units", "text", "differential"],
    "codegen/gpu": ["text"],
    "codegen/amdgcn": ["objects"],
    "codegen": ["fuzz", "lang", "text", "units", "differential"],
    "runtime": ["units", "fuzz", "lang", "text"],
}


# ---- the tree with all bugs in it ----

def parts(row):
    """What is before the right expression, it, what is after."""
    before, rest = row[2].split("«")
    return before, *rest.split("»")


def is_expression(text):
    """False if a bug of this text could not be chosen at run time."""
    pairs = ("()", "[]", "{}")
    return bool(text.strip()) and all(text.count(a) == text.count(b) for a, b in pairs)


def check_table():
    """Does each row fit its file, and is it one expression in place of another?"""
    bad = 0
    for row in PLANTS:
        times = (ROOT / row[1]).read_text().count("".join(parts(row)))
        whole = is_expression(parts(row)[1]) and is_expression(row[3])
        bad += times != 1 or not whole
        if not whole:
            print(f"{row[0]}: {row[2]!r} or {row[3]!r} is no expression: tests/mutation/mutants.py")
        if times != 1:
            print(f"{row[0]}: {row[1]} has {times} times {row[2]!r}: tests/mutation/mutants.py")
    print(f"{len(PLANTS) - bad} passed, {bad} failed")
    return bad


def planted(text, n, row):
    """The file's text with bug number n in it."""
    before, right, after = parts(row)
    wrong = row[3]
    chosen = f"(planted({n}) ? ({wrong}) : ({right}))"
    return text.replace(before + right + after, before + chosen + after)


def texts():
    """{name: bytes} of what git knows, as it is here now, with the bugs."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split("\n")
    found = {n: (ROOT / n).read_bytes() for n in names if n and (ROOT / n).is_file()}
    for n, row in enumerate(PLANTS, 1):
        found[row[1]] = planted(found[row[1]].decode(), n, row).encode()
    for name in {row[1] for row in PLANTS}:
        found[name] = b"_Bool planted(int which);\n#line 1\n" + found[name]
    found["support/planted.c"] = (ROOT / "tests/mutation/mutant.c.in").read_bytes()
    return found


def build(options):
    tree, folder = options.work / "tree", options.work / "build"
    for name, text in texts().items():
        to = tree / name
        if not to.is_file() or to.read_bytes() != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(text)
            shutil.copymode(ROOT / name, to) if (ROOT / name).is_file() else None
    if not (folder / "build.ninja").is_file():
        cached = [f"-DCMAKE_{lang}_COMPILER_LAUNCHER=ccache" for lang in ("C", "CXX")]
        subprocess.run(["cmake", "-G", "Ninja", "-S", tree, "-B", folder,
                        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1",
                        "-DCMAKE_C_FLAGS=-w", *(cached if shutil.which("ccache") else [])],
                       check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-C", folder, *TARGETS], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-4000:])


# ---- who notices ----

def commands(options, suite, name):
    tests, built = options.work / "tree" / "tests", options.work / "build"
    tessera, python = built / "bin/tessera", sys.executable
    component = name.split("/")[0]
    text = {"runtime": "cli/", "codegen": "codegen/gpu/"}.get(component, component + "/")
    if suite == "fuzz":
        return [[python, tests / "fuzz/fuzz.py", "--fuzz", built / "tests/tessera-fuzz", "--first",
                 "2001", "--count", options.programs, "--passes", "--fail-fast", "--jobs", "1"]]
    if suite == "meaning":
        return [[python, tests / "fuzz/meaning.py", "--tessera", tessera, "--jobs", "1", "--count",
                 2 * options.programs]]
    if suite == "lang":
        return [[python, tests / "lang/lang.py", "--tessera", tessera, "--device", "interp,cpu",
                 "--jobs", "1"]]
    if suite == "own":
        path = pathlib.Path(name)  # a pass of one file, or one of the files of a folder's pass
        own = (ROOT / "tests/passes" / path.stem).is_dir()
        pass_name = path.stem if own else PASS_OF.get(path.parent.name, path.parent.name)
        return [["lit-22", "-q", "-j1", "--allow-empty-runs", f"--filter=passes/{pass_name}/",
                 built / "tests"]]
    if suite == "text":
        return [["lit-22", "-q", "-j1", "--max-failures=1", f"--filter={text}", built / "tests"]]
    if suite == "verifier":
        return [[python, tests / "mutation/axes.py", "--tessera", tessera]]
    if suite == "units":
        return [[built / f"tests/unit_{u}"] for u in UNITS[component]]
    if suite == "differential":
        return [[python, tests / "differential/differential.py", "--tessera", tessera, "--few",
                 "--device",
                 "cpu"]]
    if suite == "objects":
        return [[python, tests / "codegen/emulator/objects.py", "--tessera", tessera, "--emulator",
                 built / "tests/tessera-amdgcn", "--target", "gfx90a,gfx942,gfx950,gfx1100,gfx1201",
                 "--jobs", "1"]]
    if suite == "stdlib":
        return [[python, tests / "stdlib/stdlib.py", "--tessera", tessera]]
    return [[python, tests / "examples/examples.py", "--tessera", tessera, "--jobs", "1"]]


def notices(options, suite, name, awake):
    for command in commands(options, suite, name):
        try:
            done = subprocess.run([str(c) for c in command], cwd=options.work / "tree",
                                  env={**os.environ, "TESSERA_PLANTED": str(awake),
                                       "TESSERA_CACHE": "off"},
                                  capture_output=True, timeout=patience.seconds(options.seconds))
        except subprocess.TimeoutExpired:
            return True
        if done.returncode:
            return True
    return False


def suites_for(row):
    if row in AXES:
        return ["verifier"]
    return next(s for folder, s in SUITES.items() if row[1].startswith(folder + "/"))


def wake(options, n):
    """The suite that notices bug n (None: nobody), and seconds."""
    begin, name = time.time(), PLANTS[n - 1][1]
    suite = next((s for s in suites_for(PLANTS[n - 1]) if notices(options, s, name, n)), None)
    return suite, time.time() - begin


def asleep():
    """Without any bug all suites pass."""
    components = {row[1].split("/")[0]: row[1] for row in PLANTS}
    checks = {(s, components[row[1].split("/")[0]] if s in ("own", "text", "units") else row[1])
              for row in PLANTS for s in suites_for(row)}
    return sorted({suite + name * (suite in ("own", "text", "units")): (suite, name)
                   for suite, name in checks}.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=300, help="that a suite may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    bad = check_table()
    if bad or options.table:
        return 1 if bad else 0
    options.work = options.work.resolve()
    build(options)
    found, wanted = 0, options.only or range(1, len(PLANTS) + 1)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if not options.only:
            checks = asleep()
            failed = list(pool.map(lambda c: notices(options, *c, 0), checks))
            if any(failed):
                sys.exit(f"without any bug: {[c for c, bad in zip(checks, failed) if bad]} fail")
        woken = {pool.submit(wake, options, n): n for n in wanted}
        for done in concurrent.futures.as_completed(woken):
            n, (suite, seconds) = woken[done], done.result()
            found += suite is not None
            print(f"{n:2} {suite or 'NOBODY':7} {seconds:4.0f} s  {PLANTS[n - 1][0]}", flush=True)
    missed = len(wanted) - found
    enough = found >= ENOUGH * len(wanted)
    print(f"{len(wanted)} bugs, {found} noticed")
    print(f"{found} passed, {0 if enough else missed} failed")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
