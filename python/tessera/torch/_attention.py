# SPDX-License-Identifier: Apache-2.0
"""Attention as one call. torch.compile hands `scaled_dot_product_attention` on either as calls of
a library's kernels, which no kernel of ours can join, or as products of f32. `name_attention` makes
it an operator of its own instead, whose gradient is another one: of the scores it keeps the
logarithm of each row's sum. The text of either says what attention is; the compiler makes loops
over tiles of it."""

import math
import operator

import torch
from torch.nn import functional

from ._writer import TYPES, Uncovered, cast, emits, literal, negative

NAMES = ("tessera_torch.attention.default", "tessera_torch.attention_backward.default")
_CALLED = {functional.scaled_dot_product_attention,
           getattr(torch._C._nn, "scaled_dot_product_attention", None)}


# ---- the operators, as torch runs them by itself ----

def _heads_inside(array):
    """The array in memory with the heads of a place side by side, as models put them together."""
    inside = array.dim() > 2
    return array.transpose(-3, -2).contiguous().transpose(-3, -2) if inside else array.contiguous()


def _plain(q, k, v, mask, causal, scale):
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale,
        **({"enable_gqa": True} if q.dim() == 4 and q.shape[1] != k.shape[1] else {}))


def _scores(q, k, mask, causal, scale):
    """In f32, of as many heads everywhere."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if k.shape[-3:-2] != q.shape[-3:-2]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.float() @ k.float().mT * scale
    if mask is not None:
        return s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
    return s.masked_fill(~seen, -math.inf) if causal else s


@torch.library.custom_op("tessera_torch::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: "torch.Tensor | None",
              causal: bool, scale: "float | None") -> "tuple[torch.Tensor, torch.Tensor]":
    """softmax(q k' scale) v for each head: q [B, H, S, D], k [B, G, L, D], v [B, G, L, E]: [B, H,
    S, E] of q's type; with H = G also without B, or without both. A scale of None is 1 / sqrt(D).
    mask: None, or what stretches to [B, H, S, L]; of bool, where a key counts, else added. Causal:
    query i sees keys up to i. A row without keys is 0. The second result, f32 [B, H, S], is the
    logarithm of each row's sum of exponentials, and inf for a row without keys."""
    logs = _scores(q, k, mask, causal, scale).logsumexp(-1)
    return (_heads_inside(_plain(q, k, v, mask, causal, scale)),
            torch.where(logs == -math.inf, math.inf, logs))


@torch.library.custom_op("tessera_torch::attention_backward", mutates_args=())
def attention_backward(gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                       mask: "torch.Tensor | None", made: torch.Tensor, logs: torch.Tensor,
                       causal: bool, scale: "float | None"
                       ) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """The gradients of q, k and v, from both results of `attention`."""
    kinds, groups = (q.dtype, k.dtype, v.dtype), k.shape[-3:-2]
    s = _scores(q, k, mask, causal, scale)
    q, k, v, g = q.float(), k.float(), v.float(), gradient.float()
    if groups != q.shape[-3:-2]:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p = (s - logs[..., None]).exp()
    d_p = g @ v.mT
    d_s = p * (d_p - (g * made.float()).sum(-1, keepdim=True)) * scale
    made = [d_s @ k, d_s.mT @ q, p.mT @ g]
    if groups != q.shape[-3:-2]:
        made[1:] = (t.unflatten(1, (*groups, -1)).sum(2) for t in made[1:])
    d_q, d_k, d_v = (_heads_inside(t.to(kind)) for t, kind in zip(made, kinds))
    return d_q, d_k, d_v


@attention.register_fake
def _(q, k, v, mask, causal, scale):
    return (_heads_inside(q.new_empty((*q.shape[:-1], v.shape[-1]))),
            q.new_empty(q.shape[:-1], dtype=torch.float32))


@attention_backward.register_fake
def _(gradient, q, k, v, mask, made, logs, causal, scale):
    return tuple(_heads_inside(t.new_empty(t.shape)) for t in (q, k, v))


def _keep(ctx, inputs, output):
    q, k, v, mask, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, mask, *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, gradient, _):
    return (*attention_backward(gradient, *ctx.saved_tensors, ctx.causal, ctx.scale),
            None, None, None)


attention.register_autograd(_backward, setup_context=_keep)


# ---- in graphs ----

def _arguments(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
    return q, k, v, attn_mask, dropout_p, is_causal, scale


def _named(node):
    """The operands of `attention` for a call in torch's graph; None: it stays as it is."""
    try:
        q, k, v, mask, dropout, causal, scale = _arguments(*node.args, **node.kwargs)
        tensors = [n.meta["example_value"] for n in (q, k, v)]
        result = node.meta["example_value"]
        masked = mask.meta["example_value"] if mask is not None else None
    except (TypeError, AttributeError, KeyError):
        return None
    rank = result.dim()
    plain = dropout == 0 and isinstance(causal, bool) and \
        (scale is None or isinstance(scale, (int, float)))
    alike = 2 <= rank <= 4 and all(t.dim() == rank and t.dtype == result.dtype
                                   for t in tensors) and result.dtype != torch.float64
    if not plain or not alike or (masked is not None and (
            masked.requires_grad or causal or not 2 <= masked.dim() <= rank)):
        return None
    (*batch, heads), (*batches, groups) = ([1, *t.shape[:-2]] for t in tensors[:2])
    shared = rank == 4 and isinstance(heads, int) and isinstance(groups, int) and \
        groups and heads % groups == 0
    if batch != batches or tensors[1].shape[:-2] != tensors[2].shape[:-2] or \
            not (shared or heads == groups):
        return None
    return q, k, v, mask, causal, scale if scale is None else float(scale)


def name_attention(module):
    """Replaces attention in torch's graphs, before they are traced, by the operator."""
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        changed = False
        for node in part.graph.nodes:
            operands = _named(node) if node.op == "call_function" and node.target in _CALLED \
                else None
            if operands:
                with part.graph.inserting_before(node):
                    both = part.graph.call_function(torch.ops.tessera_torch.attention.default,
                                                    operands)
                node.target, node.args, node.kwargs = operator.getitem, (both, 0), {}
                changed = True
        if changed:
            part.recompile()


# ---- the text ----

class _Attention:
    """What the texts of the forward and the backward pass share."""

    def __init__(self, writer, q, k, v, mask, causal, scale):
        self.q, self.k, self.v = writer.tensor(q), writer.tensor(k), writer.tensor(v)
        self.mask = writer.tensor(mask) if mask is not None else None
        self.causal, self.scale, self.dtype = causal, scale, self.q.dtype
        if self.mask is not None and self.mask.dtype not in ("bool", *TYPES.values()):
            raise Uncovered("the mask's type")
        self.rank = self.q.rank
        self.groups = self.k.dims[1] if self.rank == 4 and self.k.dims[1] != self.q.dims[1] else \
            None

    def heads(self, writer, value, what):
        """Keys or values of each head, where heads share them."""
        if self.groups is None:
            return value
        shared = int(self.q.dims[1]) // int(self.groups)
        return writer.by_index(what, [value.dims[0], self.q.dims[1], *value.dims[2:]],
                               lambda b, h, j, d: f"{value.text}[{b}, {h} // {shared}, {j}, {d}]",
                               value.dtype)

    def scores(self, writer):
        """(what is computed of q and k, the condition under which a key counts; "": always)"""
        scale = "(1 / sqrt(f32(D)))" if self.scale is None else \
            negative(literal(self.scale, "f32"))
        scores = f"(q @ k.T) * {scale}"
        if self.mask is not None and self.mask.dtype == "bool":
            return scores, scale, "m"
        if self.mask is not None:
            return f"{scores} + f32(m)", scale, ""
        return scores, scale, "iota(S)[:, None] >= iota(L)[None, :]" if self.causal else ""

    def exp(self):
        """Weights of 16 bits need no exact exponentials."""
        return "exp" if self.dtype == "f32" else "fast.exp"

    def forward(self, writer, name):
        """Writes attention of as many heads everywhere. A row of which all keys are masked is 0."""
        axis = self.rank - 1
        scores, _, counts = self.scores(writer)
        lines = [f"let s = where({counts}, {scores}, -inf)" if counts else f"let s = {scores}",
                 f"let top = max(s, axis={axis})",
                 f"let e = {self.exp()}(s - top)",
                 f"let total = sum(e, axis={axis})"]
        rows = ", ".join([":"] * axis + ["0"])
        weights = "where(top > -inf, e / total, 0)" if self.mask is not None else "e / total"
        made = cast(f"{cast(weights, 'f32', self.dtype)} @ v", "f32", self.dtype)
        lines.append(f"return ({made}, where(top > -inf, top + log(total), inf)[{rows}])")
        self._write(writer, name, lines, "")

    def backward(self, writer, name):
        """Writes its gradients, from the result `o`, the logarithms `l` of the rows' sums, which
        are inf where all keys are masked, and the gradient `g` of the result."""
        axis, order = self.rank - 1, list(range(self.rank))
        order[-2:] = order[:-3:-1]
        scores, scale, counts = self.scores(writer)
        rows = ", ".join([":"] * axis + ["None"])
        weights = f"{self.exp()}({scores} - l[{rows}])"
        lines = [f"let p = where({counts}, {weights}, 0)" if counts else f"let p = {weights}",
                 f"let delta = sum(f32(g) * f32(o), axis={axis})",
                 f"let d = {cast('p * (g @ v.T - delta)', 'f32', self.dtype)}",
                 f"let d_q = {cast(f'(d @ k) * {scale}', 'f32', self.dtype)}",
                 f"let d_k = {cast(f'(permute(d, {order}) @ q) * {scale}', 'f32', self.dtype)}",
                 f"let w = permute({cast('p', 'f32', self.dtype)}, {order})",
                 f"let d_v = {cast('w @ g', 'f32', self.dtype)}",
                 "return (d_q, d_k, d_v)"]
        self._write(writer, name, lines, f", o: {self.dtype}[{self._outer()}S, E], "
                    f"l: f32[{self._outer()}S], g: {self.dtype}[{self._outer()}S, E]")

    def _outer(self):
        return "".join(f"{name}, " for name in ["B", "H"][4 - self.rank:])

    def _write(self, writer, name, lines, more):
        body = "".join(f"    {line}\n" for line in lines)
        outer = self._outer()
        parameters = f"q: {self.dtype}[{outer}S, D], k: {self.dtype}[{outer}L, D], " \
            f"v: {self.dtype}[{outer}L, E]" + (", m" if self.mask is not None else "")
        writer.function(name, f"fn {name}({parameters}{more}) {{\n{body}}}\n")

    def arguments(self, writer):
        k, v = self.heads(writer, self.k, "keys"), self.heads(writer, self.v, "values")
        mask = [self.mask.text] if self.mask is not None else []
        return ", ".join([self.q.text, k.text, v.text, *mask])


@emits("tessera_torch.attention.default")
def _attention(writer, node, q, k, v, mask, causal, scale):
    made = _Attention(writer, q, k, v, mask, causal, scale)
    name = f"attend_{len(writer.functions)}"
    made.forward(writer, name)
    return tuple(writer.let_several(f"{name}({made.arguments(writer)})", ["attended", "logs"]))


@emits("tessera_torch.attention_backward.default")
def _attention_backward(writer, node, gradient, q, k, v, mask, result, logs, causal, scale):
    made = _Attention(writer, q, k, v, mask, causal, scale)
    name = f"attend_{len(writer.functions)}"
    made.backward(writer, name)
    rest = ", ".join(writer.tensor(n).text for n in (result, logs, gradient))
    results = writer.let_several(f"{name}({made.arguments(writer)}, {rest})",
                                 ["d_q", "d_k", "d_v"])
    parts = [results[0]]
    for text, value in zip(results[1:3], (made.k, made.v)):
        if made.groups is not None:
            shared = int(made.q.dims[1]) // int(made.groups)
            dims = [value.dims[0], value.dims[1], str(shared), *value.dims[2:]]
            summed = f"sum(f32(reshape({text}, [{', '.join(dims)}])), axis=2)[:, :, 0, :, :]"
            text = cast(summed, "f32", value.dtype)
        parts.append(text)
    return tuple(parts)
