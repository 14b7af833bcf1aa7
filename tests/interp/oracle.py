#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs IR text in the interpreter and compares with answers computed here, without it.

table.py has every operation on every element type, index.py index notation, scans, folds, loops
and notes, wrong.py faults that must be found. Prints what is wrong, then `N passed, N failed`.
"""

import argparse
import sys

import index
import table
import wrong
from run import Runner


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--interp", required=True, help="the tool tessera-interp")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    passed = failed = 0
    for name, case in [*table.cases(), *index.cases(), *wrong.cases()]:
        if options.pattern not in name:
            continue
        try:
            with Runner(options.interp) as runner:
                problem = case(runner)
        except AssertionError as failure:
            problem = str(failure) or "assertion"
        passed += problem is None
        failed += problem is not None
        if problem is not None:
            print(f"{name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
