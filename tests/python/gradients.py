#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradients.py: the gradients of calls with torch's tensors: by torch's own checks, which vary each
input, and against the gradients of torch's operations. Prints `N passed, N failed, N skipped`."""

import importlib.util
import sys

from each_test import run_tests

if importlib.util.find_spec("torch") is None:
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import torch  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.nn import functional  # noqa: E402

import tessera  # noqa: E402

program = tessera.parse("""
kernel product(x: T[M, K], w: T[K, N]) -> T[M, N] where T: float = x @ w
kernel softmax(x: T[M, N]) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    return e / sum(e, axis=1)
}
kernel layer_norm(x: T[M, N], w: T[N], b: T[N], eps: const f32 = 1e-5) -> T[M, N]
    where T: float {
    let c = x - mean(x, axis=1)
    return c * rsqrt(mean(c * c, axis=1) + T(eps)) * w + b
}
kernel gelu_1d(x: T[N]) -> T[N] where T: float = gelu(x)
kernel scaled(x: T[M, N], k: const i32 = 2, w: T[N], a: T) -> (y: T[M, N], j: i32[N], s: T[M])
    where T: float {
    y = x * w * a * T(k)
    j = i32(w)
    s = sum(x * x, axis=1)[:, 0]
}
kernel norm(x: T[..., D], w: T[D]) -> T[..., D] where T: float = x * rsqrt(mean(x * x, axis=-1)) * w
kernel two(x: T[M, N], w: T[N], a: T) -> (y: T[M, N], s: T[M]) where T: float {
    y = x * w * a
    s = sum(x * x, axis=1)[:, 0]
}
kernel mixed(x: T[M, N], i: i32[N], on: bool) -> (y: T[M, N], j: i32[N]) where T: float {
    y = where(on, x * T(i), x * x)
    j = i + 1
}
kernel rows(x: T[M, N], i: i64[P]) -> T[P, N] where T: float = x[i, :]
kernel tiled(x: T[M]) -> T[M, N] where T: float = x[:, None] * T(2)
kernel cast(x: T[N]) -> U[N] where T: float, U: float = U(x * x)
kernel greatest(x: T[N]) -> i64 where T: float = argmax(x)
kernel loop(x: f32[N]) -> f32[N] { for i in N { out[i] = x[i] * 2 } }
kernel power(x: T[N]) -> T[N] where T: float = x * x * x * x
""")
TURNS = 4  # the first call prepares, the second is found by Python, later ones by C


def random(*dims, dtype=torch.float64):
    return torch.randn(*dims, dtype=dtype, requires_grad=True)


def same_as(theirs, ours, *inputs, tolerance=1e-5):
    """Results and gradients, of a weighted sum of all results."""
    for _ in range(TURNS):
        results = []
        for function in (theirs, ours):
            made = function(*inputs)
            made = made if isinstance(made, tuple) else (made,)
            weighted = sum((r * torch.linspace(-1, 2, r.numel()).view(r.shape)).sum() for r in made)
            wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
            results.append([*made, *torch.autograd.grad(weighted, wanted)])
        assert len(results[0]) == len(results[1])
        for a, b in zip(*results):
            assert a.dtype == b.dtype and a.shape == b.shape
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def twice(function, *inputs):
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_product():
    twice(program.product, random(3, 5), random(5, 4))
    twice(program.product, random(1, 1), random(1, 1))
    single = [random(*dims, dtype=torch.float32) for dims in ((33, 65), (65, 17))]
    same_as(torch.matmul, program.product, *single, tolerance=1e-4)


def test_softmax():
    twice(program.softmax, random(3, 5))
    same_as(lambda x: functional.softmax(x, 1), program.softmax,
            random(7, 130, dtype=torch.float32))


def test_layer_norm():
    """With its constant, and without; by each subset of the inputs."""
    twice(program.layer_norm, random(3, 5), random(5), random(5))
    twice(lambda *a: program.layer_norm(*a, 0.5), random(3, 5), random(5), random(5))
    twice(lambda *a: program.layer_norm(*a, eps=0.5), random(3, 5), random(5), random(5))
    for at in range(1, 8):
        inputs = [random(*dims, dtype=torch.float32) for dims in ((4, 70), (70,), (70,))]
        inputs = [x if at >> i & 1 else x.detach() for i, x in enumerate(inputs)]
        same_as(lambda x, w, b: functional.layer_norm(x, (70,), w, b), program.layer_norm, *inputs)


def test_gelu():
    twice(program.gelu_1d, random(9))
    same_as(functional.gelu, program.gelu_1d, random(1000, dtype=torch.float32))


def test_any_rank():
    for dims in ((2, 6), (3, 1, 6), (2, 1, 3, 6)):
        twice(program.norm, random(*dims), random(6))
        same_as(lambda x, w: functional.rms_norm(x, (6,), w, 0.0), program.norm,
                random(*dims), random(6))
    twice(program.norm, random(3, 2, 6).transpose(0, 1).detach().requires_grad_(), random(6))


def test_two_results():
    """Each alone, too: the other's gradient is zeros."""
    x, w = random(3, 5), random(5)
    twice(lambda x, w: program.two(x, w, 2.0), x, w)
    twice(lambda x, w: program.two(x, a=2.0, w=w)[0], x, w)
    assert gradcheck(lambda x: program.two(x, w.detach(), 2.0)[1], (x,))
    by_x, = torch.autograd.grad(program.two(x, w, 2.0)[0].sum(), x)
    torch.testing.assert_close(by_x, (2 * w).detach().expand(3, 5))
    by_w, = torch.autograd.grad(program.two(x, w, 2.0)[1].sum(), w)
    assert not by_w.any()


def test_integers():
    x, i = random(3, 5), torch.arange(5, dtype=torch.int32)
    for on in (True, False):
        y, j = program.mixed(x, i, on)
        assert y.requires_grad and not j.requires_grad and j.tolist() == [1, 2, 3, 4, 5]
        twice(lambda x: program.mixed(x, i, on)[0], x)
    index = torch.tensor([2, 0, 2, 1])
    same_as(lambda x, i: x[i], program.rows, random(3, 5), index)
    assert gradcheck(lambda x: program.rows(x, index), (x,))
    made = program.greatest(x[0])
    assert not made.requires_grad and made.item() == x[0].argmax().item()


def test_names():
    """Sizes and types that no argument tells, and kernels with some of them given."""
    twice(lambda x: program.tiled(x, N=3), random(4))
    twice(program.tiled.given(N=3, facts={"M": 4}), random(4))
    for kernel in (lambda x: program.cast(x, U="f32"), program.cast.given(U="f32", optimize=1)):
        same_as(lambda x: (x * x).float(), kernel, random(9))
    half = torch.randn(64, dtype=torch.bfloat16).requires_grad_()
    same_as(torch.square, lambda x: program.cast(x, U="bf16"), half, tolerance=1e-2)


def test_strides():
    """Of inputs and of gradients."""
    twice(program.product, random(5, 3).T.detach().requires_grad_(), random(5, 8)[:, ::2])
    same_as(lambda x: functional.softmax(x, 1).T.contiguous(),
            lambda x: program.softmax(x).T.contiguous(), random(7, 9))
    x = random(3, 4)
    program.softmax(x).mean().backward()  # an expanded gradient
    assert x.grad.abs().max() < 1e-12


def test_empty():
    x = torch.empty(0, requires_grad=True)
    program.gelu_1d(x).sum().backward()
    assert x.grad.shape == (0,)


def test_training():
    """Gradients add up, hooks run, and a step makes the loss less."""
    torch.manual_seed(3)
    x, y = torch.randn(64, 8), torch.randn(64, 4)
    w = torch.nn.Parameter(torch.randn(8, 4) * 0.1)
    optimizer, losses, seen = torch.optim.SGD([w], lr=0.1), [], []
    w.register_hook(seen.append)
    for _ in range(20):
        optimizer.zero_grad()
        loss = functional.mse_loss(program.product(x, w), y)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert losses[-1] < losses[0] and len(seen) == 20
    one = program.product(x, w).sum() + program.product(x, w).sum()
    torch.testing.assert_close(torch.autograd.grad(one, w)[0], 2 * x.sum(0)[:, None].expand(8, 4))


def test_only_what_is_asked_for():
    """The kernel that runs computes the gradients of these inputs alone."""
    x, w = random(3, 5), random(5, 4)
    y = program.product(x, w)
    torch.autograd.grad(y.sum(), w)
    assert [p.name for p in program.product._derived[1,].outputs] == ["d_w"]
    with torch.no_grad():
        assert not program.product(x, w).requires_grad
    assert not program.product(x.detach(), w.detach()).requires_grad


def test_changed_inputs():
    """torch's own error, where what the backward needs has been written."""
    x = torch.ones(8)
    y = program.gelu_1d(random(8, dtype=torch.float32) * x)
    kept = random(8, dtype=torch.float32) * 1
    y = program.gelu_1d(kept).sum()
    with torch.no_grad():
        kept += 1
    try:
        y.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("backward went on with what has been written")


def test_no_derivative():
    """Said by the call, and each time."""
    for _ in range(TURNS):
        try:
            program.loop(random(8, dtype=torch.float32))
        except tessera.SourceError as error:
            assert error.diagnostics[0]["code"] == "E0433"
        else:
            raise AssertionError("no error")
        assert program.loop(torch.ones(8)).tolist() == [2.0] * 8


def test_functional():
    x = torch.randn(5, dtype=torch.float64)
    made = torch.func.grad(lambda x: program.power(x).sum())(x)
    torch.testing.assert_close(made, 4 * x ** 3)


def test_operators():
    """torch's own checks, and gradients where torch.compile traces forwards and backwards."""
    operator, x, w = tessera.torch.operator(program.scaled), random(3, 5), random(5)
    twice(lambda x, w: operator(x, 2, w, 3.0)[::2], x, w)
    assert set(torch.library.opcheck(operator, (x, 2, w, 3.0)).values()) == {"SUCCESS"}
    for ours in (lambda x, w: operator(x, 4, w, 3.0)[0].sin(),
                 lambda x, w: operator(x, 4, w.detach(), 3.0)[0].sin() * w):
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        same_as(lambda x, w: ours(x, w), compiled, x, w)
    tiled = tessera.torch.operator(program.tiled.given(N=3), "tiled3")
    twice(tiled, random(4))


def test_vmap_of_operators():
    """Of batches of any of the inputs along any axis; what it returns has gradients."""
    operator, w = tessera.torch.operator(program.product, "product_each"), random(5, 4)
    for x, axis in ((random(7, 3, 5), 0), (random(3, 7, 5), 1)):
        made = torch.vmap(lambda x: operator(x, w), in_dims=axis)(x)
        torch.testing.assert_close(made, torch.vmap(lambda x: x @ w, in_dims=axis)(x))
    two = tessera.torch.operator(program.two, "two_each")
    x, w = random(6, 3, 5).detach(), random(6, 5).detach()
    for made, one in zip(torch.vmap(lambda x, w: two(x, w, 2.0))(x, w),
                         (x * w[:, None] * 2, (x * x).sum(-1))):
        torch.testing.assert_close(made, one)
    x.requires_grad_()
    slope, = torch.autograd.grad(torch.vmap(lambda x, w: two(x, w, 2.0)[0])(x, w).sum(), x)
    torch.testing.assert_close(slope, (2 * w)[:, None].expand(6, 3, 5))


if __name__ == "__main__":
    torch.manual_seed(1)
    sys.exit(run_tests(globals()))
