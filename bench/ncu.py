#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tessera explain` predicts beside what Nsight Compute counts, over the examples: Markdown.

    python3 bench/ncu.py [--program softmax]... [-o table.md]

Needs an NVIDIA GPU, `ncu` (in PATH, or --ncu) with the right to read counters, and bin/tessera
beside this folder (or --tessera). Each program is launched by `tessera bench`; its first launches
are profiled with the caches flushed before each, and clocks left alone. What a program's data
decide (gathers by given indices, atomics) is predicted as if spread evenly, and marked.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WITHIN = 0.10

# Sizes whose arrays are several times as large as the L2 cache, where the work allows.
PROGRAMS = {
    "adam": ("", "N=128M"),
    "add": ("", "N=256M"),
    "argmax": ("T=f32", "M=16k,N=4k"),
    "attention": ("T=bf16,causal=true", "B=4,H=16,S=2k,L=2k,D=128"),
    "batched": ("T=bf16", "B=64,M=512,K=512,N=512"),
    "black_scholes": ("", "N=32M"),
    "blur": ("", "H=8k,W=8k"),
    "chain": ("T=f32", "N=256M"),
    "collatz": ("", "N=1M"),
    "conv2d": ("T=bf16", "B=16,H=56,W=56,C=64,O=64,R=3,S=3"),
    "conv_transpose": ("", "B=8,L=1k,C=64,R=4,O=64"),
    "crc": ("", "M=64k,N=1k"),
    "cross_entropy": ("", "M=16k,N=4k"),
    "cumsum": ("", "N=16M"),
    "depthwise": ("", "B=16,H=112,W=112,C=128,R=3,S=3"),
    "dft": ("", "B=256,N=512"),
    "dropout": ("", "N=64M"),
    "einsum": ("T=bf16", "B=4,H=16,I=1k,J=1k,D=64"),
    "embedding": ("T=f32", "V=64k,D=1k,B=16,S=2k"),
    "flip": ("", "M=8k,N=4k"),
    "gemv": ("T=f32", "M=16k,N=8k"),
    "gqa_decode": ("", "B=32,H=32,G=8,L=1k,D=128"),
    "histogram": ("", "N=64M"),
    "image": ("", "H=8k,W=8k"),
    "int8_matmul": ("", "M=1k,N=1k,K=1k"),
    "interpolate": ("rows=4096,columns=4096", "H=2k,W=2k"),
    "jacobi": ("", "H=8k,W=8k"),
    "kl_divergence": ("", "M=16k,N=4k"),
    "kmeans": ("", "N=1M,D=16,K=16"),
    "layer_norm": ("T=bf16", "M=128k,N=4k"),
    "layer_norm_backward": ("", "M=16k,N=4k"),
    "life": ("", "H=16k,W=16k"),
    "linear": ("T=bf16", "M=8k,N=8k,K=4k"),
    "linear_attention": ("", "B=16,S=512,D=64,E=64"),
    "mandelbrot": ("", "H=2k,W=2k"),
    "matmul": ("T=bf16", "M=8k,N=8k,K=4k"),
    "max_pool": ("", "B=16,H=224,W=224,C=64"),
    "moe_gate": ("", "M=256k,E=64"),
    "monte_carlo": ("n=1000000", ""),
    "nbody": ("", "N=16k"),
    "pairwise": ("", "M=4k,N=4k,D=64"),
    "power": ("", "N=4M"),
    "quantize": ("", "M=16k,N=4k"),
    "rank_sort": ("", "N=16k"),
    "recurrence": ("", "B=4k,L=4k"),
    "residual": ("T=bf16", "M=8k,N=8k,K=2k"),
    "rms_norm": ("T=bf16", "M=32k,N=4k"),
    "rotary": ("T=f32", "B=8,H=32,S=2k,D=128"),
    "saxpy": ("", "N=256M"),
    "scatter_add": ("", "N=1M,D=64"),
    "search": ("", "T=1M,N=16M"),
    "segment_sum": ("", "N=16M,S=16k"),
    "smooth_l1": ("", "N=64M"),
    "softmax": ("T=bf16", "M=128k,N=4k"),
    "softmax_online": ("", "M=4k,N=16k"),
    "swiglu": ("T=bf16", "M=64k,N=8k"),
    "top2": ("", "M=16k,N=4k"),
    "total": ("", "N=64M"),
    "transpose": ("T=f32", "M=16k,N=16k"),
    "welford": ("", "M=16k,N=4k"),
}
# A second look at some, at sizes that do not divide, where guards and unaligned rows cost.
RAGGED = {
    "softmax": ("T=f32", "M=16001,N=4003"),
    "transpose": ("T=f32", "M=8001,N=8003"),
    "add": ("", "N=64000001"),
    "layer_norm": ("T=bf16", "M=32001,N=3003"),
    "matmul": ("T=f32", "M=1003,N=1001,K=999"),
    "linear": ("T=bf16", "M=4001,N=4008,K=4104"),
    "blur": ("", "H=8001,W=8003"),
}

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
}


def arguments(sets, sizes):
    words = []
    words += ["--set", sets] if sets else []
    words += ["--size", sizes] if sizes else []
    return words


def explain(options, program, sets, sizes):
    command = [options.tessera, "explain", str(ROOT / "examples" / f"{program}.tile"), "--json",
               "--target", options.target, *arguments(sets, sizes)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr.strip()[-600:]}")
    return json.loads(done.stdout)


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


def measure(options, program, sets, sizes, symbols):
    """Asks for what this ncu knows: a name that it does not is left out, once and for all."""
    while True:
        pattern = "regex:^(" + "|".join(re.escape(s) for s in symbols) + ")$"
        command = [options.ncu, "--clock-control", "none", "--csv", "--print-units", "base",
                   "--target-processes", "all", "--kernel-name", pattern,
                   "--launch-count", str(len(symbols)), "--metrics", ",".join(METRICS.values()),
                   options.tessera, "bench", str(ROOT / "examples" / f"{program}.tile"),
                   "--device", "cuda", "--rounds", "1", *arguments(sets, sizes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
        output = done.stdout + done.stderr
        errors = [line for line in output.splitlines() if "ERROR" in line]
        unknown = [what for what, name in METRICS.items()
                   if any(name in line or name.rsplit(".", 1)[0] in line for line in errors)]
        if not unknown:
            break
        for what in unknown:
            print(f"ncu knows no {METRICS.pop(what)}", file=sys.stderr)
    launches = read_csv(done.stdout, symbols)
    if not launches:
        raise RuntimeError(f"{' '.join(command)}\n{output.strip()[-900:]}")
    return launches


def predicted(launch):
    """The same quantities, as predicted."""
    totals, roof, occupancy = launch["totals"], launch["roofline"], launch["occupancy"]
    return {
        "load requests": totals["load"]["requests"],
        "load sectors": totals["load"]["sectors"],
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
        "DRAM read": roof["read_bytes"],
        "DRAM written": roof["written_bytes"],
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
    return got


JUDGED = ["load sectors", "store sectors", "atomic sectors", "shared load wavefronts",
          "shared store wavefronts", "shared load conflicts", "shared store conflicts",
          "registers", "occupancy", "DRAM read", "DRAM written"]
# Reads of less are lost in what else the device reads; of what is written L2 keeps its share.
JUDGED_FROM = {"DRAM read": 64e6, "DRAM written": 640e6}


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


def rows_of(options, program, sets, sizes, counts):
    said = explain(options, program, sets, sizes)
    symbols = [launch["symbol"] for launch in said["launches"]]
    got = measure(options, program, sets, sizes, symbols)
    by_symbol = {clean(launch["symbol"]): measured(launch) for launch in got}
    for launch in said["launches"]:
        if launch["symbol"] not in by_symbol:
            yield [launch["symbol"], "", "not profiled", "", "", ""]
            continue
        want, have = predicted(launch), by_symbol[launch["symbol"]]
        kinds = {"load": "load", "store": "store", "atomic": "atomic"}
        assumed = {kinds[a["kind"]] for a in launch["accesses"]
                   if a.get("assumed") and a["kind"] in kinds}
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
            yield [launch["symbol"], sizes, what, short(want[what]), short(have.get(what)),
                   f"{verdict[0]} {note}".strip()]
        if options.all:
            for what in want:
                if what not in JUDGED:
                    yield [launch["symbol"], sizes, what, short(want[what]),
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", action="append", help="default: all")
    parser.add_argument("--tessera", default=find_tessera())
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--all", action="store_true", help="also what is not judged")
    parser.add_argument("--dry", action="store_true", help="only predict: no GPU is needed")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    wanted = [(name, *case) for table in (PROGRAMS, RAGGED) for name, case in table.items()
              if not options.program or name in options.program]
    lines, counts = [], {"judged": 0, "within": 0, "by data": 0}
    failed = []
    for name, sets, sizes in wanted:
        try:
            if options.dry:
                said = explain(options, name, sets, sizes)
                print(name, [launch["symbol"] for launch in said["launches"]])
                continue
            for row in rows_of(options, name, sets, sizes, counts):
                lines.append("| " + " | ".join(row) + " |")
                print(lines[-1], flush=True)
        except (RuntimeError, subprocess.TimeoutExpired, KeyError) as problem:
            failed.append(name)
            print(f"{name}: {problem}", file=sys.stderr)
    head = ["| launch | sizes | quantity | predicted | measured | ratio |",
            "| --- | --- | --- | ---: | ---: | ---: |"]
    foot = ["", f"{counts['within']} of {counts['judged']} within {WITHIN:.0%}; "
            f"{counts['by data']} more depend on data."]
    if options.output:
        pathlib.Path(options.output).write_text("\n".join(head + lines + foot) + "\n")
    print("\n".join(foot))
    if failed:
        print("failed: " + " ".join(failed))
    return 1 if failed or counts["within"] < counts["judged"] else 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    os.environ["TESSERA_PTXAS"] = find_ptxas()
    sys.exit(main())
