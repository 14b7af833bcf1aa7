#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demo.py TESSERA [FOLDER]: the four programs on real input, on this machine's CPU.

Writes the input as .npy files, runs each program with its check against the interpreter, shows the
answer, the time and the schedule that the compiler derived.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "differential"))
from arrays import load, random, save  # noqa: E402

ADD = {"x": ("f32", (1000003,)), "y": ("f32", (1000003,))}
SOFTMAX = {"x": ("f32", (300, 1000))}
LINEAR = {"x": ("bf16", (200, 512)), "w": ("bf16", (300, 512)), "b": ("bf16", (300,))}
ATTENTION = {name: ("f16", (1, 2, 200, 64)) for name in "qkv"}
SCALES = {("linear", "w"): 512**-0.5, ("softmax", "x"): 3}
# program, inputs, generic and const parameters, scalars
RUNS = [
    ("add", ADD, {}, {}),
    ("softmax", SOFTMAX, {"T": "f32"}, {}),
    ("linear", LINEAR, {"T": "bf16"}, {}),
    ("attention", ATTENTION, {"T": "f16", "causal": "true", "D": "64"}, {"scale": "0.125"}),
]


def call(command):
    print("\n$ " + " ".join(command), flush=True)
    done = subprocess.run(command)
    if done.returncode != 0:
        sys.exit(done.returncode)


def demo(tessera, folder, program, inputs, consts, scalars):
    rng = np.random.default_rng(7)
    values = []
    for name, (dtype, shape) in inputs.items():
        path = folder / f"{program}.{name}.npy"
        save(path, dtype, random(rng, dtype, shape, SCALES.get((program, name), 1)))
        values.append(f"{name}={path}")
    values += [f"{name}={value}" for name, value in scalars.items()]
    sets = [word for name, value in consts.items() for word in ("--set", f"{name}={value}")]
    source = f"examples/{program}.tile"
    answer = folder / f"{program}.npy"
    call([tessera, "run", source, *sets, *values, "--device", "cpu", "-o", str(answer), "--check"])
    result = load(answer)
    with np.printoptions(precision=6, threshold=24, edgeitems=2):
        print(f"{answer.name}: shape {result.shape}\n{result}")
    flat = [s for n, (_, shape) in inputs.items() for s in sizes(program, n, shape)]
    call([tessera, "bench", source, *sets, "--size", ",".join(dict.fromkeys(flat)),
          "--device", "cpu"])
    call([tessera, "explain", source, *sets, "--target", "native"])


def sizes(program, name, shape):
    """N=…: the sizes that this input's shape binds."""
    letters = {"add": "N", "softmax": "MN", "attention": "BHSD" if name == "q" else "BHLD",
               "linear": {"x": "MK", "w": "NK", "b": "N"}.get(name)}[program]
    return [f"{letter}={n}" for letter, n in zip(letters, shape)]


def main():
    tessera = os.path.abspath(sys.argv[1])
    folder = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / "demo"
    os.chdir(ROOT)
    tessera, folder = os.path.relpath(tessera), pathlib.Path(os.path.relpath(folder))
    folder.mkdir(parents=True, exist_ok=True)
    for run in RUNS:
        demo(tessera, folder, *run)


if __name__ == "__main__":
    main()
