# SPDX-License-Identifier: Apache-2.0
"""Calls whose places come from data: rows of tables, gathers, scatters, sorts. Negative indices
count from the end where torch lets them; others are inside of their axes, as in torch."""

from ._pointwise import operand
from ._views import stretched
from ._writer import Uncovered, axis_of, cast, dims_of, element_type, emits, product


def from_start(index, extent):
    """An index that may be negative."""
    return f"where({index} < 0, {index} + {extent}, {index})"


def _index(value, dtype="i64"):
    return value.text if value.dtype == dtype else f"{dtype}({value.text})"


@emits("aten.embedding.default")
def _embedding(writer, node, table, index, *_):
    table, index = writer.tensor(table), writer.tensor(index)
    if not index.rank:
        return f"{table.text}[{index.text}, :]"
    names = [f"i{k}" for k in range(index.rank)]

    def element(*all_names):
        return f"{table.text}[{index.text}[{', '.join(names)}], {all_names[-1]}]"
    return writer.by_index("rows", dims_of(writer, node), element, table.dtype, [*names, "d"])


@emits("aten.index.Tensor")
def _index_tensor(writer, node, x, indices):
    value = writer.tensor(x)
    given = [(axis, writer.tensor(i)) for axis, i in enumerate(indices) if i is not None]
    if any(i.dtype in ("bool", "u8") for _, i in given):
        raise Uncovered("a mask as an index: its shape is data")
    axes = [axis for axis, _ in given]
    dims = dims_of(writer, node)
    n_index = max(i.rank for _, i in given)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if together else 0
    names = [f"i{k}" for k in range(len(dims))]
    of_index = names[first: first + n_index]
    rest = iter([n for n in names if n not in of_index])
    at = []
    for axis in range(value.rank):
        if axis not in axes:
            at.append(next(rest))
            continue
        index = dict(given)[axis]
        own = ["0" if d == "1" else n
               for d, n in zip(index.dims, of_index[n_index - index.rank:])]
        one = f"{index.text}[{', '.join(own)}]" if own else index.text
        one = one if index.dtype == "i64" else f"i64({one})"
        at.append(from_start(one, value.dims[axis]))

    def element(*_):
        return f"{value.text}[{', '.join(at)}]"
    return writer.by_index("taken", dims, element, value.dtype, names)


@emits("aten.index_select.default")
def _index_select(writer, node, x, axis, index):
    value, index = writer.tensor(x), writer.tensor(index)
    if not value.rank or not index.rank:
        raise Uncovered("a number, or one index")
    axis = axis_of(axis, value.rank)

    def element(*names):
        at = [f"{index.text}[{n}]" if k == axis else n for k, n in enumerate(names)]
        return f"{value.text}[{', '.join(at)}]"
    return writer.by_index("taken", dims_of(writer, node), element, value.dtype)


@emits("aten.gather.default")
def _gather(writer, node, x, axis, index, **_):
    value, index = writer.tensor(x), writer.tensor(index)
    if not value.rank or index.rank != value.rank:
        raise Uncovered("a gather from a number, or of nothing")
    axis = axis_of(axis, value.rank)

    def element(*names):
        where = ", ".join(names)
        at = [f"{index.text}[{where}]" if k == axis else n for k, n in enumerate(names)]
        return f"{value.text}[{', '.join(at)}]"
    return writer.by_index("taken", index.dims, element, value.dtype)


@emits("aten.scatter.src", "aten.scatter.value")
def _scatter(writer, node, x, axis, index, source):
    """Where the index has one element along the axis: no two of them name the same place."""
    value, index = writer.tensor(x), writer.tensor(index)
    if not value.rank or not index.rank:
        raise Uncovered("a scatter to a number")
    axis = axis_of(axis, value.rank)
    others = [d for k, d in enumerate(index.dims) if k != axis]
    if index.dims[axis] != "1" or others != [d for k, d in enumerate(value.dims) if k != axis]:
        raise Uncovered("several elements along the axis")
    source_value = writer.tensor(source, required=False)
    if source_value is not None and source_value.rank and source_value.dims != index.dims:
        raise Uncovered("a source larger than the index")

    def element(*names):
        own = ", ".join("0" if k == axis else n for k, n in enumerate(names))
        if source_value is None:
            new = f"{value.dtype}({operand(writer, source, value.dtype)})" \
                if value.dtype != "bool" else operand(writer, source, "bool")
        else:
            new = f"{source_value.text}[{own}]" if source_value.rank else source_value.text
            new = cast(new, source_value.dtype, value.dtype)
        return f"where({index.text}[{own}] == {names[axis]}, {new}, " \
            f"{value.text}[{', '.join(names)}])"
    return writer.by_index("scattered", value.dims, element, value.dtype)


ADD_ROWS = """# Adds rows at their places; of places that occur twice the order is free.
fn add_rows(g: float[N, D], at: i64[N], rows: const i64, skip: i64) -> y: f32[rows, D] {
    y[v, d] = 0
    parallel n in N, d in D {
        if at[n] != skip { atomic.add(y[at[n], d], f32(g[n, d])) }
    }
}

"""


@emits("aten.embedding_dense_backward.default")
def _embedding_backward(writer, node, gradient, index, rows, padding=-1, by_count=False):
    g, index = writer.tensor(gradient), writer.tensor(index)
    if by_count or not isinstance(rows, int) or g.dtype == "f64":
        raise Uncovered("scale_grad_by_freq, or rows that are not known, or f64")
    writer.function("add_rows", ADD_ROWS)
    n = "*".join(index.dims) or "1"
    d = g.dims[-1]
    text = f"add_rows(reshape({g.text}, [{n}, {d}]), reshape({_index(index)}, [{n}]), {rows}, " \
        f"{padding})"
    return cast(text, "f32", element_type(node))


PUT_ROWS = """# Rows {what} at their places; {order}
fn {name}(x: {of}[V, R], at: i64[N], new: {of}[N, R]) -> y: {to}[V, R] {{
    y[v, r] = {read}
    parallel n in N, r in R {{ {change} }}
}}

"""


@emits("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(writer, node, x, indices, values, add=False):
    """Rows of the first axis."""
    value, new = writer.tensor(x), writer.tensor(values)
    if len([i for i in indices if i is not None]) != 1 or indices[0] is None:
        raise Uncovered("other than rows of the first axis")
    index = writer.tensor(indices[0])
    if index.dtype in ("bool", "u8") or not index.rank:
        raise Uncovered("a mask as an index: its shape is data")
    if add and value.dtype in ("bool", "f64", "i8", "i16", "u8"):
        raise Uncovered(f"sums of {value.dtype} in any order")
    new = writer.let(cast(new.text, new.dtype, value.dtype), "new", value.dtype, new.dims)
    made = stretched(writer, new, [*index.dims, *value.dims[1:]])
    if isinstance(made, str):
        made = writer.let(made, "new", value.dtype, [*index.dims, *value.dims[1:]])
    n, r = product(index.dims), product(value.dims[1:]) or "1"
    to = "f32" if add and value.dtype in ("f16", "bf16") else value.dtype
    place = from_start("at[n]", "V")
    read = "x[v, r]" if to == value.dtype else "f32(x[v, r])"
    taken = "new[n, r]" if to == value.dtype else "f32(new[n, r])"
    name = f"{'added' if add else 'put'}_rows_{value.dtype}"
    writer.function(name, PUT_ROWS.format(
        what="are added" if add else "are put", name=name, of=value.dtype, to=to, read=read,
        order="the order is free." if add else "of equal places any is there.",
        change=f"atomic.add(y[{place}, r], {taken})" if add else f"y[{place}, r] = {taken}"))
    text = f"{name}(reshape({value.text}, [{value.dims[0]}, {r}])," \
        f" reshape({_index(index)}, [{n}])," \
        f" reshape({made.text}, [{n}, {r}]))"
    rows = writer.let(text, "rows", to, [value.dims[0], r])
    return cast(f"reshape({rows.text}, [{', '.join(value.dims)}])", to, value.dtype)


def _along_last(writer, value, axis):
    """(the array with this axis last, how to bring it back)."""
    order = list(range(value.rank))
    order[axis], order[-1] = order[-1], order[axis]
    if axis == value.rank - 1:
        return value, "{}"
    turned = writer.let(f"permute({value.text}, {order})", "turned", value.dtype,
                        [value.dims[k] for k in order])
    return turned, f"permute({{}}, {order})"


@emits("aten.sort.default", "aten.sort.stable")
def _sort(writer, node, x, *args, stable=None, dim=-1, descending=False):
    if args:  # of the overload without `stable`
        dim, descending = args[0], len(args) > 1 and args[1]
    value = writer.tensor(x)
    if not value.rank or value.dtype == "bool":
        raise Uncovered("a number, or bool")
    value, back = _along_last(writer, value, axis_of(dim, value.rank))
    last = f"axis={value.rank - 1}"
    if not descending:
        return back.format(f"sort({value.text})"), back.format(f"argsort({value.text})")
    # Backwards twice: equal ones stay in their order.
    turned = writer.let(f"flip({value.text}, {last})", "backwards", value.dtype, value.dims)
    places = f"{value.dims[-1]} - 1 - flip(argsort({turned.text}), {last})"
    return back.format(f"flip(sort({turned.text}), {last})"), back.format(f"({places})")


@emits("aten.topk.default")
def _topk(writer, node, x, k, axis=-1, largest=True, in_order=True):
    value = writer.tensor(x)
    if not value.rank or not largest or not isinstance(k, int) or k < 1 or value.dtype == "bool":
        raise Uncovered("a number, or the least ones")
    value, back = _along_last(writer, value, axis_of(axis, value.rank))
    rows = product(value.dims[:-1]) or "1"
    text = value.text if value.rank == 2 else f"reshape({value.text}, [{rows}, {value.dims[-1]}])"
    values, places = writer.let_several(f"topk({text}, k={k})", ["greatest", "greatest_at"])
    if value.rank != 2:
        dims = ", ".join([*value.dims[:-1], str(k)])
        values, places = f"reshape({values}, [{dims}])", f"reshape({places}, [{dims}])"
    return back.format(values), back.format(places)
