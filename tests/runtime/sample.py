#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample.py LIBRARY: the programs in the comments of the headers, compiled and linked as it says
there, and run: that of tessera.h as C and as C++, with rows of an odd length; those of tessera.hpp
and launch.hpp; and a program that uses all of tessera.hpp, with exceptions and without. Prints `N
passed, N failed`."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
HEADERS = ROOT / "include/tessera"
HEADER = (HEADERS / "tessera.h").read_text()

FRAME = """#include <math.h>
#include <stdio.h>
#include <tessera/tessera.h>
enum {{ rows = 3, columns = 13 }};
int main(void)
{{
    static float x[rows * columns], y[rows * columns];
    for (int i = 0; i < rows * columns; i++) {{
        x[i] = (float)(i % columns);
    }}
{body}
    for (int i = 0; i < rows; i++) {{
        double sum = 0;
        for (int j = 0; j < columns; j++) {{
            sum += y[i * columns + j];
        }}
        if (fabs(sum - 1) > 1e-6) {{
            fprintf(stderr, "row %d sums to %g: %s\\n", i, sum, tessera_error(context)->message);
            return 1;
        }}
    }}
    tessera_launch_free(launch);
    tessera_kernel_free(kernel);
    tessera_device_free(device);
    tessera_program_free(program);
    tessera_context_free(context);
    return 0;
}}
"""


def sample():
    """The lines indented by five, from the first declaration to the launch."""
    lines = re.search(r" \*     TesseraContext \*context;\n(?: \*(?:     .*)?\n)*", HEADER)[0]
    text = "\n".join(line[3:] for line in lines.splitlines())
    assert "tessera_launch(launch" in text
    return text.replace('"auto"', '"cpu"')  # x and y are memory of this process


CPP_FRAME = """#include <tessera/{header}>
#include <cstdio>
{before}
int main()
{{
{body}
    return y[0] == 2 && y[999] == 2 ? 0 : 1;
}}
"""


def cpp_sample(header):
    """The indented lines of the comment at the head."""
    head = (HEADERS / header).read_text().split("#ifndef")[0]
    return "\n".join(line[2:] for line in re.findall(r"^//     .*$", head, re.M))


def programs(tessera, folder):
    """(file, how it is compiled and linked)."""
    (folder / "softmax.tile").write_text((ROOT / "examples/softmax.tile").read_text())
    (folder / "app.c").write_text(FRAME.format(body=sample()))
    command = re.search(r"^ \*     (cc .*)$", HEADER, re.M)[1]
    yield command + " -lm"
    strict = " -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Werror"
    for compiler in ("gcc -x c", "g++ -x c++", "clang -x c", "clang++ -x c++"):
        for standard in ("c11", "c17") if compiler.endswith(" c") else ("c++17", "c++20"):
            yield command.replace("cc app.c", f"{compiler} -std={standard} app.c -x none") + \
                " -lm" + strict
    (folder / "k.tile").write_text("kernel twice(x: f32[N]) -> f32[N] = 2 * x")
    subprocess.run([tessera, "compile", "k.tile", "--target", "x86-64-v3", "-o", "k", "--emit",
                    "bundle"], cwd=folder, check=True)
    (folder / "app.cpp").write_text(CPP_FRAME.format(header="tessera.hpp", before="",
                                                     body=cpp_sample("tessera.hpp")))
    (folder / "bundle.cpp").write_text(CPP_FRAME.format(
        header="launch.hpp", before='#include "k.h"', body=cpp_sample("launch.hpp")))
    (folder / "all.cpp").write_text((HERE / "all_of_cpp.cpp").read_text())
    cpp = command.replace("cc app.c", "{} {}") + strict
    for compiler in ("g++ -std=c++17", "g++ -std=c++20", "clang++ -std=c++20"):
        yield cpp.format(compiler, "app.cpp")
        yield cpp.format(compiler, "all.cpp")
        yield cpp.format(compiler + " -fno-exceptions", "all.cpp")
    yield cpp.format("g++ -std=c++17", "bundle.cpp k.o").replace("-ltessera", "-ltessera-launch")


def main():
    library = pathlib.Path(sys.argv[1]).resolve().parent
    sanitized = " -fsanitize=address,undefined" if "asan" in str(library) else ""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "include").symlink_to(ROOT / "include")
        (folder / "lib").symlink_to(library)
        for command in programs(library.parent / "bin" / "tessera", folder):
            if not shutil.which(command.split()[0]):
                continue
            ran = subprocess.run(f"{command}{sanitized} && ./a.out", shell=True, cwd=folder,
                                 text=True, env={**os.environ, "T": name},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            passed, failed = passed + (ran.returncode == 0), failed + (ran.returncode != 0)
            if ran.returncode:
                print(f"{command}:\n{ran.stdout}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
