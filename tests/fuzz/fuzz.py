#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs: the interpreter, CPU -O0 and CPU -O3 must agree, with passes left out, with
other schedules, and after the passes for other targets.

    fuzz.py --fuzz build/tests/tessera-fuzz [--count 1000] [--first SEED] [--device cuda]

A program that fails is made small and written to --out with the command that shows it. Prints the
counts, then `N passed, N failed`."""

import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys

import generate
from shrink import shrink

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402
import suite  # noqa: E402

BAD = {"differs", "outside", "fault", "internal", "crash", "timeout", "invalid", "refused",
       "environment", "usage"}
CHUNK = 100
KNOWN = pathlib.Path(__file__).with_name("known.txt")
MENDED = sorted(pathlib.Path(__file__).parent.glob("mended*.tile"))


def run(options, text, jobs, seconds=None, env=None):
    command = [options.fuzz, "--jobs", str(jobs), "--device", options.device, "--seconds",
               f"{patience.seconds(seconds or options.seconds):.0f}"]
    if options.memory:
        command = ["sh", "-c", f'ulimit -v {options.memory << 10}; exec "$@"', "sh", *command]
    done = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace",
                          env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def way_of(row):
    """What makes two failures the same."""
    said = re.search(r"error\[E\d+\]|internal error: [^|]*", row[3])
    first = re.sub(r"\d+|%[\w.]+", "", said.group()) if said else ""
    return row[1], first if row[1] in ("invalid", "refused", "internal") else ""


def named(text, name):
    return re.sub(r"(?m)^#: program .*$", f"#: program {name}", text, count=1).rstrip() + "\n"


def reduced(options, text, row):
    want = way_of(row)
    if row[2] and row[1] != "crash":
        only = "".join(s for s in text.splitlines(True)
                       if not s.startswith("#: run") or s == f"#: run {row[2]}\n")
        text = only if only.count("#: run") == 1 else text
    seconds = 30 if row[1] == "timeout" else 10

    def fails(texts):
        text = "".join(named(t, i) for i, t in enumerate(texts))
        rows = run(options, text, options.jobs, seconds)
        same = {int(r[0]) for r in rows if way_of(r) == want}
        return [i in same for i in range(len(texts))]
    if not fails([text])[0]:
        return text
    return shrink(text, fails)


def keep(options, text, row):
    small = reduced(options, text, row) if options.shrink else text
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{row[1]}_{row[0]}.tile"
    path.write_text(small)
    print(f"{row[1]}: program {row[0]}, {row[2] or 'the interpreter'}: {row[3][:300]}")
    print(f"    {options.fuzz} --device {options.device} {path}")
    print("".join(f"    | {line}\n" for line in small.splitlines()), end="", flush=True)


def mended():
    """Programs that failed once, by their names."""
    parts = [part for path in MENDED for part in path.read_text().split("#: program ")[1:]]
    return {part.split("\n")[0]: "#: program " + part for part in parts}


def arguments():
    parser = suite.parser(__doc__, program="--fuzz", device="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=0)
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--targets", type=lambda s: s.split(","), default=[],
                        help="GPUs that are not here: sm_90a,gfx942,gfx1100")
    parser.add_argument("--most", type=int, default=10, help="failures that are made small")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("fuzz-failures"))
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    parser.add_argument("--seconds", type=int, default=30, help="that a program may take")
    parser.add_argument("--memory", type=int, default=0, help="MiB that a process may have")
    parser.add_argument("--fail-fast", action="store_true", help="nothing after the first failure")
    options = suite.options_of(parser)
    options.cuda = options.device != "cpu"
    return options


def main():
    options = arguments()
    counts, compared, unbounded, failures = collections.Counter(), 0, 0, []

    size = CHUNK // 5 if options.fail_fast else CHUNK

    def chunk(first):
        if first is None:
            return mended(), run(options, "".join(mended().values()), 1)
        seeds = range(first, min(first + size, options.first + options.count))
        texts = {str(s): generate.program(s, options) for s in seeds}
        return texts, run(options, "".join(texts.values()), 1)
    firsts = [None, *range(options.first, options.first + options.count, size)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for texts, rows in pool.map(chunk, firsts):
            lost = set(texts) - {r[0] for r in rows}
            rows += [[name, "crash", "", "no answer"] for name in lost]
            for row in rows:
                counts[row[1]] += 1
                if row[1] == "ok":
                    a, b = row[3].split()
                    compared, unbounded = compared + int(a), unbounded + int(b)
                elif row[1] in BAD:
                    failures.append((texts[row[0]], row))
            if failures and options.fail_fast:
                pool.shutdown(wait=False, cancel_futures=True)
                options.shrink = False
                break
    known = {line.split()[0] for line in KNOWN.read_text().splitlines() if line[:1].isdigit()}
    expected = [row for _, row in failures if row[0] in known]
    failures = [(text, row) for text, row in failures if row[0] not in known]
    for text, row in failures[:options.most]:
        keep(options, text, row)
    for _, row in failures[options.most:]:
        print(f"{row[1]}: program {row[0]}, {row[2]}: {row[3][:200]}")
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())) +
          f"; {compared} elements compared, {unbounded} without a bound")
    if expected:
        print(f"{len(expected)} fail as known.txt says")
    print(f"{counts['ok']} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
