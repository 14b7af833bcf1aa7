# SPDX-License-Identifier: Apache-2.0
"""Tessera's Python package, on the library beside the program that is named."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def use(program):
    """The package, with the library of this program: this tree's, or for a program that an
    installed package contains, that one."""
    program = pathlib.Path(program).resolve()
    installed = (program.parent / "__init__.py").exists()
    if not installed:
        os.environ["TESSERA_LIBRARY"] = str(program.parents[1] / "lib" / "libtessera.so.0")
    folder = str(program.parents[1] if installed else ROOT / "python")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import tessera
    return tessera


def prepare(tessera, path, consts, inputs, result):
    """A launch for {parameter: array or number} and the array, or {parameter: array}, that is
    written."""
    kernel = tessera.kernel(path)
    if isinstance(result, dict):
        result = tuple(result[p.name] for p in kernel.outputs)
    return kernel.prepare(out=result, **inputs, **consts)
