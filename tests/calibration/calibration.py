#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calibration.py --tessera PROGRAM [--write] [--only PATTERN] [--part K/N]: compares what the
compiler predicts of machine code with counts from the machine code. Needs ptxas and nvdisasm, but
no GPU.

calibration.data has a program with its options on a line (for sm_90a unless they say otherwise),
and below it, indented, for each launch: the bytes of its code, and of a step of its hot loop the
instructions, loads from global memory and stores to shared memory; each as predicted by `explain
--json` and as counted, then the assembler's registers of a thread. Counts that differ by more than
15 % are marked with an exclamation mark: what is not marked must stay so, and what is marked is an
error of the estimates that is known. Of a product, what its time is expected from is compared, too:
`issue`, the cycles of a step that the model has and those that the counted instructions take to
issue; marked where issuing takes longer, and where a product by a matrix instruction has no model
at all; and loads from global memory in its loop, which no model has. `code over` is marked where
the code exceeds the target's budget. --write writes the indented lines. Prints `N passed, N
failed`."""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/codegen/nvptx"), str(ROOT / "tests")]
from tools import find_tool  # noqa: E402
import suite  # noqa: E402

from loops import loops_of  # noqa: E402

DATA = pathlib.Path(__file__).with_name("calibration.data")
SCHEDULERS, BUDGET = 4, 98304  # of sm_90a: of a multiprocessor; bytes of hot code
WITHIN, SMALL = 0.15, 16  # counts this close are equal, too: a few instructions of addresses
BYTES_SMALL = 2048
SPIN = 8  # instructions: shorter loops wait
MATRIX = re.compile(r"\b(?:[HI]G?MMA|QGMMA|IGMMA)\b")
LOADS = re.compile(r"\bLDG\b")
SHARED_STORES = re.compile(r"\b(?:STS|STSM)\b")
MARKED = re.compile(r"(\w+) [\w/]+!")


def cases(text):
    """(lines before it and the command's own, words of the command, lines below it)."""
    found, before = [], []
    for line in text.splitlines():
        if line.startswith("    ") and found:
            found[-1][2].append(line.strip())
        elif line.strip() and not line.startswith("#"):
            found.append((before + [line], line.split(), []))
            before = []
        else:
            before.append(line)
    return found


def functions(sass):
    """The instructions of each function: (address, text), and the addresses of its labels."""
    for part in re.split(r"^\s*\.section\s+\.text\.", sass, flags=re.M)[1:]:
        name = re.match(r"[\w$]+", part)[0]
        code, labels, waiting = [], {}, []
        for line in part.splitlines():
            label = re.match(r"(\.L\w+):", line)
            found = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", line)
            if label:
                waiting.append(label[1])
            elif found:
                labels.update(dict.fromkeys(waiting, len(code)))
                code.append(found[2])
                waiting = []
        yield name, code, labels


def hot_loop(code, labels):
    """The instructions of the longest innermost loop with a matrix instruction, or of the longest
    innermost one, or all. Loops of a few instructions that wait are none."""
    loops = [set(loop) for loop in loops_of(code, labels) if len(loop) >= SPIN]
    matrix = [a for a in loops if any(MATRIX.search(code[i]) for i in a)]
    loops = matrix or loops
    inner = [a for a in loops if not any(b < a for b in loops)]
    chosen = max(inner, key=len) if inner else range(len(code))
    return [code[i] for i in sorted(chosen)]


def count(sass, registers):
    counts = {}
    for name, code, labels in functions(sass):
        real = [t for t in code if t != "NOP"]
        loop = [t for t in hot_loop(code, labels) if t != "NOP"]
        counts[name] = {"bytes": 16 * len(real), "instructions": len(loop),
                        "loads": sum(1 for t in loop if LOADS.search(t)),
                        "shared_stores": sum(1 for t in loop if SHARED_STORES.search(t)),
                        "registers": registers.get(name)}
    return counts


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return done


def measure(tools, words):
    """For each launch: its name, and (what, predicted, counted) of each count."""
    tessera, ptxas, nvdisasm = tools
    options = words[1:] + ([] if "--target" in words else ["--target", "sm_90a"])
    target = options[options.index("--target") + 1]
    source = str(ROOT / words[0])
    report = json.loads(run(tessera, "explain", source, *options, "--json").stdout)
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = f"{folder}/a.ptx", f"{folder}/a.cubin"
        run(tessera, "compile", source, *options, "--emit", "ptx", "-o", ptx)
        said = run(ptxas, "-arch=" + target, "-v", ptx, "-o", cubin).stderr
        sass = run(nvdisasm, "-c", cubin).stdout
    spills = dict(re.findall(r"properties for ([\w$]+)\n.*?(\d+) bytes spill stores", said))
    registers = dict(re.findall(r"entry function '([\w$]+)'.*?Used (\d+) registers", said,
                                flags=re.S))
    counted = count(sass, registers)
    for launch in report["launches"]:
        code, real = launch["code"], counted[launch["symbol"]]
        real["spills"] = int(spills.get(launch["symbol"], 0))
        yield launch["symbol"], notes(launch, real), [
            ("bytes", code["bytes"], real["bytes"]),
            ("instructions", code["loop_instructions"], real["instructions"]),
            ("loads", code["loop_loads"], real["loads"]),
            ("shared_stores", code["loop_shared_stores"], real["shared_stores"])]


def notes(launch, real):
    """What the counts say of the time that is expected."""
    said = [f"{real['registers']} registers"]
    if real["spills"]:
        said.append(f"spills none/{real['spills']}!")
    product = launch.get("product", {})
    if product.get("unit") not in (None, "", "fma"):
        issued = real["instructions"] * launch["code"]["warps"] / SCHEDULERS
        model = product.get("step_cycles", 0)
        mark = "!" if issued > model else ""
        said.append(f"issue {model:.0f}/{issued:.0f}{mark}" if model else
                    f"issue none/{issued:.0f}!")
    if product and real["loads"]:
        said.append(f"step_loads none/{real['loads']}!")
    if real["bytes"] > BUDGET:
        said.append(f"code over {BUDGET}/{real['bytes']}!")
    return ", ".join(said)


def differs(what, predicted, real):
    small = BYTES_SMALL if what == "bytes" else SMALL if what == "instructions" else 1
    return abs(predicted - real) > max(small, WITHIN * real)


def lines_of(tools, words):
    for name, said, counts in measure(tools, words):
        parts = [f"{what} {predicted:.0f}/{real}{'!' if differs(what, predicted, real) else ''}"
                 for what, predicted, real in counts]
        yield f"{name}: {', '.join(parts)}; {said}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    suite.add_part(parser)
    options = parser.parse_args()
    ptxas, nvdisasm = find_tool("ptxas", "PTXAS"), find_tool("nvdisasm", "NVDISASM")
    if not ptxas or not nvdisasm:
        print("left out: there is no ptxas or no nvdisasm\n0 passed, 0 failed, 1 skipped")
        return
    tools = options.tessera, ptxas, nvdisasm
    found = [c for c in cases(DATA.read_text()) if re.search(options.only, " ".join(c[1]))]
    found = suite.part_of(options, found)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda c: list(lines_of(tools, c[1])), found))
    failed = 0
    written = []
    for (before, words, known), lines in zip(found, results):
        written += before + ["    " + line for line in lines]
        marks = dict((line.split(":")[0], line) for line in known)
        for line in lines:
            new = set(MARKED.findall(line))
            old = set(MARKED.findall(marks.get(line.split(":")[0], "")))
            if new - old:
                failed += 1
                print(f"{' '.join(words)}\n    {line}\n    was: {marks.get(line.split(':')[0])}")
    if options.write and len(found) == len(cases(DATA.read_text())):
        DATA.write_text("\n".join(written) + "\n")
        failed = 0
    print(f"{sum(map(len, results)) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
