#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The language server, by sessions of a client: a function of cases_*.py each, whose argument
starts a client. Prints `N passed, N failed`."""

import concurrent.futures
import functools
import pathlib
import sys
import traceback

import cases_bad_input
import cases_features
import cases_session
import client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import suite  # noqa: E402

MODULES = [cases_session, cases_features, cases_bad_input]


def attempt(options, case):
    try:
        case(functools.partial(client.Client, options.tessera))
        return None
    except Exception:  # of any kind: the case failed
        return traceback.format_exc()


def main():
    options = suite.options_of(suite.parser(__doc__))
    cases = [function for module in MODULES for name, function in vars(module).items()
             if name.startswith("test_")]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, problem in zip(cases, pool.map(functools.partial(attempt, options), cases)):
            failed += bool(problem)
            if problem:
                print(f"{case.__module__}.{case.__name__}: {problem}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
