# SPDX-License-Identifier: Apache-2.0
"""Every elementwise operation on every element type that it takes, on edges and all pairs of them.

The answers are exact: integers are Python's, floats are Fractions that are rounded once.
"""

import itertools
import math
from fractions import Fraction

from run import FLOATS, INTS, TYPES, difference, is_float, limits, round_float
from run import round_to, same, wrap

NARROW = {"f16", "bf16", "f8e4m3", "f8e5m2"}


def edges(dtype):
    if dtype == "bool":
        return [0, 1]
    if not is_float(dtype):
        low, high = limits(dtype)
        some = {low, low + 1, high, high - 1, 0, 1, 2, 3, 5, high // 2, high // 3, -1, -2, -7, 31,
                32, 63, 64, 7, 8}
        return sorted(v for v in some if low <= v <= high)
    places, least, greatest = FLOATS[dtype]
    some = [0.0, 2.0 ** (least - places), 2.0**least, 1.0, 1.5, 2.5, 3.0, 0.375, 1 + 2.0**-places,
            7.0, greatest, math.inf]
    some = [v for v in some if not (math.isinf(v) and dtype == "f8e4m3")]
    if dtype in ("f32", "f64"):
        more = (0.1, 1e-3, 123456.789, 3e9, 2.0**24 + 2, 1e30, 1e-30)
        some += [round_float(dtype, v) for v in more]
    return some + [-v for v in some] + [math.nan]


# ---- the meaning ----

def exact_zero(a, b):
    """Is the zero sum of these negative?"""
    return a == 0 and b == 0 and math.copysign(1, a) < 0 and math.copysign(1, b) < 0


def add(dtype, a, b):
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    return round_to(dtype, Fraction(a) + Fraction(b), exact_zero(a, b))


def product_sign(a, b):
    return (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)


def mul(dtype, a, b):
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b
    return signed_round(dtype, Fraction(a) * Fraction(b), product_sign(a, b))


def signed_round(dtype, value, negative):
    result = round_to(dtype, value, negative)
    return math.copysign(result, -1 if negative else 1) if result == 0 else result


def div(dtype, a, b):
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    negative = product_sign(a, b)
    if b == 0 or math.isinf(a):
        return -math.inf if negative else math.inf
    if math.isinf(b):
        return -0.0 if negative else 0.0
    return signed_round(dtype, Fraction(a) / Fraction(b), negative)


def mod(dtype, a, b):
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    rest = math.fmod(a, b)
    if rest == 0:
        return math.copysign(rest, b)
    return rest if (rest < 0) == (b < 0) else add(dtype, rest, b)


def fma(dtype, a, b, c):
    if not all(map(math.isfinite, (a, b, c))):
        if (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0):
            return math.nan
        if math.isinf(a) or math.isinf(b) or math.isnan(a) or math.isnan(b):
            return a * b + c
        return c
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value == 0:
        zero = -0.0 if product_sign(a, b) else 0.0
        return round_to(dtype, value, exact_zero(zero, c) if a * b == 0 else False)
    return signed_round(dtype, value, value < 0)


def sqrt(dtype, a):
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    value = Fraction(a) * 4**600  # a root of 600 more bits, with a sticky end
    root = math.isqrt(value.numerator * value.denominator)
    exact = root * root == value.numerator * value.denominator
    return round_to(dtype, (Fraction(2 * root + (0 if exact else 1), 2) / value.denominator)
                    / 2**600)


def choose(a, b, larger):
    """min and max: NaN wins; of two zeros the signed one, or the other."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return a if (math.copysign(1, a) > 0) == larger else b
    return a if (a > b) == larger else b


def rint(a):
    return a if not math.isfinite(a) else math.copysign(float(round(a)), a)


def whole(function):
    return lambda _, a: math.copysign(float(function(a)), a) if math.isfinite(a) else a


FLOAT_OPS = {
    "neg": lambda _, a: -a, "abs": lambda _, a: abs(a), "sqrt": sqrt, "floor": whole(math.floor),
    "ceil": whole(math.ceil), "trunc": whole(math.trunc), "rint": lambda _, a: rint(a),
    "isnan": lambda _, a: int(math.isnan(a)),
    "add": add, "sub": lambda t, a, b: add(t, a, -b), "mul": mul, "div": div, "mod": mod,
    "min": lambda _, a, b: choose(a, b, False), "max": lambda _, a, b: choose(a, b, True),
}


def int_div(a, b):
    return a // b if b else 0


def shift(dtype, a, by, left):
    bits = INTS[dtype]
    if by < 0 or by >= bits:
        return 0 if left or a >= 0 else -1
    return a << by if left else a >> by


INT_OPS = {
    "neg": lambda _, a: -a, "abs": lambda _, a: abs(a), "not": lambda _, a: ~a,
    "floor": lambda _, a: a, "ceil": lambda _, a: a, "trunc": lambda _, a: a,
    "rint": lambda _, a: a, "isnan": lambda _, a: 0,
    "add": lambda _, a, b: a + b, "sub": lambda _, a, b: a - b, "mul": lambda _, a, b: a * b,
    "div": lambda _, a, b: int_div(a, b), "mod": lambda _, a, b: a % b if b else 0,
    "min": lambda _, a, b: min(a, b), "max": lambda _, a, b: max(a, b),
    "and": lambda _, a, b: a & b, "or": lambda _, a, b: a | b, "xor": lambda _, a, b: a ^ b,
    "shl": lambda t, a, b: shift(t, a, b, True), "shr": lambda t, a, b: shift(t, a, b, False),
}
BOOL_OPS = {name: INT_OPS[name] for name in ("and", "or", "xor")}
BOOL_OPS["not"] = lambda _, a: 1 - a
PREDS = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
         "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


def ops_of(dtype):
    if dtype in NARROW:
        return {}
    return BOOL_OPS if dtype == "bool" else FLOAT_OPS if is_float(dtype) else INT_OPS


def cast(value, source, target):
    if target == "bool":
        return int(value != 0)
    if is_float(target):
        if is_float(source):
            return round_float(target, value)
        return round_to(target, Fraction(value))
    if not is_float(source):
        return wrap(target, value)
    low, high = limits(target)
    if math.isnan(value):
        return 0
    return low if value <= low else high if value >= high else math.trunc(value)


# ---- programs ----

def program(inputs, results, body):
    """inputs, results: [(name, dtype)]; every array has N elements."""
    lines = ["func f level tensor {", "size N"]
    lines += [f"in %{name}: tensor<{dtype}[N]>" for name, dtype in inputs]
    lines += [f"out %{name}: tensor<{dtype}[N]>" for name, dtype in results]
    lines += ["body {"] + [f"%v{name} = load %{name}[:] : {dtype}[N]" for name, dtype in inputs]
    lines += body + [f"store %{name}[:], %r{name}" for name, _ in results]
    return "\n".join([*lines, "}", "}", ""])


UNARY = {"neg", "abs", "not", "sqrt", "floor", "ceil", "trunc", "rint", "isnan"}


def check_ops(runner, dtype, meanings, columns):
    """Operations of one count of operands, in one program."""
    names = "abc"[:len(columns)]
    outs = {op: "bool" if op == "isnan" else dtype for op in meanings}
    text = program([(n, dtype) for n in names], [(f"y{op}", out) for op, out in outs.items()],
                   [f"%ry{op} = {op} {', '.join('%v' + n for n in names)} : {out}[N]"
                    for op, out in outs.items()])
    got = runner.run(text, {n: (dtype, c) for n, c in zip(names, columns)},
                     {f"y{op}": out for op, out in outs.items()}, {"N": len(columns[0])})
    for op, meaning in meanings.items():
        want = [meaning(dtype, *row) for row in zip(*columns)]
        want = want if is_float(outs[op]) else [wrap(outs[op], w) for w in want]
        wrong = difference(outs[op], got[f"y{op}"], want,
                           lambda i, op=op: f"{op}{tuple(c[i] for c in columns)}")
        if wrong:
            return wrong
    return None


def elementwise(dtype):
    def case(runner):
        ones = edges(dtype)
        pairs = [list(c) for c in zip(*itertools.product(ones, ones))]
        of_one = {op: m for op, m in ops_of(dtype).items() if op in UNARY}
        of_two = {op: m for op, m in ops_of(dtype).items() if op not in UNARY}
        return (check_ops(runner, dtype, of_one, [ones]) or
                check_ops(runner, dtype, of_two, pairs))
    return case


def fused(dtype):
    def case(runner):
        ones = edges(dtype)[::2]
        triples = [list(c) for c in zip(*itertools.product(ones, ones, ones))]
        meaning = fma if is_float(dtype) else lambda _, a, b, c: a * b + c
        return check_ops(runner, dtype, {"fma": meaning}, triples)
    return case


def compared(dtype):
    def case(runner):
        ones = edges(dtype)
        a, b = (list(c) for c in zip(*itertools.product(ones, ones)))
        body, results = [], []
        for name in PREDS:
            body.append(f"%r{name} = cmp %va, %vb pred={name} : bool[N]")
            results.append((name, "bool"))
        body.append(f"%rpick = select %rlt, %va, %vb : {dtype}[N]")
        text = program([("a", dtype), ("b", dtype)], results + [("pick", dtype)], body)
        got = runner.run(text, {"a": (dtype, a), "b": (dtype, b)},
                         {**dict(results), "pick": dtype}, {"N": len(a)})
        for name, holds in PREDS.items():
            wrong = difference("bool", got[name], [int(holds(x, y)) for x, y in zip(a, b)],
                               lambda i, name=name: f"{a[i]} {name} {b[i]}")
            if wrong:
                return wrong
        return difference(dtype, got["pick"], [x if x < y else y for x, y in zip(a, b)])
    return case


def converted(dtype):
    def case(runner):
        values = edges(dtype)
        if is_float(dtype) and dtype not in NARROW:
            halves = [v + h for v in (2.0**31, 2.0**63, 127, 255, 7, 15, 448, 464, 57344, 61440,
                                      65504, 65520, 2.0**-9, 2.0**-10, 2.0**-24, 2.0**-25)
                      for h in (0, -0.5, v * 2.0**-4, v * 2.0**-5, v * 2.0**-12, v * 2.0**-20)]
            values += [s * round_float(dtype, v) for v in halves for s in (1, -1)]
        elif not is_float(dtype) and INTS[dtype] >= 16:
            low, high = limits(dtype)
            more = {2**k + d for k in range(3, INTS[dtype]) for d in (-1, 0, 1)}
            values += [v for v in more if low <= v <= high]
        others = [t for t in TYPES if t != dtype]
        text = program([("x", dtype)], [(t, t) for t in others],
                       [f"%r{t} = cast %vx : {t}[N]" for t in others])
        got = runner.run(text, {"x": (dtype, values)}, {t: t for t in others}, {"N": len(values)})
        for t in others:
            wrong = difference(t, got[t], [cast(v, dtype, t) for v in values],
                               lambda i, t=t: f"{t}({values[i]})")
            if wrong:
                return wrong
        return None
    return case


def moved(dtype):
    """Elements move through memory as they are."""
    def case(runner):
        values = edges(dtype) * 3
        text = program([("x", dtype)], [("y", dtype)], [f"%ry = broadcast %vx : {dtype}[N]"])
        got = runner.run(text, {"x": (dtype, values)}, {"y": dtype}, {"N": len(values)})["y"]
        return difference(dtype, got, values)
    return case


def reduced(dtype):
    """Reductions and scans of integers, and of floats where every order is exact."""
    def case(runner):
        fns = ["max", "min"] + ([] if dtype == "bool" else ["sum", "prod"])
        values = [wrap(dtype, v) if not is_float(dtype) else float(v)
                  for v in (3, 1, 2, -1, 2, 5, 1, -3)][:6 if dtype == "u4" else 8]
        body = [f"%r{fn} = scan %vx fn={fn} axis=0 : {dtype}[N]" for fn in fns]
        text = program([("x", dtype)], [(fn, dtype) for fn in fns], body)
        got = runner.run(text, {"x": (dtype, values)}, {fn: dtype for fn in fns},
                         {"N": len(values)})
        joins = {"max": max, "min": min, "sum": lambda a, b: a + b, "prod": lambda a, b: a * b}
        for fn in fns:
            want = list(itertools.accumulate(
                values, lambda a, b, fn=fn: joins[fn](a, b) if is_float(dtype)
                else wrap(dtype, joins[fn](a, b))))
            wrong = difference(dtype, got[fn], want, lambda i, fn=fn: f"{fn} of {i + 1}")
            if wrong:
                return wrong
        return None
    return case


def cases():
    assert same("f32", -0.0, -0.0) and not same("f32", 0.0, -0.0)
    for dtype in TYPES:
        if ops_of(dtype):
            yield f"elementwise {dtype}", elementwise(dtype)
        if dtype not in NARROW:
            yield f"compared {dtype}", compared(dtype)
            yield f"reduced {dtype}", reduced(dtype)
        if dtype not in NARROW and dtype != "bool":
            yield f"fma {dtype}", fused(dtype)
        yield f"converted {dtype}", converted(dtype)
        yield f"moved {dtype}", moved(dtype)
