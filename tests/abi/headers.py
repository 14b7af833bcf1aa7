#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""headers.py TESSERA: the headers of include/tessera, alone and beside DLPack's, and one that the
program TESSERA makes for a bundle, with names that are keywords of C++, compile without a warning
as C11, C17, C++17 and C++20, by each compiler that is here. Prints `N passed, N failed, N
skipped`."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-fsyntax-only",
         f"-I{ROOT / 'include'}"]
LANGUAGES = (("c", "c11", ["-Wstrict-prototypes"]), ("c", "c17", ["-Wstrict-prototypes"]),
             ("c++", "c++17", ["-Wold-style-cast"]), ("c++", "c++20", ["-Wold-style-cast"]))
COMPILERS = {"c": ("gcc", "clang"), "c++": ("g++", "clang++")}
# As dlpack.h declares them, tags and all.
DLPACK = """
typedef struct { void *data; } DLTensor;
typedef struct DLManagedTensor { DLTensor dl_tensor; } DLManagedTensor;
"""
KERNELS = """
kernel scale(new: f32[N], class: f32, this: i64, device: f32, stream: i32, launch: f32,
             restrict: f32[N], template: f32[N]) -> out: f32[N] =
    new * class + f32(this) + device + f32(stream) + launch + restrict + template
kernel operator(x: f32[register]) -> delete: f32[register] = x
"""
# Flags of C++ for headers of C++, besides.
WAYS = ([], ["-fno-exceptions"], ["-fno-rtti"])
# What a program does with them: a structure of each kind of call, and the macro.
USES = """
#include <tessera/tessera.h>
TesseraStatus use(TesseraProgram *program, void *x);
TesseraStatus use(TesseraProgram *program, void *x)
{
    TesseraContext *context;
    TesseraOptions options = {};
    TesseraTensor tensor = {x, TESSERA_F32, 1, {TESSERA_MAX_RANK}, nullptr};
    TesseraFact fact = {"N", 1, 0, 0};
    TesseraKernel *kernel;
    options.facts = &fact;
    options.n_facts = tensor.rank > 0 ? 1 : 0;
    TesseraStatus status = tessera_context_new(nullptr, &context);
    return status != TESSERA_OK ? status : tessera_compile(program, &options, &kernel);
}
"""


def texts(folder):
    """(name, source, is it C++ alone)."""
    headers = sorted(path.name for path in (ROOT / "include/tessera").glob("*.h"))
    for name in headers:
        include = f"#include <tessera/{name}>\n"
        yield name, 2 * include, False
        yield f"dlpack.h, {name}", DLPACK + include, False
        yield f"{name}, dlpack.h", include + DLPACK, False
    yield "a bundle's", f'#include "{folder / "k.h"}"\n', False
    yield "a use", USES, True
    for path in sorted((ROOT / "include/tessera").glob("*.hpp")):
        yield path.name, 2 * f"#include <tessera/{path.name}>\n", True


def main():
    tessera = pathlib.Path(sys.argv[1]).resolve()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "k.tile").write_text(KERNELS)
        subprocess.run([tessera, "compile", "k.tile", "--target", "sm_80", "--emit", "bundle",
                        "-o", "k"], cwd=folder, check=True)
        for language, standard, flags in LANGUAGES:
            for compiler in COMPILERS[language]:
                for what, text, only_cpp in texts(folder):
                    if only_cpp and language == "c":
                        continue
                    if not shutil.which(compiler):
                        skipped += 1
                        continue
                    for way in WAYS if what.endswith(".hpp") else WAYS[:1]:
                        done = subprocess.run([compiler, *FLAGS, *flags, *way, f"-std={standard}",
                                               "-x", language, "-"], input=text,
                                              capture_output=True, text=True)
                        good = done.returncode == 0
                        passed, failed = passed + good, failed + (not good)
                        if not good:
                            print(f"{what} by {compiler} as {standard}:\n{done.stderr}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
