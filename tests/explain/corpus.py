#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `explain` says of each kernel of the examples, the lessons and tests/cases contradicts
nothing else that it says: bytes, sectors and times fit one another (least.py), the roofline page's
numbers do, and what it notes is true of the numbers beside it. Each hint is followed, by the entry
of the schedule, the size, the promise or the text that it names: the model then says what the hint
said. No hint saves less than LEAST_GAIN, or comes below the least time. Warnings about waste
(W2007, W2008) are only of sources that are listed here, which ask for it. The targets take turns,
or with --all each kernel is for all. Prints `N passed, N failed, N skipped`."""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]
import least  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

FOLDERS = ("examples", "lessons", "tests/cases")
TARGETS = ("sm_90a", "gfx942")
VALUES = (512, 257, 1000)  # of sizes, in turn
LEAST_GAIN = 0.03
LEAST_FOLLOWED = 60
FOLLOWED = collections.Counter()  # hints, by their kind
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


def explain(options, source, sets, given, target, more=()):
    """The report, and what was said on the standard error; None: it cannot be had."""
    sizes = ",".join(f"{name}={value}" for name, value in given.items())
    done = subprocess.run([options.tessera, "explain", source, *sets, "--size", sizes, "--target",
                           target, "--json", *more], capture_output=True, text=True,
                          timeout=patience.seconds(60))
    if done.returncode:
        assert done.returncode in (1, 2), f"exit status {done.returncode}: {done.stderr[-300:]}"
        return None, done.stderr
    return json.loads(done.stdout), done.stderr


def times_fit(launch):
    roof, expected = launch["roofline"], launch.get("predicted_seconds")
    bound = max(roof["memory_seconds"], roof["compute_seconds"])
    assert expected is None or expected >= 0.999 * bound, f"expected {expected}, least {bound}"


def notes_fit(launch):
    """Numbers that a note names are those of the report."""
    roof, expected = launch["roofline"], launch.get("predicted_seconds")
    bound = max(roof["memory_seconds"], roof["compute_seconds"])
    for text in launch["notes"]:
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


def seconds_of(report):
    return sum(launch.get("predicted_seconds", 0) for launch in report["launches"])


def with_edits(path, hint):
    """The text with what the hint writes in the place of what is there."""
    text = pathlib.Path(path).read_bytes()
    for edit in sorted(hint["edits"], key=lambda e: -e["start"]):
        was = text[edit["start"]:edit["end"]].decode()
        assert was == edit["was"], f"`{was}` is there, not `{edit['was']}`"
        text = text[:edit["start"]] + edit["text"].encode() + text[edit["end"]:]
    return text


def with_promise(path, name, line):
    """The text with a line at the beginning of the kernel's body; None: it has an expression."""
    text = pathlib.Path(path).read_text()
    head = re.search(rf"^kernel {name}\s*\((?:.|\n)*?\)\s*->[^=]*?\{{\n", text, re.M)
    return head and f"{text[:head.end()]}    {line}\n{text[head.end():]}".encode()


def follow(options, source, sets, given, target, hint):
    """The report of the program with the change that the hint names; None: there is none."""
    path, name = source.rsplit(":", 1)
    kind, line = hint["kind"], hint["line"]
    if kind == "schedule":
        return explain(options, source, sets, given, target, ("--schedule", line))
    if kind == "size":
        size, value = re.fullmatch(r"--size (\w+)=(\d+)", line).groups()
        assert int(value) > given[size], line
        return explain(options, source, sets, {**given, size: int(value)}, target)
    text = (with_edits(path, hint) if kind == "source" else with_promise(path, name, line))
    if text is None:
        return None, ""
    with tempfile.NamedTemporaryFile(suffix=".tile", dir=pathlib.Path(path).parent) as other:
        other.write(text)
        other.flush()
        return explain(options, f"{other.name}:{name}", sets, given, target)


def hints_fit(options, source, sets, given, target, report):
    """What a hint says before and after is what the model says before and after."""
    now = seconds_of(report)
    for hint in report["hints"]:
        before, after = hint["predicted_seconds"], hint["predicted_seconds_with"]
        assert abs(before - now) <= 1e-9 + 1e-5 * now, f"{hint['line']}: {before} is not {now}"
        assert 0 < after <= (1 - LEAST_GAIN) * before, f"{hint['line']} saves too little"
        other, said = follow(options, source, sets, given, target, hint)
        assert other or not said, f"{hint['line']}: {said[-300:]}"
        then = seconds_of(other) if other else after
        assert abs(then - after) <= 1e-9 + 1e-5 * after, f"{hint['line']}: {then}, not {after}"
        FOLLOWED[hint["kind"]] += other is not None


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
            if report:
                hints_fit(options, source, sets, given, target, report)
            for launch in report["launches"] if report else ():
                if "roofline" not in launch:  # some of its sizes are in no parameter
                    continue
                wrong = least.bytes_fit(launch, target) or least.parts_fit(launch)
                assert not wrong, wrong
                times_fit(launch)
                notes_fit(launch)
        except AssertionError as problem:
            problems.append(f"{target}: {problem}")
        done += report is not None
    return "; ".join(problems) or (None if done else suite.LEFT_OUT)


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--all", action="store_true", help="each kernel for all targets")
    options = suite.options_of(parser)
    jobs = suite.part_of(options, kernels())
    code = suite.run(options, jobs, lambda job: check(options, job), lambda job: job[0])
    if FOLLOWED.total() < LEAST_FOLLOWED / options.part[1]:
        print(f"only {FOLLOWED.total()} hints were followed: {dict(FOLLOWED)}")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
