# SPDX-License-Identifier: Apache-2.0
"""libtessera through ctypes: the structures and calls of <tessera/tessera.h> that this package
uses, and errors as exceptions."""

import ctypes
import os
import sys
import threading
import weakref
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int64
from ctypes import c_size_t, c_uint64, c_void_p


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("type", c_int), ("rank", c_int), ("dims", c_int64 * 8),
                ("strides", POINTER(c_int64))]


class Arg(Structure):
    _fields_ = [("tensor", Tensor), ("number", c_double), ("integer", c_int64),
                ("bound", POINTER(c_double))]


class Search(Structure):
    _fields_ = [("launches", c_void_p), ("n_launches", c_size_t), ("describe", c_void_p),
                ("n_objects", c_size_t), ("tensors", c_void_p)]


class Pair(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Size(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Fact(Structure):
    _fields_ = [("name", c_char_p), ("multiple", c_int64), ("least", c_int64), ("most", c_int64)]


class Options(Structure):
    _fields_ = [("kernel", c_char_p), ("target", c_char_p),
                ("bindings", POINTER(Pair)), ("n_bindings", c_size_t),
                ("sizes", POINTER(Size)), ("n_sizes", c_size_t),
                ("facts", POINTER(Fact)), ("n_facts", c_size_t),
                ("args", POINTER(Arg)), ("n_args", c_size_t),
                ("strides", POINTER(Pair)), ("n_strides", c_size_t),
                ("lines", POINTER(c_char_p)), ("n_lines", c_size_t), ("optimize", c_int),
                ("wide", c_bool), ("pins", c_char_p), ("device", c_char_p)]


class BundleOptions(Structure):
    _fields_ = [("name", c_char_p), ("kernel", c_char_p), ("targets", POINTER(c_char_p)),
                ("n_targets", c_size_t), ("variants", POINTER(Options)), ("n_variants", c_size_t),
                ("bindings", POINTER(Pair)), ("n_bindings", c_size_t), ("facts", POINTER(Fact)),
                ("n_facts", c_size_t), ("shared", c_bool)]


class Inferred(Structure):
    _fields_ = [("bindings", POINTER(Pair)), ("n_bindings", c_size_t),
                ("sizes", POINTER(Size)), ("n_sizes", c_size_t)]


class Param(Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("rank", c_int),
                ("dims", POINTER(c_char_p)), ("io", c_int), ("is_const", c_bool),
                ("fallback", c_char_p)]


class Choice(Structure):
    _fields_ = [("size", c_char_p), ("values", POINTER(c_int64)), ("n", c_size_t)]


class Signature(Structure):
    _fields_ = [("name", c_char_p), ("params", POINTER(Param)), ("n_params", c_size_t),
                ("generics", POINTER(c_char_p)), ("classes", POINTER(c_char_p)),
                ("n_generics", c_size_t), ("sizes", POINTER(c_char_p)), ("n_sizes", c_size_t),
                ("choices", POINTER(Choice)), ("n_choices", c_size_t), ("doc", c_char_p),
                ("any_rank", c_bool)]


class Failure(Structure):
    _c_name_ = "TesseraError"
    _fields_ = [("status", c_int), ("message", c_char_p), ("driver_code", c_int),
                ("reproducer", c_char_p)]


class Span(Structure):
    _fields_ = [("file", c_char_p), ("line", c_int), ("column", c_int), ("byte_column", c_int),
                ("end_line", c_int), ("end_column", c_int), ("end_byte_column", c_int),
                ("begin", c_size_t), ("end", c_size_t)]


class Diagnostic(Structure):
    _fields_ = [("severity", c_int), ("code", c_char * 8), ("message", c_char_p), ("span", Span),
                ("label", c_char_p), ("labels", c_void_p), ("n_labels", c_size_t),
                ("note", c_char_p), ("help", c_char_p), ("edits", c_void_p),
                ("n_edits", c_size_t), ("human", c_char_p), ("brief", c_char_p),
                ("json", c_char_p)]


class DeviceInfo(Structure):
    _fields_ = [("kind", c_char_p), ("name", c_char_p), ("target", c_char_p), ("units", c_int),
                ("memory_bytes", c_size_t), ("warp", c_int), ("max_threads", c_int),
                ("shared_bytes", c_int)]


class SaidMessage(Structure):
    _c_name_ = "TesseraMessage"
    _fields_ = [("failed", c_bool), ("text", c_char_p), ("file", c_char_p), ("line", c_int)]


class Messages(Structure):
    _fields_ = [("items", POINTER(SaidMessage)), ("n", c_size_t), ("lost", c_uint64),
                ("failures", c_uint64)]


class LaunchInfo(Structure):
    _fields_ = [("symbol", c_char_p), ("threads", c_int), ("shared_bytes", c_int),
                ("blocks", c_int64), ("persistent", c_bool)]


class Resources(Structure):
    _fields_ = [("launches", POINTER(LaunchInfo)), ("n_launches", c_size_t), ("flops", c_double)]


class Bytes(Structure):
    _fields_ = [("data", POINTER(c_char)), ("n", c_size_t)]


ABI = 1  # TESSERA_ABI: of the structures above
IN, OUT, INOUT = range(3)  # TesseraIo
TYPES = ("bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 i4 u4").split()
TYPE_OF = {name: number for number, name in enumerate(TYPES)}  # TesseraType

_OUT = POINTER(c_void_p)
_CALLS = {  # name: (what it returns, parameters); no first: a status
    "version": (c_char_p, []),
    "context_open": (c_int, [c_int, c_void_p, _OUT]),
    "error": (POINTER(Failure), [c_void_p]),
    "diagnostics": (c_size_t, [c_void_p, POINTER(POINTER(Diagnostic))]),
    "warnings": (c_char_p, [c_void_p]),
    "program_parse": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, _OUT]),
    "program_read": (c_int, [c_void_p, c_char_p, _OUT]),
    "program_free": (None, [c_void_p]),
    "program_kernels": (c_size_t, [c_void_p]),
    "program_kernel": (POINTER(Signature), [c_void_p, c_size_t]),
    "program_find": (c_int, [c_void_p, c_char_p, POINTER(POINTER(Signature))]),
    "infer": (c_int, [c_void_p, POINTER(Options), POINTER(Tensor), POINTER(Inferred)]),
    "compile": (c_int, [c_void_p, POINTER(Options), _OUT]),
    "compile_start": (c_int, [c_void_p, POINTER(Options), c_void_p, c_void_p, _OUT]),
    "task_wait": (c_int, [c_void_p, _OUT]),
    "task_free": (None, [c_void_p]),
    "kernel_free": (None, [c_void_p]),
    "kernel_load": (c_int, [c_void_p, c_void_p]),
    "kernel_signature": (POINTER(Signature), [c_void_p]),
    "kernel_shape": (c_int, [c_void_p, c_size_t, POINTER(Size), c_size_t, POINTER(Tensor)]),
    "kernel_emit": (c_int, [c_void_p, c_char_p, POINTER(Bytes)]),
    "kernel_schedule": (c_int, [c_void_p, c_bool, POINTER(c_char_p)]),
    "kernel_resources": (c_int, [c_void_p, POINTER(Resources)]),
    "kernel_explain": (c_int, [c_void_p, c_int, POINTER(Bytes)]),
    "device_open": (c_int, [c_void_p, c_char_p, c_int, _OUT]),
    "device_free": (None, [c_void_p]),
    "device_info": (POINTER(DeviceInfo), [c_void_p]),
    "isolate": (c_int, [c_void_p, c_int, c_char_p, c_double]),
    "sync": (c_int, [c_void_p, c_void_p]),
    "prepare": (c_int, [c_void_p, c_void_p, POINTER(Arg), c_size_t, _OUT]),
    "launch": (c_int, [c_void_p, c_void_p]),
    "launch_with": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "launch_find": (c_int, [c_void_p, c_void_p]),
    "launch_messages": (c_int, [c_void_p, c_void_p, POINTER(Messages)]),
    "launch_says": (c_bool, [c_void_p]),
    "launch_free": (None, [c_void_p]),
    "launch_set": (c_int, [c_void_p, c_size_t, c_void_p]),
    "launch_set_scalar": (c_int, [c_void_p, c_size_t, c_double, c_int64]),
    "launch_reserve": (c_int, [c_void_p, c_void_p]),
    "launch_time": (c_int, [c_void_p, c_void_p, c_int, POINTER(c_double)]),
    "workspace_size": (c_size_t, [c_void_p]),
    "log": (c_int, [c_void_p, c_void_p, c_void_p]),
    "bundle": (c_int, [c_void_p, POINTER(BundleOptions), _OUT]),
    "bundled_header": (POINTER(Bytes), [c_void_p]),
    "bundled_object": (POINTER(Bytes), [c_void_p]),
    "bundled_free": (None, [c_void_p]),
}


# ---- errors ----

class Error(RuntimeError):
    """What a call of the library could not do. `diagnostics` has a dictionary for each thing that
    is wrong: severity, code, message, spans, help."""

    def __init__(self, message, diagnostics=(), driver_code=0, reproducer=None):
        super().__init__(message)
        self.diagnostics = list(diagnostics)
        self.driver_code = driver_code
        self.reproducer = reproducer


class SourceError(Error):
    """The program text is wrong, or does not allow these sizes or values."""


class UsageError(Error, ValueError):
    """An argument, option or kernel that does not exist or does not fit."""


class UnavailableError(Error):
    """A driver, a device, a file or memory is not to be had."""


class FaultError(Error):
    """The kernel failed while running; the device may be unusable."""


class AssertionFailed(Error, AssertionError):
    """What a kernel asserts did not hold; `messages` has where and what. Its results are there all
    the same, whatever they are."""

    def __init__(self, message, messages=()):
        super().__init__(message)
        self.messages = list(messages)


class InternalError(Error):
    """A bug of Tessera; `reproducer` is text to attach to a report."""


ERRORS = {1: SourceError, 2: UsageError, 3: UnavailableError, 4: FaultError, 70: InternalError}


# ---- the library ----

def _candidates():
    here = os.path.dirname(os.path.realpath(__file__))
    named = os.environ.get("TESSERA_LIBRARY")
    if named:
        return [named]
    tree = os.path.dirname(os.path.dirname(here))
    return [os.path.join(folder, "libtessera.so.0")
            for folder in (here, os.path.join(tree, "lib"), os.path.join(tree, "build", "lib"))]


def _load():
    for path in _candidates():
        if os.path.exists(path):
            break
    library = ctypes.CDLL(path)
    for name, (result, parameters) in _CALLS.items():
        function = getattr(library, "tessera_" + name)
        function.restype, function.argtypes = result, parameters
    return library


def find_with_objects(library):
    """tessera_launch_find, which keeps Python's lock: it asks about objects of Python."""
    result, parameters = _CALLS["launch_find"]
    function = ctypes.cast(library.tessera_launch_find, c_void_p).value
    return ctypes.PYFUNCTYPE(result, *parameters)(function)


# ---- logging ----

_logger = None


def logger():
    """Python's logger "tessera". What it is told is not shown unless the program asks for it."""
    global _logger
    if _logger is None:
        import logging
        _logger = logging.getLogger("tessera")
        if not _logger.handlers:
            _logger.addHandler(logging.NullHandler())
    return _logger


@ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
def tell(user, level, message):
    """What the library does, to the logger: TESSERA_LOG_WARNING is 0, TESSERA_LOG_INFO 1."""
    if sys.meta_path is not None:  # else Python is ending
        logger().log((30, 20)[level], "%s", message.decode(errors="replace"))


class Runtime:
    """The library and one context; `lock` is held around calls that use it."""

    here = staticmethod(os.getpid)

    def __init__(self):
        self.process = os.getpid()  # a forked child has no threads of it
        self.c = _load()
        self.find = find_with_objects(self.c)
        self.lock = threading.RLock()
        self.context = self.handle("context_open", ABI, None)
        self.c.tessera_log(self.context, tell, None)
        self.devices = {}
        self.started = weakref.WeakSet()  # what threads of the library compile
        _runtimes.add(self)  # last: a fork takes its lock before that of `_starting`

    def fail(self, status):
        failure = self.c.tessera_error(self.context).contents
        found = POINTER(Diagnostic)()
        n = self.c.tessera_diagnostics(self.context, ctypes.byref(found))
        import json
        diagnostics = [json.loads(found[i].json) for i in range(n) if found[i].json]
        reproducer = failure.reproducer.decode() if failure.reproducer else None
        raise ERRORS.get(status, Error)(failure.message.decode(errors="replace").rstrip(),
                                        diagnostics, failure.driver_code, reproducer)

    def call(self, name, *arguments):
        with self.lock:
            status = getattr(self.c, "tessera_" + name)(*arguments)
            if status != 0:
                self.fail(status)

    def handle(self, name, *arguments):
        """What a call hands out by its last parameter."""
        out = c_void_p()
        if name == "context_open":
            if self.c.tessera_context_open(*arguments, ctypes.byref(out)) != 0:
                raise UnavailableError(self.c.tessera_error(None).contents.message.decode())
        else:
            self.call(name, *arguments, ctypes.byref(out))
        return out.value

    def device(self, kind, ordinal):
        """The opened device, kept for as long as the process."""
        with self.lock:
            found = self.devices.get((kind, ordinal))
            if found is None:
                handle = self.handle("device_open", self.context,
                                     text_of("the kind of a device", kind), ordinal)
                info = self.c.tessera_device_info(handle).contents
                found = self.devices[kind, ordinal] = Device(self, handle, info, ordinal)
            return found


def text_of(what, value):
    """For C, where text ends at the first zero byte."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{what} is str, not {type(value).__name__}")
    code = value if isinstance(value, bytes) else value.encode(errors="surrogateescape")
    if b"\0" in code:
        raise UsageError(f"{what} has a zero byte in it: {value!r}")
    return code


class Owned:
    """Something that is freed with its last user: when Python ends, objects go in any order, and a
    launch must go before its kernel."""

    def __init__(self, runtime, free, handle, user_of=None):
        self.runtime, self.free, self.handle = runtime, free, handle
        self.users, self.user_of = 1, user_of
        if user_of:
            with runtime.lock:
                user_of.users += 1

    def drop(self):
        self.users -= 1
        if self.users == 0:
            getattr(self.runtime.c, "tessera_" + self.free)(self.handle)
            if self.user_of:
                self.user_of.drop()

    def __del__(self):
        if self.runtime.process == self.runtime.here():
            with self.runtime.lock:
                self.drop()


class OfProcess:
    """What is made of the library's handles, which no other process has."""

    def __reduce__(self):
        raise TypeError(f"a tessera.{type(self).__name__} is of the process that made it: pickle "
                        "or copy its kernel")


class Device(OfProcess):
    """An open device. `kind`, `name`, `target` and `units` are those of tessera_device_info."""

    def __init__(self, runtime, handle, info, ordinal):
        self.runtime, self.handle, self.ordinal = runtime, handle, ordinal
        self.kind, self.name = info.kind.decode(), info.name.decode()
        self.target, self.units = info.target.decode(), info.units

    def sync(self, stream=None):
        """Waits for all work of a stream; raises the fault of a kernel."""
        self.runtime.call("sync", self.handle, stream)

    def __repr__(self):
        return f"<tessera.Device {self.kind}: {self.name}, {self.target}>"


_runtime = None
_starting = threading.RLock()
_runtimes: "weakref.WeakSet" = weakref.WeakSet()


class AcrossFork:
    """Delays a fork while another thread, of Python's or the library's, is inside the library.
    Otherwise the child would inherit a
    lock whose owner it does not have, and data that this thread had half changed.

    The order of locks is: those of the runtimes, that of `logging`, `_starting`. Functions before a
    fork are called in the reverse order of their registration."""

    locked: list = []
    registered = False

    @classmethod
    def begin(cls):
        cls.locked = sorted(_runtimes, key=id)
        for runtime in cls.locked:
            runtime.lock.acquire()
            for task in list(runtime.started):
                task.settle()

    @classmethod
    def end(cls):
        for runtime in cls.locked:
            runtime.lock.release()
        cls.locked = []

    @classmethod
    def register(cls):
        """Once, behind `logging`, whose lock the library's messages take inside of calls."""
        logger()
        if not cls.registered and hasattr(os, "register_at_fork"):
            cls.registered = True
            os.register_at_fork(before=cls.begin, after_in_parent=cls.end, after_in_child=cls.end)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release,
                        after_in_child=_starting.release)


def runtime():
    """The process's own, started when it is first asked for; a forked child's is its own, too."""
    global _runtime
    if _runtime is None or _runtime.process != os.getpid():
        logger()
        with _starting:
            AcrossFork.register()
            if _runtime is None or _runtime.process != os.getpid():
                _runtime = Runtime()
    return _runtime


def array(kind, values):
    """A C array, which may be empty."""
    return (kind * len(values))(*values)


def names(values, n):
    return [values[i].decode() for i in range(n)]
