# SPDX-License-Identifier: Apache-2.0
"""Random cases of survey.py: kernels of the examples, the benchmarks, the language's tests and the
standard library, with types, constants, sizes and a target drawn from a seed."""

import importlib.util
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import types
import unittest.mock
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "stdlib")]

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
FOLDERS = ("examples", "bench/programs", "tests/lang/inputs")
CLASSES = {"float": ("f32", "bf16", "f16", "f64"), "any": ("f32", "bf16", "i32", "u8", "i64"),
           "int": ("i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64")}
MOST = 2**31  # elements of an array
SMALL = (0, 1, 1, 2, 3, 5, 7)
TILES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
PRIMES = (11, 31, 61, 127, 257, 509, 1021, 2053, 4099, 10007, 50021)


@dataclass
class Case:
    """One kernel for one target; sizes: none, some or all."""

    kernel: str  # FILE:KERNEL
    target: str
    set: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)

    def words(self):
        words = [self.kernel, "--target", self.target]
        if self.set:
            words += ["--set", ",".join(f"{k}={v}" for k, v in self.set.items())]
        if self.sizes:
            words += ["--size", ",".join(f"{k}={v}" for k, v in self.sizes.items())]
        return words


def described(tessera, file):
    """[(FILE:KERNEL, kernel as --describe tells it)]"""
    command = [tessera, "compile", str(file), "--describe", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(f"{file}:{kernel['name']}", kernel) for kernel in json.loads(done.stdout)["kernels"]]


class Shape(tuple):
    """In place of an array of torch: arithmetic keeps its shape."""

    def same(self, *_, **__):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = same
    __truediv__ = __lt__ = __gt__ = __ge__ = __le__ = __neg__ = to = abs = cumsum = same

    def __getattr__(self, _):
        return self.same


def measured_sizes():
    """{kernel of bench/programs/survey.tile: [{input: shape}]} of the cases that bench/survey.py
    measures. They are made of torch's arrays, of which the shapes are what is asked."""
    def shaped(*shape, **_):
        return Shape(shape)

    make = unittest.mock.MagicMock(side_effect=shaped)
    make.at = lambda limit, *shape, **_: Shape(shape)
    made = {}
    torch, workload = unittest.mock.MagicMock(), types.ModuleType("workload")
    torch.rand = torch.randn = torch.zeros = torch.ones = shaped
    workload.DTYPES = {}
    stand_ins = {"torch": torch, "torch.nn": torch.nn, "workload": workload,
                 "torch.nn.functional": torch.nn.functional}
    with unittest.mock.patch.dict(sys.modules, stand_ins), \
            unittest.mock.patch.object(sys, "path", [str(ROOT / "bench"), *sys.path]):
        cases = importlib.import_module("survey_cases").CASES
        for module in ("folds", "moves", "windows", "convolutions"):
            importlib.import_module(f"survey_{module}")
    for case in cases:
        for size in case.sizes:
            inputs = case.inputs(make, *size)
            shapes = {name: x for name, x in inputs.items() if isinstance(x, Shape)}
            consts = case.consts(*size) if case.consts else {}
            made.setdefault(case.kernel, []).append((shapes, consts))
    return made


def library_kernels(folder):
    """A file of kernels that call the standard library's functions, as tests/stdlib does."""
    spec = importlib.util.spec_from_file_location("calls", ROOT / "tests/stdlib/stdlib.py")
    calls = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(calls)
    file = folder / "library.tile"
    texts = []
    for i, (call, result, *_) in enumerate(calls.ROWS):
        text = calls.source(call, result)[1].replace("kernel k(", f"kernel k{i}(")
        texts.append(text if not re.search(r"^fn ", text, re.M) else "")
    file.write_text("\n".join(texts))
    return file


class Cases:
    def __init__(self, tessera, folder, only=""):
        files = [file for name in FOLDERS for file in sorted((ROOT / name).glob("*.tile"))]
        listed = [described(tessera, file) for file in [*files, library_kernels(folder)]]
        self.files = [kept for kernels in listed
                      if (kept := [k for k in kernels if re.search(only, k[0])])]
        self.measured = measured_sizes()

    def draw(self, seed, number, targets=TARGETS):
        """The case of that number: the same for the same seed, program and tree."""
        rng = random.Random(f"{seed} {number}")
        kernels = rng.choice(self.files) if rng.random() < 0.6 else \
            [k for kernels in self.files for k in kernels]
        name, kernel = rng.choice(kernels)
        sets = {g["name"]: generic(rng, g) for g in kernel["generics"]}
        sets |= constants(rng, kernel)
        sizes, consts = self.sizes(rng, kernel)
        known = rng.random()
        if known < 0.2:
            sizes = {}
        elif known < 0.35:
            sizes = {k: v for k, v in sizes.items() if rng.random() < 0.5}
        return Case(name, rng.choice(targets), sets | consts, sizes)

    def sizes(self, rng, kernel):
        """Sizes of a kernel, in half of the cases those that are measured, or close to them."""
        seen = self.measured.get(kernel["name"])
        if seen and rng.random() < 0.5:
            shapes, consts = rng.choice(seen)
            sizes = {dim: extent for p in kernel["params"] if p["name"] in shapes
                     for dim, extent in zip(p.get("dims") or (), shapes[p["name"]])}
            names = {size["name"] for size in kernel["sizes"]}
            return {k: v + rng.choice((0, 0, 0, 1, -1)) for k, v in sizes.items()
                    if k in names}, {k: v for k, v in consts.items() if k not in names}
        bound = {generic["name"] for generic in kernel["generics"]}
        while True:
            room = 2 ** rng.uniform(4, 33)
            sizes = {size["name"]: extent(rng, room) for size in kernel["sizes"]
                     if size["name"] not in bound}
            if all(elements(p, sizes) <= min(room, MOST) for p in kernel["params"]):
                return sizes, {}


def generic(rng, described):
    if "values" in described:
        return rng.choice(described["values"])
    return rng.choice(CLASSES[described["class"]])


def constants(rng, kernel):
    """Values for constants: those that have a default keep it, mostly."""
    made = {}
    for param in kernel["params"]:
        if param["const"] and ("default" not in param or rng.random() < 0.25):
            if param["type"] == "bool":
                made[param["name"]] = rng.choice(("true", "false"))
            elif param["type"][0] in "iu":
                made[param["name"]] = rng.choice((1, 2, 3, 4, 7))
            elif "default" not in param:
                made[param["name"]] = 0.5
    return made


def extent(rng, room):
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(SMALL)
    if kind < 0.6:
        return max(0, rng.choice(TILES) + rng.choice((0, 0, 1, -1)))
    if kind < 0.75:
        return rng.choice(PRIMES)
    return int(2 ** rng.uniform(0, math.log2(room))) | rng.choice((0, 1))


def elements(param, sizes):
    """Of an array whose axes are sizes, or what is made of them."""
    product = 1
    for dim in param.get("dims") or ():
        known = re.fullmatch(r"\w+", dim) and (sizes.get(dim) if not dim.isdigit() else int(dim))
        product *= 1 if known is None else known or 0
    return product
