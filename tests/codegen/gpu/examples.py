# SPDX-License-Identifier: Apache-2.0
"""Every example becomes machine code, for each target, with nothing but its source known.

    examples.py --tessera PROGRAM --examples FOLDER --target NAME… --emit cubin|hsaco
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

BOUND = {"attention": ["causal=true", "D=64"]}  # what has no default


def compile_one(options, source, target, folder):
    """None, or what is wrong."""
    command = [options.tessera, "compile", str(source), "--target", target, "--emit", options.emit,
               "-o", os.path.join(folder, f"{source.stem}.{target}")]
    text = source.read_text()
    command += ["--set", "T=bf16"] if "where T: " in text else []
    command += [word for value in BOUND.get(source.stem, []) for word in ("--set", value)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode and f"{source.stem}, {target}: {done.stderr.strip()[:500]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--examples", required=True, type=pathlib.Path)
    parser.add_argument("--target", dest="targets", action="append", required=True)
    parser.add_argument("--emit", required=True)
    options = parser.parse_args()
    jobs = [(source, target) for source in sorted(options.examples.glob("*.tile"))
            for target in options.targets]
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda job: compile_one(options, *job, folder), jobs)
            problems = [problem for problem in found if problem]
    print(f"{len(jobs) - len(problems)} of {len(jobs)} compiled")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
