# SPDX-License-Identifier: Apache-2.0
"""The program `tessera`, which is part of the package."""

import os
import pathlib
import shutil
import sys


def program():
    """Its path."""
    here = pathlib.Path(__file__).resolve().parent
    tree = here.parents[1]
    named = os.environ.get("TESSERA_PROGRAM")
    for path in [named] if named else [here / "tessera", tree / "bin" / "tessera",
                                       tree / "build" / "bin" / "tessera"]:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return str(path)
    found = None if named else shutil.which("tessera")
    if found and open(found, "rb").read(4) == b"\x7fELF":  # and not a script that calls this
        return found
    from ._abi import UnavailableError
    raise UnavailableError(f"the program tessera is not there: {named or here / 'tessera'}")


def main():
    """What the script `tessera` and `python -m tessera` run."""
    path = program()
    sys.stdout.flush()
    os.execv(path, ["tessera", *sys.argv[1:]])
