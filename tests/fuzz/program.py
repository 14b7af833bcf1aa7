# SPDX-License-Identifier: Apache-2.0
"""A random program under construction: its sizes, parameters, results, statements and head."""

import dataclasses
import math
import random
import re

FLOATS = ["f32", "f64"]
HALVES = ["f16", "bf16"]
PACKED = ["i4", "u4"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
TAILS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129, 1000, 1031, 4097]
MOST = 5000          # elements of an array
MOST_PRODUCT = 30000  # of what is walked for one


@dataclasses.dataclass
class Value:
    """What has a name. tainted: within a bound only, so nothing may jump on it."""
    name: str
    dtype: str
    dims: tuple
    tainted: bool = False
    given: bool = False  # a parameter
    data: str = ""


class Program:
    def __init__(self, seed, light=False):
        self.rnd = random.Random(seed)
        self.seed = seed
        self.light = light
        self.sizes = {}
        self.defined, self.clauses = {}, []  # sizes that follow from others, and what `where` says
        self.params, self.results, self.locals = [], [], []
        self.functions, self.body = [], []
        self.assumes = []
        self.scalars = []
        self.names = 0
        self.pick_sizes()

    # ---- sizes ----

    def pick_sizes(self):
        left = 4096
        for name in "MNK"[:self.rnd.choice([1, 2, 2, 3])]:
            fitting = [s for s in TAILS if s <= max(left, 3)]
            weights = [0.15 if s == 0 else 0.6 if s == 1 else 1 for s in fitting]
            self.sizes[name] = self.rnd.choices(fitting, weights)[0]
            left //= max(self.sizes[name], 1)
        for name in ("P", "Q"):
            if self.rnd.random() < 0.4:
                self.sizes[name] = self.rnd.choice([1, 2, 3, 5, 7, 8])

    def extent(self, dim):
        return eval(re.sub(r"[A-Z]\w*", lambda m: str({**self.sizes, **self.defined}[m.group()]),
                           str(dim)))

    def elements(self, dims):
        return math.prod(self.extent(d) for d in dims)

    def dims(self, rank=None, most=MOST, ones=0.0, extra=()):
        """A shape of at most so many elements."""
        rank = self.rnd.choice([1, 1, 2, 2, 2, 3]) if rank is None else rank
        for _ in range(20):
            names = [*self.sizes, *extra]
            dims = tuple("1" if self.rnd.random() < ones else
                         "4" if self.rnd.random() < 0.04 else self.rnd.choice(names)
                         for _ in range(rank))
            if self.elements(dims) <= most:
                return dims
        return (min(self.sizes, key=self.sizes.get),) + ("1",) * (rank - 1)

    # ---- names ----

    def fresh(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def scope(self):
        return self.params + self.locals

    def param(self, dtype, dims, data="", io="in"):
        value = Value(self.fresh("x"), dtype, tuple(dims), False, True, data)
        if not data:
            kinds = ["", "", "", "special"] if dtype in FLOATS + HALVES else ["", "full", "special"]
            value.data = self.rnd.choice(kinds)
        if io == "inout":
            value.dtype = "inout " + dtype
        self.params.append(value)
        return value

    def scalar(self, dtype, value):
        name = self.fresh("n")
        self.scalars.append((name, dtype, value))
        return name

    def local(self, dtype, dims, text, tainted, declare="let"):
        name = self.fresh("t")
        self.body.append(f"{declare} {name} = {text}")
        value = Value(name, dtype, tuple(dims), tainted)
        self.locals.append(value)
        return value

    def result(self, dtype, dims):
        value = Value(self.fresh("y"), dtype, tuple(dims))
        self.results.append(value)
        return value

    def function(self, text):
        if text not in self.functions:
            self.functions.append(text)

    # ---- text ----

    def told_sizes(self):
        """What the shapes tell: K + M tells one of the two, and N * N does not tell N."""
        told = set(self.defined)
        extents = {d for v in self.params + self.results for d in v.dims}
        for _ in self.sizes:
            unknown = [[n for n in re.findall(r"[A-Z]\w*", d) if n not in told] for d in extents]
            told |= {names[0] for names in unknown if len(names) == 1}
        return told

    def declare_sizes(self):
        """What the program names is a size that its parameters or results tell."""
        shapes = [" ".join(v.dims) for v in self.params + self.results]
        text = "\n".join(self.body + shapes)
        for size in self.sizes:
            if re.search(rf"\b{size}\b", text) and size not in self.told_sizes():
                self.param("f32", (size,), "normal")

    def head(self, ways):
        shapes = " ".join(" ".join(v.dims) for v in self.params + self.results)
        lines = [f"size {n}={v}" for n, v in self.sizes.items() if re.search(rf"\b{n}\b", shapes)]
        lines += [f"data {v.name} {v.data}" for v in self.params if v.data]
        lines += [f"scalar {n}={v}" for n, _, v in self.scalars]
        lines += [f"seed {self.seed}"]
        if self.rnd.random() < 0.5:
            lines.append("any")
        return lines + [f"run {w}" for w in ways]

    def source(self):
        def typed(v):
            return f"{v.name}: {v.dtype}[{', '.join(v.dims)}]"
        params = [typed(v) for v in self.params] + [f"{n}: {t}" for n, t, _ in self.scalars]
        results = ", ".join(typed(v) for v in self.results)
        arrow = f" -> ({results})" if results else ""
        body = "\n".join("    " + line for line in "\n".join(self.assumes + self.body).split("\n"))
        functions = "".join(f + "\n" for f in self.functions)
        where = f" where {', '.join(self.clauses)}" if self.clauses else ""
        return f"{functions}kernel k({', '.join(params)}){arrow}{where} {{\n{body}\n}}\n"

    def text(self, name, ways):
        head = "".join(f"#: {line}\n" for line in [f"program {name}", *self.head(ways)])
        return head + self.source()
