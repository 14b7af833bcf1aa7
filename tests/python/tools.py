#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools.py: what the Python package offers beside calls: sources in Python files, comments as
documentation, logging, explain and source, bench, tune and its pins, bundles. Prints `N passed, N
failed`."""

import json
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

import tessera
from each_test import run_tests

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tessera-tools-"))
os.environ["XDG_DATA_HOME"] = str(FOLDER / "data")
ones = np.ones((8, 16), np.float32)
SOFTMAX = """
# Along each row.
kernel softmax(x: T[M, N]) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    return T(e / sum(e, axis=1))
}
tune softmax { tile M in 1, 2; threads in 1, 2 }
"""


def raises(error, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except error as raised:
        assert words in str(raised), f"no '{words}' in: {raised}"
        return raised
    raise AssertionError(f"no {error.__name__}: {words}")


# ---- sources in Python files ----

def test_errors_are_at_the_line_of_the_python_file():
    here = sys._getframe().f_lineno
    error = raises(tessera.SourceError, "tools.py", lambda: tessera.tile("""
        kernel f(x: f32[N]) -> f32[N] = x +
    """))
    assert f"tools.py:{here + 3}:5" in str(error), error
    program = tessera.tile("""kernel f(x: f32[N]) -> f32[N] = x + foo(x)""")
    error = raises(tessera.SourceError, "`foo`", program.f, ones[0])
    line = pathlib.Path(__file__).read_text().split("\n")[here + 4]
    assert f"tools.py:{here + 5}:{line.index('foo') + 1}" in str(error), error


def test_literals_of_all_kinds_are_found():
    """Raw, adjacent, with the same text twice, in a function that is called later, or not there."""
    from tessera._source import literals
    source = 'a = r"""x\ny"""\nb = """x\ny"""; c = (\n  \'x\\ny\')\né = "é", "x\\ny"\n'
    assert literals(source, "x\ny") == [(1, 8), (3, 7), (5, 3), (6, 10)], \
        literals(source, "x\ny")
    assert literals("this is no Python(", "x") == []
    error = raises(tessera.SourceError, "<text>:1:", tessera.tile, " kernel".strip() + " 3")
    assert error.diagnostics
    script = FOLDER / "late.py"
    script.write_text(textwrap.dedent('''
        import tessera, numpy
        def make():
            return tessera.tile("""
                kernel f(x: f32[N]) -> f32[N] {
                    assert(x > 5, "small")
                    return x
                }
            """).f
        try:
            make()(numpy.ones(3, numpy.float32))
        except tessera.AssertionFailed as error:
            print(error.messages[0].file, error.messages[0].line)
    '''))
    said = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.strip() == f"{script} 6", said.stdout


def test_a_program_in_a_python_file_is_pickled():
    f = tessera.tile("kernel f(x: f32[N]) -> f32[N] = x + 1").f
    again = pickle.loads(pickle.dumps(f))
    assert (again(ones[0]) == 2).all() and again.text == f.text
    assert f._program.path is None and f._program.pins.endswith("tools.tune")


def test_comments_are_documentation():
    program = tessera.parse("""# SPDX-License-Identifier: MIT
# Of the file.

# The first line,
#   and the second.
kernel f(x: f32[N]) -> f32[N] = x  # not this

# Not this.

kernel g(x: f32[N]) -> f32[N] = x
fn one(x: f32) = x
# SPDX-License-Identifier: MIT
kernel h(x: f32[N]) -> f32[N] = x
""")
    assert program.f.__doc__ == "f(x: f32[N]) -> out: f32[N]\n\nThe first line,\n  and the second."
    assert program.g.__doc__ == "g(x: f32[N]) -> out: f32[N]"
    assert program.h.__doc__ == "h(x: f32[N]) -> out: f32[N]"
    assert tessera.parse("# à\nkernel f(x: f32[N]) -> f32[N] = x").f.__doc__.endswith("\n\nà")


# ---- any number of axes ----

RANKS = """
kernel act(x: T[...], a: f32) -> T[...] where T: float = T(a * max(f32(x), 0))
kernel norm(x: T[..., D], w: T[D]) -> (y: T[..., D], s: f32[..., 1]) where T: float {
    s = sum(f32(x) * f32(x), axis=-1)
    y = x * w
}
kernel up(x: inout f32[...]) { x = x + 1 }
"""


def test_arrays_of_any_shape_and_strides():
    program = tessera.parse(RANKS)
    rng = np.random.default_rng(3)
    for shape in ((5,), (1,), (3, 4), (2, 1, 5), (2, 3, 4, 5), (1,) * 8, (2,) * 8, (4, 0, 3)):
        x = rng.standard_normal(shape).astype(np.float32)
        for array in (x, x.T, x[::-1], np.asfortranarray(x), x[..., ::2],
                      np.broadcast_to(x[:1], (3, *shape[1:]))):
            y = program.act(array, 2.0)
            assert y.shape == array.shape and (y == 2 * np.maximum(array, 0)).all(), shape
    x = rng.standard_normal((2, 3, 8)).astype(np.float32)
    assert (program.act(x, 3.0, T="f32") == 3 * np.maximum(x, 0)).all()
    assert (program.act(a=1.0, x=x) == np.maximum(x, 0)).all()
    out = np.zeros((8, 3, 2), np.float32).T
    assert program.act(x, 1.0, out=out) is out and (out == np.maximum(x, 0)).all()
    before = x.copy()
    program.up(x.transpose(2, 0, 1))
    assert (x == before + 1).all()


def test_some_axes_are_named():
    program = tessera.parse(RANKS)
    for shape in ((4, 6), (2, 3, 6), (2, 1, 3, 6)):
        x, w = np.ones(shape, np.float32), np.arange(6, dtype=np.float32)
        y, s = program.norm(x, w)
        assert (y == x * w).all() and (s == 6).all() and s.shape == (*shape[:-1], 1)
    raises(tessera.UsageError, "'x' is T[..., D]: an array of 1 axes", program.norm, w, w)
    raises(tessera.UsageError, "an array of 9 axes", program.act, np.ones((1,) * 9, np.float32), 1)


def test_kernels_of_a_rank():
    program = tessera.parse(RANKS)
    x = np.ones((2, 3, 4), np.float32)
    program.act(x, 1.0)
    assert "d2" in program.act.explain() and "d2" not in program.act.explain(x[0], 1.0)
    assert "act_3d" in program.act.source("sm_90a", tessera.spec("f32", 2, 3, 4), 1.0)
    assert program.act.bench(x, 1.0, seconds=0.01).kernel == "act"
    named = program["act[2]"]
    assert (named(x[0], 2.0) == 2).all() and program.act.of_rank(2) is named
    raises(tessera.SourceError, "act[2]", named, x, 1.0)
    raises(tessera.UsageError, "`act[1]` to `act[8]`", program.act.of_rank, 9)
    again = pickle.loads(pickle.dumps(program.act))
    assert (again(x, 2.0) == 2).all()
    assert "tile" in program.act.given(schedule="warps 2").schedule(x, 1.0, target="sm_90a")
    assert "act_3d" in tessera.bundle(program["act[3]"], targets="sm_90a", T="f32").header


# ---- logging ----

def test_logging():
    told = []

    class Keep(logging.Handler):
        def emit(self, record):
            told.append((record.levelno, record.getMessage()))
    logger, handler = logging.getLogger("tessera"), Keep()
    logger.addHandler(handler)
    old = logger.level
    try:
        logger.setLevel(logging.INFO)
        quiet = tessera.parse("kernel logged(x: f32[N]) -> f32[N] = x * 7")
        quiet.logged(ones[0])
        assert any(level == logging.INFO and "logged" in text for level, text in told), told
        told.clear()
        logger.setLevel(logging.WARNING)
        quiet.logged(ones[0, :3])
        assert not told, told
    finally:
        logger.removeHandler(handler)
        logger.setLevel(old)


# ---- explain, source ----

def test_explain_is_a_page_in_a_notebook():
    softmax = tessera.parse(SOFTMAX).softmax
    raises(tessera.UsageError, "`T` of `softmax` is not bound", softmax.explain)
    any_size = softmax.explain(T="f32", target="sm_90a")
    assert "schedule softmax on sm_90a" in any_size
    softmax(ones)
    explained = softmax.explain()
    assert explained == softmax.explain(ones) and isinstance(explained, str)
    page = explained._repr_html_()
    assert page.startswith("<iframe") and "srcdoc=\"&lt;!" in page
    assert explained.html().startswith("<!") and explained.json()["kernel"] == "softmax"
    assert pickle.loads(pickle.dumps(explained)) == explained
    assert "sm_80" in softmax.explain(target="sm_80")
    assert json.loads(softmax.explain(form="json"))
    raises(tessera.UsageError, "no form", softmax.explain, form="pdf")
    columns = np.ones((16, 8), np.float32).T
    softmax(columns)
    assert softmax.explain() == softmax.explain(columns) != explained


def test_source_is_the_code_of_a_target():
    softmax = tessera.parse(SOFTMAX).softmax
    like = tessera.spec("bf16", 64, 128)
    assert ".target sm_90a" in softmax.source("sm_90a", like)
    assert "gfx942" in softmax.source("gfx942", T="f32")
    assert ".text" in softmax.source("x86-64-v3", like)
    assert "define" in softmax.source("sm_80", like, kind="llvm")
    assert "func" in softmax.source("sm_80", like, kind="ir")
    softmax(ones)
    assert ".text" in softmax.source()
    raises(tessera.UsageError, "no text 'obj'", softmax.source, "sm_80", like, kind="obj")
    raises(tessera.UsageError, "sm_1", softmax.source, "sm_1", like)
    assert softmax.text == SOFTMAX


# ---- bench ----

def test_compiling_in_the_background():
    """What was started is waited for; what is wrong with it is said then, and again."""
    program = tessera.tile("""
        kernel scaled(x: T[...], a: f32) -> T[...] where T: float = T(x * a)
        kernel deep(x: f32[N, M]) -> f32[N, M] = x + 1
        kernel wrong(x: f32[N, M]) -> f32[N, M] = x @ x
    """)
    for _ in range(2):  # the second time there is nothing to do
        program.scaled.start(ones, 2.0)
        for n in range(3, 7):
            program.deep.start(np.ones((n, 8), np.float32))
            program.deep.start(tessera.spec("f32", n, 8), target="sm_90a")
    assert program.deep.compile(tessera.spec("f32", 5, 8), target="sm_90a").target == "sm_90a"
    for n in range(6, 2, -1):
        assert (program.deep(np.ones((n, 8), np.float32)) == 2).all()
    assert (program.scaled(ones, 2.0) == 2).all()
    for _ in range(2):
        program.wrong.start(ones)
        raises(tessera.SourceError, "inner extents", program.wrong, ones)
    tessera.tile("kernel left(x: f32[N]) -> f32[N] = x + 1").left.start(ones[0])


def test_a_fork_waits_for_what_is_compiled():
    """Its child compiles with the same library, of which no thread held a lock."""
    children = []
    for n in range(8):
        program = tessera.tile(f"kernel f(x: f32[N, M]) -> f32[N, M] = exp(x * {n}) + 1")
        for m in range(1, 5):
            program.f.start(np.zeros((3, m), np.float32))
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if (program.f(np.zeros((2, 5), np.float32)) == 2).all() else 1)
        children.append(child)
        assert (program.f(np.zeros((3, 2), np.float32)) == 2).all()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8


def test_bench():
    program = tessera.parse(SOFTMAX + "kernel up(x: inout f32[N]) { x = x + 1 }\n"
                            "kernel dot(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a @ b\n")
    measured = program.softmax.bench(ones, seconds=0.05)
    assert 0 < measured.low <= measured.seconds <= measured.high and len(measured.samples) == 7
    assert measured.bytes == 2 * ones.nbytes and measured.flops == 0
    assert "softmax on CPU" in str(measured) and measured.bandwidth > 0
    x = np.zeros(8, np.float32)
    assert program.up.bench(x, seconds=0.01, rounds=3).bytes == 2 * x.nbytes and x[0] > 3
    product = program.dot.bench(ones, ones.T.copy(), seconds=0.05, rounds=8)
    assert product.flops == 2 * 8 * 8 * 16 and "FLOP/s" in str(product)
    out = np.zeros_like(ones)
    program.softmax.bench(ones, out=out, seconds=0.01, rounds=1)
    assert np.allclose(out.sum(axis=1), 1)
    raises(tessera.UsageError, "rounds", program.softmax.bench, ones, rounds=0)
    raises(TypeError, "did you mean 'seconds'", program.softmax.bench, ones, second=1)


def test_intervals_are_those_of_the_program():
    from tessera._tune import interval
    assert interval([3.0]) == (3, 3, 3) and interval([4, 1]) == (2.5, 1, 4)
    for n, k in ((5, 1), (6, 1), (7, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (60, 22)):
        middle, low, high = interval(list(range(n, 0, -1)))
        assert (middle, low, high) == ((n + 1) / 2, k, n + 1 - k), (n, middle, low, high)


# ---- tune ----

def tuned(kernel, *arguments, **options):
    return kernel.tune(*arguments, store=FOLDER / "store.db", candidates=2, **options)


def test_tune_pins_beside_the_source():
    path = FOLDER / "softmax.tile"
    path.write_text(SOFTMAX)
    softmax = tessera.load(path).softmax
    told = []
    found = tuned(softmax, ones, budget=20, progress=told.append)
    assert told and told[-1].doing and all(isinstance(str(p), str) for p in told)
    assert found.measured > 0 and found.derived > 0 and "softmax on CPU" in str(found)
    pins = path.with_suffix(".tune")
    if found.faster:  # on a busy machine nothing may be
        assert found.pinned == str(pins) and "pin softmax" in pins.read_text()
    else:
        assert found.pinned is None and not pins.exists()
    assert np.allclose(softmax(ones).sum(axis=1), 1)


PIN = """tessera pins 1
pin f on sm_90a {{
    device NVIDIA H200
    kernel {digest}
    sizes N=513..1024%8
    version {version}
    schedule {{
        tile N 64
    }}
}}
"""


def write_pin(path, kernel, like):
    """What a search might have written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PIN.format(digest="0" * 32, version=tessera.version()))
    digest = kernel.compile(like, target="sm_90a").warnings.split(", and is ")[1][:32]
    path.write_text(PIN.format(digest=digest, version=tessera.version()))


def test_pins_of_a_text_are_in_the_users_data():
    """And a kernel that was compiled before looks at them when it is told to."""
    program = tessera.parse("kernel f(x: f32[N]) -> f32[N] = x + 3")
    like = tessera.spec("f32", 1000)
    assert program.pins.startswith(str(FOLDER / "data")), program.pins
    assert "pinned" not in program.f.schedule(like, target="sm_90a")
    write_pin(pathlib.Path(program.pins), tessera.parse(program.text).f, like)
    assert "pinned" not in program.f.schedule(like, target="sm_90a")
    program.refresh()
    assert "pinned" in program.f.schedule(like, target="sm_90a")
    assert (program.f(ones[0]) == 4).all()
    assert "pinned" not in program.f.given(pins=False).schedule(like, target="sm_90a")
    assert "pinned" in pickle.loads(pickle.dumps(program.f)).schedule(like, target="sm_90a")


def test_tune_of_a_text_takes_what_the_call_takes():
    """Strides, numbers, constants and index arrays, whose values count."""
    program = tessera.parse("""
kernel pick(x: T[M, N], at: i64[K], a: f32, twice: const bool = false) -> T[K, N] where T: float {
    out[k, n] = T(x[at[k], n] * a * (2 if twice else 1))
}
tune pick { threads in 1, 2 }
""")
    x = np.asfortranarray(np.ones((8, 16), np.float32))
    at = np.array([7, 0, 3])
    found = tuned(program.pick, x, at, 2.0, True, budget=20, pin=False, progress=False)
    assert found.pinned is None and found.raw["types"] == "T=f32, twice=true", found.raw
    assert found.raw["sizes"] == "K=3, M=8, N=16" and not found.failed, found.raw
    program.pick(x, at, 2.0)
    assert tuned(program.pick, budget="5s", progress=False, pin=False).raw["types"] == \
        "T=f32, twice=false"


def test_tune_says_what_is_wrong():
    program = tessera.parse(SOFTMAX + "kernel f(x: f32[N]) -> f32[N] = x + 3\n")
    raises(tessera.UsageError, "budget", program.softmax.tune, ones, budget=None)
    raises(tessera.UsageError, "no strategy 'exhaust': did you mean 'exhaustive'",
           program.softmax.tune, ones, strategy="exhaust")
    raises(TypeError, "did you mean 'candidates'", program.softmax.tune, ones, candidate=3)
    raises(tessera.UsageError, "facts", program.softmax.given(facts={"N": 1}).tune, ones)
    error = raises(tessera.UsageError, "nothing to search",
                   program.softmax.given(schedule="tile M 1, N 16; threads 1").tune, ones,
                   store=FOLDER / "store.db", progress=False)
    assert "E1052" in str(error)
    os.environ["TESSERA_PROGRAM"] = "/nowhere"
    try:
        raises(tessera.UnavailableError, "/nowhere", program.softmax.tune, ones)
    finally:
        del os.environ["TESSERA_PROGRAM"]


def test_ctrl_c_ends_a_search():
    script = FOLDER / "long.py"
    script.write_text("import tessera, numpy\n"
                      f"k = tessera.parse('''{SOFTMAX}''').softmax\n"
                      "x = numpy.ones((512, 512), 'f4')\n"
                      "try:\n"
                      "    k.tune(x, budget=60, store='stopped.db', progress=lambda p: "
                      "print(p, flush=True))\n"
                      "except KeyboardInterrupt:\n"
                      "    print('stopped')\n")
    child = subprocess.Popen([sys.executable, script], cwd=FOLDER, stdout=subprocess.PIPE,
                             text=True, start_new_session=True)
    with child.stdout:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    assert child.wait(60) == 0 and rest.endswith("stopped\n"), rest


# ---- bundles ----

def test_bundles():
    program = tessera.parse(SOFTMAX + "kernel f(x: f32[N], up: const bool = true) -> f32[N] {\n"
                            "    if up { return x + 1 } else { return x - 1 }\n}\n")
    both = tessera.bundle(program, targets=["x86-64-v3"], name="both", T="f32",
                          variants=[{"N": 64}, {"M": 8, "N": 64, "schedule": "tile M 1"}])
    assert "both_softmax_f32" in both.header and "both_f" in both.header
    path = FOLDER / "b.tile"
    path.write_text(SOFTMAX)
    one = tessera.bundle(path, targets="sm_90a", variants=[{"T": np.float32}, {"T": "f16"}],
                         facts={"N": 8})
    assert one.name == "b" and "b_softmax_f16" in one.header
    again = tessera.bundle(path, targets="sm_90a", variants=[{"T": "f32"}, {"T": "f16"}],
                           facts={"N": 8})
    assert again.object == one.object
    down = tessera.bundle(program.f.given(up=False), targets="x86-64-v3")
    assert down.name == "f" and "softmax" not in down.header
    raises(tessera.UsageError, "did you mean 'N'", tessera.bundle, program, targets="sm_80",
           variants=[{"n": 3}])
    raises(tessera.UsageError, "a size is part of a variant", tessera.bundle, program,
           targets="sm_80", N=3)
    raises(tessera.UsageError, "no kernel has the size", tessera.bundle, program, targets="sm_80",
           facts={"Q": 8})
    raises(tessera.UsageError, "native", tessera.bundle, program.f, targets="native")
    raises(tessera.UsageError, "a schedule is part of a variant", tessera.bundle,
           program.f.given(schedule="tile N 8"), targets="sm_80")


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
