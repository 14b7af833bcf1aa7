# SPDX-License-Identifier: Apache-2.0
"""Calls with tensors that require grad. torch records such a call as one operation, whose backward
is the kernel that the compiler derives, `vjp(f, x, w)`: by those inputs alone whose gradients are
asked for. A backward that is recorded as well calls kernels, and so has gradients itself."""

import weakref
from functools import partial

import torch

from ._abi import INOUT
from ._signature import FLOATS

# Does torch.func transform what runs? Where torch does not say, as if it did.
_transforms = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
# Derivatives of which it is known that there are such.
_compiles: "weakref.WeakSet[object]" = weakref.WeakSet()


def recorded(kernel, args, named, out, stream):
    """What the call returns; NotImplemented: it is one that torch cannot record."""
    given = out is not None and any(value is not None for value in out)
    if given or stream is not None or any(p.io == INOUT for p in kernel.inputs) or \
            not torch.is_grad_enabled() or any(map(_has_tangent, args)):
        return NotImplemented
    if not may_have_gradient(kernel):
        with torch.no_grad():
            return kernel(*args, **named)
    return (Call if _transforms() else Quick).apply(kernel, named, *args)


def may_have_gradient(kernel):
    """Nothing is written but its results, and some are or may be floats."""
    return all(p.io != INOUT for p in kernel.inputs) and \
        any(p.type in FLOATS or p.type in kernel.generics for p in kernel.outputs)


def _has_tangent(value):
    forward = torch.autograd.forward_ad
    return isinstance(value, torch.Tensor) and forward._current_level >= 0 and \
        forward.unpack_dual(value).tangent is not None


def derivative(kernel, by):
    """The kernel that computes the gradients of the inputs of these numbers, in this order."""
    made = kernel._derived.get(by)
    if made is None:
        names = ", ".join(kernel.inputs[i].name for i in by)
        made = kernel._program[f"vjp({kernel.name}, {names})"]
        given = {n: v for n, v in kernel._given.items() if n in ("facts", "optimize", "pins")}
        if given:
            made = type(made)(kernel._program, made._raw, {"lines": (), "bindings": {}, **given})
        kernel._derived[by] = made
    return made


def _of_floats(kernel, made, results):
    """Of what there is for each result that which the derivative takes: of those of floats."""
    wanted = [p.name for p in made.inputs[len(kernel.inputs):]]
    return [value for p, value in zip(kernel.outputs, results) if f"d_{p.name}" in wanted]


def _plain(gradient):
    """Kernels take any strides. An expanded gradient, as that of a sum is, would be read in another
    way than all others; a lazy negative not at all."""
    gradient = gradient.resolve_neg()
    return gradient.contiguous() if 0 in gradient.stride() else gradient


def keep(ctx, inputs, output):
    """What a backward needs, of the inputs of the kernel."""
    tensors = [isinstance(value, torch.Tensor) for value in inputs]
    ctx.save_for_backward(*[value for value, is_one in zip(inputs, tensors) if is_one])
    ctx.others = [(is_one, None if is_one else value) for value, is_one in zip(inputs, tensors)]
    results = output if isinstance(output, tuple) else (output,)
    ctx.mark_non_differentiable(*[r for r in results if not r.is_floating_point()])


def backward(ctx, kernel, find, gradients, named=None):
    """The gradients of the inputs of the kernel. find: what computes those of inputs by number."""
    tensors = iter(ctx.saved_tensors)
    args = [next(tensors) if is_one else value for is_one, value in ctx.others]
    by = tuple(i for i, needed in enumerate(ctx.needs_input_grad[-len(args):]) if needed)
    gradients = map(_plain, _of_floats(kernel, derivative(kernel, by), gradients))
    found = find(by)(*args, *gradients, **named or {})
    answer = [None] * len(args)
    for i, gradient in zip(by, found if isinstance(found, (tuple, list)) else (found,)):
        answer[i] = gradient
    return tuple(answer)


class Call(torch.autograd.Function):
    @staticmethod
    def forward(kernel, named, *args):
        results = kernel(*args, **named)
        by = tuple(i for i, value in enumerate(args)
                   if isinstance(value, torch.Tensor) and value.requires_grad)
        made = derivative(kernel, by) if by else None
        if made is not None and made not in _compiles:
            # What has no derivative is an error here, where the user's line is, and not later in
            # the midst of a backward. It is compiled for what that will most likely be called with.
            some = results if isinstance(results, tuple) else (results,)
            made.compile(*args, *_of_floats(kernel, made, some), **named)
            _compiles.add(made)
        return results

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.kernel, ctx.named, *args = inputs
        keep(ctx, args, output)

    @staticmethod
    def backward(ctx, *gradients):
        found = partial(derivative, ctx.kernel)
        return (None, None, *backward(ctx, ctx.kernel, found, gradients, ctx.named))


class Quick(torch.autograd.Function):
    """The same in the older form, which torch.func cannot transform. torch takes half as long: of
    the other it looks at the signature in each call."""

    @staticmethod
    def forward(ctx, kernel, named, *args):
        ctx.kernel, ctx.named = kernel, named
        results = Call.forward(kernel, named, *args)
        keep(ctx, args, results)
        return results

    backward = Call.backward
