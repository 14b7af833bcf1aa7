# SPDX-License-Identifier: Apache-2.0
"""Programs, kernels and calls. A call looks at its arguments, finds what was prepared for such
ones, sets the addresses and launches; only what was not seen before is inferred and compiled."""

import ctypes
import inspect
import os
from collections import OrderedDict
from ctypes import byref, c_char_p, c_void_p

from . import _abi, _arrays
from ._abi import Arg, Fact, INOUT, OUT, Options, Pair, Size, Tensor, UsageError

MOST_PREPARED = 256  # of a kernel; those used last stay


def text_of(value):
    """A binding as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Program:
    """The kernels of a `.tile` file, by name: `program.softmax`, `program["softmax"]`."""

    def __init__(self, handle, runtime, name):
        self._handle, self._runtime, self._name = handle, runtime, name
        self._owned = _abi.Owned(runtime, "program_free", handle)
        self._kernels = {}
        for i in range(runtime.c.tessera_program_kernels(handle)):
            signature = runtime.c.tessera_program_kernel(handle, i).contents
            self._kernels[signature.name.decode()] = signature
        self._made = {}

    def __getitem__(self, name):
        if name not in self._kernels:
            found = ctypes.POINTER(_abi.Signature)()
            self._runtime.call("program_find", self._handle, name.encode(), byref(found))
        if name not in self._made:
            self._made[name] = Kernel(self, self._kernels[name])
        return self._made[name]

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._kernels:
            raise AttributeError(f"{self._name} has no kernel '{name}'")
        return self[name]

    def __iter__(self):
        return iter(self._kernels)

    def __len__(self):
        return len(self._kernels)

    def __dir__(self):
        return [*super().__dir__(), *self._kernels]

    def __repr__(self):
        return f"<tessera.Program {self._name}: {', '.join(self._kernels)}>"


class Parameter:
    """One of a kernel, as its source says it: `rank` -1 is a number."""

    def __init__(self, param):
        self.name, self.type, self.rank = param.name.decode(), param.type.decode(), param.rank
        self.dims = _abi.names(param.dims, max(param.rank, 0))
        self.io, self.is_const = param.io, param.is_const
        self.fallback = param.fallback.decode() if param.fallback else None

    def __str__(self):
        shape = f"[{', '.join(self.dims)}]" if self.rank >= 0 else ""
        return ("const " if self.is_const else "inout " if self.io == INOUT else "") \
            + self.type + shape

    def default(self):
        if not self.is_const or self.fallback is None:
            return inspect.Parameter.empty
        values = {"true": True, "false": False}
        if self.fallback in values:
            return values[self.fallback]
        for convert in (int, float):
            try:
                return convert(self.fallback)
            except ValueError:
                pass
        return self.fallback


class Compiled:
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
            self._runtime.call("kernel_emit", self._handle, kind.encode(), byref(out))
            return ctypes.string_at(out.data, out.n)

    def shape(self, index):
        """(element type, shape) of parameter `index` of those that a launch has; a number has no
        shape: None."""
        out, sizes = Tensor(), _abi.array(Size, [Size(n.encode(), v)
                                                 for n, v in self.sizes.items()])
        self._runtime.call("kernel_shape", self._handle, index, sizes, len(sizes), byref(out))
        return _abi.TYPES[out.type], tuple(out.dims[: out.rank]) if out.rank >= 0 else None


class Launch:
    """A kernel prepared for these arguments: call it, with a stream or on the current one. It
    holds the arrays; `results` are those that it writes."""

    def __init__(self, kernel, compiled, device, args, adapter, ordinal, values, results):
        runtime = kernel._runtime
        self.compiled, self.device, self.values, self.results = compiled, device, values, results
        self._runtime, self._adapter, self._ordinal = runtime, adapter, ordinal
        self._stream = no_stream if device.kind == "cpu" else adapter.current_stream
        self._handle = runtime.handle("prepare", compiled._handle, device.handle, args, len(args))
        self._owned = _abi.Owned(runtime, "launch_free", self._handle, compiled._owned)
        self._now = [a.tensor.data if a.tensor.rank >= 0 else None for a in args]
        self._run = runtime.c.tessera_launch

    def __call__(self, stream=None):
        if stream is None:
            stream = self._stream(self._ordinal)
        with self._runtime.lock:
            status = self._run(self._handle, stream_of(stream))
            if status:
                self._runtime.fail(status)

    def time(self, times=1, stream=None):
        """Seconds of one launch, of so many back to back, by the device's clock."""
        seconds = ctypes.c_double()
        self._runtime.call("launch_time", self._handle, stream, times, byref(seconds))
        return seconds.value / times

    @property
    def workspace(self):
        """Bytes of the device's memory that each stream takes for it."""
        return self._runtime.c.tessera_workspace_size(self._handle)


class Kernel:
    """A kernel of a program: call it with arrays and numbers.

    Results are made by the library whose arrays the inputs are, or are those of `out`: an array,
    or a tuple of them, None where one is to be made. Generic parameters and sizes that the
    arguments do not tell are given by name: `T="bf16"`, `N=3`. `stream`: where to launch, a number
    or what torch or CuPy call one; else the current one of the inputs' library."""

    def __init__(self, program, signature, given=None):
        self._program, self._runtime = program, program._runtime
        self.name = signature.name.decode()
        self._given = given or {}
        self._raw = signature
        params = [Parameter(signature.params[i]) for i in range(signature.n_params)]
        self.inputs = [p for p in params if p.io != OUT]
        self.outputs = [p for p in params if p.io == OUT]
        self.generics = _abi.names(signature.generics, signature.n_generics)
        self.sizes = _abi.names(signature.sizes, signature.n_sizes)
        self._launched = [p for p in params if not p.is_const]
        self._consts, self._n_inputs = [p.is_const for p in self.inputs], len(self.inputs)
        self._written = [p.io == INOUT for p in self.inputs]
        self._changed = [i for i, written in enumerate(self._written) if written]
        self._entries, self._compiled = OrderedDict(), {}
        self.__name__ = self.__qualname__ = self.name
        self.__doc__ = f"{self.name}({', '.join(f'{p.name}: {p}' for p in self.inputs)}) -> " + \
            ", ".join(f"{p.name}: {p}" for p in self.outputs)
        self.__signature__ = self._signature()

    def _signature(self):
        names = [p.name for p in self.inputs]
        free = [n for n in self.generics + self.sizes if n not in names]
        taken = {"out", "stream"} & set(names + free)
        kind = inspect.Parameter.POSITIONAL_ONLY if taken else \
            inspect.Parameter.POSITIONAL_OR_KEYWORD
        found, optional = [], False
        for p in self.inputs:
            default = p.default()
            optional = optional or default is not inspect.Parameter.empty
            found.append(inspect.Parameter(p.name, kind, annotation=str(p),
                                           default=default if not optional or default is not
                                           inspect.Parameter.empty else None))
        for name in [*dict.fromkeys(free), "out", "stream"]:
            if name not in names:
                found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
        returns = tuple(str(p) for p in self.outputs)
        return inspect.Signature(found, return_annotation=returns[0] if len(returns) == 1
                                 else returns)

    def __repr__(self):
        return f"<tessera.Kernel {self.__doc__}>"

    # ---- options ----

    def given(self, *, schedule=(), facts=None, optimize=0, pins=None, **bindings):
        """The same kernel, compiled with these lines of a schedule, with facts of sizes (a number:
        what they are multiples of; a tuple: multiple, least, most) instead of what the arguments
        have, and with generic and const parameters bound. pins: a file of schedules that were
        measured, instead of the one beside the source; False: none."""
        pins = "" if pins is False else None if pins is None else os.fspath(pins)
        lines = [schedule] if isinstance(schedule, str) else list(schedule)
        if len(lines) == 1:
            lines = [line.strip() for line in lines[0].split(";") if line.strip()]
        facts = {n: (f, 0, 0) if isinstance(f, int) else tuple(f)
                 for n, f in (facts or {}).items()}
        old = self._given
        return Kernel(self._program, self._raw, {
            "lines": [*old.get("lines", ()), *lines],
            "facts": {**old.get("facts", {}), **facts},
            "optimize": optimize or old.get("optimize", 0),
            "pins": old.get("pins") if pins is None else pins,
            "bindings": {**old.get("bindings", {}), **bindings}})

    # ---- arguments ----

    def _bind(self, args, named):
        """Arguments in order, None for const parameters that nobody gives; what else is named."""
        values = list(args)
        named = {**self._given.get("bindings", {}), **named}
        if len(values) > len(self.inputs):
            raise TypeError(f"{self.name} takes {len(self.inputs)} arguments, not {len(values)}")
        for p in self.inputs[len(values):]:
            if p.name in named:
                values.append(named.pop(p.name))
            elif p.is_const:
                values.append(None)
            else:
                raise TypeError(f"{self.name}: '{p.name}' is missing")
        for name in named:
            if name not in self.generics and name not in self.sizes:
                raise TypeError(f"{self.name} has no parameter '{name}'")
        return values, {n: v for n, v in named.items() if v is not None}

    def _outputs(self, out):
        if out is None:
            return [None] * len(self.outputs)
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != len(self.outputs):
            raise TypeError(f"{self.name} has {len(self.outputs)} results, out= has {len(given)}")
        return given

    # ---- compiling ----

    def _options(self, target, values, named, looks, device):
        """tessera_infer's answer as options: (options, what they point to, bindings, sizes)."""
        given = self._given
        bindings = {n: v for n, v in named.items() if n in self.generics}
        bindings.update((p.name, v) for p, v in zip(self.inputs, values)
                        if p.is_const and v is not None)
        pairs = _abi.array(Pair, [Pair(n.encode(), text_of(v).encode())
                                  for n, v in bindings.items()])
        sizes = _abi.array(Size, [Size(n.encode(), int(v)) for n, v in named.items()
                                  if n in self.sizes])
        facts = _abi.array(Fact, [Fact(n.encode(), *f)
                                  for n, f in given.get("facts", {}).items()])
        lines = _abi.array(c_char_p, [line.encode() for line in given.get("lines", ())])
        options = Options(kernel=self.name.encode(), target=target.encode(),
                          bindings=pairs, n_bindings=len(pairs), sizes=sizes, n_sizes=len(sizes),
                          facts=facts, n_facts=len(facts), lines=lines, n_lines=len(lines),
                          optimize=given.get("optimize", 0),
                          pins=None if given.get("pins") is None else os.fsencode(given["pins"]),
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

    def _compile(self, target, values, named, looks, device=None):
        """`looks`: one a parameter, inputs, then outputs; None where nothing is known."""
        with self._runtime.lock:
            options, kept, bindings, sizes = self._options(target, values, named, looks,
                                                             device)
            launched = [look for p, look in zip([*self.inputs, *self.outputs], looks)
                        if not p.is_const]
            lying = ()
            if any(look and (look.strides or (look.data or 0) % 16) for look in launched):
                lying = tuple((look.dims, look.strides, (look.data or 0) % 16) if look else None
                              for look in launched)
                args = _abi.array(Arg, [Arg(tensor=tensor_of(look)) for look in launched])
                self._place_made(args, launched, options, bindings, sizes)
                options.args, options.n_args = args, len(args)
                kept.append(args)
            key = (target, device, tuple(bindings.items()),
                   tuple((options.sizes[i].name, options.sizes[i].value)
                         for i in range(options.n_sizes)), lying)
            found = self._compiled.get(key)
            if found is None:
                handle = self._runtime.handle("compile", self._program._handle, byref(options))
                found = Compiled(self._runtime, handle, options, (bindings, sizes))
                while len(self._compiled) >= MOST_PREPARED:
                    del self._compiled[next(iter(self._compiled))]
                self._compiled[key] = found
            return found, sizes

    def _place_made(self, args, looks, options, bindings, sizes):
        """Results that are made are contiguous; their shapes are the plain compilation's."""
        if all(look or p.rank < 0 for p, look in zip(self._launched, looks)):
            return
        plain = self._runtime.handle("compile", self._program._handle, byref(options))
        shapes = Compiled(self._runtime, plain, options, (bindings, sizes))
        for i, (p, look) in enumerate(zip(self._launched, looks)):
            if look is None and p.rank >= 0:
                dtype, dims = shapes.shape(i)
                args[i].tensor = tensor_of(_arrays.Look(dtype, dims, None, 0, "cpu", 0))

    def _looks(self, values, outputs):
        """(looks, the arrays' adapter and the first of them)."""
        looks, first, adapter = [], None, None
        written = [*self._written, *[True] * len(outputs)]
        for p, value, write in zip([*self.inputs, *self.outputs], [*values, *outputs], written):
            if value is None or p.rank < 0:
                looks.append(None)
                continue
            if isinstance(value, Spec):
                looks.append(value.look())
                continue
            found = _arrays.adapter_of(value)
            if found is None:
                raise TypeError(f"{self.name}: '{p.name}' is {p}, not a number")
            looks.append(found.describe(value, "given" if write else None))
            if first is None:
                first, adapter = value, found
        places = {(look.kind, look.ordinal) for look in looks if look}
        if len(places) > 1:
            raise UsageError(f"{self.name}: arrays lie on {len(places)} devices: "
                             + ", ".join(f"{k}:{o}" for k, o in sorted(places)))
        return looks, adapter, first, next(iter(places), None)

    def compile(self, *args, target=None, out=None, **named):
        """For arguments like these: arrays, numbers, or tessera.spec(type, *shape). target: a name
        of a target; else that of the device on which the arrays lie."""
        values, named = self._bind(args, named)
        looks, _, _, place = self._looks(values, self._outputs(out))
        if target is None:
            real = place and any(not isinstance(v, Spec) for v in values if v is not None)
            device = self._runtime.device(*place) if real else None
            return self._compile(device.target if device else "native", values, named, looks,
                                 device and device.name)[0]
        return self._compile(target, values, named, looks)[0]

    def explain(self, *args, target=None, form="text", **named):
        """How the kernel does it for arguments like these, and what that costs."""
        return self.compile(*args, target=target, **named).explain(form)

    def schedule(self, *args, target=None, **named):
        """Every decision with its reason, for arguments like these."""
        return self.compile(*args, target=target, **named).schedule

    # ---- launching ----

    def prepare(self, *args, out=None, **named):
        """A launch for exactly these arrays, which is quicker than a call."""
        values, named = self._bind(args, named)
        return self._prepare(values, named, self._outputs(out))[0]

    def _prepare(self, values, named, outputs):
        looks, adapter, first, place = self._looks(values, outputs)
        if adapter is None:
            raise TypeError(f"{self.name}: no argument says where it runs: give out=")
        device = self._runtime.device(*place)
        compiled, sizes = self._compile(device.target, values, named, looks, device.name)
        compiled_sizes, compiled.sizes = compiled.sizes, sizes
        makers = []
        for i, (p, value) in enumerate(zip(self.outputs, outputs)):
            make = None
            if value is None:
                index = len(self._launched) - len(self.outputs) + i
                make = adapter.maker(*compiled.shape(index), first)
                outputs[i] = make()
                made = _arrays.adapter_of(outputs[i]).describe(outputs[i], "made")
                looks[len(self.inputs) + i] = made
            makers.append(make)
        compiled.sizes = compiled_sizes
        launched = [(p, look, value) for p, look, value in
                    zip([*self.inputs, *self.outputs], looks, [*values, *outputs])
                    if not p.is_const]
        args = _abi.array(Arg, [arg_of(*each) for each in launched])
        results = tuple(outputs)
        launch = Launch(self, compiled, device, args, adapter, place[1], list(values), results)
        return launch, makers

    def __call__(self, *args, out=None, stream=None, **named):
        if named or self._given or len(args) != self._n_inputs:
            args, named = self._bind(args, named)
        key, now = [], []
        for value, const in zip(args, self._consts):
            if const:  # 0.0 and -0.0 are two, as are 2 and 2.0
                key.append((value.__class__, repr(value)))
                continue
            look = look_of.get(type(value), unseen)
            if look is unseen:
                look = _arrays.find_look(value)
            if look is None:
                key.append(None)  # a scalar stands here
                now.append(value)
                continue
            seen, address = look(value)
            key.append(seen)
            key.append(address & 15)
            now.append(address)
        for i in self._changed:  # what is written may not be read-only
            key.append(_arrays.is_read_only(args[i]))
        if named:
            key.append(tuple((n, v.__class__, repr(v)) for n, v in named.items()))
        if out is not None:
            out = self._outputs(out)
            for value in out:
                look = _arrays.find_look(value) if value is not None else None
                seen, address = look(value) if look else (None, 0)
                key.append(_arrays.is_read_only(value))
                key.append(seen)
                key.append(address & 15)
                now.append(address)
        key = tuple(key)
        entry = self._entries.get(key)
        if entry is None:
            return self._first(key, args, named, out, stream)
        return self._again(entry, now, out, stream)

    def _first(self, key, args, named, outputs, stream):
        launch, makers = self._prepare(list(args), named, list(outputs or [None] *
                                                               len(self.outputs)))
        results = launch.results
        launch.values = launch.results = None  # the arrays are the caller's
        launch(stream)
        entry = Entry(launch, makers)
        with self._runtime.lock:  # from here on other threads may set its arguments
            self._entries[key] = entry
            while len(self._entries) > MOST_PREPARED:
                self._entries.popitem(last=False)
        return self._done(entry, results, stream)

    def _again(self, entry, now, results, stream):
        if entry.makes:
            given = results or entry.makers
            results = [make() if make else value for make, value in zip(entry.makers, given)]
            del now[entry.n_inputs:]
            for value in results:
                now.append(entry.look(value)[1])
        runtime, launch = self._runtime, entry.launch
        with runtime.lock:
            if now != launch._now:
                self._set(launch, now)
            if stream is None:
                stream = entry.stream(launch._ordinal)
            elif type(stream) is not int:
                stream = stream_of(stream)
            status = launch._run(launch._handle, stream)
            if status:
                runtime.fail(status)
        if entry.waits or not results or len(results) != 1:
            return self._done(entry, results or (), stream)
        return results[0]

    def _set(self, launch, now):
        """What differs from the launch before."""
        c, handle, before = self._runtime.c, launch._handle, launch._now
        launch._now = [unseen] * len(now)  # until all is set
        for i, (value, p) in enumerate(zip(now, self._launched)):
            if value != before[i]:
                if p.rank >= 0:
                    status = c.tessera_launch_set(handle, i, value)
                else:
                    status = c.tessera_launch_set_scalar(handle, i, float(value), whole(value))
                if status:
                    self._runtime.fail(status)
        launch._now = now

    def _done(self, entry, results, stream):
        if entry.waits:
            entry.launch.device.sync(stream_of(stream))
        return results[0] if len(results) == 1 else tuple(results) if results else None


class Entry:
    """What calls with such arguments share: `makers` of the results, None where one is given."""

    __slots__ = ("launch", "makers", "makes", "n_inputs", "look", "stream", "waits")

    def __init__(self, launch, makers):
        self.launch, self.makers, self.makes = launch, makers, any(makers)
        self.n_inputs = len(launch._now) - len(makers)
        self.look, self.stream = launch._adapter.look, launch._stream
        self.waits = isinstance(launch._adapter, _arrays.Jax) and launch.device.kind != "cpu"


class Spec:
    """An array that is not there, for compile and explain."""

    def __init__(self, dtype, dims):
        self.dtype, self.dims = dtype, dims

    def look(self):
        return _arrays.Look(self.dtype, self.dims, None, 0, "cpu", 0)


unseen = object()
look_of = _arrays.look_of


def no_stream(ordinal):
    return None


def whole(value):
    """A number as an integer of 64 bits; what is none, as 0: then it is a float parameter's."""
    try:
        value = int(value)
    except (ValueError, OverflowError):
        return 0
    return (value + 2**63) % 2**64 - 2**63


def stream_of(stream):
    """torch's, CuPy's, or whoever's __cuda_stream__ says what the driver calls it."""
    if stream is None or isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    if hasattr(stream, "__cuda_stream__"):
        face = stream.__cuda_stream__
        return (face() if callable(face) else face)[1]
    raise TypeError(f"{type(stream).__name__} is no stream")


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


def arg_of(param, look, value):
    if param.rank >= 0:
        return Arg(tensor=tensor_of(look))
    return Arg(tensor=Tensor(rank=-1), number=float(value), integer=whole(value))


# ---- what the package offers ----

def load(path):
    """The kernels of a file."""
    runtime = _abi.runtime()
    path = os.fspath(path)
    return Program(runtime.handle("program_read", runtime.context, path.encode()), runtime, path)


def parse(text, name="<text>"):
    """The kernels of a text."""
    runtime, text = _abi.runtime(), text.encode()
    handle = runtime.handle("program_parse", runtime.context, name.encode(), text, len(text))
    return Program(handle, runtime, name)


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
    if dtype not in _abi.TYPE_OF:
        raise UsageError(f"no type {dtype}: {', '.join(_abi.TYPES)}")
    return Spec(dtype, tuple(dims))


def device(kind="auto", ordinal=0):
    """An open device: "cpu", "cuda", "hip" or "auto"."""
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
