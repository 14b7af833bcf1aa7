# SPDX-License-Identifier: Apache-2.0
import contextlib
import types

_current_level = -1


@contextlib.contextmanager
def dual_level():
    global _current_level
    _current_level += 1
    try:
        yield
    finally:
        _current_level -= 1


def make_dual(tensor, tangent):
    made = tensor.detach()
    made.tangent = tangent
    return made


def unpack_dual(tensor):
    return types.SimpleNamespace(primal=tensor, tangent=getattr(tensor, "tangent", None))
