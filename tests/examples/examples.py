#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every example at several sizes and element types, and compares with NumPy.

references.py says what each means in float64. Where a program takes bf16 or f16, its inputs are
rounded first, and the answer may be off by one rounding more. Prints `N passed, N failed`.
"""

import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "differential"), str(ROOT / "tests")]

import patience  # noqa: E402
import suite  # noqa: E402
from arrays import EPSILON, load, round_to, save  # noqa: E402
import attention_references  # noqa: E402, F401
import product_references  # noqa: E402, F401
import window_references  # noqa: E402, F401
from references import CASES  # noqa: E402


def rounded(dtype, value):
    """An argument as the program gets it: float32 arrays become dtype."""
    is_float = isinstance(value, np.ndarray) and value.dtype == np.float32
    return round_to(dtype, value) if is_float and dtype != "f32" else value


def write(folder, dtype, arguments):
    words = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            is_float = value.dtype in (np.float32, np.float16)
            wide = value.dtype == np.float64  # f32, whatever T is
            value = value.astype(np.float32) if wide else value
            save(folder / f"{name}.npy", dtype if is_float else "other", value)
            words.append(f"{name}={folder / name}.npy")
        else:
            words.append(f"{name}={value}")
    return words


def exact(value):
    """float32 and float16 in float64; what is no array as it is."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_float else value


def compare(name, got, want, tolerance):
    want = np.asarray(want, dtype=np.float64)
    if got.shape != want.shape:
        return f"{name}: shape {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= tolerance * (1 + np.abs(want))
        bad = ~((got == want) | near | (np.isnan(got) & np.isnan(want)))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    seen = f"first {at}: {got[at]:.9g}, not {want[at]:.9g}"
    return f"{name}: {int(bad.sum())} of {bad.size} differ, {seen}"


def check(reference, arguments, answers, tolerance):
    """None, or what is wrong. A reference without a value checks properties of the one answer."""
    try:
        with np.errstate(all="ignore"):
            want = reference(**{k: exact(v) for k, v in arguments.items()})
    except TypeError:
        reference(**arguments, y=answers[""])
        return None
    problems = (
        compare(name or "result", answers[name], value, tolerance) for name, value in want.items()
    )
    return next((problem for problem in problems if problem), None)


def result_names(name, reference, arguments):
    try:
        return list(reference(**{k: exact(v) for k, v in arguments.items()}))
    except TypeError:
        return [""]


def run_case(options, name, dtype, sizes, device):
    _, make, reference, tolerance, types = CASES[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {sizes}".encode()) ^ options.seed)
    arguments = {k: rounded(dtype, v) for k, v in make(rng, sizes).items()}
    sets = dict(arguments.pop("set", {}))
    if len(types) > 1:
        sets["T"] = dtype
    tolerance += 0 if dtype == "f32" or not tolerance else 2 * EPSILON[dtype]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = [
            options.tessera,
            "run",
            str(options.examples / f"{name}.tile"),
            "--device",
            device,
        ]
        command += write(folder, dtype, arguments)
        for key, value in sets.items():
            command += ["--set", f"{key}={value}"]
        with np.errstate(all="ignore"):
            results = result_names(name, reference, arguments)
        for result in results:
            command += [
                "-o",
                f"{result}={folder / ('out-' + result)}.npy" if result else f"{folder}/out-.npy",
            ]
        command += [] if device == "interp" else ["--check"]
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=patience.seconds(options.timeout))
        if done.returncode != 0:
            return f"exit {done.returncode}: {' '.join(command)}\n{done.stderr.strip()[-1500:]}"
        answers = {result: load(folder / f"out-{result}.npy") for result in results}
        problem = check(reference, arguments, answers, tolerance)
        return problem and f"{problem}\n{' '.join(command)}"


def attempt(options, job):
    try:
        return run_case(options, *job)
    except subprocess.TimeoutExpired:
        return "timed out"
    except AssertionError:
        return "the answer has not the properties it should have"


def jobs_of(options):
    for name in options.program or sorted(CASES):
        if not (options.examples / f"{name}.tile").exists():
            print(f"{name}: no such example")
            continue
        sizes, _, _, _, types = CASES[name]
        for dtype in types:
            for size in sizes:
                for device in options.device:
                    yield name, dtype, size, device


def main():
    parser = suite.parser(__doc__, device=["cpu"])
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "examples")
    parser.add_argument("--program", action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=120)
    options = suite.options_of(parser)
    return suite.run(options, jobs_of(options), lambda job: attempt(options, job),
                     lambda job: " ".join(str(word) for word in job))


if __name__ == "__main__":
    sys.exit(main())
