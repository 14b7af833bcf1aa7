# SPDX-License-Identifier: Apache-2.0
"""Kernels and calls. A call looks at its arguments, finds what was prepared for such
ones, sets the addresses and launches; only what was not seen before is inferred and compiled.
Arrays whose library describes them to C are looked at there (Kernel._quickly)."""

import ctypes
import os
from collections import OrderedDict
from ctypes import byref

from . import _abi, _arrays
from ._abi import INOUT, UsageError
from ._compiled import Compiler, Spec, spec_like
from ._launch import Entry, Launch, Recent, stream_of
from ._signature import REST, Parameters, check_number, plain, whole_number

MOST_PREPARED = 256  # of a kernel; those used last stay
ARRAY, NUMBER, CONST = range(3)  # kinds of arguments
MISSED = object()  # no launch is prepared for such arguments
PLAIN = ((), False), ((), True)  # calls without constants and names; and with out=
words = {bool, int, float, str, type(None)}  # types whose repr is unique


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
        self._raw, self._params = signature, Parameters(signature)
        self.inputs, self.outputs = self._params.inputs, self._params.outputs
        self.generics, self.sizes = self._params.generics, self._params.sizes
        self._n_inputs = len(self.inputs)
        self._kinds = [CONST if p.is_const else ARRAY if p.rank >= 0 else NUMBER
                       for p in self.inputs]
        self._changed = [i for i, p in enumerate(self.inputs) if p.io == INOUT]
        self._only_arrays = not self._changed and all(k == ARRAY for k in self._kinds)
        self._compiler = Compiler(program, self._params, self._given)
        self._entries = OrderedDict()
        self._arrays_at = [i for i, k in enumerate(self._kinds) if k == ARRAY]
        self._numbers_at = [i for i, k in enumerate(self._kinds) if k == NUMBER]
        self._consts_at = [i for i, k in enumerate(self._kinds) if k == CONST]
        self._least = 1 + max([-1, *self._arrays_at, *self._numbers_at])  # arguments, not by name
        self._recents = {}  # (variant, is there an out=): Recent
        self._recent = self._recent_out = None  # of them, those without constants and names
        self.__name__ = self.__qualname__ = self.name
        self._says = f"{self.name}({', '.join(f'{p.name}: {p}' for p in self.inputs)}) -> " + \
            ", ".join(f"{p.name}: {p}" for p in self.outputs)
        doc = signature.doc.decode(errors="replace") if signature.doc else None
        self.__doc__ = f"{self._says}\n\n{doc}" if doc else self._says
        self._last = None  # the arguments of the call that was prepared last, and its names
        self._derived = {}  # for _autograd: gradients' kernels by the numbers of the inputs
        program._kernels_made.add(self)

    @property
    def __signature__(self):
        return self._params.python()

    def __repr__(self):
        return f"<tessera.Kernel {self._says}>"

    # ---- copies: it is as constant as a function ----

    def __reduce__(self):
        return _kernel_again, (self._program, self.name, self._given)

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    # ---- options ----

    def given(self, *, schedule=(), facts=None, optimize=0, pins=None, **bindings):
        """The same kernel, compiled with these schedule entries, with facts about sizes (a number
        is a divisor; a tuple is multiple, min, max) instead of those of the arguments, and with
        generic and const parameters bound. pins: a pin file instead of the one beside the source;
        False ignores pins."""
        self._params.check_names(bindings, ("schedule", "facts", "optimize", "pins"))
        pins = "" if pins is False else None if pins is None else os.fspath(pins)
        lines = [schedule] if isinstance(schedule, str) else list(schedule)
        if len(lines) == 1:
            lines = [line.strip() for line in lines[0].split(";") if line.strip()]
        optimize = whole_number(f"{self.name}: optimize", optimize)
        if not -1 <= optimize <= 3:
            raise UsageError(f"{self.name}: optimize is {optimize}: -1 to 3 are possible")
        facts = {n: self._params.fact(n, f) for n, f in (facts or {}).items()}
        old = self._given
        return type(self)(self._program, self._raw, {
            "lines": [*old.get("lines", ()), *lines],
            "facts": {**old.get("facts", {}), **facts},
            "optimize": optimize or old.get("optimize", 0),
            "pins": old.get("pins") if pins is None else pins,
            "bindings": {**old.get("bindings", {}), **bindings}})

    def _bind(self, args, named, keywords=()):
        return self._params.bind(args, {**self._given.get("bindings", {}), **named}, keywords)

    # ---- compiling ----

    def _looks(self, values, outputs, launches=False):
        """(looks, the adapter of the arrays, the first array, their device)."""
        looks, first, adapter = [], None, None
        written = [*(p.io == INOUT for p in self.inputs), *[True] * len(outputs)]
        for p, value, write in zip([*self.inputs, *self.outputs], [*values, *outputs], written):
            if value is None or p.rank < 0:
                looks.append(None)
                continue
            if isinstance(value, Spec):
                looks.append(_arrays.as_parameter(value.look(), p.type))
                continue
            found = self._find(_arrays.adapter_of, value, p)
            try:
                if launches:
                    found.refuse(value, write)
                look = found.describe(value, "given" if write else None)
            except UsageError as problem:
                raise UsageError(f"{self.name}: '{p.name}' is {p}: {problem}") from None
            looks.append(_arrays.as_parameter(look, p.type))
            if first is None:
                first = value.array if isinstance(value, _arrays.View) else value
                adapter = _arrays.adapter_of(first)
        places = {(look.kind, look.ordinal) for look in looks if look}
        if len(places) > 1:
            raise UsageError(f"{self.name}: arrays lie on {len(places)} devices: "
                             + ", ".join(f"{k}:{o}" for k, o in sorted(places)))
        return looks, adapter, first, next(iter(places), None)

    def compile(self, *args, target=None, out=None, **named):
        """For arguments like these: arrays, numbers, or tessera.spec(type, *shape). target: the
        name of a target, by default that of the device of the arrays. Without any arguments: those
        of the call that was prepared last, or arguments of any size if there was none."""
        return self._compiler.compile(*self._asked(args, named, target, out))[0]

    def start(self, *args, target=None, out=None, **named):
        """Begins to compile for arguments like these, in threads of the library: as many kernels
        at once as there are CPUs. `compile`, `prepare` and calls for such arguments then wait for
        that kernel, and raise what is wrong with it."""
        self._compiler.start(*self._asked(args, named, target, out))

    def _asked(self, args, named, target, out):
        """What the compiler takes for arguments of `compile`."""
        if not args and not named and out is None and self._last:
            args, named, own = self._last
            target = target or own
        if not args and out is None and not set(named) & {p.name for p in self.inputs
                                                          if not p.is_const}:
            named = self._params.whole_sizes({**self._given.get("bindings", {}), **named},
                                             ("target", "out"))
            values = [named.pop(p.name, None) if p.is_const else None for p in self.inputs]
        else:
            values, named = self._bind(args, named, ("target", "out"))
        outputs = self._params.results(out)
        looks, _, _, place = self._looks(values, outputs)
        if target is None:
            real = place and any(not isinstance(v, Spec) or v.device
                                 for v in [*values, *outputs] if v is not None)
            device = self._runtime.device(*place) if real else None
            return (device.target if device else "native", values, named, looks,
                    device and device.name)
        return target, values, named, looks

    def explain(self, *args, target=None, form="text", **named):
        """How the kernel does it for arguments like these, and what that costs; `compile` says what
        arguments may be left out. The result is the text, which a notebook shows as a page."""
        self._params.check_names(named, ("target", "form"))
        compiled = self.compile(*args, target=target, **named)
        if form != "text":
            return compiled.explain(form)
        from ._explain import Explanation
        return Explanation(compiled)

    def source(self, target=None, *args, kind=None, **named):
        """The code that is generated for a target, as text: PTX for NVIDIA's, else assembly, or
        what `kind` names: "ir", "llvm", "ptx", "asm" or "launch". Arguments as for `compile`."""
        kinds = ("ir", "llvm", "ptx", "asm", "launch")
        if kind is not None and kind not in kinds:
            raise UsageError(f"{self.name}: no text '{kind}': {', '.join(kinds)}; compile(…).emit "
                             "has all kinds, as bytes")
        self._params.check_names(named, ("target", "kind"))
        compiled = self.compile(*args, target=target, **named)
        kind = kind or ("ptx" if compiled.target.startswith("sm_") else "asm")
        return compiled.emit(kind).decode()

    @property
    def text(self):
        """The source of the program that the kernel is part of."""
        return self._program.text

    # ---- measuring ----

    def bench(self, *args, out=None, seconds=1.0, rounds=7, **named):
        """Measures launches with these arguments, back to back: a tessera.Bench. What they write is
        written. seconds: about how long that may take."""
        from ._tune import bench
        return bench(self, args, out, seconds, rounds, named)

    def tune(self, *args, budget=60, pin=True, progress=None, **options):
        """Measures other schedules for arguments like these, and pins the best one, so that calls
        use it from now on, also those of other processes: a tessera.Tuned. budget: seconds, or
        "10m"; progress: a function that is called with a tessera.Progress, or whether a line shows
        it; further options: `candidates`, `strategy`, `seed`, `resume`, `workers`, `store`, `pins`
        (the file), `device`, and generic parameters and sizes."""
        from ._tune import tune
        return tune(self, args, budget, pin, progress, options)

    def schedule(self, *args, target=None, **named):
        """Every decision with its reason, for arguments like these."""
        self._params.check_names(named, ("target",))
        return self.compile(*args, target=target, **named).schedule

    def _refresh(self):
        """Forgets what was compiled: pins have changed."""
        with self._runtime.lock:
            self._compiler.made.clear()
            for key in list(self._entries):
                self._forget(self._entries.pop(key))

    # ---- launching ----

    def prepare(self, *args, out=None, **named):
        """A launch for exactly these arrays, which is quicker than a call."""
        values, named = self._bind(args, named, ("out",))
        return self._prepare(values, named, self._params.results(out))[0]

    def _prepare(self, values, named, outputs):
        params = self._params
        looks, adapter, first, place = self._looks(values, outputs, launches=True)
        if adapter is None:
            raise TypeError(f"{self.name}: no argument says where it runs: give out=")
        device = self._runtime.device(*place)
        compiled, sizes = self._compiler.compile(device.target, values, named, looks, device.name)
        compiled_sizes, compiled.sizes = compiled.sizes, sizes
        makers = []
        for i, (p, value) in enumerate(zip(self.outputs, outputs)):
            make = None
            if value is None:
                index = len(params.launched) - len(self.outputs) + i
                make = adapter.maker(*compiled.shape(index), first)
                outputs[i] = make()
                made = _arrays.adapter_of(outputs[i]).describe(outputs[i], "made")
                looks[len(self.inputs) + i] = made
            makers.append(make)
        compiled.sizes = compiled_sizes
        given = [(p, look, value) for p, look, value in
                 zip([*self.inputs, *self.outputs], looks, [*values, *outputs])
                 if not p.is_const]
        return Launch(self, compiled, device, given, adapter, place[1], tuple(outputs)), makers

    def __call__(self, *args, out=None, stream=None, **named):
        if named or self._consts_at or len(args) != self._n_inputs:
            variant = self._variant(args, named)
            recent = self._recents.get((variant, out is not None))
        else:
            variant, recent = (), self._recent if out is None else self._recent_out
        if recent is not None:
            result = self._quickly(recent, args, out, stream)
            if result is not MISSED:
                return result
        result, entry = self._call(args, out, stream, named)
        if entry is not None and variant is not None and \
                (variant, out is not None) not in entry.known:
            self._remember(entry, variant, args, out)
        return result

    def _variant(self, args, named):
        """Constants, and what is given by name, of a call that is no other's; None: it is looked
        at in full, as are arrays and numbers by name."""
        if not self._least <= len(args) <= self._n_inputs:
            return None
        found = [args[i] if i < len(args) else None for i in self._consts_at]
        for value in found:
            if value.__class__ not in words:
                return None
        for value in named.values():
            if value.__class__ not in words:
                return None
        return (*named, *[(v.__class__, repr(v)) for v in (*found, *named.values())])

    def _quickly(self, recent, args, out, stream):
        """The call, if one of the launches that were prepared last is for such arrays."""
        if self._only_arrays:
            objects, numbers = args, None
        else:
            objects = tuple([args[i] for i in self._arrays_at])
            numbers = [args[i] for i in self._numbers_at]
            for value in numbers:
                if type(value) not in plain:
                    return MISSED
        if out is not None:
            objects += out if type(out) is tuple else (out,)
        types, find, search, at, n, may_record, changed, written = recent.asks
        if len(objects) != n:
            return MISSED
        for value in objects:
            if type(value) not in types:
                return MISSED
        if may_record(objects):
            return MISSED
        runtime = self._runtime
        with runtime.lock:
            if recent.busy:  # a finalizer or a signal's handler calls within such a call
                return MISSED
            recent.busy = True
            try:
                try:
                    which = find(search, id(objects) + ITEMS)
                except Exception:  # noqa: BLE001 (the library's, of what it cannot describe)
                    return MISSED
                if which < 0:
                    return MISSED
                entry = recent.entries[which]
                launch = entry.launch
                if entry.deceives and any(map(entry.deceives, objects)):
                    return MISSED
                if out is not None:
                    result = objects[-1] if len(self.outputs) == 1 else out
                elif entry.make is not None:
                    result = entry.make()
                    recent.tensors[n] = entry.address(result)
                else:
                    result = tuple([make() for make in entry.makers]) or None
                    recent.tensors[n: launch._n_tensors] = [*map(entry.address, result or ())]
                if stream is None:
                    if entry.stream is not None:
                        stream = entry.stream(launch._ordinal)
                elif type(stream) is not int:
                    stream = stream_of(stream)
                if changed is not None:
                    changed(objects[written] if written else [objects[i] for i in recent.written])
                if numbers:
                    launch._set_numbers(numbers)
                status = launch._run_with(launch._handle, stream, at, launch._n_tensors)
                if status:
                    runtime.fail(status)
                return result
            finally:
                recent.busy = False

    def _remember(self, entry, variant, args, out):
        """For _quickly, from the next call on."""
        place = (variant, out is not None)
        entry.known.add(place)
        adapter = entry.launch._adapter
        arrays = [args[i] for i in self._arrays_at]
        given = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if not adapter.describes or entry.waits or (out is None and not all(entry.makers)) or \
                any(type(value) not in adapter.types for value in (*arrays, *given)):
            return
        if any(adapter.may_deceive(value) for value in (*arrays, *given)):
            entry.deceives = adapter.deceives
        with self._runtime.lock:
            old = self._recents.get(place)
            entries = [entry, *(old.entries if old else ())]
            for dropped in entries[Recent.MOST:]:
                dropped.known.discard(place)  # to come back with its next call
            written = [self._arrays_at.index(i) for i in self._changed]
            written += range(len(arrays), len(arrays) + len(given))
            self._recents[place] = Recent(self._runtime, adapter, entries[: Recent.MOST],
                                          len(arrays) + len(given), written)
            self._recent, self._recent_out = map(self._recents.get, PLAIN)

    def _forget(self, entry):
        """It is dropped; the others of its places come back with their next calls."""
        for place in list(entry.known):
            recent = self._recents.pop(place, None)
            for other in recent.entries if recent else ():
                other.known.discard(place)
        self._recent, self._recent_out = map(self._recents.get, PLAIN)

    def _call(self, args, out, stream, named):
        """The result, and what was prepared for such arguments; None if torch records the call."""
        if named or self._given or len(args) != self._n_inputs:
            args, named = self._bind(args, named, ("out", "stream"))
        key, places, numbers = [], [], []
        if self._only_arrays:
            for value in args:
                look = look_of.get(type(value)) or self._look(value, len(places))
                seen, address = look(value)
                key.append(seen)
                places.append(address)
        else:
            self._look_at(args, key, places, numbers)
        if named:
            key.append(tuple((n, v.__class__, repr(v)) for n, v in named.items()))
        if out is not None:
            out = self._params.results(out)
            for value, p in zip(out, self.outputs):
                look = self._find(_arrays.find_look, value, p) if value is not None else None
                seen, address = look(value) if look else (None, 0)
                key.append(_arrays.is_read_only(value))
                key.append(seen)
                places.append(address)
        key = tuple(key)
        entry = self._entries.get(key)
        if entry is None:
            return self._first(key, args, named, out, stream)
        if self._changed or out is not None:
            self._note_changes(args, out)
        return self._again(entry, places, numbers, out, stream), entry

    def _note_changes(self, args, out):
        """Of what the caller gave, this is written. Before the launch: torch refuses here to have
        some of its tensors changed."""
        _arrays.note_changes([*[args[i] for i in self._changed],
                              *[value for value in out or () if value is not None]])

    def _look_at(self, args, key, places, numbers):
        """Appends the key, the addresses and the numbers of the arguments."""
        for value, kind in zip(args, self._kinds):
            if kind == ARRAY:
                look = look_of.get(type(value)) or self._look(value, len(places))
                seen, address = look(value)
                key.append(seen)
                places.append(address)
            elif kind == NUMBER:
                if type(value) not in plain:
                    check_number(self.name, self._nth(NUMBER, len(numbers)), value)
                numbers.append(value)
            else:  # 0.0 and -0.0 are two, as are 2 and 2.0
                key.append((value.__class__, repr(value)))
        for i in self._changed:  # what is written may not be read-only
            key.append(_arrays.is_read_only(args[i]))

    def _nth(self, kind, n):
        return [p for p, k in zip(self.inputs, self._kinds) if k == kind][n]

    def _look(self, value, n):
        """Of a kind of arrays that has not been seen; a number is none."""
        return self._find(_arrays.find_look, value, self._nth(ARRAY, n))

    def _find(self, what, value, p):
        """find_look or adapter_of, of what must be an array."""
        try:
            found = what(value)
        except (TypeError, UsageError) as problem:
            raise type(problem)(f"{self.name}: '{p.name}' is {p}: {problem}") from None
        if found is None:
            raise TypeError(f"{self.name}: '{p.name}' is {p}, not a number")
        return found

    def _first(self, key, args, named, outputs, stream):
        if _arrays.require_grad(args):  # such are never prepared, and so come here each time
            from ._autograd import recorded
            result = recorded(self, args, named, outputs, stream)
            if result is not NotImplemented:
                return result, None
        given = list(outputs or [None] * len(self.outputs))
        outputs = list(given)
        launch, makers = self._prepare(list(args), named, outputs)
        results = launch.results
        self._last = ([spec_like(v) for v in args], dict(named), launch.compiled.target)
        launch.values = launch.results = None  # the arrays are the caller's
        launch._watchers = ()
        self._note_changes(args, given)
        if stream is None:
            stream = launch._current()
        entry = Entry(launch, makers)
        with self._runtime.lock:
            launch(stream)
            if entry.waits:
                entry.finish(stream)
            self._entries[key] = entry  # from here on other threads may set its arguments
            while len(self._entries) > MOST_PREPARED:
                self._forget(self._entries.popitem(last=False)[1])
        return results[0] if len(results) == 1 else results or None, entry

    def _again(self, entry, places, numbers, results, stream):
        make = entry.make
        if make is not None and results is None:  # one result, which is made
            result = make()
            places.append(entry.address(result))
        else:
            result = self._results(entry, places, results)
        runtime, launch = self._runtime, entry.launch
        with runtime.lock:
            if stream is None:
                if entry.stream is not None:
                    stream = entry.stream(launch._ordinal)
            elif type(stream) is not int:
                stream = stream_of(stream)
            if numbers:
                launch._set_numbers(numbers)
            launch._tensors[:] = places
            status = launch._run_with(launch._handle, stream, launch._at, launch._n_tensors)
            if status:
                runtime.fail(status)
            if entry.waits:
                entry.finish(stream)
        return result

    def _results(self, entry, places, given):
        """What the call returns; the addresses come behind those of the inputs."""
        if entry.makes:
            results = [make() if make else value
                       for make, value in zip(entry.makers, given or entry.makers)]
            del places[entry.n_inputs:]
            for make, value in zip(entry.makers, results):
                places.append(entry.address(value) if make else
                              _arrays.find_look(value)(value)[1])
            given = results
        return given[0] if given and len(given) == 1 else tuple(given) if given else None


look_of, ITEMS = _arrays.look_of, _arrays.ITEMS


class AnyRank(Kernel):
    """A kernel with `...` in its types: called is the one for as many axes as the arrays have."""

    def __init__(self, program, signature, given=None):
        super().__init__(program, signature, given)
        self._ranks, self._called = {}, {}  # kernels by rank, and by axes of the first array
        self._rests = [i for i, p in enumerate(self.inputs) if REST in p.dims]

    def of_rank(self, rank):
        """The kernel with so many axes instead of `...`."""
        found = self._ranks.get(rank)
        if found is None:
            rank = whole_number(f"{self.name}: a number of axes", rank)
            found = self._program[f"{self.name}[{rank}]"]
            if self._given:
                found = Kernel(self._program, found._raw, self._given)
            self._ranks[rank] = found
        return found

    def _for(self, args, named, out=None):
        """The kernel for these arguments: the first array that has a `...` tells. Itself if there
        is none, as it has one axis."""
        given = [(self.inputs[i], args[i] if i < len(args) else named.get(self.inputs[i].name))
                 for i in self._rests]
        results = out if isinstance(out, (tuple, list)) else [out]
        given += [(p, v) for p, v in zip(self.outputs, results) if REST in p.dims]
        if not args and not named and self._last_of is not None:
            return self._last_of
        for p, value in given:
            shape = getattr(value, "dims" if isinstance(value, (Spec, _arrays.View)) else "shape",
                            None)
            if shape is not None:
                rank = len(shape) - len(p.dims) + 1
                if rank == 1:
                    return self
                if rank < 1 or rank > 9 - len(p.dims):
                    raise UsageError(f"{self.name}: '{p.name}' is {p}: an array of {len(shape)} "
                                     f"axes, `...` is 1 to {9 - len(p.dims)}")
                return self.of_rank(rank)
        return self

    _last_of = None  # the kernel of another rank that was called last

    def __call__(self, *args, out=None, stream=None, **named):
        kernel = None
        if self._rests and len(args) > self._rests[0]:  # quickly, of a rank that was called before
            kernel = self._called.get(len(getattr(args[self._rests[0]], "shape", ())))
        if kernel is None:
            kernel = self._for(args, named, out)
            shape = getattr(args[self._rests[0]], "shape", None) if self._rests and args else None
            if shape is not None:
                self._called[len(shape)] = kernel
        if kernel is self:
            self._last_of = None
            return super().__call__(*args, out=out, stream=stream, **named)
        self._last_of = kernel
        return kernel(*args, out=out, stream=stream, **named)

    def compile(self, *args, target=None, out=None, **named):
        kernel = self._for(args, named, out)
        return (super() if kernel is self else kernel).compile(*args, target=target, out=out,
                                                               **named)

    def start(self, *args, target=None, out=None, **named):
        kernel = self._for(args, named, out)
        (super() if kernel is self else kernel).start(*args, target=target, out=out, **named)

    def prepare(self, *args, out=None, **named):
        kernel = self._for(args, named, out)
        return (super() if kernel is self else kernel).prepare(*args, out=out, **named)

    def tune(self, *args, **options):
        kernel = self._for(args, options)
        return (super() if kernel is self else kernel).tune(*args, **options)


def _kernel_again(program, name, given):
    """Of a pickle."""
    found = program[name]
    return type(found)(program, found._raw, given) if given else found
