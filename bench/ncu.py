#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tessera explain` predicts beside what Nsight Compute counts, over the examples: Markdown.

    python3 bench/ncu.py [--only softmax]... [--keep counters.json] [-o table.md]
    python3 bench/ncu.py --counters counters.json -o table.md

Needs an NVIDIA GPU, `ncu` (in PATH, or --ncu) with the right to read counters, and bin/tessera
beside this folder (or --tessera). Each program is launched by `tessera bench`; its first launches
are profiled with the caches flushed before each, and clocks left alone. What a program's data
decide (gathers by given indices, atomics) is predicted as if spread evenly, and marked. A program
that fails is named at the end, and the others go on.

What was counted can be kept and set beside other predictions later, without a GPU, as long as the
code is the same: registers that differ say that it is not.
"""

import argparse
import concurrent.futures
import csv
import io
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ncu_programs import CASES, INPUTS

ROOT = pathlib.Path(__file__).resolve().parents[1]
WITHIN = 0.10

GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
METRICS = {
    "load sectors": GLOBAL.format("sectors", "ld"),
    "load requests": GLOBAL.format("requests", "ld"),
    "store sectors": GLOBAL.format("sectors", "st"),
    "store requests": GLOBAL.format("requests", "st"),
    "red sectors": GLOBAL.format("sectors", "red"),
    "atom sectors": GLOBAL.format("sectors", "atom"),
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    # The turns that addresses ask for, which is what is predicted; the data stage has more, when
    # it waits for what others write to the same memory: lines that come, and the copy engine.
    "shared load turns": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store turns": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "registers": "launch__registers_per_thread",
    "occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "blocks by registers": "launch__occupancy_limit_registers",
    "blocks by shared": "launch__occupancy_limit_shared_mem",
    "blocks by warps": "launch__occupancy_limit_warps",
    "DRAM read": "dram__bytes_read.sum",
    "DRAM written": "dram__bytes_write.sum",
    "L2 read": "lts__t_sectors_srcunit_tex_op_read.sum",
    "L2 written": "lts__t_sectors_srcunit_tex_op_write.sum",
    # Not judged: to find why something else is off.
    "copy sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    "copy requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts.sum",
    "shared load instructions": "smsp__inst_executed_op_shared_ld.sum",
    "shared store instructions": "smsp__inst_executed_op_shared_st.sum",
    "local load instructions": "smsp__inst_executed_op_local_ld.sum",
    "L2 misses": "lts__t_sectors_op_read_lookup_miss.sum",
    "L2 looked up": "lts__t_sectors_op_read.sum",
    "cycles": "sm__cycles_active.avg",
    "nanoseconds": "gpu__time_duration.sum",
}


def arguments(case, sizes):
    words = [str(ROOT / "examples" / f"{case.program}.tile"), *case.words]
    words += ["--set", case.sets] if case.sets else []
    words += ["--size", sizes] if sizes else []
    return words


def title(case, sizes):
    return " ".join(word for word in (sizes, case.sets, *case.words) if word)


def run(command, timeout):
    """All of its processes end with it, whatever they are at."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", start_new_session=True) as child:
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        return child.returncode, out, err


def inputs_of(case, folder):
    """Words for `bench`, and the sizes."""
    if not case.inputs:
        return [], case.sizes
    import numpy as np

    arrays, sizes = INPUTS[case.inputs](np)
    words = []
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            path = pathlib.Path(folder) / f"{case.program}-{name}.npy"
            np.save(path, value)
            value = path
        words.append(f"{name}={value}")
    return words, sizes


def explain(options, case, sizes):
    command = [options.tessera, "explain", *arguments(case, sizes), "--json",
               "--target", options.target]
    code, out, err = run(command, options.timeout)
    if code != 0:
        raise RuntimeError(f"{' '.join(command)}\n{err.strip()[-600:]}")
    return json.loads(out)


def read_csv(text, symbols):
    """The metrics of each profiled launch, in order: [{metric: value}]."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if not rows:
        return []
    head, launches = rows[0], {}
    if "Metric Name" in head:
        wanted = ("ID", "Kernel Name", "Metric Name", "Metric Value")
        at = {name: head.index(name) for name in wanted}
        for row in rows[1:]:
            launch = launches.setdefault(row[at["ID"]], {"symbol": row[at["Kernel Name"]]})
            launch[row[at["Metric Name"]]] = number(row[at["Metric Value"]])
    else:
        for row in rows[1:]:
            if row[0].isdigit():
                launch = launches.setdefault(row[0], {})
                launch.update({name: number(value) for name, value in zip(head, row)})
                launch["symbol"] = row[head.index("Kernel Name")]
    return [launch for launch in launches.values() if clean(launch["symbol"]) in symbols]


def clean(symbol):
    return symbol.split("(")[0].strip()


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def measure(options, case, sizes, words, symbols):
    """Asks for what this ncu knows: a name that it does not is left out, once and for all."""
    while True:
        pattern = "regex:^(" + "|".join(re.escape(s) for s in symbols) + ")$"
        command = [options.ncu, "--clock-control", "none", "--csv", "--print-units", "base",
                   "--target-processes", "all", "--kernel-name", pattern, "--kill", "yes",
                   "--launch-count", str(len(symbols)), "--metrics", ",".join(METRICS.values()),
                   options.tessera, "bench", *arguments(case, sizes), *words,
                   "--device", "cuda", "--rounds", "1"]
        _, out, err = run(command, options.timeout)
        output = out + err
        errors = [line for line in output.splitlines() if "ERROR" in line]
        unknown = [what for what, name in METRICS.items()
                   if any(name in line or name.rsplit(".", 1)[0] in line for line in errors)]
        if not unknown:
            break
        for what in unknown:
            print(f"ncu knows no {METRICS.pop(what)}", file=sys.stderr)
    launches = read_csv(out, symbols)
    if not launches:
        raise RuntimeError(f"{' '.join(command)}\n{output.strip()[-900:]}")
    return launches


def predicted(launch):
    """The same quantities, as predicted."""
    totals, roof, occupancy = launch["totals"], launch["roofline"], launch["occupancy"]
    return {
        # copies past registers are loads to the counters
        "load requests": totals["load"]["requests"] + totals["copy"]["requests"],
        "load sectors": totals["load"]["sectors"] + totals["copy"]["sectors"],
        "store requests": totals["store"]["requests"],
        "store sectors": totals["store"]["sectors"],
        "atomic sectors": totals["atomic"]["sectors"],
        "shared load wavefronts": totals["shared_load"]["wavefronts"],
        "shared store wavefronts": totals["shared_store"]["wavefronts"],
        "shared load conflicts": totals["shared_load"]["conflicts"],
        "shared store conflicts": totals["shared_store"]["conflicts"],
        "registers": launch.get("registers"),
        "occupancy": 100 * occupancy["share"],
        "blocks by registers": occupancy["by_registers"],
        "blocks by shared": occupancy["by_shared"],
        "DRAM read": roof["memory_read_bytes"],
        "DRAM written": roof["memory_written_bytes"],
        "L2 read": roof["asked_read_bytes"],
        "L2 written": roof["asked_written_bytes"],
    }


def measured(launch):
    got = {what: launch.get(name) for what, name in METRICS.items()}
    atomics = [got.pop("red sectors", None), got.pop("atom sectors", None)]
    got["atomic sectors"] = sum(value or 0 for value in atomics)
    for what in ("L2 read", "L2 written"):
        if got.get(what) is not None:
            got[what] *= 32
    for way in ("shared load", "shared store"):
        turns, all_turns = got.get(f"{way} turns"), got.get(f"{way} wavefronts")
        if turns is not None and all_turns is not None:
            got[f"{way} conflicts"] = max(0, got[f"{way} conflicts"] - (all_turns - turns))
            got[f"{way} beside others"] = all_turns - turns
            got[f"{way} wavefronts"] = turns
    return got


JUDGED = ["load sectors", "store sectors", "atomic sectors", "shared load wavefronts",
          "shared store wavefronts", "shared load conflicts", "shared store conflicts",
          "registers", "occupancy", "DRAM read", "DRAM written"]
# Reads of less are lost in what else the device reads; of what is written L2 keeps its share.
JUDGED_FROM = {"DRAM read": 64e6, "DRAM written": 64e6}


def judge(what, want, got):
    """The ratio as text, and whether it is within the bound; None: not to be judged."""
    if want is None or got.get(what) is None:
        return None
    a, b = want[what], got[what]
    if a is None or max(a, b) < JUDGED_FROM.get(what, 0):
        return None
    if what.endswith("conflicts"):
        base = max(got.get(what.replace("conflicts", "wavefronts")) or 0, b, 1)
        return f"{a:.4g} / {b:.4g}", abs(a - b) <= WITHIN * base
    if a == b:
        return ("", True) if a == 0 else ("1.000", True)
    return f"{a / b:.3f}" if b else "0 measured", bool(b) and abs(a / b - 1) <= WITHIN


def short(value):
    return "" if value is None else f"{value:.5g}"


def counters(options, case, sizes, words, said, kept):
    """Of each launch's symbol: from the device, or from what was kept."""
    key = f"{case.program} {title(case, sizes)}"
    if not options.counters:
        start = time.monotonic()
        symbols = [launch["symbol"] for launch in said["launches"]]
        kept[key] = measure(options, case, sizes, words, symbols)
        print(f"{case.program}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return {clean(launch["symbol"]): measured(launch) for launch in kept.get(key, [])}


def rows_of(options, case, sizes, said, by_symbol, counts):
    named = title(case, sizes)
    for launch in said["launches"]:
        if launch["symbol"] not in by_symbol:
            yield [launch["symbol"], named, "not profiled", "", "", ""]
            continue
        want, have = predicted(launch), by_symbol[launch["symbol"]]
        assumed = {a["kind"] for a in launch["accesses"] if a.get("assumed")}
        for what in JUDGED:
            verdict = judge(what, want, have)
            if verdict is None or verdict[0] == "":
                continue
            by_data = (what.split()[0] in assumed or launch["uncertain"] or
                       (assumed and what.startswith("DRAM")))
            note = "" if verdict[1] else "by data" if by_data else "**off**"
            counts["judged"] += not by_data
            counts["within"] += verdict[1] and not by_data
            counts["by data"] += bool(by_data)
            yield [launch["symbol"], named, what, short(want[what]), short(have.get(what)),
                   f"{verdict[0]} {note}".strip()]
        if options.all:
            for what in {**have, **want}:
                if what not in JUDGED:
                    yield [launch["symbol"], named, what, short(want.get(what)),
                           short(have.get(what)), ""]


def find_ptxas():
    """The code that is measured is assembled by what explain asked for its registers."""
    for path in (os.environ.get("TESSERA_PTXAS"), shutil.which("ptxas"),
                 "/usr/local/cuda/bin/ptxas"):
        if path and os.access(path, os.X_OK):
            return path
    return ""


def find_tessera():
    for path in (ROOT / "bin" / "tessera", ROOT / "build" / "bin" / "tessera"):
        if path.exists():
            return str(path)
    return shutil.which("tessera")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="PATTERN",
                        help="of what the table calls a launch: softmax, 'matmul .*T=f32'")
    parser.add_argument("--tessera", default=find_tessera())
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--timeout", type=float, default=60, help="of one program, seconds")
    parser.add_argument("--seconds", type=float, default=math.inf,
                        help="of all: no program begins later")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1),
                        help="predictions at once")
    parser.add_argument("--metric", action="append", default=[], help="count this, too")
    parser.add_argument("--keep", help="a file for what was counted")
    parser.add_argument("--counters", help="a file with what was counted: no GPU is needed")
    parser.add_argument("--all", action="store_true", help="also what is not judged")
    parser.add_argument("--dry", action="store_true", help="only predict: no GPU is needed")
    parser.add_argument("-o", "--output")
    return parser.parse_args()


def table_lines(row, before):
    """A row, below one that names the launch and its sizes where they are others than before."""
    launch = f"| {row[0]} | {row[1]} | | | | |"
    last = next((line for line in reversed(before) if not line.startswith("| | |")), None)
    return [*([launch] if launch != last else []), "| | | " + " | ".join(row[2:]) + " |"]


def main():
    options, begun = parse(), time.monotonic()
    METRICS.update({name: name for name in options.metric})
    wanted = [case for case in CASES if not options.only or any(
        re.fullmatch(pattern, text) for pattern in options.only
        for text in (case.program, f"{case.program} {title(case, case.sizes)}"))]
    lines, counts, kept = [], {"judged": 0, "within": 0, "by data": 0}, {}
    if options.counters:
        kept = json.loads(pathlib.Path(options.counters).read_text())
    failed = []
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(options.jobs) as pool):
        given = [inputs_of(case, folder) for case in wanted]
        said = [pool.submit(explain, options, case, sizes)
                for case, (_, sizes) in zip(wanted, given, strict=True)]
        for case, (words, sizes), future in zip(wanted, given, said, strict=True):
            if time.monotonic() - begun > options.seconds:
                failed.append(f"{case.program} (no time)")
                continue
            try:
                report = future.result()
                if options.dry:
                    print(case.program, [launch["symbol"] for launch in report["launches"]])
                    continue
                have = counters(options, case, sizes, words, report, kept)
                for row in rows_of(options, case, sizes, report, have, counts):
                    for line in table_lines(row, lines):
                        lines.append(line)
                        print(line, flush=True)
            except (RuntimeError, OSError, ValueError, KeyError,
                    subprocess.TimeoutExpired) as problem:
                failed.append(case.program)
                print(f"{case.program}: {problem}", file=sys.stderr, flush=True)
            if options.keep:
                pathlib.Path(options.keep).write_text(json.dumps(kept, indent=1))
    head = ["| launch | sizes | quantity | predicted | measured | ratio |",
            "| --- | --- | --- | ---: | ---: | ---: |"]
    foot = ["", f"{counts['within']} of {counts['judged']} within {WITHIN:.0%}; "
            f"{counts['by data']} more depend on data."]
    if options.output:
        pathlib.Path(options.output).write_text("\n".join(head + lines + foot) + "\n")
    print("\n".join(foot))
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed or counts["within"] < counts["judged"] else 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    os.environ["TESSERA_PTXAS"] = find_ptxas()
    sys.exit(main())
