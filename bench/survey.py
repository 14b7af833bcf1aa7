#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survey.py --tessera PROGRAM: many small programs beside torch and the copy rate, quickly.

bench/gpu.py measures few programs well; this one measures many, each in short bursts, to find
those that are far from what the card can do. Each answer is compared with torch in f64 before it
is timed. A line a case: the time of ours, that of a copy of as many bytes and torch's over it, and
how wrong ours is.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import time

import torch

import ours
import survey_blocks  # noqa: F401: each adds its cases
import survey_convolutions  # noqa: F401
import survey_folds  # noqa: F401
import survey_moves  # noqa: F401
import survey_windows  # noqa: F401
import timing
from survey_cases import CASES, Make, wide
from workload import Workload, copy_peer, named

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = {"f32": 2e-5, "bf16": 6e-3, "f16": 1e-3}


# What it found to be far from the card's rate, and is mended: rows of bench/gpu.py.
MENDED = (
    "var_all",
    "var_rows",
    "var_columns",
    "logsumexp_columns",
    "softmax_all",
    "softmax_middle",
    "batch_norm_last",
    "sum_middle",
    "sum_two",
    "permute_021",
    "sort_rows",
    "group_norm_last",
    "argmax_all",
    "argmax_rows",
    "argmax_columns",
    "cross_entropy_rows",
    "conv_transposed",
)


def written(size):
    """Of numbers, or of the extents of arrays and what follows them."""
    extents = [entry for entry in size if not isinstance(entry, tuple)]
    arrays = [entry for entry in size if isinstance(entry, tuple) and isinstance(entry[0], int)]
    return " ".join("x".join(map(str, entry)) for entry in [*arrays, extents] if entry)


def workload(case, dtype, size):
    """A row of bench/gpu.py."""
    inputs = case.inputs(Make(dtype, "cuda"), *size)
    library = case.library or case.peer
    result = case.peer(**inputs)
    moved = sum(map(size_of, [*inputs.values(), result]))
    label = f"{case.kernel.replace('_', ' ')} {dtype} {written(size).replace('x', '×')}"
    return Workload(
        f"bench/programs/{case.program}",
        label,
        case.consts(*size) if case.consts else {},
        inputs,
        torch.empty_like(result),
        moved,
        "TB/s",
        {"copy": copy_peer(moved), "torch": lambda: library(**inputs)},
        lambda: answers(case, inputs)[""],
        TOLERANCE[dtype],
        kernel=case.kernel,
    )


SUITE = {
    f"survey-{case.kernel}-{dtype}-{written(size)}": named(workload, case, dtype, size)
    for case in CASES
    if case.kernel in MENDED
    for dtype in case.types
    for size in case.sizes
}


def error_of(result, reference):
    if not result.is_floating_point() or result.dtype.itemsize == 1:
        result, reference = result.double(), reference.double()
        return float((result != reference).double().mean())
    difference = (result.double() - reference.double()).norm()
    return float(difference / reference.double().norm().clamp(min=1e-30))


def poison(tensor):
    if tensor.dtype.itemsize == 1:
        tensor.view(torch.uint8).fill_(0x7F)
    elif tensor.dtype == torch.uint32:
        tensor.view(torch.int32).fill_(-7)
    else:
        tensor.fill_(float("nan") if tensor.is_floating_point() else -7)


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


def answers(case, inputs):
    """What torch makes, in f64 if it can: {result: array}."""
    made = case.peer(**{name: wide(x, case.exact_in) for name, x in inputs.items()})
    return made if isinstance(made, dict) else {"": made}


class Timer:
    """Short bursts that do not rest: the median of three of about 3 ms each."""

    def __init__(self):
        self.copies = {}

    def __call__(self, launch):
        launch()
        once = timing.burst(launch, 1, 0, 0)
        if once > 0.05:
            return once
        launches = max(2, min(50, round(0.003 / once)))
        return statistics.median(
            timing.burst(launch, launches, 0, 0) for _ in range(3 if once < 0.02 else 1)
        )

    def copy(self, moved):
        """Seconds of a copy that moves as much."""
        half = max(moved // 2, 16)
        key = half.bit_length()
        if key not in self.copies:
            source = torch.zeros(half, dtype=torch.uint8, device="cuda")
            target = torch.empty_like(source)
            self.copies[key] = half / self(lambda: target.copy_(source))
        return half / self.copies[key]


def listed(small):
    """(case, type, size), each case's first size before any second one."""
    sizes = [
        (rank, case, dtype, size)
        for case in CASES
        for dtype in case.types
        for rank, size in enumerate([case.small] if small else case.sizes)
    ]
    return [entry[1:] for entry in sorted(sizes, key=lambda entry: entry[0])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera")
    parser.add_argument("--only", default="", help="a pattern of kernel, type and sizes")
    parser.add_argument("--cpu", action="store_true", help="small sizes on the CPU, answers alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins after so many")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument(
        "--warm", default="", help="I/N: compiles every Nth case from the Ith on, no more"
    )
    parser.add_argument("--lines", default="", help="schedule lines for all cases")
    parser.add_argument("--compile", action="store_true", help="times torch.compile, too")
    options = parser.parse_args()
    begin, library, timer, failed = time.perf_counter(), ours.use(options.tessera), Timer(), 0
    device = "cpu" if options.cpu else "cuda"
    programs = {
        name: library.load(ROOT / f"bench/programs/{name}.tile")
        for name in {case.program for case in CASES}
    }
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = False
    done = (
        {json.loads(line)["name"] for line in options.json.open()}
        if (options.json and options.json.exists())
        else set()
    )
    number = 0
    for case, dtype, size in listed(options.cpu):
        consts = case.consts(*size) if case.consts else {}
        name = f"{case.kernel} {dtype} {written(size)}"
        name += "".join(f" {k}={v}" for k, v in consts.items() if k != "N")
        program = programs[case.program]
        number += 1
        if not re.search(options.only, name) or time.perf_counter() - begin > options.seconds:
            continue
        if name in done:
            continue
        if options.warm:
            part, parts = map(int, options.warm.split("/"))
            if number % parts == part:
                warm(program, case, dtype, size, consts, device)
            continue
        if options.json:  # a case that ends the process is not begun again
            with options.json.open("a") as file:
                file.write(json.dumps({"name": name, "begun": True}) + "\n")
        begun = time.perf_counter()
        row = measure(library, program, timer, case, dtype, size, consts, device, options)
        row["name"], row["wall"] = name, time.perf_counter() - begun
        failed += "problem" in row
        print(show(row), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if device == "cuda":
            torch.cuda.empty_cache()
    print(f"# {time.perf_counter() - begin:.0f} s, {failed} failed")
    return 1 if failed else 0


def warm(program, case, dtype, size, consts, device):
    """Puts a case's code into the cache."""
    try:
        inputs = case.inputs(Make(dtype, device), *size)
        if inputs:
            getattr(program, case.kernel).prepare(**inputs, **consts)
    except Exception as problem:
        print("#", case.kernel, dtype, size, str(problem).split("\n")[0][:200])


def measure(library, program, timer, case, dtype, size, consts, device, options):
    row = {}
    try:
        inputs = case.inputs(Make(dtype, device), *size)
        expected = answers(case, inputs)
        kernel = getattr(program, case.kernel)
        if options.lines:
            kernel = kernel.given(schedule=options.lines)
        called = dict(inputs)
        if case.made == "inout":
            launch = kernel.prepare(**called, **consts)
            made = {name: inputs[name] for name in expected}
            launch()
        else:
            first = time.perf_counter()
            launch = kernel.prepare(**called, **consts) if inputs else None
            made = results(kernel, launch, inputs, consts, expected, device)
            if launch is None:
                launch = kernel.prepare(out=next(iter(made.values())), **consts)
            row["compile"] = time.perf_counter() - first
            for result in made.values():
                poison(result)
            launch()
        if device == "cuda":
            torch.cuda.synchronize()
        # ours by the order of results, or by name
        pairs = (
            zip(made.values(), expected.values())
            if "" in expected
            else [(made[n], expected[n]) for n in expected]
        )
        row["error"] = max(error_of(a, b) for a, b in pairs)
        limit = TOLERANCE[dtype] * (100 if case.kernel == "pi" else 1)
        if case.kernel == "quantize_rows":
            limit = 2e-3  # of quotients close to a tie
        if not row["error"] <= limit:
            row["problem"] = f"wrong by {row['error']:.2g}"
        if device == "cpu":
            return row
        del expected
        moved = sum(map(size_of, inputs.values())) + sum(size_of(a) for a in made.values())
        row["ours"] = timer(launch)
        peer = case.library or case.peer
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
            row["torch"] = timer(lambda: peer(**inputs))
            if options.compile:
                row["compiled"] = compiled(timer, peer, inputs)
        row["copy"] = timer.copy(moved)
        row["rate"] = moved / row["ours"] / 1e12
        if case.flops:
            row["flops"] = case.flops(*size) / row["ours"] / 1e12
    except Exception as problem:
        row["problem"] = (
            f"{type(problem).__name__}: " + " ".join(str(problem).split("\n")[:3])[:300]
        )
    return row


def compiled(timer, peer, inputs):
    """Seconds of torch.compile's version of a peer, or None if it refuses the peer."""
    torch._dynamo.reset()
    try:
        made = torch.compile(peer, dynamic=False)
        return timer(lambda: made(**inputs))
    except Exception:
        return None


def results(kernel, launch, inputs, consts, expected, device):
    """{name: array} that ours writes."""
    if launch is None:
        return {p.name: torch.empty(1, device=device) for p in kernel.outputs}
    arrays = launch.results
    arrays = arrays if isinstance(arrays, (tuple, list)) else [arrays]
    return dict(zip([p.name for p in kernel.outputs], arrays))


def show(row):
    if "ours" not in row:
        return f"{row['name']:50} {row.get('problem') or 'right, error %.1e' % row['error']}"
    flops = f" {row['flops']:7.1f} TF/s" if "flops" in row else ""
    if row.get("compiled"):
        flops = f" compile x{row['compiled'] / row['ours']:.2f}{flops}"
    return (
        f"{row['name']:50} {row['ours'] * 1e6:9.1f} us {row['rate']:6.3f} TB/s"
        f" copy x{row['copy'] / row['ours']:.2f} torch x{row['torch'] / row['ours']:.2f}{flops}"
        f" err {row['error']:.1e} compile {row.get('compile', 0):.2f} {row.get('problem', '')}"
    )


if __name__ == "__main__":
    sys.exit(main())
