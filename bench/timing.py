# SPDX-License-Identifier: Apache-2.0
"""How kernels are timed: rested bursts, interleaved over all competitors.

A card at its power limit lowers its clock, so that a kernel that runs after a hot one looks slow
and one after a cool one fast. Each measurement therefore rests 150 ms, warms up five times and
times 20 to 200 launches between two events; rounds go over all competitors, every other one in
reversed order, and the median of the rounds counts.
"""

import statistics
import time
from dataclasses import dataclass

import torch

REST, WARMUPS, BURST_SECONDS = 0.150, 5, 0.010


@dataclass
class Timed:
    seconds: float
    spread: float  # (slowest - fastest) / median of the rounds


def burst(launch, launches, rest=REST, warmups=WARMUPS):
    """Seconds of one launch."""
    torch.cuda.synchronize()
    time.sleep(rest)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(warmups):
        launch()
    begin.record()
    for _ in range(launches):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / launches


def how_many(launch):
    """So many launches that a burst takes about 10 ms."""
    once = burst(launch, 3)
    return max(20, min(200, round(BURST_SECONDS / once)))


def compare(competitors, rounds=7):
    """{name: launch} → {name: Timed}."""
    counts = {name: how_many(launch) for name, launch in competitors.items()}
    times = {name: [] for name in competitors}
    for i in range(rounds):
        order = list(competitors) if i % 2 == 0 else list(reversed(competitors))
        for name in order:
            times[name].append(burst(competitors[name], counts[name]))
    return {name: Timed(statistics.median(t), (max(t) - min(t)) / statistics.median(t))
            for name, t in times.items()}
