# SPDX-License-Identifier: Apache-2.0
"""Calls that reduce or scan axes: sums, extremes, softmax, norms. They compute in f32, of f64
operands in f64, and round the results."""

from ._pointwise import operand
from ._writer import (NARROW, TYPES, Rounded, Uncovered, axis_of, cast, dims_of, element_type,
                      emits, product, wide, wide_type)


def axes_of(axes, rank):
    """Of the arguments of a reduction; none are all."""
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return list(range(rank))
    axes = [axes] if isinstance(axes, int) else list(axes)
    return sorted(axis_of(a, rank) for a in axes)


def without(text, rank, axes):
    """A reduction whose axes are dropped."""
    return f"{text}[{', '.join('0' if k in axes else ':' for k in range(rank))}]"


def reduced(function, operand_text, rank, axes, keep):
    """A reduction over these axes."""
    if not rank:
        raise Uncovered("a reduction of a number")
    if len(axes) == rank and not keep:
        return f"{function}({operand_text})"
    text = f"{function}({operand_text}, axis={axes if len(axes) > 1 else axes[0]})"
    return text if keep else without(text, rank, axes)


def count(value, axes):
    """How many elements are reduced to one."""
    return product([value.dims[a] for a in axes])


def _as(writer, node, x, dtype):
    """The operand in the type that the sum has."""
    value = writer.tensor(x)
    to = wide_type(TYPES[dtype]) if dtype is not None else wide_type(element_type(node))
    if dtype is not None and TYPES[dtype] in ("f16", "bf16"):
        return value, f"f32({cast(value.text, value.dtype, TYPES[dtype])})", "f32"
    narrow = to == "f32" and value.dtype in NARROW
    text = wide(value) if narrow else cast(value.text, value.dtype, to)
    return value, text, to


def _sum(function):
    def emit(writer, node, x, axes=None, keep=False, dtype=None):
        value, text, to = _as(writer, node, x, dtype)
        if function == "mean" and to == "i64":
            raise Uncovered("a mean of integers")
        return cast(reduced(function, text, value.rank, axes_of(axes, value.rank), keep), to,
                    element_type(node))
    return emit


emits("aten.sum.dim_IntList", "aten.sum.default")(_sum("sum"))
emits("aten.mean.dim", "aten.mean.default")(_sum("mean"))
emits("aten.prod.dim_int", "aten.prod.default")(_sum("prod"))


def _extreme(function):
    def emit(writer, node, x, axes=None, keep=False):
        value = writer.tensor(x)
        if value.dtype == "bool":
            raise Uncovered("bool")
        text, of = extreme_operand(value)
        return cast(reduced(function, text, value.rank, axes_of(axes, value.rank), keep), of,
                    element_type(node))
    return emit


def extreme_operand(value):
    """Of extremes, which are the same whether they or their operands are rounded: (its text, its
    type)."""
    of = "f32" if isinstance(value.text, Rounded) else value.dtype
    return cast(value.text, value.dtype, of), of


emits("aten.amax.default", "aten.max.default")(_extreme("max"))
emits("aten.amin.default", "aten.min.default")(_extreme("min"))


@emits("aten.max.dim", "aten.min.dim")
def _extreme_and_place(writer, node, x, axis, keep=False):
    value = writer.tensor(x)
    if value.dtype == "bool":
        raise Uncovered("bool")
    function = "max" if ".max." in str(node.target) else "min"
    axes = axes_of(axis, value.rank)
    text, of = extreme_operand(value)
    return (cast(reduced(function, text, value.rank, axes, keep), of, value.dtype),
            reduced(f"arg{function}", value.text, value.rank, axes, keep))


@emits("aten.argmax.default", "aten.argmin.default")
def _place(writer, node, x, axis=None, keep=False):
    value = writer.tensor(x)
    if value.dtype == "bool":
        raise Uncovered("bool")
    function = "argmax" if "argmax" in str(node.target) else "argmin"
    if axis is None:
        if keep or not value.rank:
            raise Uncovered("a number, or no axis and keepdim")
        text = value.text if value.rank == 1 else f"reshape({value.text}, [{product(value.dims)}])"
        return reduced(function, text, 1, [0], False)
    return reduced(function, value.text, value.rank, axes_of(axis, value.rank), keep)


@emits("aten.any.dim", "aten.any.dims", "aten.any.default", "aten.all.dim", "aten.all.dims",
       "aten.all.default")
def _any(writer, node, x, axes=None, keep=False):
    value = writer.tensor(x)
    function = "any" if ".any." in str(node.target) else "all"
    return cast(reduced(function, operand(writer, x, "bool"), value.rank,
                        axes_of(axes, value.rank), keep), "bool", element_type(node))


def _moments(writer, value, axes):
    """(mean, sum of squares about it, differences), the axes kept."""
    dims = ["1" if k in axes else d for k, d in enumerate(value.dims)]
    to, at = wide_type(value.dtype), axes if len(axes) > 1 else axes[0]
    mean = writer.let(f"mean({wide(value)}, axis={at})", "mean", to, dims)
    centred = writer.let(f"{wide(value)} - {mean.text}", "centred", to, value.dims)
    squares = writer.let(f"sum({centred.text} * {centred.text}, axis={at})", "squares", to, dims)
    return mean, squares, centred


def _variance(writer, node, x, axes, correction, keep):
    value = writer.tensor(x)
    if value.dtype not in ("f16", "bf16", "f32", "f64") or not value.rank:
        raise Uncovered(f"the type {value.dtype}")
    axes = axes_of(axes, value.rank)
    correction = 1 if correction is None else correction
    n = count(value, axes)
    if not n.isdigit() or not isinstance(correction, (int, float)) or int(n) <= correction:
        raise Uncovered("a number of elements that is not known, or too small")
    mean, squares, _ = _moments(writer, value, axes)
    texts = [f"{squares.text} / {float(int(n) - correction)!r}", mean.text]
    return [cast(text if keep else without(f"({text})", value.rank, axes),
                 wide_type(value.dtype), value.dtype) for text in texts]


@emits("aten.var.correction")
def _var(writer, node, x, axes=None, correction=None, keepdim=False):
    return _variance(writer, node, x, axes, correction, keepdim)[0]


@emits("aten.var_mean.correction")
def _var_mean(writer, node, x, axes=None, correction=None, keepdim=False):
    return tuple(_variance(writer, node, x, axes, correction, keepdim))


def _scan(function):
    def emit(writer, node, x, axis, dtype=None):
        value, text, to = _as(writer, node, x, dtype)
        if not value.rank:
            raise Uncovered("a scan of a number")
        return cast(f"{function}({text}, axis={axis_of(axis, value.rank)})", to,
                    element_type(node))
    return emit


emits("aten.cumsum.default")(_scan("cumsum"))
emits("aten.cumprod.default")(_scan("cumprod"))


@emits("aten._softmax.default", "aten._log_softmax.default", "aten._safe_softmax.default")
def _softmax(writer, node, x, axis, *_, **named):
    value = writer.tensor(x)
    if not value.rank or value.dtype[0] == "i":
        raise Uncovered("softmax of a number or of integers")
    axis, to = axis_of(axis, value.rank), wide_type(value.dtype)
    function = "log_softmax" if "log" in str(node.target) else "softmax"
    text = f"{function}({wide(value)}, axis={axis})"
    if "safe" in str(node.target):  # a row without any key is 0, not NaN
        seen = f"max({wide(value)}, axis={axis}) > -inf"
        text = f"where({seen}, {text}, 0)"
    return cast(text, to, element_type(node))


# ---- norms ----

def _column(text, rank, axis=1):
    """A vector along one axis of so many."""
    return f"{text}[{', '.join(':' if k == axis else 'None' for k in range(rank))}]"


def _result(node, k):
    return TYPES[node.meta["val"][k].dtype]


@emits("aten.native_layer_norm.default")
def _layer_norm(writer, node, x, shape, weight, bias, eps):
    value = writer.tensor(x)
    axes = list(range(value.rank - len(shape), value.rank))
    to, n = wide_type(value.dtype), count(value, axes)
    mean, squares, centred = _moments(writer, value, axes)
    scale = writer.let(f"rsqrt({squares.text} / {_number(n, to)} + {eps!r})", "rstd", to, mean.dims)
    text = f"{centred.text} * {scale.text}"
    if weight is not None:
        text += f" * {operand(writer, weight, to)}"
    if bias is not None:
        text += f" + {operand(writer, bias, to)}"
    return (cast(text, to, _result(node, 0)), cast(mean.text, to, _result(node, 1)),
            cast(scale.text, to, _result(node, 2)))


def _number(n, to):
    """A count as a divisor."""
    return f"{float(n)!r}" if n.isdigit() else f"{to}({n})"


@emits("aten.native_group_norm.default")
def _group_norm(writer, node, x, weight, bias, batch, channels, places, groups, eps):
    value = writer.tensor(x)
    to, (b, c) = wide_type(value.dtype), value.dims[:2]
    if not c.isdigit():
        raise Uncovered("a number of channels that is not known")
    n = product([str(int(c) // groups), *value.dims[2:]])
    rows = writer.let(f"reshape({wide(value)}, [{b}, {groups}, {n}])", "groups", to,
                      [b, str(groups), n])
    mean, squares, centred = _moments(writer, rows, [2])
    scale = writer.let(f"rsqrt({squares.text} / {_number(n, to)} + {eps!r})", "rstd", to, mean.dims)
    text = f"reshape({centred.text} * {scale.text}, [{', '.join(value.dims)}])"
    if weight is not None:
        text += f" * {_column(operand(writer, weight, to), value.rank)}"
    if bias is not None:
        text += f" + {_column(operand(writer, bias, to), value.rank)}"
    return (cast(text, to, _result(node, 0)), cast(f"{mean.text}[:, :, 0]", to, _result(node, 1)),
            cast(f"{scale.text}[:, :, 0]", to, _result(node, 2)))


def _scaled(writer, value, mean, scale, weight, bias):
    """(x - mean) * scale * weight + bias, each of the channels' extent."""
    to = wide_type(value.dtype)
    text = f"({wide(value)} - {_column(mean, value.rank)}) * {_column(scale, value.rank)}"
    if weight is not None:
        text += f" * {_column(operand(writer, weight, to), value.rank)}"
    if bias is not None:
        text += f" + {_column(operand(writer, bias, to), value.rank)}"
    return text


@emits("aten._native_batch_norm_legit_no_training.default")
def _batch_norm_of_running(writer, node, x, weight, bias, mean, var, momentum, eps):
    value = writer.tensor(x)
    to = wide_type(value.dtype)
    scale = writer.let(f"rsqrt({operand(writer, var, to)} + {eps!r})", "rstd", to, value.dims[1:2])
    text = _scaled(writer, value, operand(writer, mean, to), scale.text, weight, bias)
    return (cast(text, to, _result(node, 0)), *_empty(node))


def _empty(node):
    """Means that evaluation does not keep: arrays without elements."""
    return tuple(f"zeros({_result(node, k)}[0])" if tuple(node.meta["val"][k].shape) == (0,)
                 else None for k in (1, 2))


@emits("aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.no_stats")
def _batch_norm(writer, node, x, weight, bias, *rest):
    *running, training, momentum, eps = rest
    value = writer.tensor(x)
    to, c = wide_type(value.dtype), value.dims[1]
    if not training:
        mean, var = running
        made = _batch_norm_of_running(writer, node, x, weight, bias, mean, var, momentum, eps)
        return (*made, writer.tensor(mean), writer.tensor(var))
    axes = [k for k in range(value.rank) if k != 1]
    n = count(value, axes)
    mean, squares, _ = _moments(writer, value, axes)
    mean = writer.let(without(mean.text, value.rank, axes), "average", to, [c])
    squares = writer.let(without(squares.text, value.rank, axes), "spread", to, [c])
    scale = writer.let(f"rsqrt({squares.text} / {_number(n, to)} + {eps!r})", "rstd", to, [c])
    text = _scaled(writer, value, mean.text, scale.text, weight, bias)
    found = [cast(text, to, _result(node, 0)), cast(mean.text, to, _result(node, 1)),
             cast(scale.text, to, _result(node, 2))]
    if running:
        rest = _number(str(int(n) - 1), to) if n.isdigit() else f"{to}({n} - 1)"
        for old, new in zip(running, (mean.text, f"{squares.text} / {rest}")):
            old = operand(writer, old, to)
            text = f"{old} * {1 - momentum!r} + {momentum!r} * ({new})"
            found.append(cast(text, to, _result(node, len(found))))
    return tuple(found)
