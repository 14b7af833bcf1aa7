# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Sums are f32 or wider, and rounded once."""

from . import _attention as attention
from ._pointwise import operand
from ._writer import Uncovered, cast, element_type, emits, literal, negative, wide_type

# Of a region there is at most one of them, but products of batches (attention) stay together.
HEAVY = {"aten.convolution.default", "aten.convolution_backward.default", "aten.mm.default",
         "aten.addmm.default", *attention.NAMES}
BATCHED = {"aten.bmm.default", "aten.baddbmm.default"}


def _product(writer, node, a, b):
    a, b = writer.tensor(a), writer.tensor(b)
    if a.dtype == "bool" or a.dtype[0] in "iu":
        raise Uncovered("a product of integers")
    return f"{a.text} @ {b.text}", wide_type(a.dtype)


@emits("aten.mm.default", "aten.bmm.default")
def _mm(writer, node, a, b):
    text, dtype = _product(writer, node, a, b)
    return cast(text, dtype, element_type(node))


@emits("aten.addmm.default", "aten.baddbmm.default")
def _addmm(writer, node, bias, a, b, beta=1, alpha=1):
    text, dtype = _product(writer, node, a, b)
    if alpha != 1:
        text = f"{negative(literal(alpha, dtype))} * ({text})"
    if beta != 0:
        added = operand(writer, bias, dtype)
        text += f" + {added}" if beta == 1 else f" + {negative(literal(beta, dtype))} * {added}"
    return cast(text, dtype, element_type(node))


@emits("aten.mv.default")
def _mv(writer, node, a, b):
    a, b = writer.tensor(a), writer.tensor(b)
    if a.dtype == "bool" or a.dtype[0] in "iu":
        raise Uncovered("a product of integers")
    return cast(f"({a.text} @ {b.text}[:, None])[:, 0]", wide_type(a.dtype), element_type(node))


@emits("aten.dot.default", "aten.vdot.default")
def _dot(writer, node, a, b):
    dtype = wide_type(writer.tensor(a).dtype)
    return cast(f"sum({operand(writer, a, dtype)} * {operand(writer, b, dtype)})", dtype,
                element_type(node))
