#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derivatives against finite differences, in f64, and the CPU against the interpreter in f32.

Of each program the gradients that `vjp` computes are multiplied with a random direction; that must
be what the results change by along it, multiplied with the results' gradients, and so must what
`jvp` computes of that direction. Inputs and directions are new in each run (--seed repeats one).
Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "derivatives"))
import patience  # noqa: E402
import suite  # noqa: E402
from programs import CALLS, EXAMPLES, FUNCTIONS, PROGRAMS, WRITTEN  # noqa: E402


def shape_of(param, sizes):
    return tuple(int(eval(dim, {}, sizes)) for dim in param.dims)


def random_input(param, shape, random, low, high, sizes):
    if param.type in ("i32", "i64"):
        most = sizes.get("index", 3)
        return random.integers(0, most, shape).astype(param.type.replace("i", "int"))
    if param.type == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.uniform(low, high, shape)


def all_sizes(program, sizes):
    known = dict(sizes)
    for text in program.get("where", "").split(","):
        if "=" in text:
            name, value = text.split("=")
            known[name.strip()] = int(eval(value, {}, known))
    return known


class Case:
    """A kernel, and the sizes that it is tried with."""

    def __init__(self, name, text, kernel, sizes, options):
        self.name, self.text, self.kernel, self.sizes = name, text, kernel, sizes
        self.options = options

    def __str__(self):
        return f"{self.name} {self.sizes}"


def differs(case, seed):
    import tessera
    random = np.random.default_rng([seed, zlib.crc32(str(case).encode())])
    program = tessera.parse(case.text, case.name)
    kernel = program[case.kernel]
    wanted = case.options.get("by", "")
    name = f"vjp({case.kernel}{''.join(', ' + one for one in wanted.split())})"
    backward = program[name]
    consts = case.options.get("consts", {})
    low, high = case.options.get("range", (-1.0, 1.0))
    sizes = all_sizes(case.options, case.sizes)
    inputs = []
    for param in kernel.inputs:
        if param.is_const:
            continue
        if param.rank < 0:
            inputs.append(random.uniform(low, high) if param.type[0] in "fT"
                          else case.options["numbers"][param.name])
        else:
            inputs.append(random_input(param, shape_of(param, sizes), random, low, high, sizes))
    extra = {key: value for key, value in case.sizes.items() if key in case.options.get("pass", "")}

    def run(which, arguments, **named):
        found = which(*arguments, **consts, **extra, **named)
        return [np.asarray(f, np.float64) if np.asarray(f).dtype.kind == "f" else None
                for f in (found if isinstance(found, tuple) else (found,))]

    results = run(kernel, inputs)
    given = [random.uniform(-1, 1, r.shape) for r in results if r is not None]
    floats = [param.name for param, r in zip(kernel.outputs, results) if r is not None]
    gradients = run(backward, inputs, **{f"d_{n}": g for n, g in zip(floats, given)})
    by = [i for i, param in enumerate([p for p in kernel.inputs if not p.is_const])
          if (param.type[0] in "fT") and (not wanted or param.name in wanted.split())]
    names = [param.name for param in kernel.inputs if not param.is_const]
    directions = {i: random.uniform(-1, 1, np.shape(inputs[i])) for i in by}
    tangents = run(program["jvp" + name[3:]], inputs,
                   **{f"d_{names[i]}": directions[i] if np.ndim(directions[i]) else
                      float(directions[i]) for i in by})
    forwards = sum((t * g).sum() for t, g in zip(tangents, given))
    backwards = sum((g * directions[i]).sum() for i, g in zip(by, gradients))
    if not abs(forwards - backwards) <= 1e-9 * (1 + abs(forwards) + abs(backwards)):
        return f"jvp {forwards}, vjp {backwards} (seed {seed})"
    for i, gradient in zip(by, gradients):
        direction = directions[i]
        step = case.options.get("step", 1e-6)
        there, back = list(inputs), list(inputs)
        there[i] = inputs[i] + step * direction
        back[i] = inputs[i] - step * direction
        change = 0.0
        scale = 0.0
        far = [r for r in run(kernel, there) if r is not None]
        near = [r for r in run(kernel, back) if r is not None]
        for a, b, g in zip(far, near, given):
            change += ((a - b) * g).sum() / (2 * step)
            scale += np.abs((a - b) * g).sum() / (2 * step)
        found = (gradient * direction).sum()
        scale += np.abs(gradient * direction).sum()
        if not abs(found - change) <= case.options.get("bound", 2e-6) * (1 + scale):
            return f"by {names[i]}: {found} for {change} (seed {seed})"
    return None


def check_finite(case, seed):
    """A kink may lie within a step of an input: then other inputs have none."""
    return differs(case, seed) and differs(case, seed + 1)


def check_agrees(case, options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.tile"
        path.write_text(case.text)
        sets = {**({"T": "f32"} if "T[" in case.text else {}), **case.options.get("consts", {})}
        sets = ",".join(f"{k}={str(v).lower()}" for k, v in sets.items())
        values = [f"{k}={v}" for k, v in case.options.get("numbers", {}).items()]
        by = case.options.get("by", "")
        name = f"vjp({case.kernel}{''.join(', ' + one for one in by.split())})"
        sizes = ",".join(f"{k}={v}" for k, v in case.sizes.items() if k != "index")
        command = [options.tessera, "run", f"{path}:{name}", *values, "--device", "cpu", "--check"]
        command += ["--set", sets] if sets else []
        command += ["--size", sizes] if sizes else []
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=patience.seconds(120))
        return None if done.returncode == 0 else (done.stderr or done.stdout)[-600:]


def check_written(case, seed):
    """What `inout` parameters get is what results would."""
    import tessera
    random = np.random.default_rng(seed)
    program = tessera.parse(case.text, case.name)
    p, g, d_p, d_z = [random.uniform(-1, 1, (5, 7)) for _ in range(4)]
    wanted = program["vjp(h)"](p, g, 0.5, d_s=d_p, d_z=d_z)
    there = d_p.copy()
    found = program["vjp(f)"](p, g, 0.5, d_p=there, d_z=d_z)
    moved = d_p.copy()
    forwards = moved, program["jvp(f)"](p, g, 0.5, moved, d_z, 0.25)
    same = all(np.allclose(a, b) for a, b in zip((there, *found), wanted)) and all(
        np.allclose(a, b) for a, b in zip(forwards, program["jvp(h)"](
            p, g, 0.5, d_p, d_z, 0.25)))
    return None if same else f"{there, found} for {wanted}"


def check_calls(case, seed):
    """Derivatives of functions in expressions, against what they are."""
    import tessera
    random = np.random.default_rng(seed)
    x, a = random.uniform(-1, 1, (2, 7))
    found = tessera.parse(case.text, case.name).calls(x, a)
    cos, exp = np.cos, np.exp
    wanted = (2 * a * x + exp(x), x * x, cos(x) * a,
              a * (cos(x * x) * x + 1) - 2 * a * cos(x * x) * x,
              a * (cos(x * a) * a + 1) + x * cos(x * a) * x, 2 * cos(2 * x) + 1,
              2 * x * a + 2 * exp(x), 2 * x * a + exp(x) * a,
              (cos(x[:, None] * a) * a).sum(axis=1))
    wrong = [n for n, (f, w) in enumerate(zip(found, wanted)) if not np.allclose(f, w)]
    return f"results {wrong}: {[found[n] for n in wrong]} (seed {seed})" if wrong else None


def cases():
    for name, program in PROGRAMS.items():
        for sizes in program["sizes"]:
            yield Case(name, program["text"], program.get("kernel", "f"), sizes, program)
    for call, options in FUNCTIONS.items():
        arguments = options.get("arguments", "x: T[M, N]")
        text = f"kernel f({arguments}) -> {options.get('result', 'T[M, N]')} where T: float" \
               f"{options.get('more', '')} = {call}\n"
        for sizes in options.get("sizes", [{"M": 3, "N": 7}, {"M": 1, "N": 1}, {"M": 0, "N": 5}]):
            yield Case(call, text, "f", sizes, options)
    for name, options in EXAMPLES.items():
        text = (ROOT / "examples" / f"{name}.tile").read_text()
        if options.get("kernel", name) not in text:
            raise ValueError(f"no kernel of {name}")
        for was, now in options.get("replace", {"f32": "f64"}).items():
            text = text.replace(was, now)
        for sizes in options["sizes"]:
            yield Case(name, text, options.get("kernel", name), sizes, options)


def main():
    made = suite.parser(__doc__)
    made.add_argument("--library")
    made.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    made.add_argument("--only", default="")
    options = suite.options_of(made)
    os.environ["TESSERA_LIBRARY"] = os.path.abspath(
        options.library or pathlib.Path(options.tessera).parents[1] / "lib" / "libtessera.so")
    jobs = [(check_written, Case("written parameters", WRITTEN, "f", {}, {})),
            (check_calls, Case("calls", CALLS, "calls", {}, {}))]
    for case in cases():
        if options.only in case.name:
            jobs += [(check_finite, case), (check_agrees, case)]

    def attempt(job):
        check, case = job
        try:
            return check(case, options if check is check_agrees else options.seed)
        except Exception as error:  # a diagnostic of the compiler
            return f"{type(error).__name__}: {error}"
    options.jobs = 1  # a context is one thread's
    return suite.run(options, jobs, attempt, lambda job: f"{job[1]} ({job[0].__name__[6:]})")


if __name__ == "__main__":
    sys.exit(main())
