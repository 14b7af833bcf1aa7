#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample.py LIBRARY: the program at the head of tessera.h, compiled and linked as it says there,
with rows of an odd length. Prints `N passed, N failed`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/tessera/tessera.h").read_text()

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


def main():
    library = pathlib.Path(sys.argv[1]).resolve().parent
    command = re.search(r"^ \*     (cc .*)$", HEADER, re.M)[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "softmax.tile").write_text((ROOT / "examples/softmax.tile").read_text())
        (folder / "app.c").write_text(FRAME.format(body=sample()))
        (folder / "include").symlink_to(ROOT / "include")
        (folder / "lib").symlink_to(library)
        flags = " -lm" + (" -fsanitize=address,undefined" if "asan" in str(library) else "")
        built = subprocess.run(command + flags, shell=True, cwd=folder, text=True,
                               env={**os.environ, "T": name}, capture_output=True)
        ran = subprocess.run(["./a.out"], cwd=folder, capture_output=True, text=True) \
            if built.returncode == 0 else built
    good = (built.returncode == 0) + (ran.returncode == 0)
    print(built.stderr + (ran.stderr if ran is not built else ""), end="")
    print(f"{good} passed, {2 - good} failed")
    return 0 if good == 2 else 1


if __name__ == "__main__":
    sys.exit(main())
