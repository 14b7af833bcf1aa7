#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""operators.py [NAME...] [--samples N] [--verbose]: torch's own samples (OpInfo) of the operators
that torch.compile(backend="tessera") writes texts for, against torch: each is traced and decomposed
as a model is, and what kernels compute is compared. A call may be one without a text; what has a
text is never refused by the compiler. Prints `N passed, N failed, N skipped`."""

import argparse
import importlib.util
import sys
import tempfile

if not all(map(importlib.util.find_spec, ("torch", "expecttest"))):  # torch's samples ask for it
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import torch  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import tessera.torch  # noqa: E402
from tessera.torch import _backend  # noqa: E402

NAMES = """
abs acos acosh add addmm addmv all amax amin any arange as_strided argmax argmin asin asinh atan
atan2 atanh baddbmm bmm bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to cat ceil chunk
clamp clamp_max clamp_min clone constant_pad_nd contiguous cos cosh cumprod cumsum diagonal
digamma div dot eq erf erfc erfinv exp exp2 expand expm1 fill flip floor fmod full_like gather ge
gt index_add index_put index_select isinf isnan le leaky_relu lerp lgamma linspace log log10 log1p
log2 log_softmax logaddexp logical_and logical_not logical_or logical_xor logit logsumexp lt
masked_fill matmul max maximum mean min minimum mm mul mv narrow ne neg new_full
nn.functional.adaptive_avg_pool2d nn.functional.avg_pool1d nn.functional.avg_pool2d
nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.celu nn.functional.conv1d
nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.cross_entropy
nn.functional.elu nn.functional.embedding nn.functional.gelu nn.functional.glu
nn.functional.group_norm nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
nn.functional.huber_loss nn.functional.instance_norm nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.mish nn.functional.mse_loss
nn.functional.normalize nn.functional.pad nn.functional.pixel_shuffle nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu
nn.functional.smooth_l1_loss nn.functional.softplus nn.functional.softshrink
nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold ones_like permute pow prod
reciprocal remainder repeat reshape roll round rsqrt rsub scatter select select_scatter sigmoid
sign sin sinc sinh slice slice_scatter softmax sort split split_with_sizes sqrt square squeeze
stack std sub sum t take_along_dim tan tanh tile topk transpose tril triu true_divide trunc unbind
unflatten unsqueeze var var_mean view where zeros_like
""".split()
TYPES = {torch.float32: (1e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2), torch.float64: (1e-9, 1e-9),
         torch.int64: (0, 0), torch.bool: (0, 0)}


def check(function, args, named):
    """How many calls of the sample's graph ran in kernels, and how many in torch, and why."""
    tensors = [a for a in tree_leaves((args, named)) if isinstance(a, torch.Tensor)]
    places = {id(t): i for i, t in enumerate(tensors)}

    def flat(*given):
        def of(value):
            return given[places[id(value)]] if isinstance(value, torch.Tensor) else value
        found = function(*torch.utils._pytree.tree_map(of, args),
                         **torch.utils._pytree.tree_map(of, named))
        return [t for t in tree_leaves(found) if isinstance(t, torch.Tensor)]

    expected = flat(*tensors)
    exact = expected
    if any(t.dtype == torch.bfloat16 for t in tensors):  # ATen rounds more often than needed
        try:
            exact = flat(*[t.double() if t.is_floating_point() else t for t in tensors])
        except Exception:  # noqa: BLE001 (not of these types)
            pass
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        graph = make_fx(torch.func.functionalize(flat),
                        decomposition_table=check.decompositions, tracing_mode="fake")(*tensors)
    if named.get("dropout_p"):  # decomposed, it draws other numbers
        torch.manual_seed(2)
        expected = exact = graph(*tensors)
    tessera.torch.report(clear=True)
    compiled = _backend.compile_graph(graph, "inference")
    torch.manual_seed(2)
    found = compiled(*tensors)
    for one, other, better in zip(found, expected, exact):
        tolerances = dict(zip(("atol", "rtol"), TYPES.get(one.dtype, (0, 0))), equal_nan=True)
        if one.shape != better.shape or \
                not torch.allclose(one.double(), better.double(), **tolerances):
            torch.testing.assert_close(one, other, **tolerances)
        assert one.dtype == other.dtype
    return tessera.torch.report()[0]


check.decompositions = _backend._decompositions()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4, help="at most, of an operator and type")
    parser.add_argument("--verbose", action="store_true", help="say what runs in torch")
    options = parser.parse_args()
    names = set(options.names or NAMES)
    passed = failed = skipped = ours = theirs = 0
    for info in op_db:
        if info.name not in names:
            continue
        for dtype in TYPES:
            if dtype not in info.supported_dtypes("cpu"):
                continue
            samples = list(info.sample_inputs("cpu", dtype))
            step = max(1, len(samples) // options.samples)
            for sample in samples[::step][: options.samples]:
                def function(*args, _op=info.op, _name=info.name, **named):
                    found = _op(*args, **named)
                    if _name == "topk" and args[0].dim():  # of equals torch takes any
                        axis = args[2] if len(args) > 2 else -1
                        return found[0], args[0].gather(axis, found[1])
                    return found
                if info.name == "sort":  # of equals torch chooses any order
                    sample.kwargs.update(zip(("dim", "descending"), sample.args), stable=True)
                    sample.args = ()
                what = f"{info.name} {info.variant_test_name} {str(dtype)[6:]} {sample.summary()}"
                try:
                    graph = check(function, (sample.input, *sample.args), sample.kwargs)
                except Exception as error:  # noqa: BLE001 (whatever it is, the others go on)
                    failed += 1
                    print(f"{what[:300]}\n    {type(error).__name__}: {str(error)[:600]}")
                    continue
                refused = [(name, why) for name, why in graph.torch if why.startswith("refused")]
                failed, passed = failed + bool(refused), passed + (not refused)
                ours, theirs = ours + graph.in_kernels, theirs + len(graph.torch)
                for name, why in graph.torch if options.verbose else refused:
                    print(f"{what[:200]}\n    {name}: {why}")
    print(f"{ours} calls in kernels, {theirs} in torch")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as programs:
        tessera.torch.folder(programs)
        sys.exit(main())
