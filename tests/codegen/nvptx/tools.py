# SPDX-License-Identifier: Apache-2.0
"""Where NVIDIA's programs are."""

import os
import pathlib
import shutil
import subprocess
import sys


def find_tool(name, variable):
    """From the environment, PATH, CUDA's folder, what scripts/setup.sh installed, or the copy in
    Triton's package."""
    places = [os.environ.get(variable), shutil.which(name), "/usr/local/cuda/bin/" + name,
              str(pathlib.Path(__file__).resolve().parents[3] / ".tools" / "bin" / name)]
    for python in {sys.executable, shutil.which("python3")} - {None}:
        found = subprocess.run(
            [python, "-c", "import importlib.util as u; print(u.find_spec('triton').origin)"],
            capture_output=True, text=True)
        if found.returncode == 0:
            root = os.path.dirname(found.stdout.strip())
            places.append(os.path.join(root, "backends", "nvidia", "bin", name))
    return next((place for place in places if place and os.access(place, os.X_OK)), None)
