#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""microbench.py [--tessera PROGRAM] [--card NAME]: measures what a row of ir/target/machines.def
needs on this GPU, beside what the row says.

Each line is a field of the row, the measured value, the row's value, and their ratio. Rates per
cycle divide by the clock that the driver reported while the kernel ran, because a card at its power
limit lowers it. Products, copies and launches are those of torch, so that the numbers do not depend
on our code; a chain of multiply-adds is ours, since no library has one. What is not measured here
comes from data sheets and programming guides: sizes of caches, multiprocessors, special functions.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
CHAIN = 256  # multiply-adds of an element
FIELDS = ("memory_gbs", "memory_bytes", "l2_bytes", "product64", "product32", "product16",
          "product8", "lanes", "host_cycles", "start")


def rows():
    """{card: {field: value}} of the table, with its macros expanded, as docs.py reads it."""
    import docs
    return {head[1]: {"title": head[3], "match": head[4], **facts}
            for head, facts in docs.machines()}


class Clock:
    """The clock in MHz while a burst runs: the median of what nvidia-smi reports meanwhile."""

    def __enter__(self):
        self.seen, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-i", "0"]
        while not self.ends.is_set():
            done = subprocess.run(query, capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip().isdigit():
                self.seen.append(int(done.stdout))

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def mhz(self, usual):
        return statistics.median(self.seen) if self.seen else usual


def timed(launch, usual, seconds=1.0):
    """(seconds of a launch, MHz meanwhile) over a burst that is long enough to see the clock."""
    import torch
    import timing
    once = timing.burst(launch, 5)
    launches = max(5, min(200000, round(seconds / once)))
    with Clock() as clock:
        each = timing.burst(launch, launches, rest=0.5)
    torch.cuda.synchronize()
    return each, clock.mhz(usual)


def copies(found, sms, usual):
    """memory_gbs, memory_bytes, l2_bytes: a copy of 2 GiB, and rows that all are the same 4 MiB."""
    import torch
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    seconds, _ = timed(lambda: y.copy_(x), usual)
    moved = 2 * x.numel() * 4
    found["memory_gbs"] = moved / seconds / 1e9
    # The cost models count memory in cycles of the clock that long products keep.
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    _, products = timed(lambda: a @ a, usual)
    found["memory_bytes"] = moved / seconds / (products * 1e6)
    del x, y, a
    rows_of_l2 = torch.randn(1 << 20, device="cuda").expand(16 * sms, 1 << 20)
    seconds, mhz = timed(lambda: rows_of_l2.sum(1), usual)
    found["l2_bytes"] = rows_of_l2.numel() * 4 / seconds / sms / (mhz * 1e6)


def products(found, sms, usual):
    """FLOP per cycle of the matrix units, for the types that torch multiplies."""
    import torch
    n = 8192

    def rate(launch, size=n):
        seconds, mhz = timed(launch, usual)
        return 2 * size ** 3 / seconds / sms / (mhz * 1e6)
    torch.backends.cuda.matmul.allow_tf32 = True
    for field, dtype, size in (("product16", torch.bfloat16, n), ("product32", torch.float32, n),
                               ("product64", torch.float64, n // 2)):
        a = torch.randn(size, size, device="cuda", dtype=torch.float32).to(dtype)
        found[field] = rate(lambda a=a: a @ a.T, size)
    if hasattr(torch, "_int_mm"):
        a = torch.randint(-8, 8, (n, n), device="cuda", dtype=torch.int8)
        found["product8"] = rate(lambda: torch._int_mm(a, a.T))


def chain(tessera, found, sms, usual):
    """lanes: elements that go through a long chain of multiply-adds."""
    import torch
    n = 1 << 24
    lines = [f"let v{i + 1} = v{i} * f + f" for i in range(CHAIN)]
    text = ("# SPDX-License-Identifier: Apache-2.0\nkernel chain(x: f32[N], f: f32) -> f32[N] {\n"
            "    let v0 = x\n    " + "\n    ".join(lines) + f"\n    return v{CHAIN}\n}}\n")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "chain.tile"
        file.write_text(text)
        x, y = torch.full((n,), -1.0, device="cuda"), torch.empty(n, device="cuda")
        launch = tessera.kernel(str(file)).prepare(out=y, x=x, f=0.5)
        seconds, mhz = timed(launch, usual)
    found["lanes"] = n * CHAIN / seconds / sms / (mhz * 1e6)


def launches(found, usual):
    """host_cycles and start: tiny kernels started one by one by the host, and in one graph."""
    import torch
    x = torch.zeros(32, device="cuda")
    seconds, mhz = timed(lambda: x.add_(1), usual)
    found["host_cycles"] = seconds * mhz * 1e6
    graph, inside = torch.cuda.CUDAGraph(), 1000
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.add_(1)
        stream.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(inside):
                x.add_(1)
    seconds, mhz = timed(graph.replay, usual)
    found["start"] = seconds / inside * mhz * 1e6


def row_of_device(name, sms, given):
    table = rows()
    if given:
        return given, table[given]
    fits = [card for card, row in table.items() if row["match"] and row["match"] in name
            and int(row["num_sms"]) == sms]
    fits.sort(key=lambda card: -len(table[card]["match"]))
    return (fits[0], table[fits[0]]) if fits else ("none", {})


def main():
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--tessera", help="the program; without it the chain is not measured")
    made.add_argument("--card", help="the row to compare with (default: the device's)")
    options = made.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("microbench.py needs torch")
    if not torch.cuda.is_available():
        sys.exit("microbench.py needs a GPU")
    device = torch.cuda.get_device_properties(0)
    card, row = row_of_device(device.name, device.multi_processor_count, options.card)
    usual = int(row.get("clock", 1500))
    print(f"{device.name}, {device.multi_processor_count} multiprocessors: card {card}")
    found, sms = {}, device.multi_processor_count
    start = time.time()
    copies(found, sms, usual)
    products(found, sms, usual)
    launches(found, usual)
    if options.tessera:
        import ours
        chain(ours.use(options.tessera), found, sms, usual)
    for field in FIELDS:
        if field in found:
            said = float(row.get(field, 0))
            share = f"{found[field] / said:8.2f}" if said else "       –"
            print(f"{field:14s} {found[field]:10.1f}  row {said:8.0f} {share}")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
