#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mechanisms.py --tessera PROGRAM [--device cpu] [--sanitize TOOL,…] [PATTERN]: each way of making
code for a GPU (cases.py), executed and compared with the interpreter.

A CPU runs each program and size once, without lines, and `explain` must find each schedule line of
use on sm_90a. A GPU (`--device cuda`) runs them with the lines; then, with --sanitize, what hands
shared memory over runs once more under each of those tools of compute-sanitizer. Prints
`N passed, N failed, N skipped`."""

import functools
import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import cases  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

SECONDS = 60
TARGET = "sm_90a"


def done(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[1],
                              timeout=patience.seconds(SECONDS))
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not done in {SECONDS} s")


def problem_of(ran):
    said = (ran.stdout + ran.stderr).strip().splitlines()
    telling = [line for line in said if re.match("check|error|warning", line)] or said
    return "; ".join(telling[-4:]) or f"exit {ran.returncode}"


def checked(options, words):
    ran = done([options.tessera, "run", *words, "--device", options.device, "--check"])
    good = ran.returncode == 0 and re.search("^check ", ran.stdout, re.M)
    return None if good else problem_of(ran)


def explained(options, words, lines):
    """That each line is of use."""
    sizes = [word for at, word in enumerate(words)
             if "=" not in word or words[at - 1].startswith("--")]  # no arguments of kernels
    ran = done([options.tessera, "explain", *sizes, *lines, "--target", TARGET])
    idle = "decides nothing here" in ran.stdout + ran.stderr
    return problem_of(ran) if ran.returncode or idle else None


def sanitized(options, tool, words):
    command = [options.tessera, "run", *words, "--device", options.device]
    ran = done(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *command])
    return None if ran.returncode == 0 else f"{tool}: {problem_of(ran)}"


def jobs_of(options):
    """(title, what is run, the test)"""
    on_cpu, ran = options.device == "cpu", set()
    for case in cases.DERIVED + cases.ASKED:
        lines = [word for line in case.lines for word in ("--schedule", line)]
        words = case.words.split() + ([] if on_cpu else lines)
        shown = shlex.join(case.words.split() + lines)
        if options.pattern and not re.search(options.pattern, f"{case.title} {shown}"):
            continue
        if not on_cpu or case.words not in ran:
            yield case.title, shown, functools.partial(checked, options, words)
        ran.add(case.words)
        if on_cpu and lines:
            yield case.title, shown, functools.partial(explained, options, words, lines)
        for tool in options.sanitize.split(",") if options.sanitize and case.raced else ():
            yield case.title, shown, functools.partial(sanitized, options, tool, words)


def main():
    made = suite.parser(__doc__, device="cpu")
    made.add_argument("--sanitize", default="")
    made.add_argument("pattern", nargs="?")
    options = made.parse_args()
    return suite.run(options, jobs_of(options), lambda job: job[2](),
                     lambda job: f"{job[0]}: {job[1]}")


if __name__ == "__main__":
    sys.exit(main())
