#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py STORE.db KERNEL.tile SHAPES > recorded/NAME.csv: times of all candidates that an
exhaustive sweep of the CPU measured, anew, in seconds of one thread's own (so that what else the
machine does hardly counts): the least of several. Lines are `predicted,seconds,schedule`, as
tests/tune/search.c reads them. PYTHONPATH has python/, TESSERA_LIBRARY the library."""

import os
import sqlite3
import sys
import time

import numpy
import tessera

ROUNDS, TIMES = 9, 3


def main():
    store, source, *shapes = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    arrays = [numpy.random.default_rng(i).standard_normal([int(n) for n in shape.split("x")],
                                                          dtype=numpy.float32)
              for i, shape in enumerate(shapes)]
    rows = sqlite3.connect(store).execute(
        "select predicted, candidate from records where status = 'ok' and candidate <> ''"
        " order by predicted, candidate").fetchall()
    kernel = tessera.kernel(source)
    launches = []
    for predicted, candidate in rows:
        given = kernel.given(schedule=candidate.split("\n"), pins=False)
        launches.append((predicted, candidate, given.prepare(*arrays)))
    best = [float("inf")] * len(launches)
    for _ in range(ROUNDS):
        for i, (_, _, launch) in enumerate(launches):
            launch()
            start = time.process_time()
            for _ in range(TIMES):
                launch()
            best[i] = min(best[i], (time.process_time() - start) / TIMES)
    for seconds, (predicted, candidate, _) in zip(best, launches):
        print(f"{predicted:.6g},{seconds:.6g},{candidate.replace(chr(10), ';')}")


main()
