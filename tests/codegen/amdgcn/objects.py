#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every example's code objects for AMD, executed by an emulator of the instruction sets
(emulator/) and compared with NumPy, as tests/examples does it with devices.

    objects.py --tessera PROGRAM --emulator PROGRAM [--target NAME,…] [--program NAME] [--long]

Each case runs code for sizes that are not known (as it comes where its description allows the
case's sizes, else without assumptions), and code that knows them. --long: on each target;
without, on one target each, which differs from case to case. Prints `N passed, N failed`.
"""

import pathlib
import sys
import tempfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TESTS / "examples"), str(TESTS / "agree"), str(TESTS)]

import examples  # noqa: E402
import launcher  # noqa: E402
import suite  # noqa: E402
from arrays import EPSILON  # noqa: E402
from references import CASES  # noqa: E402

ROOT = TESTS.parent
TARGETS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]


def any_sizes(plan):
    """Options for code that assumes nothing of its sizes."""
    return ["--assume", ", ".join(f"{size['name']} % 1 == 0" for size in plan["sizes"]
                                  if not size["by"])]


def renamed(answers, wanted):
    """What the references call "" is the one result."""
    if "" in wanted and len(answers) == 1:
        return {"": next(iter(answers.values()))}
    return answers


def code_for(options, name, target, words, arguments, knows):
    source = ROOT / "examples" / f"{name}.tile"
    obj, plan = options.compiler.compile(source, target, words)
    sizes = launcher.sizes_of(plan, arguments)
    if knows:
        given = ",".join(f"{size['name']}={sizes[i]}" for i, size in enumerate(plan["sizes"])
                         if not size["by"])
        return options.compiler.compile(source, target, [*words, "--size", given])
    if launcher.holds(plan, sizes):
        return obj, plan
    return options.compiler.compile(source, target, words + any_sizes(plan))


def run_case(options, name, dtype, sizes, target, knows):
    _, make, reference, tolerance, types = CASES[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {sizes}".encode()))
    arguments = {k: examples.rounded(dtype, v) for k, v in make(rng, sizes).items()}
    sets = dict(arguments.pop("set", {}))
    if len(types) > 1 or name == "f8_matmul":
        sets["T"] = dtype
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    if name.startswith("attention"):
        for size in ["D", "R"][:2 if name == "attention_paged" else 1]:
            words += ["--set", f"{size}={arguments['k'].shape[-1 if size == 'D' else -2]}"]
    tolerance += 0 if dtype == "f32" or not tolerance else 2 * EPSILON[dtype]
    with tempfile.TemporaryDirectory() as folder:
        obj, plan = code_for(options, name, target, words, arguments, knows)
        said = []
        answers = launcher.emulate(options.emulator, obj, plan, arguments, folder, said)
    if not all(line.endswith(" 0 bytes of scratch") for line in said):
        options.spilled.append(title((name, dtype, sizes, target, knows)))
    with np.errstate(all="ignore"):
        wanted = examples.result_names(name, reference, arguments)
    return examples.check(reference, arguments, renamed(answers, wanted), tolerance)


def attempt(options, job):
    try:
        return run_case(options, *job)
    except launcher.Failure as failure:
        return str(failure)
    except AssertionError:
        return "the answer has not the properties it should have"


def jobs_of(options):
    count = 0
    for name in options.program or sorted(CASES):
        sizes, _, _, _, types = CASES[name]
        for dtype in types:
            for size in sizes:
                count += 1
                for at, target in enumerate(options.target):
                    for knows in (False, True):
                        turn = (count + 2 * knows) % len(options.target)
                        if options.long or at == turn:
                            yield name, dtype, size, target, knows


def title(job):
    name, dtype, sizes, target, knows = job
    return f"{name} {dtype} {sizes} {target}{' (sizes known)' if knows else ''}"


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--target", type=lambda text: text.split(","), default=TARGETS)
    parser.add_argument("--program", action="append")
    parser.add_argument("--long", action="store_true")
    options = suite.options_of(parser)
    with tempfile.TemporaryDirectory() as folder:
        options.compiler = launcher.Compiler(options.tessera, folder)
        options.spilled = []
        status = suite.run(options, jobs_of(options), lambda job: attempt(options, job), title)
    for words in sorted(options.spilled):
        print(f"note: scratch memory in {words}")
    return status


if __name__ == "__main__":
    sys.exit(main())
