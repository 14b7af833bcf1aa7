# SPDX-License-Identifier: Apache-2.0
"""eval.py PROGRAM FOLDER: what `tessera eval` computes, compared with NumPy: types, shapes,
scalars, slices, arrays in Fortran order. Prints `N passed, N failed`."""

import os
import pathlib
import subprocess
import sys

import numpy as np

TESSERA, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SEED = np.random.default_rng(1)
X = SEED.standard_normal((5, 7)).astype(np.float32)
F = np.asfortranarray(SEED.standard_normal((4, 5)))
I = np.arange(6, dtype=np.int64)
ARRAYS = {"x": X, "f": F, "i": I, "none": np.zeros((0, 3), np.float32)}
E = np.exp(X - X.max(1, keepdims=True))

# expression, its arguments, what it is
CASES = [
    ("softmax(x)", ["x"], E / E.sum(1, keepdims=True)),
    ("x.T @ x", ["x"], X.T @ X),
    ("sum(x, axis=1)", ["x"], X.sum(1, keepdims=True)),
    ("x > 0", ["x"], X > 0),
    ("f @ f64(x)", ["f", "x"], F @ X.astype(np.float64)),
    ("i * n + 1", ["i", "n=3"], I * 3 + 1),
    ("x * a", ["x", "a=0.5"], X * np.float32(0.5)),
    ("x * a", ["x=x.npy[:, ::2]", "a=-2e0"], X[:, ::2] * np.float32(-2)),
    ("argmax(x, axis=0)", ["x"], X.argmax(0)[None, :]),
    ("cumsum(i)", ["i"], np.cumsum(I)),
    ("2 + 3 * 4", [], np.array([14])),
    ("bf16(x) * 0 + 1", ["x"], np.ones_like(X)),
    ("none + 1", ["none"], np.zeros((0, 3), np.float32)),
]


def run(expression, arguments, *more):
    words = [word if "=" in word else f"{word}={word}.npy" for word in arguments]
    return subprocess.run([TESSERA, "eval", expression, *words, *more], cwd=FOLDER,
                          capture_output=True, text=True)


def check(expression, arguments, want):
    """None, or what is wrong."""
    done = run(expression, arguments, "--device", "cpu", "--check", "-o", "out.npy")
    if done.returncode:
        return done.stderr
    got = np.load(FOLDER / "out.npy")
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    return None if np.allclose(got, want, rtol=1e-5, atol=1e-6) else f"{got}, not {want}"


def check_error(expression, arguments, status, words):
    done = run(expression, arguments)
    good = done.returncode == status and words in done.stderr
    return None if good else f"status {done.returncode}: {done.stderr}"


ERRORS = [
    ("y + 1", ["x"], 1, "nothing is called `y` here"),
    ("x +", ["x"], 1, "expected an expression"),
    ("(x, x)", ["x"], 1, "a tuple is not a value"),
    ("x @ x", ["x"], 1, "the inner extents differ"),
    ("x", ["x=missing.npy"], 3, "cannot read missing.npy"),
    ("x", ["x=eval.py"], 3, ""),
    ("x", ["=3"], 2, "expected NAME=FILE.npy or NAME=NUMBER"),
]


def main():
    FOLDER.mkdir(exist_ok=True)
    os.environ["NO_COLOR"] = "1"
    for name, value in ARRAYS.items():
        np.save(FOLDER / f"{name}.npy", value)
    problems = [(case[0], check(*case)) for case in CASES]
    problems += [(case[0], check_error(*case)) for case in ERRORS]
    problems.append(("2 + 3 * 4", None if run("2 + 3 * 4", []).stdout == "i64[1]\n14\n" else "?"))
    failed = [f"{name}: {what}" for name, what in problems if what]
    print("\n".join([*failed, f"{len(problems) - len(failed)} passed, {len(failed)} failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
