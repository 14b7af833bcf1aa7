#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""autograd.py: what torch is told of what kernels do with its tensors, and which it would lose
the gradient of. Where torch is not installed, with the tensors of fake/. Prints `N passed, N
failed`."""

import importlib.util
import pathlib
import sys

from each_test import run_tests

if importlib.util.find_spec("torch") is None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "fake"))

import torch  # noqa: E402
import torch.autograd.forward_ad as forward_ad  # noqa: E402

import tessera  # noqa: E402

program = tessera.parse("""
kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y
kernel count(x: inout f32[N], y: f32[N]) { x = x + y }
kernel two(x: f32[N]) -> (a: f32[N], b: f32[N]) {
    a = x + 1
    b = x + 2
}
kernel scale(x: f32[N], a: f32) -> f32[N] = x * a
kernel both(x: inout f32[N], y: f32[N], z: inout f32[N]) -> f32[N] {
    x = x + y
    z = z - y
    return y + y
}
""")
add, count, two, scale = program.add, program.count, program.two, program.scale
TURNS = 4  # the first call prepares, the second is found by Python, later ones by C


def raises(words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except tessera.UsageError as error:
        assert words in str(error), f"no '{words}' in: {error}"
        return
    raise AssertionError(f"no UsageError: {words}")


def leaf(n=8):
    return torch.ones(n).requires_grad_()


def test_inputs():
    """However often such tensors have been taken before, and wherever it stands: the call is
    recorded where it can be, and else refused. What gradients are: gradients.py."""
    t = torch.ones(8)
    for bad in (leaf(), torch.nn.Parameter(torch.ones(8)), leaf() * 2, leaf(9)[1:]):
        for _ in range(TURNS):
            assert add(t, t).tolist() == [2.0] * 8 and not add(t, t).requires_grad
            for made in (add(bad, t), add(t, bad), scale(bad, 2.0), scale(bad, a=2.0)):
                assert made.requires_grad and not made.is_leaf
            assert add(bad, t).tolist()[0] == bad.tolist()[0] + 1
            raises("add: 'x' is f32[N]: a tensor that requires grad", add.prepare, bad, t)
            raises(".detach()", add.prepare, t, bad)
            raises("torch.autograd.Function", add, bad, t, out=torch.ones(8))
            raises("count: 'y' is f32[N]: a tensor that requires grad", count, torch.ones(8), bad)
            assert add(bad.detach(), t).tolist()[0] >= 2.0
    raises("requires grad", add, leaf(), t, stream=0)
    raises("requires grad", add, tessera.view(leaf(), "f32"), t)


def test_outputs():
    t = torch.ones(8)
    for bad in (leaf(), torch.nn.Parameter(torch.ones(8)), leaf() * 2):
        before = bad.tolist()
        for _ in range(TURNS):
            add(t, t, out=torch.ones(8))
            two(t, out=(None, torch.ones(8)))
            raises("is not written to", add, t, t, out=bad)
            raises("add: 'out' is f32[N]", add, t, t, out=bad)
            raises("two: 'b' is f32[N]", two, t, out=(None, bad))
            raises("is not written to", add.prepare, t, t, out=bad)
            raises("count: 'x' is inout f32[N]", count, bad, t)
        assert bad.tolist() == before
    raises("a leaf tensor", add, t, t, out=leaf())


def test_without_gradients():
    """Where torch records nothing, nothing is lost: an optimizer's step, inference."""
    t, p = torch.ones(8), torch.nn.Parameter(torch.ones(8))
    with torch.no_grad():
        for i in range(TURNS):
            assert add(p, t).tolist() == [i + 2.0] * 8
            count(p, t)
            assert p.tolist() == [i + 2.0] * 8 and p._version == i + 1
        for i in range(TURNS):
            assert add(t, t, out=p) is p and p.tolist() == [2.0] * 8
            assert p._version == TURNS + i + 1
    assert add(p, t).requires_grad


def test_in_a_function():
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return add(x, y)

        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient

    for _ in range(TURNS):
        x = leaf()
        y = Add.apply(x, torch.ones(8))
        assert y.tolist() == [2.0] * 8 and y.requires_grad
        if torch.__version__ != "fake":
            y.sum().backward()
            assert x.grad.tolist() == [1.0] * 8


def test_versions():
    """Each call that writes is seen by who kept the tensor for its backward."""
    t, z = torch.ones(8), torch.ones(8)
    for i in range(TURNS):
        assert count(z, t) is None and z._version == i + 1 and t._version == 0
    for i in range(TURNS):
        add(t, t, out=z)
        assert z._version == TURNS + i + 1 and t._version == 0
    before = z._version
    for i in range(TURNS):
        two(t, out=(z, None))
        assert z._version == before + i + 1
    x = torch.ones(8)
    before = z._version
    for i in range(TURNS):
        program.both(x, t, z)
        assert (x._version, t._version, z._version) == (i + 1, 0, before + i + 1)
    for i in range(TURNS):
        program.both(x, t, z, out=torch.ones(8))
        assert (x._version, t._version) == (TURNS + i + 1, 0)
    before = z._version
    part = z[2:6]
    for i in range(TURNS):
        count(part, t[:4])
        assert z._version == part._version == before + i + 1
    before = z._version
    for i in range(TURNS):
        add(t, t, out=tessera.view(z, "f32"))
        assert z._version == before + i + 1
    for i in range(TURNS):
        made = add(t, t)
        assert made._version <= 1
    launch = add.prepare(t, t, out=z)
    before = z._version
    launch(), launch(), launch.time(2)
    assert z._version == before + 3
    launch = count.prepare(z, t)
    launch()
    assert z._version == before + 4 and t._version == 0
    launch = add.prepare(t, t)
    result = launch.results[0]
    before = result._version
    launch()
    assert result._version == before + 1


def test_what_backward_needs_is_guarded():
    """torch's own error, where a tensor that it kept has been written by a kernel."""
    if torch.__version__ == "fake":
        return
    for change in (lambda k: count(k, torch.ones(8)),
                   lambda k: add(torch.ones(8), torch.ones(8), out=k)):
        for _ in range(TURNS):
            x, kept = leaf(), torch.ones(8)
            y = (x * kept).sum()
            change(kept)
            try:
                y.backward()
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error), error
            else:
                raise AssertionError("backward went on with what a kernel has written")


def test_tangents():
    """Forward mode: what would lose its tangent is refused, other tensors are taken."""
    t = torch.ones(8)
    for _ in range(TURNS):
        assert add(t, t).tolist() == [2.0] * 8
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t, torch.ones(8))
        for _ in range(TURNS):
            raises("has a tangent", add, dual, t)
            raises("has a tangent", add, dual, leaf())
            assert add(t, t).tolist() == [2.0] * 8
    for _ in range(TURNS):
        assert add(t, t).tolist() == [2.0] * 8


def test_looking_launches_nothing():
    """What a kernel would do with a parameter may be asked."""
    p = torch.nn.Parameter(torch.ones(8))
    assert add.compile(p, p).sizes == {"N": 8} and "add" in add.schedule(p, p)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
