#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every example's code for GPUs, executed by emulators of the instruction sets and compared with
NumPy, as tests/examples and tests/differential do it with devices: code objects for AMD
(../amdgcn/emulator), PTX (../nvptx/emulator).

    objects.py --tessera PROGRAM --emulator PROGRAM --target NAME,…
               [--program NAME…] [--schedule LINE] [--some] [--long] [--lang]

Each case runs code for sizes that are not known (as it comes where its description allows the
case's sizes, else without assumptions), and code that knows them. --lang: the programs of
tests/lang instead, of which a NAME may also be a file's. --long: on each target;
without, on one target each, which differs from case to case. --some: one of the two codes of each
case, and of an example that is generic each size with one element type, each type with one size at
least. A kernel with scratch memory fails.
Prints `N passed, N failed`.
"""

import importlib
import inspect
import pathlib
import sys
import tempfile
import zlib
from dataclasses import dataclass
from typing import Callable

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TESTS / "examples"), str(TESTS / "differential"),
                str(TESTS / "lang"),
                str(TESTS)]

import examples  # noqa: E402
import lang  # noqa: E402
import launcher  # noqa: E402
import programs  # noqa: E402
import suite  # noqa: E402
from arrays import EPSILON  # noqa: E402
from references import CASES  # noqa: E402

ROOT = TESTS.parent


@dataclass
class Case:
    title: str
    source: str
    words: list      # of the command that compiles
    make: Callable   # the arguments by name
    check: Callable  # of arguments and answers: None, or what is wrong
    may_need: bool = False  # it may be one that does not compile without sizes, or has defaults


# ---- those of tests/examples ----

def set_words(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def bound_sizes(name, arguments):
    """Of attention: sizes that code must know."""
    if not name.startswith("attention"):
        return {}
    shape = arguments["k"].shape
    return {"D": shape[-1], **({"R": shape[-2]} if "paged" in name else {})}


def example_case(name, dtype, sizes):
    _, make, reference, tolerance, types = CASES[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {sizes}".encode()))
    given = {k: examples.rounded(dtype, v) for k, v in make(rng, sizes).items()}
    sets = dict(given.pop("set", {}))
    if len(types) > 1 or "where T: " in (ROOT / "examples" / f"{name}.tile").read_text():
        sets["T"] = dtype
    sets.update(bound_sizes(name, given))
    tolerance += 0 if dtype == "f32" or not tolerance else 2 * EPSILON[dtype]

    def check(arguments, answers):
        with np.errstate(all="ignore"):
            wanted = examples.result_names(name, reference, arguments)
        if "" in wanted and len(answers) == 1:
            answers = {"": next(iter(answers.values()))}
        return examples.check(reference, arguments, answers, tolerance)

    return Case(f"{name} {dtype} {sizes}", f"examples/{name}.tile", set_words(sets),
                lambda: given, check)


# ---- those of tests/differential ----

def agree_case(case):
    inputs, reference = programs.PROGRAMS[case.program]
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    given = {**inputs(case, rng), **case.scalars}
    sets = {**case.consts, **({"T": case.dtype} if case.program != "add" else {})}
    if case.program == "attention":
        sets["D"] = case.sizes["D"]

    def check(arguments, answers):
        exact = {k: v.astype(np.float64) for k, v in arguments.items() if k not in case.scalars}
        with np.errstate(all="ignore"):
            value, bound = reference(case, **exact)
        got = next(iter(answers.values())).astype(np.float64)
        bad = ~((np.abs(got - value) <= bound) | (np.isnan(got) & np.isnan(value)))
        return f"{int(bad.sum())} of {bad.size} differ" if bad.any() else None

    return Case(str(case), f"examples/{case.program}.tile", set_words(sets), lambda: given,
                check)


# ---- those of tests/lang ----

def lang_case(program, sizes):
    rng = np.random.default_rng(zlib.crc32(f"{program.name} {sizes}".encode()))
    inputs = {name: lang.draw(rng, text, sizes) for name, text in program.inputs.items()}
    wanted = inspect.signature(program.reference).parameters

    def check(_, answers):
        with np.errstate(all="ignore"):
            want = program.reference(**{k: lang.wide(*v) for k, v in inputs.items()},
                                     **{k: v for k, v in sizes.items() if k in wanted})
        want = want if isinstance(want, tuple) else (want,)
        problems = [lang.compare(program, i, got, value)
                    for i, (got, value) in enumerate(zip(answers.values(), want))]
        return next((problem for problem in problems if problem), None)

    given = {**sizes, **{name: values for name, (_, values) in inputs.items()}}
    words = ["--set", program.set] if program.set else []
    return Case(f"{program.file}.{program.name} {sizes}",
                f"tests/lang/inputs/{program.file}.tile:{program.name}", words, lambda: given,
                check, True)


def lang_cases(options):
    """Those that print are left out, and those of f8: their elements are given as bits here."""
    for file in sorted((TESTS / "lang" / "inputs").glob("*.tile")):
        importlib.import_module(file.stem)
    for program in lang.PROGRAMS:
        kinds = " ".join([program.set, *program.inputs.values()])
        if program.says or "f8" in kinds or (options.program and
                                             program.name not in options.program and
                                             program.file not in options.program):
            continue
        yield from (lang_case(program, sizes) for sizes in program.sizes)


# ---- running ----

def code_for(options, case, target, arguments, knows):
    source = ROOT / case.source
    words = [*case.words, *options.lines]
    obj, plan = options.compiler.compile(source, target, words)
    sizes = launcher.sizes_of(plan, arguments)
    names = [size["name"] for size in plan["sizes"] if not size["by"]]
    if knows:
        given = ",".join(f"{name}={sizes[i]}" for i, name in enumerate(names))
        return options.compiler.compile(source, target, [*words, "--size", given])
    if launcher.holds(plan, sizes):
        return obj, plan
    free = ", ".join(f"{name} % 1 == 0" for name in names)
    return options.compiler.compile(source, target, [*words, "--assume", free])


def title(job):
    case, target, knows = job
    return f"{case.title} {target}{' (sizes known)' if knows else ''}"


def attempt(options, job):
    case, target, knows = job
    arguments, said = case.make(), []
    try:
        with tempfile.TemporaryDirectory() as folder:
            obj, plan = code_for(options, case, target, arguments, knows)
            answers = launcher.emulate(options.emulator, obj, plan, arguments, folder, said)
        problem = case.check(arguments, answers)
    except launcher.Failure as failure:
        left_out = case.may_need and ("is not bound" in str(failure) or  # calls: of remainders only
                                      ".func: is not emulated" in str(failure))
        return suite.LEFT_OUT if left_out else str(failure)
    except AssertionError:
        return "the answer has not the properties it should have"
    if any("scratch" in line and not line.endswith(" 0 bytes of scratch") for line in said):
        return problem or "scratch memory: " + "; ".join(said)
    return problem


def cases_of(options):
    if options.lang:
        yield from lang_cases(options)
        return
    for name in sorted(CASES):
        sizes, _, _, _, types = CASES[name]
        if not options.program or name in options.program:
            yield from (example_case(name, dtype, size) for i, dtype in enumerate(types)
                        for k, size in enumerate(sizes)
                        if not options.some or k % len(types) == i or i % len(sizes) == k)
    wanted = [name for name in programs.PROGRAMS
              if not options.program or name in options.program]
    for case in programs.cases(False, wanted, ("f32", "bf16", "f16")):
        yield agree_case(case)


def jobs_of(options):
    for count, case in enumerate(cases_of(options)):
        for at, target in enumerate(options.target):
            for knows in (False, True):
                chosen = at == (count + 2 * knows) % len(options.target)
                left_out = options.some and knows != bool(count // len(options.target) % 2)
                if options.long or (chosen and not left_out):
                    yield case, target, knows


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--target", type=lambda text: text.split(","), required=True)
    parser.add_argument("--program", action="append")
    parser.add_argument("--schedule", action="append", default=[], help="a line, of all programs")
    parser.add_argument("--some", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--lang", action="store_true")
    options = suite.options_of(parser)
    options.lines = [word for line in options.schedule for word in ("--schedule", line)]
    with tempfile.TemporaryDirectory() as folder:
        options.compiler = launcher.Compiler(options.tessera, folder)
        jobs = suite.part_of(options, jobs_of(options))
        return suite.run(options, jobs, lambda job: attempt(options, job), title)


if __name__ == "__main__":
    sys.exit(main())
