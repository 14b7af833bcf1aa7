# SPDX-License-Identifier: Apache-2.0
"""fmt.py PROGRAM FOLDER: formats every source of the tree that is not wrong on purpose, twice, and
compares what the front end makes of it. Prints `N passed, N failed`."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = "bf16"


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def ir_of(tessera, path, kernel):
    """The IR of the front end, or the error without its places."""
    done = run(tessera, "compile", f"{path}:{kernel}", "--target", "native", "--stop-after",
               "frontend", "--emit", "ir", "--set", f"T={TYPES}")
    return re.sub(r"(?m)^ *--> .*$|^ *\d* *\|.*$", "", done.stdout + done.stderr)


def check(tessera, folder, path):
    text = path.read_text()
    once = run(tessera, "fmt", "-", text=text)
    twice = run(tessera, "fmt", "-", text=once.stdout)
    if once.returncode or once.stdout != twice.stdout:
        return f"{path}: {once.stderr or 'formatting again changes it'}"
    formatted = folder / path.name
    formatted.write_text(once.stdout)
    if path.parent.name != "stdlib":
        for kernel in re.findall(r"(?m)^kernel (\w+)", text):
            if ir_of(tessera, path, kernel) != ir_of(tessera, formatted, kernel):
                return f"{path}: {kernel} means something else"
    return None


def main():
    tessera, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    sources = [*ROOT.glob("examples/**/*.tile"), *ROOT.glob("stdlib/**/*.tile"),
               *(p for p in ROOT.glob("tests/frontend/*.tile") if "invalid" not in p.name)]
    problems = [check(tessera, folder, path) for path in sorted(sources)]
    found = [problem for problem in problems if problem]
    print("\n".join([*found, f"{len(problems) - len(found)} passed, {len(found)} failed"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
