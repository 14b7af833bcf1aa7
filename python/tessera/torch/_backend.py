# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="tessera"): graphs of ATen calls, forward and backward as
AOTAutograd has them, become kernels, a region each; the rest runs in torch."""

import importlib.util
import operator
import os
import threading
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


class Part:
    """Calls that are to be one kernel: `region`, which threads of the library compile, or `why` it
    cannot be one. whole: the calls that it was a part of; after: views that torch makes of what
    these compute."""

    def __init__(self, nodes, whole, after):
        self.nodes, self.whole, self.after, self.region = nodes, whole, after, None
        self._try(lambda: setattr(self, "region", Region(nodes, outputs_of(nodes, whole, after))))

    def finish(self):
        """Waits for the kernel: is there one?"""
        return self.region is not None and self._try(self.region.finish)

    def _try(self, act):
        try:
            act()
            return True
        except Uncovered as problem:
            self.why = str(problem)
        except Error as problem:
            if getattr(problem, "edited", False):  # the user's own text
                raise
            self.why = "refused: " + str(problem).strip().split("\n")[0]
        return False

    def halves(self):
        """Parts for what is no kernel; none of one call."""
        places = [i for i, node in enumerate(self.nodes)  # parts of a tuple stay behind it
                  if i and node.target is not operator.getitem]
        if not places:
            return []
        middle = min(places, key=lambda i: abs(2 * i - len(self.nodes)))
        return [Part(nodes, self.whole, self.after)
                for nodes in (self.nodes[:middle], self.nodes[middle:])]

    def results(self):
        """The regions of one call of several results, one each; none if it has one, or one of them
        is refused."""
        wanted = outputs_of(self.nodes, self.whole, self.after)
        if len(wanted) < 2:
            return []
        try:
            parts = [Region([self.nodes[0], *[n for n in self.nodes[1:] if n is part]], [part])
                     for part in wanted]
            for region in parts:
                region.finish()
            return parts
        except (Uncovered, Error):
            return []


class Steps:
    """What replaces a graph: kernels, and calls that torch runs."""

    def __init__(self, kind):
        self.report, self.steps, self._begun = _report.Graph(kind), [], []

    def region(self, nodes):
        """Begins to compile the kernel of a region."""
        kernel, after = split_views(nodes)
        if kernel:
            self._begun.append((Part(kernel, set(kernel), set(after)), None))
        for node in after:
            self._begun.append((node, None))

    def torch(self, node, why):
        self._begun.append((node, why))

    def finish(self):
        """Waits for all kernels."""
        for step, why in self._begun:
            if isinstance(step, Part):
                self._end(step)
            else:
                self._torch(step, why)
        self._begun = []

    def _end(self, part):
        """A part as a kernel, or as those of its halves."""
        if part.finish():
            self._add(part.region, part.nodes)
            return
        halves = part.halves()
        for half in halves:
            self._end(half)
        if halves:
            return
        regions = part.results()
        for region in regions:
            self._add(region, part.nodes[:1] if region is regions[0] else [])
        if not regions:
            for node in part.nodes:
                self._torch(node, part.why)

    def _add(self, region, nodes):
        self.steps.append(region)
        self.report.kernels.append((region.kernel.name, region.path,
                                    [name_of(n) for n in nodes if counts(n)], region.edited))

    def _torch(self, node, why):
        """Of a view there is no reason to give."""
        self.steps.append(node)
        if why is None or is_view(node):
            self.report.views += counts(node)
        elif counts(node):
            self.report.torch.append((name_of(node), why))


class Compiled:
    """A function that computes what a graph does. Its kernels are compiled while torch goes on;
    the first call, or a look at the report, waits for them."""

    def __init__(self, module, steps):
        self._module, self._steps, self._run = module, steps, None
        self._lock = threading.Lock()
        steps.report.waits_for(self.finish)

    def finish(self):
        with self._lock:
            if self._run is None:
                self._steps.finish()
                self._run = _rebuilt(self._module, self._steps.steps)
                self._module = self._steps = None

    def __call__(self, *args):
        if self._run is None:
            self.finish()
        return self._run(*args)


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
    return Compiled(module, steps)


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


def _name_assembler():
    """Names the assembler for NVIDIA's GPUs that torch's Triton has, unless the environment names
    one: threads then assemble all kernels of a graph at once, while the driver would do so when it
    loads them, one after another."""
    triton = importlib.util.find_spec("triton") if torch.cuda.is_available() else None
    if triton is None or not triton.submodule_search_locations:
        return
    name = "ptxas-blackwell" if torch.cuda.get_device_capability() >= (10, 0) else "ptxas"
    path = os.path.join(triton.submodule_search_locations[0], "backends", "nvidia", "bin", name)
    if os.access(path, os.X_OK):
        os.environ.setdefault("TESSERA_PTXAS", path)


_made: Any = None


def backend(module, inputs, **options):
    """The backend, for torch.compile(model, backend=tessera.torch.backend)."""
    global _made
    if _made is None:
        _name_assembler()
        _made = aot_autograd(fw_compiler=_compiler("forward"), bw_compiler=_compiler("backward"),
                             inference_compiler=_compiler("inference"),
                             partition_fn=_recompute.partition,
                             decompositions=_decompositions())
    name_attention(module)
    return _made(module, inputs)
