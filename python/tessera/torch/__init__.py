# SPDX-License-Identifier: Apache-2.0
"""Tessera in torch: kernels as operators, and models whose graphs become kernels.

    softmax = tessera.torch.operator(tessera.kernel("softmax.tile"))
    compiled = torch.compile(model, backend="tessera")
    print(tessera.torch.report())"""

from ._operator import operator
from ._report import Graph, Report, report

__all__ = ["Graph", "Report", "backend", "folder", "operator", "report"]


def backend(module, inputs, **options):
    """What torch.compile(…, backend="tessera") calls."""
    from ._backend import backend as compile_module
    return compile_module(module, inputs, **options)


def folder(path=None):
    """The folder with the programs of compiled graphs; a path: use that one from now on. At first
    it is that of the environment's TESSERA_TORCH, or tessera/torch in the user's cache."""
    from ._region import folder as find
    return find(path)


try:
    from torch._dynamo import register_backend as _register
except ImportError:  # a torch without it
    pass
else:
    _register(backend, "tessera")
