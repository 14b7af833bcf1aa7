#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites that CTest knows of builds, and sums what they count. Long ones run when they
are asked for, and then alone. Last line, alone: `N passed, N failed`. The exit status is 1 when
anything failed.

    run.py BUILD [--also BUILD] [--long] [--only PATTERN]"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

OWN = re.compile(r"^(?:\S+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
LIT = re.compile(r"^ +(Passed|Failed|Unresolved|Timed Out|Unexpectedly Passed) *: +(\d+)", re.M)


def suites(build, options):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                             check=True, capture_output=True, text=True).stdout
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        long = "long" in properties.get("LABELS", [])
        if long == options.long and re.search(options.only, test["name"]):
            yield test["name"], test.get("command"), properties


def counts(output):
    """(passed, failed) as a suite's output says, or None."""
    own = OWN.findall(output)
    if own:
        return int(own[-1][0]), int(own[-1][1])
    check = CHECK.findall(output)
    if check:
        total, failures, errors = (sum(int(row[i]) for row in check) for i in range(3))
        return total - failures - errors, failures + errors
    lit = {name: int(n) for name, n in LIT.findall(output)}
    if lit:
        passed = lit.pop("Passed", 0)
        return passed, sum(lit.values())
    return None


def run(name, command, properties):
    begin = time.time()
    if not command:
        return name, 0, 1, "its program was not built\n", 0.0
    try:
        done = subprocess.run(command, cwd=properties.get("WORKING_DIRECTORY"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                              timeout=float(properties.get("TIMEOUT", 600)))
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(errors="replace") + "\ntimed out\n", 124
    passed, failed = counts(output) or ((1, 0) if code == 0 else (0, 1))
    if code != 0 and failed == 0:
        failed = 1
    return name, passed, failed, output, time.time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--also", action="append", default=[], help="another build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="suites whose name has this pattern")
    options = parser.parse_args()
    os.environ["TESSERA_CACHE"] = "off"  # what is tested is made
    listed = [suite for build in [options.build, *options.also]
              for suite in suites(build, options)]
    total = [0, 0]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, *s) for s in listed]):
            name, passed, failed, output, seconds = done.result()
            total[0] += passed
            total[1] += failed
            if failed:
                print(output, end="" if output.endswith("\n") else "\n")
            print(f"{'FAIL' if failed else 'ok':4} {name:24} {passed:6} passed, {failed} failed"
                  f"  {seconds:6.1f} s", flush=True)
    if not listed:
        print("no suite: is the build configured?")
        total[1] += 1
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
