# SPDX-License-Identifier: Apache-2.0
"""Tessera's library through ctypes, whoever holds the tensors: a subclass says how its arrays look
(`describe`) and on which stream it launches."""

import ctypes
from ctypes import (POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64,
                    c_size_t, c_void_p)


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("type", c_int), ("rank", c_int), ("dims", c_int64 * 8),
                ("strides", POINTER(c_int64))]


class Arg(Structure):
    _fields_ = [("tensor", Tensor), ("number", c_double), ("integer", c_int64),
                ("bound", POINTER(c_double))]


class Pair(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Size(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Options(Structure):
    _fields_ = [("kernel", c_char_p), ("target", c_char_p),
                ("bindings", POINTER(Pair)), ("n_bindings", c_size_t),
                ("sizes", POINTER(Size)), ("n_sizes", c_size_t),
                ("facts", c_void_p), ("n_facts", c_size_t),
                ("args", c_void_p), ("n_args", c_size_t),
                ("strides", POINTER(Pair)), ("n_strides", c_size_t),
                ("lines", POINTER(c_char_p)), ("n_lines", c_size_t), ("optimize", c_int),
                ("wide", c_bool)]


class Inferred(Structure):
    _fields_ = [("bindings", POINTER(Pair)), ("n_bindings", c_size_t),
                ("sizes", POINTER(Size)), ("n_sizes", c_size_t)]


class Param(Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("rank", c_int),
                ("dims", POINTER(c_char_p)), ("io", c_int), ("is_const", c_bool),
                ("fallback", c_char_p)]


class Signature(Structure):
    _fields_ = [("name", c_char_p), ("params", POINTER(Param)), ("n_params", c_size_t),
                ("generics", POINTER(c_char_p)), ("n_generics", c_size_t),
                ("sizes", POINTER(c_char_p)), ("n_sizes", c_size_t)]


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char_p), ("driver_code", c_int),
                ("reproducer", c_char_p)]


class DeviceInfo(Structure):
    _fields_ = [("kind", c_char_p), ("name", c_char_p), ("target", c_char_p), ("units", c_int),
                ("memory_bytes", c_size_t)]


class Library:
    """The library with a context and a device opened. `threads`: of a CPU; 0: all."""

    def __init__(self, path, kind, threads=0):
        self.c = ctypes.CDLL(str(path))
        self.c.tessera_error.restype = POINTER(Error)
        self.c.tessera_device_info.restype = POINTER(DeviceInfo)
        self.context, self.device = c_void_p(), c_void_p()
        self.call("context_new", None, byref(self.context))
        self.call("device_open", self.context, kind.encode(), threads, byref(self.device))
        self.target = self.c.tessera_device_info(self.device).contents.target

    def call(self, name, *arguments):
        status = getattr(self.c, "tessera_" + name)(*arguments)
        if status != 0:
            message = self.c.tessera_error(self.context).contents.message if self.context else b""
            raise RuntimeError(f"tessera_{name}: {(message or b'').decode().strip()}")

    def describe(self, value):
        """An array as the library sees it; a scalar has no shape: rank -1."""
        raise NotImplementedError

    def stream(self):
        return None

    def compile(self, path, consts, inputs, result, lines=(), kernel=None):
        """A kernel for arguments like these: {parameter: array or number}."""
        program, signature = c_void_p(), POINTER(Signature)()
        named = kernel.encode() if kernel else None
        self.call("program_read", self.context, str(path).encode(), byref(program))
        self.call("program_find", program, named, byref(signature))
        pairs = (Pair * len(consts))(*(Pair(str(n).encode(), str(v).encode())
                                       for n, v in consts.items()))
        texts = (c_char_p * len(lines))(*(line.encode() for line in lines))
        options = Options(kernel=named, target=self.target, bindings=pairs, n_bindings=len(pairs),
                          lines=texts, n_lines=len(texts))
        params = signature.contents.params[: signature.contents.n_params]
        results = result if isinstance(result, dict) else None
        values = [(results[p.name.decode()] if results else result) if p.io == 1
                  else inputs.get(p.name.decode()) for p in params]
        known = (Tensor * len(params))(*map(self.describe, values))
        inferred = Inferred()
        self.call("infer", program, byref(options), known, byref(inferred))
        options.bindings, options.n_bindings = inferred.bindings, inferred.n_bindings
        options.sizes, options.n_sizes = inferred.sizes, inferred.n_sizes
        compiled = c_void_p()
        self.call("compile", program, byref(options), byref(compiled))
        return Kernel(self, compiled, [v for p, v in zip(params, values) if not p.is_const])


class Kernel:
    def __init__(self, library, kernel, values):
        self.library, self.kernel, self.values = library, kernel, values

    def prepare(self):
        """A function that launches on the library's current stream."""
        args = (Arg * len(self.values))()
        for arg, value in zip(args, self.values):
            arg.tensor = self.library.describe(value)
            if arg.tensor.rank < 0:
                arg.number = float(value)
                arg.integer = int(value)
        prepared = c_void_p()
        self.library.call("prepare", self.kernel, self.library.device, args, len(args),
                          byref(prepared))
        function = self.library.c.tessera_launch
        stream = c_void_p(self.library.stream())

        def launch():
            if function(prepared, stream) != 0:
                self.library.call("launch", prepared, stream)
        return launch
