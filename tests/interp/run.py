# SPDX-License-Identifier: Apache-2.0
"""One run of tessera-interp; element types as bytes and as Python's numbers."""

import math
import pathlib
import struct
import subprocess
import tempfile
from fractions import Fraction

INTS = {"bool": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32,
        "u64": 64, "i4": 4, "u4": 4}
# places after the point, least exponent, greatest number
FLOATS = {"f16": (10, -14, 65504.0), "bf16": (7, -126, (2 - 2.0**-7) * 2.0**127),
          "f32": (23, -126, (2 - 2.0**-23) * 2.0**127), "f64": (52, -1022, 1.7976931348623157e308),
          "f8e4m3": (3, -6, 448.0), "f8e5m2": (2, -14, 57344.0)}
SATURATES = {"f8e4m3", "f8e5m2"}
TYPES = [*INTS, *FLOATS]


class Fault(Exception):
    """What the interpreter says that the program may not do."""


def is_float(dtype):
    return dtype in FLOATS


def is_signed(dtype):
    return dtype[0] == "i"


def limits(dtype):
    if dtype == "bool":
        return 0, 1
    bits = INTS[dtype]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def wrap(dtype, value):
    if dtype == "bool":
        return int(value != 0)
    low = value & ((1 << INTS[dtype]) - 1)
    return low - (1 << INTS[dtype]) if is_signed(dtype) and low >> (INTS[dtype] - 1) else low


def round_to(dtype, value, negative=False):
    """A Fraction, to nearest even, as a float; `negative`: the sign of a zero."""
    places, least, greatest = FLOATS[dtype]
    magnitude = abs(value)
    if magnitude == 0:
        return -0.0 if negative else 0.0
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = max(guess, least)
    while exponent > least and magnitude < Fraction(2) ** exponent:
        exponent -= 1
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - places)
    rounded = round(magnitude / unit) * unit  # Python's round is to even
    if rounded > Fraction(greatest):
        result = greatest if dtype in SATURATES else math.inf
    else:
        result = float(rounded)
    return -result if value < 0 else result


def round_float(dtype, value):
    if math.isnan(value):
        return value
    if math.isinf(value):
        return math.copysign(FLOATS[dtype][2] if dtype in SATURATES else math.inf, value)
    return round_to(dtype, Fraction(value), math.copysign(1, value) < 0)


# ---- bytes ----

def small_float(dtype, bits):
    """Of a type of up to 16 bits."""
    places, least, greatest = FLOATS[dtype]
    width = 16 if "16" in dtype else 8
    sign = -1.0 if bits >> (width - 1) else 1.0
    magnitude = bits & ((1 << (width - 1)) - 1)
    exponent, mantissa = magnitude >> places, magnitude & ((1 << places) - 1)
    value = mantissa * 2.0 ** (least - places)
    if exponent:
        value = (mantissa + (1 << places)) * 2.0 ** (least + exponent - 1 - places)
    if value > greatest:
        value = math.inf if mantissa == 0 and dtype != "f8e4m3" else math.nan
    return sign * value


SMALL = {dtype: [small_float(dtype, bits) for bits in range(1 << (16 if "16" in dtype else 8))]
         for dtype in ("f16", "bf16", "f8e4m3", "f8e5m2")}
BITS = {dtype: {(v, math.copysign(1, v)): i for i, v in reversed([*enumerate(values)])}
        for dtype, values in SMALL.items()}
CODES = {"bool": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
         "u32": "I", "u64": "Q", "f32": "f", "f64": "d", "f16": "H", "bf16": "H", "f8e4m3": "B",
         "f8e5m2": "B"}
NANS = {"f16": 0x7e00, "bf16": 0x7fc0, "f8e4m3": 0x7f, "f8e5m2": 0x7f}


def encode(dtype, values):
    if dtype in ("i4", "u4"):
        halves = [int(v) & 15 for v in values] + [0] * (len(values) % 2)
        return bytes(halves[i] | halves[i + 1] << 4 for i in range(0, len(halves), 2))
    if dtype in SMALL:
        values = [NANS[dtype] if math.isnan(v) else BITS[dtype][float(v), math.copysign(1, v)]
                  for v in values]
    return struct.pack(f"<{len(values)}{CODES[dtype]}", *values)


def decode(dtype, data):
    if dtype in ("i4", "u4"):
        return [wrap(dtype, byte >> shift & 15) for byte in data for shift in (0, 4)]
    values = struct.unpack(f"<{len(data) // struct.calcsize(CODES[dtype])}{CODES[dtype]}", data)
    return [SMALL[dtype][v] for v in values] if dtype in SMALL else list(values)


def same(dtype, got, want):
    if not is_float(dtype):
        return got == want
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    return got == want and math.copysign(1, got) == math.copysign(1, want)


def show(value):
    return value.hex() if isinstance(value, float) else str(value)


def difference(dtype, got, want, names=str):
    """What is wrong with a list of elements, or None."""
    for i, expected in enumerate(want):
        if not same(dtype, got[i], expected):
            return f"{names(i)} is {show(got[i])}, not {show(expected)}"
    return None


# ---- runs ----

class Runner:
    """In a folder of its own. Outputs are lists, in the order of memory."""

    def __init__(self, tool):
        self.tool = tool
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.notes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def run(self, text, inputs, outputs, sizes=None, seed=0, bounds=False, scalars=None):
        """inputs: {name: (dtype, elements)}, outputs: {name: dtype}."""
        (self.path / "f.ir").write_text(text)
        for name, (dtype, values) in inputs.items():
            (self.path / f"{name}.in").write_bytes(encode(dtype, values))
        command = [self.tool, "--seed", str(seed), *(["--bounds"] if bounds else [])]
        if sizes:
            command += ["--size", ",".join(f"{k}={v}" for k, v in sizes.items())]
        command += [self.path / "f.ir", self.path]
        command += [f"{name}={value}" for name, value in (scalars or {}).items()]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 5:
            raise Fault(done.stderr.strip())
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[:2000]}"
        self.notes = done.stdout.splitlines()
        return {name: decode(dtype, (self.path / f"{name}.out").read_bytes())
                for name, dtype in outputs.items()}

    def bounds(self, name):
        return decode("f64", (self.path / f"{name}.bound").read_bytes())
