#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""typed.py: the package's stubs are strictly typed, say what is there, and hold a program to it.
mypy is that of scripts/setup.sh, or of this Python. Prints `N passed, N failed, N skipped`."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tessera"
CHECKS = 4
# How objects are made is not for callers; modules that begin with _ have no stubs.
ALLOWED = r"""
tessera\.\w+\.__(init|new)__
tessera\.(torch\.)?_.*
"""
GOOD = """
import tessera
softmax: tessera.Kernel = tessera.kernel("softmax.tile")
program: tessera.Program = tessera.tile("kernel f(x: f32[N]) -> f32[N] = x")
y = softmax(1, out=None, T="f32")
measured: float = program.f.bench(y, seconds=0.1).seconds
def show(progress: tessera.Progress) -> None:
    left: float = progress.left or 0
tuned: tessera.Tuned = softmax.tune(y, budget="10m", progress=show)
lines: str = softmax.source("sm_90a", tessera.spec("f32", 3, 4))
header, code = tessera.bundle(softmax, targets=["sm_90a"], variants=[{"T": "bf16"}]).write()
header.write_text(softmax.given(facts={"N": (8, 0, 64)}).schedule(y))
"""
BAD = """
import tessera
tessera.load(3)
tessera.kernel("a.tile").bench(1).secnds
tessera.kernel("a.tile").tune(1, budget=None)
"""


def search_path():
    """Where mypy is; None: nowhere."""
    for folder in sorted((ROOT / ".tools/venv/lib").glob("python*/site-packages")):
        if (folder / "mypy").exists() and folder.parent.name == \
                f"python{sys.version_info.major}.{sys.version_info.minor}":
            return str(folder)
    try:
        import mypy
        return str(pathlib.Path(mypy.__file__).parents[1])
    except ImportError:
        return None


def main():
    where = search_path()
    if where is None:
        print(f"0 passed, 0 failed, {CHECKS} skipped")
        return 0
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fake = ROOT / "tests/python/fake"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(fake), where]),
                       "MYPYPATH": str(PACKAGE.parent), "MYPY_CACHE_DIR": str(folder / "cache")}
        (folder / "good.py").write_text(GOOD)
        (folder / "bad.py").write_text(BAD)
        (folder / "allowed").write_text(ALLOWED)
        (folder / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n"
                                         "[mypy-numpy.*]\nfollow_imports = skip\n")

        def mypy(what, good, *words):
            done = subprocess.run([sys.executable, "-m", *words], cwd=folder, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if not good(done):
                failed.append(what)
                print(f"{what}:\n{done.stdout}")

        def passes(done):
            return done.returncode == 0

        mypy("the stubs", passes, "mypy", "--strict", *map(str, sorted(PACKAGE.glob("*.pyi"))))
        mypy("a program", passes, "mypy", "--strict", "good.py")
        mypy("a wrong program", lambda done: done.stdout.count(": error:") == 3, "mypy", "--strict",
             "bad.py")
        environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), str(fake), where])
        mypy("what the stubs say", passes, "mypy.stubtest", "tessera", "--concise",
             "--ignore-missing-stub", "--ignore-unused-allowlist", "--allowlist", "allowed",
             "--mypy-config-file", "mypy.ini")
    print(f"{CHECKS - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
