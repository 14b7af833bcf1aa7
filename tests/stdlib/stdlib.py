#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of the standard library against NumPy, in float64.

A row is the function's call, what it is made of and the same in NumPy; each becomes a kernel and is
run with the interpreter's check, on sizes with tails. Prints `N passed, N failed`."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402
import suite  # noqa: E402

ARGUMENTS = {"x": "f32[M, N]", "y": "f32[M, N]", "z": "f32[M, N]", "w": "f32[N]", "b": "f32[N]",
             "p": "f32[M, N]", "q": "f32[M, N]", "s": "f32[M, N]", "v": "f32[N]", "t": "i64[M]",
             "g": "f32[B, L, 8]", "c": "f32[8]"}
SIZES = [{"M": 1, "N": 1, "B": 1, "L": 1}, {"M": 5, "N": 67, "B": 2, "L": 3}]


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axis=-1):
    m = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=axis, keepdims=True)) + m


def normal(x, axis=-1, eps=1e-5):
    d = x - x.mean(axis=axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=axis, keepdims=True) + eps)


def grouped(x, groups):
    g = x.reshape(*x.shape[:2], groups, -1)
    return normal(g, (1, 3)).reshape(x.shape)


def norm(x):
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


def picked(x, t):
    return x[np.arange(len(t)), t]


# call, type of the result, NumPy, tolerance relative to 1 + |value|
ROWS = [
    ("float_of(bits_of(x))", "f32[M, N]", lambda x: x, 0),
    ("f32(bits_of(x) >> 31)", "f32[M, N]", lambda x: np.signbit(x).astype(float), 0),
    ("softmax(x)", "f32[M, N]", lambda x: softmax(x), 1e-5),
    ("softmax(x, axis=0)", "f32[M, N]", lambda x: softmax(x, 0), 1e-5),
    ("softmax_reference(where(x > 0, x, -inf))", "f32[M, N]", lambda x: np.maximum(x, 0), 0),
    ("logsumexp(x)", "f32[M, 1]", lambda x: logsumexp(x), 1e-5),
    ("log_softmax(x)", "f32[M, N]", lambda x: x - logsumexp(x), 1e-5),
    ("moments(x)", "f32[M, 1]", None, 0),
    ("variance(x)", "f32[M, 1]", lambda x: x.var(axis=1, keepdims=True), 1e-5),
    ("variance(fma(x, 1.0, 4096.0), axis=0)", "f32[1, N]",
     lambda x: (x + np.float32(4096)).astype(np.float32).astype(float).var(axis=0, keepdims=True),
     1e-6),
    ("variance(x, axis=0, correction=-1)", "f32[1, N]",
     lambda x: x.var(axis=0, keepdims=True) * len(x) / (len(x) + 1), 1e-5),
    ("standard_deviation(x)", "f32[M, 1]", lambda x: x.std(axis=1, keepdims=True), 1e-5),
    ("layer_norm(x, w, b)", "f32[M, N]", lambda x, w, b: normal(x) * w + b, 1e-4),
    ("rms_norm(x, w)", "f32[M, N]",
     lambda x, w: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * w, 1e-5),
    ("l2_normalize(x)", "f32[M, N]", lambda x: x / norm(x), 1e-5),
    ("batch_norm(x, w, v, b, b)", "f32[M, N]",
     lambda x, w, v, b: (x - w) / np.sqrt(v + 1e-5) * b + b, 1e-3),
    ("group_norm(g, c, c, groups=2)", "f32[B, L, 8]", lambda g, c: grouped(g, 2) * c + c, 1e-4),
    ("instance_norm(g, c, c)", "f32[B, L, 8]", lambda g, c: normal(g, 1) * c + c, 1e-4),
    ("mse(x, y)", "f32[M, N]", lambda x, y: (x - y) ** 2, 1e-6),
    ("l1(x, y)", "f32[M, N]", lambda x, y: np.abs(x - y), 1e-6),
    ("smooth_l1(x, y, 0.5)", "f32[M, N]",
     lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25), 1e-6),
    ("huber(x, y, 0.5)", "f32[M, N]",
     lambda x, y: np.where(abs(x - y) < 0.5, 0.5 * (x - y) ** 2, 0.5 * (abs(x - y) - 0.25)), 1e-6),
    ("cross_entropy(x, t)", "f32[M]", lambda x, t: -picked(x - logsumexp(x), t), 1e-5),
    ("nll(x, t)", "f32[M]", lambda x, t: -picked(x, t), 0),
    ("binary_cross_entropy(p, q)", "f32[M, N]",
     lambda p, q: -(q * np.log(p) + (1 - q) * np.log(1 - p)), 1e-5),
    ("binary_cross_entropy_logits(x, q)", "f32[M, N]",
     lambda x, q: np.maximum(x, 0) - x * q + np.log1p(np.exp(-abs(x))), 1e-5),
    ("kl_div(x, q)", "f32[M, N]", lambda x, q: q * (np.log(q) - x), 1e-5),
    ("hinge(x, s)", "f32[M, N]", lambda x, s: np.maximum(1 - x * s, 0), 1e-6),
    ("soft_margin(x, s)", "f32[M, N]", lambda x, s: np.log1p(np.exp(-x * s)), 1e-5),
    ("poisson_nll(x, q)", "f32[M, N]", lambda x, q: np.exp(x) - q * x, 1e-5),
    ("cosine_similarity(x, y)", "f32[M, 1]",
     lambda x, y: (x * y).sum(axis=1, keepdims=True) / (norm(x) * norm(y)), 1e-5),
    ("triplet(x, y, z)", "f32[M, 1]",
     lambda x, y, z: np.maximum(norm(x - y) - norm(x - z) + 1, 0), 1e-5),
]


def windows(x, w, axes, stride, pad, dilation=1):
    """Convolution, channels last: x [B, …, C], w [O, …, C], by its definition."""
    x = np.pad(x, [(0, 0)] + [(pad, pad)] * axes + [(0, 0)])
    taps = w.shape[1:-1]
    out = [(n - dilation * (t - 1) - 1) // stride + 1 for n, t in zip(x.shape[1:-1], taps)]
    y = np.zeros((x.shape[0], *out, w.shape[0]))
    for tap in np.ndindex(*taps):
        at = tuple(slice(t * dilation, t * dilation + stride * (n - 1) + 1, stride)
                   for t, n in zip(tap, out))
        y += x[(slice(None), *at)] @ w[(slice(None), *tap)].T
    return y


def transposed(x, w, axes, stride, pad):
    full = [(n - 1) * stride + t for n, t in zip(x.shape[1:-1], w.shape[1:-1])]
    y = np.zeros((x.shape[0], *full, w.shape[0]))
    for tap in np.ndindex(*w.shape[1:-1]):
        at = tuple(slice(t, t + stride * (n - 1) + 1, stride) for t, n in zip(tap, x.shape[1:-1]))
        y[(slice(None), *at)] += x @ w[(slice(None), *tap)].T
    return y[(slice(None), *[slice(pad, n - pad) for n in full])]


def pooled(x, axes, fold, size, stride, pad, outside):
    x = np.pad(x, [(0, 0)] + [(pad, pad)] * axes + [(0, 0)], constant_values=outside)
    out = [(n - size) // stride + 1 for n in x.shape[1:-1]]
    parts = [x[(slice(None), *[slice(t, t + stride * (n - 1) + 1, stride)
                               for t, n in zip(tap, out)])]
             for tap in np.ndindex(*[size] * axes)]
    return fold(parts, axis=0)


# call, extents of its arguments, of its result, NumPy
WINDOWS = [
    ("conv1d(x, w, stride=2, pad=1)", {"x": (2, 9, 3), "w": (4, 3, 3)}, (2, 5, 4),
     lambda x, w: windows(x, w, 1, 2, 1)),
    ("conv1d(x, w, dilation=2)", {"x": (2, 9, 3), "w": (4, 3, 3)}, (2, 5, 4),
     lambda x, w: windows(x, w, 1, 1, 0, 2)),
    ("conv2d(x, w, stride=2, pad=1)", {"x": (2, 9, 7, 3), "w": (4, 3, 3, 3)}, (2, 5, 4, 4),
     lambda x, w: windows(x, w, 2, 2, 1)),
    ("conv3d(x, w, pad=1)", {"x": (1, 4, 5, 6, 2), "w": (3, 3, 3, 3, 2)}, (1, 4, 5, 6, 3),
     lambda x, w: windows(x, w, 3, 1, 1)),
    ("grouped_conv2d(x, w, pad=1)", {"x": (2, 5, 6, 2, 3), "w": (2, 4, 3, 3, 3)}, (2, 5, 6, 2, 4),
     lambda x, w: np.stack([windows(x[:, :, :, g], w[g], 2, 1, 1) for g in range(2)], axis=3)),
    ("depthwise_conv2d(x, w, pad=1)", {"x": (2, 5, 6, 4), "w": (3, 3, 4)}, (2, 5, 6, 4),
     lambda x, w: np.concatenate([windows(x[..., c:c + 1], w[None, ..., c:c + 1], 2, 1, 1)
                                  for c in range(4)], axis=3)),
    ("conv_transpose1d(x, w, stride=2)", {"x": (2, 5, 3), "w": (4, 3, 3)}, (2, 11, 4),
     lambda x, w: transposed(x, w, 1, 2, 0)),
    ("conv_transpose2d(x, w, stride=2, pad=1)", {"x": (2, 5, 4, 3), "w": (4, 3, 3, 3)},
     (2, 9, 7, 4), lambda x, w: transposed(x, w, 2, 2, 1)),
    ("conv_transpose1d(x, w, stride=3)", {"x": (2, 5, 3), "w": (4, 2, 3)}, (2, 14, 4),
     lambda x, w: transposed(x, w, 1, 3, 0)),
    ("conv_transpose2d(x, w, stride=3, pad=2)", {"x": (2, 5, 4, 3), "w": (4, 4, 7, 3)},
     (2, 12, 12, 4), lambda x, w: transposed(x, w, 2, 3, 2)),
    ("conv_transpose2d(x, w)", {"x": (2, 5, 4, 3), "w": (4, 3, 2, 3)}, (2, 7, 5, 4),
     lambda x, w: transposed(x, w, 2, 1, 0)),
    ("max_pool1d(x, size=3, stride=2, pad=1)", {"x": (2, 9, 3)}, (2, 5, 3),
     lambda x: pooled(x, 1, np.max, 3, 2, 1, -np.inf)),
    ("max_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 4, 3, 3),
     lambda x: pooled(x, 2, np.max, 2, 2, 0, -np.inf)),
    ("avg_pool1d(x, size=3, stride=1, pad=1)", {"x": (2, 9, 3)}, (2, 9, 3),
     lambda x: pooled(x, 1, np.mean, 3, 1, 1, 0)),
    ("avg_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 4, 3, 3),
     lambda x: pooled(x, 2, np.mean, 2, 2, 0, 0)),
    ("sort(x)", {"x": (3, 37)}, (3, 37), lambda x: np.sort(x)),
    ("sort(x)", {"x": (70,)}, (70,), lambda x: np.sort(x)),
    ("f32(argsort(x))", {"x": (3, 37)}, (3, 37), lambda x: np.argsort(x, kind="stable")),
    ("f32(ranks(round(x)))", {"x": (3, 37)}, (3, 37),
     lambda x: np.argsort(np.argsort(np.rint(x), kind="stable"), kind="stable")),
    ("median(x)", {"x": (4, 9)}, (4, 1), lambda x: np.median(x, axis=1, keepdims=True)),
    ("f32(histogram(x, -1.0, 1.0, bins=5))", {"x": (200,)}, (5,),
     lambda x: np.histogram(x[x < 1], 5, (-1, 1))[0]),
    ("first(topk(x, k=3))", {"x": (4, 19)}, (4, 3), lambda x: -np.sort(-x)[:, :3]),
    ("back(quantize_int8(x)) - x", {"x": (4, 64)}, (4, 64), lambda x: 0 * x),
    ("back(quantize_fp8(x)) - x", {"x": (4, 64)}, (4, 64), lambda x: 0 * x),
    ("global_avg_pool2d(x)", {"x": (2, 9, 6, 3)}, (2, 3), lambda x: x.mean(axis=(1, 2))),
]


def source(call, result):
    names = [n for n in ARGUMENTS if f"({n}," in call or f", {n}," in call or f", {n})" in call
             or f"({n})" in call]
    head = ", ".join(f"{n}: {ARGUMENTS[n]}" for n in names)
    if call.startswith("moments"):
        body = f"    let (a, s) = {call}\n    return s - a * a"
    else:
        body = f"    return {call}"
    return names, f"kernel k({head}) -> {result} {{\n{body}\n}}\n"


def inputs(rng, sizes):
    m, n, b, l = (sizes[k] for k in "MNBL")
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    u = lambda *shape: rng.uniform(0.05, 0.95, shape).astype(np.float32)
    return {"x": f(m, n), "y": f(m, n), "z": f(m, n), "w": f(n), "b": f(n), "p": u(m, n),
            "q": u(m, n), "s": np.sign(f(m, n)), "v": u(n), "t": rng.integers(0, n, m),
            "g": f(b, l, 8), "c": f(8)}


def run_row(tessera, device, row, sizes):
    call, result, reference, tolerance = row
    if call.startswith("moments"):
        reference = lambda x: x.var(axis=1, keepdims=True) - x.mean(axis=1, keepdims=True) ** 2
        tolerance = 1e-5
    names, text = source(call, result)
    values = inputs(np.random.default_rng(7), sizes)
    return run_kernel(tessera, device, text, {n: values[n] for n in names}, reference, tolerance)


def run_kernel(tessera, device, text, values, reference, tolerance):
    """None, or what is wrong with the answer of the kernel in this text."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "k.tile").write_text(text)
        for name, value in values.items():
            np.save(folder / f"{name}.npy", value)
        command = [tessera, "run", str(folder / "k.tile"), "--device", device, "--check"]
        command += [f"{n}={folder / n}.npy" for n in values] + ["-o", str(folder / "out.npy")]
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=patience.seconds(120))
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-600:]}"
        got = np.load(folder / "out.npy").astype(np.float64)
    given = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in values.items()}
    with np.errstate(all="ignore"):
        want = np.asarray(reference(**given))
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    bad = ~(np.abs(got - want) <= tolerance * (1 + np.abs(want)))
    return f"{bad.sum()} differ: {got[bad][0]}, not {want[bad][0]}" if bad.any() else None


def tensor(shape):
    return f"f32[{', '.join(str(n) for n in shape)}]"


def run_window(tessera, device, row):
    call, shapes, result, reference = row
    rng = np.random.default_rng(7)
    values = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    head = ", ".join(f"{n}: {tensor(shape)}" for n, shape in shapes.items())
    text = ("fn first(a) {\n    let (b, c) = a\n    return b\n}\n"
            "fn back(a) {\n    let (b, c) = a\n    return dequantize(b, c)\n}\n"
            f"kernel k({head}) -> {tensor(result)} = {call}\n")
    tolerance = 0.02 if "int8" in call else 0.2 if "fp8" in call else 1e-5
    return run_kernel(tessera, device, text, values, reference, tolerance)


def main():
    options = suite.options_of(suite.parser(__doc__, device="cpu"))
    jobs = [(run_row, row, sizes) for row in ROWS for sizes in SIZES]
    jobs += [(run_window, row) for row in WINDOWS]
    return suite.run(options, jobs,
                     lambda job: job[0](options.tessera, options.device, *job[1:]),
                     lambda job: f"{job[1][0]} {job[2:]}")


if __name__ == "__main__":
    sys.exit(main())
