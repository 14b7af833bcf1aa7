# SPDX-License-Identifier: Apache-2.0
"""The programs whose derivatives derivatives.py checks. `sizes`: those of the kernel's sizes;
`range`: of the inputs; `by`: the parameters to differentiate by; `consts`: const parameters."""

MATRIX = [{"M": 3, "N": 7}, {"M": 1, "N": 1}, {"M": 0, "N": 5}, {"M": 33, "N": 18}]
NORMAL = [{"M": 3, "N": 7}, {"M": 1, "N": 1}, {"M": 9, "N": 130}]


def program(text, sizes=MATRIX, **options):
    return {"text": text, "sizes": sizes, **options}


PROGRAMS = {
    "arithmetic": program("""
kernel f(x: T[M, N], y: T[M, N], w: T[N], s: T) -> T[M, N] where T: float =
    x * w + y / (2 + w * w) - s * x * y + (3 - x) / (4 + y) - sqrt(2 + x)
""", numbers={"s": 0.75}),
    # Derivatives of functions, the gradients of which depend on the arguments.
    "nested": program("""
fn penalty(x) = sum(exp(x) * tanh(x))
fn wave(x, w) = sin(w) * cosh(x)
kernel f(x: T[M, N], w: T[M, N]) -> (a: T[M, N], b: T[M, N], c: T[M, N], d: T[M, N], e: T)
    where T: float {
    a = vjp(exp)(x, w)
    let z = x * x
    b = vjp(tanh)(z, 1.0) * z
    let (p, q) = vjp(wave)(x, w, x)
    c = p * q
    d[i, j] = jvp(sigmoid)(x[i, j], w[i, j])
    e = sum(square(grad(penalty)(x)))
}
"""),
    "choices": program("""
kernel f(x: T[M, N], y: T[M, N]) -> (a: T[M, N], b: T[M, N]) where T: float {
    a = where(x > y, x * y, abs(x)) + max(x, y) * min(x, 2 * y) + relu(x)
    b = x if M > 2 else y
}
"""),
    "reductions": program("""
kernel f(x: T[M, N]) -> (a: T[M, 1], b: T[1, N], c: T, d: T[M, 1], e: T[1, N]) where T: float {
    a = sum(x * x, axis=1)
    b = max(x, axis=0) * 2
    c = sum(x)
    d = min(x, axis=1) * sum(x, axis=1)
    e = prod(x, axis=0)
}
""", [{"M": 3, "N": 7}, {"M": 1, "N": 1}, {"M": 33, "N": 18}]),
    "averages": program("""
kernel f(x: T[M, N]) -> (a: T[M, 1], b: T[M, 1]) where T: float {
    a = mean(x, axis=1)
    b = var(x, axis=1) + 0.1
}
""", NORMAL),
    "product with a zero": program("""
kernel f(x: T[M, N]) -> T[M, 1] where T: float = prod(where(iota(N)[None, :] == 1, 0, x), axis=1)
""", NORMAL),
    "product": program("""
kernel f(x: T[M, K], w: T[K, N], b: T[N]) -> T[M, N] where T: float = tanh(x @ w + b)
""", [{"M": 3, "K": 5, "N": 7}, {"M": 1, "K": 1, "N": 1}, {"M": 4, "K": 0, "N": 3},
      {"M": 33, "K": 17, "N": 65}]),
    "batched product": program("""
kernel f(x: T[B, M, K], w: T[B, N, K]) -> T[B, M, N] where T: float = x @ w.T
""", [{"B": 2, "M": 3, "K": 5, "N": 7}, {"B": 1, "M": 1, "K": 1, "N": 1}]),
    "shared factor": program("""
kernel f(x: T[B, M, K], w: T[K, N]) -> T[B, M, N] where T: float = x @ w
""", [{"B": 2, "M": 3, "K": 5, "N": 7}]),
    "contraction": program("""
kernel f(x: T[M, K], w: T[N, K]) -> y: T[N, M] where T: float {
    y[n, m] = sum(k in K if k <= m) x[m, k] * w[n, k]
}
""", [{"M": 6, "K": 5, "N": 7}, {"M": 1, "K": 1, "N": 1}]),
    "views": program("""
kernel f(x: T[M, 2 * N], w: T[N]) -> (a: T[M, N], b: T[N, M], c: T[M, 2 * N], d: T[2 * M, N],
    e: T[M * N, 2], g: T[M, N], h: T[2 * M, 2 * N], p: T[M + 3, 2 * N + 1])
    where T: float, N >= 2 {
    let (left, right) = split(x, 2, axis=1)
    a = left * right
    b = x[:, N:].T * w[:, None]
    c = flip(x, axis=1) * roll(x, 1, axis=1)
    d = concat([left * 2, flip(right, axis=0)], axis=0)
    e = reshape(x, [M * N, 2])
    g = x[:, ::2] - x[:, 1::2]
    h = repeat(x, 2, axis=0) + tile(x, 2, axis=0)
    p = pad(x, [[1, 2], [0, 1]], value=3)
}
""", [{"M": 3, "N": 7}, {"M": 1, "N": 2}]),
    "reshapes": program("""
kernel f(x: T[B, S, H * D]) -> (y: T[B, H, S, D], z: T[B * S, H * D]) where T: float {
    y = permute(reshape(x, [B, S, H, D]), [0, 2, 1, 3]) * 2
    z = reshape(x * x, [B * S, H * D])
}
""", [{"B": 2, "S": 3, "H": 2, "D": 5}, {"B": 1, "S": 1, "H": 1, "D": 1}], **{"pass": ["H"]}),
    "triangles": program("""
kernel f(x: T[M, N]) -> (y: T[M, N], z: T[M, N]) where T: float {
    y = triu(x, k=1) * x
    z[i, j] = (x[i, j - 1] else 0) * 2 * T(i <= j)
}
"""),
    "windows": program("""
kernel f(x: T[N], w: T[R]) -> y: T[P] where T: float, P = (N + 2 - R) // 2 + 1, N + 2 >= R {
    y[p] = sum(r in R) (x[2 * p + r - 1] else 0) * w[r]
}
""", [{"N": 9, "R": 3}, {"N": 4, "R": 1}, {"N": 12, "R": 4}], where="P=(N+2-R)//2+1"),
    "gathers": program("""
kernel f(x: T[V, N], ids: i32[M], at: i64[M]) -> (y: T[M, N], z: T[M]) where T: float {
    y = x[ids, :] * 2
    z[m] = x[m % V, at[m]]
}
""", [{"V": 5, "M": 7, "N": 4}, {"V": 1, "M": 1, "N": 1}]),
    "picked": program("""
kernel f(x: T[M, N], at: i64[M]) -> y: T[M] where T: float { y[m] = x[m, at[m]] * (x[m, 0] else 0) }
""", [{"M": 7, "N": 4}, {"M": 1, "N": 1}]),
    "own function": program("""
fn cube(x, s) = x * x * x * s
derivative of cube(x, s, y, g) = (3 * x * x * s * g, x * x * x * g)
kernel f(x: T[M, N], s: T[N]) -> y: T[M, N] where T: float { y[i, j] = cube(x[i, j], s[j]) }
"""),
    "softmax by hand": program("""
kernel f(x: T[M, N]) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    return e / sum(e, axis=1)
}
""", NORMAL),
    "attention": program("""
kernel f(q: T[B, S, D], k: T[B, L, D], v: T[B, L, D]) -> T[B, S, D] where T: float =
    softmax(q @ k.T * 0.35) @ v
""", [{"B": 2, "S": 3, "L": 5, "D": 4}, {"B": 1, "S": 1, "L": 1, "D": 1}]),
    "running sums": program("""
kernel f(x: T[M, N]) -> (a: T[M, N], b: T[M, N]) where T: float {
    a = cumsum(x, axis=1) * x
    b = cumsum(x, axis=0, reverse=true)
}
"""),
    "sorted": program("""
kernel f(x: T[M, N]) -> T[M, N] where T: float = sort(x) * T(iota(N))
""", NORMAL[:2]),
    "folds": program("""
fn both(a, b) = a * b
fn step(a, b) {
    let (a1, b1) = a
    let (a2, b2) = b
    return a1 * a2, a2 * b1 + b2
}
fn logadd(a, b) = max(a, b) + log1p(exp(where(a == b, 0, -abs(a - b))))
kernel f(x: T[M, N], y: T[M, N]) -> (a: T[M, 1], b: T[M, N], c: T[M, N], d: T[M, 1], e: T[M, N])
    where T: float {
    a = reduce(both, x + 2, axis=1, init=T(1))
    let (_, h) = scan(step, (x, y), axis=1, init=(T(1), T(0)))
    b = h
    let (_, r) = scan(step, (x * y, y), axis=1, init=(T(1), T(0)), reverse=true)
    c = r
    d = reduce(logadd, x * y, axis=1, init=-inf)
    e = scan(logadd, x - y, axis=1, init=-inf)
}
""", NORMAL[:2]),
    "steps": program("""
kernel f(x: T[M, N], w: T[N]) -> (a: T[M, N], b: T[M]) where T: float {
    var y = x * 1
    for k in 0..3 {
        for i in 1..3 { y = y * 0.5 + tanh(y * w) * T(i) }
        y = y + x * T(k)
    }
    a = exp(y * 0.1)
    parallel m in M {
        var s = T(0)
        for k in 0..5 { s = s * 0.5 + sin((x[m, k] else 0) * s + 0.3) }
        b[m] = s
    }
}
""", NORMAL[:2]),
    "kernel with a declared derivative": program("""
kernel f(x: f64[M, N], s: f64) -> y: f64[M, N] {
    assume N in 7, 18
    parallel i in M by 16 { y[i, :] = x[i, :] * s * x[i, :] }
}
derivative of f(x, s, y, g) = (2 * y / x * g, sum(y * g) / s)
""", [{"M": 3, "N": 7}, {"M": 1, "N": 7}, {"M": 33, "N": 18}], numbers={"s": 0.75}, range=(0.2, 1)),
    "scatter": program("""
kernel f(x: T[M], at: i64[M], z: T[4]) -> y: T[4] where T: float {
    y = z
    parallel m in M { atomic.add(y[at[m]], x[m] * x[m]) }
}
""", [{"M": 7}, {"M": 1}]),
}

# The same with a parameter that is written, and with a result instead.
WRITTEN = """
kernel f(p: inout f64[M, N], g: f64[M, N], r: f64) -> z: f64[M, N] {
    let q = 0.9 * p + g * g * r
    p = p - q * p
    z = q
}
kernel h(p: f64[M, N], g: f64[M, N], r: f64) -> (s: f64[M, N], z: f64[M, N]) {
    let q = 0.9 * p + g * g * r
    s = p - q * p
    z = q
}
"""

# Derivatives of functions in expressions, of arrays and of single elements.
CALLS = """
fn bowl(x, a) = sum(a * x * x + exp(x))
fn wave(x, a) = sin(x * a) + x
fn pair(x) = (x * x, exp(x))
kernel calls(x: f64[N], a: f64[N]) -> (g: f64[N], h: f64[N], w: f64[N], v: f64[N], j: f64[N],
    z: f64[N], t: f64[N], s: f64[N], u: f64[N]) {
    let (dx, da) = grad(bowl)(x, a)
    g = dx
    h = da
    w = vjp(sin)(x, a)
    let (p, q) = vjp(wave)(x, x, a)               # one value as two arguments
    v = p - 2 * q
    j = jvp(wave)(x, a, a, x)
    z[i] = vjp(wave)(x[i], 2.0, 1.0)
    t = vjp(pair)(x, a, 2.0)
    let (c, d) = jvp(pair)(x, a)
    s = c + d
    u[i] = sum(k in N) vjp(sin)(x[i] * a[k], a[k])
}
"""

POSITIVE, UNIT = {"range": (0.2, 2.0)}, {"range": (-0.9, 0.9)}
AWAY = {"range": (0.1, 0.9)}

FUNCTIONS = {
    **{f"{name}(x)": {} for name in (
        "exp exp2 exp10 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc sigmoid softplus silu "
        "mish gelu gelu_tanh relu relu6 leaky_relu elu celu selu hardtanh hardsigmoid hardswish "
        "tanhshrink softsign logsigmoid quick_gelu abs square cbrt sinc sinpi cospi round floor "
        "degrees rrelu").split()},
    **{f"{name}(x)": POSITIVE for name in
       "log log2 log10 log1p sqrt rsqrt reciprocal lgamma tgamma entropy fract".split()},
    **{f"{name}(x)": UNIT for name in "asin acos atanh erfinv".split()},
    "acosh(x)": {"range": (1.2, 3.0)},
    "logit(x)": AWAY,
    **{f"{name}(x, y)": {"arguments": "x: T[M, N], y: T[N]", "range": (0.2, 2.0)} for name in
       "pow hypot atan2 logaddexp xlogy fmod remainder copysign fmin fmax prelu glu swiglu geglu "
       "reglu".split()},
    "pow(x, 3.0)": {},
    "clamp(x, -0.5, 0.5)": {},
    "softplus(x, 2.0)": {},
    "hardshrink(x)": {},
    "softshrink(x)": {},
    "threshold(x, 0.1, 20.0)": {},
    "lerp(x, y, w)": {"arguments": "x: T[M, N], y: T[M, N], w: T[N]"},
    "fma(x, y, w)": {"arguments": "x: T[M, N], y: T[M, N], w: T[N]"},
    **{f"{name}(x)": {"sizes": NORMAL} for name in
       "softmax log_softmax l2_normalize softmin cumsum".split() if name != "softmin"},
    **{f"{name}(x)": {"sizes": NORMAL, "result": "T[M, 1]"} for name in
       "logsumexp variance".split()},
    "standard_deviation(x)": {"sizes": NORMAL[::2], "result": "T[M, 1]"},
    "softmax(x, axis=0)": {"sizes": NORMAL},
    "layer_norm(x, w, b)": {"arguments": "x: T[M, N], w: T[N], b: T[N]", "sizes": NORMAL[::2]},
    "rms_norm(x, w)": {"arguments": "x: T[M, N], w: T[N]", "sizes": NORMAL},
    "batch_norm(x, a, v, w, b)": {"arguments": "x: T[M, N], a: T[N], v: T[N], w: T[N], b: T[N]",
                                  "range": (0.2, 2.0), "sizes": NORMAL},
    "group_norm(x, w, b, groups=2)": {
        "arguments": "x: T[B, L, 8], w: T[8], b: T[8]", "result": "T[B, L, 8]",
        "sizes": [{"B": 2, "L": 3}, {"B": 1, "L": 1}]},
    "instance_norm(x, w, b)": {"arguments": "x: T[B, L, C], w: T[C], b: T[C]",
                               "result": "T[B, L, C]", "sizes": [{"B": 2, "L": 5, "C": 3}]},
    **{f"{name}(x, y)": {"arguments": "x: T[M, N], y: T[M, N]", "range": (0.2, 0.8)} for name in
       "mse l1 smooth_l1 huber binary_cross_entropy binary_cross_entropy_logits kl_div hinge "
       "soft_margin poisson_nll".split()},
    "cosine_similarity(x, y)": {"arguments": "x: T[M, N], y: T[M, N]", "result": "T[M, 1]",
                                "sizes": NORMAL},
    "cross_entropy(x, t)": {"arguments": "x: T[M, N], t: i64[M]", "result": "T[M]",
                            "sizes": [{"M": 3, "N": 7}, {"M": 5, "N": 3}]},
    "nll(x, t)": {"arguments": "x: T[M, N], t: i64[M]", "result": "T[M]",
                  "sizes": [{"M": 3, "N": 7}, {"M": 5, "N": 3}]},
    "max_pool1d(x, size=2)": {"arguments": "x: T[B, L, C]", "result": "T[B, P, C]",
                              "more": ", P = (L - 2) // 2 + 1, L >= 2", "where": "P=(L-2)//2+1",
                              "sizes": [{"B": 2, "L": 7, "C": 3}]},
    "avg_pool1d(x, size=3, stride=2, pad=1)": {
        "arguments": "x: T[B, L, C]", "result": "T[B, P, C]",
        "more": ", P = (L + 2 - 3) // 2 + 1, L >= 2", "where": "P=(L-1)//2+1",
        "sizes": [{"B": 2, "L": 7, "C": 3}]},
    "max_pool2d(x)": {
        "arguments": "x: T[B, H, W, C]", "result": "T[B, P, Q, C]",
        "more": ", P = (H - 2) // 2 + 1, H >= 2, Q = (W - 2) // 2 + 1, W >= 2",
        "where": "P=(H-2)//2+1,Q=(W-2)//2+1", "sizes": [{"B": 2, "H": 5, "W": 6, "C": 3}]},
    "conv1d(x, w, stride=2, pad=1)": {
        "arguments": "x: T[B, L, C], w: T[O, R, C]", "result": "T[B, P, O]",
        "more": ", P = (L + 2 - R) // 2 + 1, L + 2 >= R", "where": "P=(L+2-R)//2+1",
        "sizes": [{"B": 2, "L": 7, "C": 3, "O": 4, "R": 3}]},
    "conv2d(x, w, pad=1)": {
        "arguments": "x: T[B, H, W, C], w: T[O, R, S, C]", "result": "T[B, P, Q, O]",
        "more": ", P = H + 2 - R + 1, H + 2 >= R, Q = W + 2 - S + 1, W + 2 >= S",
        "where": "P=H+3-R,Q=W+3-S",
        "sizes": [{"B": 2, "H": 5, "W": 4, "C": 3, "O": 4, "R": 3, "S": 2},
                  {"B": 1, "H": 1, "W": 1, "C": 1, "O": 1, "R": 1, "S": 1}]},
}

LINE = [{"N": 7}, {"N": 1}]
WAVES = [{"B": 2, "S": 3, "H": 2, "D": 4}]
EXAMPLES = {
    "add": {"sizes": LINE},
    "argmax": {"sizes": MATRIX[:2], "kernel": "argmax_rows"},
    "batched": {"sizes": [{"B": 2, "M": 3, "K": 4, "N": 5}, {"B": 1, "M": 1, "K": 1, "N": 1}]},
    "black_scholes": {"sizes": LINE, "range": (0.3, 1.2), "numbers": {"r": 0.5, "v": 0.4}},
    "blur": {"sizes": [{"H": 5, "W": 7}, {"H": 1, "W": 1}]},
    "chain": {"sizes": LINE},
    "conv2d": {"sizes": [{"B": 2, "H": 5, "W": 6, "C": 3, "O": 4, "R": 3, "S": 2}],
               "consts": {"pad": 1, "stride": 2},
               "where": "P=(H+2-R)//2+1,Q=(W+2-S)//2+1"},
    "conv_transpose": {"sizes": [{"B": 2, "L": 4, "C": 3, "R": 3, "O": 2}]},
    "cross_entropy": {"sizes": [{"M": 7, "N": 5}]},
    "cumsum": {"sizes": LINE, "kernel": "running"},
    "depthwise": {"sizes": [{"B": 2, "H": 4, "W": 5, "C": 3, "R": 3, "S": 3}]},
    "dft": {"sizes": [{"B": 2, "N": 7}]},
    "dropout": {"sizes": LINE, "by": "x", "numbers": {"p": 0.25, "seed": 4}},
    "einsum": {"sizes": [{"B": 2, "H": 3, "I": 4, "J": 5, "D": 6}]},
    "embedding": {"sizes": [{"V": 5, "D": 4, "B": 2, "S": 7}]},
    "flip": {"sizes": [{"M": 3, "N": 7}], "kernel": "views"},
    "gated_mlp": {"sizes": [{"M": 3, "K": 4, "N": 5}]},
    "gemv": {"sizes": [{"M": 3, "N": 7}]},
    "gqa_decode": {"sizes": [{"B": 2, "H": 4, "G": 2, "L": 5, "D": 3}]},
    "interpolate": {"sizes": [{"H": 5, "W": 6}], "consts": {"rows": 7, "columns": 4}},
    "jacobi": {"sizes": [{"H": 5, "W": 6}]},
    "kl_divergence": {"sizes": MATRIX[:2], "range": (0.2, 0.8)},
    "layer_norm": {"sizes": [{"M": 3, "N": 7}, {"M": 9, "N": 130}]},
    "layer_norm_backward": {"sizes": [{"M": 3, "N": 7}]},
    "linear": {"sizes": [{"M": 3, "K": 4, "N": 5}, {"M": 33, "K": 17, "N": 9}]},
    "linear_attention": {"sizes": [{"B": 2, "S": 3, "D": 4, "E": 5}]},
    "matmul": {"sizes": [{"M": 3, "K": 4, "N": 5}, {"M": 1, "K": 1, "N": 1}]},
    "max_pool": {"sizes": [{"B": 2, "H": 5, "W": 6, "C": 3}]},
    "moe_gate": {"sizes": [{"M": 5, "E": 6}]},
    "nbody": {"sizes": [{"N": 7}]},
    "pairwise": {"sizes": [{"M": 3, "N": 4, "D": 5}]},
    "power": {"sizes": [{"N": 7}], "kernel": "running_product"},
    "quantize": {"sizes": [{"M": 3, "N": 7}]},
    "rank_sort": {"sizes": LINE},
    "residual": {"sizes": [{"M": 3, "K": 4, "N": 5}]},
    "rms_norm": {"sizes": [{"M": 3, "N": 7}, {"M": 9, "N": 130}]},
    "recurrence": {"sizes": [{"B": 3, "L": 7}]},
    "rotary": {"sizes": WAVES},
    "smooth_l1": {"sizes": LINE},
    "softmax": {"sizes": NORMAL},
    "softmax_online": {"sizes": [{"M": 3, "N": 7}]},
    "swiglu": {"sizes": [{"M": 3, "N": 7}]},
    "top2": {"sizes": [{"M": 3, "N": 7}]},
    "total": {"sizes": LINE},
    "transpose": {"sizes": [{"M": 3, "N": 7}]},
    "welford": {"sizes": [{"M": 3, "N": 7}]},
}
