# SPDX-License-Identifier: Apache-2.0
"""Kernels as operators of torch's, which torch.compile, export and autocast see as one call.

    softmax = tessera.torch.operator(tessera.kernel("softmax.tile"))
    compiled = torch.compile(lambda x: softmax(x) * 2)

The shapes of results are the kernel's own (`tessera_kernel_shape`). They are found for the sizes
at hand: torch compiles anew for others. Its gradients are those of the derived kernel, which is an
operator as well: torch traces backwards, too."""

from functools import partial
from typing import Any, Dict

import torch

from .. import _arrays, _autograd
from .._abi import INOUT, UsageError
from .._program import spec
from .._signature import FLOATS

_library = None
_made: "Dict[str, Any]" = {}
# Operators of derivatives, by the name of the operator and the inputs' numbers.
_gradients: "Dict[Any, Any]" = {}


def _argument(param, letter, last):
    """last: no argument without a default comes after it."""
    if param.rank >= 0:
        return f"Tensor({letter}!) {param.name}" if param.io == INOUT else f"Tensor {param.name}"
    kind = "bool" if param.type == "bool" else "float" if param.type in FLOATS else \
        "Scalar" if not param.type[1:].isdigit() else "int"
    default = ""
    if last and param.is_const and param.fallback is not None:
        default = "=" + {"true": "True", "false": "False"}.get(param.fallback, param.fallback)
    return f"{kind} {param.name}{default}"


def _schema(name, kernel):
    last = max((i for i, p in enumerate(kernel.inputs) if not p.is_const or p.fallback is None),
               default=-1)
    inputs = ", ".join(_argument(p, chr(ord("a") + i), i > last)
                       for i, p in enumerate(kernel.inputs))
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


def _gradient(name, kernel, by):
    """The operator that computes the gradients of these inputs of the operator of this name."""
    if (name, by) not in _gradients:
        made = _autograd.derivative(kernel, by)
        bound = {n: value for n, value in kernel._given.get("bindings", {}).items()
                 if n in made.generics or n in made.sizes}
        _gradients[name, by] = operator(made.given(**bound) if bound else made, "_".join(
            [name, "vjp", *[kernel.inputs[i].name for i in by]]))
    return _gradients[name, by]


def _register_gradient(name, kernel):
    def backward(ctx, *gradients):
        return _autograd.backward(ctx, kernel, partial(_gradient, name, kernel), gradients)

    torch.library.register_autograd(f"tessera::{name}", backward, lib=_library,
                                    setup_context=_autograd.keep)


def _register_vmap(name, kernel):
    """Under torch.func.vmap it is called for each element of the batch: its arrays have as many
    axes as the kernel says."""
    def each(info, in_dims, *args):
        def of(k):
            return [a if d is None else a.select(d, k) for a, d in zip(args, in_dims)]
        found = [getattr(torch.ops.tessera, name)(*of(k)) for k in range(info.batch_size)]
        if len(kernel.outputs) == 1:
            return torch.stack(found), 0
        return tuple(map(torch.stack, zip(*found))), (0,) * len(kernel.outputs)

    torch.library.register_vmap(f"tessera::{name}", each, lib=_library)


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
        if _autograd.may_have_gradient(kernel):
            _register_gradient(name, kernel)
        if kernel.outputs and all(p.io != INOUT for p in kernel.inputs):
            _register_vmap(name, kernel)
        _made[name] = kernel
    return getattr(torch.ops.tessera, name)
