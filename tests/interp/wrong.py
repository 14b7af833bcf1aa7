# SPDX-License-Identifier: Apache-2.0
"""Programs with a fault that a run must find."""

from index import floats, func
from run import Fault


def cases():
    for name, text, says in FAULTS:
        yield f"fault: {name}", must_fail(text, says)



def must_fail(text, says):
    def check(runner):
        inputs = {"x": ("f32", floats(1, 10)), "k": ("i64", [0, 3, 9, 2, 4, 5, 6, 7, 8, 1]),
                  "s": ("f32", [0.0] * 10)}
        found = 0
        for seed in range(3):
            try:
                runner.run(text, inputs, {}, {"N": 10}, seed=seed)
            except Fault as fault:
                if says not in str(fault):
                    return f"says: {fault}"
                found += 1
        return None if found == 3 else f"found {found} times"
    return check


LAUNCH = ["size N", "in %x: tensor<f32[N]>", "in %k: tensor<i64[N]>", "inout %s: tensor<f32[N]>",
          "scratch %t: tensor<f32[N]>", "out %y: tensor<f32[N]>"]


def padded(body):
    return func(LAUNCH, "launch dims=[N] steps=[4] {\n(%m: range)\n" + body + "\n}",
                "level loop padded")


PLACES = """%i = index %m : i64[%m]
    %kk = load %k[%m] guard=[1] : i64[%m]
    %v = load %x[%m] guard=[1] : f32[%m]
    %z = const value=0 : i64[%m]
    %n0 = size dim=[N] : i64
    %n = broadcast %n0 : i64[%m]
    %in = cmp %i, %n pred=lt : bool[%m]
    %raw = load %x[%m] : f32[%m]
    """

WORDS = ["size N", "in %x: tensor<f32[N]>", "in %k: tensor<i64[N]>",
         "inout %s: tensor<f32[N]>", "scratch %w: tensor<u64[1]>", "out %y: tensor<f32[N]>"]
LEFT = "scatter %w[%zero], %v fn=set"
AWAITED = """launch dims=[1] steps=[0] {
      (%%m: i64)
      %%zero = const value=0 : i64
      %%there = const value=1 : bool
      %%a = spin_load %%w[%%zero], %%there : u64
      %%v = const value=1 : u64
      %s
    }"""

FAULTS = [
    ("an index that nothing checks", padded(PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    %g = gather %x[%i] : f32[%m]
    store %y[%m], %g guard=[1]"""), "reads outside of the tensor: x["),
    ("padding that a gather brings", padded(PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    %one = const value=3 : i64[%m]
    %b = sub %i, %one : i64[%m]
    %g = gather %x[%b] guard=[1] : f32[%m]
    %r = reduce %g fn=sum axis=0 : f32[1]
    %q = squeeze %r axis=0 : f32
    %p = start %m : i64
    store %y[%p], %q"""), "padding or unset memory reaches"),
    ("padding that is scattered", padded(PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    scatter %s[%z], %v fn=add guard=[0]"""), "an element of padding is scattered"),
    ("padding that is arranged", padded(PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    %one = const value=3 : i64[%m]
    %b = sub %i, %one : i64[%m]
    %p = start %m : i64
    %first = broadcast %p : i64[%m]
    %rel = sub %i, %first : i64[%m]
    %bad = gather %k[%b] guard=[1] : i64[%m]
    %none = mul %bad, %z : i64[%m]
    %far = add %rel, %none : i64[%m]
    %a = tile_scatter %v, %far : f32[%m]
    store %y[%m], %a guard=[1]"""), "a place depends on padding"),
    ("a place that nothing comes to", padded(
        PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    %a = tile_scatter %v, %z : f32[%m]
    %r = reduce %a fn=sum axis=0 : f32[1]
    %q = squeeze %r axis=0 : f32
    %p = start %m : i64
    store %y[%p], %q"""), "padding or unset memory reaches"),
    ("a scatter outside", padded(PLACES.replace("%raw = load %x[%m] : f32[%m]", "") + """
    scatter %s[%i], %v, %in fn=set guard=[0]
    %far = add %i, %n : i64[%m]
    scatter %s[%far], %v, %in fn=set guard=[0]"""), "writes outside of the tensor"),
    ("scratch that nobody wrote", func(LAUNCH, """
    launch dims=[N] steps=[4] {
      (%m: range)
      %t1 = load %t[%m] : f32[%m]
      store %y[%m], %t1
    }""", "level loop"), "padding or unset memory reaches"),
    ("an atomic on what nobody wrote", func(LAUNCH, """
    %v = load %x[:] : f32[N]
    %i = iota dim=[N] : i64[N]
    scatter %t[%i], %v fn=add"""), "updates what was never written"),
    ("scratch read across blocks", func(LAUNCH, """
    %all = load %x[:] : f32[N]
    store %t[:], %all
    parallel dims=[N] steps=[4] {
      (%m: range)
      %v = load %x[%m] : f32[%m]
      store %t[%m], %v
      %i = index %m : i64[%m]
      %one = const value=4 : i64[%m]
      %b = sub %i, %one : i64[%m]
      %c = add %i, %one : i64[%m]
      %g = gather %t[%b] : f32[%m]
      %h = gather %t[%c] : f32[%m]
      %r = add %g, %h : f32[%m]
      store %y[%m], %r
    }"""), "race: reads what another block writes"),
    ("a store beside another block's set", func(LAUNCH, """
    parallel dims=[N] steps=[4] {
      (%m: range)
      %v = load %x[%m] : f32[%m]
      store %s[%m], %v
      %z = const value=0 : i64[%m]
      scatter %s[%z], %v fn=set
    }"""), "race: another "),  # whichever comes first
    ("a loop without an end", func(LAUNCH, """
    %v = load %x[:] : f32[N]
    %r = while %v {
      (%a: f32[N])
      %true = const value=1 : bool[N]
      yield %true
    } {
      (%a: f32[N])
      yield %a
    } : f32[N]
    store %y[:], %r"""), "does not end after"),
    ("a condition of padding", padded("""%v = load %x[%m] guard=[1] : f32[%m]
    %i = index %m : i64[%m]
    %c = const value=2 : i64[%m]
    %b = sub %i, %c : i64[%m]
    %raw = gather %x[%b] guard=[1] : f32[%m]
    %r = while %raw {
      (%a: f32[%m])
      %h = const value=1 : f32[%m]
      %go = cmp %a, %h pred=gt : bool[%m]
      yield %go
    } {
      (%a: f32[%m])
      %h = const value=0.5 : f32[%m]
      %d = mul %a, %h : f32[%m]
      yield %d
    } : f32[%m]
    store %y[%m], %r guard=[1]"""), "whether a loop continues depends on padding"),
    ("padding that is printed", padded("""%t1 = const value=1 : bool[%m]
    print %t1 text="here" """), "whether it says something depends on padding"),
    ("what no block leaves", func(WORDS, """launch dims=[1] steps=[2] {
      (%m: range)
      %v = const value=0 : u64[%m]
      store %w[%m], %v
    }
    """ + AWAITED % "", "level loop"), "waits for ever: no block that has begun writes"),
    ("what is left after it is awaited", func(WORDS, AWAITED % LEFT, "level loop"),
     "waits for ever: no block that has begun writes"),
    ("a loop of two steps that is said to have one", func(LAUNCH, """launch dims=[N] steps=[0] {
      (%m: i64)
      %lo = const value=0 : i64
      %hi = const value=5 : i64
      for %lo, %hi dims=[N] steps=[4] single_trip=1 {
        (%i: range)
        yield
      }
    }""", "level loop"), "is said to have one step, and walks from 0 to 5 by 4"),
]
