#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survey.py --tessera PROGRAM: does every kernel become good code for every NVIDIA part, at sizes
and types that nobody looked at?

Kernels of the examples, the benchmarks, the language's tests and the standard library are
compiled, assembled by ptxas and explained, with types, sizes (known and unknown, up to 2^31
elements) and a target drawn from the seed. Reported are: errors that are not the source's or the
sizes', IR that does not verify, what ptxas warns of, shared memory beyond the part's, compilations
that take long, and quantities of `explain` that cannot be. Spills and other local memory are
counted; with --all they are failures, too. Nothing is run: no GPU is needed. A case that fails
is printed with a command that shows it again. Without ptxas all others are skipped. Prints
`N passed, N failed, N skipped`.
"""

import collections
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import patience  # noqa: E402
import suite  # noqa: E402
from cases import TARGETS, Cases  # noqa: E402

# Sizes, constants and types that a program does not take: what is said is the caller's.
REFUSED = re.compile(r"^error(\[E(07\d\d|0412|1016)\]|: axis \d+ of '\w+' overflows)", re.M)

# In place of ptxas: keeps what it says beside what it was given. The same code is assembled once.
ASSEMBLER = """#!/bin/sh
for word; do case $word in /proc/self/fd/*) in=${in:-$word} out=$word ;; -arch=*) part=$word ;; esac
done
case $1 in --version) exec %(ptxas)s "$@" ;; esac
key=%(folder)s/$part-$(sha1sum <"$in" | cut -c1-40)
if ! [ -e $key.log ]; then
    %(ptxas)s "$@" 2>$key.$$; code=$?
    [ $code = 0 ] || { cat $key.$$ >&2; exit $code; }
    mv $key.$$ $key.log
fi
cat $key.log >&2
echo $key.log >>"$SURVEY_USED"
[ -s "$out" ] || echo "from the survey's folder" >"$out"
"""


def stand_in(folder):
    """A program that is used as ptxas."""
    found = os.environ.get("TESSERA_PTXAS") or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(found, os.X_OK):
        return None
    (folder / "assembled").mkdir()
    program = folder / "ptxas"
    program.write_text(ASSEMBLER % {"ptxas": found, "folder": folder / "assembled"})
    program.chmod(0o755)
    return program


def said_by_ptxas(log):
    """What is wrong with a kernel, as the assembler tells it."""
    for line in log.splitlines():
        if "warning" in line.lower() or "C7510" in line or "ignored" in line:
            yield re.sub(r"'[^']*'", "'…'", line.strip())
    for stack, stores, loads in re.findall(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log):
        if int(stores) or int(loads):
            yield f"{stores} bytes spilled"
        elif int(stack):
            yield f"{stack} bytes of local memory"


def numbers(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, path)
    elif value is None or isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


# Counted, and failures with --all: the models of registers and of accesses are not right for all.
COUNTED = ("bytes spilled", "bytes of local memory", "explaining takes too long")
TIMEOUT = 124
UNKNOWN = ".launches.blocks"  # -1 where a size is not known


def said_by_explain(report, limits):
    """Quantities that cannot be."""
    for path, value in numbers(report):
        if value is None or not math.isfinite(value):
            yield f"{path} is {value}"
        elif value < 0 and not (path == UNKNOWN and value == -1):
            yield f"{path} is negative"
    for launch in report.get("launches", []):
        yield from wrong_in_launch(launch, limits)


def wrong_in_launch(launch, shared_limit):
    name, roofline = launch["symbol"], launch.get("roofline") or {}
    if launch["shared_bytes"] > shared_limit:
        yield f"{name}: {launch['shared_bytes']} bytes of shared memory"
    if not launch.get("threads") or launch["threads"] > 1024:
        yield f"{name}: {launch.get('threads')} threads"
    occupancy = launch.get("occupancy") or {}
    if occupancy and (not occupancy["blocks"] or occupancy["share"] > 1):
        yield f"{name}: occupancy {occupancy['blocks']} blocks, {occupancy['share']}"
    least = max(roofline.get("memory_seconds") or 0, roofline.get("compute_seconds") or 0)
    if "predicted_seconds" in launch and launch["predicted_seconds"] < 0.99 * least:
        yield f"{name}: predicted {launch['predicted_seconds']:.3g} s, at least {least:.3g} s"
    stores = [a for a in launch.get("accesses", []) if a["kind"] == "store" and a.get("sectors")]
    if stores and not roofline.get("asked_written_bytes"):
        yield f"{name}: writes 0 bytes"
    for access in launch.get("accesses", []):
        if access.get("sectors") and access["sectors"] < 0.99 * (access.get("least_sectors") or 0):
            yield f"{name}: {access['kind']} {access['memory']} below its least sectors"


class Survey:
    def __init__(self, options, folder):
        self.options, self.folder, self.counts = options, folder, collections.Counter()
        self.limits = shared_limits(options.tessera)
        self.used = folder / "used"
        self.used.mkdir()
        self.environment = {**os.environ, "TESSERA_CACHE": "off"}
        self.assembler = stand_in(folder)
        if self.assembler:
            self.environment["TESSERA_PTXAS"] = str(self.assembler)
        self.deadline = time.monotonic() + options.seconds

    def command(self, case):
        return [self.options.tessera, "explain", *case.words()]

    def attempt(self, job):
        """None, or what is wrong."""
        number, case = job
        if time.monotonic() > self.deadline:
            return suite.LEFT_OUT
        used = self.used / str(number)
        command = [*self.command(case), "--json", "--verify", "--time-passes", "--no-pins"]
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=patience.seconds(300),
                                  env={**self.environment, "SURVEY_USED": str(used)})
        except subprocess.TimeoutExpired:
            return self.told(case, ["takes more than 300 s of an idle machine"])
        if done.returncode in (1, 2) and REFUSED.search(done.stderr):
            self.counts["refused"] += 1
            self.record(number, case, refused=done.stderr)
            return suite.LEFT_OUT
        problems = list(self.problems(case, done, used))
        self.record(number, case, problems=problems, passes=pass_times(done.stderr),
                    said=done.stderr[-3000:] if done.returncode else "",
                    report=done.stdout if self.options.reports else "")
        return self.told(case, problems) or (None if self.assembler else suite.SKIPPED)

    def problems(self, case, done, used):
        if done.returncode == TIMEOUT:
            yield "explaining takes too long"
            return
        if done.returncode:
            error = re.search(r"^(error|internal).*", done.stderr, re.M)
            yield f"exit {done.returncode}: {error[0] if error else done.stderr[-300:]}"
            return
        for log in dict.fromkeys(used.read_text().split()) if used.exists() else ():
            yield from said_by_ptxas(pathlib.Path(log).read_text())
        decoder, text = json.JSONDecoder(), done.stdout.strip()
        while text:
            report, end = decoder.raw_decode(text)
            yield from said_by_explain(report, self.limits[case.target])
            text = text[end:].lstrip()
        slow = sum(pass_times(done.stderr).values())
        if slow > self.options.slow * 1000:
            yield f"compiling takes {slow / 1000:.1f} s"

    def told(self, case, problems):
        problems = list(dict.fromkeys(problems))
        self.counts.update(re.sub(r"\d+", "N", problem) for problem in problems)
        if not self.options.all:
            problems = [p for p in problems if not p.endswith(COUNTED)]
        again = " ".join(self.command(case)).replace(str(self.folder), "DIR")
        return "; ".join(problems) + f"\n    {again}" if problems else None

    def record(self, number, case, **what):
        if self.options.record:
            with open(self.options.record, "a") as file:
                file.write(json.dumps({"number": number, "words": case.words(), **what}) + "\n")


def pass_times(said):
    return {name: float(ms) for name, ms in re.findall(r"^(\S+) +([\d.]+) ms$", said, re.M)}


def shared_limits(tessera):
    done = subprocess.run([tessera, "targets"], capture_output=True, text=True, check=True)
    return {name: int(limit) for name, limit in
            re.findall(r"^(sm_\w+) +nvptx +\d+ +\d+ +(\d+)", done.stdout, re.M)}


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: of the clock; printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins after so many")
    parser.add_argument("--slow", type=float, default=10, help="seconds that compiling may take")
    parser.add_argument("--all", action="store_true",
                        help="what is counted otherwise is a failure, too: spills")
    parser.add_argument("--target", action="append", help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--only", default="", help="a pattern of FILE:KERNEL")
    parser.add_argument("--record", help="a file that gets a line of JSON a case")
    parser.add_argument("--reports", action="store_true", help="with what `explain` says")
    options = suite.options_of(parser)
    seed = options.seed if options.seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        survey, cases = Survey(options, folder), Cases(options.tessera, folder, options.only)
        drawn = [cases.draw(seed, number, options.target or TARGETS)
                 for number in range(options.first, options.first + options.count)]
        status = suite.run(options, enumerate(drawn, options.first), survey.attempt,
                           lambda job: f"case {job[0]}")
        for problem, count in survey.counts.most_common():
            print(f"# {count:5} {problem}")
    return status


if __name__ == "__main__":
    sys.exit(main())
