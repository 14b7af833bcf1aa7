#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""windows.py --tessera PROGRAM (--emulator PROGRAM | --device cuda): convolutions whose images are
copied to where the copy engine walks their windows (`im2col bulk`), of random kinds, sizes, steps,
distances of taps and pads.

The emulator of PTX compares with NumPy, exactly: small whole numbers. A GPU (`tessera run --check`)
compares with the interpreter. --count so many, from --first on. Prints `N passed, N failed`."""

import functools
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS / "codegen" / "emulator"), str(TESTS)]
import launcher  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

ROOT = TESTS.parent
PROGRAM = "bench/programs/convolutions.tile"
LINE = ["--schedule", "im2col bulk"]
KINDS = "last", "planes", "groups", "line", "volume", "patches"
SECONDS = 60
ROUNDING = 1 / 128  # of bf16


class Case:
    """The number says all."""

    def __init__(self, number):
        draw = random.Random(number)
        self.kind = KINDS[number % len(KINDS)]
        self.dtype = draw.choice(["bf16", "f16"])
        self.kernel = "last" if self.kind == "patches" else self.kind
        taps = {"R": draw.randint(1, 5), "S": draw.randint(1, 5)}
        sizes = {"B": draw.randint(1, 3), "H": draw.randint(9, 34), "W": draw.randint(9, 34),
                 "C": draw.choice([1, 2, 3, 4, 5, 12, 20, 36, 64, 100]),
                 "O": draw.choice([7, 24, 40, 64, 100, 130]), **taps}
        pad = min(draw.randint(0, 3), *taps.values())
        named = {"stride": draw.choice([1, 1, 2, 3]), "pad": pad}
        if self.kind == "patches":
            side = draw.choice([2, 3, 4, 7, 8, 14, 16])
            sizes.update(R=side, S=side, C=draw.choice([1, 3, 4, 5, 8, 12]))
            sizes.update({axis: side * draw.randint(2, 4) + draw.randrange(side) for axis in "HW"})
            named = {"stride": side, "pad": 0}
        elif self.kind == "groups":
            sizes.update(G=draw.choice([2, 3, 5]), O=draw.choice([6, 16, 33]))
        elif self.kind == "line":
            sizes = {"B": sizes["B"], "L": draw.randint(40, 300), "C": sizes["C"],
                     "O": sizes["O"], "R": taps["R"]}
        elif self.kind == "volume":
            sizes.update(D=draw.randint(5, 9), H=sizes["H"] // 2, W=sizes["W"] // 2,
                         C=draw.choice([3, 4, 20]), N=draw.randint(1, 3))
            sizes.update(R=min(taps["R"], 3), S=min(taps["S"], 3))
            named["pad"] = min(named["pad"], sizes["N"], sizes["R"], sizes["S"])
        if self.kernel in ("last", "line") and self.kind != "patches":
            named["dilation"] = draw.choice([1, 1, 2])
        self.sizes, self.named = sizes, named

    def words(self):
        return ["--set", f"T={self.dtype}", "--size", joined(self.sizes), "--set",
                joined(self.named), *LINE]

    def __str__(self):
        return f"conv_{self.kernel} {self.dtype} {joined(self.sizes)} {joined(self.named)}"


def joined(values):
    return ",".join(f"{name}={value}" for name, value in values.items())


# ---- by the emulator ----

SHAPES = {"last": ("BHWC", "ORSC"), "planes": ("BCHW", "OCRS"), "groups": ("BHWGC", "GORSC"),
          "line": ("BLC", "ORC"), "volume": ("BDHWC", "ONRSC")}


def convolved(x, w, stride=1, pad=0, dilation=1):
    """Channels last, of any number of spatial axes."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), *[(pad, pad)] * n, (0, 0)])
    places = [(have - dilation * (taps - 1) - 1) // stride + 1
              for have, taps in zip(x.shape[1:-1], w.shape[1:-1])]
    y = np.zeros((x.shape[0], *places, w.shape[0]))
    for tap in itertools.product(*map(range, w.shape[1:-1])):
        read = [slice(t * dilation, t * dilation + stride * (extent - 1) + 1, stride)
                for t, extent in zip(tap, places)]
        y += x[(slice(None), *read)] @ w[(slice(None), *tap)].T
    return y


def reference(case, x, w):
    if case.kernel == "planes":
        return np.moveaxis(convolved(np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1), **case.named),
                           -1, 1)
    if case.kernel == "groups":
        return np.stack([convolved(x[..., g, :], w[g], **case.named) for g in range(len(w))], 3)
    return convolved(x, w, **case.named)


def emulated(options, case):
    rng = np.random.default_rng(case.sizes["O"])
    x, w = (rng.integers(-3, 4, [case.sizes[axis] for axis in shape]).astype(float)
            for shape in SHAPES[case.kernel])
    source = f"{ROOT / PROGRAM}:conv_{case.kernel}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            code, plan = launcher.Compiler(options.tessera, folder).compile(
                source, "sm_90a", [*case.words(), "--verify"])
            maps = [entry for entry in plan["maps"] if "windows" in entry]
            walked = [plan["params"][entry["param"]] for entry in maps]
            lives = [param.get("launches", [0, 1]) for param in walked]
            if not walked or any(last == first for first, last in lives):
                return "no windows are walked, or of what lives no longer than it is filled"
            y = launcher.emulate(options.emulator, code, plan, {"x": x, "w": w}, folder)["y"]
    except launcher.Failure as failure:
        return str(failure)
    want = reference(case, x, w)
    bad = ~(np.abs(y - want) <= np.abs(want) * ROUNDING)
    return f"{bad.sum()} of {bad.size} differ" if bad.any() else None


# ---- by a device ----

def checked(options, case):
    command = [options.tessera, "run", f"{PROGRAM}:conv_{case.kernel}", *case.words(), "--device",
               options.device, "--check"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT,
                             timeout=patience.seconds(SECONDS))
    except subprocess.TimeoutExpired:
        return f"not done in {SECONDS} s"
    said = (ran.stdout + ran.stderr).strip().splitlines()
    return None if ran.returncode == 0 else "; ".join(said[-3:]) or f"exit {ran.returncode}"


def main():
    made = suite.parser(__doc__, device="cuda")
    made.add_argument("--emulator")
    made.add_argument("--first", type=int, default=0)
    made.add_argument("--count", type=int, default=36)
    options = made.parse_args()
    attempt = emulated if options.emulator else checked
    cases = [Case(number) for number in range(options.first, options.first + options.count)]
    return suite.run(options, cases, functools.partial(attempt, options), str)


if __name__ == "__main__":
    sys.exit(main())
