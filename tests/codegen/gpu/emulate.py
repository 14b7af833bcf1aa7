# SPDX-License-Identifier: Apache-2.0
"""Runs AMD kernels without an AMD GPU: the LLVM IR of an AMD target, with its intrinsics replaced
by calls of emulate.c, becomes a host program whose coroutines are the threads. Checks the answers
of the emitter that all GPUs share (layouts, guards, reductions, shared memory, products) against
NumPy.

    emulate.py --emit TOOL --target NAME… [--pass NAME]… --size M=5,N=7 [--size …] FILE.ir

What an output must be stands in the file, over the inputs and sizes in f64 and NumPy's names:

    ; WANT y: softmax(x) * N

or is given as --want "y: softmax(x) * N". --as T=f16 replaces a word of the file. Leaves out, and
says so, when llc-22 is not to be had.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
WAVES = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
INTRINSICS = {
    "llvm.amdgcn.workitem.id.x": "emu_thread",
    "llvm.amdgcn.workgroup.id.x": "emu_block",
    "llvm.amdgcn.implicitarg.ptr": "emu_hidden",
    "llvm.amdgcn.s.barrier": "emu_barrier",
    "llvm.amdgcn.readfirstlane.i32": "emu_first",
    "llvm.amdgcn.readfirstlane.i64": "emu_first_wide",
    "llvm.amdgcn.update.dpp.i32": "emu_dpp",
    "llvm.amdgcn.ds.swizzle": "emu_swizzle",
    "llvm.amdgcn.ds.bpermute": "emu_permute",
    "llvm.amdgcn.permlanex16.i32": "emu_permute_rows",
    "llvm.amdgcn.ballot.i32": "emu_ballot",
    "llvm.amdgcn.ballot.i64": "emu_ballot_wide",
    "llvm.amdgcn.wave.barrier": "emu_wave",
    "llvm.amdgcn.exp2.f32": "emu_exp2",
    "llvm.amdgcn.global.load.lds": "emu_copy",
    "llvm.amdgcn.s.waitcnt": "emu_wait",
}
# Matrix instructions, by the ISA's name for their operands (emulate.c, emu_matrix).
KINDS = {"f16": 0, "bf16": 1, "f32": 2, "f64": 3, "i8": 4, "iu8": 4, "fp8": 5, "bf8": 6}
MATRIX = re.compile(r"@llvm\.amdgcn\.(mfma|wmma)\.\w+?\.16x16x(\d+)\.?(\w+)([\w.]*)")
C_TYPES = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t"}


def fail(text):
    sys.exit("emulate.py: " + text)


# ---- the code ----

def matrix_function(name, result, params, family):
    """A function of the module that does what a matrix instruction does: operands by address."""
    unit, depth, operands = MATRIX.match(name).groups()[:3]
    kind = KINDS[re.match(r"fp8|bf8|iu8|i8|bf16|f16|f32|f64", operands).group()]
    flags = "i1" in params
    values = [1, 3, 4] if flags else [0, 1, 2]
    label = "emu_" + name[len("@llvm.amdgcn."):].replace(".", "_")
    listed = ", ".join(f"{p} %p{i}" for i, p in enumerate(params))
    body = [f"define internal {result} @{label}({listed}) noinline {{"]
    for i in values:
        body += [f"  %m{i} = alloca {params[i]}", f"  store {params[i]} %p{i}, ptr %m{i}"]
    body += ["  %sign = zext i1 %p0 to i32"] if flags else []
    places = ", ".join(f"ptr %m{i}" for i in values)
    sign = "%sign" if flags else "1"
    body += [f"  %r = alloca {result}",
             f"  call void @emu_matrix(i32 {family}, i32 {depth}, i32 {kind}, i32 {sign}, "
             f"{places}, ptr %r)",
             f"  %v = load {result}, ptr %r", f"  ret {result} %v", "}"]
    return label, "\n".join(body)


def matrix_calls(text, family):
    """Calls of matrix instructions become calls of such functions."""
    bodies = []
    for line in re.findall(r"^declare .*@llvm\.amdgcn\.(?:mfma|wmma).*$", text, flags=re.M):
        text = text.replace(line + "\n", "")
        result, name, params = re.match(r"declare (<.*?>) (@[\w.]+)\((.*)\)", line).groups()
        params = [re.match(r"<.*?>|\w+", p).group() for p in params.split(", ")]
        label, body = matrix_function(name, result, params, family)
        text = text.replace(name + "(", f"@{label}(")
        bodies.append(body)
    if bodies:
        bodies.append("declare void @emu_matrix(i32, i32, i32, i32, ptr, ptr, ptr, ptr)")
    return text + "\n" + "\n".join(bodies) + "\n"


def to_host(text, target):
    """LLVM IR of an AMD target to IR that any host takes; also shared memory's symbols."""
    text = re.sub(r"^target .*\n", "", text, flags=re.M)
    text = re.sub(r"^attributes #.*\n", "", text, flags=re.M)
    text = re.sub(r" #\d+", "", text)
    text = re.sub(r" ?addrspace\(\d\)", "", text)
    text = re.sub(r"\b(amdgpu_kernel|protected|immarg|internal)\b ?", "", text)
    text = re.sub(r"range\([^)]*\) ", "", text)
    text = matrix_calls(text, {"gfx1100": 11, "gfx1201": 12}.get(target, 9))
    for name, call in INTRINSICS.items():
        text = text.replace("@" + name + "(", "@" + call + "(")
    left = re.findall(r"@(llvm\.amdgcn[\w.]*)", text)
    if left:
        fail("an intrinsic that is not emulated: " + left[0])
    shared = {}
    for symbol, n in re.findall(r"^@([\w.]+)\.shared = global \[(\d+) x i8\]", text, flags=re.M):
        shared[symbol] = int(n)
        text = text.replace(f"@{symbol}.shared", f"@{symbol}_shared")
    return text, shared


def evaluate(expression, sizes):
    total = 0
    for coefficient, *variables in expression:
        product = coefficient
        for variable in variables:
            product *= sizes[variable]
        total += product
    return total


def all_sizes(plan, by_name):
    """Those that are given, then those that follow from them."""
    sizes = []
    for size in plan["sizes"]:
        of, by = size["of"], size["by"]
        sizes.append(max(0, evaluate(of, sizes) // by) if by else by_name[size["name"]])
    return sizes


def argument(plan, kind, index):
    if kind == "pointer":
        return "void *", f"a_{plan['params'][index]['name']}"
    if kind == "scalar":
        param = plan["params"][index]
        return C_TYPES[param["dtype"]] + " ", f"a_{param['name']}"
    return "int64_t ", f"s_{index}"


def harness(plan, shared, wave, sizes):
    """C: one function `run`; arguments as globals, because coroutines take none."""
    out = ["#include <stdint.h>",
           "void emu_run(void (*)(void), int, int, int, void *, long);"]
    for i, param in enumerate(plan["params"]):
        kind = "scalar" if param["rank"] < 0 else "pointer"
        out.append("{}{};".format(*argument(plan, kind, i)))
    for i in range(len(plan["sizes"])):
        out.append("{}{} = {};".format(*argument(plan, "size", i), sizes[i]))
    body = []
    for launch in plan["launches"]:
        symbol = launch["symbol"]
        args = [argument(plan, arg["kind"], arg["index"]) for arg in launch["args"]]
        out.append(f"void {symbol}({', '.join(t for t, _ in args)});")
        names = ", ".join(name for _, name in args)
        out.append(f"static void call_{symbol}(void) {{ {symbol}({names}); }}")
        blocks = 1
        for axis in launch["axes"]:
            step = axis["step"] or 1
            extent = evaluate(axis["extent"], sizes)
            extent = max(0, min(extent, axis.get("upto", extent)) - axis.get("from", 0))
            blocks *= -(-extent // step)
        if launch["persistent"]:
            blocks = min(blocks, 3)
        memory = "0, 0"
        if symbol in shared:
            out.append(f"extern char {symbol}_shared[];")
            memory = f"{symbol}_shared, {shared[symbol]}"
        body.append(f"    emu_run(call_{symbol}, {blocks}, {launch['threads']}, {wave}, {memory});")
    return "\n".join(out + ["void run(void);", "void run(void)", "{"] + body + ["}", ""])


def machine():
    """The least that has conversions of halves, where this machine has it."""
    with open("/proc/cpuinfo") as file:
        return "x86-64-v3" if " avx2 " in file.read() else "x86-64"


def compile_code(options, source, folder):
    """The plan, the bytes of shared memory by kernel, the object: one for all sizes."""
    path = lambda name: os.path.join(folder, name)
    passes = [word for name in options.passes for word in ("--pass", name)]
    subprocess.run([options.emit, "--target", options.target, *passes, "--emit", "llvm", "--plan",
                    path("plan"), "-o", path("gpu.ll"), source], check=True)
    with open(path("plan")) as file:
        plan = json.load(file)
    with open(path("gpu.ll")) as file:
        text, shared = to_host(file.read(), options.target)
    with open(path("host.ll"), "w") as file:
        file.write(text)
    subprocess.run(["llc-22", "-O1", "-march=x86-64", f"-mcpu={machine()}", "-relocation-model=pic",
                    "-filetype=obj", path("host.ll"), "-o", path("host.o")], check=True)
    return plan, shared, path("host.o")


def link(options, code, sizes_by_name, folder):
    """The plan, all sizes, a library that runs the code for them. Its name is new: a library of a
    name that is loaded is not loaded again."""
    plan, shared, code_object = code
    sizes = all_sizes(plan, sizes_by_name)
    handle, source = tempfile.mkstemp(".c", "run", folder)
    with os.fdopen(handle, "w") as file:
        file.write(harness(plan, shared, WAVES[options.target], sizes))
    library = source[:-2] + ".so"
    emulation = os.path.join(os.path.dirname(options.emit), "libemulate.a")
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", source, code_object, emulation, "-o",
                    library, "-lm"], check=True)
    return plan, sizes, ctypes.CDLL(library)


def build(options, source, sizes_by_name, folder):
    return link(options, compile_code(options, source, folder), sizes_by_name, folder)


# ---- arrays ----

def f8_values(dtype):
    """Of all 256 bits."""
    exponents, bias = (4, 7) if dtype == "f8e4m3" else (5, 15)
    bits = np.arange(256)
    mantissas = 7 - exponents
    exponent, mantissa = bits >> mantissas & (1 << exponents) - 1, bits & (1 << mantissas) - 1
    normal = (1 + mantissa / 2 ** mantissas) * 2.0 ** (exponent - bias)
    value = np.where(exponent == 0, mantissa / 2 ** mantissas * 2.0 ** (1 - bias), normal)
    top = exponent == (1 << exponents) - 1
    special = (bits & 127) == 127 if dtype == "f8e4m3" else top & (mantissa > 0)
    value = np.where(special, np.nan, value)
    if dtype == "f8e5m2":
        value = np.where(top & (mantissa == 0), np.inf, value)
    return np.where(bits > 127, -value, value)


def bf16_bits(values):
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_memory(values, dtype):
    if dtype == "bf16":
        return bf16_bits(values)
    if dtype.startswith("f8"):
        nearest = np.abs(np.nan_to_num(f8_values(dtype), nan=1e9, posinf=1e9, neginf=-1e9) -
                         values[:, None])
        return np.argmin(nearest, axis=1).astype(np.uint8)
    return values.astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[dtype])


def is_packed(dtype):
    return dtype in ("i4", "u4")


def units(array, dtype):
    """One entry an element: of packed ones the halves."""
    return np.stack([array & 15, array >> 4], axis=1).reshape(-1) if is_packed(dtype) else array


def from_memory(elements, dtype):
    if dtype == "i4":
        return np.where(elements > 7, elements - 16.0, elements)
    if dtype.startswith("f8"):
        return f8_values(dtype)[elements]
    if dtype == "bf16":
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return elements.astype(np.float64)


def softmax(x, power=np.exp):
    e = power(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, scale, power=np.exp):
    s = np.einsum("bhid,bhjd->bhij", q, k) * scale
    return np.einsum("bhij,bhjd->bhid", softmax(s, power), v)


def recurrence(x):
    """h[t] = h[t - 1] / 2 + x[t]"""
    h = np.zeros_like(x)
    for t in range(x.shape[1]):
        h[:, t] = (h[:, t - 1] / 2 if t else 0) + x[:, t]
    return h


@np.vectorize
def collatz(n):
    n, steps = abs(int(n)), 0
    while n > 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


GUARD = 64  # elements around each array that must stay as they were


def fill(dtype, count, random):
    """Random elements in a type; of packed ones bytes."""
    if is_packed(dtype):
        return random.integers(0, 256, (count + 1) // 2).astype(np.uint8)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(np.uint8)
    if dtype[0] in "iu":
        return random.integers(0 if dtype[0] == "u" else -99, 99, count).astype(np.dtype(
            ("" if dtype[0] == "i" else "u") + "int" + dtype[1:]))
    return to_memory(random.standard_normal(count), dtype)


class Memory:
    """Of a parameter: its elements as its strides say, GUARD more on both sides."""

    def __init__(self, param, sizes, random):
        self.dtype, self.io = param["dtype"], param["io"]
        self.shape = [evaluate(dim, sizes) for dim in param["dims"]]
        self.strides, step = [], 1
        for extent in reversed(self.shape):
            self.strides.insert(0, step)
            step *= extent
        if "strides" in param:
            self.strides = [evaluate(stride, sizes) for stride in param["strides"]]
        far = [stride * max(n - 1, 0) for stride, n in zip(self.strides, self.shape)]
        low, high = sum(min(f, 0) for f in far), sum(max(f, 0) for f in far)
        self.first = GUARD - low
        self.back = np.argsort(param.get("order", range(len(self.shape))))
        high += self.strides[-2] if self.io == "scratch" and len(self.shape) > 1 else 0
        self.array = fill(self.dtype, high - low + 1 + 2 * GUARD, random)
        self.before = self.array.copy()

    def address(self):
        first = self.first // 2 if is_packed(self.dtype) else self.first
        return self.array.ctypes.data + first * self.array.itemsize

    def elements(self, array):
        strides = [stride * array.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(array[self.first:], self.shape, strides)

    def values(self):
        """By the caller's axes."""
        found = self.elements(units(self.array, self.dtype)).copy()
        return from_memory(found, self.dtype).transpose(self.back)

    def is_kept(self):
        """Is all that is no element of an output what it was?"""
        now, before = units(self.array, self.dtype), units(self.before, self.dtype)
        kept = np.ones(now.shape, bool)
        if self.io != "in":
            self.elements(kept)[...] = False
        if self.io == "scratch" and self.shape:  # what lies between its rows is nobody's
            kept[self.first:self.first + self.shape[0] * self.strides[0]] = False
        return np.array_equal(now[kept].view(np.uint8), before[kept].view(np.uint8))


def compare(name, got, want, dtype):
    bound = {"bf16": 1e-2, "f16": 2e-3, "f32": 2e-5, "f64": 1e-12}.get(dtype, 0)
    want = np.broadcast_to(np.asarray(want, np.float64), got.shape)
    with np.errstate(invalid="ignore"):
        error = np.where(got == want, 0, np.abs(got - want) / (1 + np.abs(want)))
    error = np.where(np.isnan(got) & np.isnan(want), 0, error)
    if error.size and not np.max(error) <= bound:
        worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        fail(f"{name} differs by {error[worst]:.3g} at {tuple(map(int, worst))}: {got[worst]}, not "
             f"{want[worst]}; {int(np.sum(~(error <= bound)))} of {error.size} differ")


def run(plan, sizes, library, wanted):
    random = np.random.default_rng(1)
    names = {size["name"]: value for size, value in zip(plan["sizes"], sizes)}
    names.update(vars(np), softmax=softmax, attention=attention,
                 recurrence=recurrence, collatz=collatz)
    arrays = []
    for param in plan["params"]:
        name = param["name"]
        if param["rank"] < 0:
            names[name] = 0.3
            ctypes.c_float.in_dll(library, "a_" + name).value = names[name]
            continue
        memory = Memory(param, sizes, random)
        ctypes.c_void_p.in_dll(library, "a_" + name).value = memory.address()
        names[name] = memory.values()
        arrays.append((name, memory))
    library.run()
    for name, memory in arrays:
        if not memory.is_kept():
            fail(f"{name}: something is written that should not be")
        if memory.io in ("out", "inout"):
            compare(name, memory.values(), eval(wanted[name], names), memory.dtype)


def read_test(options, folder):
    """The IR with its words replaced, as a file; what the outputs must be."""
    with open(options.file) as file:
        text = file.read()
    wanted = dict(re.findall(r"^; WANT (\w+): (.*)$", text, flags=re.M))
    wanted.update(want.split(": ", 1) for want in options.want)
    for word in options.words:
        old, new = word.split("=", 1)
        text = re.sub(rf"\b{old}\b", new, text)
    path = os.path.join(folder, "test.ir")
    with open(path, "w") as file:
        file.write(text)
    return path, wanted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--emit", required=True)
    parser.add_argument("--target", dest="targets", action="append", required=True)
    parser.add_argument("--pass", dest="passes", action="append", default=[])
    parser.add_argument("--as", dest="words", action="append", default=[])
    parser.add_argument("--want", action="append", default=[])
    parser.add_argument("--size", dest="sizes", action="append", required=True)
    parser.add_argument("file")
    options = parser.parse_args()
    if not shutil.which("llc-22"):
        print("left out: no llc-22")
        return
    for target in options.targets:
        with tempfile.TemporaryDirectory() as folder:
            options.target = target
            path, wanted = read_test(options, folder)
            code = compile_code(options, path, folder)
            for size in options.sizes:
                named = dict(part.split("=") for part in size.split(","))
                named = {name: int(value) for name, value in named.items()}
                run(*link(options, code, named, folder), wanted)


if __name__ == "__main__":
    main()
