# SPDX-License-Identifier: Apache-2.0
"""Calls that compute each element by itself. Types are promoted as torch promotes them; operands of
f16 and bf16 are computed in f32, and the result is rounded."""

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from ._writer import (NARROW, TYPES, Uncovered, cast, dims_of, element_type, emits, literal,
                      negative)

DEFAULT, TO_FLOAT = KIND.DEFAULT, KIND.INT_TO_FLOAT
FLOATS = ("f32", "f64")


def known(arg):
    """What torch's promotion looks at."""
    return arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg


def operand(writer, arg, dtype):
    """An argument of a call as an operand of this type."""
    if isinstance(arg, torch.fx.Node):
        if isinstance(arg.meta["val"], torch.Tensor):
            value = writer.tensor(arg)
            return cast(value.text, value.dtype, dtype)
        return writer.number(arg, dtype)
    return negative(literal(arg, dtype))


def computed_type(kind, *args):
    found = [known(a) for a in args]
    dtype, _ = elementwise_dtypes(*found, type_promotion_kind=kind)
    if dtype not in TYPES:
        raise Uncovered(f"the type {str(dtype).split('.')[-1]}")
    return TYPES[dtype]


def pointwise(writer, node, template, *args, kind=DEFAULT, floats=False, any_type=False):
    """An expression of operands {0}, {1} …"""
    dtype = computed_type(kind, *args)
    if dtype == "bool" and not any_type:
        raise Uncovered("arithmetic on bool")
    if floats and dtype not in FLOATS:
        raise Uncovered(f"the type {dtype}")
    text = template.format(*[operand(writer, a, dtype) for a in args], T=dtype)
    return cast(text, dtype, element_type(node))


# ---- of one operand ----

OF_FLOATS = {  # functions of the library
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "tanh": "tanh",
    "sigmoid": "sigmoid", "erf": "erf", "erfc": "erfc", "reciprocal": "reciprocal",
    "lgamma": "lgamma", "digamma": "digamma", "erfinv": "erfinv"}
OF_F32 = {"sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh"}
OF_NUMBERS = {"neg": "-{0}", "abs": "abs({0})", "square": "{0} * {0}", "relu": "relu({0})",
              "sign": "sign({0})"}
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round"}
ACTIVATIONS = {"silu": "silu({0})", "mish": "mish({0})", "hardswish": "hardswish({0})",
               "hardsigmoid": "hardsigmoid({0})"}


def _register(table, kind, floats, make, only=None):
    for name, text in table.items():
        def emit(writer, node, x, *rest, _text=make(text), **named):
            if only is not None and computed_type(kind, x) != only:
                raise Uncovered(f"{name_of_type(x)} here")
            return pointwise(writer, node, _text, x, kind=kind, floats=floats)
        emits(f"aten.{name}.default")(emit)


def name_of_type(arg):
    return TYPES.get(known(arg).dtype, "a type")


_register(OF_FLOATS, TO_FLOAT, True, lambda f: f + "({0})")
_register(OF_F32, TO_FLOAT, True, lambda f: f + "({0})")
_register(OF_NUMBERS, DEFAULT, False, str)
_register(ACTIVATIONS, DEFAULT, True, str)
for _name, _function in ROUNDINGS.items():
    def _round(writer, node, x, _function=_function):
        value = writer.tensor(x)
        if value.dtype[0] in "iu":
            return value.text
        return pointwise(writer, node, _function + "({0})", x, floats=True)
    emits(f"aten.{_name}.default")(_round)


@emits("aten.isnan.default", "aten.isinf.default")
def _is(writer, node, x):
    value = writer.tensor(x)
    if value.dtype[0] in "iu" or value.dtype == "bool":
        raise Uncovered(f"the type {value.dtype}")
    return f"{node.target.__name__.split('.')[0]}({cast(value.text, value.dtype, wide_of(value))})"


def wide_of(value):
    return "f64" if value.dtype == "f64" else "f32"


@emits("aten.gelu.default")
def _gelu(writer, node, x, approximate="none"):
    function = {"none": "gelu", "tanh": "gelu_tanh"}[approximate]
    return pointwise(writer, node, function + "({0})", x, floats=True)


@emits("aten.leaky_relu.default")
def _leaky_relu(writer, node, x, slope=0.01):
    return pointwise(writer, node, f"where({{0}} > 0, {{0}}, {{0}} * {negative(repr(slope))})", x,
                     floats=True)


@emits("aten.elu.default")
def _elu(writer, node, x, alpha=1, scale=1, input_scale=1):
    low = f"expm1({{0}} * {float(input_scale)!r}) * {negative(repr(float(alpha) * float(scale)))}"
    return pointwise(writer, node, f"where({{0}} > 0, {{0}} * {float(scale)!r}, {low})", x,
                     floats=True)


@emits("aten.softplus.default")
def _softplus(writer, node, x, beta=1, threshold=20):
    b = repr(float(beta))
    text = f"where({{0}} * {b} > {float(threshold)!r}, {{0}}, log1p(exp({{0}} * {b})) / {b})"
    return pointwise(writer, node, text, x, floats=True)


@emits("aten.hardtanh.default")
def _hardtanh(writer, node, x, least=-1, most=1):
    return _clamp(writer, node, x, least, most)


@emits("aten.clamp.default", "aten.clamp.Tensor")
def _clamp(writer, node, x, least=None, most=None):
    text, args = "{0}", [x]
    for bound, function in ((least, "max"), (most, "min")):
        if bound is not None:
            text = f"{function}({text}, {{{len(args)}}})"
            args.append(bound)
    return pointwise(writer, node, text, *args)


@emits("aten.clamp_min.default")
def _clamp_min(writer, node, x, least):
    return _clamp(writer, node, x, least, None)


@emits("aten.clamp_max.default")
def _clamp_max(writer, node, x, most):
    return _clamp(writer, node, x, None, most)


# ---- of two ----

@emits("aten.add.Tensor", "aten.add.Scalar")
def _add(writer, node, x, y, alpha=1):
    return _sum(writer, node, x, y, alpha, "+")


@emits("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(writer, node, x, y, alpha=1):
    return _sum(writer, node, x, y, alpha, "-")


@emits("aten.rsub.Scalar", "aten.rsub.Tensor")
def _rsub(writer, node, x, y, alpha=1):
    return _sum(writer, node, y, x, alpha, "-")


def _sum(writer, node, x, y, alpha, sign):
    if alpha == 1:
        return pointwise(writer, node, f"{{0}} {sign} {{1}}", x, y)
    dtype = computed_type(DEFAULT, x, y)
    return pointwise(writer, node, f"{{0}} {sign} {negative(literal(alpha, dtype))} * {{1}}", x, y)


@emits("aten.mul.Tensor", "aten.mul.Scalar")
def _mul(writer, node, x, y):
    if computed_type(DEFAULT, x, y) == "bool":
        return pointwise(writer, node, "{0} & {1}", x, y, any_type=True)
    return pointwise(writer, node, "{0} * {1}", x, y)


@emits("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def _div(writer, node, x, y):
    return pointwise(writer, node, "{0} / {1}", x, y, kind=TO_FLOAT)


@emits("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(writer, node, x, y, rounding_mode=None):
    if rounding_mode is None:
        return _div(writer, node, x, y)
    if computed_type(DEFAULT, x, y)[0] not in "iu" or rounding_mode != "floor":
        raise Uncovered(f"rounding_mode={rounding_mode!r} here")
    return pointwise(writer, node, "{0} // {1}", x, y)


@emits("aten.floor_divide.default")
def _floor_divide(writer, node, x, y):
    return _div_mode(writer, node, x, y, "floor")


@emits("aten.remainder.Scalar", "aten.remainder.Tensor")
def _remainder(writer, node, x, y):
    return pointwise(writer, node, "{0} % {1}", x, y)


@emits("aten.fmod.Scalar", "aten.fmod.Tensor")
def _fmod(writer, node, x, y):
    return pointwise(writer, node, "fmod({0}, {1})", x, y, floats=True)


@emits("aten.maximum.default")
def _maximum(writer, node, x, y):
    return pointwise(writer, node, "max({0}, {1})", x, y)


@emits("aten.minimum.default")
def _minimum(writer, node, x, y):
    return pointwise(writer, node, "min({0}, {1})", x, y)


@emits("aten.atan2.default")
def _atan2(writer, node, x, y):
    return pointwise(writer, node, "atan2({0}, {1})", x, y, kind=TO_FLOAT, floats=True)


POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 1.0: "{0}", 0.5: "sqrt({0})",
          -0.5: "rsqrt({0})", -1.0: "1 / {0}", -2.0: "1 / ({0} * {0})"}


@emits("aten.pow.Tensor_Scalar")
def _power(writer, node, x, y):
    dtype = computed_type(DEFAULT, x, y)
    text = POWERS.get(float(y))
    if dtype not in FLOATS and (text is None or y < 0 or y != int(y)):
        raise Uncovered(f"the type {dtype}")
    if text is None:
        text = f"pow({{0}}, {negative(repr(float(y)))})"
    return pointwise(writer, node, text, x, *([] if dtype in FLOATS else [1]))


@emits("aten.pow.Tensor_Tensor")
def _power_tensor(writer, node, x, y):
    return pointwise(writer, node, "pow({0}, {1})", x, y, floats=True)


@emits("aten.pow.Scalar")
def _power_of(writer, node, x, y):
    return pointwise(writer, node, "pow({T}({0}), {1})", x, y, floats=True)


# ---- comparisons, logic, choices ----

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(sign):
    def emit(writer, node, x, y):
        dtype = TYPES.get(torch.result_type(known(x), known(y)))
        if dtype is None:
            raise Uncovered("its types")
        if dtype == "bool":
            dtype = "i32"
        texts = [operand(writer, a, dtype) for a in (x, y)]
        if dtype in ("f16", "bf16"):  # numbers are rounded, too
            texts = [t if isinstance(a, torch.fx.Node) else f"{dtype}({t})"
                     for a, t in zip((x, y), texts)]
        return f"{texts[0]} {sign} {texts[1]}"
    return emit


for _name, _sign in COMPARISONS.items():
    emits(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_compare(_sign))


def _logic(sign):
    def emit(writer, node, x, y):
        return f"{operand(writer, x, 'bool')} {sign} {operand(writer, y, 'bool')}"
    return emit


for _name, _sign in {"and": "&", "or": "|", "xor": "^"}.items():
    emits(f"aten.logical_{_name}.default")(_logic(_sign))

    def _bits(writer, node, x, y, _sign=_sign):
        return pointwise(writer, node, f"{{0}} {_sign} {{1}}", x, y, any_type=True)
    emits(f"aten.bitwise_{_name}.Tensor", f"aten.bitwise_{_name}.Scalar")(_bits)


@emits("aten.logical_not.default")
def _logical_not(writer, node, x):
    return f"~{operand(writer, x, 'bool')}"


@emits("aten.bitwise_not.default")
def _bitwise_not(writer, node, x):
    return f"~{writer.tensor(x).text}"


@emits("aten.where.self")
def _where(writer, node, condition, x, y):
    dtype = TYPES.get(torch.result_type(known(x), known(y)))
    if dtype is None:
        raise Uncovered("its types")
    if isinstance(condition, torch.fx.Node) and known(condition).dtype != torch.bool:
        raise Uncovered("a condition that is no bool")
    if all(not isinstance(a, torch.fx.Node) for a in (x, y)):
        raise Uncovered("a choice of two numbers")
    of = "f32" if dtype in NARROW else dtype
    texts = [operand(writer, a, of) for a in (x, y)]
    text = f"where({writer.tensor(condition).text}, {texts[0]}, {texts[1]})"
    return cast(text, of, dtype)


# ---- copies, and what is made of nothing ----

@emits("aten.clone.default", "aten.alias.default", "aten.detach.default",
       "aten.lift_fresh_copy.default", "aten.contiguous.default")
def _same(writer, node, x, **_):
    return writer.tensor(x)


@emits("aten._to_copy.default", "prims.convert_element_type.default")
def _to_copy(writer, node, x, *_, **named):
    if named.get("device") is not None and named["device"] != known(x).device:
        raise Uncovered("a copy to another device")
    value = writer.tensor(x)
    to = element_type(node)
    text = value.text
    if isinstance(x, torch.fx.Node) and str(x.target) == str(node.target):
        text = str(text)  # there and back: the program rounds
    return value if value.dtype == to else cast(text, value.dtype, to)


def filled(writer, node, number):
    dtype, dims = element_type(node), dims_of(writer, node)
    text = writer.number(number, dtype) if isinstance(number, torch.fx.Node) else \
        literal(number, dtype)
    if not dims:
        return text if dtype == "bool" else f"{dtype}({text})"
    if dtype == "bool":
        return f"fill({text}, bool[{', '.join(dims)}])"
    return f"fill({dtype}({text}), {dtype}[{', '.join(dims)}])"


@emits("aten.full.default")
def _full(writer, node, dims, number, **_):
    return filled(writer, node, number)


@emits("aten.full_like.default")
def _full_like(writer, node, x, number, **_):
    return filled(writer, node, number)


@emits("aten.scalar_tensor.default")
def _scalar_tensor(writer, node, number, **_):
    return filled(writer, node, number)


@emits("aten.zeros_like.default", "aten.zeros.default")
def _zeros(writer, node, *_, **named):
    return filled(writer, node, 0)


@emits("aten.ones_like.default", "aten.ones.default")
def _ones(writer, node, *_, **named):
    return filled(writer, node, 1)


@emits("aten.arange.start_step", "prims.iota.default")
def _arange(writer, node, *args, start=0, step=1, **_):
    if name_is_iota(node):
        first = start
    else:
        first, step = args[0], args[2] if len(args) > 2 else step
    dtype, dims = element_type(node), dims_of(writer, node)
    if not all(isinstance(n, int) for n in (first, step)):
        raise Uncovered("a start or step that is no whole number")
    text = f"iota({dims[0]})"
    if step != 1:
        text += f" * {negative(str(step))}"
    if first:
        text += f" + {negative(str(first))}"
    return cast(text, "i64", dtype)


def name_is_iota(node):
    return "iota" in str(node.target)
