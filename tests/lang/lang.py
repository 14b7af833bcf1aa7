#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lang.py --tessera PROGRAM [--device interp,cpu] [PATTERN]: the language against NumPy. Of
targets, as --device sm_90a,gfx942, it asks that each program is compiled and explained for these
sizes.

Programs are in inputs/*.tile. Each file has a module of the same name here, whose functions are the
references: one a kernel, in float64 (or whole numbers), found by the decorator `kernel`:

    @kernel(x="f32[H, W]", ids="i32[N] in 0 V", n="i64", set="T=f32", sizes=[dict(H=5, W=7)])
    def blur(x, ids, n): return …

Arguments of the reference are the inputs in order, then the sizes that it names. Floats are normal
numbers, `in a b` draws from a range that may use sizes. With `says` the last result of a reference
is the lines that the kernel prints, and then, where an assertion fails, a text of the error. Prints
`N passed, N failed`.
"""

import functools
import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "differential"), str(HERE.parent)]
import arrays  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
         **{f"{k}{b}": np.dtype(f"{n}{b}") for k, n in (("i", "int"), ("u", "uint"))
            for b in (8, 16, 32, 64)}}
EXECUTORS = ("interp", "cpu", "cuda", "hip")  # other devices are targets: nothing runs there
PROGRAMS = []


class Program:
    def __init__(self, reference, inputs, options):
        self.reference, self.inputs = reference, inputs
        self.name = reference.__name__.rstrip("_")
        self.file = reference.__module__
        self.sizes = options.get("sizes", [{}])
        self.set = options.get("set", "")
        self.tolerance = options.get("tolerance", 2e-5)
        self.devices = options.get("devices")
        self.says = options.get("says", False)


def kernel(**options):
    inputs = {k: v for k, v in options.items()
              if k not in ("sizes", "set", "tolerance", "devices", "says")}

    def add(reference):
        PROGRAMS.append(Program(reference, inputs, options))
        return reference
    return add


def draw(rng, text, sizes):
    """An array, or a scalar, as `f32[M, N] in 0 M` says; and its element type. Behind it `rising`
    sorts the elements, and `permuted` makes them 0, 1, … in some order."""
    kind, shape, _, low, high, order = re.fullmatch(
        r"(\w+)\s*(\[[^\]]*\])?(\s+in\s+(\S+)\s+(\S+))?(?:\s+(rising|permuted))?", text).groups()
    dims = eval(shape, {}, dict(sizes)) if shape else ()
    if low is not None:
        low, high = (eval(end, {}, dict(sizes)) for end in (low, high))
    if kind == "bool":
        values = rng.integers(0, 2, dims).astype(bool)
    elif kind[0] in "iu":
        low, high = (0 if kind[0] == "u" else -9, 10) if low is None else (low, high)
        values = rng.integers(low, max(high, low + 1), dims).astype(NUMPY[kind])
        values = np.sort(values, axis=-1) if order == "rising" else values
        if order == "permuted":
            values = rng.permutation(values.size).reshape(dims).astype(NUMPY[kind])
    elif low is not None:
        values = arrays.round_to(kind, rng.uniform(low, high, dims))
    elif kind == "f64":
        values = rng.standard_normal(dims)
    else:
        values = arrays.random(rng, kind, dims)
    return kind, values


def compare(program, number, got, want):
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"result {number}: shape {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        got, exact = got.astype(np.float64), want.dtype.kind in "iub"
        want = want.astype(np.float64)
        near = np.abs(got - want) <= (0 if exact else program.tolerance * (1 + np.abs(want)))
        bad = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"result {number}: {int(bad.sum())} of {bad.size} elements differ, first {at}: "
            f"{got[at]:.9g}, NumPy {want[at]:.9g}")


def wide(kind, values):
    return np.asarray(values, dtype=np.float64) if kind[0] in "fb" and kind != "bool" else values


@functools.cache
def results_of(tessera, kernel):
    done = subprocess.run([tessera, "compile", kernel, "--describe", "--json"],
                          capture_output=True, text=True, check=True)
    params = json.loads(done.stdout)["kernels"][0]["params"]
    return [p for p in params
            if p["io"] == "out" and p.get("dims") and p["type"] not in ("i4", "u4")]


def result_strides(options, program, kernel):
    """--strides for the results, drawn from their names."""
    words = []
    for param in results_of(options.tessera, kernel):
        n = len(param["dims"]) - 1
        ways = ["*8," * n + "1", "*," * n + "1", "1" + ",*" * n, "-*," * n + "-*", "*," * n + "*2",
                "@8", None]
        way = zlib.crc32(f"{program.name} {param['name']} {options.strided}".encode()) % len(ways)
        words += ["--strides", f"{param['name']}={ways[way]}"] if ways[way] else []
    return words


def save(options, program, path, name, kind, values):
    """Its elements one after the other, or, with --strided, in a way drawn from the names."""
    if not options.strided or kind in ("i4", "u4"):
        arrays.save(path, kind, values)
        return path
    which = zlib.crc32(f"{program.name} {name} {values.shape} {options.strided}".encode())
    return arrays.save_laid(path, kind, values, arrays.STYLES[which % len(arrays.STYLES)])


def command_line(options, program, device, sizes, inputs, folder, results):
    file = HERE / "inputs" / f"{program.file}.tile"
    command = [options.tessera, "run", f"{file}:{program.name}", "--device", device]
    if program.set:
        command += ["--set", program.set]
    shown = set()
    for name, (kind, values) in inputs.items():
        if np.ndim(values):
            given = folder / f"{name}.npy"
            command.append(f"{name}={save(options, program, given, name, kind, values)}")
            shown |= set(re.findall(r"[A-Z]\w*", program.inputs[name].split("]")[0]))
        else:
            command.append(f"{name}={str(values).lower()}")
    rest = {k: v for k, v in sizes.items() if k not in shown}
    if rest:
        command += ["--size", ",".join(f"{k}={v}" for k, v in rest.items())]
    for i in range(results):
        command += ["-o", str(folder / f"out{i}.npy")]
    if options.strided:
        command += result_strides(options, program, f"{file}:{program.name}")
        command += ["--check"] if device != "interp" else []
    return command


FAULT = 4  # the exit status where an assertion failed


def heard(said, done):
    """None, or what was said otherwise."""
    lines = done.stdout.split("\n")[:len(said)]
    failing = [line for line in said if line.startswith("assertion")]
    if lines[:len(said) - len(failing)] != said[:len(said) - len(failing)]:
        return f"said {lines}, not {said}\n{done.stderr[-1500:]}"
    if bool(failing) != (done.returncode == FAULT):
        return f"exit {done.returncode}, assertions {failing}\n{done.stderr[-1500:]}"
    return next((f"no {line!r} in {done.stderr}" for line in failing if line not in done.stderr),
                None)


def explain_case(options, program, sizes, target):
    """None, or what went wrong: is it compiled, and explained, for these very sizes?"""
    kernel = HERE / "inputs" / f"{program.file}.tile:{program.name}"
    command = [options.tessera, "explain", kernel, "--target", target]
    command += ["--set", program.set] if program.set else []
    command += ["--size", ",".join(f"{k}={v}" for k, v in sizes.items())] if sizes else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.seconds(120))
    if done.returncode:
        return f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-1500:]}"
    return None


def run_case(options, program, sizes, device):
    """None, or what went wrong."""
    if device not in EXECUTORS:
        return explain_case(options, program, sizes, device)
    rng = np.random.default_rng(zlib.crc32(f"{program.name} {sizes}".encode()))
    inputs = {name: draw(rng, text, sizes) for name, text in program.inputs.items()}
    wanted = inspect.signature(program.reference).parameters
    with np.errstate(all="ignore"):
        want = program.reference(**{k: wide(*v) for k, v in inputs.items()},
                                 **{k: v for k, v in sizes.items() if k in wanted})
    want = want if isinstance(want, tuple) else (want,)
    said = want[-1] if program.says else []
    want = want[:-1] if program.says else want
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = command_line(options, program, device, sizes, inputs, folder, len(want))
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=patience.seconds(120))
        except subprocess.TimeoutExpired:
            return "timed out: " + " ".join(map(str, command))
        problem = heard(said, done)
        if problem or done.returncode == FAULT:
            return problem
        if done.returncode:
            return f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-1500:]}"
        for i, value in enumerate(want):
            problem = compare(program, i, arrays.load(folder / f"out{i}.npy"), value)
            if problem:
                return f"{problem}\n{' '.join(map(str, command))}"
    return None


def main():
    parser = suite.parser(__doc__, device=["interp"])
    parser.add_argument("--strided", type=int, default=0, metavar="SEED",
                        help="tensors lie otherwise than row-major, as the seed says")
    parser.add_argument("--some", action="store_true",
                        help="each program and size on one of the devices, in turn")
    parser.add_argument("pattern", nargs="?", default="")
    options = suite.options_of(parser)
    sys.modules["lang"] = sys.modules["__main__"]
    for file in sorted((HERE / "inputs").glob("*.tile")):
        importlib.import_module(file.stem)
    cases = suite.part_of(options, ((p, sizes) for p in PROGRAMS for sizes in p.sizes))
    n = len(options.device)
    work = [(p, sizes, device) for i, (p, sizes) in enumerate(cases)
            for k, device in enumerate(options.device) if not options.some or i % n == k
            if re.search(options.pattern, f"{p.file}.{p.name}")
            and (p.devices is None or device in p.devices)]
    return suite.run(options, work, lambda job: run_case(options, *job),
                     lambda job: f"{job[0].file}.{job[0].name} {job[1]} {job[2]}")


if __name__ == "__main__":
    sys.exit(main())
