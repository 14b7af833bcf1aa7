# SPDX-License-Identifier: Apache-2.0
"""Random expressions of whole arrays: of a given element type and shape, valid by construction.

An expression that is asked for with loose=True may have fewer axes or extents of 1 where the shape
has more: it meets others. One that is asked for with pure=True is exact: floats that are summed or
multiplied in any order are within a bound only, and nothing may jump on what they are."""

from program import FLOATS, HALVES, INTS, PACKED, MOST, MOST_PRODUCT

SUMMED = ["i32", "i64", "u32", "u64"]


def literal(p, dtype):
    if dtype in FLOATS:
        return p.rnd.choice(["0.5", "1.5", "2", "-0.25", "3.0", "0"])
    if dtype == "bool":
        return p.rnd.choice(["true", "false"])
    wide = ["2147483648", "4294967297"] if dtype[1:] == "64" and p.rnd.random() < 0.2 else []
    return p.rnd.choice(wide or ["1", "2", "3", "7", "100", "0"] +
                        ([] if dtype[0] == "u" else ["-3"]))


def constant(p, dtype):
    return literal(p, dtype) if dtype == "bool" else f"{dtype}({literal(p, dtype)})"


def cast(value, dtype):
    if value.dtype == dtype:
        return value.name
    if dtype == "bool":
        return f"({value.name} != {'0' if value.dtype != 'bool' else 'false'})"
    return f"{dtype}({value.name})"


def fits(value, dims, loose):
    if value.dims == dims:
        return True
    n = len(value.dims)
    return loose and n <= len(dims) and n > 0 and all(
        a == b or a == "1" for a, b in zip(value.dims, dims[len(dims) - n:]))


def plain(value):
    return value.dtype.split()[-1]


def leaf(p, dtype, dims, loose, pure):
    pure = pure or dtype not in FLOATS
    found = [v for v in p.scope() if fits(v, dims, loose) and not (pure and v.tainted)
             and not v.dtype.startswith("inout")]
    same = [v for v in found if v.dtype == dtype]
    if found and p.rnd.random() < 0.55 or len(p.params) >= 7 and found:
        return cast(p.rnd.choice(same if same and p.rnd.random() < 0.7 else found), dtype)
    if len(p.params) < 8:
        return new_leaf(p, dtype, dims, loose)
    return filled(p, dtype, dims)


def new_leaf(p, dtype, dims, loose):
    kind = dtype
    if dtype in FLOATS and p.rnd.random() < 0.3:
        kind = p.rnd.choice(HALVES)
    elif p.rnd.random() < 0.1:
        kind = p.rnd.choice(FLOATS + INTS + HALVES)
    elif p.rnd.random() < 0.04:
        kind = p.rnd.choice(["f8e4m3", "f8e5m2", *PACKED])
    shape = list(dims)
    if loose and len(shape) > 1 and p.rnd.random() < 0.4:
        shape = shape[p.rnd.randrange(len(shape)):]
    if loose and p.rnd.random() < 0.2:
        shape[p.rnd.randrange(len(shape))] = "1"
    return cast(p.param(kind, shape), dtype)


def filled(p, dtype, dims):
    if p.rnd.random() < 0.5 and dtype != "bool":
        axis = p.rnd.randrange(len(dims))
        at = ", ".join(":" if i == axis else "None" for i in range(len(dims)))
        text = f"iota({dims[axis]})" + (f"[{at}]" if len(dims) > 1 else "")
        return f"({dtype}({text}) + zeros({dtype}[{', '.join(dims)}]))"
    return f"fill({literal(p, dtype)}, {dtype}[{', '.join(dims)}])"


# ---- one element in, one out ----

def binary(p, dtype, dims, depth, loose, pure):
    first = expr(p, dtype, dims, depth - 1, loose, pure)
    if p.rnd.random() < 0.25:
        second = literal(p, dtype)
    else:
        second = expr(p, dtype, dims, depth - 1, True, pure)
    if dtype in FLOATS:
        ops = ["+", "-", "*", "min", "max"] + (["/", "%"] if pure else [])
    else:
        ops = ["+", "-", "*", "min", "max", "//", "%", "&", "|", "^", "<<", ">>"]
    op = p.rnd.choice(ops)
    if op in ("min", "max"):
        return f"{op}({first}, {second})"
    if p.rnd.random() < 0.5 and second[0] not in "-":
        first, second = second, first
        if first.replace(".", "").isdigit() and second.replace(".", "").isdigit():
            return first
    return f"({first} {op} {second})"


def logical(p, dims, depth, loose, pure):
    way = p.rnd.randrange(4)
    if way == 0:
        return f"(not {expr(p, 'bool', dims, depth - 1, loose, True)})"
    if way == 1:
        op = p.rnd.choice(["and", "or", "&", "|", "^"])
        return (f"({expr(p, 'bool', dims, depth - 1, loose, True)} {op} "
                f"{expr(p, 'bool', dims, depth - 1, True, True)})")
    kind = p.rnd.choice(FLOATS + INTS)
    first = expr(p, kind, dims, depth - 1, loose, True)
    second = literal(p, kind)
    if p.rnd.random() < 0.6:
        second = expr(p, kind, dims, depth - 1, True, True)
    return f"({first} {p.rnd.choice(['<', '<=', '>', '>=', '==', '!='])} {second})"


def unary(p, dtype, dims, depth, loose, pure):
    inner = expr(p, dtype, dims, depth - 1, loose, pure)
    if dtype in FLOATS:
        names = ["-", "abs", "relu"]
        if pure:
            names += ["floor", "ceil", "trunc", "round", "sqrt", "exp", "tanh", "log", "sin",
                      "sign"]
        name = p.rnd.choice(names)
    else:
        name = p.rnd.choice(["-", "~", "abs"] if dtype[0] == "i" else ["~"])
    if name == "sqrt":
        return f"sqrt(abs({inner}))"
    return f"({name}{inner})" if name in "-~" else f"{name}({inner})"


def chosen(p, dtype, dims, depth, loose, pure):
    """where, or a conditional expression."""
    condition = expr(p, "bool", dims, depth - 1, True, True)
    first = expr(p, dtype, dims, depth - 1, loose, pure)
    second = literal(p, dtype)
    if p.rnd.random() < 0.7:
        second = expr(p, dtype, dims, depth - 1, True, pure)
    return f"where({condition}, {first}, {second})"


def casted(p, dtype, dims, depth, loose, pure):
    kinds = FLOATS if dtype in FLOATS else INTS
    if pure or dtype in INTS:
        kinds = FLOATS + INTS
    kind = p.rnd.choice(kinds)
    if dtype in FLOATS and p.rnd.random() < 0.4:
        # Rounds to 16 bits and back.
        return f"{dtype}({p.rnd.choice(HALVES)}({expr(p, 'f32', dims, depth - 1, loose, pure)}))"
    jumps = kind in FLOATS and dtype in INTS
    return f"{dtype}({expr(p, kind, dims, depth - 1, loose, pure or jumps)})"


# ---- many elements in, one out ----

def reduced(p, dtype, dims, depth, loose, pure):
    """With extent 1 on an axis, or that axis dropped."""
    drop = not loose or p.rnd.random() < 0.3
    axis = p.rnd.randrange(len(dims) + 1 if drop else len(dims))
    names = [n for n in p.sizes]
    rest = dims if drop else dims[:axis] + dims[axis + 1:]
    fitting = [n for n in names if p.elements(rest) * p.extent(n) <= MOST]
    if not fitting or len(rest) > 3:
        return leaf(p, dtype, dims, loose, pure)
    inner = rest[:axis] + (p.rnd.choice(fitting),) + rest[axis:]
    call = reduction(p, dtype, inner, axis, depth, pure)
    if drop:
        at = ", ".join("0" if i == axis else ":" for i in range(len(inner)))
        return f"{call}[{at}]"
    return call


def reduction(p, dtype, inner, axis, depth, pure):
    sign = axis if p.rnd.random() < 0.7 else axis - len(inner)
    if dtype == "bool":
        name = p.rnd.choice(["any", "all"])
    elif dtype in FLOATS:
        name = p.rnd.choice(["max", "min"] if pure else ["sum", "max", "min", "mean", "sum"])
    elif dtype == "i64" and p.rnd.random() < 0.4:
        name = p.rnd.choice(["argmax", "argmin"])
    else:
        name = p.rnd.choice(["max", "min"] + (["sum", "prod"] if dtype in SUMMED else []))
    kind = dtype
    if name in ("argmax", "argmin"):
        kind = p.rnd.choice(FLOATS + INTS)
        pure = True
    elif name in ("sum", "prod") and dtype in ("i32", "u32"):
        kind = p.rnd.choice([k for k in ("i8", "i16", "i32", "u8", "u16", "u32")
                             if k[0] == dtype[0]])
    if dtype not in ("bool", "i64") and name in ("max", "min", "sum") and p.rnd.random() < 0.15:
        return folded(p, dtype, inner, sign, depth, name, pure)
    return f"{name}({expr(p, kind, inner, depth - 1, False, pure)}, axis={sign})"


def folded(p, dtype, inner, axis, depth, name, pure):
    bodies = {"sum": "a + b", "max": "max(a, b)", "min": "min(a, b)"}
    low = {"sum": "0", "max": "-inf", "min": "inf"}[name]
    if dtype not in FLOATS and name != "sum":
        name, low = "sum", "0"
    if dtype in FLOATS and name == "sum":
        low = "-0.0"  # what changes no number, the other zero neither
    p.function(f"fn f_{name}(a, b) = {bodies[name]}")
    text = expr(p, dtype, inner, depth - 1, False, pure)
    return f"reduce(f_{name}, {text}, init={low}, axis={axis})"


def scanned(p, dtype, dims, depth, pure):
    axis = p.rnd.randrange(len(dims))
    if dtype in SUMMED or dtype in FLOATS and not pure:
        name = p.rnd.choice(["cumsum", "cummax", "cummin", "cumsum"])
    else:
        name = p.rnd.choice(["cummax", "cummin"])
    options = p.rnd.choice(["", ", reverse=true"]) + p.rnd.choice(["", ", exclusive=true"])
    return f"{name}({expr(p, dtype, dims, depth - 1, False, pure)}, axis={axis}{options})"


def product(p, dtype, dims, depth):
    """a @ b of what is stored narrow, or of expressions."""
    names = [n for n in p.sizes if p.elements(dims) * p.extent(n) <= MOST_PRODUCT]
    if len(dims) < 2 or not names:
        return leaf(p, dtype, dims, False, False)
    k = p.rnd.choice(names)
    kinds = {"f32": ["f32", "bf16", "f16", "f32"], "i32": ["i8", "i16", "i32"],
             "u32": ["u8", "u16", "u32"]}.get(dtype, [dtype])
    kind = p.rnd.choice(kinds)
    lead = dims[:-2]

    def operand(rows, columns, shared):
        shape = (() if shared else lead) + (rows, columns)
        if p.rnd.random() < 0.35:
            shape = shape[:-2] + (columns, rows)
            return f"{stored(p, kind, shape, depth)}.T"
        return stored(p, kind, shape, depth)
    share = bool(lead) and p.rnd.random() < 0.3
    return f"({operand(dims[-2], k, False)} @ {operand(k, dims[-1], share)})"


def stored(p, kind, shape, depth):
    found = [v for v in p.scope() if v.dims == shape and v.dtype == kind]
    if found and p.rnd.random() < 0.5:
        return p.rnd.choice(found).name
    if kind in FLOATS + INTS and depth > 1 and p.rnd.random() < 0.35:
        return expr(p, kind, shape, depth - 2, False, False)
    data = "" if kind in INTS else "normal"
    return p.param(kind, shape, data).name


# ---- other elements ----

def viewed(p, dtype, dims, depth, pure):
    """The same elements in another order, or some of more."""
    way = p.rnd.randrange(8)
    axis = p.rnd.randrange(len(dims))
    if way == 0 and len(dims) >= 2:
        swapped = dims[:-2] + (dims[-1], dims[-2])
        return f"{expr(p, dtype, swapped, depth - 1, False, pure)}.T"
    if way == 1 and len(p.params) < 8:
        return sliced(p, dtype, dims, axis)
    if way == 2 and len(p.params) < 8:
        return looked_up(p, dtype, dims, axis)
    if way == 3:
        return f"flip({expr(p, dtype, dims, depth - 1, False, pure)}, axis={axis})"
    if way == 4 and len(dims) >= 2:
        order = list(range(len(dims)))
        p.rnd.shuffle(order)
        shape = [None] * len(dims)
        for i, source in enumerate(order):
            shape[source] = dims[i]
        return f"permute({expr(p, dtype, tuple(shape), depth - 1, False, pure)}, {order})"
    if way == 5:
        by = p.rnd.choice([0, 1, 3, -2])
        return f"roll({expr(p, dtype, dims, depth - 1, False, pure)}, {by}, axis={axis})"
    if way == 6 and len(dims) >= 2:
        name = p.rnd.choice(["triu", "tril"])
        return f"{name}({expr(p, dtype, dims, depth - 1, False, pure)})"
    return f"{expr(p, dtype, dims, depth - 1, False, pure)}"


def sliced(p, dtype, dims, axis):
    n = dims[axis]
    long, index = p.rnd.choice([(f"{n} + 3", f"2:{n} + 2"), (f"{n} + 3", f":{n}"),
                                (f"{n} + 1", "1:"), (f"2 * {n}", "::2"),
                                (n, "::-1")])
    if p.elements(dims) * 3 > 3 * MOST:
        return leaf(p, dtype, dims, False, True)
    x = p.param(dtype, dims[:axis] + (long,) + dims[axis + 1:])
    at = ", ".join(index if i == axis else ":" for i in range(len(dims)))
    return f"{x.name}[{at}]"


def looked_up(p, dtype, dims, axis):
    size = p.rnd.choice(list(p.sizes))
    shape = dims[:axis] + (size,) + dims[axis + 1:]
    if p.elements(shape) > MOST:
        return leaf(p, dtype, dims, False, True)
    x = p.param(dtype, shape)
    most = max(p.extent(size) - 1, 0)
    index = p.param(p.rnd.choice(["i32", "i64", "i16"]), (dims[axis],), f"small {most}")
    at = ", ".join(index.name if i == axis else ":" for i in range(len(dims)))
    return f"{x.name}[{at}]"


def expr(p, dtype, dims, depth, loose=False, pure=False):
    dims = tuple(dims)
    if depth <= 0 or p.rnd.random() < 0.08:
        return leaf(p, dtype, dims, loose, pure)
    roll = p.rnd.random()
    if dtype == "bool":
        if roll < 0.1:
            return reduced(p, dtype, dims, depth, loose, True)
        return logical(p, dims, depth, loose, pure)
    if roll < 0.4:
        return binary(p, dtype, dims, depth, loose, pure)
    if roll < 0.5:
        return unary(p, dtype, dims, depth, loose, pure)
    if roll < 0.6:
        return chosen(p, dtype, dims, depth, loose, pure)
    if roll < 0.7:
        return casted(p, dtype, dims, depth, loose, pure)
    if roll < 0.82:
        return reduced(p, dtype, dims, depth, loose, pure)
    if roll < 0.86:
        return scanned(p, dtype, dims, depth, pure)
    if roll < 0.9 and dtype in FLOATS + SUMMED and not (pure and dtype in FLOATS):
        return product(p, dtype, dims, depth)
    return viewed(p, dtype, dims, depth, pure)
