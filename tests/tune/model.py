#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model.py TESSERA [--all]: how the models of CPUs and of the H200 rank schedules beside what was
measured of them (recorded/*.csv: by record.py, on one thread of a server's CPU with AVX-512; by
sweeps on an H200). Spearman's coefficient, and what the model's first choice loses, must not get
worse than they were when it was fitted; what the rows of a kernel differ by little in says little,
so that bounds differ. With --all the kernels that it was not fitted to are told, too. Prints
`N passed, N failed`."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
CPU, H200 = ["--threads", "1", "--device", "cpu"], []
TARGETS = {id(CPU): "x86-64-v4", id(H200): "sm_90a"}
FEW, NEAR = 0.15, 1.05  # a share of the schedules; of the best time
F32 = ["--set", "T=f32", "--size"]
SOFTMAX = ["--set", "T=bf16", "--size", "M=8192,N=16384"]
ATTENTION = ["--set", "T=bf16", "--set", "causal=true", "--size", "B=4,H=32,S=4096,L=4096,D=128"]
# recorded: kernel, where, arguments, least coefficient, most that the first choice takes, as a
# share of the best
FITTED = {
    "matmul": ("matmul", CPU, [*F32, "M=384,N=384,K=384"], 0.70, 1.10),
    "softmax": ("softmax", CPU, [*F32, "M=256,N=4001"], 0.80, 1.06),
    "total": ("total", CPU, ["--size", "N=1000003"], 0.65, 1.06),
    "layer_norm": ("layer_norm", CPU, [*F32, "M=256,N=1000"], 0.15, 1.20),
    "jacobi": ("jacobi", CPU, ["--size", "H=1000,W=1001"], 0.30, 1.10),
    "transpose": ("transpose", CPU, [*F32, "M=1000,N=1001"], 0.50, 1.25),
    "transpose_2048": ("transpose", CPU, [*F32, "M=2048,N=2048"], 0.60, 1.30),
    "softmax_h200": ("softmax", H200, SOFTMAX, 0.65, 1.05),
    "attention_h200": ("attention", H200, ATTENTION, 0.85, 1.15),
    # Every second of 200 that a sweep of 60 s measured; nothing was fitted to these.
    "attention_swept": ("attention", H200, ATTENTION, 0.75, 1.10),
    "conv2d_swept": ("conv2d", H200, ["--set", "T=bf16", "--size",
                                      "B=32,H=56,W=56,C=256,O=256,R=3,S=3"], 0.80, 1.10),
}
HELD_OUT = {
    "rms_norm": ("rms_norm", CPU, [*F32, "M=256,N=4000"]),
    "gemv": ("gemv", CPU, [*F32, "M=1000,N=3001"]),
    "swiglu": ("swiglu", CPU, [*F32, "M=512,N=1000"]),
    "blur": ("blur", CPU, ["--size", "H=1000,W=1001"]),
    "layer_norm_8000": ("layer_norm", CPU, [*F32, "M=64,N=8000"]),
    "softmax_333": ("softmax", CPU, [*F32, "M=2000,N=333"]),
    "max_pool": ("max_pool", CPU, ["--size", "B=2,H=64,W=64,C=64"]),
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


def program(kernel):
    """The example, or, if it has changed since it was measured, what it was then."""
    then = HERE / "recorded" / f"{kernel}.tile"
    return then if then.exists() else EXAMPLES / f"{kernel}.tile"


def predictions(tessera, kernel, where, arguments, schedules):
    """As a worker of a sweep weighs them; None: it is refused, since it does not fit."""
    worker = subprocess.Popen(
        [tessera, "tune", str(program(kernel)), *arguments, *where, "--work",
         f"compile:{os.getpid()}:{TARGETS[id(where)]}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "hello\n"
    found = []
    for lines in schedules:
        worker.stdin.write(f"weigh 1 {lines}\n")
        worker.stdin.flush()
        words = worker.stdout.readline().split()
        fits = words[:3] == ["weighed", "1", "ok"]
        assert fits or words[:3] == ["weighed", "1", "room"], (kernel, lines, words)
        found.append(float(words[3]) if fits else None)
    worker.stdin.close()
    worker.wait()
    return found


def compare(tessera, name, kernel, where, arguments):
    """Spearman's coefficient, what the first choice takes, and how many schedules there are. Of
    those that were measured few may be refused since, and none that was nearly the best."""
    rows = [line.split(",", 2) for line in
            (HERE / "recorded" / f"{name}.csv").read_text().splitlines()]
    measured = [float(seconds) for _, seconds, _ in rows]
    predicted = predictions(tessera, kernel, where, arguments, [lines for _, _, lines in rows])
    refused = [m for m, p in zip(measured, predicted) if p is None]
    assert len(refused) <= FEW * len(rows), refused
    assert all(m > NEAR * min(measured) for m in refused), refused
    measured, predicted = zip(*((m, p) for m, p in zip(measured, predicted) if p is not None))
    first = measured[predicted.index(min(predicted))] / min(measured)
    return spearman(predicted, measured), first, len(measured)


def main():
    failed = 0
    for name, (kernel, where, arguments, least, most) in FITTED.items():
        agreement, first, n = compare(sys.argv[1], name, kernel, where, arguments)
        good = agreement >= least and first <= most
        failed += not good
        print(f"{name}: {n} schedules, Spearman {agreement:.2f} ({least} wanted); the "
              f"first by the model takes {first:.3f} of the best ({most} wanted)", flush=True)
    for name, case in HELD_OUT.items() if "--all" in sys.argv else ():
        agreement, first, n = compare(sys.argv[1], name, *case)
        print(f"{name}, not fitted: {n} schedules, Spearman {agreement:.2f}; the first by the "
              f"model takes {first:.3f} of the best", flush=True)
    print(f"{len(FITTED) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
