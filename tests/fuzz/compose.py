# SPDX-License-Identifier: Apache-2.0
"""Random compositions: what whole models are made of, one layer behind the other. Products (of
extents 1, with square weights, of a value with itself), what is multiplied read again behind the
product, norms in chains, residuals, sums over shared deep expressions, conditions under sums, one
size on several axes, five axes and more, windows whose extents are quotients, parameters that are
read and written, several results of shared values.

A value of a composition may be within a bound only, so nothing here jumps on one: conditions are of
indices and of parameters."""

import dataclasses

from program import HALVES, MOST, MOST_PRODUCT, Value

FLOATS = ["f32", "f64"]

SHORT = [1, 2, 3, 4, 5, 7, 8]
LONG = [12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 70, 96, 130]
SMOOTH = ["tanh", "sigmoid", "silu", "softplus", "relu", "abs", "sin", "elu", "leaky_relu",
          "softsign", "hardswish", "square", "exp"]
SINGLE = ["gelu", "gelu_tanh", "mish"]  # of f32
WHOLE = ["relu", "abs", "-", "square", "~"]
BINARY = ["+", "-", "*", "min", "max"]
MAX_AXES = 6


@dataclasses.dataclass
class Net:
    """A composition: its program, the element type, and what it has named."""
    p: object
    dtype: str
    halves: list  # the narrow types of its parameters and results
    live: list = dataclasses.field(default_factory=list)

    @property
    def smooth(self):
        return self.dtype in FLOATS

    def chance(self, share):
        return self.p.rnd.random() < share

    def given(self, dims, narrow=0.2):
        """A parameter, or one that is there already."""
        p, dims = self.p, tuple(dims)
        found = [v for v in p.params if v.dims == dims and not v.dtype.startswith("inout") and
                 (v.dtype == self.dtype or self.smooth and v.dtype in self.halves)]
        if found and (self.chance(0.4) or len(p.params) > 7):
            return p.rnd.choice(found).name
        kind = self.dtype
        if self.halves and self.chance(narrow):
            kind = p.rnd.choice(self.halves)
        return p.param(kind, dims, "normal" if self.smooth else "").name

    def name(self, text, dims):
        value = self.p.local(self.dtype, dims, text, self.smooth)
        self.live.append(value)
        return value

    def let(self, text, dims):
        """The value under a name, if it is no name, so that it may be read twice."""
        return Value(text, self.dtype, dims) if text.isidentifier() else self.name(text, dims)

    def like(self, dims):
        """A value of that shape, old if there is one."""
        old = [v for v in self.live if v.dims == tuple(dims)]
        return self.p.rnd.choice(old).name if old and self.chance(0.7) else self.given(dims)

    def extent(self, size):
        return self.p.extent(size)

    def fits(self, *dims):
        return self.p.elements(dims) <= MOST

    def pick(self, *besides):
        return self.p.rnd.choice([*self.p.sizes, *besides])


def pick_sizes(p):
    """Few sizes, so that one stands on several axes; of them one or two long."""
    p.sizes.clear()
    for name in "MNKD"[:p.rnd.choice([1, 2, 2, 3, 4])]:
        long = p.rnd.random() < 0.55 and sum(e > 8 for e in p.sizes.values()) < 2
        p.sizes[name] = p.rnd.choice(LONG if long else SHORT) if p.rnd.random() < 0.97 else 0


def start(p, kinds, halves):
    dtype = p.rnd.choice(kinds)
    net = Net(p, dtype, halves if dtype == "f32" else [])
    rank = p.rnd.choice([1, 2, 2, 2, 2, 2, 2, 3, 3, 4, 5, 6])
    if rank > 3:
        for name in p.sizes:
            p.sizes[name] = min(p.sizes[name], p.rnd.choice([1, 2, 3, 4, 5]))
    dims = p.dims(rank=rank, ones=0.06)
    net.live.append(Value(net.given(dims), net.dtype, tuple(dims), given=True))
    return net


# ---- steps: of a value's text and shape, the next value's text and shape, or None ----

def active(net, text, dims=()):
    name = net.p.rnd.choice(WHOLE if not net.smooth else SMOOTH + SINGLE * (net.dtype == "f32"))
    if name in ("exp", "square") and net.smooth:
        text = f"tanh({text})"  # chains of them leave the numbers
    if net.dtype == "u32" and name in ("abs", "-"):
        name = "~"
    return f"({name}{text})" if name in "-~" else f"{name}({text})"


def gated(net, text):
    """What is between -1 and 1, or small."""
    if net.smooth:
        return f"{net.p.rnd.choice(['sigmoid', 'tanh', 'sigmoid', 'softsign'])}({text})"
    return net.p.rnd.choice([f"clamp({text}, 1, 9)", f"({text} & 15)"])


def bounded(net, text, dims):
    """A divisor."""
    return f"(1 + abs({text}))" if net.dtype != "u32" else f"(1 + ({text} & 63))"


def quotient(net, a, b):
    return f"({a} {'/' if net.smooth else '//'} {b})"


def step_active(net, x, dims):
    return active(net, x.name), dims


def step_both(net, x, dims):
    """With a value, a weight or a number."""
    way = net.p.rnd.randrange(4)
    if way == 0:
        other = net.p.rnd.choice(["0.5", "1.5", "-0.25"] if net.smooth else ["2", "7"])
    elif way == 1:
        other = net.given(dims[net.p.rnd.randrange(len(dims)):])
    else:
        other = net.like(dims)
    op = net.p.rnd.choice(BINARY)
    if op in ("min", "max"):
        return f"{op}({x.name}, {other})", dims
    return f"({x.name} {op} {other})", dims


def weight(net, k, n):
    """Text of an array [k, n]: a parameter, its transpose, or what was computed."""
    old = [v for v in net.live if v.dims == (k, n)]
    if old and net.chance(0.3):
        return net.p.rnd.choice(old).name
    if net.chance(0.35):
        return f"{net.given((n, k))}.T"
    return net.given((k, n))


def step_product(net, x, dims):
    """Square weights often, one column now and then."""
    if len(dims) < 2:
        return None
    k = dims[-1]
    n = net.p.rnd.choice([k, k, net.pick(), net.pick(), "1"])
    out = (*dims[:-1], n)
    if net.p.elements((*dims, n)) > MOST_PRODUCT or not net.fits(*out) or not net.fits(k, n):
        return None
    left = active(net, x.name) if net.chance(0.3) else x.name
    right = weight(net, k, n)
    if net.chance(0.15):
        right = f"({active(net, right)})"
    text = f"{left} @ {right}"
    if net.chance(0.3):
        text = f"{text} + {net.given((n,))}"
    return f"({text})", out


def step_gram(net, x, dims):
    """A value with itself."""
    if len(dims) < 2:
        return None
    m, k = dims[-2:]
    left, right, size = (x.name, f"{x.name}.T", m) if net.chance(0.6) else \
        (f"{x.name}.T", x.name, k)
    if net.p.elements((*dims, size)) > MOST_PRODUCT or not net.fits(*dims[:-2], size, size):
        return None
    if net.chance(0.4):
        f = active(net, x.name)
        left, right = (f, f"{f}.T") if size == m else (f"{f}.T", f)
    return f"({left} @ {right}{' * 0.125' if net.smooth else ''})", (*dims[:-2], size, size)


def step_again(net, x, dims):
    """What a product reads, read again behind it along the axis that is summed."""
    if len(dims) < 2:
        return None
    m, k = dims[-2:]
    v, rnd = x.name, net.p.rnd
    if m == "1" or rnd.random() < 0.1 and m == k:
        return quotient(net, v, bounded(net, f"({v} @ {v}.T)", dims)), dims
    if net.p.elements((*dims, k)) > MOST_PRODUCT or not net.fits(k, k):
        return None
    ways = [lambda: f"{v} * {gated(net, f'({v} @ {weight(net, k, k)})')}",
            lambda: f"{v} * {gated(net, f'({v} @ {net.given((k, chr(49)))})')}",
            lambda: f"{v} + {gated(net, f'({v} @ {net.given((k, chr(49)))})')}"]
    y = net.given((k,))
    ways += [lambda: f"{v} - ({v} @ {y}[:, None]) * {y}",
             lambda: f"{v} - sum({v} * {y}, axis=-1) * {y}",
             lambda: f"{v} - {v} @ ({y}[:, None] * {y}[None, :])"]
    return f"({rnd.choice(ways)()})", dims


def step_centred(net, x, dims):
    """Rows of weights times the value, and the value less that."""
    if len(dims) != 2:
        return None
    m, k = dims
    w = net.given(("1", m))
    c = net.let(f"{w} @ {x.name}", ("1", k))
    return f"({c.name} - {x.name})", dims


def step_norm(net, x, dims):
    v, rnd = x.name, net.p.rnd
    axis = rnd.choice([len(dims) - 1, len(dims) - 1, rnd.randrange(len(dims))])
    sign = rnd.choice([axis, axis - len(dims)])
    if not net.smooth:
        return rnd.choice([f"({v} - max({v}, axis={sign}))",
                           f"({v} * (sum({v} * {v}, axis={sign}) & 7))",
                           quotient(net, v, bounded(net, f"sum({v}, axis={sign})", dims))]), dims
    last = net.given(dims[-1:])
    ways = [f"rms_norm({v}, {last})", f"layer_norm({v}, {last}, {net.given(dims[-1:])}, eps=0.1)",
            f"softmax({v}, axis={sign})", f"l2_normalize({v} + 2, axis={sign})",
            f"({v} - mean({v}, axis={sign}))", f"({v} - logsumexp({v}, axis={sign}))",
            f"({v} * rsqrt(mean({v} * {v}, axis={sign}) + 1.0))",
            f"({v} / (1.0 + sum(abs({v}), axis={sign})))",
            f"(({v} - mean({v}, axis={sign})) / sqrt(var({v}, axis={sign}) + 0.5))",
            f"({v} * sum({v} * {last}, axis=-1))"]
    if len(dims) == 3 and dims[2] != "1":
        ways.append(f"instance_norm({v}, {last}, {last}, eps=0.1)")
    return rnd.choice(ways), dims


def step_chain(net, x, dims):
    """The same norm and function several times."""
    for _ in range(net.p.rnd.choice([2, 3, 4])):
        x = net.name(step_norm(net, Value(active(net, x.name), net.dtype, dims), dims)[0], dims) \
            if net.chance(0.6) else net.name(step_norm(net, x, dims)[0], dims)
    return x.name, dims


def step_layers(net, x, dims):
    """Two products with a function between, and what went in added."""
    if len(dims) < 2:
        return None
    k = dims[-1]
    h = net.p.rnd.choice([k, net.pick()])
    if net.p.elements((*dims, h)) > MOST_PRODUCT or not net.fits(*dims[:-1], h) or \
            not net.fits(k, h):
        return None
    inner = active(net, f"{x.name} @ {weight(net, k, h)}")
    if net.chance(0.5):
        inner = net.let(inner, (*dims[:-1], h)).name
        inner = step_norm(net, Value(inner, net.dtype, (*dims[:-1], h)), (*dims[:-1], h))[0]
    text = f"{inner} @ {weight(net, h, k)}"
    return f"({x.name} + {text})" if net.chance(0.7) else f"({text})", dims


def step_attention(net, x, dims):
    """Scores of rows against rows, and the rows again."""
    if len(dims) < 2 or not net.smooth:
        return None
    m, k = dims[-2:]
    if net.p.elements((*dims, m)) > MOST_PRODUCT or not net.fits(*dims[:-2], m, m):
        return None
    scores = f"{x.name} @ {x.name}.T * 0.25"
    if net.chance(0.3):
        scores = f"tril({scores})"
    return f"(softmax({scores}) @ {x.name})", dims


def step_outer(net, x, dims):
    """Each element with each of an axis."""
    axis = net.p.rnd.randrange(len(dims))
    if not net.fits(*dims, dims[axis]) or len(dims) > 4:
        return None
    if net.chance(0.5) and net.smooth:
        x = net.let(active(net, x.name), dims)
    first = ", ".join([":"] * (axis + 1) + ["None"] + [":"] * (len(dims) - axis - 1))
    second = ", ".join([":"] * axis + ["None"] + [":"] * (len(dims) - axis))
    op = net.p.rnd.choice("+-*")
    text = f"{x.name}[{first}] {op} {x.name}[{second}]"
    out = (*dims[:axis], dims[axis], *dims[axis:])
    if net.chance(0.3):
        return f"{net.p.rnd.choice(['triu', 'tril'])}({text})", out
    return f"({text})", out


def step_view(net, x, dims):
    v, rnd, rank = x.name, net.p.rnd, len(dims)
    axis = rnd.randrange(rank)
    way = rnd.randrange(8)
    if way == 0 and rank > 1:
        return f"{v}.T", (*dims[:-2], dims[-1], dims[-2])
    if way == 1 and rank > 1:
        order = rnd.sample(range(rank), rank)
        return f"permute({v}, {order})", tuple(dims[i] for i in order)
    if way == 2 and rank > 1:
        return f"{rnd.choice(['triu', 'tril'])}({v})", dims
    if way == 3 and rank < MAX_AXES and net.fits("3", *dims):
        at = rnd.randrange(rank + 1)
        parts = ", ".join(rnd.choice([v, v, net.like(dims)]) for _ in range(3))
        return f"stack([{parts}], axis={at})", (*dims[:at], "3", *dims[at:])
    if way == 4 and net.fits("2", *dims):
        other = rnd.choice([v, net.like(dims)])
        joined = f"2 * {dims[axis]}" if dims[axis].isalnum() else f"2 * ({dims[axis]})"
        return f"concat([{v}, {other}], axis={axis})", (*dims[:axis], joined, *dims[axis + 1:])
    if way == 5:
        return f"flip({v}, axis={axis})", dims
    if way == 6 and rank < MAX_AXES:
        at = rnd.randrange(rank + 1)
        return (f"{v}[{', '.join('None' if i == at else ':' for i in range(rank + 1))}]",
                (*dims[:at], "1", *dims[at:]))
    return f"roll({v}, {rnd.choice([1, -1])}, axis={axis})", dims


def step_reduced(net, x, dims):
    v, rnd = x.name, net.p.rnd
    axis = rnd.randrange(len(dims))
    names = ["sum", "max", "min", "mean", "var"] if net.smooth else ["sum", "max", "min"]
    if rnd.random() < 0.5 or len(dims) == 1:
        text = f"{rnd.choice(names)}({v}, axis={axis})"
        return text, (*dims[:axis], "1", *dims[axis + 1:])
    at = ", ".join("0" if i == axis else ":" for i in range(len(dims)))
    return f"{rnd.choice(names)}({v}, axis={axis})[{at}]", (*dims[:axis], *dims[axis + 1:])


def step_sorted(net, x, dims):
    """Sorted rows: of parameters, where no bound may change their order."""
    if net.extent(dims[-1]) > 40 or not net.fits("3", *dims) or len(dims) > 3:
        return None
    x, y = net.given(dims), net.given(dims)
    text = net.p.rnd.choice([x, f"stack([{x}, {x}, {y}], axis=0)",
                             f"stack([{x}, {y}, {x}], axis=0)"])
    return f"sort({text})", (("3", *dims) if text[:5] == "stack" else dims)


# ---- index notation ----

def data_bound(net, axes):
    """The bound of a range: one number from data, or one for each place along an axis."""
    over = net.p.rnd.sample(axes, 1) if axes and net.chance(0.7) else []
    most = net.p.rnd.choice([3, 9])
    bound = net.p.param(net.p.rnd.choice(["i32", "i64"]), [d for _, d in over] or ["2"],
                        f"small {most}")
    return f"{bound.name}[{', '.join(v for v, _ in over) or '1'}]"


def condition(net, axes, k):
    """Of the axis `k` that is summed, beside the others: indices and parameters."""
    p = net.p
    if net.chance(0.35) and axes:
        other = p.rnd.choice([v for v, _ in axes])
        return p.rnd.choice([f"{k[0]} <= {other}", f"{k[0]} != {other}", f"{other} < {k[0]}",
                             f"{k[0]} + {other} > 2", f"{k[0]} // 2 == {other} // 2"])
    if net.chance(0.3):
        return p.rnd.choice([f"{k[0]} % 2 == 0", f"{k[0]} > 1", f"{k[0]} < 3"])
    if net.chance(0.3):
        end = data_bound(net, axes)
        return p.rnd.choice([f"{k[0]} < {end}", f"{k[0]} >= {end}", f"not ({k[0]} < {end})",
                             f"{end} <= {k[0]} and {k[0]} < {data_bound(net, axes)}"])
    over = [k, *(p.rnd.sample(axes, 1) if axes and net.chance(0.5) else [])]
    if net.chance(0.3) and all(d in p.sizes for _, d in over):
        return f"{p.param('bool', [d for _, d in over]).name}[{', '.join(v for v, _ in over)}]"
    mask = p.param("i32", [d for _, d in over], "small 3")
    return f"({mask.name}[{', '.join(v for v, _ in over)}] {p.rnd.choice(['> 0', '< 2', '== 1'])})"


def summed(net, axes, k, body):
    test = f" if {condition(net, axes, k)}" if net.chance(0.45) else ""
    names = ["sum", "sum", "sum", "max", "min"] + (["mean"] if net.smooth and test == "" else [])
    return f"({net.p.rnd.choice(names)}({k[0]} in {k[1]}{test}) {body})"


def step_indexed(net, x, dims):
    """One axis summed with a weight, under a condition or not; the others kept, in any order."""
    p = net.p
    axes = [(p.fresh("j"), d) for d in dims]
    if len(dims) > 5:
        return None
    k = axes[p.rnd.randrange(len(axes))]
    rest = [a for a in axes if a is not k]
    kept = list(rest)
    if net.chance(0.7):
        n = net.p.rnd.choice([k[1], net.pick()])
        kept.append((p.fresh("j"), n))
    if net.chance(0.4):
        p.rnd.shuffle(kept)
    if not kept or p.elements([d for _, d in [*kept, k]]) > MOST_PRODUCT or \
            not net.fits(*(d for _, d in kept)):
        return None
    body = f"{x.name}[{', '.join(v for v, _ in axes)}]"
    if len(kept) > len(rest):
        new = next(a for a in kept if a not in rest)
        over = [k, new, *[a for a in rest if net.chance(0.15)]]
        p.rnd.shuffle(over)
        if not net.fits(*(d for _, d in over)):
            return None
        body = f"{body} * {element(net, over)}"
    elif net.chance(0.5):
        body = f"{body} * {element(net, [k])}"
    else:
        body = f"{body} * {body}"
    text = summed(net, kept, k, f"({body})" if " " in body and "*" not in body else body)
    if net.chance(0.25) and set(rest) <= set(kept) and len(kept) > len(rest):
        text = f"{text} + {element(net, kept)}"
    return bound_to(net, kept, text)


def element(net, axes):
    """Of a value over these axes."""
    return f"{net.like([d for _, d in axes])}[{', '.join(v for v, _ in axes)}]" \
        if net.smooth or net.chance(0.9) else net.p.rnd.choice(["2", "3"])


def bound_to(net, axes, text):
    name, p = net.p.fresh("t"), net.p
    p.body.append(f"let {name}[{', '.join(f'{v} in {d}' for v, d in axes)}] = {text}")
    dims = tuple(d for _, d in axes)
    net.live.append(Value(name, net.dtype, dims, net.smooth))
    p.locals.append(net.live[-1])
    return name, dims


def step_neighbours(net, x, dims):
    """Windows, and other elements of the same value."""
    p = net.p
    axes = [(p.fresh("j"), d) for d in dims]
    at = p.rnd.randrange(len(axes))

    def read(place):
        places = [place if i == at else v for i, (v, _) in enumerate(axes)]
        return f"({x.name}[{', '.join(places)}] else 0)"
    j = axes[at][0]
    if net.chance(0.5):
        r, width = p.fresh("r"), p.rnd.choice(["2", "3", "5"])
        place = p.rnd.choice([f"{j} + {r} - 1", f"{j} - {r} + 1", f"2 * {j} + {r} - 2"])
        text = f"(sum({r} in 0..{width}) {read(place)} * {net.given((width,))}[{r}])"
    elif len(dims) > 1 and net.chance(0.5):
        other = axes[at - 1]
        return bound_to(net, axes, f"{x.name}[{', '.join(v for v, _ in axes)}] - "
                        f"({x.name}[{', '.join(swapped(axes, at, other))}] else 0)")
    else:
        text = f"{read(f'{j} - 1')} {p.rnd.choice('+-')} {read(f'{j} + 1')}"
    return bound_to(net, axes, text)


def swapped(axes, at, other):
    """The indices with two of them exchanged: one value along both."""
    first = axes[at][0]
    return [other[0] if v == first else first if v == other[0] else v for v, _ in axes]


STEPS = [(step_active, 2), (step_both, 2), (step_product, 3), (step_gram, 1.5), (step_again, 2.5),
         (step_centred, 1), (step_norm, 3), (step_chain, 0.7), (step_layers, 1.5),
         (step_attention, 0.5), (step_outer, 1), (step_view, 2), (step_reduced, 1),
         (step_sorted, 0.4), (step_indexed, 2.5), (step_neighbours, 1)]


def advance(net):
    """One more value, of the last one or of another."""
    p = net.p
    x = net.live[-1] if net.chance(0.75) else p.rnd.choice(net.live)
    steps, weights = zip(*STEPS)
    for _ in range(8):
        made = p.rnd.choices(steps, weights)[0](net, x, x.dims)
        if made and net.fits(*made[1]):
            return net.let(*made)
    return x


# ---- sizes that follow from others ----

def defined(p, name, text, extent):
    p.clauses.append(f"{name} = {text}")
    p.defined[name] = extent
    return name


def give_pool(net):
    """Windows at a stride, with a margin."""
    p = net.p
    b, n, c = net.pick(), p.rnd.choice(list(p.sizes)), net.pick("4")
    r, stride, pad = p.rnd.choice([1, 2, 3]), p.rnd.choice([1, 2, 3]), p.rnd.choice([0, 1])
    if not net.fits(b, n, c) or p.extent(n) + 2 * pad < r:
        return
    size = defined(p, "H", f"({n} + {2 * pad} - {r}) // {stride} + 1",
                   (p.extent(n) + 2 * pad - r) // stride + 1)
    if p.extent(n) >= r and (net.chance(0.5) or pad == 0):
        p.clauses.append(f"{n} >= {r}")
    x = net.given((b, n, c))
    place = f"j2 * {stride} + r1 - {pad}"
    body = f"({x}[j1, {place}, c1] else 0)"
    over = f"r1 in 0..{r}"
    if net.chance(0.5):
        o = net.pick()
        if not net.fits(b, size, o):
            return
        w = net.given((o, str(r), c))
        text = f"sum({over}, c1 in {c}) {body} * {w}[o1, r1, c1]"
        places, dims = "j1, j2, o1", (b, size, o)
    else:
        text = f"{p.rnd.choice(['sum', 'max', 'min'])}({over}) {body}"
        places, dims = "j1, j2, c1", (b, size, c)
    name = p.fresh("t")
    axes = ", ".join(f"{v} in {d}" for v, d in zip(places.split(", "), dims))
    p.body.append(f"let {name}[{axes}] = {text}")
    keep(net, name, dims)


def give_halves(net):
    """The halves of rows, one with the other."""
    p = net.p
    m, n = net.pick(), p.rnd.choice(list(p.sizes))
    if not net.fits(m, n):
        return
    half = defined(p, "H", f"{n} // 2", p.extent(n) // 2)
    if p.extent(n) % 2 == 0 and net.chance(0.5):
        p.clauses.append(f"{n} % 2 == 0")
    x = net.let(active(net, net.given((m, n))), (m, n)).name
    keep(net, f"{x}[:, :{half}] * {gated(net, f'{x}[:, {half}:2 * {half}]')}", (m, half))


def give_blocks(net):
    """Blocks of a row, the last one short."""
    p = net.p
    m, n, by = net.pick(), p.rnd.choice(list(p.sizes)), p.rnd.choice([2, 3, 4, 8])
    if not net.fits(m, n):
        return
    extent = p.extent(n)
    size, count = p.rnd.choice([(f"({n} + {by - 1}) // {by}", (extent + by - 1) // by),
                                (f"{n} // {by} + 1", extent // by + 1),
                                (f"{n} // {by}", extent // by)])
    blocks = defined(p, "H", size, count)
    x = net.let(active(net, net.given((m, n))), (m, n)).name
    name = p.fresh("t")
    p.body.append(f"let {name}[j1 in {m}, j2 in {blocks}] = {p.rnd.choice(['sum', 'max'])}"
                  f"(r1 in 0..{by}) ({x}[j1, {by} * j2 + r1] else 0)")
    keep(net, name, (m, blocks))


def give_groups(net):
    """Columns in groups of so many, each with a norm of its own."""
    p = net.p
    m, n = net.pick(), p.rnd.choice(list(p.sizes))
    fitting = [by for by in (2, 3, 4, 8) if p.extent(n) % by == 0]
    if not net.fits(m, n) or not fitting:
        return
    by = p.rnd.choice(fitting)
    groups = defined(p, "H", f"{n} // {by}", p.extent(n) // by)
    p.clauses.append(f"{n} % {by} == 0")
    x = net.let(f"reshape({active(net, net.given((m, n)))}, [{m}, {groups}, {by}])",
                (m, groups, str(by))).name
    dims = (m, groups, str(by))
    text = step_norm(net, Value(x, net.dtype, dims), dims)[0]
    if net.chance(0.5):
        keep(net, f"reshape({text}, [{m}, {n}])", (m, n))
    else:
        keep(net, text, dims)


def keep(net, text, dims):
    net.let(text, dims)


# ---- statements ----

def finish(net):
    """One to three results, of values that share what they are made of."""
    p = net.p
    count = p.rnd.choice([1, 1, 1, 2, 2, 3])
    old = [v for v in net.live[:-1] if not v.given]
    values = [net.live[-1], *p.rnd.sample(old, min(count - 1, len(old)))]
    for value in values:
        kind = net.dtype
        if net.halves and net.chance(0.2):
            kind = p.rnd.choice(net.halves)
        y = p.result(kind, value.dims)
        text = value.name
        if net.chance(0.25):
            text = f"{text} + {net.like(value.dims)}"
        p.body.append(f"{y.name} = {text}")


def update(net):
    """Parameters that are read and written, one of them with the other's values."""
    p = net.p
    x = net.live[-1]
    kind = p.rnd.choice([net.dtype, net.dtype, *net.halves])
    data = "normal" if net.smooth else ""
    a = p.param(kind, x.dims, data, io="inout").name
    way = p.rnd.randrange(4)
    if way == 0:
        b = p.param(net.dtype, x.dims, data, io="inout").name
        old = net.p.fresh("t")
        p.body += [f"let {old} = {a} * 1", f"{a} = {b} + {x.name}", f"{b} = {old} - {x.name}"]
        return
    half = "0.5" if net.smooth else "3"
    p.body.append([None, f"{a} = {half} * {a} + {x.name}", f"{a} -= {x.name} * {half}",
                   f"{a} = {x.name}"][way])
    if net.chance(0.6):
        y = p.result(net.dtype, x.dims)
        p.body.append(f"{y.name} = {x.name} * {a}")


KINDS = ["f32"] * 17 + ["f64", "i32", "i64"]


def write(p, kinds=KINDS, halves=HALVES):
    """The statements of a composition of one of these types, alone in its program."""
    pick_sizes(p)
    net = start(p, kinds, halves)
    if net.chance(0.2) and min(p.sizes.values()) > 0:
        p.rnd.choice([give_pool, give_halves, give_blocks, give_groups])(net)
    for _ in range(p.rnd.choice([1, 1, 2, 2, 3, 4, 5, 6])):
        advance(net)
    if net.chance(0.12):
        update(net)
    if net.chance(0.9) or not any(v.dtype.startswith("inout") for v in p.params):
        finish(net)
