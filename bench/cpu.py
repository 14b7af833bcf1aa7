#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cpu.py --tessera PROGRAM: ours beside NumPy on OpenBLAS, in one process, with the same threads.

Every answer is compared with NumPy's before it is timed. Rounds go over all competitors, every
other one in reversed order; medians count. Needs a NumPy whose BLAS is OpenBLAS on POSIX threads
(Debian: libopenblas0-pthread), and says so where it is another. Prints a table in Markdown, and one
line of JSON a row into --json.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import threading
import time

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))

import numpy as np  # noqa: E402  (reads the number of threads)

import ours  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent
random = np.random.default_rng(1)


def which_blas():
    """The file of the BLAS that a product of NumPy's has loaded."""
    a = np.ones((64, 64), np.float32)
    a @ a
    with open("/proc/self/maps", encoding="ascii") as maps:
        files = {line.split()[-1] for line in maps if "blas" in line}
    return next((f for f in sorted(files) if "openblas" in f and "pthread" in f), None)


# ---- the work: (inputs, result, NumPy, bytes or flops) ----

def uniform(*shape):
    return random.random(shape, np.float32)


def empty(*shape, dtype=np.float32):
    return np.empty(shape, dtype)


class Work:
    """`moved`: bytes, or `flops`, of the least work. `needed`: times NumPy's speed."""

    def __init__(self, label, program, inputs, result, peer, needed, moved=0, flops=0,
                 tolerance=1e-5):
        self.label, self.program, self.inputs, self.result = label, program, inputs, result
        self.peer, self.needed, self.moved, self.flops = peer, needed, moved, flops
        self.tolerance = tolerance


def chain():
    n = 1 << 26
    x, y = uniform(n), uniform(n)
    return Work("chain of 4, f32 2^26", "chain", {"x": x, "y": y}, empty(n),
                lambda: (x * 2 + y) * y - x, 3.0, moved=12 * n)


def softmax():
    x = uniform(4096, 4096)

    def peer():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    return Work("softmax f32 4096^2", "softmax", {"x": x}, empty(4096, 4096), peer, 4.0,
                moved=8 * x.size)


def layer_norm():
    x, g, b = uniform(4096, 4096), uniform(4096), uniform(4096)

    def peer():
        d = x - x.mean(axis=1, keepdims=True)
        return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + np.float32(1e-5)) * g + b
    return Work("layer norm f32 4096^2", "layer_norm", {"x": x, "g": g, "b": b},
                empty(4096, 4096), peer, 4.0, moved=8 * x.size, tolerance=1e-4)


def matmul(n):
    x, w = uniform(n, n) - 0.5, uniform(n, n) - 0.5
    return Work(f"matmul f32 {n}^3", "matmul", {"x": x, "w": w}, empty(n, n), lambda: x @ w, 0.8,
                flops=2 * n ** 3, tolerance=1e-4)


def linear(n):
    x, w, b = uniform(n, n) - 0.5, uniform(n, n) - 0.5, uniform(n)

    def peer():
        z = x @ w
        z = z + b
        return 0.5 * z * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))
    return Work(f"matmul, bias, gelu f32 {n}^3", "linear", {"x": x, "w": w, "b": b}, empty(n, n),
                peer, 1.0, flops=2 * n ** 3, tolerance=1e-4)


def conv2d():
    x, w = uniform(8, 56, 56, 64) - 0.5, uniform(64, 3, 3, 64) - 0.5

    def peer():
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, 576)
        return (columns @ w.reshape(64, 576).T).reshape(8, 56, 56, 64)
    return Work("conv2d 3x3 f32 8x56x56x64", "conv2d", {"x": x, "w": w}, empty(8, 56, 56, 64),
                peer, 2.0, flops=2 * 8 * 56 * 56 * 64 * 576, tolerance=1e-4)


def jacobi():
    x = uniform(4096, 4096)

    def peer():
        p = np.pad(x, 1)
        return np.float32(0.25) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
    return Work("Jacobi, 5 points f32 4096^2", "jacobi", {"x": x}, empty(4096, 4096), peer, 3.0,
                moved=8 * x.size)


def blur():
    x = uniform(2160, 3840)

    def peer():
        p = np.pad(x, 1)
        total = sum(p[r:r + 2160, s:s + 3840] for r in range(3) for s in range(3))
        return total / np.float32(9)
    return Work("blur 3x3 f32 3840x2160", "blur", {"x": x}, empty(2160, 3840), peer, 3.0,
                moved=8 * x.size)


def cumsum():
    x = uniform(1 << 24)
    return Work("cumsum f32 2^24", "cumsum", {"x": x}, empty(1 << 24), lambda: np.cumsum(x), 1.0,
                moved=8 * x.size, tolerance=1e-2)


def sort():
    x = uniform(1 << 24)
    return Work("sort f32 2^24", "sort", {"x": x}, empty(1 << 24), lambda: np.sort(x), 0.7,
                moved=8 * x.size)


def histogram():
    x = uniform(1 << 24)
    return Work("histogram f32 2^24, 256 bins", "histogram", {"x": x}, empty(256, dtype=np.int64),
                lambda: np.histogram(x, 256, (0, 1))[0], 3.0, moved=4 * x.size)


SUITE = {"chain": chain, "softmax": softmax, "layer_norm": layer_norm,
         "matmul1024": lambda: matmul(1024), "matmul2048": lambda: matmul(2048),
         "linear1024": lambda: linear(1024), "linear2048": lambda: linear(2048),
         "conv2d": conv2d, "jacobi": jacobi, "blur": blur, "cumsum": cumsum, "sort": sort,
         "histogram": histogram}


# ---- measuring ----

class Copy:
    """As many bytes as the work moves, by memcpy, each thread its part."""

    def __init__(self, moved):
        self.source = np.ones(moved // 2, np.uint8)
        self.target = np.empty_like(self.source)
        self.target.fill(0)

    def part(self, i):
        n = self.source.size
        first, last = n * i // THREADS, n * (i + 1) // THREADS
        ctypes.memmove(self.target.ctypes.data + first, self.source.ctypes.data + first,
                       last - first)

    def __call__(self):
        team = [threading.Thread(target=self.part, args=(i,)) for i in range(1, THREADS)]
        for thread in team:
            thread.start()
        self.part(0)
        for thread in team:
            thread.join()


def seconds(function, times):
    begin = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - begin) / times


def compare(competitors, rounds, burst):
    counts = {n: max(1, round(burst / seconds(f, 1))) for n, f in competitors.items()}
    taken = {n: [] for n in competitors}
    for i in range(rounds):
        order = list(competitors) if i % 2 == 0 else list(reversed(competitors))
        for name in order:
            taken[name].append(seconds(competitors[name], counts[name]))
    return taken


def measure(library, name, rounds, burst):
    work = SUITE[name]()
    row = {"name": name, "workload": work.label, "needed": work.needed}
    competitors = {"numpy": work.peer}
    expected = work.peer()
    try:
        launch = ours.prepare(library, ROOT / "programs" / f"{work.program}.tile", {},
                              work.inputs, work.result)
        launch()
        scale = float(np.abs(expected).max()) or 1.0
        row["error"] = float(np.abs(work.result - expected).max()) / scale
        row["right"] = row["error"] <= work.tolerance
        if row["right"]:
            competitors["ours"] = launch
    except RuntimeError as problem:
        row["problem"] = str(problem).split("\n")[0]
    if work.moved:
        competitors["memcpy"] = Copy(work.moved)
    taken = compare(competitors, rounds, burst)
    row["seconds"] = {n: statistics.median(t) for n, t in taken.items()}
    row["best"] = {n: min(t) for n, t in taken.items()}
    row["moved"], row["flops"] = work.moved, work.flops
    return row


def line(row):
    seconds_of = row["seconds"]

    def rate(name):
        if name not in seconds_of:
            return "-"
        if row["flops"]:
            return f"{row['flops'] / seconds_of[name] / 1e9:.1f} GFLOP/s"
        return f"{row['moved'] / seconds_of[name] / 1e9:.2f} GB/s"

    def over(name, times):
        if "ours" not in times or name not in times:
            return "-"
        return f"{times[name] / times['ours']:.2f}"
    said = row.get("problem") or ("" if row.get("right") else "wrong answer")
    return (f"| {row['workload']} | {rate('ours')} | {rate('numpy')} | "
            f"{over('numpy', seconds_of)} (best {over('numpy', row['best'])}) | "
            f"{row['needed']} | {over('memcpy', seconds_of)} | {said}"
            f"{row.get('error', 0):.0e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tessera", required=True, help="the program; its library is beside it")
    parser.add_argument("--only", default="", help="names of workloads, by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--burst", type=float, default=0.1, help="seconds of one measurement")
    parser.add_argument("--json", help="file that gets one line a row")
    parser.add_argument("--any-blas", action="store_true", help="whatever BLAS there is")
    options = parser.parse_args()
    blas = which_blas()
    if not blas and not options.any_blas:
        print("cpu.py: NumPy's BLAS is not OpenBLAS on threads: apt-get install "
              "libopenblas0-pthread, and run Debian's python3", file=sys.stderr)
        return 3
    program = pathlib.Path(options.tessera).resolve()
    library = ours.use(program)  # its CPU has as many threads
    print(f"{THREADS} threads; NumPy {np.__version__}, {blas}\n")
    print("| work | ours | NumPy | ours over NumPy | at least | ours over memcpy | error |")
    print("|---|---|---|---|---|---|---|")
    names = options.only.split(",") if options.only else list(SUITE)
    for name in names:
        row = measure(library, name, options.rounds, options.burst)
        print(line(row), flush=True)
        if options.json:
            with open(options.json, "a", encoding="ascii") as file:
                file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
