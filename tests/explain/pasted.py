#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pasted.py --tessera PROGRAM: the schedule that `explain` prints, given as lines, makes the code
that was derived, bit for bit: for every example, with nothing known of its sizes, for some with
sizes at which a kernel becomes several launches, each with tiles of its own, and for the programs
of inputs/pasted.tile. Prints `N passed, N failed`."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "codegen" / "gpu"),
                str(ROOT / "tests" / "codegen" / "nvptx")]

import suite  # noqa: E402
from examples import BOUND, TYPES  # noqa: E402

TARGETS = ["sm_90a", "gfx942", "x86-64-v3"]
SIZED = [
    ("int4_matmul", "T=f16", "M=16,N=8192,K=8192"),
    ("matmul", "T=bf16", "M=64,N=512,K=65536"),
    ("total", None, "N=100000000"),
    ("softmax", "T=f32", "M=64,N=1000000"),
    ("layer_norm_backward", None, "M=16384,N=4096"),
    ("attention_decode", "T=bf16,D=128", "B=16,R=4,G=8,L=16384"),
    ("attention_backward", "T=bf16,causal=true,D=128", "B=4,H=32,S=4096,L=4096"),
    ("attention", "T=bf16,causal=true", "B=4,H=32,S=4096,L=4096,D=128"),
    ("grouped_matmul", "T=bf16", "R=4096,K=4096,N=4096,E=8"),
]

CASES = ROOT / "tests" / "explain" / "inputs" / "pasted.tile"


def tessera(options, *words):
    return subprocess.run([options.tessera, *words], capture_output=True, text=True)


def lines_of(explained):
    """The lines of the printed blocks, by kernel; a program of several kernels has several."""
    for kernel, body in re.findall(r"^schedule (\w+) on \S+ \{\n(.*?)^\}", explained, re.M | re.S):
        lines = [line.split("#")[0].strip() for line in body.splitlines()]
        yield kernel, [line for line in lines if line]


def compare(options, words, kernel, lines):
    kernel_words = [f"{words[0]}:{kernel}", *words[1:], "--emit", "llvm", "-o", "-"]
    given = [word for line in lines for word in ("--schedule", line)]
    derived, pasted = (tessera(options, "compile", *kernel_words, *more) for more in ([], given))
    if derived.returncode or pasted.returncode:
        return (derived.stderr + pasted.stderr).strip()[:300]
    if "decides nothing" in pasted.stderr:
        return re.search(r".*decides nothing.*", pasted.stderr)[0]
    if derived.stdout != pasted.stdout:
        said = tessera(options, "explain", *words, *given).stdout
        now = dict(lines_of(said)).get(kernel, [])
        return f"other code; lines {sorted(set(lines) ^ set(now)) or 'alike'}"
    return None


def check(options, name, settings, sizes, target):
    source, _, kernel = name.partition(":")
    path = str(CASES if kernel else ROOT / "examples" / f"{source}.tile")
    words = [f"{path}:{kernel}" if kernel else path, "--no-pins", "--target", target]
    words += ["--set", settings] if settings else []
    words += ["--size", sizes] if sizes else []
    done = tessera(options, "explain", *words)
    if done.returncode:
        return [(name, done.stderr.strip()[:300])]
    words[0] = path
    return [(kernel, compare(options, words, kernel, lines))
            for kernel, lines in lines_of(done.stdout)]


def cases():
    """Of each kernel of CASES: without sizes, and with those of the comments before it."""
    text = CASES.read_text()
    for comments, kernel in re.findall(r"((?:^#.*\n)*)^kernel (\w+)", text, re.M):
        yield f"{CASES.stem}:{kernel}", None, None
        for sizes in re.findall(r"^# sizes (\S+)", comments, re.M):
            yield f"{CASES.stem}:{kernel}", None, sizes


def jobs():
    for source in sorted((ROOT / "examples").glob("*.tile")):
        for at, target in enumerate(TARGETS):
            settings = [f"T={TYPES[at]}"] if "where T: " in source.read_text() else []
            settings += BOUND.get(source.stem, [])
            yield source.stem, ",".join(settings), None, target
    # Elements of which the widest access takes fewer than a thread holds side by side.
    yield "matmul", "T=f64", None, "gfx1201"
    for name, settings, sizes in [*SIZED, *cases()]:
        for target in TARGETS:
            yield name, settings, sizes, target


def attempt(options, job):
    problems = [f"{kernel}: {problem}" for kernel, problem in check(options, *job) if problem]
    return "; ".join(problems) or None


def main():
    options = suite.options_of(suite.parser(__doc__))
    return suite.run(options, suite.part_of(options, jobs()), lambda job: attempt(options, job),
                     lambda job: " ".join(word for word in job if word))


if __name__ == "__main__":
    sys.exit(main())
