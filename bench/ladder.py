#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ladder.py --tessera PROGRAM [--measure] [-o docs/ladder.md]: examples/ladder.tile, step by step.

Each of its schedules is explained for an H200: what it is predicted to take, and why. --measure
compares answers with torch's and times them on this machine's GPU, in rested bursts beside cuBLAS,
and keeps the times in bench/ladder.json. -o puts both into the marked parts of the document, whose
other words are written by hand. --check says whether it has them already.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "examples" / "ladder.tile"
RECORD = ROOT / "bench" / "ladder.json"
DOCUMENT = ROOT / "docs" / "ladder.md"
TARGET, DTYPE = "sm_90a", "bf16"
SIZES = [(4096, 4096, 4096), (3001, 5003, 2047)]
SMALL = [(1, 1, 1), (17, 33, 65), (129, 65, 31), (256, 192, 128), (300, 257, 1000), (64, 64, 0),
         (1000, 1, 77)]
TOLERANCE = 8e-3  # of the norm of the difference: one rounding to bf16
WORDS = {"load": "loads", "store": "stores", "shared load": "reads of shared memory, tiles",
         "shared store": "writes to shared memory, tiles",
         "bulk load": "copies by the engine, tiles", "bulk store": "stores by the engine, tiles"}


def blocks():
    """{name of a schedule: its lines}, in the order of the source."""
    found = re.findall(r"^schedule matmul as (\w+) on \w+ (\{.*?^\})", PROGRAM.read_text(),
                       re.M | re.S)
    return dict(found)


def label(size):
    m, n, k = size
    return f"{m}³" if m == n == k else f"{m}×{n}×{k}"


def rate(size, seconds):
    """TFLOP/s"""
    m, n, k = size
    return 2 * m * n * k / seconds / 1e12


# ---- predicted ----


def explain(tessera, step, size):
    sizes = ",".join(f"{name}={n}" for name, n in zip("MNK", size))
    done = subprocess.run([tessera, "explain", PROGRAM, "--set", f"T={DTYPE}", "--target", TARGET,
                           "--size", sizes, "--schedule", step, "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"ladder.py: {step}: {done.stderr}")
    return json.loads(done.stdout)


def main_launch(report):
    """The one that multiplies: others copy operands for it."""
    return max(report["launches"], key=lambda launch: launch["predicted_seconds"])


def predicted(report):
    return sum(launch["predicted_seconds"] for launch in report["launches"])


# ---- measured ----


def measure(program, steps, rounds):
    import torch

    import gpu
    import ours
    from timing import compare

    kernel = ours.use(program).kernel(PROGRAM)

    def operands(size):
        m, n, k = size
        return (torch.randn(m, k, device="cuda").bfloat16(),
                torch.randn(n, k, device="cuda").bfloat16())

    def prepared(step, a, b):
        """A launch whose answer was compared."""
        result = torch.full((a.shape[0], b.shape[0]), float("nan"), device="cuda",
                            dtype=torch.bfloat16)
        launch = kernel.given(schedule=(step,)).prepare(out=result, a=a, b=b, T=DTYPE)
        launch()
        torch.cuda.synchronize()
        want = a.float() @ b.float().T
        error = float((result.float() - want).norm() / max(float(want.norm()), 1e-30))
        if not error <= TOLERANCE:
            raise SystemExit(f"ladder.py: {step}, {tuple(a.shape)}: wrong by {error:.2g}")
        return launch

    torch.manual_seed(1)
    for size in SMALL:
        pair = operands(size)
        for step in steps:
            prepared(step, *pair)
    record = {"device": gpu.describe(), "torch": torch.__version__, "rounds": rounds, "sizes": {}}
    for size in SIZES:
        a, b = operands(size)
        out = torch.empty(size[0], size[1], device="cuda", dtype=torch.bfloat16)
        competitors = {step: prepared(step, a, b) for step in steps}
        competitors["cuBLAS"] = lambda a=a, b=b, out=out: torch.mm(a, b.T, out=out)
        times = compare(competitors, rounds)
        record["sizes"][label(size)] = {name: {"seconds": timed.seconds, "spread": timed.spread}
                                        for name, timed in times.items()}
        for name, timed in times.items():
            print(f"{label(size)} {name}: {rate(size, timed.seconds):.4g} TFLOP/s"
                  f" (±{timed.spread * 50:.1f} %)", flush=True)
    return record


# ---- the document ----


def wrapped(line, indent=""):
    """In lines of the width of documents."""
    return textwrap.wrap(line, 120, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def figure(value):
    """Three digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(size, steps, reports, record):
    """A row a step; without a record the measured columns stay empty."""
    times = record["sizes"].get(label(size), {})
    lines = ["| step | predicted, TFLOP/s | measured | ratio | over the step before | of cuBLAS"
             " | predicted limit |", "|---|---|---|---|---|---|---|"]
    before = None
    for step in steps:
        report = reports[step, size]
        expected = rate(size, predicted(report))
        cells = [f"[{step}](#{step})", figure(expected), "–", "–", "–", "–",
                 main_launch(report)["predicted_limiter"]]
        if step in times:
            got = rate(size, times[step]["seconds"])
            cells[2] = f"{figure(got)} (±{times[step]['spread'] * 50:.1f} %)"
            cells[3] = f"{got / expected:.2f}"
            cells[4] = f"×{got / before:.2f}" if before else "–"
            cells[5] = f"{got / rate(size, times['cuBLAS']['seconds']):.3f}"
            before = got
        lines.append("| " + " | ".join(cells) + " |")
    if "cuBLAS" in times:
        library = rate(size, times["cuBLAS"]["seconds"])
        lines.append(f"| cuBLAS | | {figure(library)} (±{times['cuBLAS']['spread'] * 50:.1f} %)"
                     " | | | 1.000 | |")
    return lines


def summary(steps, reports, record):
    lines = []
    for size in SIZES:
        lines += [f"{DTYPE} {label(size)}:", "", *table(size, steps, reports, record), ""]
    return lines + wrapped(
        f"Measured on {record['device'].split(',')[0]}, torch {record['torch']}, median of"
        f" {record['rounds']} rested bursts (bench/timing.py), answers compared first.")


def count(value):
    return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def access_line(at):
    kind = WORDS.get(at["kind"], at["kind"])
    each = at["requests"] or 1
    words = f"{kind} of `{at['memory']}`: {at['bytes']} bytes a thread, {count(each)} requests"
    if "conflicts" in at:
        turns = at["conflicts"] / each
        return words + (f", {figure(turns)} wavefronts lost to bank conflicts in each" if turns
                        else ", no bank conflicts")
    return words + f", {figure(at['sectors'] / each)} sectors in each"


def facts(step, reports):
    """What explain says of the launch that multiplies, for the first size."""
    launch = main_launch(reports[step, SIZES[0]])
    occupancy, product = launch["occupancy"], launch.get("product", {})
    lines = [f"- {launch['blocks']} blocks of {launch['threads']} threads, {launch['registers']}"
             f" registers a thread, {launch['shared_bytes']} bytes of shared memory a block: a"
             f" multiprocessor holds {occupancy['blocks']}, {occupancy['warps']} warps of 64"]
    if product.get("slots", 0) > 1:
        ahead = product["slot_bytes"] * (product["slots"] - 1)
        lines.append(f"- a step brings {product['slot_bytes']} bytes, {ahead} are on their way"
                     " meanwhile")
    seen = {}
    for at in launch["accesses"]:
        key = (at["kind"], at["memory"], at["bytes"])
        if at["requests"] > seen.get(key, {"requests": 0})["requests"]:
            seen[key] = at
    lines += [f"- {access_line(at)}" for at in seen.values()]
    lines.append(f"- limited by {launch['predicted_limiter']}")
    return [part for line in lines for part in wrapped(line, "  ")]


def part(step, text, reports):
    fence = ["```tile", f"schedule matmul as {step} on {TARGET} {text}", "```", ""]
    return fence + facts(step, reports)


def written(document, steps, reports, record):
    """The document with its marked parts made anew."""
    made = {"summary": summary(list(steps), reports, record),
            **{step: part(step, text, reports) for step, text in steps.items()}}

    def put(match):
        lines = made.pop(match[1])
        return f"<!-- {match[1]}: made by bench/ladder.py -->\n" + "\n".join(lines) + \
            f"\n<!-- /{match[1]} -->"

    text = re.sub(r"<!-- (\w+): made by bench/ladder.py -->\n.*?<!-- /\1 -->", put, document,
                  flags=re.S)
    if made:
        raise SystemExit(f"ladder.py: the document has no place for {', '.join(made)}")
    return text


def assembler(tessera):
    """Which counts the registers, and with them what a multiprocessor holds; '': there is none."""
    done = subprocess.run([tessera, "doctor"], capture_output=True, text=True)
    found = re.search(r"ptxas.*?(\d+\.\d+[\d.]*)", done.stdout)
    return found[1] if found else ""


def check(tessera, steps, record):
    """Has the document what would be made now? By another assembler registers, and all that
    follows from them, may be others: then its schedules are looked at."""
    old = DOCUMENT.read_text()
    if assembler(tessera) == record["assembler"]:
        reports = {(step, size): explain(tessera, step, size) for step in steps for size in SIZES}
        good = written(old, steps, reports, record) == old
    else:
        good = all(text in old for text in steps.values())
    if not good:
        print("docs/ladder.md is not what bench/ladder.py -o makes")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, required=True)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=pathlib.Path, default=RECORD)
    parser.add_argument("-o", dest="document", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    tessera, steps = options.tessera.resolve(), blocks()
    if options.check:
        return check(tessera, steps, json.loads(options.record.read_text()))
    if options.measure:
        record = measure(tessera, steps, options.rounds)
        options.record.write_text(json.dumps(record, indent=1) + "\n")
        if not options.document:
            return 0
    else:
        record = json.loads(options.record.read_text())
    reports = {(step, size): explain(tessera, step, size) for step in steps for size in SIZES}
    if options.document:
        record["assembler"] = assembler(tessera)
        options.record.write_text(json.dumps(record, indent=1) + "\n")
        old = options.document.read_text()
        options.document.write_text(written(old, steps, reports, record))
    else:
        print("\n".join(summary(list(steps), reports, record)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
