#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of `explain --html`, in headless Chromium: each folds all its folds, follows all its
links, lights all its lines, compares listings, looks words up, and measures the contrast of its
texts and its width by itself (#selftest), and says so in its title; in the dark and on a phone,
too. They name nothing outside of them and are small. Each is of one target, in turn, or with --all
of all; one compares two schedules, and is used by keys alone (keyboard.py). The order of tiles and
the steps of a pipeline are computed here a second time, and the time of all steps is compared with
what the model expects of the launch. Pages that were broken on purpose must say that they are.
--pictures FOLDER keeps pictures of that page: wide and on a phone, in light and in the dark. Prints
`N passed, N failed, N skipped`: all of them are skipped for want of Chromium."""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/explain")]
import keyboard  # noqa: E402
import least  # noqa: E402
import page as pages  # noqa: E402
import patience  # noqa: E402

TARGETS = ["sm_90a", "gfx942", "native"]
PAGES = {
    "softmax": ["--set", "T=bf16", "--size", "M=4000,N=4096"],
    "linear": ["--set", "T=bf16", "--size", "M=4096,N=4096,K=4096"],
    "attention": ["--set", "T=bf16,causal=true", "--size", "B=2,H=8,S=1000,L=1000,D=64"],
    "layer_norm": ["--set", "T=f32", "--size", "M=1001,N=1003"],
    "histogram": ["--size", "N=1M"],
    "conv2d": ["--set", "T=bf16", "--size", "B=8,H=28,W=28,C=64,O=64,R=3,S=3"],
}
MAX_BYTES = 3_000_000
PRODUCT16 = 4096  # FLOP a cycle of sm_90a's matrix unit, in ir/target/machines.def


def unlinked(text):
    """The listings of which no line has a line of the source."""
    folds = re.findall(r'<details class=code id="at-([^"]*)">(.*?)</details>', text, flags=re.S)
    return [name for name, listing in folds if "<span class=l" not in listing] or not folds


def check_order(text):
    """Tiles in groups of rows: the numbers that the page shows are those of the formula."""
    group = int(re.search(r"raster grouped (\d+)", text)[1])
    cols = int(re.search(r">N, (\d+) tiles<", text)[1])
    rows = int(re.search(r">M,</text><text[^>]*>(\d+) tiles<", text)[1])
    found = {(int(r), int(c)): int(n) for r, c, n in
             re.findall(r"<title>tile (\d+), (\d+): number (\d+)", text)}
    for (row, col), number in found.items():
        first = row // group * group
        height = min(group, rows - first)
        want = first * cols + col * height + row - first
        assert number == want, f"tile {row}, {col} has number {number}, not {want}"
    assert len(found) == min(rows, 24) * min(cols, 24), f"{len(found)} tiles"


def check_pipeline(text):
    """By the rates alone the matrix unit is never idle: two warp groups take turns. With what the
    model expects of a step the drawn ones follow one another."""
    tile = re.search(r"tile M (\d+), N (\d+), K (\d+)", text)
    m, n, k = map(int, tile.groups())
    period, alone = map(float, re.search(r"Later a step takes (\d+) cycles, as the model expects; "
                                         r"the rates of the units alone would give (\d+)",
                                         text).groups())
    want = 2 * m * n * k / PRODUCT16
    assert abs(alone - want) < 1, f"by its rates a step takes {alone} cycles, not {want}"
    starts = {}
    for step, at in re.findall(r"<title>step (\d): product, cycles (\d+)", text):
        starts.setdefault(int(step), int(at))
    drawn = (starts[5] - starts[3]) / 2
    assert abs(drawn - period) < 0.01 * period, f"{period} cycles, but drawn are {drawn}"
    spans = re.findall(r"<rect class=(\w+) x=([\d.]+) y=(\d+) width=([\d.]+)[^>]*><title>step",
                       text)
    lanes = {}
    for kind, x, y, width in spans:
        lanes.setdefault(y, []).append((float(x), float(x) + float(width), kind))
    assert len(lanes) == 5, f"{len(lanes)} lanes"
    for y, lane in lanes.items():
        for before, after in zip(sorted(lane), sorted(lane)[1:]):
            assert before[1] <= after[0] + 1.1, f"spans overlap in the lane at {y}: {before}"


def pipelines(text):
    """Of each launch with a pipeline: cycles of a step, blocks that alternate, and a match with the
    MHz, the steps, and the time that the page says."""
    for part in re.findall(r"<h3>Pipeline</h3>(.*?)</p>", text, flags=re.S):
        found = re.search(r"Later a step takes (\d+) cycles.*? At (\d+) MHz the ([\d.e+]+) steps "
                          r"of a .*? take ([\d.]+) (\w+) of the", part)
        if found:
            shared = re.search(r" has (\d+) blocks", part)
            yield float(found[1]), int(shared[1]) if shared else 1, found


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
STEPS = ("steps of the products", "waits of the steps for memory", "waits for memory",
         "waits that the ring's stages do not hide", "work of the blocks, with what they wait for")


def check_times(text, report):
    """What follows one another is the predicted time; of it, the steps of a pipeline take as long
    as the parts that are theirs."""
    of_steps = []
    for launch in report["launches"]:
        wrong = least.parts_fit(launch)
        assert not wrong, wrong
        of_steps.append(sum(part["seconds"] for part in launch.get("predicted_parts", ())
                            if part["what"] in STEPS))
    drawn = [(cycles * float(at[3]) / blocks / (int(at[2]) * 1e6), float(at[4]) * UNITS[at[5]])
             for cycles, blocks, at in pipelines(text)]
    for seconds, said in drawn:
        assert abs(seconds - said) < 0.02 * said, f"{seconds} s of steps, but {said} s are said"
        assert any(abs(said - of) < 0.02 * of for of in of_steps), f"{said} s of {of_steps}"
    return len(drawn)


def check_pictures(text):
    own = text[text.index("<h2 id=launch0>"):]  # not of the other schedule
    try:
        check_order(own)
        check_pipeline(own)
    except (AssertionError, TypeError, KeyError) as problem:
        return str(problem)
    return None


def check_page(options, name, target, folder, more=()):
    page = folder / f"{name}-{target}{'-against' if more else ''}.html"
    command = [options.tessera, "explain", str(ROOT / "examples" / f"{name}.tile"),
               "--target", target, *PAGES[name], *more, "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.seconds(120))
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr[-500:]}"
    text = page.read_text()
    command = command[:command.index("--against") if more else -2]
    done = subprocess.run([*(c for c in command if c != "--html"), "--json"], capture_output=True,
                          text=True, timeout=patience.seconds(120))
    try:
        n = check_times(text, json.loads(done.stdout))
    except AssertionError as problem:
        return str(problem)
    if name in ("linear", "attention") and target != "native" and n == 0:
        return "no pipeline"
    if len(text.encode()) > MAX_BYTES:
        return f"{len(text.encode())} bytes"
    if pages.outside(text):
        return f"names {pages.outside(text)[0]}"
    if unlinked(text):
        return f"not linked to the source: {unlinked(text)}"
    if name == "linear" and target == "sm_90a" and check_pictures(text):
        return check_pictures(text)
    return (pages.selftest(options, page, f"{name} on {target}")
            or pages.check_ways(options, page, f"{name} on {target}"))


def check_against(options, folder):
    """Two schedules on one page: what differs is marked, and nothing else."""
    entries = ["--against", "tile M 64, N 128"]
    problem = check_page(options, "linear", "sm_90a", folder, entries)
    text = (folder / "linear-sm_90a-against.html").read_text()
    rows = re.findall(r"<tr( class=differs)?><th scope=row>([\w ,]+?)(?: <small>differs</small>)?"
                      r"<td>(.*?)<td>(.*)", text)
    plain = [(mark, name, *(re.sub("<.*", "", re.sub("^<b>", "", cell)) for cell in (a, b)))
             for mark, name, a, b in rows]
    wrong = [name for mark, name, a, b in plain if bool(mark) != (a != b)]
    names = {name for mark, name, *_ in plain if mark}
    if not {"tile", "grid", "expected", "asked of the caches"} <= names or wrong:
        return f"differs: {names}; wrongly marked: {wrong}"
    if "Pipeline of the other schedule" not in text or "linear_0 of the other schedule" not in text:
        return "no pictures of the other schedule"
    return problem


BREAKS = {
    "a link to nowhere": lambda text: text.replace('href="#roofline"', 'href="#nowhere"', 1),
    "an element that loads": lambda text: text.replace("<main>", '<main><img src="a.png">', 1),
    "a fold without a head": lambda text: text.replace(
        "<details class=code id=", "<details open><details class=code id=", 1),
    "a script that fails": lambda text: text.replace("const selftest = () => {",
                                                     "missing(); const selftest = () => {", 1),
    "a text that cannot be read": lambda text: text.replace("--soft: #565b63", "--soft: #a0a4aa"),
    "a wide table": lambda text: text.replace("<main>", "<main><table><tr><td style='min-width: "
                                              "3000px'>wide</table>", 1),
    "an edge that cannot be seen": lambda text: text.replace(
        "solid var(--soft); border-radius: 4px; max-width", "solid var(--line); max-width"),
    "a picture without words": lambda text: text.replace("<title>roofline", "<desc>roofline", 1)
    if "<title>roofline" in text else text.replace("</main>", "<svg></svg></main>", 1),
    "no glossary": lambda text: text.replace("id=terms", "id=nothing", 1),
    "a diff that leaves lines out": lambda text: text.replace("else pairs.push([-1, k++]);",
                                                              "else k++;", 1),
}


def check_pages(options, folder):
    jobs = [(name, target) for i, name in enumerate(PAGES) for k, target in enumerate(TARGETS)
            if options.all or (i + 2) % len(TARGETS) == k]  # softmax on the CPU is broken, too
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda job: check_page(options, *job, folder), jobs)
        yield from zip((" on ".join(job) for job in jobs), found)
    yield "two schedules of linear", check_against(options, folder)
    if options.chromium:
        yield from keyboard.run(options.chromium, folder / "linear-sm_90a-against.html",
                                folder / "profile-keyboard", options.pictures)


if __name__ == "__main__":
    sys.exit(pages.run(__doc__, ["--tessera"], check_pages, ("softmax-native.html", BREAKS)))
