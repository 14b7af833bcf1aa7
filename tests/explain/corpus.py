#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `explain` says of each kernel of the examples, the lessons and tests/cases contradicts
nothing else that it says: bytes, sectors and times fit one another (least.py), the roofline page's
numbers do, and what it advises is true of the numbers beside it. A size that is advised is taken,
and gives what was said. Warnings about waste (W2007, W2008) are only of sources that are listed
here, which ask for it. The targets take turns, or with --all each kernel is for all. Prints
`N passed, N failed, N skipped`."""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]
import least  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

FOLDERS = ("examples", "lessons", "tests/cases")
TARGETS = ("sm_90a", "gfx942")
VALUES = (512, 257, 1000)  # of sizes, in turn
WASTEFUL = {  # a source may ask for waste, and is told so
    "lessons/07-coalescing": "the lesson shows an access that cannot be coalesced",
}


def kernels():
    """Source and name, options, and target, of what can be explained."""
    turn = 0
    for path in sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*.tile")):
        for name, params in re.findall(r"^kernel (\w+)\s*\(((?:.|\n)*?)\)\s*->", path.read_text(),
                                       re.M):
            axes = re.findall(r"\[([^\]]*)\]", params)
            sizes = list(dict.fromkeys(re.findall(r"\b[A-Z]\w*", " ".join(axes))))
            types = sorted(set(re.findall(r":\s*([A-Z]\w*)\[", params)))
            if not sizes:
                continue
            given = {s: VALUES[i % len(VALUES)] for i, s in enumerate(sizes)}
            sets = [word for one in types for word in ("--set", f"{one}=bf16")]
            turn += 1
            yield f"{path}:{name}", sets, given, turn


def explain(options, source, sets, given, target):
    """The report, and what was said on the standard error; None: it cannot be had."""
    sizes = ",".join(f"{name}={value}" for name, value in given.items())
    done = subprocess.run([options.tessera, "explain", source, *sets, "--size", sizes, "--target",
                           target, "--json"], capture_output=True, text=True,
                          timeout=patience.seconds(60))
    if done.returncode:
        assert done.returncode in (1, 2), f"exit status {done.returncode}: {done.stderr[-300:]}"
        return None, done.stderr
    return json.loads(done.stdout), done.stderr


def times_fit(launch):
    roof, expected = launch["roofline"], launch.get("predicted_seconds")
    bound = max(roof["memory_seconds"], roof["compute_seconds"])
    assert expected is None or expected >= 0.999 * bound, f"expected {expected}, least {bound}"


def advice_fits(launch):
    """Numbers that advice names are those of the report."""
    roof, expected = launch["roofline"], launch.get("predicted_seconds")
    bound = max(roof["memory_seconds"], roof["compute_seconds"])
    for text in launch["advice"]:
        if text.startswith("bound by memory"):
            assert roof["bound"] == "memory", text
        if re.match("bound by (arithmetic|the matrix units|products)", text):
            assert roof["bound"] == "compute" or "ordinary units:" in text, text
        far = re.match(r"far from the roofline: the model expects (\d+) times", text)
        assert not far or abs(int(far[1]) - expected / bound) <= 0.51, text
        idle = re.match(r"(\d+) blocks? leaves? (\d+) of (\d+) ", text)
        if idle:
            blocks, rest, all_of = map(int, idle.groups())
            assert blocks == launch["blocks"] and blocks + rest == all_of, text
        moves = re.match(r"(?:line (\d+): )?([\w ]+) of (\w+) moves ([\d.]+) times", text)
        if moves:
            ratios = [a["sectors"] / a["least_sectors"] for a in launch["accesses"]
                      if a.get("least_sectors")]
            assert any(abs(r - float(moves[4])) < 0.06 for r in ratios), text
        assert not re.search(r"scratch\d* is f", text), f"names what no source has: {text}"
        assert not re.search(r"--\w+ \"?[^\"]*//", text), f"no option takes this: {text}"


def width_of(report, line, kind, memory):
    found = [a["bytes"] for launch in report["launches"] for a in launch["accesses"]
             if (a["line"], a["kind"], a["memory"]) == (line, kind, memory)]
    return max(found, default=0)


def follow(options, source, sets, given, target, launch):
    """A size that is advised makes the access wider, and no element dearer."""
    for text in launch["advice"]:
        hint = re.match(r"(?:line (\d+): )?([\w ]+?) of (\S+) takes (\d+) bytes a thread: .*"
                        r"\(--size (\w+)=(\d+)\)", text)
        if not hint:
            continue
        line, kind, memory, width, size, value = hint.groups()
        assert size in given and int(value) > given[size], text
        report, said = explain(options, source, sets, {**given, size: int(value)}, target)
        if report:
            now = width_of(report, int(line or 0), kind, memory)
            assert now == 0 or now > int(width), f"{now} bytes a thread with it: {text}"


def check(options, job):
    source, sets, given, turn = job
    problems, done = [], 0
    for i, target in enumerate(TARGETS):
        if not options.all and (turn + i) % len(TARGETS):
            continue
        report, said = explain(options, source, sets, given, target)
        name = source.removeprefix(f"{ROOT}/")
        try:
            waste = re.search(r"warning\[(W2007|W2008)\].*", said)
            assert not waste or any(name.startswith(w) for w in WASTEFUL), waste[0]
            for launch in report["launches"] if report else ():
                if "roofline" not in launch:  # some of its sizes are in no parameter
                    continue
                wrong = least.bytes_fit(launch, target)
                assert not wrong, wrong
                times_fit(launch)
                advice_fits(launch)
                follow(options, source, sets, given, target, launch)
        except AssertionError as problem:
            problems.append(f"{target}: {problem}")
        done += report is not None
    return "; ".join(problems) or (None if done else suite.LEFT_OUT)


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--all", action="store_true", help="each kernel for all targets")
    options = suite.options_of(parser)
    return suite.run(options, kernels(), lambda job: check(options, job), lambda job: job[0])


if __name__ == "__main__":
    sys.exit(main())
