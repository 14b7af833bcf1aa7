#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nests.py --tessera PROGRAM [--write] [--only PATTERN]: the launches that `explain --nest` prints
as a tiled source compile to the same code.

For each kernel of the corpus the printed source is compiled with the printed schedule; its machine
code is compared with that of the kernel by the digests of tests/digests (instructions and
constants, without names, comments and source locations). nests.data lists what becomes of each
kernel on each target: `same`, `differs`, or the reason why there is no such source. It fails where
the list says otherwise, so a kernel that loses its form is noticed; `--write` writes the list.
Prints `N passed, N failed`.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "digests"),
                str(ROOT / "tests" / "codegen" / "gpu"), str(ROOT / "tests" / "codegen" / "nvptx")]

import suite  # noqa: E402
import digests  # noqa: E402
from examples import BOUND, TYPES  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "nests.data"
CASES = HERE / "inputs" / "nests.tile"
TARGETS = {"sm_90a": ("ptx", digests.ptx_digest), "x86-64-v3": ("obj", digests.elf_digest)}


def tessera(options, *words):
    return subprocess.run([options.tessera, *words], capture_output=True)


def digest(options, words, target):
    """Of the machine code; None and the message if there is none."""
    kind, digest_of = TARGETS[target]
    done = tessera(options, "compile", *words, "--emit", kind, "-o", "-")
    if done.returncode:
        return None, done.stderr.decode()
    if b"decides nothing" in done.stderr:
        return None, done.stderr.decode()
    return digest_of(done.stdout), ""


def outcome(options, job):
    """`same`, `differs`, or why there is no source; and what explains it."""
    path, kernel, settings, sizes, target = job
    words = ["--no-pins", "--target", target] + (["--size", sizes] if sizes else [])
    given = [f"{path}:{kernel}", *words] + (["--set", settings] if settings else [])
    printed = tessera(options, "explain", *given, "--nest")
    if printed.returncode:
        return "fails", printed.stderr.decode()
    text = printed.stdout.decode()
    if text.startswith("#"):
        return text.splitlines()[0].split("source: ")[1], text
    derived, _ = digest(options, given, target)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "nest.tile"
        source.write_text(text)
        pasted, said = digest(options, [f"{source}:{kernel}", *words], target)
    if pasted is None:
        return "refused", text + said
    return "same" if pasted == derived else "differs", text


def name_of(job):
    path, kernel, settings, sizes, target = job
    about = " ".join(word for word in (settings, sizes) if word)
    return f"{target} {path.stem}:{kernel}{' ' if about else ''}{about}"


def kernels_of(path):
    return re.findall(r"^kernel (\w+)\s*\(", path.read_text(), re.M)


def jobs(options):
    for path in sorted((ROOT / "examples").glob("*.tile")):
        for target in TARGETS:
            at = 0 if target.startswith("sm") else 2
            settings = [f"T={TYPES[at]}"] if "where T: " in path.read_text() else []
            settings += BOUND.get(path.stem, [])
            for kernel in kernels_of(path):
                yield path, kernel, ",".join(settings), None, target
    text = CASES.read_text()
    for comments, kernel in re.findall(r"((?:^#.*\n)*)^kernel (\w+)", text, re.M):
        for target in TARGETS:
            for sizes in [None, *re.findall(r"^# sizes (\S+)", comments, re.M)]:
                yield CASES, kernel, None, sizes, target


def recorded():
    lines = DATA.read_text().splitlines() if DATA.exists() else []
    pairs = [line.rsplit(" | ", 1) for line in lines if line and not line.startswith("#")]
    return {name: text for name, text in pairs}


def attempt(options, before, after, job):
    name = name_of(job)
    now, text = outcome(options, job)
    after[name] = now
    if options.show:
        print(f"==== {name}: {now}\n{text}")
    if now != before.get(name):
        return f"{now}, and not as recorded: {before.get(name)}\n{text[:2000]}"
    return None


def write(after):
    same = sum(text == "same" for text in after.values())
    lines = ["# Made by `nests.py --write`: what becomes of the launches of each kernel as source.",
             f"# {same} of {len(after)} compile to the same code."]
    lines += [f"{name} | {text}" for name, text in sorted(after.items())]
    DATA.write_text("\n".join(lines) + "\n")


def main():
    parser = suite.parser(__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the sources, too")
    parser.add_argument("--only", default="", help="a regular expression")
    options = suite.options_of(parser)
    before, after = recorded(), {}
    chosen = [job for job in jobs(options) if re.search(options.only, name_of(job))]
    status = suite.run(options, chosen, lambda job: attempt(options, before, after, job), name_of)
    if options.write and not options.only:
        write(after)
    return status


if __name__ == "__main__":
    sys.exit(main())
