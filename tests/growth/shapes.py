# SPDX-License-Identifier: Apache-2.0
"""Programs of twelve shapes and more, of any depth or width. Each is a function of how many parts
it has; what follows its name: how many the growth test begins with, the arguments of a small
run."""


def chain(head, step, n, result="x{}", before=""):
    """x0 is the parameter, x1 … are made one of the other."""
    lines = [head + " {"] + ([before] if before else [])
    lines += [f"    {step(i)}" for i in range(n)]
    return "\n".join(lines + ["    return " + result.format(n), "}"]) + "\n"


ROWS = "kernel f(x0: f32[M, N]) -> f32[M, N]"
WEIGHTED = "kernel f(x0: f32[M, N], w: f32[N]) -> f32[M, N]"


def norms(n):
    return chain(WEIGHTED, lambda i: f"let x{i + 1} = rms_norm(tanh(x{i}), w)", n)


def layers(n):
    return chain("kernel f(x0: f32[M, N], w: f32[N], b: f32[N]) -> f32[M, N]",
                 lambda i: f"let x{i + 1} = x{i} + gelu(layer_norm(x{i}, w, b))", n)


def mlps(n):
    return chain("kernel f(x0: f32[M, D], w: f32[D, H], v: f32[H, D]) -> f32[M, D]",
                 lambda i: f"let x{i + 1} = x{i} + silu(x{i} @ w) @ v", n)


def softmaxes(n):
    return chain(ROWS, lambda i: f"let x{i + 1} = softmax(x{i})", n)


def diamonds(n):
    return chain(ROWS, lambda i: f"let x{i + 1} = sin(x{i}) * exp(x{i})", n)


def sums(n):
    return chain(ROWS, lambda i: f"let x{i + 1} = (x{i} + {i + 1}) * x{i}", n)


def wide(n):
    parts = [f"    let y{i} = s * {i + 2} + max(s - {i}, axis=1)" for i in range(n)]
    total = " + ".join(f"y{i}" for i in range(n))
    return "\n".join(["kernel f(x: f32[M, N]) -> f32[M, N] {",
                      "    let s = tanh(x) / (1 + sum(x * x, axis=1))", *parts,
                      f"    return {total}", "}"]) + "\n"


def results(n):
    named = ", ".join(f"r{i}: f32[M, N]" for i in range(n))
    return "\n".join([f"kernel f(x: f32[M, N]) -> ({named}) {{",
                      *(f"    r{i} = x * {i + 1}" for i in range(n)), "}"]) + "\n"


def rows(n):
    named = ", ".join(f"r{i}: f32[M, 1]" for i in range(n))
    return "\n".join([f"kernel f(x: f32[M, N]) -> ({named}) {{",
                      *(f"    r{i} = sum(x * {i + 1}, axis=1)" for i in range(n)), "}"]) + "\n"


def choices(n):
    return "\n".join(["kernel f(x: f32[M, N], n: i64) -> f32[M, N] {", "    var s = x * 1",
                      *(f"    if n > {i} {{ s = s * {i + 2} + x }}" for i in range(n)),
                      "    return s", "}"]) + "\n"


def folded_choices(n):
    return "\n".join(["kernel f(x: f32[N], n: i64) -> f32[N] {", "    var s = x * 1",
                      *(f"    if n > {i} {{ s = sum(s) * s }} else {{ s = s * 0.5 }}"
                        for i in range(n)),
                      "    return s", "}"]) + "\n"


def element_choices(n):
    return "\n".join(["kernel f(x: f32[M, N]) -> y: f32[M, N] {",
                      "    parallel i in M, j in N {", "        var s = x[i, j]",
                      *(f"        if s > {i} {{ s = s * 0.5 + x[i, j] }}" for i in range(n)),
                      "        y[i, j] = s", "    }", "}"]) + "\n"


def nested(n):
    deep = [f"{'    ' * (i + 2)}for j{i} in 0..2 {{" for i in range(n)]
    return "\n".join(["kernel f(x: f32[M, N]) -> y: f32[M] {", "    assume N >= 1",
                      "    parallel i in M {", "        var s = 0.0", *deep,
                      "    " * (n + 2) + "s = s * 0.5 + x[i, 0]",
                      *("    " * (i + 2) + "}" for i in reversed(range(n))),
                      "        y[i] = s", "    }", "}"]) + "\n"


def loops(n):
    return "\n".join(["kernel f(x: f32[M, N]) -> y: f32[M] {", "    parallel i in M {",
                      "        var s = 0.0",
                      *("        for j in 0..N { s = s * 0.5 + x[i, j] }" for _ in range(n)),
                      "        y[i] = s", "    }", "}"]) + "\n"


def sorts(n):
    return chain(ROWS, lambda i: f"let x{i + 1} = sort(x{i} * 2 + {i})", n)


def scans(n):
    return chain(ROWS, lambda i: f"let x{i + 1} = cumsum(x{i} * x{i}, axis=1) * 0.1", n)


def convolutions(n):
    return chain("kernel f(x0: f32[B, H, C], w: f32[C, R, C]) -> f32[B, H, C]",
                 lambda i: f"let x{i + 1}[b in B, p in H, o in C] = relu(sum(r in R, c in C) "
                           f"(x{i}[b, p + r - 1, c] else 0) * w[o, r, c])", n)


def attention(n):
    return chain("kernel f(x0: f32[M, D], q: f32[D, D], k: f32[D, D], v: f32[D, D]) -> f32[M, D]",
                 lambda i: f"let x{i + 1} = x{i} + softmax((x{i} @ q) @ (x{i} @ k).T) @ (x{i} @ v)",
                 n)


def gathers(n):
    return chain("kernel f(x0: f32[N], k: i64[N]) -> f32[N]",
                 lambda i: f"let x{i + 1} = x{i}[k] + x{i}", n)


def doubled(n):
    return chain("kernel f(x0: f32[N], k: i64[N]) -> f32[N]",
                 lambda i: f"let i{i + 1} = i{i} + i{i}", n, result="(x0[i{}] else 0)",
                 before="    let i0 = k % 2")


# first depth, the sizes and scalars of a small run
SHAPES = {
    norms: (8, "M=3,N=5"), layers: (8, "M=3,N=5"), mlps: (6, "M=3,D=4,H=5"),
    softmaxes: (12, "M=3,N=5"), diamonds: (12, "M=3,N=5"), sums: (100, "M=3,N=5"),
    wide: (20, "M=3,N=5"), results: (100, "M=3,N=5"), rows: (50, "M=3,N=5"),
    choices: (50, "M=3,N=5 n=2"), folded_choices: (5, "N=5 n=2"),
    element_choices: (40, "M=3,N=5"), nested: (8, "M=3,N=5"), loops: (20, "M=3,N=5"),
    sorts: (3, "M=3,N=5"), scans: (12, "M=3,N=5"), convolutions: (6, "B=2,H=5,C=4,R=3"),
    attention: (3, "M=5,D=4"), gathers: (20, "N=9"), doubled: (6, "N=9"),
}
