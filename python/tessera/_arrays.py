# SPDX-License-Identifier: Apache-2.0
"""Adapters for the arrays of each library: their layout and device, and how results are made.

An adapter's `look(array)` runs in each call and so is short. It returns what a kernel is prepared
for (element type, shape, strides, device and alignment, as the library has them, hashable) and the
address, which `address` returns alone. `describe` returns the same in Tessera's terms, and runs
once per kind of arguments. Nothing is copied."""

import ctypes
import sys
from ctypes import addressof, c_char, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p
from functools import partial

from ._abi import TYPE_OF, UsageError

NUMPY = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
         "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16",
         "bfloat16": "bf16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "f8e4m3",
         "float8_e5m2": "f8e5m2"}
NAMES = {ours: theirs for theirs, ours in NUMPY.items()}


byte_at = c_char.from_buffer


def type_name(what, value):
    """Of "f32", numpy.float32, numpy.dtype("float32") or torch.float32: "f32"."""
    name = value
    if not isinstance(value, str):
        named = getattr(value, "name", None) or getattr(value, "__name__", None) or value
        theirs = str(named).rsplit(".", 1)[-1]
        name = NUMPY.get(theirs, theirs)
    if name not in TYPE_OF:
        raise UsageError(f"{what}: no type {name}: {', '.join(TYPE_OF)}")
    return name


class Look:
    """An array in Tessera's words: `strides` in elements, None where it is contiguous."""

    __slots__ = ("type", "dims", "strides", "data", "kind", "ordinal")

    def __init__(self, dtype, dims, strides, data, kind, ordinal):
        if dtype in ("int4", "uint4"):  # of ml_dtypes: a byte an element
            raise UsageError(f"arrays of {dtype} have a byte an element, the language's two in a "
                             f"byte: pack them, and see tessera.view(bytes, \"{dtype[0]}4\")")
        if dtype not in TYPE_OF:
            raise UsageError(f"arrays of {dtype} are not known")
        self.type, self.dims, self.data = dtype, tuple(dims), data or None
        self.strides = None if is_contiguous(self.dims, strides) else tuple(strides)
        self.kind, self.ordinal = kind, ordinal


def as_parameter(look, dtype):
    """Reads bytes as elements of four bits for such a parameter: two per byte, low half first."""
    if dtype in ("i4", "u4") and look.type in ("i8", "u8") and look.dims and look.strides is None:
        look.type, look.dims = dtype, (*look.dims[:-1], 2 * look.dims[-1])
    return look


def is_contiguous(dims, strides):
    if strides is None or 0 in dims:
        return True
    step = 1
    for dim, stride in zip(reversed(dims), reversed(strides)):
        if dim != 1 and stride != step:
            return False
        step *= dim
    return True


def in_elements(strides, size):
    if strides is None:
        return None
    if any(s % size for s in strides):
        raise UsageError("strides that are no whole number of elements")
    return [s // size for s in strides]


class Adapter:
    describes = None  # the address of a C function that describes its arrays, see exchange
    changed = None  # is called with a list of arrays that are written behind their library's back

    def refuse_type(self, cls):
        """Raises an error if no array of this class can be an argument."""

    def refuse(self, a, written):
        """Raises an error if a launch with this array would have an unintended effect."""

    @staticmethod
    def may_record(arrays):
        """False if `refuse` need not check these arrays again; quick."""
        return False

    def current_stream(self, ordinal):
        return None

    def address(self, a):
        return self.look(a)[1]

    def host(self, a):
        """The elements as NumPy's, which has bytes of those that it has no type for; None: it is
        not said how to get them."""
        return None


class Exchange(ctypes.Structure):
    """DLPack's exchange interface, of version 1."""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("older", c_void_p),
                ("allocate", c_void_p), ("managed", c_void_p), ("give", c_void_p),
                ("describe", c_void_p), ("stream", c_void_p)]


ITEMS = tuple.__basicsize__  # where a tuple of CPython has its items


def exchange(kind):
    """The C function with which a library describes its arrays of this class; None: it has
    none, or the interpreter is another one."""
    probe = (kind,)
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or sys.implementation.name != "cpython" or \
            c_void_p.from_address(id(probe) + ITEMS).value != id(kind):
        return None
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.restype = ctypes.c_int
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = b"dlpack_exchange_api"
    if not api.PyCapsule_IsValid(capsule, name):
        return None
    api.PyCapsule_GetPointer.restype = c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found = Exchange.from_address(api.PyCapsule_GetPointer(capsule, name))
    return found.describe if found.major == 1 else None


# ---- NumPy ----

class NumPy(Adapter):
    def __init__(self):
        import numpy
        self.numpy = numpy
        self.types = (numpy.ndarray,)

    def look(self, a):
        try:
            address = addressof(byte_at(a))
        except (TypeError, ValueError, BufferError):  # read-only, strided, empty: the slower way
            address = a.ctypes.data
        return (a.dtype, a.shape, a.strides, address & 15), address

    def address(self, a):
        return addressof(byte_at(a)) if a.nbytes else a.ctypes.data

    def dtype(self, name):
        theirs = NAMES.get(name)
        if theirs is None:
            raise UsageError(f"NumPy has no arrays of {name}")
        if name in ("bf16", "f8e4m3", "f8e5m2"):
            import ml_dtypes
            return self.numpy.dtype(getattr(ml_dtypes, theirs))
        return self.numpy.dtype(theirs)

    def describe(self, a, written):
        if not a.dtype.isnative:
            raise UsageError("an array whose bytes are in the other order: "
                             "a.astype(a.dtype.newbyteorder('=')) turns them")
        if written and not a.flags.writeable:
            raise UsageError("an array that is read-only cannot be written: give a copy")
        return Look(NUMPY.get(a.dtype.name, a.dtype.name), a.shape,
                    in_elements(a.strides, a.dtype.itemsize), a.ctypes.data, "cpu", 0)

    def maker(self, name, dims, like):
        return partial(self.numpy.empty, dims, self.dtype(name))

    def host(self, a):
        return a

    def refuse_type(self, cls):
        masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked and issubclass(cls, masked):
            raise UsageError("a masked array, whose mask no kernel sees: give .filled(value), or "
                             ".data where the mask does not matter")


# ---- torch ----

class Torch(Adapter):
    def __init__(self):
        import torch
        self.torch = torch
        self.types = (torch.Tensor, torch.nn.Parameter)
        self.kind = "hip" if torch.version.hip else "cuda"
        # Of C functions those are taken as they are that a call would only pass on to.
        if hasattr(torch._C, "_cuda_getCurrentRawStream"):
            self.current_stream = torch._C._cuda_getCurrentRawStream
        self.address = torch.Tensor.data_ptr
        self.describes = exchange(torch.Tensor)
        self.grads_on, self.forward = torch.is_grad_enabled, torch.autograd.forward_ad
        self.changed = getattr(torch._C, "_increment_version", self.changed_singly)
        self.names = {getattr(torch, theirs): ours for theirs, ours in NUMPY.items()
                      if hasattr(torch, theirs)}

    def look(self, t):
        try:
            return self.look_at(t)
        except RuntimeError:  # `describe` says what it is
            return ("a tensor without memory",), 0

    def look_at(self, t):
        address = t.data_ptr()
        lies = True if t.is_contiguous() and t.numel() != 1 else (t.stride(), t.is_neg())
        recorded = self.is_recorded(t)  # such are refused: what is prepared is for the others
        return (t.dtype, t.shape, lies, t.get_device(), recorded, address & 15), address

    def may_deceive(self, t):
        """Negative lazily or not, it looks the same to C: such views are of every other number."""
        return t.numel() == 1 or not t.is_contiguous()

    @staticmethod
    def deceives(t):
        return t.is_neg()

    # ---- gradients ----

    def is_recorded(self, t):
        """Would torch record what is done with it, or carry a tangent along? Not in the forward of
        an autograd.Function, nor under torch.no_grad()."""
        return bool(t.requires_grad and self.grads_on()) or \
            (self.forward._current_level >= 0 and self.forward.unpack_dual(t).tangent is not None)

    def may_record(self, tensors):
        for t in tensors:
            if t.requires_grad and self.grads_on():
                return True
        return self.forward._current_level >= 0

    def refuse(self, t, written):
        if not self.is_recorded(t):
            return
        if written:
            leaf = "leaf " if t.is_leaf else ""
            raise UsageError(f"a {leaf}tensor that requires grad is not written to, since its "
                             "gradient would be of what it was before: give its .detach(), or call "
                             "under torch.no_grad()")
        raise UsageError("a tensor that requires grad, or has a tangent. Gradients have calls "
                         "without inout, out=, stream= and views, and none has a tangent: give its "
                         ".detach(), call under torch.no_grad(), or call in the forward of a "
                         "torch.autograd.Function whose backward says what the gradient is")

    @staticmethod
    def changed_singly(tensors):
        """Before torch._C took several."""
        from torch.autograd.graph import increment_version
        for t in tensors:
            increment_version(t)

    def describe(self, t, written):
        if t.layout != self.torch.strided or t.device.type not in ("cpu", "cuda"):
            raise UsageError(f"a {t.layout} tensor on {t.device}: dense ones on a GPU or the CPU "
                             "can be taken")
        if t.is_conj() or t.is_neg():
            raise UsageError("a tensor that is a lazy conjugate or negative: resolve it first")
        try:
            t.data_ptr()
        except RuntimeError:
            raise UsageError("a tensor without memory, as the transforms of torch.func and what "
                             "torch.compile traces have: tessera.torch.operator makes an operator "
                             "of the kernel") from None
        kind = "cpu" if t.device.type == "cpu" else self.kind
        return Look(self.names.get(t.dtype, str(t.dtype)), t.shape, t.stride(), t.data_ptr(), kind,
                    max(t.get_device(), 0))

    def maker(self, name, dims, like):
        theirs = getattr(self.torch, NAMES.get(name, ""), None)
        if theirs is None:
            raise UsageError(f"torch has no tensors of {name}")
        new = partial(self.torch.empty(0, dtype=theirs, device=like.device).new_empty, dims)
        return self.quick_maker(theirs, dims, like, new) or new

    def quick_maker(self, dtype, dims, like, new):
        """What torch's own compiled code makes tensors with; or None. It is no part of torch's
        interface, and may change: what it makes is compared, once. On a GPU it is for the current
        one, which need not be asked where there is no other."""
        guards = getattr(getattr(self.torch._C, "_dynamo", None), "guards", None)
        name = "_empty_strided_cuda" if like.is_cuda else "_empty_strided_cpu"
        make = getattr(guards, name, None)
        current = getattr(self.torch._C, "_cuda_getDevice", None)
        if not make or (like.is_cuda and not current):
            return None
        plain, ordinal = new(), like.get_device()
        strides = plain.stride()
        quick = partial(make, dims, strides, dtype)
        if like.is_cuda and self.torch.cuda.device_count() > 1:
            alone = quick

            def quick():
                return alone() if current() == ordinal else new()
        try:
            made = quick()
        except Exception:  # noqa: BLE001
            return None
        same = all(getattr(made, of) == getattr(plain, of) for of in ("shape", "dtype", "device"))
        return quick if same and made.stride() == strides else None

    def host(self, t):
        t = t.detach().cpu().contiguous()
        torch = self.torch
        names = {1: torch.int8, 2: torch.int16} if t.dtype in (
            torch.bfloat16, getattr(torch, "float8_e4m3fn", None),
            getattr(torch, "float8_e5m2", None)) else {}
        return t.view(names.get(t.element_size(), t.dtype)).numpy()

    def current_stream(self, ordinal):
        return self.torch.cuda.current_stream(ordinal).cuda_stream


# ---- CuPy ----

class CuPy(Adapter):
    def __init__(self):
        import cupy
        self.cupy = cupy
        self.types = (cupy.ndarray,)
        self.kind = "hip" if cupy.cuda.runtime.is_hip else "cuda"

    def look(self, a):
        address = a.data.ptr
        return (a.dtype, a.shape, a.strides, a.device.id, address & 15), address

    def describe(self, a, written):
        return Look(NUMPY.get(a.dtype.name, a.dtype.name), a.shape,
                    in_elements(a.strides, a.dtype.itemsize), a.data.ptr, self.kind, a.device.id)

    def maker(self, name, dims, like):
        empty, dtype, place = self.cupy.empty, NAMES.get(name, name), like.device

        def make():
            with place:
                return empty(dims, dtype)
        return make

    def host(self, a):
        return a.get()

    def current_stream(self, ordinal):
        return self.cupy.cuda.get_current_stream().ptr


# ---- JAX: immutable arrays, on a stream of its own ----

class Jax(Adapter):
    def __init__(self):
        import jax
        self.jax = jax
        self.types = (type(jax.numpy.zeros(())),)

    def refuse_type(self, cls):
        if issubclass(cls, self.jax.core.Tracer):
            raise UsageError("a value that JAX traces, which has no memory: call the kernel "
                             "outside of jit, grad and vmap, or by jax.pure_callback")

    def look(self, a):
        a.block_until_ready()
        address = a.unsafe_buffer_pointer()
        return (a.dtype, a.shape, a.device, address & 15), address

    def describe(self, a, written):
        if written == "given":
            raise UsageError("JAX's arrays do not change: let results be made")
        platform = a.device.platform
        kind = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "hip"}.get(platform)
        if kind is None:
            raise UsageError(f"a JAX array on {platform}")
        return Look(NUMPY.get(a.dtype.name, a.dtype.name), a.shape, None,
                    a.unsafe_buffer_pointer(), kind, 0 if kind == "cpu" else a.device.id)

    def host(self, a):
        import numpy
        return numpy.asarray(a)

    def maker(self, name, dims, like):
        numpy, device = self.jax.numpy, like.device
        dtype = getattr(numpy, NAMES.get(name, name))
        if numpy.empty((), dtype).dtype != numpy.dtype(dtype):
            raise UsageError(f"JAX has {name} only with jax_enable_x64")
        return lambda: self.jax.device_put(numpy.empty(dims, dtype), device)


# ---- any library with DLPack or CUDA's array interface ----

class DLDevice(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32),
                ("dtype", DLDataType), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


DL_TYPES = {(0, b): f"i{b}" for b in (8, 16, 32, 64)}
DL_TYPES.update({(1, b): f"u{b}" for b in (8, 16, 32, 64)})
DL_TYPES.update({(2, b): f"f{b}" for b in (16, 32, 64)})
DL_TYPES.update({(4, 16): "bf16", (6, 8): "bool", (10, 8): "f8e4m3", (12, 8): "f8e5m2"})
DL_KINDS = {1: "cpu", 2: "cuda", 3: "cpu", 10: "hip", 11: "cpu", 13: "cuda"}


def read_capsule(capsule):
    """The DLTensor in a capsule that we do not consume: its owner keeps the memory."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, b"dltensor")
    t = ctypes.cast(address, ctypes.POINTER(DLTensor)).contents
    dtype = DL_TYPES.get((t.dtype.code, t.dtype.bits)) if t.dtype.lanes == 1 else None
    kind = DL_KINDS.get(t.device.type)
    if dtype is None or kind is None:
        raise UsageError(f"DLPack type {t.dtype.code}:{t.dtype.bits} on device {t.device.type} "
                         "is not known")
    dims = t.shape[: t.ndim]
    strides = t.strides[: t.ndim] if t.strides else None
    data = (t.data or 0) + t.byte_offset
    return Look(dtype, dims, strides, data, kind, 0 if kind == "cpu" else t.device.id)


def read_interface(a, written):
    """Describes an array by CUDA's array interface (numba, RAPIDS, …), which does not name the
    device."""
    face = a.__cuda_array_interface__
    try:
        order, code, size = face["typestr"][0], face["typestr"][1], int(face["typestr"][2:])
        shape, (address, fixed) = tuple(face["shape"]), face["data"]
    except (KeyError, IndexError, TypeError, ValueError):
        raise UsageError("its __cuda_array_interface__ does not say what it has to") from None
    if face.get("mask") is not None:
        raise UsageError("an array with a mask, which no kernel sees")
    if written and fixed:
        raise UsageError("an array that is read-only cannot be written: give a copy")
    name = {"f": "f", "i": "i", "u": "u", "b": "bool"}.get(code)
    if name is None or order == ">":
        raise UsageError(f"elements {face['typestr']} are not known")
    dtype = name if name == "bool" else f"{name}{8 * size}"
    ordinal = a.__dlpack_device__()[1] if hasattr(a, "__dlpack_device__") else 0
    return Look(dtype, shape, in_elements(face.get("strides"), size), address, "cuda", ordinal)


class Foreign(Adapter):
    """Looked at anew in each call."""

    def refuse(self, a, written):
        if getattr(a, "requires_grad", None) is True:
            raise UsageError("an array that requires grad, and a kernel has no gradient: detach it")

    def read(self, a, written=None):
        if hasattr(a, "__cuda_array_interface__"):
            return read_interface(a, written)
        if a.__dlpack_device__()[0] in (2, 10, 13):  # 1: CUDA's default stream, on which we go
            return read_capsule(a.__dlpack__(stream=1 if a.__dlpack_device__()[0] != 10 else 0))
        return read_capsule(a.__dlpack__())

    def look(self, a):
        seen = self.read(a)
        address = seen.data or 0
        fixed = hasattr(a, "__cuda_array_interface__") and a.__cuda_array_interface__["data"][1]
        grad = getattr(a, "requires_grad", None) is True
        return (fixed, grad, seen.type, seen.dims, seen.strides and tuple(seen.strides), seen.kind,
                seen.ordinal, address & 15), address

    def describe(self, a, written):
        return self.read(a, written)

    def maker(self, name, dims, like):
        if not hasattr(like, "__array_namespace__"):
            raise UsageError(f"{type(like).__name__} does not say how to make arrays: give out=")
        space = like.__array_namespace__()
        dtype = getattr(space, NAMES.get(name, name))
        return lambda: space.empty(dims, dtype=dtype, device=like.device)


# ---- bytes that are of another type ----

class View:
    """An array of somebody's whose memory holds elements of `type`, in this shape."""

    def __init__(self, array, dtype, dims):
        self.array, self.type, self.dims = array, dtype, dims

    @property
    def flags(self):
        return getattr(self.array, "flags", None)


class Views(Adapter):
    """Views use the adapters of their arrays, which also make results and name streams."""

    def look(self, v):
        seen, address = find_look(v.array)(v.array)
        return (v.type, v.dims, seen), address

    def refuse(self, v, written):
        adapter_of(v.array).refuse(v.array, written)

    def describe(self, v, written):
        there = adapter_of(v.array).describe(v.array, written)
        return Look(v.type, v.dims, None, there.data, there.kind, there.ordinal)


def view(array, dtype, shape=None):
    """The memory of a contiguous array as elements of another type: `i4` and `u4`, two in a byte,
    of bytes; `bf16` of 16 bits where NumPy has none. shape: else that of the array, with the last
    axis as long as its bytes make it."""
    dtype = type_name("a view", dtype)
    adapter = adapter_of(array)
    if adapter is None:
        raise TypeError(f"a view is of an array, not of {words_of(array)}")
    look = adapter.describe(array, None)
    if look.strides is not None:
        raise UsageError("a view is of a contiguous array")
    bits, ours = bits_of(look.type), bits_of(dtype)
    if shape is None:
        if not look.dims or look.dims[-1] * bits % ours:
            raise UsageError(f"an axis of {look.dims[-1] if look.dims else 1} {look.type} is no "
                             f"whole number of {dtype}: give a shape")
        shape = (*look.dims[:-1], look.dims[-1] * bits // ours)
    shape = dims_of(shape if hasattr(shape, "__iter__") else (shape,))
    have, want = product(look.dims) * bits // 8, (product(shape) * ours + 7) // 8
    if want != have:
        raise UsageError(f"{dtype} of shape {shape} take {want} bytes, the array has {have}")
    return View(array, dtype, shape)


def dims_of(shape):
    """Of an array that the caller describes."""
    from ._signature import whole_number
    dims = tuple(whole_number("a size of a shape", n) for n in shape)
    if any(n < 0 for n in dims):
        raise UsageError(f"the shape {dims} has a negative size")
    return dims


def bits_of(dtype):
    """Of one element: what is behind the letters, "bf16"; "f8e4m3" has its 8 before more."""
    if dtype == "bool" or dtype.startswith("f8"):
        return 8
    return int(dtype.lstrip("bfiu"))


def product(dims):
    result = 1
    for n in dims:
        result *= n
    return result


# ---- finding them ----

MODULES = {"numpy": NumPy, "torch": Torch, "cupy": CuPy, "jax": Jax, "jaxlib": Jax}
look_of = {bool: None, int: None, float: None}  # by type, how to look at one; None: a number
_adapters = {bool: None, int: None, float: None}
_made: dict = {}


def find_look(value):
    cls = type(value)
    if cls not in look_of:
        adapter = adapter_of(value)
        look_of[cls] = adapter.look if adapter else None
    return look_of[cls]


def adapter_of(value):
    """None: a number."""
    cls = type(value)
    if cls in _adapters:
        return _adapters[cls]
    found = _made.setdefault(Views, Views()) if cls is View else None
    for base in cls.__mro__:
        made = MODULES.get(base.__module__.split(".")[0])
        if made and base.__module__.split(".")[0] in sys.modules:
            adapter = _made.setdefault(made, None) or made()
            _made[made] = adapter
            adapter.refuse_type(cls)
            if issubclass(cls, adapter.types):
                found = adapter
                break
    if found is None and (hasattr(value, "__dlpack__") or
                          hasattr(value, "__cuda_array_interface__")):
        found = _made.setdefault(Foreign, Foreign())
    if found is None and not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{cls.__name__} is no array: NumPy's, torch's, CuPy's, JAX's and what "
                        "speaks DLPack are taken")
    _adapters[cls] = found
    return found


def require_grad(values):
    """Does a tensor of torch's among arguments that have been looked at?"""
    return any(isinstance(_adapters.get(type(value)), Torch) and value.requires_grad
               for value in values)


def is_number(value):
    """What is no number at first sight may be one, as NumPy's are; an array never is."""
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        return False
    try:
        return adapter_of(value) is None
    except UsageError:  # an array that is refused
        return False


def words_of(value):
    """For messages."""
    if not hasattr(value, "shape") or is_number(value):
        return f"a {type(value).__name__}"
    shape = tuple(value.shape)
    return f"an array of shape {shape}" + ("" if shape else ": give its .item()")


def watchers_of(arrays):
    """[(function, its arrays)]: the functions by which libraries learn that arrays were written."""
    written = {}
    for array in arrays:
        array = array.array if type(array) is View else array
        changed = adapter_of(array).changed
        if changed is not None:
            written.setdefault(changed, []).append(array)
    return list(written.items())


def note_changes(arrays):
    for changed, of in watchers_of(arrays):
        changed(of)


def is_read_only(array):
    """Says so only of what has flags, as NumPy's arrays do: others refuse by themselves."""
    return getattr(getattr(array, "flags", None), "writeable", True) is False
