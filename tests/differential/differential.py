#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the four programs at many sizes and types on every executor that is present.

Each answer is compared twice: by the program itself with its interpreter (`--check`, bit for bit or
within the interpreter's bound), and here with a float64 reference within a derived bound. Prints
the counts, then `N passed, N failed`.
"""

import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np

from arrays import STYLES, load, save, save_laid
from programs import PROGRAMS, cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402
import suite  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command_line(under, tessera, examples, case, device, folder, check):
    command = [*under, tessera, "run", str(examples / f"{case.program}.tile"), "--device", device]
    sets = {} if case.program == "add" else {"T": case.dtype}
    sets.update(case.consts)
    for name, value in sets.items():
        command += ["--set", f"{name}={value}"]
    command += [f"{name}={case.paths[name]}" for name in case.inputs]
    command += [f"{name}={value}" for name, value in case.scalars.items()]
    return command + ["-o", str(folder / "answer.npy")] + (["--check"] if check else [])


def save_input(options, path, case, name, values):
    """Its elements one after the other, or, with --strided, in a way drawn from the case."""
    if not options.strided:
        save(path, case.dtype, values)
        return path
    which = zlib.crc32(f"{case} {name} {options.strided}".encode()) % len(STYLES)
    return save_laid(path, case.dtype, values, STYLES[which])


def compare(case, answer):
    """What is wrong with the answer, or None."""
    inputs = [values.astype(np.float64) for values in case.inputs.values()]
    with np.errstate(all="ignore"):
        want, bound = PROGRAMS[case.program][1](case, *inputs)
        if answer.shape != want.shape:
            return f"shape {answer.shape}, not {want.shape}"
        bad = ~((np.abs(answer - want) <= bound) | (np.isnan(answer) & np.isnan(want)))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"{int(bad.sum())} of {bad.size} elements differ, first {at}: {answer[at]:.9g},"
            f" float64 {want[at]:.9g} within {bound[at]:.3g}")


def run_case(options, case, device):
    """None, or what went wrong."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()) ^ options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        case.inputs = PROGRAMS[case.program][0](case, rng)
        case.paths = {name: save_input(options, folder / f"{name}.npy", case, name, values)
                      for name, values in case.inputs.items()}
        command = command_line(options.under.split(), options.tessera, options.examples, case,
                               device, folder, device != "interp")
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=patience.seconds(options.timeout))
        except subprocess.TimeoutExpired:
            return "timed out: " + " ".join(command)
        if done.returncode != 0:
            said = (done.stdout if options.under else "") + done.stderr
            return f"exit {done.returncode}: {' '.join(command)}\n{said.strip()[-2000:]}"
        problem = compare(case, load(folder / "answer.npy"))
        del case.inputs, case.paths
        return problem and f"{problem}\n{' '.join(command)}"


def has_device(options, device):
    """Asks with the smallest program; exit status 3 means that the environment lacks it."""
    if device in ("cpu", "interp"):
        return True
    command = [options.tessera, "run", str(options.examples / "add.tile"), "--device", device,
               "--size", "N=1", "-o", os.devnull]
    return subprocess.run(command, capture_output=True).returncode != 3


def arguments():
    parser = suite.parser(__doc__, device=["interp", "cpu", "cuda"])
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "examples")
    parser.add_argument("--few", action="store_true", help="a fifth of the sizes")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--dtype", action="append", choices=("f32", "bf16", "f16"))
    parser.add_argument("--under", default="", help="a program that runs ours, with options:"
                        " 'compute-sanitizer --error-exitcode 9 --tool memcheck'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strided", type=int, default=0, metavar="SEED",
                        help="inputs lie otherwise than row-major, as the seed says")
    parser.add_argument("--timeout", type=float, default=300)
    return suite.options_of(parser)


def main():
    options = arguments()
    devices = options.device
    present = [d for d in devices if has_device(options, d)]
    for device in sorted(set(devices) - set(present)):
        print(f"no {device} here" + (": asked for" if options.asked else ": left out"))
    wanted = (options.program or list(PROGRAMS), options.dtype or ["f32", "bf16", "f16"])
    jobs = [(case, d) for d in present for case in cases(not options.few, *wanted)]
    passed, failed = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(run_case, options, case, d): (case, d) for case, d in jobs}
        for future in concurrent.futures.as_completed(futures):
            case, device = futures[future]
            problem = future.result()
            (failed if problem else passed)[case.program, case.dtype, device] += 1
            if problem:
                print(f"{case} on {device}: {problem}")
    for key in sorted(passed | failed):
        print(f"{key[0]:10} {key[1]:5} {key[2]:7} {passed[key]:4} agree, {failed[key]} differ")
    absent = len(set(devices) - set(present))
    missing = absent if options.asked else 0
    skipped = 0 if options.asked else absent * len(list(cases(not options.few, *wanted)))
    print(f"{sum(passed.values())} passed, {sum(failed.values()) + missing} failed,"
          f" {skipped} skipped")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
