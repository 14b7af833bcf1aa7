# SPDX-License-Identifier: Apache-2.0
"""How long tests wait before they consider something hung. Their limits are generous for an idle
machine of the speed of the one that they were written on; on a slower or a busier one they grow
with how much slower the machine is now, so that no verdict depends on what else it does."""

import os
import time

REFERENCE = 0.022  # seconds that probe() takes on an idle core of a 2.6 GHz Xeon, Python 3.11
measured = None


def probe():
    """Seconds that a fixed computation takes now."""
    start, total = time.perf_counter(), 0
    for i in range(400_000):
        total += i * i & 7
    return time.perf_counter() - start


def slowness():
    """How many times as long as on the idle reference things may take now: what one core needs for
    the probe, or how many processes want a core, whichever is more. The probe is made once: by
    tests/run.py for all suites ($TESSERA_PROBE), else by this process."""
    global measured
    measured = measured or float(os.environ.get("TESSERA_PROBE", 0)) or probe()
    cores = len(os.sched_getaffinity(0))
    waiting = os.getloadavg()[0] / cores
    return max(1.0, measured / REFERENCE, waiting)


def seconds(limit):
    """The limit, as long as it is on this machine now."""
    return limit * slowness()
