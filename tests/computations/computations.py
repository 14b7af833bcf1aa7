#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""computations.py --tessera PROGRAM --axes TOOL [--write] [--only PATTERN] [--kernelbench FOLDER]
[--folder FOLDER]…: prints the computations of all programs of the corpus of tests/digests, and
compares their axes after `fuse` with the classes of axes that union-find makes (TOOL,
tests/tools/tessera_axes.c).

differences.data lists each difference: the kernel, its parameters, and a line of TOOL. Other
differences, and those that are gone, fail; --write writes them anew and keeps the comments.
--folder adds the kernels of the .tile files below it, of which the list has no lines: theirs are
printed. Prints `N passed, N failed`."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "digests"), str(ROOT / "tests")]
import digests  # noqa: E402
import patience  # noqa: E402

DATA = pathlib.Path(__file__).with_name("differences.data")
TARGET = "sm_90a"


def added(folders):
    for folder in folders:
        for file in sorted(folder.glob("**/*.tile")):
            for name in digests.kernels_of(file):
                yield f"{file.relative_to(folder)}:{name}", f"{file}:{name}", "", {}, {}, [TARGET]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=patience.seconds(60))


def work(options, folder, job):
    """(kernel and parameters, its differences); or a text that says what failed, or None: the
    program is refused."""
    number, (name, source, sets, sizes, prefer, _) = job
    out = folder / f"{number}.ir"
    sets = digests.bound(options.tessera, str(source), sets, prefer, folder / f"{number}.out")
    taken = {word.split("=")[0] for word in sets.split(",")}
    sizes = digests.text_of({k: v for k, v in sizes.items() if k not in taken})
    command = [options.tessera, "compile", str(source), "--target", TARGET, "--emit", "ir", "-o",
               str(out), "--no-pins", "--print-computations", "--stop-after", "fuse"]
    command += (["--set", sets] if sets else []) + (["--size", sizes] if sizes else [])
    key = f"{name} set:{sets} size:{sizes}"
    made = run(command)
    if made.returncode:
        return key, None if re.search(r"error\[E\d", made.stderr) else made.stderr
    kernel = re.search(r"^computations (\w+) \{\n(  c0: |\})", made.stderr, re.M)
    compared = run([options.axes, str(out)])
    if not kernel or compared.returncode:
        return key, made.stderr[-300:] + compared.stderr
    return key, compared.stdout.splitlines()[:-1]


def listed(text):
    """{kernel and parameters: its lines}, and the comments at the top."""
    found, key = {}, None
    for line in text.splitlines():
        if line.startswith("    "):
            found[key].append(line.strip())
        elif line and not line.startswith("#"):
            key = line
            found[key] = []
    return found, "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=os.path.abspath)
    parser.add_argument("--axes", required=True, type=os.path.abspath)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--kernelbench", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.root = ROOT
    os.environ["TESSERA_CACHE"] = "off"
    known, comments = listed(DATA.read_text())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        jobs = digests.corpus(options, folder) + list(added(options.folder))
        jobs = [job for job in jobs if re.search(options.only, job[0])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda job: work(options, folder, job), enumerate(jobs)))
    results = {key: found for key, found in results if found is not None}
    lines = {key: found for key, found in results.items() if found}
    if options.write:
        DATA.write_text(comments + "".join(
            f"\n{key}\n" + "".join(f"    {line}\n" for line in lines[key])
            for key in sorted(lines)))
        return 0
    failed = [key for key in results if results[key] != known.get(key, [])]
    gone = [key for key in known if key not in results and not key.startswith("kernelbench/")]
    failed += [] if options.only else gone
    for key in failed:
        print(f"{key}\n  is: {results.get(key)}\n  listed: {known.get(key, [])}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
