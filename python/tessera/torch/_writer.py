# SPDX-License-Identifier: Apache-2.0
"""The text of a kernel, written call by call. An emitter is a function that has the expression of
one call's result; what it cannot say it refuses with `Uncovered`, and the call runs in torch.

Calls of f16 and bf16 compute in f32. Their results are rounded where they leave the kernel, where a
product of matrices, a comparison or a conversion of the program's takes them, and where an emitter
asks for the rounded value; what computes with them goes on with the f32 (`Rounded`), as torch's own
compiler does."""

import math
import operator
import re
from typing import Any, Callable, Dict

import torch

TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
         torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
         torch.uint8: "u8", torch.bool: "bool"}
NARROW = ("f16", "bf16")
MOST_AXES = 8  # of an array that is passed to a kernel

# Functions by the name of the overload, "aten.mul.Tensor".
_emitters: "Dict[str, Callable[..., Any]]" = {}


class Uncovered(Exception):
    """Why a call runs in torch."""


def emits(*names):
    """Registers a function (writer, node, *args, **named) for these overloads."""
    def register(function):
        for name in names:
            _emitters[name] = function
        return function
    return register


def covered():
    """The names of the overloads that there is an emitter for."""
    return sorted(_emitters)


def name_of(node):
    """"aten.mul.Tensor"."""
    return str(node.target)


class Rounded(str):
    """An expression of 16 bits, and the f32 that it rounds."""

    exact: str


def rounded(exact, dtype, text=None):
    """The f32 expression rounded to 16 bits; `text`: what else says so."""
    made = Rounded(text or f"{dtype}({exact})")
    made.exact = exact
    return made


def moved(value, text):
    """The array with its elements moved: `text` has {} for it. Rounded ones are moved then, so that
    what may be in memory has 16 bits."""
    made = text.format(value.text)
    if isinstance(value.text, Rounded):
        return rounded(text.format(value.text.exact), value.dtype, made)
    return made


class Value:
    """Of an operand: its text (a name, a number), its element type and its extents (texts), and
    whether it leaves the kernel."""

    def __init__(self, text, dtype, dims, leaves=False):
        self.text, self.dtype, self.dims, self.rank = text, dtype, dims, len(dims)
        self.leaves = leaves


# ---- numbers and sizes ----

def literal(number, dtype):
    """A number of Python's, in an expression of this type."""
    if dtype == "bool":
        return "true" if number else "false"
    if dtype[0] in "iu":
        return str(int(number))
    number = float(number)
    if math.isnan(number):
        return f"{dtype}(inf - inf)"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)


def negative(text):
    """In parentheses, if it is a number with a sign."""
    return f"({text})" if text.startswith("-") else text


class Sizes:
    """Symbolic sizes: those of torch (s77) are called n0, n1 … in the order in which they occur, so
    that regions that differ in nothing else have the same text."""

    def __init__(self):
        self.names = {}  # by symbol

    def text(self, size):
        if isinstance(size, int):
            return str(size)
        if isinstance(size, torch.fx.Node):
            size = size.meta["val"]
        return self._expression(size.node.expr if isinstance(size, torch.SymInt) else size)

    def _expression(self, expr):
        if getattr(expr, "is_Symbol", False):
            return self.names.setdefault(expr, f"n{len(self.names)}")
        if getattr(expr, "is_Integer", False):
            return str(int(expr)) if expr >= 0 else f"({int(expr)})"
        if isinstance(expr, int):
            return str(expr)
        parts = [self._expression(part) for part in getattr(expr, "args", ())]
        kind = type(expr).__name__
        if kind == "Add":
            return f"({' + '.join(parts)})"
        if kind == "Mul":
            return f"({'*'.join(parts)})"
        if kind == "Pow" and expr.args[1].is_Integer and 0 < expr.args[1] < 8:
            return f"({'*'.join([parts[0]] * int(expr.args[1]))})"
        if kind in ("FloorDiv", "CleanDiv"):
            return f"({parts[0]} // {parts[1]})"
        if kind in ("Mod", "PythonMod"):
            return f"({parts[0]} % {parts[1]})"
        raise Uncovered(f"the size {expr}")


def product(dims):
    """Of extents."""
    if all(d.isdigit() for d in dims):
        return str(math.prod(map(int, dims)))
    return "*".join(d for d in dims if d != "1")


def product_of_numbers(dims):
    return int(product(dims)) if all(d.isdigit() for d in dims) else None


# ---- writing ----

class Writer:
    """Of one kernel. `call` writes a call, `text` has the whole; `inputs` are the nodes that it
    takes, in order."""

    def __init__(self, outputs=()):
        """outputs: nodes whose results leave the kernel."""
        self.sizes, self.inputs, self.functions = Sizes(), [], {}
        self._leave = {node if node.target is not operator.getitem else tuple(node.args)
                       for node in outputs}
        self._lines, self._values, self._counts, self._params = [], {}, {}, []

    def tensor(self, node, required=True):
        """The value of an operand that is an array (or a scalar, where it has no axes)."""
        if not isinstance(node, torch.fx.Node):
            if required:
                raise Uncovered(f"an operand {node!r}")
            return None
        if node not in self._values:
            self._values[node] = self._parameter(node)
        found = self._values[node]
        if found is None or isinstance(found, tuple):
            raise Uncovered("a result that is not computed")
        return found

    def number(self, node, dtype):
        """The text of a number that the graph computes: a size, or a parameter."""
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            try:
                return cast(self.sizes.text(node), "i64", dtype)
            except Uncovered:
                pass
        elif not isinstance(value, torch.SymFloat):
            raise Uncovered("a number that is not known")
        if node not in self._values:
            name = f"x{len(self.inputs)}"
            kind = "f64" if isinstance(value, torch.SymFloat) else "i64"
            self.inputs.append(node)
            self._params.append(f"{name}: {kind}")
            self._values[node] = Value(name, kind, [])
        found = self._values[node]
        return cast(found.text, found.dtype, dtype)

    def described(self, tensor, text):
        """A value that is as this tensor is."""
        if not isinstance(tensor, torch.Tensor):
            raise Uncovered(f"a value of type {type(tensor).__name__}")
        if tensor.dtype not in TYPES:
            raise Uncovered(f"the type {str(tensor.dtype).split('.')[-1]}")
        if tensor.layout != torch.strided:
            raise Uncovered("a sparse tensor")
        if tensor.dim() > MOST_AXES:
            raise Uncovered(f"{tensor.dim()} axes")
        return Value(text, TYPES[tensor.dtype], [self.sizes.text(n) for n in tensor.shape])

    def _parameter(self, node):
        name = f"x{len(self.inputs)}"
        value = self.described(node.meta["val"], name)
        self.inputs.append(node)
        self._params.append(f"{name}: {value.dtype}[{', '.join(value.dims) or '1'}]")
        if not value.rank:
            value.text += "[0]"
        return value

    def let(self, expression, what, dtype, dims):
        """Names a part of what is computed."""
        self._counts[what] = self._counts.get(what, 0) + 1
        name = f"{what}_{self._counts[what]}"
        self._lines.append(f"let {name} = {expression}")
        return Value(name, dtype, list(dims))

    def let_several(self, expression, whats):
        """Names the parts of a tuple."""
        names = []
        for what in whats:
            self._counts[what] = self._counts.get(what, 0) + 1
            names.append(f"{what}_{self._counts[what]}")
        self._lines.append(f"let ({', '.join(names)}) = {expression}")
        return names

    def by_index(self, what, dims, body, dtype, names=None):
        """An array by its indices: body(names of them) is one element."""
        self._counts[what] = self._counts.get(what, 0) + 1
        name = f"{what}_{self._counts[what]}"
        names = names or [f"i{k}" for k in range(len(dims))]
        axes = ", ".join(f"{i} in {d}" for i, d in zip(names, dims))
        self._lines.append(f"let {name}[{axes}] = {body(*names)}")
        return Value(name, dtype, list(dims))

    def function(self, name, text):
        """One of the program beside the kernel."""
        self.functions[name] = text

    def call(self, node):
        """Writes a call, or raises Uncovered."""
        if node.target is operator.getitem:
            whole = self._values.get(node.args[0])
            if not isinstance(whole, tuple):
                raise Uncovered("a part of what runs in torch")
            self._values[node] = whole[node.args[1]]
            return
        emit = _emitters.get(name_of(node))
        if emit is None:
            raise Uncovered("no text for it")
        result = node.meta.get("val")
        if isinstance(result, (tuple, list)):
            made = emit(self, node, *node.args, **node.kwargs)
            self._values[node] = tuple(
                part if part is None or isinstance(part, Value) else
                self._named(node, part, one, (node, k) in self._leave)
                for k, (part, one) in enumerate(zip(made, result)))
        else:
            self.described(result, "")
            made = emit(self, node, *node.args, **node.kwargs)
            self._values[node] = made if isinstance(made, Value) else \
                self._named(node, made, result, node in self._leave)

    def _named(self, node, expression, result, leaves):
        value = self.described(result, "")
        what = name_of(node).split(".")[1].lstrip("_")
        if isinstance(expression, Rounded):
            exact, casts = expression.exact, expression == f"{value.dtype}({expression.exact})"
            if not exact.isidentifier():
                exact = self.let(exact, what, "f32", value.dims).text
            text = f"{value.dtype}({exact})" if casts else str(expression)
            if leaves or not casts:  # it is there once
                text = self.let(text, f"{what}_rounded", value.dtype, value.dims).text
            return Value(rounded(exact, value.dtype, text), value.dtype, value.dims, leaves)
        if expression.isidentifier() and expression not in ("inf", "true", "false"):
            return Value(expression, value.dtype, value.dims)
        return self.let(expression, what, value.dtype, value.dims)

    def text(self, name, outputs, about):
        """The program. about: lines of its comment."""
        results, ends = [], []
        for i, node in enumerate(outputs):
            value = self.tensor(node)
            results.append(f"y{i}: {value.dtype}[{', '.join(value.dims) or '1'}]")
            ends.append(f"y{i}{'' if value.rank else '[:]'} = {value.text}")
        where = ", ".join(f"{n} >= {least}" for n, least in self._bounds())
        head = f"kernel {name}({_wrapped(self._params)})\n    -> ({_wrapped(results)})" + \
            (f"\n    where {where}" if where else "")
        lines = "".join(f"    {line}\n" for line in [*_read_later(self._lines, ends), *ends])
        comment = "".join(f"# {line}\n" for line in about)
        return comment + "".join(self.functions.values()) + f"{head} {{\n{lines}}}\n"

    def _bounds(self):
        """What torch knows of the sizes: where it compiles for any, it is at least 2."""
        for symbol, name in self.sizes.names.items():
            yield name, 2 if symbol.is_positive else 0


def _wrapped(parts, width=100):
    lines = [""]
    for i, part in enumerate(parts):
        part += "," if i < len(parts) - 1 else ""
        if lines[-1] and len(lines[-1]) + len(part) > width - 12:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + part
    return "\n            ".join(lines)


# ---- what emitters share ----

def element_type(node):
    """Of the result of a call."""
    dtype = node.meta["val"].dtype
    if dtype not in TYPES:
        raise Uncovered(f"the type {str(dtype).split('.')[-1]}")
    return TYPES[dtype]


def cast(text, of, to):
    """An expression of one type as one of another."""
    if of == to:
        return text
    if to == "bool":
        return f"({text} != 0)"
    if of in NARROW and to == "f32" and isinstance(text, Rounded):
        return text.exact
    return rounded(text, to) if of == "f32" and to in NARROW else f"{to}({text})"


def wide(value):
    """An operand in the type that sums of it have: f32, f64; integers i64. What leaves the kernel
    is in memory, rounded, and summed from there."""
    if value.dtype in NARROW:
        return cast(str(value.text) if value.leaves else value.text, value.dtype, "f32")
    return value.text if value.dtype in ("f32", "f64") else cast(value.text, value.dtype, "i64")


def wide_type(dtype):
    return "f32" if dtype in NARROW or dtype == "f32" else "f64" if dtype == "f64" else "i64"


def axis_of(axis, rank):
    if not isinstance(axis, int):
        raise Uncovered("an axis that is not known")
    return axis + rank if axis < 0 else axis


def dims_of(writer, node):
    """The extents of the result of a call."""
    return [writer.sizes.text(n) for n in node.meta["val"].shape]


def _read_later(lines, ends):
    """Without the values that no later line reads, such as the second result of a call."""
    kept, read = [], set(re.findall(r"\w+", " ".join(ends)))
    for line in reversed(lines):
        names = re.findall(r"\w+", line.split("=")[0].split("[")[0])[1:]  # behind `let`
        if read.intersection(names):
            kept.insert(0, line)
            read.update(re.findall(r"\w+", line.split("=", 1)[1]))
    return kept
