# SPDX-License-Identifier: Apache-2.0
"""Random scalar expressions over index variables: index notation and the bodies of `parallel`."""

from arrays import cast, constant, literal
from program import FLOATS, HALVES, INTS, MOST, MOST_PRODUCT


VARIABLES = ["f32", "i32", "i64", "i8", "bool", "f32"]


class Lanes:
    """Index variables with the sizes they walk, and scalars that stand for values."""

    def __init__(self, axes, scalars=()):
        self.axes = list(axes)      # (variable, size)
        self.scalars = list(scalars)  # (name, dtype, tainted)

    def with_axis(self, axis):
        return Lanes([*self.axes, axis], self.scalars)

    def walked(self, p):
        return p.elements([d for _, d in self.axes])


def element(p, dtype, lanes, pure):
    """One element of an array that is here or will be."""
    pure = pure or dtype not in FLOATS
    scalars = [s for s in lanes.scalars if s[1] == dtype and not (pure and s[2])]
    if scalars and p.rnd.random() < 0.5:
        return p.rnd.choice(scalars)[0]
    sizes = {d for _, d in lanes.axes}
    found = [v for v in p.scope() if set(v.dims) <= sizes and not (pure and v.tainted)
             and not v.dtype.startswith("inout")]
    if found and (p.rnd.random() < 0.5 or len(p.params) >= 8):
        value = p.rnd.choice(found)
    elif len(p.params) < 8:
        value = new_array(p, dtype, lanes)
    else:
        return index_number(p, dtype, lanes)
    at, outside = [], False
    for dim in value.dims:
        variable = p.rnd.choice([v for v, d in lanes.axes if d == dim])
        text, may_miss = shifted(p, variable, dim)
        at.append(text)
        outside = outside or may_miss
    text = f"{value.name}[{', '.join(at)}]"
    if outside:
        other = "0" if value.dtype != "bool" else "false"
        if value.dtype in FLOATS + HALVES:
            other = p.rnd.choice(["0", "-inf", "1.5"])
        text = f"({text} else {other})"
    return text if value.dtype == dtype else \
        f"({text} != {'0' if value.dtype != 'bool' else 'false'})" if dtype == "bool" else \
        f"{dtype}({text})"


def shifted(p, variable, dim):
    """An index, and whether it may lie outside."""
    way = p.rnd.randrange(12)
    if way == 0:
        return f"{variable} - {p.rnd.choice([1, 2, 5])}", True
    if way == 1:
        return f"{variable} + {p.rnd.choice([1, 3])}", True
    if way == 2:
        return f"{dim} - 1 - {variable}", False
    if way == 3:
        return f"{variable} // 2", True
    if way == 4:
        return f"2 * {variable} - 1", True
    return variable, False


def new_array(p, dtype, lanes):
    n = p.rnd.choice([1, 1, 2, min(3, len(lanes.axes))])
    axes = [p.rnd.choice(lanes.axes)[1] for _ in range(min(n, len(lanes.axes)))]
    while p.elements(axes) > MOST:
        axes.pop()
    kind = dtype
    if dtype in FLOATS and p.rnd.random() < 0.3:
        kind = p.rnd.choice(HALVES)
    return p.param(kind, axes or [lanes.axes[0][1]])


def gathered(p, dtype, lanes):
    """By an index that comes from data."""
    variable, dim = p.rnd.choice(lanes.axes)
    size = p.rnd.choice(list(p.sizes))
    if len(p.params) >= 8:
        return index_number(p, dtype, lanes)
    x = p.param(dtype, (size,))
    index = p.param(p.rnd.choice(["i32", "i64"]), (dim,), f"small {max(p.extent(size) - 1, 0)}")
    return f"{x.name}[{index.name}[{variable}]]"


def index_number(p, dtype, lanes):
    variable, dim = p.rnd.choice(lanes.axes)
    if dtype == "bool":
        return f"({variable} % 2 == {p.rnd.choice([0, 1])})"
    return f"{dtype}({variable})"


def prefix(p, dtype, lanes, depth, pure):
    names = [n for n in p.sizes if lanes.walked(p) * p.extent(n) <= MOST_PRODUCT]
    if not names or len(lanes.axes) > 3:
        return element(p, dtype, lanes, pure)
    size = p.rnd.choice(names)
    extent = size
    variable = p.fresh("k")
    if dtype == "bool":
        name = p.rnd.choice(["any", "all"])
    elif dtype in FLOATS:
        name = p.rnd.choice(["max", "min"] if pure else ["sum", "max", "min", "mean", "sum", "sum"])
    elif dtype == "i64" and p.rnd.random() < 0.4:
        name = p.rnd.choice(["argmax", "argmin"])
    else:
        sums = ["sum"] if dtype in ("i32", "i64", "u32", "u64") else []
        name = p.rnd.choice(["max", "min"] + sums)
    inner = lanes.with_axis((variable, size))
    kind, exact = dtype, pure
    if name in ("argmax", "argmin"):
        kind, exact = p.rnd.choice(FLOATS + INTS), True
    condition = ""
    if p.rnd.random() < 0.25:
        condition = f" if {scalar(p, 'bool', inner, depth - 1, True)}"
    body = scalar(p, kind, inner, depth - 1, exact)
    if name == "sum" and dtype in FLOATS and p.rnd.random() < 0.5:
        body = f"{body} * {scalar(p, kind, inner, depth - 2, exact)}"
        return f"({name}({variable} in {extent}{condition}) {body})"
    return f"({name}({variable} in {extent}{condition}) ({body}))"


def scalar(p, dtype, lanes, depth, pure):
    if depth <= 0:
        return element(p, dtype, lanes, pure)
    roll = p.rnd.random()
    again = lambda kind=dtype, exact=pure: scalar(p, kind, lanes, depth - 1, exact)
    if dtype == "bool":
        if roll < 0.15:
            return prefix(p, dtype, lanes, depth, True)
        if roll < 0.35:
            return f"({again()} {p.rnd.choice(['and', 'or', '^'])} {again()})"
        if roll < 0.45:
            return f"(not {again()})"
        kind = p.rnd.choice(FLOATS + INTS)
        second = literal(p, kind) if p.rnd.random() < 0.5 else again(kind, True)
        return f"({again(kind, True)} {p.rnd.choice(['<', '<=', '>', '==', '!='])} {second})"
    if roll < 0.4:
        ops = ["+", "-", "*"] + (["//", "%", "&", "|", "^"] if dtype in INTS else [])
        second = literal(p, dtype) if p.rnd.random() < 0.3 else again()
        return f"({again()} {p.rnd.choice(ops)} {second})"
    if roll < 0.5:
        return f"({again()} if {again('bool', True)} else {again()})"
    if roll < 0.56:
        return f"{p.rnd.choice(['max', 'min'])}({again()}, {again()})"
    if roll < 0.64:
        kind = p.rnd.choice(FLOATS + INTS if pure or dtype in INTS else FLOATS)
        return f"{dtype}({again(kind, pure or dtype in INTS)})"
    if roll < 0.7:
        return gathered(p, dtype, lanes)
    if roll < 0.74:
        return index_number(p, dtype, lanes)
    if roll < 0.88:
        return prefix(p, dtype, lanes, depth, pure)
    return element(p, dtype, lanes, pure)


# ---- bodies of parallel ----

def assignments(p, lanes, variables, depth):
    """Statements that change the variables, of lanes that go each its own way."""
    lines = []
    for name, dtype, tainted in p.rnd.sample(variables, p.rnd.randint(1, len(variables))):
        op = p.rnd.choice(["=", "+=", "-=", "*="] if dtype != "bool" else ["="])
        lines.append(f"{name} {op} {scalar(p, dtype, lanes, depth, not tainted)}")
    return lines


def branch(p, lanes, variables, depth):
    lines = [f"if {scalar(p, 'bool', lanes, depth, True)} {{"]
    lines += ["    " + s for s in assignments(p, lanes, variables, depth)]
    if p.rnd.random() < 0.6:
        lines += ["} else {"] + ["    " + s for s in assignments(p, lanes, variables, depth)]
    return lines + ["}"]


def repeat(p, lanes, variables, depth):
    """while with a count, or for with bounds that may be data."""
    way = p.rnd.randrange(3)
    if way == 0:
        count = p.fresh("c")
        most = p.rnd.choice(["3", f"i64({element(p, 'i8', lanes, True)}) % 5"])
        inner = [f"{count} += 1", *assignments(p, lanes, variables, depth - 1)]
        if p.rnd.random() < 0.4:
            inner.append(f"if {scalar(p, 'bool', lanes, 1, True)} {{ break }}")
        return [f"var {count} = i64(0)", f"while {count} < {most} {{",
                *["    " + s for s in inner], "}"]
    k = p.fresh("k")
    if way == 1:
        size = min(p.sizes, key=lambda n: p.extent(n))
        bounds, axis = f"0..{size}", (k, size)
        inside = lanes.with_axis(axis)
    else:
        bounds = f"0..i64({element(p, 'i8', lanes, True)}) % 4"
        inside = lanes
    if way == 1 and lanes.walked(p) * max(p.extent(size), 1) > MOST_PRODUCT:
        bounds, inside = "0..3", lanes
    inner = assignments(p, inside, variables, depth - 1)
    if p.rnd.random() < 0.3:
        inner.append(f"if {scalar(p, 'bool', lanes, 1, True)} {{ break }}")
    return [f"for {k} in {bounds} {{", *["    " + s for s in inner], "}"]


def body(p, axes, results, depth):
    """Of a parallel over the axes that writes one element of each result."""
    lanes, variables, lines = Lanes(axes), [], []
    for dtype in [p.rnd.choice(VARIABLES)
                  for _ in range(p.rnd.choice([1, 1, 2]))]:
        name = p.fresh("v")
        lines.append(f"var {name} = {scalar(p, dtype, lanes, depth - 1, True)}")
        variables.append((name, dtype, dtype == "f32" and False))
    lanes.scalars = variables
    for _ in range(p.rnd.choice([0, 1, 1, 2])):
        lines += p.rnd.choice([branch, repeat])(p, lanes, variables, depth - 1)
    at = ", ".join(v for v, _ in axes)
    for result in results:
        lines.append(f"{result.name}[{at}] = {scalar(p, result.dtype, lanes, depth - 1, False)}")
    return lines


__all__ = ["Lanes", "scalar", "body", "constant", "cast"]
