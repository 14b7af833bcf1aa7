# SPDX-License-Identifier: Apache-2.0
"""Kernels that are compiled: what is asked for, and what came of it."""

import ctypes
import os
from ctypes import byref, c_char_p

from . import _abi, _arrays
from ._abi import Arg, Fact, Options, Pair, Size, Tensor, UsageError
from ._signature import FLOATS, check_number, number_of, whole_number, whole_of

MOST_COMPILED = 256  # of a kernel; those used last stay


class Compiled(_abi.OfProcess):
    """A kernel for one target and such arguments."""

    def __init__(self, runtime, handle, options, inferred):
        self._runtime, self._handle = runtime, handle
        self._owned = _abi.Owned(runtime, "kernel_free", handle)
        self.bindings, self.sizes = inferred
        self.target = options.target.decode()
        self.warnings = runtime.c.tessera_warnings(runtime.context).decode()

    @property
    def schedule(self):
        """Every decision, with its reason, as a block that may stand in the source."""
        text = c_char_p()
        with self._runtime.lock:
            self._runtime.call("kernel_schedule", self._handle, True, byref(text))
            return text.value.decode()

    def load(self, device):
        """Makes its code and opens that on a device, as the first launch there would."""
        self._runtime.call("kernel_load", self._handle, device.handle)

    def explain(self, form="text"):
        """How it does what it does and what that costs: "text", "json" or "html"."""
        forms = ["text", "json", "html"]
        if form not in forms:
            raise UsageError(f"no form '{form}': {', '.join(forms)}")
        out = _abi.Bytes()
        with self._runtime.lock:
            self._runtime.call("kernel_explain", self._handle, forms.index(form), byref(out))
            return ctypes.string_at(out.data, out.n).decode()

    def emit(self, kind):
        """"ir", "llvm", "ptx", "cubin", "asm", "hsaco", "obj" or "launch", as bytes."""
        out = _abi.Bytes()
        with self._runtime.lock:
            self._runtime.call("kernel_emit", self._handle,
                               _abi.text_of("what is emitted", kind), byref(out))
            return ctypes.string_at(out.data, out.n)

    def shape(self, index):
        """(element type, shape) of parameter `index` of those that a launch has; a number has no
        shape: None."""
        index = whole_number("the number of a parameter", index)
        if index < 0:
            raise UsageError(f"no parameter has the number {index}")
        out, sizes = Tensor(), _abi.array(Size, [Size(n.encode(), v)
                                                 for n, v in self.sizes.items()])
        self._runtime.call("kernel_shape", self._handle, index, sizes, len(sizes), byref(out))
        return _abi.TYPES[out.type], tuple(out.dims[: out.rank]) if out.rank >= 0 else None


class Started(_abi.OfProcess):
    """A kernel that threads of the library compile."""

    def __init__(self, program, options, inferred):
        self._runtime, self._options, self._inferred = program._runtime, options, inferred
        self._made = self._problem = None
        handle = program._runtime.handle("compile_start", program._handle, byref(options), None,
                                         None)
        self._owned = _abi.Owned(program._runtime, "task_free", handle, program._owned)
        program._runtime.started.add(self)

    def settle(self):
        """Waits; no thread compiles it then."""
        if self in self._runtime.started:
            self._runtime.started.discard(self)
            try:
                handle = self._runtime.handle("task_wait", self._owned.handle)
                self._made = Compiled(self._runtime, handle, self._options, self._inferred)
            except _abi.Error as problem:
                self._problem = problem

    def wait(self):
        """The kernel, or the error that stopped it."""
        self.settle()
        if self._problem is not None:
            raise self._problem
        return self._made


class Spec:
    """An array that is not there, for compile and explain."""

    def __init__(self, dtype, dims, strides=None, device=None):
        """device: the tessera.Device that it would be on; None: for any target."""
        self.dtype, self.dims, self.strides, self.device = dtype, dims, strides, device

    def look(self):
        place = (self.device.kind, self.device.ordinal) if self.device else ("cpu", 0)
        return _arrays.Look(self.dtype, self.dims, self.strides, 0, *place)

    def __repr__(self):
        return f"tessera.spec({', '.join(map(repr, (self.dtype, *self.dims)))})"


def spec_like(value):
    """An array without its memory; anything else is itself."""
    if value is None or isinstance(value, (str, Spec)) or _arrays.adapter_of(value) is None:
        return value
    look = _arrays.adapter_of(value).describe(value, None)
    return Spec(look.type, look.dims, look.strides)


class Compiler:
    """Of one kernel with what its user has `given`; keeps what it made."""

    def __init__(self, program, params, given):
        self._program, self._runtime, self._params = program, program._runtime, params
        self._given, self.made = given, {}

    def _options(self, target, values, named, looks, device):
        """tessera_infer's answer as options: (options, what they point to, bindings, sizes)."""
        params, given = self._params, self._given
        where = f"{params.kernel}: "
        bindings = {n: _arrays.type_name(where + n, v) for n, v in named.items()
                    if n in params.generics}
        bindings.update((p.name, constant_of(params.kernel, p, v))
                        for p, v in zip(params.inputs, values) if p.is_const and v is not None)
        pairs = _abi.array(Pair, [Pair(n.encode(), _abi.text_of(where + n, v))
                                  for n, v in bindings.items()])
        sizes = _abi.array(Size, [Size(n.encode(), int(v)) for n, v in named.items()
                                  if n in params.sizes])
        facts = _abi.array(Fact, [Fact(n.encode(), *f)
                                  for n, f in given.get("facts", {}).items()])
        lines = _abi.array(c_char_p, [_abi.text_of("a line of a schedule", line)
                                      for line in given.get("lines", ())])
        options = Options(kernel=params.kernel.encode(), target=_abi.text_of("a target", target),
                          bindings=pairs, n_bindings=len(pairs), sizes=sizes, n_sizes=len(sizes),
                          facts=facts, n_facts=len(facts), lines=lines, n_lines=len(lines),
                          optimize=given.get("optimize", 0),
                          pins=self._pins(),
                          device=device and device.encode())
        known = _abi.array(Tensor, [tensor_of(look) for look in looks])
        inferred = _abi.Inferred()
        self._runtime.call("infer", self._program._handle, byref(options), known, byref(inferred))
        bound = {inferred.bindings[i].name: inferred.bindings[i].value
                 for i in range(inferred.n_bindings)}
        found = {inferred.sizes[i].name.decode(): inferred.sizes[i].value
                 for i in range(inferred.n_sizes)}
        pairs = _abi.array(Pair, [Pair(n, v) for n, v in bound.items()])
        fixed = [Size(n.encode(), v) for n, v in found.items() if n not in given.get("facts", {})]
        sizes = _abi.array(Size, fixed)
        options.bindings, options.n_bindings = pairs, len(pairs)
        options.sizes, options.n_sizes = sizes, len(sizes)
        texts = {n.decode(): v.decode() for n, v in bound.items()}
        return options, [pairs, sizes, facts, lines], texts, found

    def _pins(self):
        """The file that is given, or that of a program that was in no `.tile` file."""
        given = self._given.get("pins")
        if given is None:
            given = self._program.pins_if_any()
        return None if given is None else os.fsencode(given)

    def compile(self, target, values, named, looks, device=None):
        """(the kernel, its sizes). `looks`: one per parameter, inputs first, then outputs; None if
        unknown."""
        with self._runtime.lock:
            options, kept, inferred, key = self._request(target, values, named, looks, device)
            found = self.made.get(key)
            if not isinstance(found, Compiled):
                found = self._wait(key) if found else Compiled(
                    self._runtime, self._runtime.handle("compile", self._program._handle,
                                                        byref(options)), options, inferred)
                if found.warnings:
                    _abi.logger().warning("%s", found.warnings.rstrip())
                self._keep(key, found)
            del kept
            return found, inferred[1]

    def start(self, target, values, named, looks, device=None):
        """Begins to compile what `compile` with the same arguments then waits for."""
        with self._runtime.lock:
            options, kept, inferred, key = self._request(target, values, named, looks, device)
            if key not in self.made:
                self._keep(key, Started(self._program, options, inferred))
            del kept

    def _wait(self, key):
        """What was started; of what failed nothing is kept."""
        return self.made.pop(key).wait()

    def _keep(self, key, made):
        while len(self.made) >= MOST_COMPILED:
            del self.made[next(iter(self.made))]
        self.made[key] = made

    def _request(self, target, values, named, looks, device):
        """(options, what they point to, bindings and sizes, what tells such requests apart)."""
        params = self._params
        options, kept, bindings, sizes = self._options(target, values, named, looks, device)
        launched = [look for p, look in zip([*params.inputs, *params.outputs], looks)
                    if not p.is_const]
        layouts = ()
        if any(look and (look.strides or (look.data or 0) % 16) for look in launched):
            layouts = tuple((look.dims, look.strides, (look.data or 0) % 16) if look else None
                            for look in launched)
            args = _abi.array(Arg, [Arg(tensor=tensor_of(look)) for look in launched])
            self._place_made(args, launched, options, bindings, sizes)
            options.args, options.n_args = args, len(args)
            kept.append(args)
        key = (target, device, tuple(bindings.items()),
               tuple((options.sizes[i].name, options.sizes[i].value)
                     for i in range(options.n_sizes)), layouts)
        return options, kept, (bindings, sizes), key

    def _place_made(self, args, looks, options, bindings, sizes):
        """Results that are made are contiguous; their shapes are the plain compilation's."""
        launched = self._params.launched
        if all(look or p.rank < 0 for p, look in zip(launched, looks)):
            return
        plain = self._runtime.handle("compile", self._program._handle, byref(options))
        shapes = Compiled(self._runtime, plain, options, (bindings, sizes))
        for i, (p, look) in enumerate(zip(launched, looks)):
            if look is None and p.rank >= 0:
                dtype, dims = shapes.shape(i)
                args[i].tensor = tensor_of(_arrays.Look(dtype, dims, None, 0, "cpu", 0))


def constant_of(kernel, param, value):
    """What a const parameter is bound to, as the language writes it."""
    if isinstance(value, str):
        return value
    if param.type in FLOATS:
        return repr(number_of(kernel, param, param.type, value)[0])
    check_number(kernel, param, value)
    if param.type not in _abi.TYPE_OF:  # of a generic type, which may be any
        return str(value).lower() if isinstance(value, bool) else str(value)
    whole = whole_of(kernel, param, param.type, value)
    return str(whole) if param.type != "bool" else "true" if whole else "false"


def tensor_of(look):
    tensor = Tensor(rank=-1)
    if look is not None:
        if len(look.dims) > 8:
            raise UsageError(f"an array of {len(look.dims)} axes: 8 are possible")
        tensor = Tensor(look.data, _abi.TYPE_OF[look.type], len(look.dims))
        tensor.dims[: len(look.dims)] = look.dims
        if look.strides is not None:
            tensor.strides = _abi.array(ctypes.c_int64, look.strides)
    return tensor
