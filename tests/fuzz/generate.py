#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs, valid by construction and biased to tails, as text for tessera-fuzz.

    generate.py [--first SEED] [--count N] [--cuda] [--passes] [--schedules N] [--targets T,...]

Each is a function of its seed alone."""

import argparse
import sys

import compose
import lanes
from arrays import SUMMED, expr
from program import FLOATS, HALVES, INTS, MOST, MOST_PRODUCT, PACKED, Program, Value

SKIPPED = ["simplify", "compose_views", "gather_to_load", "collapse_axes",
           "collapse_intermediates", "raise_to_dot", "lower_argmax", "drop_unit_axes",
           "hoist", "fold_accumulator", "narrow_indices", "peel", "fold_exp2_scale",
           "pipeline_dots", "eliminate_barriers", "vectorize"]
COMPOSED = 0.5  # of the programs
TARGETS = ["sm_90a", "sm_90a", "gfx942"]
STORED = ["f32", "i32", "i64", "bool", "f64"]  # by the statements of a parallel
CONTROLLED = ["f32", "i32", "f64", "i16"]      # what changes in loops over arrays


def compute(p):
    return p.rnd.choice(["f32", "f32", "f32", "f64", "bool", "i32", "i64", *INTS])


def depth(p):
    return p.rnd.choice([1, 2, 2, 3])


def written(p, dtype, dims):
    """A result of that type, or of one to which it is rounded."""
    if dtype in FLOATS and p.rnd.random() < 0.3:
        return p.result(p.rnd.choice(HALVES + FLOATS if dtype == "f64" else HALVES), dims)
    if dtype in INTS and p.rnd.random() < 0.15:
        return p.result(p.rnd.choice(PACKED), dims)
    return p.result(dtype, dims)


def converted(result, dtype, text):
    return text if result.dtype == dtype or result.dtype in HALVES and dtype == "f32" \
        else f"{result.dtype}({text})"


# ---- statements: each adds to the body ----

def let_array(p):
    dtype, dims = compute(p), p.dims(ones=0.1)
    pure = p.rnd.random() < 0.5 or dtype not in FLOATS
    p.local(dtype, dims, expr(p, dtype, dims, depth(p), pure=pure), not pure)


def let_indexed(p):
    dims = p.dims(rank=p.rnd.choice([1, 2, 2]))
    axes = [(p.fresh("j"), d) for d in dims]
    dtype = compute(p)
    pure = p.rnd.random() < 0.5 or dtype not in FLOATS
    text = lanes.scalar(p, dtype, lanes.Lanes(axes), depth(p), pure)
    name = p.fresh("t")
    p.body.append(f"let {name}[{', '.join(f'{v} in {d}' for v, d in axes)}] = {text}")
    p.locals.append(Value(
        name, dtype, dims, not pure))


def give_array(p):
    dtype, dims = compute(p), p.dims(ones=0.1)
    text = expr(p, dtype, dims, depth(p) + 1)
    result = written(p, dtype, dims)
    p.body.append(f"{result.name} = {converted(result, dtype, text)}")


def give_indexed(p):
    dims = p.dims(rank=p.rnd.choice([1, 2, 2, 3]))
    axes = [(p.fresh("j"), d) for d in dims]
    dtype = compute(p)
    text = lanes.scalar(p, dtype, lanes.Lanes(axes), depth(p) + 1, False)
    result = written(p, dtype, dims)
    p.body.append(f"{result.name}[{', '.join(v for v, _ in axes)}] = "
                  f"{converted(result, dtype, text)}")


def give_window(p):
    """A window over one or two axes, with a default outside."""
    dims = p.dims(rank=p.rnd.choice([1, 2]))
    axes = [(p.fresh("j"), d) for d in dims]
    dtype = p.rnd.choice(["f32", "f32", "i32", "i64"])
    x = p.param(p.rnd.choice(HALVES + ["f32"]) if dtype == "f32" else dtype, dims)
    windows, at, weights = [], [], []
    for variable, dim in axes:
        r = p.fresh("r")
        width = p.rnd.choice(["0..3", "0..2", "0..5"])
        windows.append(f"{r} in {width}")
        weights.append(width[3:])
        step = p.rnd.choice([1, 1, 2])
        at.append(f"{variable}{f' * {step}' if step > 1 else ''} + {r} - {p.rnd.choice([0, 1, 2])}")
    name = p.rnd.choice(["sum", "sum", "max", "min"])
    condition = ""
    if p.rnd.random() < 0.3:  # taps of one residue class, as a transposed convolution has
        variable, tap = p.rnd.choice(axes)[0], p.rnd.choice(windows).split()[0]
        condition = (f" if ({variable} + {p.rnd.choice([1, 2, 3])} * {tap} + "
                     f"{p.rnd.choice([0, 1, 7])}) % {p.rnd.choice([2, 3, 4, 6])} == "
                     f"{p.rnd.choice([0, 0, 1])}")
    outside = {"sum": "0", "max": "-inf" if dtype == "f32" else "-99",
               "min": "inf" if dtype == "f32" else "99"}[name]
    body = f"({x.name}[{', '.join(at)}] else {outside})"
    if name == "sum" and p.rnd.random() < 0.6:
        w = p.param(x.dtype, weights)
        body += f" * {w.name}[{', '.join(t.split()[0] for t in windows)}]"
    result = written(p, dtype, dims)
    text = converted(result, dtype, f"({name}({', '.join(windows)}{condition}) {body})")
    p.body.append(f"{result.name}[{', '.join(v for v, _ in axes)}] = {text}")


def give_parallel(p):
    dims = p.dims(rank=p.rnd.choice([1, 1, 2]), most=1500)
    axes = [(p.fresh("j"), d) for d in dims]
    results = [p.result(p.rnd.choice(STORED), dims)
               for _ in range(p.rnd.choice([1, 1, 2]))]
    lines = lanes.body(p, axes, results, 2)
    head = ", ".join(f"{v} in {d}" for v, d in axes)
    p.body += [f"parallel {head} {{", *["    " + s for s in lines], "}"]


def give_rows(p):
    """Rows of a parallel as arrays of their own."""
    m, n = p.dims(rank=2)
    x = p.param(p.rnd.choice(["f32", "f32", "f16", "i32"]), (m, n))
    i = p.fresh("j")
    row = p.fresh("r")
    integer = x.dtype == "i32"
    result = p.result("i32" if integer else "f32", (m, n))
    ways = [f"cumsum({row})", f"{row} - max({row})", f"{row} * 2 + {row}"]
    if not integer:
        ways += [f"{row} - mean({row})", f"exp({row} - max({row}))"]
    p.body += [f"parallel {i} in {m} {{", f"    let {row} = {result.dtype}({x.name}[{i}, :])",
               f"    {result.name}[{i}, :] = {p.rnd.choice(ways)}", "}"]


def give_joined(p):
    dtype = compute(p)
    if p.rnd.random() < 0.3:
        dims = p.dims(rank=2)
        text = expr(p, dtype, dims, 1)
        result = p.result(dtype, (f"{dims[0]} * {dims[1]}",))
        p.body.append(f"{result.name} = reshape({text}, [{dims[0]} * {dims[1]}])")
        return
    dims = p.dims(rank=p.rnd.choice([1, 2]), most=2000)
    axis = p.rnd.randrange(len(dims))
    if p.rnd.random() < 0.4:
        before, after = p.rnd.choice([(1, 1), (0, 2), (3, 0)])
        pads = ", ".join(f"[{before}, {after}]" if i == axis else "[0, 0]"
                         for i in range(len(dims)))
        out = dims[:axis] + (f"{dims[axis]} + {before + after}",) + dims[axis + 1:]
        result = p.result(dtype, out)
        value = ", value=1" if dtype != "bool" and p.rnd.random() < 0.5 else ""
        p.body.append(f"{result.name} = pad({expr(p, dtype, dims, 2)}, [{pads}]{value})")
        return
    other = dims[:axis] + (p.rnd.choice(list(p.sizes)),) + dims[axis + 1:]
    out = dims[:axis] + (f"{dims[axis]} + {other[axis]}",) + dims[axis + 1:]
    result = p.result(dtype, out)
    parts = f"{expr(p, dtype, dims, 2)}, {expr(p, dtype, other, 2)}"
    p.body.append(f"{result.name} = concat([{parts}], axis={axis})")


def give_contraction(p):
    """Of two factors over an axis that both have, stored this way or that; what is not a sum of
    products looks like one."""
    i, j, k = p.fresh("j"), p.fresh("j"), p.fresh("k")
    axes = {v: p.rnd.choice(list(p.sizes)) for v in (i, j, k)}
    batch = p.rnd.random() < 0.3
    if batch:
        b = p.fresh("j")
        axes[b] = min(p.sizes, key=p.sizes.get)
    least = min(p.sizes, key=p.sizes.get)
    for v in (i, k, j):
        if p.elements(axes.values()) > 8 * MOST_PRODUCT:
            axes[v] = least
    if p.elements(axes.values()) > 8 * MOST_PRODUCT:
        return  # sums of what is no product are made as a whole by the interpreter
    dtype = p.rnd.choice(["f32", "f32", "f32", "i32"] if FLOATS else ["i32"])

    def factor(*walked):
        walked = [*walked, *([b] if batch and p.rnd.random() < 0.7 else [])]
        p.rnd.shuffle(walked)
        kind = p.rnd.choice([dtype, dtype, *(HALVES if dtype == "f32" else [])])
        x = p.param(kind, [axes[v] for v in walked], "normal" if dtype == "f32" else "")
        text = f"{x.name}[{', '.join(walked)}]"
        return text if kind == dtype else f"{dtype}({text})"
    name = p.rnd.choice(["sum", "sum", "sum", "max", "min"])
    left = ([b] if batch else []) + [i, j]
    if batch and p.rnd.random() < 0.5:
        p.rnd.shuffle(left)
    condition = f" if {k} <= {i}" if p.rnd.random() < 0.2 else ""
    y = p.result(dtype, [axes[v] for v in left])
    p.body.append(f"{y.name}[{', '.join(left)}] = {name}({k} in {axes[k]}{condition}) "
                  f"{factor(i, k)} * {factor(k, j)}")


def give_stencil(p):
    """Neighbours of what is computed, with something else past its ends."""
    dims = p.dims(rank=p.rnd.choice([1, 2, 2]))
    dtype = p.rnd.choice(["f32", "i32", "i64"] if FLOATS else ["i32", "i64"])
    text = expr(p, dtype, dims, 1, pure=True)
    if len(dims) == 2 and p.rnd.random() < 0.5:
        rows, columns = p.param(dtype, dims[:1]), p.param(dtype, dims[1:])
        text = f"{rows.name}[:, None] {p.rnd.choice('+-*')} {columns.name}[None, :]"
    t = p.fresh("t")
    p.body.append(f"let {t} = {text}")
    axes = [(p.fresh("j"), d) for d in dims]

    def read():
        axis = p.rnd.randrange(len(axes))
        at = [v for v, _ in axes]
        if p.rnd.random() < 0.25 and len(p.params) < 8:
            most = max(p.extent(dims[axis]) - 1, 0)
            index = p.param("i32", (dims[axis],), f"small {most}")
            at[axis] = f"{index.name}[{at[axis]}]"
            return f"{t}[{', '.join(at)}]"
        at[axis] = p.rnd.choice([f"{at[axis]} - 1", f"{at[axis]} + 1", f"{at[axis]} + 2",
                                 f"2 * {at[axis]} - 1", f"{at[axis]} // 2", at[axis]])
        return f"({t}[{', '.join(at)}] else {p.rnd.choice(['0', '1', '-3', '7'])})"
    y = p.result(dtype, dims)
    reads = f" {p.rnd.choice('+-')} ".join(read() for _ in range(p.rnd.choice([2, 3])))
    p.body.append(f"{y.name}[{', '.join(v for v, _ in axes)}] = {reads}")


def give_views(p):
    """Views of views, of one array; what comes out meets what went in."""
    dims = p.dims(rank=p.rnd.choice([2, 3, 3]))
    x = p.param(compute(p), dims)
    text = x.name
    for _ in range(p.rnd.choice([2, 3, 3, 4])):
        text, dims = view(p, text, dims)
    y = p.result(x.dtype, dims)
    p.body.append(f"{y.name} = {text}")


def view(p, text, dims):
    """(text, dims) of another view."""
    rank, axis = len(dims), p.rnd.randrange(len(dims))
    way = p.rnd.randrange(7)
    if way <= 1:
        order = p.rnd.sample(range(rank), rank)
        return f"permute({text}, {order})", tuple(dims[i] for i in order)
    if way == 2:
        return f"{text}.T", (*dims[:-2], dims[-1], dims[-2])
    if way == 3 and rank < 4:
        at = p.rnd.randrange(rank + 1)
        return (f"{text}[{', '.join('None' if i == at else ':' for i in range(rank + 1))}]",
                (*dims[:at], "1", *dims[at:]))
    if way == 4 and "1" in dims and rank > 2:
        at = dims.index("1")
        return (f"{text}[{', '.join('0' if i == at else ':' for i in range(rank))}]",
                dims[:at] + dims[at + 1:])
    if way == 5:
        return f"roll({text}, {p.rnd.choice([1, -2])}, axis={axis})", dims
    return f"flip({text}, axis={axis})", dims


def give_atomic(p):
    """Integers only: sums of floats have no one answer."""
    n, k = p.rnd.choice(list(p.sizes)), p.rnd.choice(list(p.sizes))
    if p.rnd.random() < 0.5:  # an extent that is known: blocks may have a tensor of their own
        k = str(p.rnd.choice([1, 2, 7, 16, 33]))
    dtype = p.rnd.choice(["i32", "i64", "u32", "u64", "i8", "u16"])
    name = p.rnd.choice(["add", "add", "min", "max", "or", "xor", "and"])
    h = p.result(dtype, (k,))
    at = p.param("i32", (n,), f"small {max(p.extent(k) - 1, 0)}")
    i, j = p.fresh("j"), p.fresh("j")
    value = lanes.scalar(p, dtype, lanes.Lanes([(i, n)]), 1, True)
    lines = [f"atomic.{name}({h.name}[{at.name}[{i}]], {value})"]
    if p.rnd.random() < 0.4:
        condition = lanes.scalar(p, "bool", lanes.Lanes([(i, n)]), 1, True)
        lines = [f"if {condition} {{ {lines[0]} }}"]
    p.body += [f"{h.name}[{j}] = {p.rnd.choice(['0', '5'])}",
               f"parallel {i} in {n} {{ {lines[0]} }}"]


def give_scattered(p):
    n = p.rnd.choice(list(p.sizes))
    dtype = p.rnd.choice(["f32", "i32", "f16", "i8"])
    x = p.param(dtype, (n,))
    y = p.result(dtype, (f"2 * {n}",))
    i, j = p.fresh("j"), p.fresh("j")
    place = p.rnd.choice([f"{n} - 1 - {i}", f"2 * {i}", f"{i} + 1", f"{i} * 3 - 2"])
    p.body += [f"{y.name}[{j}] = 7", f"parallel {i} in {n} {{ {y.name}[{place}] = {x.name}[{i}] }}"]


def give_inout(p):
    dtype, dims = p.rnd.choice(["f32", "bf16", "i32", "f16", "i64"]), p.dims()
    x = p.param(dtype, dims, io="inout")
    kind = "f32" if dtype in HALVES else dtype
    text = expr(p, kind, dims, 2)
    p.body.append(p.rnd.choice([f"{x.name} = {x.name} * 2 + {text}", f"{x.name} += {text}",
                                f"{x.name} = {text}"]))


def let_controlled(p):
    """if, for, while for all elements at once."""
    dtype, dims = p.rnd.choice(CONTROLLED), p.dims()
    name = p.fresh("a")
    p.body.append(f"var {name} = {expr(p, dtype, dims, 1, pure=True)}")
    way = p.rnd.randrange(3)
    if way == 0:
        flag = p.scalar("bool", p.rnd.choice([0, 1]))
        p.body += [f"if {flag} {{ {name} = {expr(p, dtype, dims, 1, pure=True)} }} "
                   f"else {{ {name} = {name} + {constant_of(dtype)} }}"]
    else:
        n = p.scalar("i64", p.rnd.choice([0, 1, 3, 5]))
        k = p.fresh("k")
        stop = p.rnd.choice([f"    if {k} == 2 {{ break }}", None])
        step = f"    {name} = {name} * {constant_of(dtype)} - {expr(p, dtype, dims, 1, pure=True)}"
        if way == 1:
            p.body += [f"for {k} in 0..{n} {{", *([stop] if stop else []), step, "}"]
        else:
            p.body += [f"var {k} = i64(0)", f"while {k} < {n} {{", step, f"    {k} += 1",
                       *([stop] if stop else []), "}"]
    p.locals.append(Value(name, dtype, dims, False))


def mixed_step(p, name, dtype, dims):
    """The array again, from all of it. What ends loops is exact: integers."""
    axis = p.rnd.randrange(len(dims))
    other = p.param(dtype, dims).name
    ways = [f"{name} - max({name}, axis={axis})", f"cumsum({name}, axis={axis})",
            f"{name} + sum({other}, axis={axis})", f"roll({name}, 1, axis={axis})",
            f"cummax({name}, axis={axis}, reverse=true) + {other}", f"{name} * 3 - {other}",
            f"where({name} > sum({other}, axis={axis}), {name}, {other})" if dtype in INTS else
            f"{name} + min({other}, axis={axis})"]
    if len(dims) == 2:
        ways.append(f"{name} @ {p.param(dtype, (dims[1], dims[1])).name}")
    return f"{name} = {p.rnd.choice(ways)}"


def let_mixed(p):
    """if, for, while for arrays whose elements meet."""
    dtype, dims = p.rnd.choice(["f32", "i32", "i64"]), p.dims(rank=p.rnd.choice([1, 2, 2]))
    name, total = p.fresh("a"), p.fresh("s")
    p.body += [f"var {name} = {expr(p, dtype, dims, 1, pure=True)}", f"var {total} = {dtype}(0)"]
    steps = [mixed_step(p, name, dtype, dims) for _ in range(p.rnd.choice([1, 1, 2]))]
    if p.rnd.random() < 0.5:
        steps.insert(p.rnd.randrange(len(steps) + 1), f"{total} = {total} + sum({name})")
    if p.rnd.random() < 0.3:
        steps = [f"if {p.scalar('bool', p.rnd.choice([0, 1]))} {{", *steps, "} else {",
                 mixed_step(p, name, dtype, dims), "}"]
    if dtype in INTS and p.rnd.random() < 0.5:
        steps.append(f"if max({name}) > {p.rnd.choice([0, 5, 50])} {{ break }}")
    k = p.fresh("k")
    n = p.scalar("i64", p.rnd.choice([0, 1, 2, 4]))
    way = p.rnd.randrange(3) if "break" not in steps[-1] else p.rnd.randrange(1, 3)
    if way == 0:
        p.body += [f"if {n} > 1 {{", *steps, "}"]
    elif way == 1:
        p.body += [f"for {k} in 0..{n} {{", *steps, "}"]
    else:
        p.body += [f"var {k} = i64(0)", f"while {k} < {n} {{", f"{k} += 1", *steps, "}"]
    p.locals.append(Value(name, dtype, dims, False))
    if p.rnd.random() < 0.5:
        y = p.result(dtype, dims)
        p.body.append(f"{y.name} = {p.rnd.choice([f'{name} + {total}', f'{total} + {name}'])}")


def constant_of(dtype):
    return "0.5" if dtype in FLOATS else "3"


def give_folded(p):
    """Maps x -> a x + b composed along an axis: order matters, and integers have no bound."""
    dims = p.dims(rank=p.rnd.choice([1, 2]))
    axis = p.rnd.randrange(len(dims))
    dtype = p.rnd.choice(SUMMED)
    p.function("fn composed(f, g) {\n    let (a, b) = f\n    let (c, d) = g\n"
               "    return a * c, b * c + d\n}")
    a, b = expr(p, dtype, dims, 1, pure=True), expr(p, dtype, dims, 1, pure=True)
    first, second = p.fresh("s"), p.fresh("s")
    scan = p.rnd.random() < 0.6
    options = p.rnd.choice(["", ", reverse=true", ", exclusive=true"]) if scan else ""
    p.body.append(f"let ({first}, {second}) = {'scan' if scan else 'reduce'}(composed, ({a}, {b}), "
                  f"init=(1, 0), axis={axis}{options})")
    out = dims if scan else dims[:axis] + ("1",) + dims[axis + 1:]
    for name in (first, second):
        result = p.result(dtype, out)
        p.body.append(f"{result.name} = {name}")


def give_tiles(p):
    """Ranges: tiled by hand."""
    m, n = p.dims(rank=2)
    x = p.param(p.rnd.choice(["f32", "f16", "f32", "i32"]), (m, n), "normal")
    kind = "i32" if x.dtype == "i32" else "f32"
    i, j = p.fresh("j"), p.fresh("j")
    by, inner = p.rnd.choice([1, 3, 16, 32]), p.rnd.choice([4, 7, 16, 64])
    s = p.fresh("s")
    name = p.rnd.choice(["sum", "max", "min"])
    y = p.result(kind, (m, "1"))
    start = {"sum": "0", "max": "-inf" if kind == "f32" else "-100000",
             "min": "inf" if kind == "f32" else "100000"}[name]
    value = f"{kind}({x.name}[{i}, {j}])"
    if p.rnd.random() < 0.4:
        value = f"where(index({j})[None, :] <= index({i})[:, None], {value}, {start})"
    step = f"{s} + sum({value}, axis=1)" if name == "sum" else \
        f"{name}({s}, {name}({value}, axis=1))"
    p.body += [f"parallel {i} in {m} by {by} {{",
               f"    var {s} = fill({start}, {kind}[{i}, 1])",
               f"    for {j} in {n} by {inner} {{ {s} = {step} }}",
               f"    {y.name}[{i}, :] = {s}", "}"]


def tiled_body(p, kind, x, y, m, n):
    """Each element of y from that of x, by ranges and parts of them."""
    i, j, k = p.fresh("j"), p.fresh("j"), p.fresh("k")
    by, sub, inner = p.rnd.choice([1, 5, 16, 48]), p.rnd.choice([3, 8, 16]), p.rnd.choice([7, 32])

    def rows(v, times):
        value = f"{x}[{v}, {j}] * {times} + {kind}(index({v}))[:, None]"
        return f"for {j} in {n} by {inner} {{ {y}[{v}, {j}] = {value} }}"
    cut = p.rnd.choice([0, 2, 8, 20])
    lines = p.rnd.choice([[rows(i, 2)], [f"for {k} in {i} by {sub} {{ {rows(k, 3)} }}"],
                          [f"for {k} in {i}[: {cut}] by {sub} {{ {rows(k, 2)} }}",
                           f"for {k} in {i}[{cut}:] by {sub} {{ {rows(k, 5)} }}"]])
    whole = f"{m}[0: {m}]" if m.isalpha() and p.rnd.random() < 0.3 else m
    return [f"parallel {i} in {whole} by {by} {{", *lines, "}"]


def give_tiles_of(p):
    """What is made before a parallel over ranges, in the kernel or in a function."""
    m, n = p.dims(rank=2)
    kind = p.rnd.choice(["f32", "i32"])
    text = expr(p, kind, (m, n), 2)
    y = p.result(kind, (m, n))
    if p.rnd.random() < 0.5:
        t = p.fresh("t")
        p.body += [f"let {t} = {text}", *tiled_body(p, kind, t, y.name, m, n)]
        return
    name = p.fresh("tiled")
    lines = "\n    ".join(tiled_body(p, kind, "x", "y", "A", "B"))
    p.function(f"fn {name}(x: T[A, B]) -> y: {kind}[A, B] where T: number {{\n    {lines}\n}}")
    p.body.append(f"{y.name} = {name}({text}) - {expr(p, kind, (m, n), 1)}")


def give_written(p):
    """A function that writes its results: as wholes, or one of them in parts."""
    m, n = p.dims(rank=2)
    dtype = p.rnd.choice(["f32", "i32", "i64"])
    name = p.fresh("written")
    size, extent, part = p.rnd.choice([
        ("A", m, "parallel i in A { r[i] = (a[i, 0] else 5) * 3 }"),
        ("B", n, "parallel j in B { r[B - 1 - j] = (a[0, j] else 5) }"),
        ("B", n, f"parallel j in B {{ if (a[0, j] else 5) > 0 {{ r[j] = {dtype}(j) }} }}")])
    lines = [f"w[i, j] = a[i, j] * 2 - {dtype}(i)", "r[k] = 7", part]
    p.function(f"fn {name}(a: T[A, B]) -> (w: {dtype}[A, B], r: {dtype}[{size}]) "
               f"where T: number, A >= 0 {{\n    " + "\n    ".join(lines) + "\n}")
    first, second = p.fresh("s"), p.fresh("s")
    p.body.append(f"let ({first}, {second}) = {name}({expr(p, dtype, (m, n), 2, pure=True)})")
    for value, dims in ((first, (m, n)), (second, (extent,))):
        result = p.result(dtype, dims)
        p.body.append(f"{result.name} = {value} + {expr(p, dtype, dims, 1)}")


def give_flat(p):
    """A product whose rows have two axes, with what is done to its result."""
    b, s, k, n = (p.rnd.choice(list(p.sizes)) for _ in range(4))
    least = min(p.sizes, key=p.sizes.get)
    def too_large():
        return p.elements((b, s, k, n)) > MOST_PRODUCT or p.elements((b, s, n)) > MOST or \
            p.elements((b, s, k)) > MOST or p.elements((k, n)) > MOST
    if too_large():
        b, k = least, least
    if too_large():
        return
    dtype = p.rnd.choice(["f32", "f32", "i32"])
    kind = p.rnd.choice([dtype, *HALVES]) if dtype == "f32" else dtype
    x, w = p.param(kind, (b, s, k), "normal" if dtype == "f32" else ""), p.param(kind, (k, n))
    y = p.result(dtype, (b, s, n))
    text = f"{x.name} @ {w.name}"
    if p.rnd.random() < 0.5:
        i, j, o, r = (p.fresh("j") for _ in range(4))
        text = (f"sum({r} in {k}) {dtype}({x.name}[{i}, {j}, {r}]) * "
                f"{dtype}({w.name}[{r}, {o}])")
        p.body.append(f"let {y.name}_[{i} in {b}, {j} in {s}, {o} in {n}] = {text}")
        text = f"{y.name}_"
    more = p.rnd.choice([(), (n,), (b, s, n), (s, n)])
    p.body.append(f"{y.name} = {text} + {expr(p, dtype, more, 1) if more else 1}")


def give_outer_function(p):
    """A function with shapes."""
    p.function("fn outer(a: number[A], b: number[B]) = a[:, None] * b[None, :]")
    m, n = p.dims(rank=2)
    dtype = p.rnd.choice(["f32", "i32", "i64"])
    y = p.result(dtype, (m, n))
    p.body.append(f"{y.name} = outer({expr(p, dtype, (m,), 2)}, {expr(p, dtype, (n,), 2)})")


STATEMENTS = [(let_array, 3), (let_indexed, 2), (let_controlled, 1), (let_mixed, 1),
              (give_array, 7), (give_indexed, 5), (give_window, 2), (give_parallel, 3),
              (give_rows, 1), (give_joined, 1.5), (give_views, 1.5), (give_contraction, 1.5),
              (give_stencil, 2), (give_atomic, 1), (give_scattered, 0.7), (give_inout, 1),
              (give_folded, 0.7), (give_tiles, 1), (give_outer_function, 0.5),
              (give_tiles_of, 1), (give_written, 0.7), (give_flat, 0.7)]
BESIDE = [let_controlled, give_array, give_array, give_indexed, give_parallel, give_joined,
          give_stencil, give_tiles, give_tiles_of, give_scattered, give_atomic]


def schedule_lines(p, n):
    """Values that are drawn, not derived: the compiler may refuse a line, never answer wrongly."""
    names = list(p.sizes)
    choices = [lambda: f"tile {p.rnd.choice(names)} {p.rnd.choice([1, 3, 4, 8, 16, 32, 64, 100])}",
               lambda: f"warps {p.rnd.choice([1, 2, 4, 8])}",
               lambda: f"reduction {p.rnd.choice(['resident', 'looped'])}",
               lambda: f"vector {p.rnd.choice([1, 2, 4])}",
               lambda: f"peel {p.rnd.choice(['on', 'off'])}",
               lambda: f"raster grouped {p.rnd.choice([0, 2, 4])}",
               lambda: f"pipeline {p.rnd.choice([1, 2, 3])}",
               lambda: f"unroll {p.rnd.choice([1, 2, 4, 8])}",
               lambda: f"threads {p.rnd.choice([1, 2, 3])}"]
    return [choice() for choice in p.rnd.sample(choices, n)]


def odd_line(p):
    if p.rnd.random() < 0.3:
        return p.rnd.choice(["warps 16", "occupancy 2", "occupancy 4", "instruction fma",
                             "copy registers"])
    return schedule_lines(p, 1)[0]


def small_tiles(p):
    """Every axis in several tiles, however short it is."""
    shapes = " ".join(" ".join(v.dims) for v in p.params + p.results)
    lines = [f"tile {name} {p.rnd.choice([1, 2, 3, 4, 4, 8, 8, 16])}" for name in p.sizes
             if name in shapes and p.rnd.random() < 0.8]
    return lines + p.rnd.choice([[], [], ["reduction looped"], ["warps 4"]])


def kind_of(target):
    return "ptx" if target.startswith("sm_") else "hsaco"


def code_ways(p, options):
    """For GPUs that are not here: code is made, and what the passes made is interpreted."""
    found = [[]]
    for _ in range(options.schedules):
        found += [small_tiles(p), [odd_line(p) for _ in range(p.rnd.choice([1, 2]))]]
    rests = ["".join(f" line {line};" for line in lines) for lines in found]
    if p.rnd.random() < 0.35:
        rests.append(f" skip {p.rnd.choice(SKIPPED)}")
    target = p.rnd.choice(options.targets)
    level, rest = p.rnd.choice(["O0", "O2", "O3"]), p.rnd.choice(rests)
    code = [f"code {target} {kind_of(target)} {level}{rest}"]
    return [f"passes {p.rnd.choice(options.targets)}{rest}" for rest in rests] + code


def ways(p, options):
    found = ["O0", "O3"]
    if p.rnd.random() < 0.35:
        found.append(f"O3 skip {p.rnd.choice(SKIPPED)}")
    if p.rnd.random() < 0.35 or options.schedules:
        for _ in range(options.schedules or 1):
            lines = schedule_lines(p, p.rnd.choice([1, 1, 2]))
            found.append("O1 " + "".join(f"line {line};" for line in lines))
    if getattr(options, "every", None):  # code for each of these, whatever the program is
        return [f"code {target} {kind_of(target)} {p.rnd.choice(['O0', 'O2', 'O3'])}"
                for target in options.every]
    if options.targets:
        return code_ways(p, options)
    if options.passes or p.rnd.random() < 0.2:
        found.append(f"passes {p.rnd.choice(TARGETS)}")
    if options.cuda:
        found = ["O3"] + [w.replace("O1", "O3") for w in found if "line" in w]
    return found


def program(seed, options):
    p = Program(seed)
    if p.rnd.random() < COMPOSED:
        compose.write(p)
        if p.rnd.random() < 0.1:
            p.rnd.choice(BESIDE)(p)
    else:
        write(p)
    p.declare_sizes()
    return p.text(str(seed), ways(p, options))


def write(p):
    kinds, weights = zip(*STATEMENTS)
    statements = p.rnd.choice([1, 1, 1, 2, 2, 3])
    while statements > 0 or not (p.locals or p.results):  # one that only prints is not enough
        p.rnd.choices(kinds, weights)[0](p)
        statements -= 1
    if not p.results and not any(v.dtype.startswith("inout") for v in p.params):
        last = p.locals[-1]
        y = p.result(last.dtype, last.dims)
        p.body.append(f"{y.name} = {last.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--schedules", type=int, default=0)
    parser.add_argument("--targets", type=lambda s: s.split(","), default=[])
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.count):
        sys.stdout.write(program(seed, options))


if __name__ == "__main__":
    main()
