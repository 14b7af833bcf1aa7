# SPDX-License-Identifier: Apache-2.0
"""Runs a kernel's code for a GPU on the emulator of its instruction set, by nothing but its launch
description (the JSON of `tessera compile --emit launch`, docs/tools.md), and the metadata of a code
object. As outsiders would."""

import json
import pathlib
import subprocess
import sys
import threading

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import patience  # noqa: E402

UNITS = 3  # multiprocessors of the device that persistent kernels are launched for
NUMPY = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bool": "|u1", "i8": "|i1", "u8": "|u1",
         "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8"}


class Failure(Exception):
    pass


# ---- elements ----

def to_memory(dtype, values):
    """The bytes that elements of the type take."""
    values = np.ascontiguousarray(values)
    if dtype == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    if dtype in ("i4", "u4"):
        halves = (values.astype(np.int64).reshape(-1) & 15).astype(np.uint8)
        halves = np.append(halves, np.zeros(len(halves) % 2, np.uint8))
        return (halves[0::2] | halves[1::2] << 4).tobytes()
    if dtype.startswith("f8"):
        return values.astype(np.uint8).tobytes()  # given as their bits
    return values.astype(NUMPY[dtype]).tobytes()


def from_memory(dtype, data, shape):
    count = int(np.prod(shape))
    if dtype == "bf16":
        bits = np.frombuffer(data, "<u2", count).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64).reshape(shape)
    if dtype in ("i4", "u4"):
        both = np.frombuffer(data, np.uint8)
        halves = np.stack([both & 15, both >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
        halves = np.where((halves > 7) & (dtype == "i4"), halves - 16, halves)
        return halves.reshape(shape)
    if dtype.startswith("f8"):
        return np.frombuffer(data, np.uint8, count).reshape(shape)
    return np.frombuffer(data, NUMPY[dtype], count).reshape(shape)


# ---- the description ----

def evaluate(expression, sizes):
    total = 0
    for coefficient, *variables in expression:
        for variable in variables:
            coefficient *= sizes[variable]
        total += coefficient
    return total


def solve(dim, extent, sizes):
    """One unknown size of a dimension from its extent."""
    unknown = {v for _, *vs in dim for v in vs if v not in sizes}
    if len(unknown) != 1 or any(len(vs) > 1 for _, *vs in dim if unknown & set(vs)):
        return
    name = unknown.pop()
    rest = evaluate([term for term in dim if name not in term[1:]], sizes)
    factor = sum(term[0] for term in dim if name in term[1:])
    if factor and (extent - rest) % factor == 0:
        sizes[name] = (extent - rest) // factor


def sizes_of(plan, arguments):
    """By number: from the arrays, from values given by name, from other sizes."""
    sizes = {i: int(arguments[size["name"]]) for i, size in enumerate(plan["sizes"])
             if size["name"] in arguments}
    for _ in plan["sizes"]:
        for param in plan["params"]:
            value = arguments.get(param["name"])
            if isinstance(value, np.ndarray):
                for dim, axis in zip(param["dims"], param["order"]):
                    solve(dim, value.shape[axis], sizes)
        for i, size in enumerate(plan["sizes"]):
            if size["by"] and i not in sizes and not any(
                    v not in sizes for _, *vs in size["of"] for v in vs):
                sizes[i] = max(0, evaluate(size["of"], sizes) // size["by"])
    if len(sizes) != len(plan["sizes"]):
        raise Failure("a size is not known")
    return sizes


def holds(plan, sizes):
    """Is the code for these sizes?"""
    return all(size["by"] or (sizes[i] % size["multiple"] == 0 and
                              (sizes[i] == 0 and size["least"] == 0 or
                               size["least"] <= sizes[i] <= size["most"]))
               for i, size in enumerate(plan["sizes"]))


def blocks_of(launch, sizes):
    blocks, cluster = 1, launch["cluster"]
    for axis in launch["axes"]:
        extent = evaluate(axis["extent"], sizes)
        extent = max(min(extent, axis.get("upto", extent)) - axis.get("from", 0), 0)
        blocks *= -(-extent // axis["step"]) if axis["step"] else extent
    least = -(-(blocks // cluster) // launch["most_tiles"]) if "most_tiles" in launch else 1
    most = max(UNITS * launch["blocks_per_unit"] // cluster, least, 1) * cluster
    return min(blocks, most) if launch["persistent"] else blocks


# ---- maps ----

def merged(dims, strides, counts):
    """Neighbouring axes as one, as many each time as `counts` says."""
    made, at = ([], []), 0
    for count in counts:
        made[0].append(int(np.prod(dims[at:at + count], dtype=object)))
        made[1].append(strides[at + count - 1])
        at += count
    return made


def map_line(plan, description, sizes):
    """What the driver is to be told of a map, its axes from the fastest."""
    param = plan["params"][description["param"]]
    dims = [evaluate(dim, sizes) for dim in param["dims"]]
    strides, windows = strides_of(param, dims, sizes), description.get("windows", [])
    if "merged" in param and not windows:
        dims, strides = merged(dims, strides, param["merged"])
    bits, in_byte = param["bits"], max(1, 8 // param["bits"])
    box = list(description["box"])
    if "few" in description:
        box[description["few"]] = min(box[description["few"]], dims[description["few"]])
    bounds = []
    for axis, window in enumerate(windows):
        first, places = evaluate(window["first"], sizes), evaluate(window["places"], sizes)
        last = first + (places - 1) * window["step"]
        bounds = [first, last - (dims[1 + axis] - 1), window["step"], *bounds]
        box[1] = box[0]  # channels, then pixels
    dims = [*dims[:-1], -(-dims[-1] // in_byte)]
    bytes_apart = [stride * bits // 8 for stride in strides[:-1]] + [0]
    if windows:
        box = [0] * (len(box) - 2) + [box[0], box[-1]]
    numbers = [max(1, bits // 8), description["swizzle"], int(description.get("tf32", False)),
               len(dims), len(windows), *reversed(dims), *rotated(bytes_apart), *reversed(box),
               *bounds]
    empty = any(dim == 0 for dim in dims) or any(
        evaluate(window["places"], sizes) <= 0 for window in windows)
    return None if empty else " ".join(map(str, numbers))


def rotated(bytes_apart):
    """The fastest axis has none: its elements are side by side."""
    return [0, *reversed(bytes_apart[:-1])]


# ---- memory ----

def strides_of(param, shape, sizes):
    if "strides" in param:
        return [evaluate(stride, sizes) for stride in param["strides"]]
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


def bytes_of(param, shape):
    """Of elements of less than a word whole words: atomics change those."""
    size = (int(np.prod(shape)) * param["bits"] + 7) // 8
    return size if param["io"] == "in" else -(-size // 4) * 4


class Run:
    """The steps of one run of the emulator."""

    def __init__(self, plan, sizes, arguments, folder):
        self.plan, self.sizes, self.folder = plan, sizes, pathlib.Path(folder)
        self.arguments = arguments
        self.lines = []
        self.outputs = {}

    def add_tensor(self, i, param):
        shape = [evaluate(dim, self.sizes) for dim in param["dims"]]
        if strides_of(param, shape, self.sizes) != strides_of({}, shape, self.sizes):
            if param["io"] != "scratch":
                raise Failure("strides are not launched here")
        file = ""
        size = bytes_of(param, shape)
        if param["io"] == "scratch" and "strides" in param and len(shape) > 1:
            size = bytes_of(param, [shape[0], evaluate(param["strides"][0], self.sizes)])
        if param["name"] in self.arguments and param["io"] in ("in", "inout"):
            value = np.asarray(self.arguments[param["name"]]).transpose(param["order"])
            if list(value.shape) != shape:
                raise Failure(f"{param['name']} is {value.shape}, not {shape}")
            file = self.folder / f"{i}.in"
            data = to_memory(param["dtype"], value)
            file.write_bytes(data + bytes(size - len(data)))
        io = "in" if param["io"] == "in" else "out"
        self.lines.append(f"buffer p{i} {io} {size} {file}")
        if param["io"] in ("out", "inout"):
            self.outputs[param["name"]] = (param, shape, self.folder / f"{i}.out", i)

    def add_argument(self, arg):
        offset, size = arg["offset"], arg["bytes"]
        if arg["kind"] == "pointer":
            self.lines.append(f"address {offset} p{arg['index']}")
        elif arg["kind"] == "log":
            self.lines.append(f"address {offset} log")
        elif arg["kind"] == "size":
            value = self.sizes[arg["index"]] & (1 << 64) - 1
            self.lines.append(f"value {offset} {size} {value}")
        elif arg["kind"] == "map":
            description = self.plan["maps"][arg["index"]]
            words = map_line(self.plan, description, self.sizes)
            self.lines.append(f"map {offset} p{description['param']} {words}" if words
                              else f"nothing {offset} {size}")
        elif arg["kind"] == "scalar":
            param = self.plan["params"][arg["index"]]
            if param["name"] not in self.arguments:
                raise Failure(f"{param['name']} is not bound")
            data = to_memory(param["dtype"], np.array([self.arguments[param["name"]]]))
            self.lines.append(f"value {offset} {size} {int.from_bytes(data, 'little')}")
        else:
            raise Failure(f"an argument of kind {arg['kind']}")

    def add(self, obj):
        self.lines.append(f"object {obj}")
        for i, param in enumerate(self.plan["params"]):
            if param["rank"] >= 0:
                self.add_tensor(i, param)
        if self.plan["log_bytes"]:
            (self.folder / "log").write_bytes(bytes(self.plan["log_bytes"]))
            self.lines.append(f"buffer log out {self.plan['log_bytes']} {self.folder / 'log'}")
        for launch in self.plan["launches"]:
            blocks = blocks_of(launch, self.sizes)
            if blocks == 0:
                continue
            for arg in launch["args"]:
                self.add_argument(arg)
            if launch["shared"] or launch["cluster"] > 1:  # of AMD the object says it
                self.lines.append(f"shared {launch['shared']} {launch['cluster']}")
            self.lines.append(f"launch {launch['symbol']} {blocks} {launch['threads']}")
        self.lines += [f"save p{i} {file}" for _, _, file, i in self.outputs.values()]

    def answers(self):
        found = {}
        for name, (param, shape, file, _) in self.outputs.items():
            values = from_memory(param["dtype"], file.read_bytes(), shape)
            found[name] = values.transpose(np.argsort(param["order"]) if shape else [])
        return found


def emulate(emulator, obj, plan, arguments, folder, said=None, timeout=300):
    """What the outputs are, by name. Raises Failure with what the emulator says. `said`: a list for
    a line a launch, the symbol and what it took."""
    sizes = sizes_of(plan, arguments)
    if not holds(plan, sizes):
        raise Failure("the code is not for these sizes")
    run = Run(plan, sizes, arguments, folder)
    run.add(obj)
    try:
        done = subprocess.run([emulator], input="\n".join(run.lines) + "\n", capture_output=True,
                              text=True, timeout=patience.seconds(timeout))
    except subprocess.TimeoutExpired:
        raise Failure("it takes too long") from None
    if done.returncode:
        raise Failure(done.stderr.strip() or f"the emulator ends with {done.returncode}")
    if said is not None:
        said += done.stdout.splitlines()
    return run.answers()


# ---- code ----

class Compiler:
    """Objects and their descriptions, each made once."""

    def __init__(self, tessera, folder):
        self.tessera, self.folder = tessera, pathlib.Path(folder)
        self.made, self.lock = {}, threading.Lock()

    def compile(self, source, target, words):
        key = (str(source), target, tuple(words))
        with self.lock:
            if key in self.made:
                done, made = self.made[key]
            else:
                done, made = threading.Event(), []
                self.made[key] = (done, made)
                made.append(self.folder / f"{len(self.made)}.o")
                made.append(None)
                key = None
        if key is None:
            try:
                made[1] = self.run(source, target, words, made[0])
            finally:
                done.set()
        done.wait()
        if not isinstance(made[1], dict):
            raise Failure(made[1] or "it does not compile")
        return made[0], made[1]

    def run(self, source, target, words, path):
        command = [self.tessera, "compile", str(source), "--target", target, *words]
        kind = "ptx" if target.startswith("sm_") else "hsaco"
        done = subprocess.run([*command, "--emit", kind, "-o", str(path)], capture_output=True,
                              text=True)
        if done.returncode:
            return done.stderr.strip()[:1500]
        done = subprocess.run([*command, "--emit", "launch"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[:1500]
