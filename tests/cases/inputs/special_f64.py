# SPDX-License-Identifier: Apache-2.0
"""special_f64.py TESSERA SOURCE: functions of f64 beside Stirling's series in 50 digits."""

import math
import pathlib
import subprocess
import sys
import tempfile
from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 50
EPS = 2.0 ** -52
BERNOULLI = [Decimal(a) / b for a, b in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730),
                                         (7, 6), (-3617, 510), (43867, 798), (-174611, 330))]
HALF_LOG_TAU = Decimal("0.91893853320467274178032973640561763986139747363778")


def exact(x):
    """gamma, log |gamma| and digamma of a number that is no whole number below 1."""
    x, product, steps = Decimal(x), Decimal(1), Decimal(0)
    while x < 30:
        product *= x
        steps += 1 / x
        x += 1
    log = (x - Decimal("0.5")) * x.ln() - x + HALF_LOG_TAU - abs(product).ln()
    derived = x.ln() - 1 / (2 * x) - steps
    for k, b in enumerate(BERNOULLI, 1):
        log += b / (2 * k * (2 * k - 1) * x ** (2 * k - 1))
        derived -= b / (2 * k * x ** (2 * k))
    return float(log.exp().copy_sign(product)), float(log), float(derived)


def run(tessera, source, kernel, x, names, folder):
    np.save(folder / "x.npy", x)
    command = [tessera, "run", f"{source}:{kernel}", "--device", "cpu", f"x={folder}/x.npy"]
    command += [word for n in names for word in ("-o", f"{n}={folder / n}.npy")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [np.load(folder / f"{n}.npy") for n in names]


def check(what, x, got, want, limit):
    bad = ~(np.abs(got - want) <= limit) & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    if bad.any():
        sys.exit(f"{what}: {bad.sum()} wrong: of {x[bad][0]!r} {got[bad][0]!r}, "
                 f"not {np.asarray(want)[bad][0]!r}")


def gamma(tessera, source, folder):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(*r, 150) for r in
                        ((1e-5, 1), (1, 2), (1.9, 2.1), (1.45, 1.48), (2, 9), (9, 30), (30, 171),
                         (-20, 0), (-150, -20))])
    want = np.array([exact(v) for v in x]).T
    got = run(tessera, source, "gamma", x, "gld", folder)
    near_zero = np.where(x > 0, 0, 40)  # below 0 where two great terms are alike
    check("tgamma", x, got[0], want[0], 12 * EPS * np.abs(want[0]))
    check("lgamma", x, got[1], want[1], 4 * EPS * np.abs(want[1]) + near_zero * EPS)
    check("digamma", x, got[2], want[2], 12 * EPS * np.abs(want[2]) +
          np.where(x > 0, 0, 100 * EPS * (1 + want[2] ** 2)))
    x = np.array([1, 2, 3, -1, -2, 0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 172])
    n, i = math.nan, math.inf
    got = run(tessera, source, "gamma", x, "gld", folder)
    check("tgamma", x, got[0], np.array([1, 1, 2, n, n, i, -i, i, n, n, 1e300, i]),
          [4 * EPS] * 10 + [1e285, 0])
    check("lgamma", x, got[1], np.array([0, 0, math.log(2), i, i, i, i, i, i, n,
                                         -math.log(1e-300), math.lgamma(172)]), 1e-12)
    check("digamma", x[[3, 4, 7, 8, 9]], got[2][[3, 4, 7, 8, 9]], np.array([n, n, i, n, n]), 0)


def inverse(tessera, source, folder):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-1, 1, 3000), 1 - 10.0 ** rng.uniform(-15.9, -1, 1000),
                        10.0 ** rng.uniform(-300, -1, 500)])
    x = x[x < 1]
    got, narrow = run(tessera, source, "inverse", x, "en", folder)
    off = np.array([math.erf(y) - v if abs(v) < 0.5 else
                    math.copysign((1 - abs(v)) - math.erfc(abs(y)), v) for y, v in zip(got, x)])
    off *= math.sqrt(math.pi) / 2 * np.exp(got * got)
    check("erfinv", x, off, 0 * x, 4 * EPS * np.abs(got))
    few = np.abs(x) < 0.99
    check("erfinv of f32", x[few], narrow[few], got[few], 1e-5 * np.abs(got[few]) + 1e-38)
    x = np.array([1, -1, 0, 2, -1.5, math.nan])
    n, i = math.nan, math.inf
    check("erfinv", x, run(tessera, source, "inverse", x, "en", folder)[0],
          np.array([i, -i, 0, n, n, n]), 0)


def main():
    _, tessera, source = sys.argv
    with tempfile.TemporaryDirectory() as name:
        gamma(tessera, source, pathlib.Path(name))
        inverse(tessera, source, pathlib.Path(name))


if __name__ == "__main__":
    main()
