#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py: the Python package, as it is installed, on NumPy's arrays, and on torch's and JAX's
where they are. Prints `N passed, N failed, N skipped`."""

import contextlib
import copy
import gc
import importlib.util
import inspect
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import threading

import numpy as np

import tessera
from each_test import run_tests

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
TEXT = """
kernel add(x: f32[N], y: f32[N], a: f32) -> f32[N] = x + a * y
kernel two(x: T[N], up: const bool = true) -> (a: T[N], s: T[N]) where T: float {
    if up { a = T(x + 1) } else { a = T(x - 1) }
    s = T(x * 2)
}
kernel count(x: inout f32[N]) { x = x + 1 }
kernel iota(x: f32[N], at: i64) -> i64[N, P] { out[i, j] = i * P + j + at }
kernel total(x: f32[N]) -> f32 = sum(x)
kernel narrow(x: f32[N]) -> T[N] where T: number = T(x)
kernel strange(out: f32[N], stream: f32) -> y: f32[N] = out * stream
kernel chain(x: f32[N, N]) -> f32[N, N] { let y = x @ x
    return y @ y }
"""
program = tessera.parse(TEXT, "text.tile")
ones = np.ones(8, np.float32)


def raises(kind, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert words in str(error), f"no '{words}' in: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}: {words}")


PIN = """tessera pins 1
pin add on {arch} {{
    device {device}
    kernel {digest}
    sizes N=513..1024%8
    version {version}
    schedule {{
        tile N 64
    }}
}}
"""


def test_pins_are_taken():
    """A file of pins beside the source, which a changed kernel's warning says how to mend."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source, beside, other = folder / "a.tile", folder / "a.tune", folder / "b.tune"
        source.write_text("kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n")
        x = np.arange(1000, dtype=np.float32)
        says = {"arch": "sm_90a", "device": "NVIDIA H200", "digest": "0" * 32,
                "version": tessera.version()}
        spec = tessera.spec("f32", 1000)
        beside.write_text(PIN.format(**says))
        stale = tessera.load(source).add.compile(spec, spec, target="sm_90a")
        assert "W2020" in stale.warnings and "pinned" not in stale.schedule, stale.warnings
        says["digest"] = stale.warnings.split(", and is ")[1][:32]
        beside.write_text(PIN.format(**says))
        add = tessera.load(source).add
        made = add.compile(spec, spec, target="sm_90a")
        assert "tile N 64  # pinned, a.tune:8" in made.schedule and not made.warnings
        assert "pinned" not in add.given(pins=False).schedule(spec, spec, target="sm_90a")
        more = tessera.spec("f32", 900 * 8)
        assert "pinned" not in add.schedule(more, more, target="sm_90a")
        beside.rename(other)
        assert "pinned" not in tessera.load(source).add.schedule(spec, spec, target="sm_90a")
        given = add.given(pins=other).given(optimize=1)
        assert "pinned, b.tune:8" in given.schedule(spec, spec, target="sm_90a")
        raises(tessera.UnavailableError, "cannot read the pins",
               add.given(pins=folder / "c.tune").schedule, spec, spec, target="sm_90a")
        # Of another device: nothing is said, and the answer is the same.
        says["device"] = "another"
        beside.write_text(PIN.format(**says))
        assert (tessera.load(source).add(x, x) == 2 * x).all()


def test_results_are_made_and_given():
    y = program.add(ones, ones, 2.0)
    assert type(y) is np.ndarray and y.dtype == np.float32 and (y == 3).all()
    z = np.zeros(8, np.float32)
    for a in (1, 2.5, np.float32(4), True):
        assert program.add(ones, y=ones, a=a, out=z) is z
        assert (z == 1 + np.float32(a)).all()
    a, s = program.two(ones, out=(None, z))
    assert s is z and (a == 2).all() and (s == 2).all()
    assert (program.two(ones, False)[0] == 0).all() and (program.two(ones)[0] == 2).all()
    assert (program.two(ones, up=False)[0] == 0).all()
    assert program.count(z) is None and (z == 3).all()
    assert program.total(ones).shape == (1,) and program.total(ones) == 8


def test_many_calls_with_other_arrays():
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 8, 1000, 1001, 8, 3):
        for _ in range(3):
            x, y = rng.random((2, n), np.float32)
            assert np.allclose(program.add(x, y, 0.5), x + np.float32(0.5) * y)
    a, b = np.ones(8, np.float32), np.zeros(8, np.float32)
    for _ in range(4):  # to and fro
        program.add(a, ones, 1, out=b)
        program.add(b, ones, 1, out=a)
    assert (a == 9).all()


def test_sizes_and_generics_by_name():
    y = program.iota(ones, 5, P=3)
    assert y.shape == (8, 3) and (y == np.arange(24).reshape(8, 3) + 5).all()
    assert program.iota(ones, 2**62, P=1)[1, 0] == 2**62 + 1
    assert program.narrow(ones, T="i8").dtype == np.int8
    assert program.narrow.given(T="f64")(ones).dtype == np.float64
    raises(tessera.UsageError, "P", program.iota, ones, 5)
    raises(TypeError, "no parameter 'Q'", program.iota, ones, 5, Q=3)


def test_strides_and_addresses():
    softmax = tessera.kernel(EXAMPLES / "softmax.tile")
    x = np.random.default_rng(2).random((6, 40), np.float32)

    def want(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    odd = np.empty(241, np.float32)[1:].reshape(6, 40)
    odd[:] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    for a in (x, np.asfortranarray(x), x[::2], x[:, ::-1], odd, fixed, x[:, 3:], x[:0]):
        assert np.allclose(softmax(a), want(a) if a.size else a)
    y = np.zeros((40, 6), np.float32)
    assert np.allclose(softmax(x, out=y.T), want(x)) and np.allclose(y.T, want(x))
    raises(tessera.UsageError, "read-only", softmax, x, out=fixed)
    raises(tessera.UsageError, "shares memory", softmax, x, out=x)
    raises(tessera.UsageError, "other order", softmax, x.astype(">f4"))


def test_nothing_is_written_behind_the_end():
    narrow = tessera.parse("kernel narrow(x: i32[M, N]) -> i16[M, N] = i16(x)").narrow
    for columns in (1, 17, 49, 63):
        x = np.arange(3 * columns, dtype=np.int32).reshape(3, columns)
        whole = np.full(x.size + 64, 9, np.int16)
        narrow(x, out=whole[: x.size].reshape(x.shape))
        assert (whole[: x.size] == x.ravel()).all() and (whole[x.size:] == 9).all()


def test_errors():
    error = raises(tessera.SourceError, "size N is 8", program.add, ones, ones[:7], 1.0)
    assert error.diagnostics[0]["code"] == "E1018" and isinstance(error, RuntimeError)
    doubles = ones.astype(np.float64)
    raises(tessera.SourceError, "elements of type f64", program.add, ones, doubles, 1.0)
    raises(TypeError, "'a' is missing", program.add, ones, ones)
    raises(TypeError, "takes 3 arguments", program.add, ones, ones, 1, 2)
    raises(TypeError, "'x' is given twice", program.add, ones, ones, 1, x=ones)
    raises(tessera.UsageError, "add: 'y' is f32[N]: arrays of complex64 are not known",
           program.add, ones, ones.astype(np.complex64), 1.0)
    raises(tessera.UsageError, "'y' is f32[N]: an array whose bytes are in the other order",
           program.add, ones, ones.astype(">f4"), 1.0)
    raises(TypeError, "is str, not bytes", tessera.parse, TEXT.encode())
    raises(TypeError, "is str, not NoneType", tessera.parse, None)
    assert tessera.__version__ == tessera.version()
    raises(TypeError, "not a number", program.add, 1.0, ones, 1)
    raises(TypeError, "list is no array", program.add, [1.0], ones, 1)
    raises(TypeError, "has 2 results", program.two, ones, out=ones)
    raises(AttributeError, "no kernel 'ad'", lambda: program.ad)
    raises(tessera.UsageError, "did you mean 'add'", lambda: program["ad"])
    error = raises(tessera.SourceError, "expected", tessera.parse, "kernel k(", "k.tile")
    assert error.diagnostics[0]["file"] == "k.tile"
    raises(tessera.UnavailableError, "cannot read", tessera.load, "/no/such.tile")
    raises(tessera.UsageError, "no type", tessera.spec, "f33", 4)
    raises(tessera.UsageError, "8 kernels", tessera.kernel, write(TEXT))
    assert tessera.kernel(f"{write(TEXT)}:add").name == "add"


def write(text):
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "written.tile"
    path.write_text(text)
    return str(path)


def test_signatures():
    signature = inspect.signature(program.two)
    assert str(signature) == ("(x: 'T[N]', up: 'const bool' = True, *, T=None, N=None, out=None, "
                              "stream=None) -> ('T[N]', 'T[N]')"), signature
    assert "out" in inspect.signature(program.strange).parameters
    assert (program.strange(ones, 3.0) == 3).all()
    assert list(program) == ["add", "two", "count", "iota", "total", "narrow", "strange", "chain"]
    assert program.add.__name__ == "add" and "f32[N]" in repr(program.add)


def test_explaining():
    linear = tessera.kernel(EXAMPLES / "linear.tile")
    specs = [tessera.spec("bf16", 4096, 4096)] * 2 + [tessera.spec("bf16", 4096)]
    assert "pipeline" in linear.schedule(*specs, target="sm_90a")
    assert "schedule linear on sm_90a" in linear.explain(*specs, target="sm_90a")
    assert json.loads(linear.explain(*specs, target="sm_90a", form="json"))
    compiled = linear.compile(*specs, target="sm_90a")
    assert compiled.sizes["K"] == 4096 and compiled.bindings == {"T": "bf16"}
    assert b"wgmma" in compiled.emit("ptx") and compiled.shape(3) == ("bf16", (4096, 4096))
    lines = linear.given(schedule="tile M 64, N 64; warps 4")
    assert "tile M 64, N 64" in lines.schedule(*specs, target="sm_80")
    raises(tessera.UsageError, "no such key", linear.given(schedule="tiles M 3").schedule, *specs)
    raises(tessera.UsageError, "no form", compiled.explain, "pdf")


def test_constants_without_arrays():
    """They hold where nothing but sizes is given, bound or by name."""
    text = "kernel c(x: f32[N], k: const i64 = 1) -> f32[N] = x * f32(k)"
    c = tessera.parse(text).c
    three = c.compile(tessera.spec("f32", 8), 3, target="sm_90a")
    for compiled in (c.given(k=3).compile(target="sm_90a", N=8),
                     c.compile(target="sm_90a", N=8, k=3)):
        assert compiled.bindings == three.bindings == {"k": "3"}
        assert compiled.emit("ptx") == three.emit("ptx")
    assert c.compile(target="sm_90a", N=8).emit("ptx") != three.emit("ptx")


def test_one_code_for_all_sizes():
    any_size = program.add.given(facts={"N": 1})
    for n in range(1, 20):
        x = np.ones(n, np.float32)
        assert (any_size(x, x, 1) == 2).all()
    assert len(any_size._compiler.made) == 1


def test_prepared():
    y = np.empty(8, np.float32)
    launch = program.add.prepare(ones, ones, 3.0, out=y)
    launch()
    assert (y == 4).all() and launch.results[0] is y and launch.time(10) > 0
    made = program.chain.prepare(np.eye(24, dtype=np.float32))
    made()
    assert (made.results[0] == np.eye(24)).all() and made.workspace >= 24 * 24 * 4


def test_memory_of_what_was_prepared_is_bounded():
    kernel = program["total"]
    for n in range(1, 300):
        assert kernel(np.ones(n, np.float32)) == n
    assert len(kernel._entries) <= 256 and len(kernel._compiler.made) <= 256


def test_threads():
    problems = []

    def work(seed):
        try:
            for i in range(100):
                x = np.full(8 + i % 3, seed, np.float32)
                assert (program.add(x, x, 1.0) == 2 * seed).all()
        except Exception as error:  # noqa: BLE001 (told below)
            problems.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_compiling_elsewhere():
    raises(tessera.UsageError, "no way", tessera.isolate, "often")
    tessera.isolate("always", 30)
    try:
        far = tessera.parse(TEXT.replace("x + a * y", "x - a * y")).add
        assert (far(ones, ones, 3.0) == -2).all()
    finally:
        tessera.isolate("never")


def test_freed_in_any_order():
    kernel = tessera.parse(TEXT)["add"]
    launch = kernel.prepare(ones, ones, 1.0)
    del kernel
    gc.collect()
    launch()
    ring = [tessera.parse(TEXT)["add"]]
    ring.append(ring)
    ring[0](ones, ones, 1.0)
    del ring
    gc.collect()


def test_foreign_arrays():
    class Foreign:
        """An array of nobody's, through DLPack alone."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **_):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    y = np.empty(8, np.float32)
    assert isinstance(program.add(Foreign(ones), Foreign(ones), 1, out=y), np.ndarray)
    assert (y == 2).all()
    raises(tessera.UsageError, "give out=", program.two, Foreign(ones))
    recorded = Foreign(ones)
    for _ in range(2):
        recorded.requires_grad = False
        assert program.add(recorded, ones, 1, out=y)[0] == 2
        recorded.requires_grad = True
        raises(tessera.UsageError, "'x' is f32[N]: an array that requires grad", program.add,
               recorded, ones, 1, out=y)

    class OnGpu:
        """What numba says of an array on a GPU."""

        def __init__(self, fixed=False, **face):
            self.__cuda_array_interface__ = {"shape": (8,), "typestr": "<f4", "version": 3,
                                             "data": (4096, fixed), **face}

    adds = program.add.prepare
    raises(tessera.UsageError, "arrays lie on 2 devices: cpu:0, cuda:0", adds, OnGpu(), ones, 1)
    raises(tessera.UsageError, "'out' is f32[N]: an array that is read-only", adds, OnGpu(),
           OnGpu(), 1, out=OnGpu(fixed=True))
    raises(tessera.UsageError, "'y' is f32[N]: an array with a mask", adds, OnGpu(),
           OnGpu(mask=OnGpu()), 1)
    raises(tessera.UsageError, "elements >f4", adds, OnGpu(typestr=">f4"), OnGpu(), 1)
    for wrong in ({"typestr": "f"}, {"data": None}, {"shape": None}, {"typestr": 4}):
        raises(tessera.UsageError, "does not say what it has to", adds, OnGpu(**wrong), OnGpu(), 1)


def test_torch():
    import torch
    t = torch.ones(8)
    assert torch.equal(program.add(t, t, 2.0), torch.full((8,), 3.0))
    half = program.two(torch.ones(4, 6, dtype=torch.bfloat16)[:, 0])
    assert half[0].dtype == torch.bfloat16 and half[0].tolist() == [2.0] * 4
    op = tessera.torch.operator(program.add)
    compiled = torch.compile(lambda x, y: op(x, y, 3.0) * 2, backend="eager", fullgraph=True)
    assert compiled(t, t).tolist() == [8.0] * 8
    torch.library.opcheck(op, (t, t, 2.0))
    counter = tessera.torch.operator(program.count)
    z = torch.zeros(3)
    counter(z)
    assert z.tolist() == [1.0] * 3
    several = tessera.torch.operator(program.two)
    assert several(t, False)[0].tolist() == [0.0] * 8
    if torch.cuda.is_available():
        c = torch.ones(1000, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            y = program.add(c, c, 2.0)
        stream.synchronize()
        assert torch.equal(y, torch.full_like(c, 3.0))
        raises(tessera.UsageError, "2 devices", program.add, c, t.new_ones(1000), 1.0)
        graph, out = torch.cuda.CUDAGraph(), torch.empty_like(c)
        program.add(c, c, 2.0, out=out)
        with torch.cuda.graph(graph):
            program.add(c, c, 2.0, out=out)
        c.fill_(2)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, torch.full_like(c, 6.0))


def test_torch_again():
    """What is prepared is found again by C, of arrays like those before and of no others."""
    import torch
    both = tessera.parse("kernel both(x: T[M, N]) -> (a: T[M, N], b: T[M, N]) where T: float {\n"
                         "    a = T(x - 1)\n    b = T(x + 1)\n}").both
    add = tessera.parse(TEXT).add
    places = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for place in places:
        ones = {n: torch.ones(n, device=place) for n in (8, 9, 4, 1)}
        for turn in range(3):
            for n, t in ones.items():
                given = torch.empty(n, device=place)
                assert torch.equal(add(t, t, 2.0 + turn), torch.full_like(t, 3.0 + turn))
                fixed = torch.nn.Parameter(t, requires_grad=False)
                assert add(t, fixed, 2.0, out=given) is given
                assert given.tolist() == [3.0] * n
            wide = torch.arange(16.0, device=place)
            assert add(wide[::2], wide[1::2], 1.0).tolist() == (wide[::2] + wide[1::2]).tolist()
            assert add(wide[1:9], wide[:8], 1.0).tolist() == (wide[1:9] + wide[:8]).tolist()
            m = torch.arange(12.0, device=place).reshape(3, 4)
            for x in (m, m.T, m.T.contiguous(), m.bfloat16(), m[:, :3], m[:, :1]):
                low, high = both(x)
                assert torch.equal(low, x - 1) and torch.equal(high, x + 1)
                assert low.dtype == high.dtype == x.dtype
                given = torch.empty_like(low), torch.empty_like(high)
                assert both(x, out=given)[1] is given[1] and torch.equal(given[0], x - 1)
                assert both(x, out=(None, given[0]))[1] is given[0]
                assert torch.equal(given[0], x + 1)
        text = "kernel c(x: T[N], y: T[N], up: const i64 = 1, sign: const bool = true) -> T[N] " \
            "where T: float = T(x + y * T(up)) if sign else T(x - y * T(up))"
        if_sign, t = tessera.parse(text).c, ones[8]
        counting = tessera.parse(TEXT).count
        for _ in range(3):
            for turn in range(2):
                assert if_sign(t, t)[0] == 2 and if_sign(t, t, 2 + turn)[0] == 3 + turn
                assert if_sign(t, t, up=turn, sign=False)[0] == 1 - turn
                assert if_sign(t, t, sign=False, up=turn)[0] == 1 - turn
                assert if_sign(t, t, turn, False)[0] == 1 - turn
                assert if_sign(t, y=t, up=3)[0] == 4 and if_sign(t, t, T="f32")[0] == 2
                raises(TypeError, "has no parameter 'other'", if_sign, t, t, other=3)
                raises(TypeError, "is missing", if_sign, t)
                raises(TypeError, "takes 4", if_sign, t, t, 1, True, 3)
            steps = torch.zeros(8, device=place)
            assert counting(steps) is None and counting(steps) is None and steps.tolist() == [2] * 8
        complex_ones = torch.full((8,), 1 + 2j, device=place).conj()
        plain_two = torch.full((8,), 1 + 2j, device=place)
        zeros = torch.zeros(8, device=place)
        for _ in range(2):
            assert add(plain_two.imag, zeros, 1.0).tolist() == [2.0] * 8
        raises(tessera.UsageError, "lazy conjugate or negative", add, complex_ones.imag, zeros, 1.0)
        raises(tessera.UsageError, "lazy conjugate or negative", add, complex_ones[:1].imag,
               zeros[:1], 1.0)
        for _ in range(2):
            raises(tessera.UsageError, "a tensor without memory",
                   torch.func.vmap(lambda x: add(x, zeros, 1.0)), torch.ones(3, 8, device=place))
            raises(tessera.UsageError, "dense ones", add, zeros.to_sparse(), zeros, 1.0)
        t = ones[8]
        for _ in range(2):  # found and refused alike, however often
            raises(TypeError, "", add, t, 3, 2.0)
            raises(TypeError, "", add, t, t, t)
            raises(Exception, "", add, t, t, 2.0, out=(t, t))
            raises(Exception, "", add, t, t, 2.0, out=())
            raises(Exception, "", add, t, ones[9], 2.0)
            raises(Exception, "", add, t, t.double(), 2.0)
            raises(Exception, "", add, t, t, 2.0, out=ones[9])
            raises(tessera.UsageError, "shares memory", add, t, t, 2.0, out=t)
            assert add(t, t, 2.0).tolist() == [3.0] * 8


def test_torch_within_a_call():
    """A finalizer or a signal's handler that calls the kernel while it is called changes nothing
    of the outer call."""
    import torch
    kernels = tessera.parse("""
kernel add(x: f32[N], y: f32[N], a: f32) -> f32[N] = x + a * y
kernel two(x: f32[N]) -> (a: f32[N], b: f32[N]) {
    a = x + 1
    b = x * 2
}""")
    x, hundred = torch.ones(8), torch.full((8,), 100.0)
    for kernel, arguments in ((kernels.add, (3.0,)), (kernels.two, ())):
        arrays = 1 if kernel is kernels.two else 2
        for _ in range(3):
            wanted = kernel(*[x] * arrays, *arguments)
        inner = []
        for entry in kernel._recent.entries:
            makers = entry.makers

            def make(real, makes=makers):
                if len(inner) < 1:
                    inner.append(None)
                    inner[0] = kernel(*[hundred] * arrays, *[a + 4 for a in arguments])
                return real()

            entry.makers = [lambda real=real: make(real) for real in makers]
            entry.make = entry.makers[0] if entry.make else None
        got = kernel(*[x] * arrays, *arguments)
        for mine, theirs in zip(got if arrays == 1 else [got], wanted if arrays == 1 else [wanted]):
            assert torch.equal(mine, theirs), (mine, theirs)
        first = inner[0][0] if arrays == 1 else inner[0]
        assert first[0] == (101 if arrays == 1 else 800)


def test_torch_on_several_gpus():
    """Each call goes to the GPU of its arrays, whichever is the current one, from any thread."""
    import torch
    n = torch.cuda.device_count()
    if n < 2:
        return
    add = tessera.parse(TEXT).add
    arrays = [torch.full((4096,), float(i), device=f"cuda:{i}") for i in range(n)]
    for turn in range(4):
        for current in range(n):
            with torch.cuda.device(current):
                for i, t in enumerate(arrays):
                    made, given = add(t, t, 2.0 + turn), torch.empty_like(t)
                    add(t, t, 3.0 + turn, out=given)
                    assert made.device == t.device and torch.cuda.current_device() == current
                    assert torch.equal(made, t * (3 + turn))
                    assert torch.equal(given, t * (4 + turn))
                    away = arrays[(i + 1) % n]
                    raises(tessera.UsageError, "2 devices", add, t, away, 2.0)
                    raises(tessera.UsageError, "2 devices", add, t, t, 2.0, out=away.clone())
    wrong = []

    def work(i):
        with torch.cuda.device(i), torch.cuda.stream(torch.cuda.Stream(i)):
            t = torch.full((1 << 20,), 1.0, device=f"cuda:{i}")
            for _ in range(50):
                t = add(t, t, 1.0) * 0.5
            if t.device.index != i or not torch.equal(t, torch.ones_like(t)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i % n,)) for i in range(2 * n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def test_later_calls():
    """Calls that look alike to what was prepared before, and are not."""
    ones = np.ones(4096, np.float32)
    update = tessera.parse("kernel u(p: inout f32[N], g: f32[N]) { p = p + g }").u
    total = np.zeros(4096, np.float32)
    for _ in range(3):
        update(total, ones)
    assert total[0] == total[-1] == 3
    fixed = np.frombuffer(bytes(4096 * 4), np.float32)
    raises(tessera.UsageError, "read-only", update, fixed, ones)
    raises(TypeError, "u: 'g' is f32[N]: list is no array", update, total, [1.0])
    raises(TypeError, "u: 'p' is inout f32[N]: NoneType is no array", update, None, ones)
    scale = tessera.parse("kernel s(x: f32[N], a: i64) -> f32[N] = x * f32(a)").s
    assert scale(ones, 2)[0] == 2
    raises(TypeError, "not a number", scale, 64, ones)
    twice = tessera.parse("kernel t(x: f32[N]) -> f32[N] = x + x").t
    twice(ones, out=np.empty_like(ones))
    raises(tessera.UsageError, "read-only", twice, ones, out=fixed)
    assert not fixed.any()
    over = tessera.parse("kernel o(x: f32[N], e: const f32 = 1.0) -> f32[N] = x / e").o
    with np.errstate(all="ignore"):
        assert over(ones, 0.0)[0] == np.inf and over(ones, -0.0)[0] == -np.inf


def test_numbers():
    """Each is one of its parameter's type, or an error; in the first call and in later ones."""
    text = "kernel s(x: f32[N], a: {0}) -> f32[N] = x * f32(a)"
    for dtype, low, high in (("i8", -128, 127), ("u8", 0, 255), ("i32", -2**31, 2**31 - 1),
                             ("u32", 0, 2**32 - 1), ("i64", -2**63, 2**63 - 1),
                             ("u64", 0, 2**64 - 1)):
        scale = tessera.parse(text.format(dtype)).s
        for _ in range(2):
            for good in (low, high, np.int64(1), 3.0, True):
                assert np.isclose(scale(ones, good)[0], float(good)), (dtype, good)
            for bad in (low - 1, high + 1, 2.5, float("nan"), float("inf")):
                raises(tessera.UsageError, f"'a' is {dtype}, of which there are {low} to {high}",
                       scale, ones, bad)
    of_type = tessera.parse("kernel g(x: T[N], a: T) -> T[N] where T: number = x * a").g
    raises(tessera.UsageError, "'a' is i16", of_type, np.ones(4, np.int16), 40000)
    assert of_type(ones, 2.5)[0] == 2.5
    raises(tessera.UsageError, "is too large", program.add, ones, ones, 10**400)
    for wrong, words in ((ones, "a number, not an array of shape (8,)"), ("2", "not a str"),
                         (np.array(2.0), "give its .item()"), ([1], "not a list"),
                         (None, "not a NoneType")):
        for _ in range(2):
            raises(TypeError, words, program.add, ones, ones, wrong)
    signs = tessera.parse("kernel d(x: f32[N], a: f32) -> f32[N] = x / a").d
    with np.errstate(all="ignore"):
        assert [signs(ones, a)[0] for a in (0.0, -0.0, 0.0)] == [np.inf, -np.inf, np.inf]


def test_constants():
    """As numbers are, whatever class they are of; the first time and when they are known."""
    text = """kernel c(x: f32[N], k: const i32 = 1, f: const f32 = 1.0, b: const bool = true)
        -> f32[N] = x * f32(k) * f if b else -x"""
    c = tessera.parse(text).c
    for _ in range(2):
        for k in (3, 3.0, np.int8(3), np.float64(3), "3"):
            assert c(ones, k)[0] == 3 and c(ones, k=k)[0] == 3, k
        for k in (2.5, 2**31, -2**31 - 1, 2**70, float("nan"), float("inf")):
            raises(tessera.UsageError, "c: 'k' is i32, of which there are", c, ones, k)
        for f in (2, 2.0, np.float32(2), np.int64(2)):
            assert c(ones, f=f)[0] == 2, f
        assert c(ones, f=2**70)[0] == np.float32(2.0**70)
        raises(tessera.UsageError, "is too large", c, ones, f=10**400)
        for b in (False, np.False_, 0, 0.0, "false"):
            assert c(ones, b=b)[0] == -1, b
        for b in (True, np.True_, 1):
            assert c(ones, b=b)[0] == 1, b
        raises(tessera.UsageError, "'b' is bool", c, ones, b=2)
        raises(TypeError, "a number, not a list", c, ones, k=[1])
        raises(TypeError, "give its .item()", c, ones, k=np.array(1))


def test_sizes_and_facts():
    """Each is a whole number that 64 bits can hold."""
    for _ in range(2):
        for size in (3, 3.0, np.int64(3), np.uint8(3)):
            assert program.iota(ones, 0, P=size).shape == (8, 3)
        for wrong in (2.5, 2**70, 2**63, -2**63 - 1, True, np.True_, "3", float("nan"), 1j, [3],
                      float("inf"), np.array(3)):
            words = "the size P is a whole number of 64 bits"
            raises(tessera.UsageError, words, program.iota, ones, 0, P=wrong)
            raises(tessera.UsageError, words, program.iota.compile, ones, 0, P=wrong)
            raises(tessera.UsageError, "a fact of N is a whole number of 64 bits",
                   program.add.given, facts={"N": wrong if type(wrong) is not list else "x"})
            raises(tessera.UsageError, "a whole number of 64 bits", program.add.given,
                   facts={"N": (1, 0, wrong)})
            raises(tessera.UsageError, "a whole number of 64 bits", tessera.spec, "f32", wrong)
        raises(tessera.UsageError, "is negative", program.iota, ones, 0, P=-1)
        for huge in (2**60, 2**62, 2**63 - 1):
            raises(tessera.Error, "more than 2^57 bytes", program.iota, ones, 0, P=huge)
            raises(tessera.Error, "more than 2^57 bytes", program.iota.compile, ones, 0, P=huge)
    raises(tessera.UsageError, "negative size", tessera.spec, "f32", -1)
    raises(tessera.UsageError, "a fact of N is a multiple, or", program.add.given, facts={"N": ()})
    raises(tessera.UsageError, "did you mean 'N'?", program.add.given, facts={"n": 1})
    raises(tessera.UsageError, "-1 to 3", program.add.given, optimize=2**32)
    raises(tessera.UsageError, "whole number", program.add.given, optimize="fast")
    launch = program.add.prepare(ones, ones, 1.0)
    for wrong in (0, -1, 2**31, 2.5, "1"):
        raises(tessera.UsageError, "timed", launch.time, wrong)
    raises(tessera.UsageError, "no device has", tessera.device, "cpu", 2**40)
    raises(tessera.UsageError, "whole number", tessera.device, "cpu", 2.5)
    raises(TypeError, "is str, not NoneType", tessera.device, None)
    raises(TypeError, "a target is str, not int", program.add.compile, ones, ones, 1.0, target=3)
    raises(tessera.UsageError, "a zero byte", program.add.compile, ones, ones, 1.0,
           target="native\0sm_90a")
    raises(tessera.UsageError, "a zero byte", tessera.load, "a.tile\0b")


def test_types_by_name():
    for of in ("f64", np.float64, np.dtype("float64")):
        assert program.narrow(ones, T=of).dtype == np.float64
        assert tessera.spec(of, 3).dtype == "f64"
    raises(tessera.UsageError, "narrow: T: no type f33: bool, i8", program.narrow, ones, T="f33")
    raises(tessera.UsageError, "no type complex64", program.narrow, ones, T=np.complex64)


def test_names():
    """What nothing has is said, with what was meant, wherever it is given."""
    add, mean = program.add, "did you mean '{}'?".format
    for _ in range(2):
        raises(TypeError, mean("stream"), add, ones, ones, 1.0, strem=None)
        raises(TypeError, mean("out"), add, ones, ones, 1.0, uot=None)
        raises(TypeError, "add has no parameter 'A': " + mean("a"), add, ones, ones, A=1.0)
        raises(TypeError, "by name there are x, at, N, P, out, stream", program.iota, ones, 5, Q=3)
        raises(TypeError, mean("T"), program.narrow, ones, t="i8")
    raises(TypeError, mean("schedule"), add.given, shedule="tile N 64")
    raises(TypeError, mean("optimize"), add.given, optimise=1)
    raises(TypeError, mean("up"), program.two.given, Up=True)
    raises(TypeError, mean("target"), add.compile, ones, ones, 1.0, taget="native")
    raises(TypeError, mean("form"), add.explain, ones, ones, 1.0, from_="json")
    raises(TypeError, mean("target"), add.schedule, ones, ones, 1.0, targets="native")
    raises(TypeError, "'stream'", add.prepare, ones, ones, 1.0, stream=None)


def test_masked_arrays():
    """However often plain ones have been taken before."""
    masked = np.ma.masked_array(ones, [False] * 7 + [True])
    for _ in range(3):
        assert program.add(ones, ones, 1.0)[0] == 2
        raises(tessera.UsageError, "add: 'x' is f32[N]: a masked array", program.add, masked, ones,
               1.0)
        raises(tessera.UsageError, "'y' is f32[N]: a masked array", program.add, ones, masked, 1.0)
        raises(tessera.UsageError, "'out' is f32[N]: a masked array", program.add, ones, ones, 1.0,
               out=masked)
        raises(tessera.UsageError, "'x' is inout f32[N]: a masked array", program.count, masked)
        raises(TypeError, "a number, not", program.add, ones, ones, np.ma.masked)
        assert (program.add(masked.filled(0), masked.data, 1.0) == [2] * 7 + [1]).all()
    raises(tessera.UsageError, "a masked array", program.add.prepare, ones, masked, 1.0)
    raises(tessera.UsageError, "a masked array", tessera.view, masked, "i32")


def work_of_another_process(kernel, program, x):
    return kernel(x), program["two"](x, False)[1]


def test_copies_of_kernels():
    """Pickled, they are made again of their source; a deep copy is the kernel, as of a function."""
    narrow = program.narrow.given(T="i16", facts={"N": 1}, schedule="unroll 2")
    path = pathlib.Path(write(TEXT))
    loaded = tessera.load(os.path.relpath(path))
    for kernel in (narrow, pickle.loads(pickle.dumps(narrow))):
        assert kernel(ones * 7).dtype == np.int16 and "unroll 2" in kernel.schedule(ones)
    read = pickle.loads(pickle.dumps((loaded, loaded["total"], loaded.total)))
    assert read[1] is read[2] is read[0].total and read[1](ones) == 8
    assert pickle.loads(pickle.dumps(program))["add"](ones, ones, 2.0)[0] == 3
    held = copy.deepcopy({"kernel": narrow, "program": program, "again": [narrow]})
    assert held["kernel"] is narrow is held["again"][0] and held["program"] is program
    assert copy.copy(narrow) is narrow
    spec = pickle.loads(pickle.dumps(tessera.spec("bf16", 3)))
    assert (spec.dtype, spec.dims) == ("bf16", (3,))
    for bound in (narrow.prepare(ones), narrow.compile(ones), tessera.device("cpu")):
        for how in (pickle.dumps, copy.deepcopy):
            raises(TypeError, "is of the process that made it", how, bound)
    said = tessera.AssertionFailed("no", [tessera.Message(True, "no", None, 1)])
    assert pickle.loads(pickle.dumps(said)).messages == said.messages
    wrong = raises(tessera.SourceError, "E1018", program.add, ones, ones[:3], 1.0)
    assert pickle.loads(pickle.dumps(wrong)).diagnostics == wrong.diagnostics


def test_other_processes():
    """Kernels as arguments of processes that begin anew, and of ones that are forked."""
    kernel = program.narrow.given(T="i32")
    for how in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            for narrow, twice in pool.starmap_async(work_of_another_process,
                                                    [(kernel, program, ones * i) for i in
                                                     range(4)]).get(120):
                assert narrow.dtype == np.int32 and (twice == 2 * narrow).all()
            failed = pool.apply_async(program.add, (ones, ones[:3], 1.0))
            raises(tessera.SourceError, "size N is 8", failed.get, 120)


def test_forks_while_others_call():
    """No child begins with a lock that a thread of its parent held."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            program.add(ones, ones, 1.0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for i in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if program.add(ones, ones, 2.0)[0] == 3 and
                     tessera.parse(TEXT).total(ones) == 8 else 1)
        children.append(child)
    stop.set()
    for thread in threads:
        thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 20


def test_views():
    """Elements of four bits, two in a byte; 16 bits that NumPy has no name for."""
    four = tessera.parse("kernel w(x: i4[N]) -> f32[N] = f32(x)\n"
                         "kernel n(x: f32[N]) -> i4[N] = i4(x)")
    packed = np.array([0x21, 0xf8], np.uint8)
    out = np.zeros(4, np.float32)
    for _ in range(2):
        assert four.w(tessera.view(packed, "i4")).tolist() == [1, 2, -8, -1]
        assert four.w(tessera.view(packed, "i4", 4), out=out) is out and out[2] == -8
        back = np.zeros(2, np.uint8)
        four.n(out, out=tessera.view(back, "i4"))
        assert back.tolist() == packed.tolist()
    half = tessera.parse("kernel h(x: bf16[N]) -> f32[N] = f32(x)").h
    assert half(tessera.view(np.array([0x3f80, 0xc000], np.uint16), "bf16")).tolist() == [1, -2]
    raises(tessera.UsageError, "take 2 bytes, the array has 1", tessera.view, packed[:1], "i4", 3)
    raises(tessera.UsageError, "contiguous", tessera.view, np.zeros(8, np.uint8)[::2], "i4")
    raises(tessera.UsageError, "no type i5", tessera.view, packed, "i5")
    raises(TypeError, "not of a int", tessera.view, 3, "i4")
    raises(tessera.UsageError, "NumPy has no arrays of i4", four.n, ones)


def test_what_kernels_say():
    text = """kernel says(x: f32[N]) -> f32[N] {
    print("sum", sum(x))
    assert(x < 3, "large:", x)
    return x\n}\n"""
    says = tessera.parse(text, "says.tile").says
    x = np.array([1, 2], np.float32)
    for _ in range(2):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert says(x) is not x
        assert said.getvalue() == "sum 3\n"
    x[1] = 4
    for _ in range(2):
        with contextlib.redirect_stdout(io.StringIO()):
            error = raises(tessera.AssertionFailed, "says.tile:3: assertion failed: large: 4 at "
                           "[1]", says, x)
        assert isinstance(error, AssertionError) and error.messages[0].line == 3
    launch = says.prepare(x)
    assert launch.messages() == []
    launch(), launch()
    said = launch.messages()
    assert [m.text for m in said if not m.failed] == ["sum 5", "sum 5"] and len(said) == 4
    assert program.add.prepare(ones, ones, 1.0).messages() == []
    with contextlib.redirect_stdout(io.StringIO()):
        error = raises(tessera.AssertionFailed, "large", says, np.full(40000, 5, np.float32))
    assert "more messages did not fit" in error.messages[-1].text


def test_jax():
    import jax
    import jax.numpy as jnp
    j = jnp.ones(8, jnp.float32)
    y = program.add(j, j, 2.0)
    assert type(y) is type(j) and y.tolist() == [3.0] * 8
    assert program.add(j, j * 2, 2.0).tolist() == [5.0] * 8
    raises(tessera.UsageError, "do not change", program.add, j, j, 1.0, out=jnp.zeros(8))
    for traced in (jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())):
        raises(tessera.UsageError, "add: 'x' is f32[N]: a value that JAX traces",
               traced(lambda x: program.add(x, j, 2.0)), j)


def is_missing(name):
    library = name[5:].split("_")[0]
    return library in ("torch", "jax") and importlib.util.find_spec(library) is None


if __name__ == "__main__":
    sys.exit(run_tests(globals(), is_missing))
