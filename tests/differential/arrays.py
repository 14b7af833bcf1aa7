# SPDX-License-Identifier: Apache-2.0
"""Arrays in the element types of the four programs, with NumPy alone.

bf16 is not one of NumPy's types: it is held as float32 whose low 16 bits are zero, and its files
are what ml_dtypes writes: two-byte items with the type '<V2'.
"""

import struct

import numpy as np

EPSILON = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}  # half a unit in the last place


def round_to(dtype, values):
    """The values, rounded to dtype (to nearest even), as float32 or float16."""
    values = np.asarray(values, dtype=np.float32)
    if dtype == "f32":
        return values
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    even = (bits >> 16) & 1
    rounded = ((bits + 0x7FFF + even) & 0xFFFF0000).astype(np.uint32)
    rounded = np.where(np.isnan(values), np.uint32(0x7FC00000), rounded)
    return np.ascontiguousarray(rounded).view(np.float32).reshape(values.shape)


def save(path, dtype, values):
    if dtype != "bf16":
        np.save(path, np.ascontiguousarray(values))
        return
    bits = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)
    header = f"{{'descr': '<V2', 'fortran_order': False, 'shape': {tuple(values.shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1"))
        file.write(bits.tobytes())


STYLES = ("fortran", "pitch", "step", "back", "turned", "column", "begins")


def save_laid(path, dtype, values, style):
    """Saves the values among others, or in another order; what a command line calls them. What lies
    between is NaN, or a number that no index is."""
    def among(shape):
        dead = {"f": np.nan, "b": True}.get(values.dtype.kind, 101)
        return np.full(shape, dead, values.dtype)

    rank, shape, part = values.ndim, values.shape, None
    if style == "fortran" and rank > 1 and dtype != "bf16":
        np.save(path, np.asfortranarray(values))
        return str(path)
    if style == "turned" and rank > 1:
        whole, part = values.T, ".T"
    elif style == "back":
        part = "[" + ", ".join(["::-1"] * rank) + "]"
        whole = values[(slice(None, None, -1),) * rank]
    elif style == "step":
        whole = among([2 * n + 1 for n in shape])
        whole[tuple(slice(1, None, 2) for _ in shape)] = values
        part = "[" + ", ".join(["1::2"] * rank) + "]"
    elif style == "column" and rank > 1:  # columns at a distance
        whole = among([*shape[1:], shape[0] + 3])
        whole[..., : shape[0]] = np.moveaxis(values, 0, -1)
        part = f"[{', '.join([':'] * (rank - 1))}, :{shape[0]}].T"
        part = part if rank == 2 else None
    elif style == "begins":  # one element before, so that nothing is aligned
        whole = among([n + 1 for n in shape])
        whole[tuple(slice(1, None) for _ in shape)] = values
        part = "[" + ", ".join(["1:"] * rank) + "]"
    if part is None:  # rows at a distance that vectors divide
        whole = among([*shape[:-1], shape[-1] + 8 - shape[-1] % 8 + 8])
        whole[..., : shape[-1]] = values
        part = f"[{', '.join([':'] * (rank - 1) + [f':{shape[-1]}'])}]"
    save(path, dtype, whole)
    return str(path) + part


def load(path):
    """As float64; two-byte items without a type of NumPy's are bf16."""
    values = np.load(path)
    if values.dtype.kind == "V" and values.dtype.itemsize == 2:
        bits = values.view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def random(generator, dtype, shape, scale=1):
    return round_to(dtype, generator.standard_normal(shape, dtype=np.float32) * scale)
