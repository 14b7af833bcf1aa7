#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codes.py TESSERA [--write] [CODE...]: every code of the tables, by its example.

The wrong program gets the code, and its text is golden/CODE.txt (--write makes it); where a help
can be applied, what it makes compiles; the mended one compiles without the code. Examples that are
lines of a shell run in a folder with the files that they name.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import patience  # noqa: E402

# Where no example can be run: what is not the same on every machine, or never there.
ELSEWHERE = {
    "E1011": "a driver may be there",
    "E1022": "no program of ours gets it",
    "E1023": "tests/cli/limits.test",
    "E1038": "tests/cli/driver.test",
    "E1039": "tests/cli/driver.test",
}
HEAD = "kernel f(x: f32[N]) -> f32[N] = "
# Programs too large to be shown.
LARGE = {
    "E0104": "\n".join(f"fn f{i}(x) = x" for i in range(5000)) + "\n" + HEAD + "x\n",
    "E0202": HEAD + "(" * 300 + "x" + ")" * 300 + "\n",
    "E0204": HEAD + " + ".join(["x"] * 600) + "\n",
    "E0602": "fn a(x) = x * x + x\n" + "".join(
        f"fn {new}(x) = {old}({old}({old}({old}(x))))\n"
        for old, new in zip("abcdefg", "bcdefgh")) + HEAD + "h(x)\n",
}
FILES = {
    "add.tile": "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n",
    "two.tile": "kernel first(x: f32[N]) -> f32[N] = x\nkernel second(x: f32[N]) -> f32[N] = x\n",
    "fill.tile": "kernel fill_it(v: f32) -> f32[N] = fill(v, f32[N])\n",
    "positive.tile": "kernel positive(x: f32[N]) -> f32[N] {\n"
                     "    assert(x >= 0, \"negative:\", x)\n    return sqrt(x)\n}\n",
    "pinned.tune": "tessera pins 1\n\npin add on sm_90a {\n    device NVIDIA H200\n"
                   "    kernel 00000000000000000000000000000000\n    types\n"
                   "    sizes N=2049..4096%64\n    version 0\n"
                   "    schedule {\n        vector 4\n    }\n}\n",
    "scale.tile": "kernel scale(x: T[M, N], factor: f32) -> T[M, N] where T: float = x * factor\n",
}


class Case:
    def __init__(self, tessera, row, write):
        self.tessera, self.row, self.write = tessera, row, write
        self.code, self.problems = row["code"], []

    def say(self, problem):
        self.problems.append(f"{self.code}: {problem}")

    def run(self, command, *more):
        """The program's exit status and what it says."""
        words = shlex.split(command) + list(more)
        environment = dict(os.environ, XDG_CACHE_HOME=self.folder)
        while "=" in words[0]:
            name, value = words.pop(0).split("=", 1)
            environment[name] = value
        done = subprocess.run([self.tessera] + words[1:], cwd=self.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=patience.seconds(120))
        return done.returncode, done.stderr.decode(errors="replace")

    def compile(self, text, *more):
        (pathlib.Path(self.folder) / "f.tile").write_text(text)
        head = re.match(r"# tessera compile f\.tile(.*)\n", text)
        options = head.group(1) if head else ""
        target = "" if "--target" in options else " --target native"
        emit = "" if "--emit" in options else " --emit ir"
        return self.run(f"tessera compile f.tile{options}{target}{emit}", *more)

    def codes(self, said):
        try:
            return [json.loads(line) for line in said.splitlines()]
        except ValueError:
            self.say(f"no JSON: {said}")
            return []

    def check_golden(self, said):
        path = HERE / "golden" / f"{self.code}.txt"
        if self.write:
            path.write_text(said)
        elif not path.exists():
            self.say(f"no {path.name}")
        elif path.read_text() != said:
            self.say(f"not as in {path.name}:\n{said}")

    def check_wrong(self, perform, wrong):
        status, said = perform(wrong, "--diagnostics=human")
        self.check_golden(said)
        again, machine = perform(wrong, "--diagnostics=json")
        found = self.codes(machine)
        if self.code not in [diagnostic["code"] for diagnostic in found]:
            self.say(f"the wrong example says: {said}")
        if status != again or (status == 0) != self.code.startswith("W"):
            self.say(f"exit status {status}, then {again}")
        return found

    def check_edits(self, text, found):
        edits = next((help["edits"] for diagnostic in found for help in diagnostic["helps"]
                      if help["edits"]), [])
        data = text.encode()
        for edit in sorted(edits, key=lambda edit: -edit["start"]):
            data = data[:edit["start"]] + edit["replacement"].encode() + data[edit["end"]:]
        if edits:
            status, said = self.compile(data.decode())
            if status != 0:
                self.say(f"what the help makes does not compile:\n{data.decode()}{said}")
        return len(edits) > 0

    def check_mended(self, perform):
        status, said = perform(self.row["mended"])
        if status != 0 or said:
            self.say(f"the mended example: exit status {status}, {said}")

    def check(self):
        with tempfile.TemporaryDirectory() as self.folder:
            make_files(pathlib.Path(self.folder))
            if self.code in LARGE:
                self.check_wrong(self.compile, LARGE[self.code])
                return False
            if not self.row["wrong"]:
                self.say("no example")
                return False
            if self.row["wrong"].startswith("$ "):
                self.check_wrong(lambda line, *more: self.run(line[2:], *more), self.row["wrong"])
                self.check_mended(lambda line: self.run(line[2:]))
                return False
            found = self.check_wrong(self.compile, self.row["wrong"])
            self.check_mended(self.compile)
            return self.check_edits(self.row["wrong"], found)


def make_files(folder):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    np.save(folder / "x.npy", np.arange(10, dtype=np.float32))
    np.save(folder / "y.npy", np.arange(10, dtype=np.float32))
    np.save(folder / "longer.npy", np.arange(12, dtype=np.float32))
    np.save(folder / "integers.npy", np.arange(10, dtype=np.int32))


def main():
    tessera, *words = sys.argv[1:]
    write = "--write" in words
    wanted = [word for word in words if word != "--write"]
    listing = subprocess.run([tessera, "explain", "--json"], check=True, capture_output=True)
    rows = [json.loads(line) for line in listing.stdout.splitlines()]
    documented = (HERE.parents[1] / "docs" / "errors.md").read_text()
    cases = [Case(os.path.abspath(tessera), row, write) for row in rows
             if row["code"] not in ELSEWHERE and (not wanted or row["code"] in wanted)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        applied = sum(pool.map(Case.check, cases))
    problems = [problem for case in cases for problem in case.problems]
    problems += [f"{row['code']} is not in docs/errors.md" for row in rows
                 if f"**{row['code']}**" not in documented]
    if len(rows) < 80:
        problems.append(f"only {len(rows)} codes")
    print("\n".join(problems))
    print(f"{applied} helps were applied")
    bad = len({problem[:5] for problem in problems})
    print(f"{len(cases) - bad} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
