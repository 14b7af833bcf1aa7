# SPDX-License-Identifier: Apache-2.0
"""Index notation, scans, folds, loops of elements, what a run says."""

import math
import random

from run import difference

CASES = []


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


def cases():
    return CASES


def func(lines, body, head="level tensor"):
    return "\n".join([f"func f {head} {{", *lines, "body {", body, "}", "}", ""])


def expect(dtype, got, want):
    return difference(dtype, got, want)


def floats(seed, n):
    generator = random.Random(seed)
    return [generator.randint(-1000, 1000) / 64 for _ in range(n)]


# ---- gather ----

WINDOW = func(["size N", "in %x: tensor<f32[N]>", "out %y: tensor<f32[N, 3]>"], """
    %i = iota dim=[N] : i64[N]
    %r = iota dim=[3] : i64[3]
    %i1 = expand %i axis=1 : i64[N, 1]
    %r1 = expand %r axis=0 : i64[1, 3]
    %ib = broadcast %i1 : i64[N, 3]
    %rb = broadcast %r1 : i64[N, 3]
    %s = add %ib, %rb : i64[N, 3]
    %one = const value=1 : i64[N, 3]
    %at = sub %s, %one : i64[N, 3]
    %w = gather %x[%at] value=-7 : f32[N, 3]
    store %y[:, :], %w""")


@case
def windows_read_their_value_outside(runner):
    x = floats(1, 9)
    got = runner.run(WINDOW, {"x": ("f32", x)}, {"y": "f32"}, {"N": 9})["y"]
    return expect("f32", got, [x[i + r - 1] if 0 <= i + r - 1 < 9 else -7.0
                               for i in range(9) for r in range(3)])


@case
def gathers_of_arrays_and_scalars(runner):
    text = func(["size M", "size N", "in %x: tensor<i16[M, N]>", "in %k: tensor<i32[M]>",
                 "out %y: tensor<i16[M]>", "out %z: tensor<i16>"], """
    %a = load %x[:, :] : i16[M, N]
    %i = iota dim=[M] : i32[M]
    %kv = load %k[:] : i32[M]
    %g = gather %a[%i, %kv] : i16[M]
    store %y[:], %g
    %two = const value=2 : i64
    %h = gather %x[%two, %two] : i16
    store %z[], %h""")
    x, k = list(range(12)), [2, -1, 0, 3]
    got = runner.run(text, {"x": ("i16", x), "k": ("i32", k)}, {"y": "i16", "z": "i16"},
                     {"M": 4, "N": 3})
    wrong = expect("i16", got["y"], [x[3 * i + k[i]] if 0 <= k[i] < 3 else 0 for i in range(4)])
    return wrong or expect("i16", got["z"], [x[8]])


@case
def packed_elements(runner):
    text = func(["size N", "in %x: tensor<i4[N, 3]>", "in %k: tensor<i64[N]>",
                 "out %y: tensor<i4[N, 3]>", "out %g: tensor<i4[N]>",
                 "inout %s: tensor<u4[N]>"], """
    %v = load %x[:, :] : i4[N, 3]
    store %y[:, :], %v
    %kv = load %k[:] : i64[N]
    %two = const value=2 : i32
    %h = gather %x[%kv, %two] : i4[N]
    store %g[:], %h
    %u = cast %h : u4[N]
    scatter %s[%kv], %u fn=set""")
    x = [((7 * i) % 16) - 8 for i in range(15)]
    k = [4, 1, 0, 3, 2]
    got = runner.run(text, {"x": ("i4", x), "k": ("i64", k), "s": ("u4", [1, 2, 3, 4, 5])},
                     {"y": "i4", "g": "i4", "s": "u4"}, {"N": 5})
    want = [0] * 5
    for i, at in enumerate(k):
        want[at] = x[3 * k[i] + 2] & 15
    return (expect("i4", got["y"], x) or expect("i4", got["g"], [x[3 * i + 2] for i in k]) or
            expect("u4", got["s"], want))


@case
def blocks_share_bytes(runner):
    text = func(["size N", "in %x: tensor<i4[N]>", "out %p: tensor<i4[N]>"], """
    launch dims=[N] steps=[3] {
      (%m: range)
      %c = load %x[%m] : i4[%m]
      store %p[%m], %c
    }""", "level loop")
    x = [((5 * i) % 16) - 8 for i in range(10)]
    got = runner.run(text, {"x": ("i4", x)}, {"p": "i4"}, {"N": 10})
    return expect("i4", got["p"], x)


# ---- scatter ----

def scatter(fn, dtype="i32", more="", result=False, mask=False):
    old = "%old = " if result else ""
    k, of = ", %k" if mask else "", f" : {dtype}[N]" if result else ""
    return func(["size N", "size M", "in %at: tensor<i64[N]>", f"in %v: tensor<{dtype}[N]>",
                 "in %m: tensor<bool[N]>", f"inout %y: tensor<{dtype}[M]>",
                 f"out %o: tensor<{dtype}[N]>"], f"""
    %i = load %at[:] : i64[N]
    %x = load %v[:] : {dtype}[N]
    %k = load %m[:] : bool[N]
    {old}scatter %y[%i], %x{more}{k} fn={fn}{of}
    {'store %o[:], %old' if result else ''}""")


def run_scatter(runner, text, at, v, y, dtype="i32", m=None, **more):
    return runner.run(text, {"at": ("i64", at), "v": (dtype, v), "y": (dtype, y),
                             "m": ("bool", m or [1] * len(at))}, {"y": dtype, "o": dtype},
                      {"N": len(at), "M": len(y)}, **more)


@case
def scatters_set_inside_and_where_the_mask_holds(runner):
    text = scatter("set", mask=True)
    got = run_scatter(runner, text, [3, 0, -1, 7, 1], [10, 20, 30, 40, 50], [1, 2, 3, 4],
                      m=[1, 1, 1, 1, 0])
    return expect("i32", got["y"], [20, 2, 3, 10])


@case
def atomics(runner):
    at, v, y = [0, 1, 0, 2, 0, 1, 9], [5, 6, 3, 12, 9, 10, 1], [7, 7, 7, 7]
    joins = {"add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b,
             "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}
    for fn, join in joins.items():
        want = list(y)
        for i, x in zip(at, v):
            if i < 4:
                want[i] = join(want[i], x)
        for seed in range(2):
            got = run_scatter(runner, scatter(fn), at, v, y, seed=seed)["y"]
            wrong = expect("i32", got, want)
            if wrong or runner.notes:
                return wrong or f"says {runner.notes}"
    return None


@case
def old_elements(runner):
    got = run_scatter(runner, scatter("add", result=True, mask=True), [3, 1, 8, 0], [5, 6, 7, 8],
                      [1, 2, 3, 4], m=[1, 1, 1, 0])
    wrong = expect("i32", got["y"], [1, 8, 3, 9]) or expect("i32", got["o"], [4, 2, 0, 0])
    got = run_scatter(runner, scatter("cas", more=", %x", result=True), [0, 1, 2], [3, 2, 3],
                      [1, 2, 3])
    wrong = wrong or expect("i32", got["o"], [1, 2, 3])
    got = run_scatter(runner, scatter("xchg", result=True), [2, 0], [8, 9], [1, 2, 3])
    return wrong or expect("i32", got["y"], [9, 2, 8]) or expect("i32", got["o"], [3, 1])


@case
def orders_that_decide_are_noted(runner):
    run_scatter(runner, scatter("set"), [1, 1], [5, 5], [0, 0])
    if runner.notes:
        return "equal values are noted"
    seen = set()
    for seed in range(12):
        got = run_scatter(runner, scatter("set"), [1, 1, 0], [5, 6, 7], [0, 0], seed=seed,
                          bounds=True)
        seen.add(got["y"][1])
        if runner.notes != ["unordered scatter"]:
            return f"says {runner.notes}"
        if runner.bounds("y") != [0, math.inf]:
            return f"bounds {runner.bounds('y')}"
    run_scatter(runner, scatter("add", result=True), [1, 1], [5, 6], [0, 0])
    if runner.notes != ["unordered scatter"]:
        return f"old elements: says {runner.notes}"
    return None if seen == {5, 6} else f"sees {seen}"


@case
def float_atomics_have_bounds(runner):
    at, v = [0, 0, 0, 1] * 8, floats(3, 32)
    sums = [sum(x for i, x in zip(at, v) if i == k) for k in range(2)]
    got = run_scatter(runner, scatter("add", "f32"), at, v, [0.0, 0.0], "f32", bounds=True)
    bounds = runner.bounds("y")
    if runner.notes != ["float_atomic scatter"]:
        return f"says {runner.notes}"
    if not all(0 < b < 1e-2 and abs(g - s) <= b for g, s, b in zip(got["y"], sums, bounds)):
        return f"{got['y']}, {sums} within {bounds}"
    return None


@case
def blocks_meet_in_atomics_alone(runner):
    def blocks(fn):
        return func(["size N", "in %at: tensor<i64[N]>", "in %v: tensor<i32[N]>",
                     "inout %y: tensor<i32[4]>"], f"""
    launch dims=[N] steps=[3] {{
      (%m: range)
      %i = load %at[%m] : i64[%m]
      %x = load %v[%m] : i32[%m]
      scatter %y[%i], %x fn={fn}
    }}""", "level loop")
    at, v = [0, 3, 0, 1, 0, 3, 1, 0, 0, 3], list(range(1, 11))
    inputs = {"at": ("i64", at), "v": ("i32", v), "y": ("i32", [0] * 4)}
    for fn, notes in (("add", []), ("set", ["unordered scatter"]), ("xchg", ["unordered scatter"])):
        got = runner.run(blocks(fn), inputs, {"y": "i32"}, {"N": 10}, bounds=True)["y"]
        if runner.notes != notes:
            return f"{fn} says {runner.notes}"
        want = [sum(x for i, x in zip(at, v) if i == k) for k in range(4)]
        wrong = expect("i32", got, want) if fn == "add" else None
        if wrong or [b == math.inf for b in runner.bounds("y")] != [
                bool(notes) and w > 0 for w in want]:
            return wrong or f"{fn}: bounds {runner.bounds('y')}"
    return None


# ---- scans, folds ----

def scan(dtype, fn, attrs=""):
    return func(["size N", f"in %x: tensor<{dtype}[N, 4]>", f"out %y: tensor<{dtype}[N, 4]>"], f"""
    %v = load %x[:, :] : {dtype}[N, 4]
    %s = scan %v fn={fn} axis=0 {attrs} : {dtype}[N, 4]
    store %y[:, :], %s""")


@case
def scans_in_all_ways(runner):
    joins = {"sum": (lambda a, b: a + b, 0), "prod": (lambda a, b: a * b, 1),
             "max": (max, -2**31), "min": (min, 2**31 - 1)}
    x = [random.Random(4).randint(-3, 3) for _ in range(28)]
    for fn, (join, neutral) in joins.items():
        for reverse in (0, 1):
            for exclusive in (0, 1):
                want = list(x)
                for c in range(4):
                    total = neutral
                    for r in reversed(range(7)) if reverse else range(7):
                        after = join(total, x[4 * r + c])
                        want[4 * r + c] = total if exclusive else after
                        total = after
                text = scan("i32", fn, f"reverse={reverse} exclusive={exclusive}")
                got = runner.run(text, {"x": ("i32", x)}, {"y": "i32"}, {"N": 7})["y"]
                wrong = expect("i32", got, want)
                if wrong:
                    return f"{fn} {reverse} {exclusive}: {wrong}"
    return None


@case
def bounds_of_a_scan_grow(runner):
    x = floats(5, 4 * 50)
    got = runner.run(scan("f32", "sum"), {"x": ("f32", x)}, {"y": "f32"}, {"N": 50}, bounds=True)
    bounds = runner.bounds("y")
    for i in range(200):
        exact = sum(x[i % 4:i + 1:4])
        if abs(got["y"][i] - exact) > bounds[i] + 1e-6 * abs(exact):
            return f"{i}: {got['y'][i]}, {exact} within {bounds[i]}"
    if bounds[0] > 1e-5 or not bounds[0] < bounds[40] < bounds[199] < 1:
        return f"{bounds[0]} {bounds[40]} {bounds[199]}"
    return None


ARGMAX = func(["size M", "size N", "in %x: tensor<f32[M, N]>", "out %m: tensor<f32[M, 1]>",
               "out %i: tensor<i32[M, 1]>"], """
    %v = load %x[:, :] : f32[M, N]
    %at = iota dim=[N] : i32[N]
    %row = expand %at axis=0 : i32[1, N]
    %k = broadcast %row : i32[M, N]
    %low = const value=-inf : f32
    %none = const value=-1 : i32
    %best, %where = fold %v, %k, %low, %none axis=1 {
      (%a: f32, %i: i32, %b: f32, %j: i32)
      %ge = cmp %a, %b pred=ge : bool
      %m1 = select %ge, %a, %b : f32
      %i1 = select %ge, %i, %j : i32
      yield %m1, %i1
    } : f32[M, 1], i32[M, 1]
    store %m[:, :], %best
    store %i[:, :], %where""")


@case
def argmax_by_a_fold(runner):
    x = [random.Random(6).randint(-9, 9) * 1.0 for _ in range(5 * 11)]
    for bounds in (False, True):
        got = runner.run(ARGMAX, {"x": ("f32", x)}, {"m": "f32", "i": "i32"}, {"M": 5, "N": 11},
                         bounds=bounds)
        rows = [x[11 * r:11 * r + 11] for r in range(5)]
        wrong = (expect("f32", got["m"], [max(r) for r in rows]) or
                 expect("i32", got["i"], [r.index(max(r)) for r in rows]))
        if wrong or runner.notes:
            return wrong or f"says {runner.notes}"
    if any(runner.bounds("m") + runner.bounds("i")):
        return "an exact fold has a bound"
    got = runner.run(ARGMAX, {"x": ("f32", [])}, {"m": "f32", "i": "i32"}, {"M": 2, "N": 0})
    return expect("f32", got["m"], [-math.inf] * 2) or expect("i32", got["i"], [-1, -1])


def fold_sum(attrs, body="%s = add %a, %b : f32", kind="f32", shape="N"):
    return func(["size N", f"in %x: tensor<{kind}[N]>", f"out %y: tensor<{kind}[{shape}]>"], f"""
    %v = load %x[:] : {kind}[N]
    %z = const value=0 : {kind}
    %r = fold %v, %z axis=0 {attrs} {{
      (%a: {kind}, %b: {kind})
      {body}
      yield %s
    }} : {kind}[{shape}]
    store %y[:], %r""")


@case
def scans_by_a_fold(runner):
    x = floats(7, 13)
    for reverse in (0, 1):
        for exclusive in (0, 1):
            text = fold_sum(f"scan=1 reverse={reverse} exclusive={exclusive}")
            got = runner.run(text, {"x": ("f32", x)}, {"y": "f32"}, {"N": 13}, bounds=True)["y"]
            bounds = runner.bounds("y")
            for i in range(13):
                part = x[i + exclusive:] if reverse else x[:i + 1 - exclusive]
                if abs(got[i] - sum(part)) > bounds[i] + 1e-4:
                    return f"{reverse} {exclusive} {i}: {got[i]}, not {sum(part)}"
    return None


# Maps of {0, 1} to itself, two bits each, under composition: associative, does not commute.
COMPOSE = """%one = const value=1 : i32
      %a0 = and %a, %one : i32
      %ah = shr %a, %one : i32
      %a1 = and %ah, %one : i32
      %b0 = shr %b, %a0 : i32
      %b1 = shr %b, %a1 : i32
      %c0 = and %b0, %one : i32
      %c1 = and %b1, %one : i32
      %c2 = shl %c1, %one : i32
      %s = or %c0, %c2 : i32"""


@case
def folds_keep_the_axis_order(runner):
    text = fold_sum("scan=1", COMPOSE, "i32").replace("%z = const value=0", "%z = const value=2")
    x = [random.Random(8).randint(0, 3) for _ in range(17)]

    def compose(a, b):
        return (b >> (a & 1) & 1) | (b >> (a >> 1 & 1) & 1) << 1
    for reverse in (0, 1):
        for exclusive in (0, 1):
            attrs = f"scan=1 reverse={reverse} exclusive={exclusive}"
            got = runner.run(text.replace("scan=1", attrs), {"x": ("i32", x)}, {"y": "i32"},
                             {"N": 17}, bounds=True)["y"]
            want = []
            for i in range(17):
                total = 2
                for v in (x[i + exclusive:] if reverse else x[:i + 1 - exclusive]):
                    total = compose(total, v)
                want.append(total)
            wrong = expect("i32", got, want)
            if wrong or runner.notes or any(runner.bounds("y")):
                return wrong or f"says {runner.notes}, bounds {runner.bounds('y')}"
    return None


@case
def a_fold_that_is_not_associative_is_noted(runner):
    text = fold_sum("", "%s = sub %a, %b : i32", "i32", "1")
    runner.run(text, {"x": ("i32", [1, 2, 3, 4])}, {"y": "i32"}, {"N": 4}, bounds=True)
    return None if runner.notes == ["unordered fold"] else f"says {runner.notes}"


@case
def folds_with_loops_inside(runner):
    body = """%c, %d = while %a, %b {
        (%p: i32, %q: i32)
        %zero = const value=0 : i32
        %go = cmp %q, %zero pred=ne : bool
        yield %go
      } {
        (%p: i32, %q: i32)
        %m = mod %p, %q : i32
        yield %q, %m
      } : i32, i32
      %s = abs %c : i32"""
    text = fold_sum("", body, "i32", "1")
    x = [12 * 35, 12 * 49, 12 * 77, 24 * 5]
    got = runner.run(text, {"x": ("i32", x)}, {"y": "i32"}, {"N": 4}, bounds=True)["y"]
    return expect("i32", got, [math.gcd(*x)])


@case
def products_of_small_types(runner):
    generator = random.Random(10)
    for dtype, out in (("f8e4m3", "f32"), ("f8e5m2", "f32"), ("bf16", "f32"), ("i8", "i32"),
                       ("u8", "u32"), ("i4", "i32"), ("f64", "f64")):
        text = func([f"in %a: tensor<{dtype}[3, 5]>", f"in %b: tensor<{dtype}[5, 2]>",
                     f"out %y: tensor<{out}[3, 2]>"], f"""
    %x = load %a[:, :] : {dtype}[3, 5]
    %z = load %b[:, :] : {dtype}[5, 2]
    %p = dot %x, %z : {out}[3, 2]
    store %y[:, :], %p""")
        low = 0 if dtype[0] == "u" else -7
        a = [generator.randint(low, 7) for _ in range(15)]
        b = [generator.randint(low, 7) for _ in range(10)]
        if dtype[0] != "i" and dtype[0] != "u":
            a, b = [float(v // 2) for v in a], [float(v // 2) for v in b]
        got = runner.run(text, {"a": (dtype, a), "b": (dtype, b)}, {"y": out})["y"]
        want = [sum(a[5 * i + k] * b[2 * k + j] for k in range(5))
                for i in range(3) for j in range(2)]
        wrong = expect(out, got, [v + 0 for v in want])
        if wrong:
            return f"{dtype}: {wrong}"
    return None


# ---- while ----

COLLATZ = func(["size N", "in %x: tensor<i64[N]>", "out %y: tensor<i64[N]>",
                "inout %seen: tensor<i32[1]>"], """
    %v = load %x[:] : i64[N]
    %zero = const value=0 : i64[N]
    %one = const value=1 : i64[N]
    %two = const value=2 : i64[N]
    %three = const value=3 : i64[N]
    %tick = const value=1 : i32[N]
    %a, %n = while %v, %zero {
      (%c: i64[N], %k: i64[N])
      %go = cmp %c, %one pred=gt : bool[N]
      yield %go
    } {
      (%c: i64[N], %k: i64[N])
      %r = mod %c, %two : i64[N]
      %odd = cmp %r, %one pred=eq : bool[N]
      %up = fma %c, %three, %one : i64[N]
      %half = div %c, %two : i64[N]
      %d = select %odd, %up, %half : i64[N]
      %k1 = add %k, %one : i64[N]
      scatter %seen[%zero], %tick fn=add
      yield %d, %k1
    } : i64[N], i64[N]
    store %y[:], %n""")


@case
def elements_end_one_by_one(runner):
    def steps(n):
        k = 0
        while n > 1:
            n, k = (3 * n + 1 if n % 2 else n // 2), k + 1
        return k
    x = list(range(0, 30))
    got = runner.run(COLLATZ, {"x": ("i64", x), "seen": ("i32", [0])}, {"y": "i64", "seen": "i32"},
                     {"N": 30})
    return (expect("i64", got["y"], [steps(n) for n in x]) or
            expect("i32", got["seen"], [sum(map(steps, x))]))


@case
def uniform_loops_carry_anything(runner):
    text = func(["size N", "inout %x: tensor<f32[N]>", "out %n: tensor<i32>"], """
    %v = load %x[:] : f32[N]
    %zero = const value=0 : i32
    %last, %k = while %v, %zero {
      (%a: f32[N], %i: i32)
      %m = reduce %a fn=max axis=0 : f32[1]
      %s = squeeze %m axis=0 : f32
      %limit = const value=1 : f32
      %go = cmp %s, %limit pred=gt : bool
      yield %go
    } {
      (%a: f32[N], %i: i32)
      %half = const value=0.5 : f32[N]
      %b = mul %a, %half : f32[N]
      %one = const value=1 : i32
      %j = add %i, %one : i32
      yield %b, %j
    } : f32[N], i32
    store %x[:], %last
    store %n[], %k""")
    got = runner.run(text, {"x": ("f32", [100.0, 3.0])}, {"x": "f32", "n": "i32"}, {"N": 2})
    return expect("f32", got["x"], [100 / 128, 3 / 128]) or expect("i32", got["n"], [7])


@case
def loops_that_rounding_decides_have_bounds(runner):
    text = func(["in %x: tensor<f32[4]>", "out %n: tensor<i32>", "out %e: tensor<i32>"], """
    %v = load %x[:] : f32[4]
    %r = reduce %v fn=sum axis=0 : f32[1]
    %s = squeeze %r axis=0 : f32
    %whole = const value=8 : f32
    %zero = const value=0 : i32
    %a, %k = while %s, %zero {
      (%b: f32, %i: i32)
      %go = cmp %b, %whole pred=ge : bool
      yield %go
    } {
      (%b: f32, %i: i32)
      %half = const value=0.5 : f32
      %c = mul %b, %half : f32
      %one = const value=1 : i32
      %j = add %i, %one : i32
      yield %c, %j
    } : f32, i32
    store %n[], %k
    %exact = const value=5 : i32
    store %e[], %exact""")
    for x, least in (([16.0, 8.0, 4.0, 4.0], 1), ([16.0, 8.0, 4.0, 5.0], 0)):
        runner.run(text, {"x": ("f32", x)}, {"n": "i32", "e": "i32"}, bounds=True)
        found = runner.bounds("n")[0]
        if (found >= 1) != (least == 1) or runner.bounds("e")[0]:
            return f"{x}: a bound of {found}"
    return None


# ---- print, assert, scratch ----

SAY = func(["size N", "in %x: tensor<i32[N]>"], r"""
    %v = load %x[:] : i32[N]
    %i = iota dim=[N] : i64[N]
    %zero = const value=0 : i32[N]
    %neg = cmp %v, %zero pred=lt : bool[N]
    print %neg, %i, %v text="a \"low\" one; at\x2c"
    %fine = cmp %v, %zero pred=ge : bool[N]
    assert %fine, %v text="not negative" """)


@case
def print_and_assert(runner):
    runner.run(SAY, {"x": ("i32", [3, -4, 0, -5])}, {}, {"N": 4})
    want = ['print a "low" one; at, 1 -4', 'print a "low" one; at, 3 -5',
            "assert not negative -4", "assert not negative -5"]
    return None if runner.notes == want else f"says {runner.notes}"


@case
def scratch_is_written_then_read(runner):
    text = func(["size N", "in %x: tensor<f32[N]>", "scratch %t: tensor<f32[N]>",
                 "out %y: tensor<f32[N]>"], """
    launch dims=[N] steps=[4] {
      (%i: range)
      %v = load %x[%i] : f32[%i]
      %d = add %v, %v : f32[%i]
      store %t[%i], %d
    }
    launch dims=[N] steps=[3] {
      (%j: range)
      %w = load %t[%j] : f32[%j]
      store %y[%j], %w
    }""", "level loop")
    x = floats(9, 10)
    got = runner.run(text, {"x": ("f32", x)}, {"y": "f32"}, {"N": 10})["y"]
    return expect("f32", got, [2 * v for v in x])
