#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compiled.py: models through torch.compile(backend="tessera"), forward and backward, against torch
itself; and that their calls ran in kernels. Prints `N passed, N failed, N skipped`."""

import importlib.util
import os
import pathlib
import sys
import tempfile
import types

from each_test import run_tests

if importlib.util.find_spec("torch") is None:
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import tessera  # noqa: E402
import tessera.torch  # noqa: E402
from tessera.torch import _backend, _region  # noqa: E402

TOLERANCES = {torch.float32: (2e-5, 1e-4), torch.bfloat16: (5e-2, 5e-2)}  # absolute, relative


def compiled(model, **options):
    torch._dynamo.reset()
    tessera.torch.report(clear=True)
    return torch.compile(model, backend="tessera", **options)


def random(*dims, dtype=torch.float32):
    return torch.randn(*dims).to(dtype).requires_grad_()


def results(model, inputs):
    """What a model returns, and the gradients of its inputs and parameters."""
    for value in inputs:
        value.grad = None
    if isinstance(model, nn.Module):
        model.zero_grad()
    torch.manual_seed(5)
    y = model(*inputs)
    torch.manual_seed(6)
    (y.float() * torch.randn(y.shape)).sum().backward()
    owned = list(model.parameters()) if isinstance(model, nn.Module) else []
    return [y.detach(), *[v.grad for v in [*inputs, *owned] if v.grad is not None]]


def same(model, *inputs, share=1.0):
    """The compiled model does what the model does; such a share of the calls is in kernels."""
    dtype = inputs[-1].dtype if inputs[-1].is_floating_point() else torch.float32
    theirs = results(model, inputs)
    ours = results(compiled(model), inputs)
    assert len(ours) == len(theirs)
    absolute, relative = TOLERANCES[dtype]
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, atol=absolute, rtol=relative)
    report = tessera.torch.report()
    assert report.share >= share, report
    return report


def test_layers():
    for dtype in TOLERANCES:
        model = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.LayerNorm(30), nn.Linear(30, 5),
                              nn.Softmax(-1)).to(dtype)
        same(model, random(7, 20, dtype=dtype))


def test_images():
    for dtype in TOLERANCES:
        model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                              nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, groups=4),
                              nn.GroupNorm(2, 8), nn.AvgPool2d(2), nn.Flatten(),
                              nn.Linear(8 * 1 * 1, 4)).to(dtype)
        same(model, random(2, 3, 17, 17, dtype=dtype))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.all, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (part.view(b, s, 2, 8).transpose(1, 2) for part in self.all(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, s, d))


def test_attention():
    for dtype in TOLERANCES:
        same(Attention().to(dtype), random(2, 9, 16, dtype=dtype))


def attention_cases(dtype):
    """Of each form: arguments of torch's attention behind q, k and v, and the arrays."""
    q, k, v = random(2, 4, 9, 16), random(2, 4, 11, 16), random(2, 4, 11, 8)
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in (q, k, v))
    counts = torch.rand(2, 1, 9, 11) < 0.5
    counts[0, 0, :3] = False  # rows without keys
    bias = torch.where(counts, torch.randn(2, 1, 9, 11), -torch.inf).to(dtype)
    few_k, few_v = (t.detach()[:, :2].contiguous().requires_grad_() for t in (k, v))
    yield {}, (q, k, v)
    yield {"is_causal": True}, (q, k, v)
    yield {"scale": -0.3}, (q, k, v)
    yield {"attn_mask": counts}, (q, k, v)
    yield {"attn_mask": counts[0, 0]}, (q, k, v)
    yield {"attn_mask": counts[:, :, :1]}, (q, k, v)
    yield {"attn_mask": bias}, (q, k, v)
    yield {"is_causal": True, "enable_gqa": True}, (q, few_k, few_v)
    yield {}, tuple(t.detach()[0].requires_grad_() for t in (q, k, v))
    yield {"is_causal": True}, tuple(t.detach()[0, 0].requires_grad_() for t in (q, k, v))
    yield {}, (q, *(t.detach()[:, :, :0].requires_grad_() for t in (k, v)))


def test_forms_of_attention():
    """One call forward and one backward, of which only q, k and v are kept."""
    for dtype in TOLERANCES:
        for named, inputs in attention_cases(dtype):
            report = same(lambda q, k, v, named=named: functional.scaled_dot_product_attention(
                q, k, v, **named), *inputs)
            calls = [call for graph in report for _, _, calls, _ in graph.kernels
                     for call in calls]
            assert calls == ["tessera_torch.attention.default",
                             "tessera_torch.attention_backward.default"], (named, report)


def test_attention_of_torch():
    """What is random, or has the gradient of a bias, stays one of torch's kernels."""
    q, k, v, bias = random(1, 2, 5, 8), random(1, 2, 7, 8), random(1, 2, 7, 8), random(5, 7)
    fast = compiled(lambda: functional.scaled_dot_product_attention(q, k, v, bias))
    torch.testing.assert_close(fast(), functional.scaled_dot_product_attention(q, k, v, bias),
                               atol=2e-5, rtol=1e-4)
    fast = compiled(lambda: functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    torch.manual_seed(1)
    first = fast()
    torch.manual_seed(1)
    assert torch.equal(fast(), first) and not torch.equal(fast(), first)


def test_operators_of_attention():
    """As torch runs them where no kernel has them."""
    ops = torch.ops.tessera_torch
    for named, inputs in attention_cases(torch.float32):
        mask, causal = named.get("attn_mask"), named.get("is_causal", False)
        y, logs = ops.attention(*inputs, mask, causal, named.get("scale"))
        fast = compiled(lambda q, k, v, mask=mask, causal=causal, named=named: ops.attention(
            q, k, v, mask, causal, named.get("scale")))
        torch.testing.assert_close(fast(*inputs)[1], logs, atol=1e-5, rtol=1e-5)
        gradient = torch.randn(y.shape)
        made = torch.autograd.grad(y, inputs, gradient)
        theirs = functional.scaled_dot_product_attention(*inputs, **named)
        wanted = torch.autograd.grad(theirs, inputs, gradient)
        for one, other in zip([y, *made], [theirs, *wanted]):
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_lstm_step():
    cell = nn.LSTMCell(6, 10)
    same(lambda x, h, c: torch.cat(cell(x, (h, c)), 1), random(4, 6), random(4, 10), random(4, 10))


def test_embedding():
    model = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 3))
    same(model, torch.tensor([[1, 4, 4], [0, 10, 1]]))


def test_dropout():
    """The mask is of torch's generator, so a seed makes it again; it runs in torch."""
    model = compiled(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)))
    x = random(32, 64)
    torch.manual_seed(1)
    first = model(x)
    torch.manual_seed(1)
    assert torch.equal(model(x), first) and not torch.equal(model(x), first)
    assert 0.4 < (first == 0).float().mean() < 0.6
    assert any("generator" in why for graph in tessera.torch.report() for _, why in graph.torch)
    first.sum().backward()


def test_dynamic_batch():
    """One graph for any number of rows."""
    layer = nn.Linear(6, 4)
    model = compiled(lambda x: torch.relu(layer(x)).sum(0), dynamic=True)
    for n in (3, 8, 5):
        x = random(n, 6)
        torch.testing.assert_close(model(x), torch.relu(layer(x)).sum(0), atol=1e-5, rtol=1e-5)
    report = tessera.torch.report()
    kinds = [graph.kind for graph in report]
    assert kinds.count("forward") == 1 and report.share == 1, report


def test_dynamic_attention():
    """Of any number of sequences of any length, backwards too."""
    model = Attention()
    fast = compiled(model, dynamic=True)
    for dims in ((2, 9, 16), (3, 12, 16), (4, 7, 16)):
        x = random(*dims)
        for one, other in zip(results(fast, [x]), results(model, [x])):
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)
    report = tessera.torch.report()
    assert [graph.kind for graph in report] == ["forward", "backward"] and report.share == 1, report


def test_numbers():
    """Those that torch computes when the graph runs are parameters of the kernel."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        fast = compiled(lambda x, n: x * n.item() + 1)
        for n in (3.5, -2.0):
            assert torch.equal(fast(torch.ones(5), torch.tensor(n)), torch.full((5,), n + 1))
    assert tessera.torch.report().share == 1


def test_training_and_evaluation():
    """Statistics are kept as torch keeps them; then they are used."""
    models = []
    for backend in ("tessera", "eager"):
        torch.manual_seed(2)
        models.append(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU()))
        torch._dynamo.reset()
        fast = torch.compile(models[-1], backend=backend)
        for _ in range(3):
            fast(torch.randn(2, 3, 8, 8))
        models[-1].eval()
        with torch.no_grad():
            models.append(fast(torch.ones(2, 3, 8, 8)))
    torch.testing.assert_close(models[1], models[3], atol=1e-5, rtol=1e-5)
    for one, other in zip(models[0].buffers(), models[2].buffers()):
        torch.testing.assert_close(one, other)


@torch.library.custom_op("tessera_tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> "tuple[torch.Tensor, torch.Tensor]":
    return x.bfloat16() / 2, x.mean()


@halved.register_fake
def _(x):
    return x.new_empty(x.shape), x.new_empty(())


def test_described_otherwise():
    """An operator's result is of another type than its description says, as the statistics of
    torch's batch norm are on a GPU: a kernel reads what there is."""
    x = torch.arange(6.0)
    fast = compiled(lambda x: [part * 3 for part in halved(x)])
    for one, other in zip(fast(x), (x * 1.5, x.mean() * 3)):
        assert torch.equal(one, other), (one, other)
    assert tessera.torch.report()[0].in_kernels == 2


def test_uncovered():
    """Runs in torch, between kernels, and the report says so."""
    report = same(lambda x: torch.linalg.qr(x * 2)[1].abs() + 1, random(5, 5), share=0.3)
    assert any("qr" in name and "no text" in why for graph in report for name, why in graph.torch)
    assert report[0].in_kernels >= 2 and "qr" in str(report)


def test_assembler():
    """Triton's is named where there is a GPU, and never instead of one that the user names."""
    if importlib.util.find_spec("triton") is None:
        return
    given, cuda = os.environ.pop("TESSERA_PTXAS", None), torch.cuda
    try:
        torch.cuda = types.SimpleNamespace(is_available=lambda: True,
                                           get_device_capability=lambda: (9, 0))
        _backend._name_assembler()
        path = os.environ.get("TESSERA_PTXAS", "")
        assert path.endswith("ptxas") and os.access(path, os.X_OK), path
        os.environ["TESSERA_PTXAS"] = ""
        _backend._name_assembler()
        assert os.environ["TESSERA_PTXAS"] == ""
    finally:
        torch.cuda = cuda
        os.environ.pop("TESSERA_PTXAS")
        if given is not None:
            os.environ["TESSERA_PTXAS"] = given


def test_refused():
    """What the compiler refuses is known when the graph is run or reported, and is halved: one call
    is left, which runs in torch, or whose results are kernels of their own."""
    finish = _region.Region.finish

    def refusing(region):
        if "tanh" in region.text or ("max_pool" in region.path.name and "y1" in region.text):
            raise tessera.Error("no tanh today")
        finish(region)

    class Model(nn.Module):
        def forward(self, x):
            y, at = functional.max_pool2d(torch.sigmoid(x), 2, return_indices=True)
            return torch.cos(torch.tanh(torch.sin(y)) + 1) * at

    x = torch.randn(2, 3, 6, 6)
    try:
        _region.Region.finish = refusing
        fast = compiled(Model())
        torch.testing.assert_close(fast(x), Model()(x), atol=2e-5, rtol=1e-4)
    finally:
        _region.Region.finish = finish
    graph, = tessera.torch.report()
    assert graph.torch == [("aten.tanh.default", "refused: no tanh today")], graph
    assert graph.in_kernels == graph.calls - 1 and len(graph.kernels) >= 4, graph


def test_views():
    """Results that are views are no copies, and parameters are read where they are."""
    x = torch.randn(6, 4)
    y, z = compiled(lambda x: (x.t()[1:], (x + 1).t()))(x)
    assert y.data_ptr() == x[:, 1].data_ptr() and torch.equal(z, (x + 1).t())


def test_edited():
    """A program that is edited is what runs; a wrong one is an error that names its file."""
    kept = tessera.torch.folder()
    with tempfile.TemporaryDirectory() as name:
        try:
            tessera.torch.folder(name)
            x = torch.ones(5)
            assert compiled(lambda x: x * 3 + 1)(x)[0] == 4
            path, = pathlib.Path(name).glob("*.tile")
            text = path.read_text()
            for new, wanted in (("* 4.0", 5), ("* four", None)):
                path.write_text(text.replace("* 3.0", new))
                tessera.torch.folder(name)
                try:
                    y = compiled(lambda x: x * 3 + 1)(x)
                except Exception as error:  # noqa: BLE001 (torch's, around ours)
                    assert wanted is None and path.name in str(error)
                else:
                    assert y[0] == wanted and tessera.torch.report()[0].kernels[0][3]
        finally:
            tessera.torch.folder(kept)


if __name__ == "__main__":
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as programs:
        tessera.torch.folder(os.environ.get("TESSERA_TORCH") or programs)
        sys.exit(run_tests(globals()))
