# SPDX-License-Identifier: Apache-2.0
"""Calls that move elements and compute nothing: shapes, orders of axes, parts, pieces together."""

import torch

from ._writer import (Uncovered, axis_of, cast, dims_of, element_type, emits, literal,
                      moved, product)

# What makes no array in torch: where such a call would be a region's result, torch does it.
FREE = {f"aten.{name}" for name in (
    "alias.default", "detach.default", "view.default", "_unsafe_view.default", "permute.default",
    "transpose.int", "t.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "expand.default", "slice.Tensor", "select.int", "split_with_sizes.default",
    "split.Tensor", "unbind.int", "diagonal.default")}


@emits("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default",
       "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default")
def _reshape(writer, node, x, *_):
    return reshaped(writer, writer.tensor(x), dims_of(writer, node))


def reshaped(writer, value, dims):
    if value.dims == dims:
        return value
    if not dims:
        return f"{value.text}[{', '.join('0' * value.rank)}]"
    if not value.rank:
        return f"fill({value.text}, {value.dtype}[{', '.join(dims)}])"
    return moved(value, f"reshape({{}}, [{', '.join(dims)}])")


@emits("aten.permute.default")
def _permute(writer, node, x, order):
    value = writer.tensor(x)
    order = [axis_of(a, value.rank) for a in order]
    if order == list(range(value.rank)):
        return value
    if value.rank > 1 and order == [*range(value.rank - 2), value.rank - 1, value.rank - 2]:
        return moved(value, "{}.T")
    return moved(value, f"permute({{}}, {order})")


@emits("aten.transpose.int")
def _transpose(writer, node, x, one, other):
    rank = writer.tensor(x).rank
    order = list(range(rank))
    if rank:
        one, other = axis_of(one, rank), axis_of(other, rank)
        order[one], order[other] = other, one
    return _permute(writer, node, x, order)


@emits("aten.t.default")
def _t(writer, node, x):
    value = writer.tensor(x)
    return moved(value, "{}.T") if value.rank == 2 else value


@emits("aten.expand.default")
def _expand(writer, node, x, *_, **named):
    return stretched(writer, writer.tensor(x), dims_of(writer, node))


def stretched(writer, value, dims):
    if value.dims == dims:
        return value
    if not value.rank:
        return f"fill({value.text}, {value.dtype}[{', '.join(dims)}])"
    first = len(dims) - value.rank

    def element(*names):
        at = ["0" if value.dims[k] == "1" else names[first + k] for k in range(value.rank)]
        return f"{value.text}[{', '.join(at)}]"
    return writer.by_index("expand", dims, element, value.dtype)


@emits("aten.copy.default")
def _copy(writer, node, x, source, *_):
    value = writer.tensor(source)
    to = element_type(node)
    if value.dtype != to:
        value = writer.let(cast(value.text, value.dtype, to), "copied", to, value.dims)
    return stretched(writer, value, dims_of(writer, node))


def part(value, axis, start, end, step=1):
    """A range of an axis."""
    at = [":"] * value.rank
    at[axis] = f"{start}:{end}" + (f":{step}" if step != 1 else "")
    return moved(value, f"{{}}[{', '.join(at)}]")


def ends(writer, value, axis, start, end):
    """Of a slice, as texts; torch's are cut off at the axis's ends."""
    extent = value.dims[axis]
    found = []
    for place, default in ((start, "0"), (end, extent)):
        if place is None:
            found.append(default)
        elif isinstance(place, int) and extent.isdigit():
            n = int(extent)
            found.append(str(max(0, min(n, place + n if place < 0 else place))))
        elif isinstance(place, int):
            if place >= 1 << 62:
                found.append(extent)
            else:
                found.append(f"({extent} - {-place})" if place < 0 else str(place))
        else:
            found.append(writer.sizes.text(place))
    if all(f.isdigit() for f in found) and int(found[1]) < int(found[0]):
        found[1] = found[0]
    return found


@emits("aten.slice.Tensor")
def _slice(writer, node, x, axis=0, start=None, end=None, step=1):
    value = writer.tensor(x)
    axis = axis_of(axis, value.rank)
    first, last = ends(writer, value, axis, start, end)
    if (first, last, step) == ("0", value.dims[axis], 1):
        return value
    return part(value, axis, first, last, step)


@emits("aten.select.int")
def _select(writer, node, x, axis, index):
    value = writer.tensor(x)
    axis = axis_of(axis, value.rank)
    at = [":"] * value.rank
    at[axis] = place_of(writer, value, axis, index)
    return moved(value, f"{{}}[{', '.join(at)}]")


def place_of(writer, value, axis, index):
    if isinstance(index, int):
        return str(index) if index >= 0 else f"{value.dims[axis]} - {-index}"
    return writer.sizes.text(index)


@emits("aten.split_with_sizes.default")
def _split_with_sizes(writer, node, x, sizes, axis=0):
    return _parts(writer, x, axis, [writer.sizes.text(n) for n in sizes])


@emits("aten.split.Tensor", "aten.unbind.int")
def _split(writer, node, x, size=0, axis=0):
    made = node.meta["val"]
    if "unbind" in str(node.target):
        return tuple(_select(writer, node, x, size, k) for k in range(len(made)))
    at = axis_of(axis, made[0].dim())
    return _parts(writer, x, axis, [writer.sizes.text(one.shape[at]) for one in made])


def _parts(writer, x, axis, sizes):
    value = writer.tensor(x)
    axis = axis_of(axis, value.rank)
    found, start = [], "0"
    for size in sizes:
        both = start.isdigit() and size.isdigit()
        end = str(int(start) + int(size)) if both else f"({start} + {size})"
        found.append(part(value, axis, start, end))
        start = end
    return tuple(found)


@emits("aten.cat.default")
def _cat(writer, node, parts, axis=0):
    rank, to = node.meta["val"].dim(), element_type(node)
    axis, texts = axis_of(axis, rank), []
    for each in parts:
        value = writer.tensor(each)
        if value.rank != rank:  # torch leaves out what is [0]
            continue
        if value.dims[axis] != "0":
            texts.append(cast(value.text, value.dtype, to))
    if not texts:
        raise Uncovered("nothing to put together")
    return texts[0] if len(texts) == 1 else f"concat([{', '.join(texts)}], axis={axis})"


@emits("aten.stack.default")
def _stack(writer, node, parts, axis=0):
    axis = axis_of(axis, node.meta["val"].dim())
    to, texts = element_type(node), []
    for each in parts:
        value = writer.tensor(each)
        texts.append(cast(value.text, value.dtype, to))
    return f"stack([{', '.join(texts)}], axis={axis})"


@emits("aten.flip.default")
def _flip(writer, node, x, axes):
    value = writer.tensor(x)
    text = value.text
    for axis in axes:
        text = f"flip({text}, axis={axis_of(axis, value.rank)})"
    return text if axes else value


def _in_order(writer, x, *numbers):
    """An array whose elements lie in order, by their numbers; `numbers` are to be known."""
    value, tensor = writer.tensor(x), x.meta["val"]
    known = [*tensor.shape, *tensor.stride(), *numbers]
    if not all(isinstance(n, int) for n in known) or not tensor.is_contiguous() or \
            tensor.storage_offset() or not value.rank:
        raise Uncovered("strides of what does not lie in order")
    count = product(value.dims)
    return writer.let(f"reshape({value.text}, [{count}])", "flat", value.dtype, [count])


@emits("aten.as_strided.default")
def _as_strided(writer, node, x, size, strides, offset=None):
    offset = offset or 0
    flat = _in_order(writer, x, *size, *strides, offset)
    if not size:
        raise Uncovered("a number")

    def element(*names):
        steps = [f"{n} * {s}" if s != 1 else n for n, s in zip(names, strides) if s]
        return f"{flat.text}[{' + '.join([*steps, *([str(offset)] if offset else [])]) or '0'}]"
    return writer.by_index("strided", [str(n) for n in size], element, flat.dtype)


@emits("aten.as_strided_scatter.default")
def _as_strided_scatter(writer, node, x, source, size, strides, offset=None):
    """Each element asks whether it is at one of the places, of which no two are the same."""
    offset, new = offset or 0, writer.tensor(source)
    flat = _in_order(writer, x, *size, *strides, offset)
    if not size or 0 in size:
        raise Uncovered("a number, or no place")
    rest, reach = f"(f - {offset})" if offset else "f", 0
    order = [k for k in sorted(range(len(size)), key=lambda k: -strides[k]) if size[k] != 1]
    for k in reversed(order):
        if strides[k] <= reach:
            raise Uncovered("places that share memory")
        reach += (size[k] - 1) * strides[k]
    at, inside = ["0"] * len(size), [f"f >= {offset}"]
    for k in order:
        at[k] = f"{rest} // {strides[k]}"
        rest = f"({rest} % {strides[k]})"
        inside.append(f"{at[k]} < {size[k]}")
    inside.append(f"{rest} == 0")
    usual = "false" if flat.dtype == "bool" else "0"

    def element(*_):
        return f"where({' and '.join(inside)}, " \
            f"({new.text}[{', '.join(at)}] else {usual}), {flat.text}[f])"
    made = writer.by_index("scattered", flat.dims, element, flat.dtype, ["f"])
    return f"reshape({made.text}, [{', '.join(dims_of(writer, node))}])"


@emits("aten.roll.default")
def _roll(writer, node, x, shifts, axes=()):
    value = writer.tensor(x)
    if not axes:
        raise Uncovered("no axes")
    text = value.text
    for shift, axis in zip(shifts, axes):
        axis = axis_of(axis, value.rank)
        if not value.dims[axis].isdigit() or not isinstance(shift, int) or value.dims[axis] == "0":
            raise Uncovered("a size that is not known")
        text = f"roll({text}, {shift % int(value.dims[axis])}, axis={axis})"
    return text


@emits("aten.constant_pad_nd.default")
def _pad(writer, node, x, pads, number=0):
    value = writer.tensor(x)
    if not all(isinstance(n, int) for n in pads):
        raise Uncovered("a padding that is not known")
    pairs = [[0, 0] for _ in range(value.rank)]
    for k in range(len(pads) // 2):
        pairs[value.rank - 1 - k] = [pads[2 * k], pads[2 * k + 1]]
    text = value.text
    if any(n < 0 for pair in pairs for n in pair):
        at = [f"{max(0, -low)}:{dim} - {max(0, -high)}" if low < 0 or high < 0 else ":"
              for (low, high), dim in zip(pairs, value.dims)]
        text = f"{text}[{', '.join(at)}]"
        pairs = [[max(0, n) for n in pair] for pair in pairs]
    return f"pad({text}, {pairs}, value={literal(number, value.dtype)})"


@emits("aten.repeat.default")
def _repeat(writer, node, x, times):
    value = writer.tensor(x)
    if not all(isinstance(n, int) for n in times):
        raise Uncovered("a number of times that is not known")
    first = len(times) - value.rank
    made = reshaped(writer, value, ["1"] * first + value.dims)
    text = made if isinstance(made, str) else made.text
    for axis, n in enumerate(times):
        if n != 1:
            text = f"tile({text}, {n}, axis={axis})"
    return text


@emits("aten.slice_scatter.default")
def _slice_scatter(writer, node, x, source, axis=0, start=None, end=None, step=1):
    value, new = writer.tensor(x), writer.tensor(source)
    axis = axis_of(axis, value.rank)
    first, last = ends(writer, value, axis, start, end)
    if step != 1:
        return _steps_scattered(writer, value, new, axis, first, last, step)
    pieces = [part(value, axis, "0", first)] if first != "0" else []
    pieces.append(cast(new.text, new.dtype, value.dtype))
    if last != value.dims[axis]:
        pieces.append(part(value, axis, last, value.dims[axis]))
    return pieces[0] if len(pieces) == 1 else f"concat([{', '.join(pieces)}], axis={axis})"


def _steps_scattered(writer, value, new, axis, first, last, step):
    """Every so many elements of a range replaced."""
    names = [f"i{k}" for k in range(value.rank)]

    def element(*_):
        here = names[axis]
        inside = f"{here} >= {first} and {here} < {last} and ({here} - {first}) % {step} == 0"
        at = ", ".join(f"({n} - {first}) // {step}" if k == axis else n
                       for k, n in enumerate(names))
        taken = f"({new.text}[{at}] else {literal(0, new.dtype)})"
        taken = cast(taken, new.dtype, value.dtype)
        return f"where({inside}, {taken}, {value.text}[{', '.join(names)}])"
    return writer.by_index("slice_scatter", value.dims, element, value.dtype, names)


@emits("aten.select_scatter.default")
def _select_scatter(writer, node, x, source, axis, index):
    value, new = writer.tensor(x), writer.tensor(source)
    axis = axis_of(axis, value.rank)
    place = place_of(writer, value, axis, index)
    names = [f"i{k}" for k in range(value.rank)]

    def element(*names):
        inner = ", ".join(n for k, n in enumerate(names) if k != axis)
        taken = f"{new.text}[{inner}]" if inner else new.text
        return f"where({names[axis]} == {place}, {cast(taken, new.dtype, value.dtype)}, " \
               f"{value.text}[{', '.join(names)}])"
    return writer.by_index("select_scatter", value.dims, element, value.dtype, names)


@emits("aten.diagonal.default")
def _diagonal(writer, node, x, offset=0, one=0, other=1):
    value = writer.tensor(x)
    one, other = axis_of(one, value.rank), axis_of(other, value.rank)

    def element(*names):
        rest = iter(names[:-1])
        at = [None] * value.rank
        for k in range(value.rank):
            shift = offset if k == other and offset > 0 else \
                -offset if k == one and offset < 0 else 0
            at[k] = (f"{names[-1]} + {shift}" if shift else names[-1]) if k in (one, other) \
                else next(rest)
        return f"{value.text}[{', '.join(at)}]"
    return writer.by_index("diagonal", dims_of(writer, node), element, value.dtype)


@emits("aten.tril.default", "aten.triu.default")
def _triangle(writer, node, x, diagonal=0):
    value = writer.tensor(x)
    names = [f"i{k}" for k in range(value.rank)]
    sign = "<=" if "tril" in str(node.target) else ">="
    zero = "false" if value.dtype == "bool" else f"{value.dtype}(0)"

    def element(*names):
        return f"where({names[-1]} {sign} {names[-2]} + {diagonal}, " \
               f"{value.text}[{', '.join(names)}], {zero})"
    return writer.by_index("triangle", value.dims, element, value.dtype, names)


def is_view(node):
    """Does torch make no array of it?"""
    return str(node.target) in FREE and isinstance(node.args[0], torch.fx.Node)
