#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""activations.py TESSERA FOLDER: activations, and what takes numbers apart, against NumPy.

All go through the CPU in one kernel an element type; `--check` compares with the interpreter.
"""

import math
import pathlib
import subprocess
import sys

import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


ACTIVATIONS = {
    "relu(x)": lambda x, y: np.maximum(x, 0),
    "relu6(x)": lambda x, y: np.clip(x, 0, 6),
    "leaky_relu(x)": lambda x, y: np.where(x >= 0, x, 0.01 * x),
    "leaky_relu(x, 0.2)": lambda x, y: np.where(x >= 0, x, 0.2 * x),
    "prelu(x, y)": lambda x, y: np.where(x >= 0, x, y * x),
    "rrelu(x)": lambda x, y: np.where(x >= 0, x, (1 / 8 + 1 / 3) / 2 * x),
    "elu(x)": lambda x, y: elu(x),
    "elu(x, alpha=0.5)": lambda x, y: elu(x, 0.5),
    "celu(x, 2.0)": lambda x, y: np.maximum(x, 0) + np.minimum(2 * np.expm1(x / 2), 0),
    "selu(x)": lambda x, y: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "hardtanh(x)": lambda x, y: np.clip(x, -1, 1),
    "hardtanh(x, -2.0, 3.0)": lambda x, y: np.clip(x, -2, 3),
    "hardsigmoid(x)": lambda x, y: np.clip(x + 3, 0, 6) / 6,
    "hardswish(x)": lambda x, y: x * np.clip(x + 3, 0, 6) / 6,
    "hardshrink(x)": lambda x, y: np.where(np.abs(x) <= 0.5, 0, x),
    "softshrink(x, 0.25)": lambda x, y: np.sign(x) * np.maximum(np.abs(x) - 0.25, 0),
    "tanhshrink(x)": lambda x, y: x - np.tanh(x),
    "threshold(x, 0.5, -3.0)": lambda x, y: np.where(x <= 0.5, -3, x),
    "softsign(x)": lambda x, y: x / (1 + np.abs(x)),
    "softplus(x)": lambda x, y: softplus(x),
    "softplus(x, beta=2.0)": lambda x, y: softplus(2 * x) / 2,
    "logsigmoid(x)": lambda x, y: -softplus(-x),
    "silu(x)": lambda x, y: x * sigmoid(x),
    "mish(x)": lambda x, y: x * np.tanh(softplus(x)),
    "gelu(x)": lambda x, y: gelu(x),
    "gelu_tanh(x)": lambda x, y: gelu_tanh(x),
    "quick_gelu(x)": lambda x, y: x * sigmoid(1.702 * x),
    "glu(x, y)": lambda x, y: x * sigmoid(y),
    "swiglu(x, y)": lambda x, y: x * sigmoid(x) * y,
    "geglu(x, y)": lambda x, y: gelu(x) * y,
    "reglu(x, y)": lambda x, y: np.maximum(x, 0) * y,
}
NUMBERS = {
    "fract(x)": lambda x, y: x - np.trunc(x),
    "sign(x)": lambda x, y: np.sign(x),
    "clamp(x, -1.5, 2)": lambda x, y: np.clip(x, -1.5, 2),
    "lerp(x, y, 0.25)": lambda x, y: x + 0.25 * (y - x),
    "degrees(x)": lambda x, y: np.degrees(x),
    "radians(x)": lambda x, y: np.radians(x),
    "mantissa(x)": lambda x, y: np.frexp(x)[0],
    "f32(exponent(x))": lambda x, y: np.frexp(x)[1],
    "ldexp(x, exponent(y))": lambda x, y: np.ldexp(x, np.frexp(y)[1]),
    "nextafter(x, y)": lambda x, y: x,
    "where(signbit(x), 1.0, 0.0)": lambda x, y: np.signbit(x),
    "where(isfinite(x) & (isinf(x) == false), 1.0, 0.0)": lambda x, y: np.isfinite(x),
    "logaddexp(x, y)": lambda x, y: np.logaddexp(x, y),
    "sinc(x)": lambda x, y: np.sinc(x),
    "xlogy(x, abs(y))": lambda x, y: np.where(x == 0, 0, x * np.log(np.abs(y))),
    "logit(0.1 + 0.8 * sigmoid(x))": lambda x, y: -np.log(1 / (0.1 + 0.8 * sigmoid(x)) - 1),
}




def bits(count, width):
    """count(bits of trunc(1024 x) as text of `width` digits), element by element."""
    def whole(x, y):
        least = 0 if width == 32 else -2**63
        texts = [format(max(int(v * 1024), least) % 2**width, f"0{width}b") for v in x]
        return np.array([count(text) for text in texts], np.float64)
    return whole


INTEGERS = {
    "f32(popcount(u32(x * 1024)))": bits(lambda text: text.count("1"), 32),
    "f32(popcount(i64(x * 1024)))": bits(lambda text: text.count("1"), 64),
    "f32(clz(u32(x * 1024)))": bits(lambda text: 32 - len(text.lstrip("0")), 32),
    "f32(clz(i64(x * 1024)))": bits(lambda text: 64 - len(text.lstrip("0")), 64),
    "f32(ctz(u32(x * 1024)))": bits(lambda text: 32 - len(text.rstrip("0")), 32),
    "f32(ctz(i64(x * 1024)))": bits(lambda text: 64 - len(text.rstrip("0")), 64),
}


def run(tessera, folder, name, functions, dtype, bound):
    x = np.concatenate([np.linspace(-12, 12, 997), [0.0, 0.5, -0.5, 6.0, -3.0, 1.0, -1.0]])
    y = np.random.default_rng(1).normal(size=x.size)
    single = [values.astype(np.float32) for values in (x, y)]
    if dtype == "bf16":                    # values that bf16 holds, cast inside
        single = [(v.view(np.uint32) & 0xFFFF0000).view(np.float32) for v in single]
    outs = ", ".join(f"o{i}: f32[N]" for i in range(len(functions)))
    body = "\n".join(f"    o{i} = {text}" for i, text in enumerate(functions))
    source = folder / f"{name}.tile"
    source.write_text(f"kernel k(u: f32[N], v: f32[N]) -> ({outs}) {{\n"
                      f"    let x = {dtype}(u)\n    let y = {dtype}(v)\n{body}\n}}\n")
    np.save(folder / "x.npy", single[0])
    np.save(folder / "y.npy", single[1])
    command = [tessera, "run", str(source), f"u={folder}/x.npy", f"v={folder}/y.npy",
               "--device", "cpu", "--check"]
    for i in range(len(functions)):
        command += ["-o", f"o{i}={folder}/o{i}.npy"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wide = [v.astype(np.float64) for v in single]
    bad = 0
    for i, (text, want) in enumerate(functions.items()):
        got = np.load(folder / f"o{i}.npy").astype(np.float64)
        expect = np.asarray(want(*wide), np.float64)
        off = np.abs(got - expect) / (1 + np.abs(expect) + np.abs(wide[0]))
        if not (off <= bound).all():
            at = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
            print(f"{text} of {wide[0][at]:g}, {wide[1][at]:g}: {got[at]:g}, not {expect[at]:g}")
            bad += 1
    return bad


def main():
    tessera, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    bad = run(tessera, folder, "activations", ACTIVATIONS, "f32", 3e-7)
    bad += run(tessera, folder, "halves", ACTIVATIONS, "bf16", 3e-7)
    bad += run(tessera, folder, "numbers", NUMBERS, "f32", 3e-7)
    bad += run(tessera, folder, "integers", INTEGERS, "f32", 0)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
