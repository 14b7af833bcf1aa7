# SPDX-License-Identifier: Apache-2.0
"""What suites of many small runs share: their options, running several at a time, counting."""

import argparse
import concurrent.futures
import os

LEFT_OUT = object()  # what an attempt returns that is no test: it says nothing
SKIPPED = object()  # what one returns that needs what is not here


def parser(doc, program="--tessera", device=None):
    """Of a suite that runs `program`, on the device, or on several of them: "interp,cpu"."""
    made = argparse.ArgumentParser(description=doc)
    made.add_argument(program, required=True, type=os.path.abspath)
    made.add_argument("--jobs", type=int, default=os.cpu_count())
    add_part(made)
    if isinstance(device, str):
        made.add_argument("--device", default=device)
    elif device:
        made.add_argument("--device", action="extend", type=lambda text: text.split(","),
                          help=f"default: {', '.join(device)}")
        made.set_defaults(otherwise=list(device))
    return made


def add_part(made):
    made.add_argument("--part", type=lambda text: [int(n) for n in text.split("/")],
                      default=[0, 1], metavar="K/N", help="each N-th of the cases, from the K-th")


def part_of(options, cases):
    """Those that --part names: `make check` runs a part of suites that `make check-long` runs as a
    whole."""
    first, step = options.part
    return list(cases)[first::step]


def options_of(made):
    options = made.parse_args()
    options.asked = getattr(options, "device", None) is not None
    if hasattr(options, "otherwise"):
        options.device = options.device or options.otherwise
    return options


def run(options, jobs, attempt, name):
    """attempt(job) gives None, or what went wrong, LEFT_OUT or SKIPPED. Prints what went wrong,
    after name(job), and the counts; returns the exit status."""
    jobs = list(jobs)
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for job, problem in zip(jobs, pool.map(attempt, jobs)):
            if problem is LEFT_OUT:
                continue
            if problem is SKIPPED:
                skipped += 1
                continue
            passed, failed = passed + (not problem), failed + bool(problem)
            if problem:
                print(f"{name(job)}: {problem}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
