# SPDX-License-Identifier: Apache-2.0
"""Tessera's Python package, of this tree, on the library beside the program that is named."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def use(program):
    """The package, with the library of this program."""
    library = pathlib.Path(program).resolve().parents[1] / "lib" / "libtessera.so.0"
    os.environ["TESSERA_LIBRARY"] = str(library)
    if str(ROOT / "python") not in sys.path:
        sys.path.insert(0, str(ROOT / "python"))
    import tessera
    return tessera


def prepare(tessera, path, consts, inputs, result):
    """A launch for {parameter: array or number} and the array, or {parameter: array}, that is
    written."""
    kernel = tessera.kernel(path)
    if isinstance(result, dict):
        result = tuple(result[p.name] for p in kernel.outputs)
    return kernel.prepare(out=result, **inputs, **consts)
