# SPDX-License-Identifier: Apache-2.0
"""Regions as kernels: their programs' files, and how they are called."""

import contextlib
import hashlib
import math
import os
import pathlib
import re
import tempfile
from typing import Any, Dict, Optional

import torch

from .._abi import Error
from .._compiled import Spec
from .._program import device as tessera_device
from .._program import load
from ._partition import counts
from ._writer import TYPES, Uncovered, Writer, name_of

STACK = "E0511"  # tiles that take more of a CPU's stack than there is
MOST_SMALLER = 6  # times that tiles are halved for it

_folder: "Optional[pathlib.Path]" = None  # where the programs are
_kernels: "Dict[Any, Any]" = {}  # programs by their files, and what was edited there


def folder(path=None):
    """The folder with the programs of compiled graphs; a path: use that one from now on. At first
    it is that of the environment's TESSERA_TORCH, or tessera/torch in the user's cache."""
    global _folder
    if path is not None:
        _folder = pathlib.Path(path)
        _kernels.clear()
    if _folder is None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        _folder = pathlib.Path(os.environ.get("TESSERA_TORCH") or
                               os.path.join(cache, "tessera", "torch"))
    return _folder


def _file(name, text):
    """(path, is it edited): where a program is; what is in the file counts, if that is there."""
    path = folder() / f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:10]}.tile"
    try:
        return path, path.read_text() != text
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
        return path, False


def _kernel(path, edited, name, facts):
    """Of a file, with what is known of its sizes; of those with the same text there is one."""
    key = (path, edited and path.read_text())
    if key not in _kernels:
        _kernels[key] = load(path)
    program, key = _kernels[key], (*key, tuple(facts))
    if key not in _kernels:
        _kernels[key] = program[name].given(facts=facts) if facts else program[name]
    return _kernels[key]


def name_for(nodes):
    """Of a kernel: what its first calls are."""
    names = [name_of(n).split(".")[1].lstrip("_") for n in nodes if counts(n)]
    names = [re.sub(r"_default|native_|_with_indices|_legit\w*", "", n) for n in names]
    boring = {"view", "permute", "alias", "t", "expand", "unsqueeze", "clone", "squeeze", "full",
              "scalar_tensor", "to_copy", "slice", "select", "where", "le"}
    telling = [n for n in dict.fromkeys(names) if n not in boring] or names[:1]
    return "_".join(telling[:3]) + "_region"


def hint(size):
    """A number for a size, that of the call that is compiled for."""
    if isinstance(size, int):
        return size
    if not size.node.has_hint():
        raise Uncovered(f"the size {size}, which depends on data")
    return int(size.node.hint)


def strides_of(tensor):
    """As texts are, of the array that a result is written to: those of torch, unless elements share
    memory or there is memory between them. Of symbolic sizes they are products of these."""
    sizes, steps = [hint(n) for n in tensor.shape], [hint(n) for n in tensor.stride()]
    order = range(len(sizes))
    if _is_dense(sizes, steps):
        order = sorted(order, key=lambda axis: -steps[axis])
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * tensor.shape[axis]
    return strides


def _is_dense(sizes, steps):
    """Does each element have a place of its own, and each place an element?"""
    step = 1
    for stride, size in sorted(zip(steps, sizes)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def smaller_tiles(schedule):
    """The lines of a schedule that choose tiles, the longest edge of each halved."""
    lines = []
    for line in schedule.splitlines():
        line = line.split("#")[0].strip()
        if re.match(r"(launch \d+: )?tile ", line):
            head, tiles = line.rsplit("tile ", 1)
            edges = [edge.rsplit(" ", 1) for edge in tiles.split(", ")]
            most = max(int(n) for _, n in edges)
            first = next(i for i, (_, n) in enumerate(edges) if int(n) == most)
            edges[first][1] = str(max(1, most // 2))
            lines.append(f"{head}tile " + ", ".join(" ".join(edge) for edge in edges))
    return lines


class Region(torch.nn.Module):
    """A kernel for calls of a graph. Raises Uncovered or tessera.Error: it cannot be one. Threads
    of the library compile it until `finish`, which raises what is wrong with it."""

    def __init__(self, nodes, outputs):
        super().__init__()
        self.nodes, self.outputs = nodes, outputs
        writer = Writer(outputs)
        for node in nodes:
            writer.call(node)
        name = name_for(nodes)
        about = _about(nodes)
        self.text = writer.text(name, outputs, about)
        self.inputs = list(writer.inputs)
        self.names = dict(writer.sizes.names)
        self.device = outputs[0].meta["val"].device
        self.path, self.edited = _file(name, self.text)
        self._set_shapes(writer)
        # One code for any of those sizes that the arrays tell; others are compiled for.
        told = {n: 1 for n in self.names.values() if n not in self._free}
        with self._naming_edits():
            self.kernel = _kernel(self.path, self.edited, name, told)
            arrays, made, named = self._examples()
            self.kernel.start(*arrays, out=made, **named)

    @contextlib.contextmanager
    def _naming_edits(self):
        """An error says whether the program is the user's own."""
        try:
            yield
        except Error as problem:
            problem.edited = self.edited
            raise

    def _set_shapes(self, writer):
        """How results are made: for sizes that are known, or functions of those that are not."""
        self._free = [n for s, n in self.names.items() if not any(
            isinstance(size, torch.SymInt) and size.node.expr == s
            for node in self.inputs for size in getattr(node.meta["val"], "shape", ()))]
        made = []
        for node in self.outputs:
            tensor = node.meta["val"]
            texts = [writer.sizes.text(n) for n in tensor.shape]
            steps = [n if isinstance(n, int) else writer.sizes.text(n) for n in strides_of(tensor)]
            made.append((f"({''.join(t + ', ' for t in texts)})",
                         f"({''.join(str(t) + ', ' for t in steps)})", tensor.dtype))
        names = ", ".join(self.names.values())
        self._shapes = [(eval(f"lambda {names}: {shape}"),  # noqa: S307 (of texts made above)
                         eval(f"lambda {names}: {steps}"), dtype)  # noqa: S307
                        for shape, steps, dtype in made]
        self._static = None if self.names else [(s(), t(), d) for s, t, d in self._shapes]

    def forget(self):
        """The nodes, once the region stands in a graph of its own."""
        self._n = len(self.inputs)
        self.nodes = self.outputs = self.inputs = None

    def symbols(self):
        """Torch's symbols that are passed as numbers behind the arrays."""
        return list(self.names)

    def _examples(self):
        """(inputs, results, sizes) like those that will come, none of which takes memory."""
        sizes = {s: hint_of(s, self.inputs, self.outputs) for s in self.names}
        numbers = [sizes[s] for s in self.names]
        where = device_of(self.device)
        arrays = []
        for node in self.inputs:
            tensor = node.meta["val"]
            arrays.append(1 if not isinstance(tensor, torch.Tensor) else _spec(
                [hint(n) for n in tensor.shape], [hint(n) for n in tensor.stride()], tensor.dtype,
                where))
        made = [_spec(*layout, where) for layout in self._layouts(numbers)]
        return arrays, made, self._named(numbers)

    def finish(self):
        """Waits for the code and loads it, without running: what the compiler refuses is an error
        here."""
        with self._naming_edits():
            arrays, made, named = self._examples()
            plain = self.kernel
            for _ in range(MOST_SMALLER):
                try:
                    self._load(arrays, made, named)
                    return
                except Error as problem:
                    if not any(d["code"] == STACK for d in problem.diagnostics):
                        raise
                    schedule = self.kernel.compile(*arrays, out=made, **named).schedule
                    self.kernel = plain.given(schedule=smaller_tiles(schedule))
            self._load(arrays, made, named)

    def _load(self, arrays, made, named):
        self.kernel.compile(*arrays, out=made, **named).load(device_of(self.device))

    def _layouts(self, numbers):
        """(extents, strides, type) of each result."""
        return self._static or [(s(*numbers), t(*numbers), d) for s, t, d in self._shapes]

    def _make(self, numbers):
        return [torch.empty_strided(s, t, dtype=d, device=self.device)
                for s, t, d in self._layouts(numbers)]

    def _named(self, numbers):
        return {n: v for n, v in zip(self.names.values(), numbers) if n in self._free}

    def _here(self, value):
        """An array on the region's device: torch takes numbers of the CPU's everywhere."""
        if not isinstance(value, torch.Tensor):
            return value
        return value if value.device == self.device else value.to(self.device)

    def forward(self, *args):
        n = self._n
        numbers = [int(v) for v in args[n:]]
        arrays = [_flat(self._here(a)) for a in args[:n]]
        made = self._make(numbers)
        if any(math.prod(a.shape) for a in made):
            with torch.no_grad():
                self.kernel(*arrays, out=tuple(map(_flat, made)), **self._named(numbers))
        return made[0] if len(made) == 1 else tuple(made)


def device_of(device):
    """Tessera's, of one of torch's."""
    kind = "cpu" if device.type == "cpu" else "hip" if torch.version.hip else "cuda"
    return tessera_device(kind, device.index or 0)


def _spec(dims, strides, dtype, device):
    """An array that is not there."""
    return Spec(TYPES[dtype], tuple(dims) or (1,), tuple(strides) or (1,), device)


def _flat(array):
    """An array without axes as one of one element; a number is itself."""
    return array.view(1) if isinstance(array, torch.Tensor) and array.dim() == 0 else array


def hint_of(symbol, *nodes):
    for node in (n for some in nodes for n in some):
        for size in getattr(node.meta["val"], "shape", ()):
            if isinstance(size, torch.SymInt):
                env = size.node.shape_env
                found = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else \
                    env.var_to_val
                if symbol in found:
                    return int(found[symbol])
    raise Uncovered(f"the size {symbol}, which depends on data")


def _about(nodes):
    """The comment of a program: the calls that it has."""
    lines, line = [], ""
    for name in [name_of(n).removeprefix("aten.") for n in nodes if counts(n)]:
        if len(line) + len(name) > 96:
            lines.append(line)
            line = ""
        line += (", " if line else "") + name
    return [*lines, line]


