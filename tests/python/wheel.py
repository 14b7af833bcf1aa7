#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py LIBRARY: makes the wheel twice, which are the same bytes; installs it, without an index,
in an environment of its own; and runs the package's tests there. Prints `N passed, N failed, N
skipped`."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def make(library, out):
    made = subprocess.run([sys.executable, ROOT / "scripts/wheel.py", library, out, "--fast"],
                          check=True, capture_output=True, text=True)
    return pathlib.Path(made.stdout.strip())


def main():
    library = pathlib.Path(sys.argv[1]).resolve()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        first, second = make(library, folder / "1"), make(library, folder / "2")
        same = first.read_bytes() == second.read_bytes()
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder / "venv"],
                       check=True)
        python = folder / "venv" / "bin" / "python"
        installed = subprocess.run([python, "-m", "pip", "install", "--no-index", "-q", first],
                                   capture_output=True, text=True)
        print(installed.stdout + installed.stderr, end="")
        for good, what in ((same, "two wheels of the same differ"),
                           (installed.returncode == 0, "it cannot be installed")):
            passed, failed = passed + good, failed + (not good)
            print("" if good else what + "\n", end="")
        shutil.rmtree(folder / "1")
        environment = {k: v for k, v in os.environ.items() if k not in ("TESSERA_LIBRARY",
                                                                        "PYTHONPATH")}
        environment["TESSERA_CACHE"] = "off"
        for test in ("structures.py", "calls.py", "tools.py", "package.py", "autograd.py",
                     "gradients.py", "compiled.py", "operators.py"):
            ran = subprocess.run([python, HERE / test, folder], cwd=folder, env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            counts = COUNTS.findall(ran.stdout)
            print(COUNTS.sub("", ran.stdout), end="")
            passed += int(counts[-1][0]) if counts else 0
            skipped += int(counts[-1][2] or 0) if counts else 0
            failed += int(counts[-1][1]) if counts else 1
            failed += ran.returncode != 0 and bool(counts) and counts[-1][1] == "0"
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
