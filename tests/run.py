#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites that CTest lists for one or several builds, and adds up their counts. The suites
that take longest begin first; with --long only the long suites run. The last line is
`N passed, N failed, N skipped`. The exit status is 1 if anything failed.

    run.py BUILD [--also BUILD] [--long] [--only PATTERN] [--slowest N] [--skips FILE]

The time limit of a suite is CTest's property TIMEOUT, extended on a slow or loaded machine
(patience.py). A suite that exceeds it is killed with all processes that it started, also those in
other sessions. --slowest lists the N text tests that took the most CPU time. --skips names a file
with lines `NAME NUMBER`: a suite that skips another number of tests has failed; suites without a
line must skip none."""

import argparse
import concurrent.futures
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass

import patience

OWN = re.compile(r"^(?:\S+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
LIT = re.compile(r"^ +(Passed|Failed|Unresolved|Timed Out|Unexpectedly Passed|Unsupported|Skipped)"
                 r" *: +(\d+)", re.M)
MARK = "TESSERA_SUITE"  # in the environment of all that a suite starts
TICK = 0.1  # seconds between two looks at a suite
STOP = threading.Event()  # set when all suites must end


@dataclass
class Result:
    name: str
    passed: int
    failed: int
    skipped: int
    output: str
    seconds: float  # that it took
    cpu: float      # seconds of CPU time, of it and all that it waited for


def suites(build, options):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                             check=True, capture_output=True, text=True).stdout
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        long = "long" in properties.get("LABELS", [])
        if long == options.long and re.search(options.only, test["name"]):
            yield test["name"], test.get("command"), properties


def counts(output):
    """(passed, failed, skipped) as a suite's output says, or None."""
    own = OWN.findall(output)
    if own:
        return tuple(int(n or 0) for n in own[-1])
    check = CHECK.findall(output)
    if check:
        total, failures, errors = (sum(int(row[i]) for row in check) for i in range(3))
        return total - failures - errors, failures + errors, 0
    lit = {name: int(n) for name, n in LIT.findall(output)}
    if lit:
        skipped = lit.pop("Unsupported", 0) + lit.pop("Skipped", 0)
        return lit.pop("Passed", 0), sum(lit.values()), skipped
    return None


# ---- processes ----

def read(path):
    """The contents of a file of /proc; empty if the process has ended or is another user's."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes_of(session, mark):
    """The processes of a suite: those of its session, and those with its mark in the environment,
    which also finds processes that began a session of their own or lost their parent."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        stat = read(f"/proc/{name}/stat").rsplit(b") ", 1)[-1].split()
        if len(stat) < 4 or stat[0] == b"Z":
            continue
        if int(stat[3]) == session or mark.encode() in read(f"/proc/{name}/environ").split(b"\0"):
            found.append(int(name))
    return found


def kill_all(session, mark):
    """Repeats until none is left, because a process may start another one meanwhile."""
    for _ in range(100):
        left = processes_of(session, mark)
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


class Clock:
    """Seconds that have passed, as an idle machine of the reference's speed would count them."""

    def __init__(self):
        self.spent, self.last, self.slow, self.looked = 0.0, time.monotonic(), 1.0, 0.0

    def tick(self):
        now = time.monotonic()
        if now - self.looked > 2:
            self.looked, self.slow = now, patience.slowness()
        self.spent, self.last = self.spent + (now - self.last) / self.slow, now
        return self.spent


def ends(process, limit):
    """False if the time limit has passed, or all suites are to stop. The process is not reaped
    here, so its number cannot be reused yet."""
    clock = Clock()
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if clock.tick() > limit or STOP.is_set():
            return False
        time.sleep(TICK)
    return True


def execute(command, folder, limit, settings=()):
    """(output, exit status, CPU seconds). All processes that the command started are killed."""
    mark = f"{MARK}={uuid.uuid4()}"
    environment = {**os.environ, **dict(settings), MARK: mark.split("=")[1]}
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
        in_time = ends(process, limit)
        kill_all(process.pid, mark)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        file.seek(0)
        output = file.read().decode(errors="replace")
    if not in_time:
        output += f"\ntimed out after {limit:.0f} seconds of an idle machine\n"
    return output, process.returncode if in_time else 124, usage.ru_utime + usage.ru_stime


def run(name, command, properties):
    begin = time.time()
    if not command:
        return Result(name, 0, 1, 0, "its program was not built\n", 0.0, 0.0)
    settings = [setting.split("=", 1) for setting in properties.get("ENVIRONMENT", [])]
    settings += [("CK_TIMEOUT_MULTIPLIER", f"{10 * patience.slowness():.0f}")]
    output, code, cpu = execute(command, properties.get("WORKING_DIRECTORY"),
                                float(properties.get("TIMEOUT", 600)), settings)
    passed, failed, skipped = counts(output) or ((1, 0, 0) if code == 0 else (0, 1, 0))
    if code != 0 and failed == 0:
        failed = 1
    return Result(name, passed, failed, skipped, output, time.time() - begin, cpu)


# ---- output ----

def read_skips(path):
    """Numbers of skipped tests, by suite."""
    with open(path) as file:
        rows = [line.split("#")[0].split() for line in file]
    return {row[0]: int(row[1]) for row in rows if row}


def check_skips(result, known):
    """Fails the suite if it skipped another number of tests than the file of known skips says."""
    if known is not None and result.skipped != known.get(result.name, 0):
        result.output += (f"{result.name}: {result.skipped} skipped, where"
                          f" {known.get(result.name, 0)} are known\n")
        result.failed += 1


def tell(done):
    if done.failed:
        print(done.output, end="" if done.output.endswith("\n") else "\n")
    print(f"{'FAIL' if done.failed else 'ok':4} {done.name:24} {done.passed:6} passed,"
          f" {done.failed} failed, {done.skipped} skipped  {done.seconds:6.1f} s,"
          f" {done.cpu:6.1f} s of CPU", flush=True)


def tell_slowest(path, n):
    """Prints the slowest text tests, from the times that text_format.py wrote."""
    with open(path) as file:
        rows = [line.split(" ", 1) for line in file]
    for took, name in sorted(rows, key=lambda row: -float(row[0]))[:n]:
        print(f"{float(took):6.1f} s of CPU  {name}", end="")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--also", action="append", default=[], help="another build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="suites whose name has this pattern")
    parser.add_argument("--skips", metavar="FILE", help="how many tests of which suite are skipped")
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def run_all(listed, options):
    """Yields the results as the suites end. Ctrl-C ends all of them."""
    os.environ["TESSERA_PROBE"] = str(min(patience.probe() for _ in range(5)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        try:
            started = [pool.submit(run, *suite) for suite in listed]
            for done in concurrent.futures.as_completed(started):
                yield done.result()
        except BaseException:
            STOP.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # what a shell has in the background ignores one
        signal.signal(number, signal.default_int_handler)
    os.environ["TESSERA_CACHE"] = "off"  # tests compile everything anew
    listed = [suite for build in [options.build, *options.also]
              for suite in suites(build, options)]
    listed.sort(key=lambda suite: -float(suite[2].get("COST", 0)))
    known = read_skips(options.skips) if options.skips else None
    begin, total = time.time(), [0, 0, 0]
    with tempfile.NamedTemporaryFile() as times:
        os.environ["TESSERA_TEXT_TIMES"] = times.name
        for result in run_all(listed, options):
            check_skips(result, known)
            total = [a + b for a, b in zip(total, (result.passed, result.failed, result.skipped))]
            tell(result)
        tell_slowest(times.name, options.slowest)
    if not listed:
        print("no suite: is the build configured?")
        total[1] += 1
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.time() - begin:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
