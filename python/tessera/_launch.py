# SPDX-License-Identifier: Apache-2.0
"""Prepared launches, and the messages of their kernels."""

import sys
from collections import namedtuple
from ctypes import addressof, byref, c_double, c_void_p

from . import _abi, _arrays
from ._abi import IN, Arg, AssertionFailed, Tensor, UsageError
from ._compiled import tensor_of
from ._signature import number_of, whole_number

Message = namedtuple("Message", "failed text file line")
Message.__doc__ = """The text of a kernel's `print`, or of its `assert` if it `failed`, and the
source location of the statement (`file` is None if it is unknown)."""


class Launch(_abi.OfProcess):
    """A kernel prepared for these arguments: call it, with a stream or on the current one. It
    holds the arrays; `results` are those that it writes. `messages` returns what it prints and
    asserts."""

    def __init__(self, kernel, compiled, device, given, adapter, ordinal, results):
        """given: (parameter, look, value) of each parameter that a launch has."""
        runtime = kernel._runtime
        self.compiled, self.device, self.results = compiled, device, results
        self.values = [value for _, _, value in given]
        # The functions to call after a launch are found once: a launch takes few microseconds.
        self._watchers = _arrays.watchers_of([value for p, _, value in given if p.io != IN])
        self._runtime, self._adapter, self._ordinal = runtime, adapter, ordinal
        self._stream = None if device.kind == "cpu" else adapter.current_stream
        self._kernel, self._numbered = kernel.name, []
        self._looks = [(p, look) for p, look, _ in given]
        args = _abi.array(Arg, [self._arg(i, *each) for i, each in enumerate(given)])
        self._handle = runtime.handle("prepare", compiled._handle, device.handle, args, len(args))
        self._owned = _abi.Owned(runtime, "launch_free", self._handle, compiled._owned)
        tensors = [a.tensor.data for a in args if a.tensor.rank >= 0]
        self._tensors, self._n_tensors = (c_void_p * len(tensors))(*tensors), len(tensors)
        self._at = addressof(self._tensors)
        self._numbers = None  # those that are set, as Python has them; None: not known
        self._run, self._run_with = runtime.c.tessera_launch, runtime.c.tessera_launch_with
        self._says = bool(runtime.c.tessera_launch_says(self._handle))

    def _arg(self, index, param, look, value):
        if param.rank >= 0:
            return Arg(tensor=tensor_of(look))
        dtype = self.compiled.bindings.get(param.type, param.type)
        number, integer = number_of(self._kernel, param, dtype, value)
        self._numbered.append((index, param, dtype))
        return Arg(tensor=Tensor(rank=-1), number=number, integer=integer)

    def _set_numbers(self, numbers):
        """0.0 and -0.0 are equal, and are two."""
        if numbers == self._numbers and 0 not in numbers:
            return
        self._numbers = None  # until all are set
        for value, (index, param, dtype) in zip(numbers, self._numbered):
            converted = number_of(self._kernel, param, dtype, value)
            self._runtime.call("launch_set_scalar", self._handle, index, *converted)
        self._numbers = numbers

    def _current(self):
        """The stream that the arrays' library works in; the CPU has none."""
        return self._stream(self._ordinal) if self._stream else None

    def __call__(self, stream=None):
        if stream is None:
            stream = self._current()
        for changed, arrays in self._watchers:
            changed(arrays)
        with self._runtime.lock:
            status = self._run(self._handle, stream_of(stream))
            if status:
                self._runtime.fail(status)

    def time(self, times=1, stream=None):
        """Mean seconds of `times` launches back to back, by the clock of the device."""
        times = whole_number("how often a launch is timed", times)
        if not 0 < times < 1 << 31:
            raise UsageError(f"a launch is timed once or more, not {times} times")
        for changed, arrays in self._watchers:
            changed(arrays)
        seconds = c_double()
        self._runtime.call("launch_time", self._handle, stream_of(stream), times, byref(seconds))
        return seconds.value / times

    @property
    def workspace(self):
        """Bytes of the device's memory that each stream takes for it."""
        return self._runtime.c.tessera_workspace_size(self._handle)

    def messages(self, stream=None):
        """Waits for the stream and returns the messages since the last call as a list of Message.
        The log of a launch holds 32768; the last text is the number of further ones."""
        if stream is None:
            stream = self._current()
        messages = _abi.Messages()
        with self._runtime.lock:
            self._runtime.call("launch_messages", self._handle, stream_of(stream), byref(messages))
            found = [Message(m.failed, m.text.decode(errors="replace"),
                             m.file.decode() if m.file else None, m.line)
                     for m in messages.items[: messages.n]]
            if messages.lost:
                found.append(Message(messages.failures > sum(m.failed for m in found),
                                     f"{messages.lost} more messages did not fit the log", None, 0))
        return found

    def _tell(self, stream):
        """Prints the messages of `print`; raises an error if an assertion failed."""
        messages = self.messages(stream)
        for message in messages:
            if not message.failed:
                print(message.text, file=sys.stdout)
        failed = [m for m in messages if m.failed]
        if failed:
            raise AssertionFailed("\n".join(
                (f"{m.file}:{m.line}: " if m.file else "") + m.text for m in failed), failed)


class Entry:
    """The data that calls with one kind of arguments share: `makers` of the results, None for a
    result that is given, and `make`, if there is a single result that is made."""

    __slots__ = ("launch", "makers", "makes", "make", "n_inputs", "address", "stream", "waits",
                 "known", "deceives")

    def __init__(self, launch, makers):
        self.launch, self.makers, self.makes = launch, makers, any(makers)
        self.make = makers[0] if len(makers) == 1 else None
        self.n_inputs = launch._n_tensors - len(makers)
        self.address, self.stream = launch._adapter.address, launch._stream
        self.waits = launch._says or \
            (isinstance(launch._adapter, _arrays.Jax) and launch.device.kind != "cpu")
        self.known = set()  # keys of calls for which the quick search is decided
        self.deceives = None  # distinguishes arrays that look equal to the C library

    def finish(self, stream):
        """Waits for the launch, if a call must end after it."""
        if self.launch._says:
            self.launch._tell(stream)
        else:
            self.launch.device.sync(stream_of(stream))


class Recent:
    """The most recently used entries of a kernel for one form of call, as tessera_launch_find takes
    them. Only `tensors` changes, under the lock of the runtime."""

    MOST = 16

    def __init__(self, runtime, adapter, entries, n_objects, written):
        """written: which of the objects the launch writes."""
        self.entries = entries
        self.written, self.busy = written, False
        handles = [entry.launch._handle for entry in self.entries]
        self.handles = (c_void_p * len(handles))(*handles)
        self.tensors = (c_void_p * max(e.launch._n_tensors for e in self.entries))()
        self.search = _abi.Search(addressof(self.handles), len(handles), adapter.describes,
                                  n_objects, addressof(self.tensors))
        self.asks = (adapter.types, runtime.find, addressof(self.search), addressof(self.tensors),
                     n_objects, adapter.may_record, adapter.changed if written else None,
                     self.slice())

    def slice(self):
        """The written objects as a slice if they are adjacent, which is quicker; else None."""
        first, last = (self.written[0], self.written[-1] + 1) if self.written else (0, 0)
        return slice(first, last) if self.written == list(range(first, last)) else None


def stream_of(stream):
    """The driver's handle of a stream of torch, CuPy or any class with __cuda_stream__."""
    if stream is None or isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    if hasattr(stream, "__cuda_stream__"):
        face = stream.__cuda_stream__
        return (face() if callable(face) else face)[1]
    raise TypeError(f"{type(stream).__name__} is no stream")
