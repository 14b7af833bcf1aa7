# SPDX-License-Identifier: Apache-2.0
"""As much of torch as the package asks tensors of the CPU for, on NumPy: where torch is not
installed, autograd.py runs with this. What the tests say of it they say of torch, too."""

import contextlib
import types

import numpy as np

from torch import autograd, nn  # noqa: F401

__version__ = "fake"
strided = "torch.strided"
version = types.SimpleNamespace(hip=None)
_C = types.SimpleNamespace()
_grads = [True]


class dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


float32, int64 = dtype("float32"), dtype("int64")


class Tensor:
    layout, device = strided, types.SimpleNamespace(type="cpu")
    is_cuda = False

    def __init__(self, array, requires_grad=False, counter=None, is_leaf=True):
        self.array, self.requires_grad, self.is_leaf = array, requires_grad, is_leaf
        self.counter = counter if counter is not None else [0]

    @property
    def _version(self):
        return self.counter[0]

    @property
    def dtype(self):
        return {"float32": float32, "int64": int64}[self.array.dtype.name]

    @property
    def shape(self):
        return self.array.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def is_floating_point(self):
        return self.array.dtype.kind == "f"

    def numel(self):
        return self.array.size

    def get_device(self):
        return -1

    def is_neg(self):
        return False

    is_conj = is_neg

    def detach(self):
        return Tensor(self.array, counter=self.counter)

    def requires_grad_(self, wanted=True):
        self.requires_grad = wanted
        return self

    def new_empty(self, dims):
        return Tensor(np.empty(dims, self.array.dtype))

    def tolist(self):
        return self.array.tolist()

    def __getitem__(self, key):
        return Tensor(self.array[key], self.requires_grad, self.counter, not self.requires_grad)

    def __mul__(self, other):
        return Tensor(self.array * other, self.requires_grad and is_grad_enabled(),
                      is_leaf=not (self.requires_grad and is_grad_enabled()))


def ones(n, requires_grad=False):
    return Tensor(np.ones(n, np.float32), requires_grad)


def empty(n, dtype=float32, device=None):
    return Tensor(np.empty(n, dtype.name))


def is_grad_enabled():
    return _grads[-1]


@contextlib.contextmanager
def no_grad():
    _grads.append(False)
    try:
        yield
    finally:
        _grads.pop()


nn.begin(Tensor)
