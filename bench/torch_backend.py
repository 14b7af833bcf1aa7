#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_backend.py FILE...: problems of KernelBench (files with a Model, get_init_inputs and
get_inputs) through torch.compile(backend="tessera"). Each runs in a process of its own: forward in
f32 and bf16, backward in f32 and bf16, against eager. A line says for each check how far the result
is from that in f64, as a share of its norm, beside how far eager's is; and how many of the calls
ran in kernels. For machines that the real sizes are too much for, `--most N` halves the whole
numbers that a problem's file assigns until they are at most N, `--keep` names those that stay, and
`--set batch_size=2` assigns another one.
Prints `N passed, N failed` at the end; exit status 1 if one failed."""

import argparse
import ast
import copy
import multiprocessing
import pathlib
import sys
import time
import types

# A result may be this many times as far from f64's as eager's, or this share of its norm.
TIMES, LEAST = 4, {"f32": 2e-5, "bf16": 2e-3}


class Halved(ast.NodeTransformer):
    def __init__(self, most):
        self.most = most

    def visit_Constant(self, node):
        value = node.value
        if type(value) is not int:
            return node
        while value > self.most:
            value //= 2
        return ast.copy_location(ast.Constant(value), node)


def load(path, options):
    """The problem as a module."""
    given = dict(pair.split("=") for pair in options.set)
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        names = [getattr(t, "id", "") for t in statement.targets]
        if names[0] in given:
            statement.value = ast.Constant(int(given[names[0]]))
        elif options.most and names[0] not in options.keep:
            Halved(options.most).visit(statement)
    module = types.ModuleType(path.stem)
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), module.__dict__)
    return module


def run(model, inputs, backward, seed=7):
    """(results, gradients of the inputs and parameters)."""
    import torch
    torch.manual_seed(seed)
    inputs = [i.detach().clone().requires_grad_(backward and i.is_floating_point())
              if isinstance(i, torch.Tensor) else i for i in inputs]
    model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(backward):
        results = [t for t in torch.utils._pytree.tree_leaves(model(*inputs))
                   if isinstance(t, torch.Tensor)]
    gradients = []
    if backward:
        loss = sum((t.to(torch.float32) * torch.randn(t.shape).to(t.device)).mean()
                   for t in results if t.requires_grad)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        gradients = [t.grad for t in [*inputs, *model.parameters()]
                     if isinstance(t, torch.Tensor) and t.grad is not None]
    return [t.detach() for t in results], gradients


def distance(found, reference):
    """How far, as a share of the norm; the greatest of all. What is nothing beside the others, such
    as the gradient of a bias before a norm, is measured by them."""
    import torch
    worst, most = 0.0, max((_norm(other) for other in reference), default=0)
    for one, other in zip(found, reference):
        one, other = one.double().cpu(), other.double().cpu()
        same = (one == other) | (one.isnan() & other.isnan())
        scale = max(_norm(other), most * 1e-3) or 1.0
        worst = max(worst, torch.where(same, 0, one - other).norm().item() / scale)
    return worst if len(found) == len(reference) else float("inf")


def _norm(tensor):
    import torch
    return torch.where(tensor.isfinite(), tensor, 0).double().norm().item()


def problem(path, options, pipe):
    """In a process of its own: sends a line of text and whether all checks passed."""
    import torch
    import tessera.torch as backend
    torch._dynamo.config.allow_rnn = True
    torch._dynamo.config.recompile_limit = 64
    try:
        pipe.send(checks(path, options, torch, backend))
    except Exception as error:  # noqa: BLE001 (of torch's, of the problem's or ours)
        first = str(error).strip().split("\n")
        pipe.send((f"{type(error).__name__}: {' '.join(first)[:300]}", False))


def checks(path, options, torch, backend):
    module = load(path, options)
    torch.manual_seed(3)
    model = module.Model(*module.get_init_inputs()).to(options.device)
    inputs = [i.to(options.device) if isinstance(i, torch.Tensor) else i
              for i in module.get_inputs()]
    backward = not options.forward
    said, good, compared = [], True, 0
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        def typed(value, dtype=dtype):
            return value.to(dtype) if isinstance(value, torch.Tensor) and \
                value.is_floating_point() else value
        rounded = [typed(i) for i in inputs]
        own = copy.deepcopy(model).to(dtype)
        try:
            eager, eager_gradients = run(copy.deepcopy(own), rounded, backward)
        except Exception as error:  # noqa: BLE001
            said.append(f"{name}: eager fails: {str(error).splitlines()[0][:80]}")
            if not backward or "inplace operation" not in str(error):
                continue
            backward = False  # the model is none that can be trained
            eager, eager_gradients = run(copy.deepcopy(own), rounded, backward)
        try:
            exact, exact_gradients = run(copy.deepcopy(own).double(), [
                typed(i, torch.float64) for i in rounded], backward)
            again, _ = run(copy.deepcopy(own), rounded, False, seed=8)
            if not all(map(torch.equal, again, eager)):
                raise RuntimeError("random numbers differ by type")
        except Exception:  # noqa: BLE001 (what it draws or makes is of another type)
            exact, exact_gradients = eager, eager_gradients
        torch._dynamo.reset()
        begun = time.time()
        ours, our_gradients = run(torch.compile(copy.deepcopy(own), backend="tessera"), rounded,
                                  backward)
        seconds = time.time() - begun
        compared += 1
        for what, mine, theirs, reference in (
                ("", ours, eager, exact), (" grad", our_gradients, eager_gradients,
                                           exact_gradients)):
            far, usual = distance(mine, reference), distance(theirs, reference)
            bound = max(TIMES * usual, LEAST[name] * (50 if theirs is reference else 1))
            ok = far <= bound
            good = good and ok
            if mine or theirs:
                said.append(f"{name}{what} {far:.1e} ({usual:.1e}){'' if ok else ' WRONG'}")
        said.append(f"{seconds:.0f} s")
    found = backend.report()
    said.insert(0, f"{found.share:.1%} of {found.calls}")
    if options.verbose:
        print(found)
    reasons = {}
    for graph in found:
        for call in graph.torch:
            reasons[call] = reasons.get(call, 0) + 1
    why = "".join(f"\n      torch: {call} × {n}: {reason}"
                  for (call, reason), n in reasons.items())
    return ", ".join(said) + why, good and compared > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--keep", nargs="*", default=[])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--forward", action="store_true", help="no gradients")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for a problem")
    parser.add_argument("--verbose", action="store_true", help="print the reports")
    options = parser.parse_args()
    passed = failed = 0
    context = multiprocessing.get_context("spawn")
    for path in options.files:
        here, there = context.Pipe()
        child = context.Process(target=problem, args=(path, options, there))
        child.start()
        there.close()
        try:
            line, good = here.recv() if here.poll(options.timeout) else ("no answer in time", False)
        except EOFError:
            line, good = "the process ended", False
        child.terminate()
        child.join()
        print(f"{path.parent.name}/{path.stem}: {line}", flush=True)
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
