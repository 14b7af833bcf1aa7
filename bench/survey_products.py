#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survey_products.py --tessera PROGRAM: products of sizes nobody chose, beside cuBLAS, quickly.

bench/gpu.py measures few sizes well; this one draws sizes from a seed (multiples of 64, of 8, odd
ones; few rows, batches of small ones; every order of the operands) and measures each in short
bursts. Each answer is compared with f32's before it is timed. Prints a line a product, the worst
first, and the distribution. --tiles N tries other tiles for the N worst: where one of them is
faster, the model that chose is what is to be mended.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import statistics
import sys
import time

import torch

import ours
from timing import burst
from workload import DTYPES

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = {"f16": 2e-3, "bf16": 8e-3}
PROGRAMS = {"nn": "examples/matmul", "nt": "bench/programs/matmul_nt",
            "tn": "bench/programs/matmul_tn", "tt": "bench/programs/matmul_tt"}
BATCHED = [("bf16", 512, 128, 128, 64), ("bf16", 64, 200, 200, 200), ("f16", 96, 256, 256, 256),
           ("bf16", 16, 1024, 1024, 128), ("bf16", 1000, 64, 64, 64), ("bf16", 32, 77, 513, 96)]
TILES = [(64, 64), (64, 128), (64, 192), (64, 256), (128, 64), (128, 96), (128, 128), (128, 160),
         (128, 192), (128, 256), (256, 128), (192, 96), (192, 128), (192, 192)]


def drawn(seed, number):
    """(form, type, batch, m, n, k) of so many products."""
    draw, found = random.Random(seed), []
    for i in range(number):
        unit = (64, 8, 8, 1)[i % 4]
        sizes = [max(100 // unit + 1, round(100 * 90 ** draw.random() / unit)) * unit
                 for _ in range(3)]
        if unit == 1:
            sizes = [size | 1 for size in sizes]
        if i % 8 == 6:
            sizes[0] = draw.choice([1, 2, 3, 8, 13, 16, 24, 33, 48, 64])
        form = ("nn", "nt", "tn", "tt")[i // 4 % 4]
        found.append((form, draw.choice(["bf16", "bf16", "f16"]), 0, *sizes))
    return found + [("nn", *batched) for batched in BATCHED]


def read(text):
    """named's inverse."""
    form, dtype, sizes = text.split()
    sizes = [int(size) for size in sizes.split("x")]
    return (form, dtype, *([0] if len(sizes) == 3 else []), *sizes)


def named(case):
    form, dtype, batch, m, n, k = case
    return f"{form} {dtype} " + (f"{batch}x" if batch else "") + f"{m}x{n}x{k}"


class Product:
    def __init__(self, library, case):
        form, dtype, batch, m, n, k = case
        front = (batch,) if batch else ()
        a = torch.randn(*front, *((k, m) if form[0] == "t" else (m, k)), device="cuda")
        b = torch.randn(*front, *((n, k) if form[1] == "t" else (k, n)), device="cuda")
        self.a, self.b = a.to(DTYPES[dtype]), b.to(DTYPES[dtype])
        self.left = self.a.mT if form[0] == "t" else self.a
        self.right = self.b.mT if form[1] == "t" else self.b
        self.y, self.z = (torch.empty(*front, m, n, device="cuda", dtype=DTYPES[dtype])
                          for _ in range(2))
        self.kernel = library.kernel(
            ROOT / f"{'bench/programs/bmm' if batch else PROGRAMS[form]}.tile")
        self.case, self.work, self.dtype = case, 2 * max(1, batch) * m * n * k, dtype

    def prepare(self, lines=()):
        kernel = self.kernel.given(schedule=list(lines)) if lines else self.kernel
        return kernel.prepare(a=self.a, b=self.b, out=self.y, T=self.dtype)

    def library(self):
        (torch.bmm if self.y.dim() == 3 else torch.mm)(self.left, self.right, out=self.z)

    def error(self, launch):
        self.y.fill_(float("nan"))
        launch()
        torch.cuda.synchronize()
        reference = self.left.float() @ self.right.float()
        return float((self.y.float() - reference).norm() / reference.norm())

    def is_wrong(self, launch):
        error = self.error(launch)
        return None if error <= TOLERANCE[self.dtype] else f"wrong: relative error {error:.2g}"


def times_of(launches, rounds, rest=0.04):
    """Seconds of each; the rounds go over all."""
    counts = [max(10, min(100, round(0.004 / burst(one, 3, rest=0)))) for one in launches]
    times = [[] for _ in launches]
    for turn in range(rounds):
        order = range(len(launches))
        for i in order if turn % 2 == 0 else reversed(order):
            times[i].append(burst(launches[i], counts[i], rest))
    return [statistics.median(each) for each in times]


def made(product, lines=()):
    """What launches it, or what is wrong with it."""
    try:
        return product.prepare(lines)
    except Exception as problem:
        return str(problem).split("\n")[0][:120]


def lines_of(m, n, shares):
    lines = [f"tile M {m}", f"tile N {n}", f"split_k {shares}"]
    return lines + ["warps 12"] if m == 192 else lines


def others(pool, product, rounds):
    """The derived schedule and others of one product: lines of text, the fastest first."""
    tried = [(), ("multicast M 1", "multicast N 1"), ("multicast M 2",), ("multicast N 2",)]
    tried += [lines_of(m, n, 1) for m, n in TILES]
    tried += [lines_of(m, n, shares) for m, n in TILES[4:11] for shares in (2, 3)]
    launches = list(pool.map(lambda lines: made(product, lines), tried))
    good = [(lines, one) for lines, one in zip(tried, launches)
            if not isinstance(one, str) and product.is_wrong(one) is None]
    times = times_of([one for _, one in good] + [product.library], rounds, 0.02)
    library = times.pop()
    rows = sorted(zip(times, [" ; ".join(lines) or "derived" for lines, _ in good]))
    place = next(i for i, row in enumerate(rows) if row[1] == "derived")
    shown = rows[:4] + ([rows[place]] if place > 3 else [])
    return [f"    x{library / seconds:.3f} {lines}" for seconds, lines in shown]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=64)
    parser.add_argument("--sizes", default="", help="products beside those drawn, as `nn bf16"
                        " 3000x3000x3000`, with ; between: --tiles is for them, too")
    parser.add_argument("--only", default="", help="a pattern of form, type and sizes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16, help="that compile")
    parser.add_argument("--tiles", type=int, default=0, help="products for which others are tried")
    parser.add_argument("--lines", default="", help="schedule lines for all, with ; between")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    library = ours.use(options.tessera)
    torch.manual_seed(options.seed)
    added = [read(text) for text in options.sizes.split(";") if text.strip()]
    cases = added + [case for case in drawn(options.seed, options.number)
                     if re.search(options.only, named(case))]
    given = [line.strip() for line in options.lines.split(";") if line.strip()]
    rows, failed, begin = [], 0, time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        products = [Product(library, case) for case in cases]
        launches = list(pool.map(lambda product: made(product, given), products))
        print(f"# compiled in {time.perf_counter() - begin:.1f} s", flush=True)
        for product, launch in zip(products, launches):
            problem = launch if isinstance(launch, str) else product.is_wrong(launch)
            if problem:
                print(f"{named(product.case)}: {problem}", flush=True)
                failed += 1
                continue
            mine, other = times_of([launch, product.library], options.rounds)
            rows.append((other / mine, mine, product))
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"name": named(product.case), "ratio": other / mine,
                                           "seconds": mine}) + "\n")
        rows.sort(key=lambda row: row[0])
        for ratio, mine, product in rows:
            print(f"x{ratio:.3f} {mine * 1e6:8.1f} us {product.work / mine / 1e12:6.1f} TFLOP/s"
                  f" {named(product.case)}")
        ratios = [row[0] for row in rows]
        cuts = [ratios[int(len(ratios) * part)] for part in (0.1, 0.25, 0.5, 0.75, 0.9)]
        print(f"# {len(rows)} products, {failed} failed; of cuBLAS: least {ratios[0]:.2f},"
              f" 10 % {cuts[0]:.2f}, quarter {cuts[1]:.2f}, median {cuts[2]:.2f},"
              f" three quarters {cuts[3]:.2f}, 90 % {cuts[4]:.2f},"
              f" geometric mean {statistics.geometric_mean(ratios):.3f};"
              f" {time.perf_counter() - begin:.0f} s", flush=True)
        tried = [row for row in rows if row[2].case in added] + rows[:options.tiles]
        for ratio, _, product in tried if options.tiles else []:
            print(f"  {named(product.case)} x{ratio:.3f}")
            print("\n".join(others(pool, product, 1)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
