#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model.py TESSERA: how the model of CPUs ranks schedules beside what was measured of them
(recorded/*.csv, by record.py, on one thread of a server's CPU with AVX-512). Spearman's
coefficient, and what the model's first choice loses, must not get worse than they were when it was
fitted; what the rows of a kernel differ by little in says little, so that bounds differ. Prints
`N passed, N failed`."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
# kernel: arguments, least coefficient, most that the first choice takes, as a share of the best
KERNELS = {
    "matmul": (["--set", "T=f32", "--size", "M=384,N=384,K=384"], 0.70, 1.10),
    "softmax": (["--set", "T=f32", "--size", "M=256,N=4001"], 0.80, 1.06),
    "total": (["--size", "N=1000003"], 0.65, 1.06),
    "layer_norm": (["--set", "T=f32", "--size", "M=256,N=1000"], 0.15, 1.20),
    "jacobi": (["--size", "H=1000,W=1001"], 0.30, 1.10),
}


def ranks(values):
    """Those alike share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, i = [0.0] * len(values), 0
    while i < len(order):
        end = i
        while end < len(order) and values[order[end]] == values[order[i]]:
            end += 1
        for at in order[i:end]:
            found[at] = (i + end - 1) / 2
        i = end
    return found


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    xy = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    xx, yy = sum((x - mean) ** 2 for x in a), sum((y - mean) ** 2 for y in b)
    return xy / (xx * yy) ** 0.5 if xx * yy > 0 else 0.0


def predictions(tessera, kernel, arguments, schedules):
    """As a worker of a sweep weighs them."""
    worker = subprocess.Popen(
        [tessera, "tune", str(EXAMPLES / f"{kernel}.tile"), *arguments, "--threads", "1",
         "--device", "cpu", "--work", f"compile:{os.getpid()}:x86-64-v4"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "hello\n"
    found = []
    for lines in schedules:
        worker.stdin.write(f"weigh 1 {lines}\n")
        worker.stdin.flush()
        words = worker.stdout.readline().split()
        assert words[:3] == ["weighed", "1", "ok"], (kernel, lines, words)
        found.append(float(words[3]))
    worker.stdin.close()
    worker.wait()
    return found


def main():
    failed = 0
    for kernel, (arguments, least, most) in KERNELS.items():
        rows = [line.split(",", 2) for line in
                (HERE / "recorded" / f"{kernel}.csv").read_text().splitlines()]
        measured = [float(seconds) for _, seconds, _ in rows]
        predicted = predictions(sys.argv[1], kernel, arguments, [lines for _, _, lines in rows])
        agreement = spearman(predicted, measured)
        first = measured[predicted.index(min(predicted))] / min(measured)
        good = agreement >= least and first <= most
        failed += not good
        print(f"{kernel}: {len(rows)} schedules, Spearman {agreement:.2f} ({least} wanted); the "
              f"first by the model takes {first:.3f} of the best ({most} wanted)")
    print(f"{len(KERNELS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
