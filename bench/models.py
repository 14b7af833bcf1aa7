#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""models.py FILE...: how fast whole networks run through torch.compile(backend="tessera").

Each FILE has a Model, get_init_inputs and get_inputs, as KernelBench's problems of level 3 do.
Eager torch, torch.compile with its defaults and ours run the same network in bf16, each round one
after another with a cold L2; a line tells the medians of the rounds, the seconds until the first
result of either compiler, ours over eager's and torch.compile's time, and how far ours is from
f32's result, beside eager's distance. `--train` times forward and backward together. `--jobs N`
compiles so many networks at once; one at a time is timed. The last line has the geometric means."""

import argparse
import contextlib
import copy
import fcntl
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

from torch_backend import distance, load


@contextlib.contextmanager
def alone(path):
    """While this process alone uses the device."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def step(model, inputs, train, torch):
    if not train:
        with torch.no_grad():
            return model(*inputs)
    result = model(*inputs)
    leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    sum(t.float().square().mean() for t in leaves if t.requires_grad).backward()
    model.zero_grad(set_to_none=True)
    return result


def measure(path, options, pipe):
    """In a process of its own: sends a row."""
    row = {"name": f"{path.parent.name}/{path.stem}"}
    try:
        measured(path, options, row)
    except Exception as error:  # noqa: BLE001 (of torch's, of the problem's or ours)
        row["problem"] = f"{type(error).__name__}: " + " ".join(str(error).split("\n"))[:300]
    pipe.send(row)


def measured(path, options, row):
    import torch

    import tessera.torch as backend

    module = load(path, options)
    torch.manual_seed(3)
    model = module.Model(*module.get_init_inputs()).to(options.device).eval()
    inputs = [i.to(options.device) if isinstance(i, torch.Tensor) else i
              for i in module.get_inputs()]

    def typed(value, dtype=torch.bfloat16):
        floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if floats else value

    with alone(options.lock):  # of memory: the largest need all of it
        exact = [] if options.train else outputs(step(model, inputs, False, torch), torch)
    model, inputs = model.to(torch.bfloat16), [typed(i) for i in inputs]
    rows = {"eager": model}
    for name, made in (("compile", {}), ("ours", {"backend": "tessera"})):
        if name == "compile" and not options.compile:
            continue
        torch._dynamo.reset()
        begun = time.perf_counter()
        candidate = torch.compile(copy.deepcopy(model), **made)
        try:
            result = step(candidate, inputs, options.train, torch)
        except Exception as error:  # noqa: BLE001
            row[f"{name}_problem"] = str(error).strip().split("\n")[0][:200]
            continue
        torch.cuda.synchronize()
        row[f"{name}_seconds"] = time.perf_counter() - begun
        rows[name] = candidate
        if name == "ours" and exact:
            row["distance"] = distance(outputs(result, torch), exact)
            row["usual"] = distance(outputs(step(model, inputs, False, torch), torch), exact)
    row["share"] = backend.report().share
    flushed = torch.empty(100 << 20, dtype=torch.uint8, device=options.device)
    times = {name: [] for name in rows}
    with alone(options.lock):
        for _ in range(3):
            for candidate in rows.values():
                step(candidate, inputs, options.train, torch)
        for _ in range(options.rounds):
            for name, candidate in rows.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flushed.zero_()
                torch.cuda.synchronize()
                begin.record()
                step(candidate, inputs, options.train, torch)
                end.record()
                torch.cuda.synchronize()
                times[name].append(begin.elapsed_time(end))
    for name, values in times.items():
        row[name] = statistics.median(values)


def outputs(result, torch):
    leaves = torch.utils._pytree.tree_leaves(result)
    return [t.detach().float() for t in leaves if isinstance(t, torch.Tensor)]


def show(row):
    if "ours" not in row:
        return f"{row['name']}: {row.get('problem') or row.get('ours_problem')}"
    text = f"{row['name']:40} eager {row['eager']:8.3f} ms"
    text += f" x{row['eager'] / row['ours']:.2f}"
    if "compile" in row:
        text += f"  compile {row['compile']:8.3f} x{row['compile'] / row['ours']:.2f}"
        text += f" in {row['compile_seconds']:.0f} s"
    text += f"  ours {row['ours']:8.3f} in {row['ours_seconds']:.0f} s, {row['share']:.1%}"
    if "distance" in row:
        text += f", error {row['distance']:.1e} ({row['usual']:.1e})"
    return text


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=0, help="as in torch_backend.py")
    parser.add_argument("--keep", nargs="*", default=[])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=240, help="seconds for a network")
    parser.add_argument("--seconds", type=float, default=1e9, help="none begins after so many")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.lock = os.path.join(tempfile.mkdtemp(), "device")
    context = multiprocessing.get_context("spawn")
    waiting, running, rows, begun = list(options.files), [], [], time.time()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            if time.time() - begun > options.seconds:
                print("# no time:", *[p.stem for p in waiting], flush=True)
                waiting.clear()
                break
            path = waiting.pop(0)
            here, there = context.Pipe()
            child = context.Process(target=measure, args=(path, options, there))
            child.start()
            there.close()
            running.append((path, child, here, time.time()))
        for entry in list(running):
            path, child, here, since = entry
            late = time.time() - since > options.timeout
            if not (late or here.poll(0.2)):
                continue
            try:
                row = here.recv() if here.poll() else {"problem": "no answer in time"}
            except EOFError:
                row = {"problem": "the process ended"}
            row.setdefault("name", f"{path.parent.name}/{path.stem}")
            child.terminate()
            child.join()
            running.remove(entry)
            rows.append(row)
            print(show(row), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    done = [r for r in rows if "ours" in r]
    print(f"# {len(done)} of {len(options.files)}: eager/ours "
          f"{mean([r['eager'] / r['ours'] for r in done]):.3f}, compile/ours "
          f"{mean([r['compile'] / r['ours'] for r in done if 'compile' in r]):.3f}")
    return 0 if len(done) == len(options.files) else 1


if __name__ == "__main__":
    sys.exit(main())
