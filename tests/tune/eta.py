#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""eta.py TESSERA MOCK FOLDER: how long a sweep says that it will take yet, on the line of a
terminal, beside how long it took: after a quarter, a half and three quarters of sweeps of several
kinds, on the CPU and on a driver made of plain memory (tests/mock_driver), with a budget and
without. What else the machine does changes while they run, so that the median error is what counts,
a quarter at most, and of three attempts the best. Prints `1 passed, 0 failed`, or fails."""

import os
import pathlib
import pty
import re
import select
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LEFT = re.compile(rb"\r(\w[^\r]*?) (\d+)/(\d+)[^\r]*?([\d.]+) s left")
BEST = re.compile(rb"\r\w[^\r]*?, best ([\d.e+-]+) (us|ms), ([\d.]+) times the derived")
SWEEPS = {
    "softmax on the CPU": ("softmax", ["--set", "T=f32", "--size", "M=512,N=1000",
                                       "--device", "cpu", "--candidates", "40"]),
    "matmul on the CPU, 20 s": ("matmul", ["--set", "T=f32", "--size", "M=256,N=256,K=256",
                                           "--device", "cpu", "--budget", "20s"]),
    "add on the mock": ("add", ["--size", "N=4096", "--device", "cuda", "--candidates", "96"]),
    "matmul on the mock, 20 s": ("matmul", ["--set", "T=bf16", "--size", "M=512,N=512,K=512",
                                            "--device", "cuda", "--budget", "20s"]),
}
SHARES, MOST_ERROR, ATTEMPTS = (0.25, 0.5, 0.75), 0.25, 3


def watch(command, environment):
    """What it said, as (when, seconds left), all of it, and when it ended."""
    master, slave = pty.openpty()
    start, said, everything = time.monotonic(), [], b""
    sweep = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)
    while True:
        ready = select.select([master], [], [], 1)[0]
        try:
            piece = os.read(master, 65536) if ready else b""
        except OSError:  # it has closed its end
            break
        everything += piece
        said += [(time.monotonic() - start, float(found[4])) for found in LEFT.finditer(piece)]
    assert sweep.wait(patience.seconds(60)) == 0, command
    return said, everything, time.monotonic() - start


def moves_apart(everything):
    """The first line whose best time moved by what its ratio shows, and the ratio did not, or the
    other way round; None: there is none."""
    lines = [(float(found[1]) * (1e3 if found[2] == b"ms" else 1), float(found[3]))
             for found in BEST.finditer(everything)]
    assert len(lines) > 2, everything
    for (best, ratio), (next_best, next_ratio) in zip(lines, lines[1:]):
        moved = abs(next_best / best - 1) > 0.002
        if moved != (ratio != next_ratio) and (moved or next_best == best):
            return best, ratio, next_best, next_ratio
    return None


def median_error(tessera, mock, folder):
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    mocked = dict(os.environ, LD_LIBRARY_PATH=f"{mock}/lib", MOCK_OPENED="0",
                  MOCK_SWEEP="0,5,0,2")
    errors = []
    for what, (kernel, arguments) in SWEEPS.items():
        command = [tessera, "tune", str(EXAMPLES / f"{kernel}.tile"), *arguments, "--store",
                   str(folder / "eta.db")]
        said, everything, end = watch(command, mocked if "cuda" in arguments else dict(os.environ))
        assert said, f"{what}: nothing was said"
        assert not moves_apart(everything), (what, moves_apart(everything))
        told = []
        for share in SHARES:
            at, left = min(said, key=lambda one: abs(one[0] - share * end))
            errors.append(abs(left / (end - at) - 1))
            told.append(f"{left:.1f} s for {end - at:.1f}")
        print(f"{what}: {end:.1f} s; {', '.join(told)}", flush=True)
    error = statistics.median(errors)
    print(f"median error {error:.2f}, worst {max(errors):.2f}, of {len(errors)}", flush=True)
    return error


def main():
    tessera, mock, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    good = any(median_error(tessera, mock, folder) <= MOST_ERROR for _ in range(ATTEMPTS))
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
