# SPDX-License-Identifier: Apache-2.0
"""Tessera: kernels of `.tile` files on NumPy's, torch's, CuPy's and JAX's arrays.

    import numpy, tessera
    softmax = tessera.kernel("softmax.tile")
    y = softmax(numpy.random.rand(64, 1000).astype("float32"))
    print(softmax.explain(tessera.spec("bf16", 4096, 4096), target="sm_90a"))

`tessera.torch.operator(kernel)` is the kernel as an operator of torch's, for torch.compile."""

import importlib

from ._abi import AssertionFailed, Error, FaultError, InternalError, SourceError
from ._abi import UnavailableError, UsageError
from ._abi import Device
from ._arrays import View, view
from ._compiled import Compiled, Spec
from ._kernel import AnyRank, Kernel
from ._launch import Launch, Message
from ._signature import Parameter
from ._program import Program, device, isolate, kernel, load, parse, spec, tile, version

LATER = {  # what most programs do without is imported when it is first used
    "Bench": "_tune", "Progress": "_tune", "Tuned": "_tune", "Bundle": "_bundle",
    "bundle": "_bundle", "include_folder": "_bundle", "library_folder": "_bundle",
    "Explanation": "_explain"}

__all__ = ["AnyRank", "AssertionFailed", "Bench", "Bundle", "Compiled", "Device", "Error",
           "Explanation", "FaultError", "InternalError", "Kernel", "Launch", "Message",
           "Parameter", "Program", "Progress", "SourceError", "Spec", "Tuned", "UnavailableError",
           "UsageError", "View", "bundle", "device", "include_folder", "isolate", "kernel",
           "library_folder", "load", "parse", "spec", "tile", "torch", "version", "view"]


def __getattr__(name):
    if name == "torch":
        return importlib.import_module("tessera.torch")
    if name == "__version__":
        return version()
    if name in LATER:
        return getattr(importlib.import_module("tessera." + LATER[name]), name)
    raise AttributeError(f"tessera has no {name}")


def __dir__():
    return sorted({*globals(), *__all__})
