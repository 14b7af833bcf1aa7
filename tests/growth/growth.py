#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""growth.py --tessera PROGRAM: does the compiler's work grow with the program, and no faster?

Each shape of shapes.py is compiled at a depth, at twice and at four times that. The work is
counted, not timed: how often passes look at an op (`--count-work`). Doubling the depth may multiply
it, and the size of the code, by no more than LIMIT (ABOVE: what does not hold yet). A small one of
each shape is run and checked against the interpreter. Prints `N passed, N failed`."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import patience  # noqa: E402
import shapes  # noqa: E402
import suite  # noqa: E402

LIMIT = 2.5  # 2, and what a list that is walked for each of a few things takes
# What still grows faster, and by how much: the code of choices, some of which LLVM predicates twice
# (the compiler's own work on them doubles, and so does the LLVM IR).
ABOVE = {"choices": 3.2}
SMALL = 3  # parts of the programs that are run
SECONDS = 60
KINDS = "work", "run"


def call(options, folder, shape, n, words):
    source = folder / f"{shape.__name__}{n}.tile"
    source.write_text(shape(n))
    return subprocess.run([options.tessera, words[0], str(source), *words[1:]], text=True,
                          capture_output=True, timeout=patience.seconds(SECONDS))


def counts(options, folder, shape, n):
    """Looks at ops, bytes of code; or what is wrong."""
    code = folder / f"{shape.__name__}{n}.ptx"
    done = call(options, folder, shape, n, ["compile", "--target", options.target, "--emit", "ptx",
                                            "--count-work", "-o", str(code)])
    if done.returncode:
        return f"{n} parts: {done.stderr[-300:]}"
    passes = {}
    for line in done.stderr.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "ops":
            passes[words[0]] = passes.get(words[0], 0) + int(words[1])
    return passes, code.stat().st_size


def grows(options, folder, shape):
    """What grows faster than the program; None: nothing does."""
    first = shapes.SHAPES[shape][0]
    found = []
    for n in (first, 2 * first, 4 * first):
        found.append(counts(options, folder, shape, n))
        if isinstance(found[-1], str):
            return found[-1]
    for k in (1, 2):
        before, after = found[k - 1], found[k]
        work = sum(after[0].values()) / sum(before[0].values())
        size = after[1] / before[1]
        if options.show:
            print(f"{shape.__name__:16} {first << k:5} parts: {sum(after[0].values()):9} looks, "
                  f"{work:.2f} times those of half as many; code {size:.2f}")
        if max(work, size) > ABOVE.get(shape.__name__, LIMIT):
            worst = max(after[0], key=lambda name: after[0][name] - 2 * before[0].get(name, 0))
            return (f"{first << k} parts take {work:.2f} times the looks at ops that half as many "
                    f"take, and {size:.2f} times the code; most of it in pass {worst}")
    return None


def runs(options, folder, shape):
    sizes = shapes.SHAPES[shape][1].split()
    done = call(options, folder, shape, SMALL, ["run", "--size", *sizes, "--device", "cpu",
                                                "--check"])
    return done.stdout[-300:] + done.stderr[-300:] if done.returncode else None


def main():
    made = suite.parser(__doc__)
    made.add_argument("--target", default="sm_90a")
    made.add_argument("--only", help="shapes, by name", default="")
    made.add_argument("--show", action="store_true", help="all counts")
    options = suite.options_of(made)
    only = [name for name in options.only.split(",") if name]
    jobs = [(shape, kind) for shape in shapes.SHAPES for kind in KINDS
            if not only or shape.__name__ in only]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def attempt(job):
            shape, kind = job
            own = folder / kind
            own.mkdir(exist_ok=True)
            return (grows if kind == "work" else runs)(options, own, shape)

        return suite.run(options, jobs, attempt, lambda job: f"{job[0].__name__}, {job[1]}")


if __name__ == "__main__":
    sys.exit(main())
