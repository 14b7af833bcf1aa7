# SPDX-License-Identifier: Apache-2.0
"""What regret.py times on, how, and how far an answer is from what it should be."""

import json
import os
import re
import statistics
import time

BURST = {"cuda": 0.006, "cpu": 0.015}  # seconds
PIECE = 0.001        # seconds of a CPU's burst that are timed as one
ROUNDS_CPU = 3       # times as many as on a GPU
FLUSHED = 256 << 20  # bytes: more than any card's second-level cache
WRONG = 1e-3         # share of integers that may differ: ties


class Place:
    """The device: how launches are timed, what it is called."""

    def __init__(self, options, library):
        import torch
        self.torch, self.kind, self.library = torch, options.device, library
        self.is_gpu = self.kind == "cuda"
        if self.is_gpu:
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.benchmark = True
            self.flushed = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
            self.card = torch.cuda.get_device_name()
            self.make = self.target = self._card_target()
        else:
            self.card, self.make = processor(), "native"
            self.target = portable_target()

    def _card_target(self):
        """The target with the row of the card, as `--target` spells it."""
        kernel = self.library.parse("kernel same(x: f32[N]) -> f32[N] = x + 1").same
        launch = kernel.prepare(self.torch.zeros(64, device="cuda"))
        said = json.loads(launch.compiled.explain("json"))
        return f"{said['target']}@{said['card']}"

    def sync(self):
        if self.is_gpu:
            self.torch.cuda.synchronize()

    def cold(self, launch, n):
        """Seconds of each of n launches, the second-level cache full of other bytes."""
        event = self.torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(n)]
        for begin, end in pairs:
            self.flushed.zero_()
            begin.record()
            launch()
            end.record()
        self.sync()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

    def warm(self, launch, n):
        """Seconds of a launch, n times: each of so many that they take about PIECE seconds."""
        taken, each = [], 1
        for nth in range(n + 1):
            begin = time.perf_counter()
            for _ in range(each):
                launch()
            taken.append((time.perf_counter() - begin) / each)
            each = max(1, min(100, round(PIECE / max(taken[0], 1e-6))))
        return taken[1:]

    def times(self, launch, n):
        return (self.cold if self.is_gpu else self.warm)(launch, n)

    def burst(self, launch, once):
        """Seconds of a launch, of about BURST seconds of them."""
        whole = BURST[self.kind]
        if not self.is_gpu:
            return self.middle(self.warm(launch, max(3, round(whole / max(once, PIECE)))))
        n = max(2 if once > 0.003 else 4, min(24, round(whole / max(once, 1e-6))))
        return self.middle(self.times(launch, n))

    def middle(self, values):
        """What stands for all of them: on a CPU, where whatever else runs only ever makes a launch
        longer, the lower quartile, which half an idle machine is enough for; else the median."""
        return statistics.median(values) if self.is_gpu else sorted(values)[len(values) // 4]

    def over(self, times, name, best):
        """How many times as long as the best: by rounds, or by what stands for all of them."""
        if self.is_gpu:
            return statistics.median(a / b for a, b in zip(times[name], times[best]))
        return self.middle(times[name]) / self.middle(times[best])

    def timed(self, times, name, best):
        taken = times[name]
        middle = self.middle(taken)
        return {"seconds": float(f"{middle:.5g}"),
                "spread": round((max(taken) - min(taken)) / middle, 4),
                "over": 1.0 if name == best else round(self.over(times, name, best), 4)}


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return f"{found[1] if found else 'CPU'}, {len(os.sched_getaffinity(0))} threads"


def portable_target():
    """What code for a CPU is known by: `native` would be other code on each processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return "x86-64-v4" if " avx512vl" in file.read() else "x86-64-v3"


# ---- rounds, answers ----

def take_turns(place, rivals, rounds):
    """{name: seconds of each round}"""
    once = {}
    for name, launch in rivals.items():
        launch()
        once[name] = place.times(launch, 2)[-1]
    times = {name: [] for name in rivals}
    for nth in range(rounds if place.is_gpu else ROUNDS_CPU * rounds):
        for name in list(rivals) if nth % 2 == 0 else list(reversed(rivals)):
            times[name].append(place.burst(rivals[name], once[name]))
    return times


def poison(tensor):
    import torch
    if tensor.dtype.itemsize == 1:
        tensor.view(torch.uint8).fill_(0x7F)
    else:
        tensor.fill_(float("nan") if tensor.is_floating_point() else -7)


def error_of(result, wanted):
    """Of the norm of the difference; of integers the share that differs, as 0 where few do."""
    if not result.is_floating_point():
        share = float((result != wanted.to(result.dtype)).double().mean())
        return 0.0 if share <= WRONG else 1.0
    wide = wanted.dtype if wanted.dtype.itemsize >= 4 else wanted.float().dtype
    wanted = wanted.to(wide).reshape(result.shape)
    norm = wanted.norm().clamp(min=1e-30)
    error = float((result.to(wide) - wanted).norm() / norm)
    return error if error == error else float("inf")
