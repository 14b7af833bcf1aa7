#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs in large numbers, by ranges of seeds, on as many cores as there are.

    count.py --build DIR --kinds KIND,… --count N [--first SEED] [--jobs N] [--out FOLDER]

DIR is a build directory, or a folder with its bin/, lib/ and tests/. The kinds:

    cpu      the interpreter, CPU -O0 and -O3, and the other ways of fuzz.py
    meaning  NumPy, the interpreter, CPU -O0 and -O3 (meaning.py)
    code     code for every GPU that can be compiled for, by name
    ptx      PTX on the emulator, for one part after the other
    amd      AMD's code on the emulator, likewise

A line for each range of seeds and each failure, whose program is written to --out (fuzz.py makes it
small: --first SEED --count 1). Ends with `N passed, N failed` of all kinds."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
import types

import fuzz
import generate

GPUS = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120", "gfx90a", "gfx942", "gfx950",
        "gfx1100", "gfx1201"]
PARTS = {"ptx": ["sm_90a", "sm_80", "sm_86"],
         "amd": ["gfx942", "gfx1100", "gfx90a", "gfx1201", "gfx950"]}
EACH = {"cpu": 50, "meaning": 50, "code": 20, "ptx": 10, "amd": 10}  # programs of a process
SECONDS = {"cpu": 30, "meaning": 30, "code": 120, "ptx": 240, "amd": 240}
KINDS = list(EACH)


def settings(options, kind):
    """What fuzz.py and generate.py ask for."""
    build = options.build
    return types.SimpleNamespace(
        fuzz=str(build / "tests/tessera-fuzz"), tessera=str(build / "bin/tessera"), schedules=0,
        device={"ptx": "cuda", "amd": "hip"}.get(kind, "cpu"), cuda=kind in PARTS, passes=False,
        targets=[], every=GPUS if kind == "code" else None, memory=options.memory,
        seconds=options.seconds or SECONDS[kind])


def environment(options, kind, at):
    """The part that is emulated, in turn."""
    env = dict(os.environ)
    if kind in PARTS:
        emulated = str(options.build / "tests/emulated")
        env |= {"TESSERA_EMULATED": PARTS[kind][at % len(PARTS[kind])], "ROCM_PATH": emulated,
                "LD_LIBRARY_PATH": f"{emulated}/lib", "TESSERA_EMULATED_SCRATCH": "1"}
    return env


def begin(kind):
    """In each process of a kind."""
    if kind == "meaning":
        import meaning
        meaning.integers_alone()


def programs(made, kind, seeds):
    """Texts by seed, and what NumPy says is wrong of some."""
    if kind != "meaning":
        return {str(seed): generate.program(seed, made) for seed in seeds}, []
    import meaning
    texts, rows = {}, []
    made.device = "interp"
    for seed in seeds:
        p = meaning.ready(seed)
        if not p:
            continue
        wrong = meaning.problem(made, p)
        texts[str(seed)] = p.text(str(seed), ["O0", "O3"])
        rows += [[str(seed), "meaning", "NumPy", wrong.replace("\n", "|")]] if wrong else []
    made.device = "cpu"
    return texts, rows


def unit(options, kind, at, seeds):
    """Rows of what these programs gave, and the texts of those that failed."""
    made = settings(options, kind)
    texts, rows = programs(made, kind, seeds)
    env = environment(options, kind, at)
    wrong = {row[0] for row in rows}
    if texts:
        rows += [row for row in fuzz.run(made, "".join(texts.values()), 1, env=env)
                 if row[0] not in wrong]
    rows += [[seed, "crash", "", "no answer"] for seed in set(texts) - {row[0] for row in rows}]
    part = env.get("TESSERA_EMULATED", "") if kind in PARTS else ""
    bad = [(row, texts[row[0]], part) for row in rows if row[1] != "ok"]
    compared = sum(int(row[3].split()[0]) for row in rows if row[1] == "ok")
    return collections.Counter(row[1] for row in rows), compared, bad


def tell(options, kind, row, text, part):
    path = options.out / f"{kind}_{row[0]}.tile"
    path.write_text(text)
    print(f"{kind} {row[0]}{f' on {part}' if part else ''}: {row[1]}, {row[2] or 'interpreter'}: "
          f"{row[3][-300:]}", flush=True)


def count(options, kind, pool):
    """Passed, failed."""
    seeds = range(options.first, options.first + options.count)
    parts = [seeds[i:i + EACH[kind]] for i in range(0, len(seeds), EACH[kind])]
    jobs = [pool.submit(unit, options, kind, at, part) for at, part in enumerate(parts)]
    whole, since, first, begun = collections.Counter(), collections.Counter(), seeds[0], time.time()
    compared = 0
    for part, job in zip(parts, jobs):
        counts, elements, bad = job.result()
        since, compared = since + counts, compared + elements
        for row, text, where in bad:
            tell(options, kind, row, text, where)
        if part[-1] - first + 1 >= options.range or part is parts[-1]:
            said = ", ".join(f"{n} {status}" for status, n in sorted(since.items()))
            print(f"{kind} {first}..{part[-1]}: {said}; {time.time() - begun:.0f} s", flush=True)
            whole, since, first = whole + since, collections.Counter(), part[-1] + 1
    failed = sum(whole.values()) - whole["ok"]
    print(f"{kind}: {whole['ok']} passed, {failed} failed; seeds {seeds[0]}..{seeds[-1]}, "
          f"{compared} elements compared", flush=True)
    return whole["ok"], failed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--range", type=int, default=1000, help="seeds of a line")
    parser.add_argument("--seconds", type=int, help="of the processor that a program may take")
    parser.add_argument("--memory", type=int, default=6000, help="MiB that a process may have")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("fuzz-failures"))
    options = parser.parse_args()
    if set(options.kinds) - set(KINDS):
        parser.error(f"the kinds are {', '.join(KINDS)}")
    return options


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for kind in options.kinds:
            with concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=begin,
                                                        initargs=(kind,)) as pool:
                good, bad = count(options, kind, pool)
                passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
