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
from ._kernel import Kernel, Program
from ._launch import Launch, Message
from ._kernel import device, isolate, kernel, load, parse, spec, version

__all__ = ["AssertionFailed", "Compiled", "Device", "Error", "FaultError", "InternalError",
           "Kernel", "Launch", "Message", "Program", "SourceError", "Spec", "UnavailableError",
           "UsageError", "View", "device", "isolate", "kernel", "load", "parse", "spec", "torch",
           "version", "view"]


def __getattr__(name):
    if name == "torch":
        return importlib.import_module("tessera.torch")
    if name == "__version__":
        return version()
    raise AttributeError(f"tessera has no {name}")
