# SPDX-License-Identifier: Apache-2.0
"""Which calls of a graph are a region. A call that is not covered runs in torch, as does what needs
its results; everything before and after it that depends on no other such call stays together. Then
these stretches are cut: of a region there is one convolution or product with weights, with what is
computed of its result; products of batches (attention) stay together. Layers that are alike are so
the same text, and compiled once."""

import operator

import torch

from . import (_attention, _gathers, _pointwise, _products, _reductions,  # noqa: F401
               _views, _windows)
from ._products import BATCHED, HEAVY
from ._views import is_view
from ._writer import Uncovered, Writer, name_of

MOST_CALLS = 48  # of a region: of the longest chains the compiler's time grows faster than they do
MOST_BATCHED = 8  # products of batches in a region
MOST_INPUTS = 20  # arrays that a region reads; of more, LLVM's time grows faster than they do
MOST_PARTS = 4  # of a concatenation that is read by other calls of its region: each element chooses
RANDOM = ("rand", "bernoulli", "dropout", "normal", "multinomial", "poisson", "exponential")


def is_call(node):
    """Does it compute an array, or a part of what one computes? (Sizes are numbers of Python's.)"""
    if node.op != "call_function":
        return False
    return not isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool,
                                                 int, float, bool))


def counts(node):
    """Is it one of the calls that the report counts? Parts of tuples are none."""
    return is_call(node) and node.target is not operator.getitem


def refusal(node):
    """Why the call cannot be in a kernel; None: it can."""
    if node.target is operator.getitem:
        return None if isinstance(node.args[0], torch.fx.Node) and \
            refusal(node.args[0]) is None else "a part of what runs in torch"
    if any(word in name_of(node).split(".")[1] for word in RANDOM if "." in name_of(node)):
        return "random numbers are those of torch's generator"
    try:
        tensors = [t for t in _tensors(node.meta.get("val"))]
        if not tensors:
            return "no text for it"
        if len({t.device for t in tensors}) > 1 or tensors[0].device.type == "meta":
            return "its devices"
        Writer().call(node)
    except Uncovered as problem:
        return str(problem)
    return None


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for part in value for t in _tensors(part)]
    return []


def device_of(node):
    """Where the call's result lies; of a part, where the whole does."""
    found = _tensors(node.meta.get("val"))
    return found[0].device if found else None


def partition(graph):
    """(regions, reasons): lists of nodes, in an order in which they can run, each a region or one
    call of torch's; and why, by call of torch's. Placeholders and the output are in none."""
    reasons, levels = {}, {}
    inside = set()
    last_random = 0
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            levels[node] = 0
            continue
        if node.op == "output":
            continue
        reason = refusal(node) if is_call(node) else "a size"
        ours = reason is None
        level = 0
        for other in node.all_input_nodes:
            level = max(level, levels[other] + (other in inside and not ours))
        if not ours:
            reasons[node] = reason
            if reason.startswith("random"):  # they draw in the program's order
                level = last_random = max(level, last_random)
        else:
            inside.add(node)
        levels[node] = level
    return list(_groups(graph, levels, inside)), reasons


def _groups(graph, levels, inside):
    place = {}
    for i, node in enumerate(graph.nodes):  # a part of a tuple stands behind it
        whole = node.args[0] if node.target is operator.getitem and node in inside else None
        place[node] = (place[whole][0], i) if whole is not None else (i, i)
    # Of a level first what torch runs, which depends on no region of that level.
    order = sorted((n for n in graph.nodes if n in levels and n.op not in
                    ("placeholder", "get_attr")), key=lambda n: (levels[n], n in inside, place[n]))
    group, read, weight, level = [], set(), 0, None
    for node in order:
        if node not in inside:
            if group:
                yield group
                group, read, weight = [], set(), 0
            yield [node]
            continue
        heavy = weight_of(node)
        new = {n for n in node.all_input_nodes if n not in group}
        full = len(group) >= MOST_CALLS or weight + heavy > MOST_BATCHED or \
            len(read | new) > MOST_INPUTS or joins_many(group[-1] if group else None)
        # A part of a tuple stays with what it is a part of.
        apart = group and (levels[node] != level or device_of(node) != device_of(group[0]))
        if group and ((full and node.target is not operator.getitem) or apart):
            yield group
            group, read, weight = [], set(), 0
            new = set(node.all_input_nodes)
        group.append(node)
        read |= new
        weight += heavy
        level = levels[node]
    if group:
        yield group


def weight_of(node):
    """As a share of the products that a region has room for."""
    name = name_of(node)
    return MOST_BATCHED if name in HEAVY else 1 if name in BATCHED else 0


def joins_many(node):
    return node is not None and name_of(node) in ("aten.cat.default", "aten.stack.default") and \
        len(node.args[0]) > MOST_PARTS


def outputs_of(nodes, whole, after):
    """What others need of these nodes, a part of what a region computes as a whole; the views
    `after` it are made by torch of what is needed for them."""
    members = set(nodes)

    def leaves(node, user):
        if node in after:  # a later part of the region may need it before torch makes it
            return user in whole and user not in members
        return user not in members or user in after
    return [n for n in nodes if any(leaves(n, user) for user in n.users)]


def split_views(region):
    """(what the region computes, the views that torch makes of it and of its inputs): a result
    that is a view is made by torch, without a copy."""
    members, after = set(region), []
    for node in reversed(region):
        wanted = any(user not in members or user in after for user in node.users)
        if wanted and (is_view(node) or _is_view_part(node)):
            after.append(node)
            if _is_view_part(node) and node.args[0] not in after:
                after.append(node.args[0])
    after = [n for n in region if n in set(after)]
    outside = {u for n in region for u in n.users if u not in members}
    kept = set()
    for node in reversed(region):  # what nothing but those views needs is no part of the kernel
        needed = any(u in kept for u in node.users) or \
            (node not in after and any(u in outside or u in after for u in node.users))
        if needed:
            kept.add(node)
    return [n for n in region if n in kept], after


def _is_view_part(node):
    return node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node) and \
        is_view(node.args[0])
