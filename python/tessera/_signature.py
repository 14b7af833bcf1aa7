# SPDX-License-Identifier: Apache-2.0
"""The parameters of a kernel, and the conversion of their arguments."""

import operator

from . import _abi, _arrays
from ._abi import INOUT, OUT, UsageError

NO_DEFAULT = object()
REST = "..."  # of any rank: instead of its first axis, `d0`
FLOATS = {"f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"}
plain = {bool, int, float}  # types that are numbers without further checks


class Parameter:
    """A parameter as the source declares it; `rank` -1 is a number."""

    def __init__(self, param):
        self.name, self.type, self.rank = param.name.decode(), param.type.decode(), param.rank
        self.dims = _abi.names(param.dims, max(param.rank, 0))
        self.io, self.is_const = param.io, param.is_const
        self.fallback = param.fallback.decode() if param.fallback else None

    def __str__(self):
        shape = f"[{', '.join(self.dims)}]" if self.rank >= 0 else ""
        return ("const " if self.is_const else "inout " if self.io == INOUT else "") \
            + self.type + shape

    def default(self):
        """Of a const parameter, as Python has it; NO_DEFAULT."""
        if not self.is_const or self.fallback is None:
            return NO_DEFAULT
        values = {"true": True, "false": False}
        if self.fallback in values:
            return values[self.fallback]
        for convert in (int, float):
            try:
                return convert(self.fallback)
            except ValueError:
                pass
        return self.fallback


class Parameters:
    """Those of a kernel, and how Python's arguments become theirs."""

    def __init__(self, signature):
        params = [Parameter(signature.params[i]) for i in range(signature.n_params)]
        if signature.any_rank:
            for p in params:
                p.dims = [REST if dim == "d0" else dim for dim in p.dims]
        self.kernel = signature.name.decode()
        self.inputs = [p for p in params if p.io != OUT]
        self.outputs = [p for p in params if p.io == OUT]
        self.generics = _abi.names(signature.generics, signature.n_generics)
        self.sizes = _abi.names(signature.sizes, signature.n_sizes)
        self.launched = [p for p in params if not p.is_const]

    def python(self):
        """As `inspect` has it."""
        import inspect
        names = [p.name for p in self.inputs]
        free = [n for n in self.generics + self.sizes if n not in names]
        taken = {"out", "stream"} & set(names + free)
        kind = inspect.Parameter.POSITIONAL_ONLY if taken else \
            inspect.Parameter.POSITIONAL_OR_KEYWORD
        found, optional = [], False
        for p in self.inputs:
            default = p.default()
            optional = optional or default is not NO_DEFAULT
            if default is NO_DEFAULT:
                default = None if optional else inspect.Parameter.empty
            found.append(inspect.Parameter(p.name, kind, annotation=str(p), default=default))
        for name in [*dict.fromkeys(free), "out", "stream"]:
            if name not in names:
                found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
        returns = tuple(str(p) for p in self.outputs)
        return inspect.Signature(found, return_annotation=returns[0] if len(returns) == 1
                                 else returns)

    def check_names(self, named, keywords):
        """Raises an error, with the nearest name, for a name that is not a parameter. keywords:
        those of the calling function."""
        known = [*dict.fromkeys([*[p.name for p in self.inputs], *self.generics, *self.sizes])]
        for name in named:
            if name not in known:
                raise TypeError(f"{self.kernel} has no parameter '{name}'"
                                + instead_of(name, [*known, *keywords]))

    def bind(self, args, named, keywords=()):
        """The arguments in order, None for const parameters without a value, and the other named
        values."""
        values = list(args)
        if len(values) > len(self.inputs):
            raise TypeError(f"{self.kernel} takes {len(self.inputs)} arguments, not {len(values)}")
        self.check_names(named, keywords)
        for p in self.inputs[len(values):]:
            if p.name in named:
                values.append(named.pop(p.name))
            elif p.is_const:
                values.append(None)
            else:
                raise TypeError(f"{self.kernel}: '{p.name}' is missing")
        taken = {p.name for p in self.inputs}
        for name in named:
            if name in taken:
                raise TypeError(f"{self.kernel}: '{name}' is given twice, in its place and by name")
        return values, self.whole_sizes(named)

    def whole_sizes(self, named, keywords=()):
        """What is given by name and is no input; sizes are whole numbers."""
        self.check_names(named, keywords)
        return {n: whole_number(f"{self.kernel}: the size {n}", v) if n in self.sizes else v
                for n, v in named.items() if v is not None}

    def fact(self, name, given):
        """(multiple, min, max) of a size; 0 if there is no such fact."""
        if name not in self.sizes:
            raise UsageError(f"{self.kernel} has no size '{name}'" + instead_of(name, self.sizes))
        parts = tuple(given) if isinstance(given, (tuple, list)) else (given, 0, 0)
        if len(parts) != 3:
            raise UsageError(f"{self.kernel}: a fact of {name} is a multiple, or (multiple, least, "
                             f"most), not {given!r}")
        return tuple(whole_number(f"{self.kernel}: a fact of {name}", part) for part in parts)

    def results(self, out):
        """Those of out=, None for each that is to be made."""
        if out is None:
            return [None] * len(self.outputs)
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != len(self.outputs):
            raise TypeError(f"{self.kernel} has {len(self.outputs)} results, out= has {len(given)}")
        return given


def instead_of(name, names):
    """What to say after "there is no `name`"."""
    import difflib
    by_letters = {n.lower(): n for n in reversed(names)}
    near = difflib.get_close_matches(name.lower(), by_letters, 1)
    return f": did you mean '{by_letters[near[0]]}'?" if near else \
        f": by name there are {', '.join(names)}"


# ---- numbers ----

def whole_number(what, value):
    """A size, or a fact about one."""
    number = None
    if not isinstance(value, bool) and not isinstance(value, str) and \
            _arrays.is_number(value) and type(value).__name__ not in ("bool", "bool_"):
        try:
            number = operator.index(value)
        except TypeError:
            number = int(value) if float(value).is_integer() else None
    if number is None or not -(1 << 63) <= number < 1 << 63:
        raise UsageError(f"{what} is a whole number of 64 bits, not {value!r}")
    return number

def check_number(kernel, param, value):
    """What is no number at first sight may be one, as NumPy's are; an array never is."""
    if type(value) not in plain and not _arrays.is_number(value):
        raise TypeError(f"{kernel}: '{param.name}' is {param}, a number, not "
                        f"{_arrays.words_of(value)}")


def span_of(dtype):
    """The least and the greatest of an integer type."""
    if dtype == "bool":
        return 0, 1
    bits = int(dtype[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)


def number_of(kernel, param, dtype, value):
    """A number as the library takes one of this type: (float, 64 bits)."""
    check_number(kernel, param, value)
    if dtype in FLOATS:
        try:
            return float(value), 0
        except OverflowError:
            raise UsageError(f"{kernel}: '{param.name}' is {dtype}: {value} is too large") from None
    whole = whole_of(kernel, param, dtype, value)
    return 0.0, whole - (1 << 64) if whole >= 1 << 63 else whole


def whole_of(kernel, param, dtype, value):
    try:
        whole = operator.index(value)
    except TypeError:
        whole = int(value) if float(value).is_integer() else None
    low, high = span_of(dtype)
    if whole is None or not low <= whole <= high:
        raise UsageError(f"{kernel}: '{param.name}' is {dtype}, of which there are {low} to "
                         f"{high}: not {value}")
    return whole
