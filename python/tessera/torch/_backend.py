# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="tessera"): graphs of ATen calls, forward and backward as
AOTAutograd has them, become kernels, a region each; the rest runs in torch."""

import operator
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .._abi import Error
from . import _recompute, _report
from ._attention import name_attention
from ._partition import counts, outputs_of, partition, split_views
from ._region import Region
from ._views import is_view
from ._writer import Uncovered, covered, name_of


def _decompositions():
    """Into what there is a text for: not of that which has one itself."""
    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    table.update(get_decompositions([aten.native_layer_norm_backward,
                                     aten.native_group_norm_backward,
                                     aten.native_batch_norm_backward]))
    for op in list(table):  # attention that stays torch's is computed by one of its own kernels
        if str(op) in covered() or "scaled_dot_product" in str(op):
            del table[op]
    return table


class Steps:
    """What replaces a graph: kernels, and calls that torch runs."""

    def __init__(self, kind):
        self.report, self.steps = _report.Graph(kind), []

    def region(self, nodes):
        """The kernel of a region, or of its halves where the compiler refuses it."""
        kernel, after = split_views(nodes)
        if kernel:
            self._kernel(kernel, set(kernel), set(after))
        for node in after:
            self.steps.append(node)
            self.report.views += counts(node)

    def _kernel(self, nodes, whole, after):
        """Of a part of a region, whose views torch makes afterwards."""
        try:
            region = Region(nodes, outputs_of(nodes, whole, after))
        except Uncovered as problem:
            why = str(problem)
        except Error as problem:
            if getattr(problem, "edited", False):  # the user's own text
                raise
            why = "refused: " + str(problem).strip().split("\n")[0]
        else:
            self._add(region, nodes)
            return
        middle = len(nodes) // 2
        while middle < len(nodes) and nodes[middle].target is operator.getitem:
            middle += 1
        if middle in (0, len(nodes)):
            self._one(nodes, whole, after, why)
        else:
            self._kernel(nodes[:middle], whole, after)
            self._kernel(nodes[middle:], whole, after)

    def _one(self, nodes, whole, after, why):
        """A call that is refused: of several results each by itself, or it runs in torch."""
        wanted = outputs_of(nodes, whole, after)
        if len(wanted) > 1:
            try:
                parts = [Region([nodes[0], *[n for n in nodes[1:] if n is part]], [part])
                         for part in wanted]
            except (Uncovered, Error):
                pass
            else:
                for region in parts:
                    self._add(region, nodes[:1] if region is parts[0] else [])
                return
        for node in nodes:
            self.torch(node, why)

    def _add(self, region, nodes):
        self.steps.append(region)
        self.report.kernels.append((region.kernel.name, region.path,
                                    [name_of(n) for n in nodes if counts(n)], region.edited))

    def torch(self, node, why):
        self.steps.append(node)
        if is_view(node):
            self.report.views += 1
        elif counts(node):
            self.report.torch.append((name_of(node), why))


def compile_graph(module, kind):
    """A function that computes what the graph does."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            node.meta.setdefault("val", getattr(module, node.target))
    groups, reasons = partition(module.graph)
    steps = Steps(kind)
    for group in groups:
        if group[0] in reasons:
            steps.torch(group[0], reasons[group[0]])
        else:
            steps.region(group)
    _report.add(steps.report)
    return _rebuilt(module, steps.steps)


def _rebuilt(module, steps):
    """A graph of these steps, as a module."""
    graph, there, symbols, regions = torch.fx.Graph(), {}, {}, {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            there[node] = graph.node_copy(node, there.__getitem__)
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                symbols.setdefault(value.node.expr, there[node])
            elif isinstance(value, torch.Tensor) and node.op == "placeholder":
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        symbols.setdefault(size.node.expr, (there[node], axis))
    read = {n for step in steps if isinstance(step, Region) for n in step.inputs}
    for step in steps:
        if not isinstance(step, Region):
            there[step] = graph.node_copy(step, there.__getitem__)
            value = step.meta.get("val")
            if step in read and isinstance(value, torch.Tensor) and not is_view(step):
                there[step] = graph.call_function(_typed, (there[step], value.dtype))
            continue
        name = f"region_{len(regions)}"
        regions[name] = step
        sizes = [_size(graph, symbols, s) for s in step.symbols()]
        made = graph.call_module(name, (*[there[n] for n in step.inputs], *sizes))
        for k, node in enumerate(step.outputs):
            there[node] = made if len(step.outputs) == 1 else \
                graph.call_function(operator.getitem, (made, k))
    last = next(n for n in module.graph.nodes if n.op == "output")
    graph.node_copy(last, there.__getitem__)
    for step in regions.values():  # the graph that it was made of is needed no more
        step.forget()
    for name, value in module.named_parameters():
        regions.setdefault(name, value)
    for name, value in module.named_buffers():
        regions.setdefault(name, value)
    for node in graph.nodes:
        if node.op == "get_attr":
            regions.setdefault(node.target, getattr(module, node.target))
    return torch.fx.GraphModule(regions, graph)


def _typed(array, dtype):
    """What torch computed, in the type that the graph was written for: some functions that describe
    results say f32 where the operator's result is of 16 bits, as those of batch norm's statistics
    do on a GPU."""
    return array if array.dtype == dtype else array.to(dtype)


def _size(graph, symbols, symbol):
    """The number that a symbol stands for, in the graph."""
    found = symbols.get(symbol)
    if found is None:
        raise Uncovered(f"the size {symbol}")
    if isinstance(found, tuple):
        found = graph.call_function(torch.ops.aten.sym_size.int, found)
        symbols[symbol] = found
    return found


def _compiler(kind):
    return lambda module, inputs: make_boxed_func(compile_graph(module, kind))


_made: Any = None


def backend(module, inputs, **options):
    """The backend, for torch.compile(model, backend=tessera.torch.backend)."""
    global _made
    if _made is None:
        _made = aot_autograd(fw_compiler=_compiler("forward"), bw_compiler=_compiler("backward"),
                             inference_compiler=_compiler("inference"),
                             partition_fn=_recompute.partition,
                             decompositions=_decompositions())
    name_attention(module)
    return _made(module, inputs)
