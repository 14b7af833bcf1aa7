# SPDX-License-Identifier: Apache-2.0
"""Programs, where their text comes from, and what else the package offers."""

import ctypes
import os
import weakref
from ctypes import byref

from . import _abi, _arrays, _source
from ._abi import UsageError
from ._compiled import Spec
from ._kernel import AnyRank, Kernel
from ._signature import whole_number


class Program:
    """The kernels of a `.tile` file, by name: `program.softmax`, `program["softmax"]`."""

    def __init__(self, handle, runtime, name, made_by, text=None, pins=None):
        """made_by: a function and its arguments, which make the program again elsewhere. text: of a
        program that is in no `.tile` file, and where its pins are."""
        self._handle, self._runtime, self.name = handle, runtime, name
        self._made_by, self._text, self._pins = made_by, text, pins
        self._kernels_made = weakref.WeakSet()
        self._owned = _abi.Owned(runtime, "program_free", handle)
        self._kernels = {}
        for i in range(runtime.c.tessera_program_kernels(handle)):
            signature = runtime.c.tessera_program_kernel(handle, i).contents
            self._kernels[signature.name.decode()] = signature
        self._made = {}

    def __getitem__(self, name):
        if name not in self._made:
            signature = self._kernels.get(name)
            if signature is None:  # "vjp(softmax)", "gelu[3]", or an error
                found = ctypes.POINTER(_abi.Signature)()
                self._runtime.call("program_find", self._handle,
                                   _abi.text_of("the name of a kernel", name), byref(found))
                signature = found.contents
            self._made[name] = (AnyRank if signature.any_rank and name in self._kernels else
                                Kernel)(self, signature)
        return self._made[name]

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._kernels:
            raise AttributeError(f"{self.name} has no kernel '{name}'")
        return self[name]

    # ---- its text, and the pins of its kernels ----

    @property
    def path(self):
        """Of its `.tile` file; None: it is in none."""
        return self._made_by[1][0] if self._text is None else None

    @property
    def text(self):
        """Its source. Of a file: what is in it now."""
        if self._text is not None:
            return self._text
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    @property
    def pins(self):
        """The file in which `Kernel.tune` pins schedules, whether it is there or not."""
        return self._pins or os.path.splitext(self.path)[0] + ".tune"

    def pins_if_any(self):
        """Of a program without a file; the library itself finds what lies beside a `.tile` file."""
        return self._pins if self._pins and os.path.exists(self._pins) else None

    def refresh(self):
        """Kernels look at the pins again with their next calls."""
        for kernel in list(self._kernels_made):
            kernel._refresh()

    def __reduce__(self):
        return self._made_by

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __iter__(self):
        return iter(self._kernels)

    def __len__(self):
        return len(self._kernels)

    def __dir__(self):
        return [*super().__dir__(), *self._kernels]

    def __repr__(self):
        return f"<tessera.Program {self.name}: {', '.join(self._kernels)}>"


def load(path):
    """The kernels of a file."""
    runtime = _abi.runtime()
    path = os.fspath(path)
    handle = runtime.handle("program_read", runtime.context, _abi.text_of("a path", path))
    return Program(handle, runtime, path, (load, (os.path.abspath(path),)))


def parse(text, name="<text>"):
    """The kernels of a text."""
    return _parse(text, name, None)


def tile(text):
    """The kernels of a text in a Python file or a notebook: messages about it name their lines.

        softmax = tessera.tile('''
            # Along each row.
            kernel softmax(x: f32[M, N]) -> f32[M, N] {
                let e = exp(x - max(x, axis=1))
                return e / sum(e, axis=1)
            }
        ''').softmax"""
    if not isinstance(text, str):
        raise TypeError(f"the text of a program is str, not {type(text).__name__}")
    file, there = _source.placed(text, 2)
    return _parse(there, file or "<text>", file)


def _parse(text, name, file):
    """file: the Python file that it is in, or None."""
    if not isinstance(text, str):
        raise TypeError(f"the text of a program is str, not {type(text).__name__}")
    runtime, code = _abi.runtime(), text.encode()
    handle = runtime.handle("program_parse", runtime.context,
                            _abi.text_of("the name of a program", name), code, len(code))
    return Program(handle, runtime, name, (_parse, (text, name, file)), text,
                   _source.pin_file(file, text))


def kernel(path, name=None):
    """One kernel: of "file.tile" the only one, or "file.tile:name"."""
    path = os.fspath(path)
    if name is None and not os.path.exists(path) and ":" in path:
        path, name = path.rsplit(":", 1)
    program = load(path)
    if name is None:
        found = ctypes.POINTER(_abi.Signature)()
        program._runtime.call("program_find", program._handle, None, byref(found))
        name = found.contents.name.decode()
    return program[name]


def spec(dtype, *dims):
    """An array that is not there, for Kernel.compile, explain and schedule: spec("f32", 8, 64)."""
    return Spec(_arrays.type_name("a spec", dtype), _arrays.dims_of(dims))


def device(kind="auto", ordinal=0):
    """An open device: "cpu", "cuda", "hip" or "auto"."""
    ordinal = whole_number("the number of a device", ordinal)
    if not -1 << 31 <= ordinal < 1 << 31:
        raise UsageError(f"no device has the number {ordinal}")
    return _abi.runtime().device(kind, ordinal)


def isolate(when, seconds=0):
    """Whether machine code is made by a program of its own, so that what ends it does not end this
    one: "never" (as it begins), "auto" (where there is such a program), "always"; and the most
    seconds that it may take (0: 60)."""
    ways = ["never", "auto", "always"]
    if when not in ways:
        raise UsageError(f"no way '{when}': {', '.join(ways)}")
    runtime = _abi.runtime()
    runtime.call("isolate", runtime.context, ways.index(when), None, seconds)


def version():
    return _abi.runtime().c.tessera_version().decode()
