# SPDX-License-Identifier: Apache-2.0
"""Kernels as operators of torch's, which torch.compile, export and autocast see as one call.

    softmax = tessera.torch.operator(tessera.kernel("softmax.tile"))
    compiled = torch.compile(lambda x: softmax(x) * 2)

The shapes of results are the kernel's own (`tessera_kernel_shape`). They are found for the sizes
at hand: torch compiles anew for others."""

import torch

from . import _arrays
from ._abi import INOUT, UsageError
from ._program import spec
from ._signature import FLOATS

_library = None
_made = {}


def _argument(param, letter):
    if param.rank >= 0:
        return f"Tensor({letter}!) {param.name}" if param.io == INOUT else f"Tensor {param.name}"
    kind = "bool" if param.type == "bool" else "float" if param.type in FLOATS else \
        "Scalar" if not param.type[1:].isdigit() else "int"
    default = ""
    if param.is_const and param.fallback is not None:
        default = "=" + {"true": "True", "false": "False"}.get(param.fallback, param.fallback)
    return f"{kind} {param.name}{default}"


def _schema(name, kernel):
    inputs = ", ".join(_argument(p, chr(ord("a") + i)) for i, p in enumerate(kernel.inputs))
    results = ", ".join("Tensor" for _ in kernel.outputs)
    return f"{name}({inputs}) -> " + (results if len(kernel.outputs) == 1 else f"({results})")


def _fake(kernel):
    """Results without memory: what the kernel says their types and shapes are."""
    def fake(*args, **named):
        values, named = kernel._bind(args, named)
        first, specs = None, []
        for p, value in zip(kernel.inputs, values):
            if p.rank >= 0:
                first = value if first is None else first
                adapter = _arrays.adapter_of(value)
                specs.append(spec(adapter.names.get(value.dtype, str(value.dtype)),
                                  *(int(n) for n in value.shape)))
            else:
                specs.append(value)
        compiled = kernel.compile(*specs, **named)
        at = len(kernel._params.launched) - len(kernel.outputs)
        results = []
        for i in range(len(kernel.outputs)):
            dtype, dims = compiled.shape(at + i)
            theirs = getattr(torch, _arrays.NAMES[dtype])
            results.append(torch.empty(dims, dtype=theirs, device=first.device))
        return results[0] if len(results) == 1 else tuple(results) if results else None
    return fake


def operator(kernel, name=None):
    """torch.ops.tessera.<name>: the kernel as an operator. Generic parameters that its arguments
    do not tell are bound before: `kernel.given(T="bf16")`."""
    global _library
    if all(p.rank < 0 for p in kernel.inputs):
        raise UsageError(f"{kernel.name} has no tensor among its inputs")
    name = name or kernel.name
    if name in _made and _made[name] is not kernel:
        raise UsageError(f"there is an operator tessera::{name}: give another name=")
    if name not in _made:
        if _library is None:
            _library = torch.library.Library("tessera", "DEF")
        _library.define(_schema(name, kernel))
        _library.impl(name, kernel.__call__, "CompositeExplicitAutograd")
        torch.library.register_fake(f"tessera::{name}", _fake(kernel), lib=_library)
        _made[name] = kernel
    return getattr(torch.ops.tessera, name)
