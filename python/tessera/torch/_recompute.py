# SPDX-License-Identifier: Apache-2.0
"""Which values of the forward pass are kept for the backward pass. torch's partitioner keeps what
is least to keep and cheap to compute again; it never computes a product again. Products of batches
that are larger than what they are made of, the scores of attention, are computed again here, with
what follows from them element by element: a kernel has them in registers, while kept they are read
and written. So is what is made of no array, as a triangle is: its kernel knows then where it is
0."""

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

from ._products import BATCHED, HEAVY
from ._region import hint
from ._writer import Uncovered, name_of


def _elements(node):
    """How many there are of a result; None: it is no array, or its size depends on data."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    count = 1
    for size in value.shape:
        try:
            count *= hint(size)
        except Uncovered:
            return None
    return count


def _is_random(node):
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _grows(node):
    """Is it a product of batches that is larger than its factors together?"""
    counts = [_elements(n) for n in (node, *node.args[-2:])]
    return None not in counts and counts[0] > counts[1] + counts[2]


def _mark(graph):
    """Of the forward pass: such products, what has as many elements and is made of them, and what
    is made of nothing."""
    backward, again, of_nothing = set(), set(), set()
    for node in graph.nodes:
        if (node.op == "placeholder" and node.name.startswith("tangents_")) or \
                any(n in backward for n in node.all_input_nodes):
            backward.add(node)
        elif node.op == "call_function":
            name = name_of(node)
            made = all(n in of_nothing for n in node.all_input_nodes)
            if made and not _is_random(node) and _elements(node) is not None:
                of_nothing.add(node)
                again.add(node)
                continue
            follows = name not in BATCHED | HEAVY and not _is_random(node) and any(
                n in again and _elements(n) == _elements(node) for n in node.all_input_nodes)
            if follows or (name in BATCHED and _grows(node)):
                again.add(node)
    for node in again:
        node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE


def partition(module, inputs, **named):
    """The graphs of the forward and the backward pass, of one of both."""
    _mark(module.graph)
    return min_cut_rematerialization_partition(module, inputs, **named)
