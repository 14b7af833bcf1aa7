#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What random programs mean, by NumPy alone: all executors share the front end, and would agree on
what it gets wrong. Integers and bools, so that every answer is exact; of compositions (compose.py)
some are of floats, which NumPy computes in f64, and in f32 to see how far that is off.

    meaning.py --tessera PROGRAM [--count 300] [--first SEED]

Prints the programs that differ, then `N passed, N failed`."""

import ast
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np

import compose
import generate
import lanes
import program
from program import INTS, Program

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import suite  # noqa: E402

NUMPY = {"bool": np.bool_, **{f"{k}{b}": np.dtype(f"{n}{b}")
                              for k, n in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)}}
REAL = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}
RANK = 12  # of an expression of index variables: an axis for each
STATEMENTS = [generate.let_array, generate.give_array, generate.give_array, generate.give_joined,
              generate.give_views, generate.give_stencil, generate.let_indexed,
              generate.give_indexed, generate.give_indexed, generate.give_parallel,
              generate.give_parallel, generate.let_controlled]


# ---- the language in NumPy ----

class Array:
    """Its elements, `v`; operators as the language has them."""

    def __init__(self, v):
        self.v = np.asarray(v)

    @property
    def T(self):
        return Array(np.swapaxes(self.v, -1, -2))

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if all(isinstance(at, Array) for at in index):
            return self.read(index, 0)
        axis = next((i for i, at in enumerate(index) if isinstance(at, Array)), None)
        if axis is None:
            return Array(self.v[index])
        at, n = index[axis].v.astype(np.int64), self.v.shape[axis]
        inside = (at >= 0) & (at < n)
        shape = [1] * self.v.ndim
        shape[axis] = len(at)
        if n == 0:
            return Array(np.zeros(self.v.shape[:axis] + at.shape + self.v.shape[axis + 1:],
                                  self.v.dtype))
        taken = np.take(self.v, np.where(inside, at, 0), axis=axis)
        return Array(np.where(inside.reshape(shape), taken, 0).astype(self.v.dtype))

    def read(self, index, outside):
        """The elements at these places; what is outside."""
        places = np.broadcast_arrays(*[at.v.astype(np.int64) for at in index])
        inside = np.ones(places[0].shape, bool)
        for at, n in zip(places, self.v.shape):
            inside &= (at >= 0) & (at < n)
        other = np.array(outside).astype(self.v.dtype)
        if not inside.any():
            return Array(np.full(places[0].shape, other))
        return Array(np.where(inside, self.v[tuple(np.where(inside, at, 0) for at in places)],
                              other))

    def __invert__(self):
        return Array(~self.v)

    def __neg__(self):
        return Array(0 - self.v if self.v.dtype.kind == "u" else -self.v)


def operand(value, like):
    """An array's elements; a literal's, of the type that it meets."""
    if isinstance(value, Array):
        return value.v
    return np.array(value).astype(like.v.dtype)


def pair(a, b):
    like = a if isinstance(a, Array) else b
    return operand(a, like), operand(b, like)


def both(function):
    def apply(a, b):
        return Array(function(*pair(a, b)))
    return apply


def divided(a, b):
    """Rounded down; the least number by -1 wraps."""
    turned = (b == -1) & (a.dtype.kind == "i")
    by = np.where((b == 0) | turned, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.where(turned, 0 - a, a // by)).astype(a.dtype)


def remainder(a, b):
    return np.where(b == 0, 0, a - b * divided(a, b)).astype(a.dtype)


def shifted(a, b, left):
    bits = a.dtype.itemsize * 8
    far = (b < 0) | (b >= bits) if b.dtype.kind == "i" else b >= bits
    by = np.where(far, 0, b).astype(a.dtype)
    if left:
        return np.where(far, 0, np.left_shift(a, by)).astype(a.dtype)
    return np.where(far, np.where(a < 0, -1, 0) if a.dtype.kind == "i" else 0,
                    np.right_shift(a, by)).astype(a.dtype)


OPERATORS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": divided,
             "mod": remainder, "truediv": np.divide,
             "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
             "lshift": lambda a, b: shifted(a, b, True),
             "rshift": lambda a, b: shifted(a, b, False),
             "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
             "eq": np.equal, "ne": np.not_equal}
for name, function in OPERATORS.items():
    setattr(Array, f"__{name}__", both(function))
    if name not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Array, f"__r{name}__", lambda a, b, f=both(function): f(b, a))


def matmul(a, b):
    wide = sum_type(a.v.dtype)
    return Array(np.matmul(a.v.astype(wide), b.v.astype(wide)))


Array.__matmul__ = matmul


class Type:
    def __init__(self, name):
        self.name = name

    def __call__(self, value):
        return Array(operand(value, Array(np.zeros(0, NUMPY[self.name]))).astype(NUMPY[self.name]))

    def __getitem__(self, dims):
        return NUMPY[self.name], dims if isinstance(dims, tuple) else (dims,)


def sum_type(dtype):
    if dtype.itemsize == 8 or dtype.kind == "f":
        return dtype
    return np.dtype("int32" if dtype.kind == "i" else "uint32")


def least(dtype, most):
    if dtype.kind == "f":
        return np.inf if most else -np.inf
    info = np.iinfo(dtype)
    return info.max if most else info.min


def folded(function, first=None):
    """max and min: of several values element by element, or along an axis."""
    def apply(a, b=None, axis=None):
        if axis is None:
            return Array(function(*pair(a, b)))
        start = least(a.v.dtype, first)
        return Array(function.reduce(a.v, axis=axis, keepdims=True, initial=start))
    return apply


def summed(function):
    def apply(a, axis):
        return Array(function.reduce(a.v, axis=axis, keepdims=True, dtype=sum_type(a.v.dtype)))
    return apply


def placed(function):
    def apply(a, axis):
        if a.v.shape[axis] == 0:
            shape = list(a.v.shape)
            shape[axis] = 1
            return Array(np.full(shape, -1, np.int64))
        return Array(function(a.v, axis=axis, keepdims=True).astype(np.int64))
    return apply


def scanned(function, start):
    def apply(a, axis, reverse=False, exclusive=False):
        v = np.flip(a.v, axis) if reverse else a.v
        v = function.accumulate(v, axis=axis, dtype=v.dtype)
        if exclusive and v.shape[axis]:
            first = np.full_like(np.take(v, [0], axis), start(v.dtype))
            v = np.concatenate([first, np.delete(v, -1, axis)], axis)
        return Array(np.flip(v, axis) if reverse else v)
    return apply


def reduce(f, x, init, axis):
    out = None
    for i in range(x.v.shape[axis]):
        part = Array(np.take(x.v, [i], axis))
        out = part if out is None else f(out, part)
    shape = list(x.v.shape)
    shape[axis] = 1
    return Array(np.full(shape, init, x.v.dtype)) if out is None else out


def where(c, a, b):
    a, b = pair(a, b)
    return Array(np.where(c.v, a, b))


def function(f):
    """Of arrays' elements; other arguments are numbers."""
    def apply(*arrays, **options):
        return Array(f(*[a.v if isinstance(a, Array) else a for a in arrays], **options))
    return apply


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mean(x, axis):
    return np.mean(x, axis=axis, keepdims=True)


def normal(x, axis, eps):
    return (x - mean(x, axis)) / np.sqrt(np.var(x, axis=axis, keepdims=True) + x.dtype.type(eps))


def log_sum_exp(x, axis=-1):
    most = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.log(np.sum(np.exp(x - most), axis=axis, keepdims=True)) + most


ERFC = np.vectorize(math.erfc, otypes=[np.float64])  # of which 1 + erf keeps nothing far below 0
SMOOTH = {
    **{name: function(getattr(np, name)) for name in ("tanh", "exp", "sin", "sqrt", "square")},
    "sigmoid": function(sigmoid), "softplus": function(softplus),
    "silu": function(lambda x: x * sigmoid(x)),
    "relu": function(lambda x: np.maximum(x, x.dtype.type(0))),
    "elu": function(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "leaky_relu": function(lambda x: np.where(x >= 0, x, x.dtype.type(0.01) * x)),
    "softsign": function(lambda x: x / (1 + np.abs(x))),
    "hardswish": function(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "gelu": function(lambda x: (0.5 * x * ERFC(x * -math.sqrt(0.5))).astype(x.dtype)),
    "gelu_tanh": function(lambda x: x * sigmoid(1.5957691216 * (x + x.dtype.type(0.044715) * x * x
                                                                * x))),
    "mish": function(lambda x: x * np.tanh(softplus(x))),
    "rsqrt": function(lambda x: 1 / np.sqrt(x)), "mean": function(mean),
    "var": function(lambda x, axis: np.var(x, axis=axis, keepdims=True)),
    "logsumexp": function(log_sum_exp),
    "softmax": function(lambda x, axis=-1: np.exp(x - log_sum_exp(x, axis))),
    "rms_norm": function(lambda x, w: x / np.sqrt(mean(x * x, -1) + x.dtype.type(1e-6)) * w),
    "l2_normalize": function(lambda x, axis=-1: x / np.sqrt(np.sum(x * x, axis=axis,
                                                                   keepdims=True))),
    "layer_norm": function(lambda x, w, b, eps: normal(x, -1, eps) * w + b),
    "instance_norm": function(lambda x, w, b, eps: normal(x, 1, eps) * w + b),
    "clamp": function(np.clip), "sort": function(lambda x: np.sort(x, axis=-1)),
    "stack": lambda parts, axis: Array(np.stack([p.v for p in parts], axis)),
}
SCOPE = {
    **SMOOTH, **{name: Type(name) for name in NUMPY}, "true": True, "false": False, "where": where,
    "max": folded(np.maximum, False), "min": folded(np.minimum, True), "sum": summed(np.add),
    "prod": summed(np.multiply), "argmax": placed(np.argmax), "argmin": placed(np.argmin),
    "any": lambda a, axis: Array(np.any(a.v, axis=axis, keepdims=True)),
    "all": lambda a, axis: Array(np.all(a.v, axis=axis, keepdims=True)),
    "cumsum": scanned(np.add, lambda t: 0),
    "cummax": scanned(np.maximum, lambda t: least(t, False)),
    "cummin": scanned(np.minimum, lambda t: least(t, True)),
    "reduce": reduce, "f_sum": lambda a, b: a + b,
    "abs": lambda a: Array(np.abs(a.v)), "iota": lambda n: Array(np.arange(n, dtype=np.int64)),
    "zeros": lambda t: Array(np.zeros(t[1], t[0])),
    "fill": lambda value, t: Array(np.full(t[1], np.array(value).astype(t[0]))),
    "flip": lambda a, axis: Array(np.flip(a.v, axis)),
    "roll": lambda a, by, axis: Array(np.roll(a.v, by, axis)),
    "permute": lambda a, order: Array(np.transpose(a.v, order)),
    "triu": lambda a: Array(np.triu(a.v)), "tril": lambda a: Array(np.tril(a.v)),
    "reshape": lambda a, dims: Array(a.v.reshape(dims)),
    "concat": lambda parts, axis: Array(np.concatenate([p.v for p in parts], axis)),
    "pad": lambda a, by, value=0: Array(np.pad(a.v, by, constant_values=value)),
}


# ---- index notation ----

def along(n, slot):
    """0 … n - 1 along an axis of its own."""
    return Array(np.arange(n, dtype=np.int64).reshape([-1 if i == slot else 1
                                                       for i in range(RANK)]))


class Prefix:
    """sum(k in K, r in 0..3 if c) body, and so on: an axis more for each, which is reduced."""
    slot = 0

    def __call__(self, name, ranges, counted, body):
        first, self.slot = self.slot, self.slot + len(ranges)
        indices = [Array(along(high - low, first + i).v + low)
                   for i, (low, high) in enumerate(ranges)]
        value = body(*indices).v
        keep = counted(*indices).v if counted else np.array(True)
        self.slot = first
        shape = [1] * first + [high - low for low, high in ranges]
        shape += [1] * (RANK - len(shape))
        value, keep = np.broadcast_arrays(value, keep, np.empty(shape))[:2]
        slots = tuple(range(first, first + len(ranges)))
        if name in ("argmax", "argmin"):
            return placed_where(name, value, keep, first)
        if name in ("any", "all"):
            start, function = name == "all", np.logical_and if name == "all" else np.logical_or
        else:
            start = least(value.dtype, name == "min") if name in ("max", "min") else 0
            function = {"max": np.maximum, "min": np.minimum}.get(name, np.add)
        dtype = sum_type(value.dtype) if name in ("sum", "mean") else value.dtype
        kept = np.where(keep, value, np.array(start).astype(value.dtype)).astype(dtype)
        whole = function.reduce(kept, axis=slots, keepdims=True, dtype=dtype, initial=start)
        if name == "mean":
            whole = whole / np.sum(keep, axis=slots, keepdims=True)
        return Array(whole)


def placed_where(name, value, keep, slot):
    """The first of the greatest that count; -1 where none does."""
    if value.shape[slot] == 0:
        return Array(np.full([1 if i == slot else n for i, n in enumerate(value.shape)], -1))
    best = np.full_like(np.take(value, [0], slot), 0)
    at = np.full(best.shape, -1)
    for i in range(value.shape[slot]):
        v, k = np.take(value, [i], slot), np.take(keep, [i], slot)
        wins = k & ((at < 0) | ((v > best) if name == "argmax" else (v < best)))
        best, at = np.where(wins, v, best), np.where(wins, i, at)
    return Array(at)


class Python(ast.NodeTransformer):
    """What Python has as jumps becomes calls and operators on arrays."""

    def visit_IfExp(self, node):
        self.generic_visit(node)
        return call("where", node.test, node.body, node.orelse)

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        op = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        value = node.values[0]
        for other in node.values[1:]:
            value = ast.BinOp(value, op, other)
        return value

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return ast.UnaryOp(ast.Invert(), node.operand) if isinstance(node.op, ast.Not) else node


def call(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


PREFIX = re.compile(r"\b(sum|max|min|mean|any|all|argmax|argmin)\((?=\w+ in )")
ENDS = re.compile(r"[-+<>=!,&|^]| if | else | and | or ")  # what such a body ends before


def closing(text, start, ends=None):
    """Where the parentheses around `start` close, or what `ends` matches stands outside of more."""
    depth = 0
    for at in range(start, len(text)):
        if depth == 0 and (text[at] in ")]" or ends and at > start and ends.match(text, at)):
            return at
        depth += (text[at] in "([") - (text[at] in ")]")
    return len(text)


def outside(text, separator):
    """The parts between separators that are in no parentheses."""
    parts, start = [], 0
    while start <= len(text):
        end = closing(text, start, re.compile(separator))
        parts.append(text[start:end])
        start = end + len(separator)
    return parts


def prefixed(text):
    """Prefix reductions as calls, with functions of their indices."""
    found = PREFIX.search(text)
    if not found:
        return text
    close = closing(text, found.end())
    over, *test = outside(text[found.end():close], " if ")
    end = closing(text, close + 2, ENDS)
    axes = [axis.split(" in ") for axis in outside(over, ", ")]
    ranges = [extent.split("..") if ".." in extent else ("0", extent) for _, extent in axes]
    of = f"lambda {', '.join(name for name, _ in axes)}: "
    counted = of + f"({prefixed(test[0])})" if test else "None"
    return (f"{text[:found.start()]}prefix({found[1]!r}, "
            f"[{', '.join(f'({low}, {high})' for low, high in ranges)}], {counted}, "
            f"{of}({prefixed(text[close + 1:end].strip())})) {prefixed(text[end:])}")


def value_of(text, names):
    text = re.sub(r"\((\w+)\[([^\[\]]*)\] else ([^()]+)\)", r"\1.read((\2,), \3)", text)
    tree = Python().visit(ast.parse(prefixed(text).strip(), mode="eval"))
    value = eval(compile(ast.fix_missing_locations(tree), text, "eval"), names)
    return value if isinstance(value, Array) else Array(value)


# ---- statements ----

def parsed(tokens):
    """Statements as texts, and as (head, body, otherwise)."""
    block = []
    while tokens and tokens[0] != "}":
        head = tokens.pop(0)
        if not tokens or tokens[0] != "{":
            block.append(head)
            continue
        bodies = []
        while tokens and tokens[0] == "{":
            tokens.pop(0)
            bodies.append(parsed(tokens))
            tokens.pop(0)
            if tokens and tokens[0] == "else":
                tokens.pop(0)
        block.append((head, bodies[0], bodies[1] if len(bodies) > 1 else []))
    return block


class Run:
    def __init__(self, p, names):
        self.p, self.names = p, names

    def value(self, text):
        return value_of(text, self.names)

    def axes(self, text):
        """j in M, k in N: the variables, each along an axis; their extents."""
        axes = [part.split(" in ") for part in text.split(", ")]
        for slot, (name, size) in enumerate(axes):
            self.names[name] = along(self.p.extent(size), slot)
        self.names["prefix"].slot = len(axes)
        return [self.p.extent(size) for _, size in axes]

    def whole(self, value, extents):
        return Array(np.broadcast_to(value.v, extents + [1] * (RANK - len(extents)))
                     .reshape(extents))

    def simple(self, text, mask):
        """Which lanes go on."""
        if text == "break":
            return np.zeros_like(mask)
        name, op, expression = re.fullmatch(
            r"(?:let |var )?(\w+(?:\[[^=]*\])?) ([-+*]?)= (.*)", text).groups()
        if "[" in name:
            self.store(name, expression)
        else:
            new = self.value(f"{name} {op} ({expression})" if op else expression)
            old = self.names.get(name)
            if isinstance(old, Array):
                new = Array(np.where(mask, new.v, old.v))
            self.names[name] = new
        return mask

    def store(self, name, expression):
        name, at = name[:-1].split("[", 1)
        if " in " in at:
            extents = self.axes(at)
            self.names[name] = self.whole(self.value(expression), extents)
            return
        result = next(v for v in self.p.results if v.name == name)
        extents = [self.p.extent(d) for d in result.dims]
        if at.split(", ")[0] not in self.names:
            self.axes(", ".join(f"{v} in {d}" for v, d in zip(at.split(", "), result.dims)))
        self.names[name] = self.whole(self.value(expression), extents)

    def run(self, block, mask):
        for statement in block:
            if isinstance(statement, str):
                mask = self.simple(statement, mask)
                continue
            head, body, otherwise = statement
            kind, rest = head.split(" ", 1)
            if kind == "parallel":
                self.axes(rest)
                self.run(body, np.array(True))
            elif kind == "if":
                c = self.value(rest).v
                mask = self.run(body, mask & c) | self.run(otherwise, mask & ~c)
            else:
                self.loop(kind, rest, body, mask)
        return mask

    def loop(self, kind, rest, body, live):
        if kind == "for":
            name, low, high = re.fullmatch(r"(\w+) in (.*)\.\.(.*)", rest).groups()
            self.names[name], end = Array(self.value(low).v.astype(np.int64)), self.value(high)
        while True:
            going = self.value(rest).v if kind == "while" else self.names[name].v < end.v
            live = live & going
            if not live.any():
                return
            live = self.run(body, live)
            if kind == "for":
                self.names[name] = Array(self.names[name].v + 1)


def evaluate(p, inputs, real=np.float64):
    """The results by name, and what is read and written; floats are computed in this type."""
    names = {**SCOPE, "prefix": Prefix(), **p.sizes, **p.defined,
             **{name: Array(v.astype(real) if v.dtype.kind == "f" else v)
                for name, v in inputs.items()},
             **{n: Array(np.array(value).astype(NUMPY[kind])) for n, kind, value in p.scalars}}
    tokens = [t.strip() for t in re.findall(r"[{}]|[^{}\n]+", "\n".join(p.body))]
    Run(p, names).run(parsed([t for t in tokens if t]), np.array(True))
    return {v.name: np.broadcast_to(names[v.name].v, [p.extent(d) for d in v.dims])
            for v in p.results + changed(p)}


def changed(p):
    return [v for v in p.params if v.dtype.startswith("inout")]


# ---- programs ----

KINDS = ["f32", "f32", "i32", "i64", "u32"]  # of compositions
SAMPLES = 6  # of what NumPy's f32 is off, beside that of the program's own inputs


def made(seed):
    """A program of integers and bools, or a composition; or None."""
    p = Program(seed)
    if p.rnd.random() < 0.5:
        compose.write(p, KINDS, [])
        return p
    for _ in range(p.rnd.choice([1, 1, 2, 3])):
        p.rnd.choice(STATEMENTS)(p)
    if not p.results:
        last = p.locals[-1]
        p.body.append(f"{p.result(last.dtype, last.dims).name} = {last.name}")
    text = "\n".join(p.body)
    wild = re.search(r"\bf\d|\bbf16|\b[iu]4\b", text)
    return None if wild or any(v.dtype not in NUMPY for v in p.params) else p


def data(p, rng, value):
    shape = [p.extent(d) for d in value.dims]
    name = value.dtype.split()[-1]
    if name in REAL:
        return rng.standard_normal(shape, dtype=REAL[name])
    dtype = NUMPY[name]
    if value.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    if value.data.startswith("small"):
        most = int(value.data.split()[1])
        odd = rng.integers(0, 20, shape) == 0
        return np.where(odd, rng.choice([-1, most + 1], shape),
                        rng.integers(0, most + 1, shape)).astype(dtype)
    low, high = (info.min, info.max) if value.data == "full" else (-5 * (info.min < 0), 9)
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def far_off(want, near):
    usual = np.isfinite(want) & np.isfinite(near)
    return np.max(np.abs(want - near), initial=0, where=usual) if want.dtype.kind == "f" else 0


def sampled(p, inputs, want, near):
    """By result: how far NumPy's f32 is off of its f64, at most: of these inputs, and of some
    beside them. A difference that comes to 0 is 0 by chance for some inputs."""
    rng = np.random.default_rng(p.seed)
    far = {key: far_off(want[key], near[key]) for key in want}
    for _ in range(SAMPLES):
        beside = {name: (v * rng.uniform(1 - 1e-6, 1 + 1e-6, v.shape)).astype(v.dtype)
                  if v.dtype.kind == "f" else v for name, v in inputs.items()}
        exact, single = evaluate(p, beside), evaluate(p, beside, np.float32)
        far = {key: max(far[key], far_off(exact[key], single[key])) for key in far}
    return far


def alike(got, want, near, far):
    """Bits of integers. Floats within `far`, many times over: where one order of sums is off by
    little another may be off by more."""
    if got.shape != want.shape:
        return False
    if want.dtype.kind != "f":
        return np.array_equal(got, want)
    usual = np.isfinite(want) & np.isfinite(near)
    most = np.max(np.abs(want), initial=0, where=usual)
    return not np.any(np.abs(got - want) > 64 * far + 1e-5 * most + 1e-30, where=usual)


def ready(seed):
    """A program whose sizes are all told, or None."""
    p = made(seed)
    if not p:
        return None
    p.declare_sizes()
    alone = {d for v in p.params + p.results for d in v.dims}
    for size in sorted(set(re.findall(r"[A-Z]", " ".join(" ".join(v.dims) for v in p.results)))):
        if size not in alone:  # a sum of two sizes says neither
            p.param("f32", (size,), "normal")
    return p


def problem(options, p):
    """What is wrong, or None."""
    rng = np.random.default_rng(p.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = folder / "k.tile"
        source.write_text(p.source())
        inputs = {v.name: data(p, rng, v) for v in p.params}
        command = [options.tessera, "run", str(source), "--device", options.device]
        for key, values in inputs.items():
            np.save(folder / f"{key}.npy", values)
            command.append(f"{key}={folder / key}.npy")
        command += [f"{name}={str(bool(value)).lower() if kind == 'bool' else value}"
                    for name, kind, value in p.scalars]
        for v in p.results + changed(p):
            command += ["-o", f"{v.name}={folder / v.name}.npy"]
        known = " ".join(" ".join(v.dims) for v in p.params)
        rest = [f"{k}={v}" for k, v in p.sizes.items()
                if not re.search(rf"\b{k}\b", known) and
                re.search(rf"\b{k}\b", " ".join(" ".join(v.dims) for v in p.results))]
        command += ["--size", ",".join(rest)] if rest else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr[-800:]}{p.source()}"
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # means of nothing
            want, near = evaluate(p, inputs), evaluate(p, inputs, np.float32)
            far = sampled(p, inputs, want, near)
            for key, value in want.items():
                got = np.load(folder / f"{key}.npy")
                if not alike(got, value, near[key], far[key]):
                    return f"{key} differs: {got}, not {value}\n{p.source()}"
    return None


def main():
    parser = suite.parser(__doc__, device="interp")
    parser.add_argument("--count", type=int, default=300, help="programs that are made")
    parser.add_argument("--first", type=int, default=1)
    options = suite.options_of(parser)
    integers_alone()

    def attempt(seed):
        p = ready(seed)
        return problem(options, p) if p else suite.LEFT_OUT
    return suite.run(options, range(options.first, options.first + options.count), attempt,
                     lambda seed: f"program {seed}")


def integers_alone():
    """Of what generate.py writes, in this process from now on."""
    for kinds in (program.FLOATS, program.HALVES, generate.STORED, generate.CONTROLLED,
                  lanes.VARIABLES):
        kinds[:] = [kind for kind in kinds if kind in NUMPY]
    generate.compute = lambda p: p.rnd.choice([*INTS, "bool"])


if __name__ == "__main__":
    sys.exit(main())
