# SPDX-License-Identifier: Apache-2.0
"""References of inputs/says.tile."""

import numpy as np

from lang import kernel


@kernel(x="i32[M, N]", says=True, sizes=[dict(M=1, N=1), dict(M=0, N=3), dict(M=3, N=7),
                                        dict(M=20, N=9)])
def order(x):
    lines = [f"first {x.sum()} of {{braces}}"]
    lines += [f"x {v} y {v + 1} at [{i}, {j}]" for (i, j), v in np.ndenumerate(x)]
    lines += [f"row {i} sum {row.sum()}" for i, row in enumerate(x)]
    lines += [f"{i} {j} {v}" for (i, j), v in np.ndenumerate(x) if v >= 0]
    return x + 1, lines


@kernel(a="bool[N]", b="u64[N]", c="f64[N]", d="f16[N] in -8 8", e="i8[N]", says=True,
        sizes=[dict(N=1), dict(N=5), dict(N=70)])
def types(a, b, c, d, e):
    lines = [f"{str(bool(a[i])).lower()} {b[i]} " for i in range(len(a))]
    return e, [LineLike(line, c[i], d[i], f" {e[i]} 0.1 {np.int32(e[i]) * 2} at [{i}]")
               for i, line in enumerate(lines)]


class LineLike:
    """A line with floats in it, which may have any number of digits."""
    def __init__(self, before, c, d, after):
        self.before, self.values, self.after = before, (c, d), after

    def startswith(self, text):
        return False

    def __eq__(self, line):
        middle = line[len(self.before):len(line) - len(self.after)].split()
        return (line.startswith(self.before) and line.endswith(self.after) and
                float(middle[0]) == self.values[0] and np.float32(middle[1]) == self.values[1])

    def __repr__(self):
        return f"{self.before}{self.values}{self.after}"


@kernel(x="i32[N]", low="i32 in -11 -7", says=True,
        sizes=[dict(N=0), dict(N=5), dict(N=200), dict(N=201)])
def asserted(x, low):
    bad = [i for i in range(len(x)) if x[i] < low]
    lines = [f"assertion failed: too low: {x[i]} < {low} at [{i}]" for i in bad[:1]]
    return x * 2, lines


@kernel(start="i64[N] in 1 60", most="i64 in 90 140", says=True,
        sizes=[dict(N=3), dict(N=40), dict(N=41), dict(N=300)])
def collatz(start, most):
    steps, lines, bad = [], [], []
    for i, n in enumerate(start):
        k, n = 0, int(n)
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            k += 1
            if i == 2:
                lines.append(f"at {n}")
            if k > most:
                bad.append(i)
        steps.append(k)
    lines += [f"assertion failed: more than {most} where i = {i}" for i in bad[:1]]
    return np.array(steps), lines


@kernel(x="f32[M, N]", says=True, sizes=[dict(M=1, N=8), dict(M=33, N=70)])
def tiled(x):
    rows, columns = x.shape
    lines = [f"row of {columns} at [{i}, 0]" for i in range(rows)]
    lines += [f"rows from {i} to {min(i + 16, rows)}" for i in range(0, rows, 16)]
    return x + 1, lines
