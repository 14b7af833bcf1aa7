#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""host.py --tessera PROGRAM: what the host pays: launches, starts, hits in the cache.

From C, in bench/host: cuLaunchKernel beside tessera_launch of the same code; `tessera run` whose
kernel is in the cache beside the driver's own way to loaded code, process against process; the
cache's way from a key to the code. From Python, in microseconds a call: `add` on 8 elements,
so that nothing waits for memory: our C launch through ctypes, what is
prepared, a call with and without out=, of NumPy on the CPU and, where there is a GPU, of torch
there, beside cuLaunchKernel of an empty kernel's arguments (the driver's own cost) and torch.add.
Loops of 2000 calls, the device waited for between them; the median of 25, and the least."""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import ours

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n"
CALLS, ROUNDS = 2000, 25


def cost(call, wait):
    for _ in range(100):
        call()
    wait()
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
        wait()
    return statistics.median(times), min(times)


def show(name, call, wait):
    median, least = cost(call, wait)
    print(f"| {name} | {median:.2f} | {least:.2f} |", flush=True)
    return median


def rows(where, tessera, x, y, z, wait, stream=None):
    add = tessera.parse(TEXT).add
    launch = add.prepare(x, y, out=z)
    run, handle = tessera._abi.runtime().c.tessera_launch, launch._handle
    base = show(f"{where}: tessera_launch", lambda: run(handle, stream), wait)
    show(f"{where}: prepared", launch, wait)
    call = show(f"{where}: call, out=", lambda: add(x, y, out=z), wait)
    made = show(f"{where}: call", lambda: add(x, y), wait)
    print(f"| {where}: call over tessera_launch | {call - base:.2f} (out=) | {made - base:.2f} |")
    return launch


def driver_row(torch, tessera, x, y, z, wait):
    """cuLaunchKernel itself, through ctypes as well, of the kernel that we launch."""
    compiled = tessera.parse(TEXT).add.compile(x, y)
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    code = ctypes.c_char_p(compiled.emit("ptx"))
    if driver.cuModuleLoadData(ctypes.byref(module), code) != 0:
        return
    import json
    plan = json.loads(compiled.emit("launch"))["launches"][0]
    driver.cuModuleGetFunction(ctypes.byref(function), module, plan["symbol"].encode())
    values = [ctypes.c_uint64(t.data_ptr()) for t in (x, y, z)] + [ctypes.c_int64(8)] * 8
    args = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
    stream = torch.cuda.current_stream().cuda_stream
    show("GPU: cuLaunchKernel", lambda: launch(function, 1, 1, 1, plan["threads"], 1, 1, 0, stream,
                                               args, None), wait)


# ---- from C ----

def build(tessera, name, folder):
    """A program of bench/host on the library beside the one that is measured."""
    prefix = tessera.parents[1]
    headers = prefix / "include" if (prefix / "include/tessera").is_dir() else ROOT / "include"
    program = folder / name
    subprocess.run(["cc", "-O2", "-std=gnu17", f"-I{headers}", ROOT / f"bench/host/{name}.c", "-o",
                    program, f"-L{prefix}/lib", "-ltessera", f"-Wl,-rpath,{prefix}/lib", "-ldl"],
                   check=True)
    return program


def launches(tessera, folder):
    ran = subprocess.run([build(tessera, "launch", folder)], capture_output=True, text=True)
    if ran.returncode:
        print(f"| launches from C: {ran.stderr.strip()} | | |")
        return
    least = {}
    for line in ran.stdout.splitlines():
        name, median, low = line.split("|")
        least[name] = float(median)
        print(f"| C: {name} | {float(median) / 1e3:.2f} | {float(low) / 1e3:.2f} |")
    over = least["tessera_launch"] - least["cuLaunchKernel"]
    print(f"| C: tessera_launch over cuLaunchKernel (at most 1) | {over / 1e3:.2f} | |", flush=True)


def wall(command, environment):
    start = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


def starts(tessera, device, folder):
    """Milliseconds from nothing to an answer, where the cache has the code, turn by turn with the
    driver's own way."""
    environment = {**os.environ, "TESSERA_CACHE": str(folder / "cache")}
    tile, ptx = folder / "add.tile", folder / "add.ptx"
    tile.write_text(TEXT)
    run = [tessera, "run", tile, "--size", "N=1024", "--device", device]
    times = {"tessera run": [], "the driver's own": []}
    floor = None
    if device == "cuda":
        import json
        info = json.loads(subprocess.run([tessera, "doctor", "--json"], capture_output=True,
                                         text=True).stdout)
        target = next(f["device"]["target"] for f in info["findings"] if f["part"] == "cuda:0")
        options = [tile, "--target", target, "--size", "N=1024"]
        subprocess.run([tessera, "compile", *options, "--emit", "ptx", "-o", ptx], check=True)
        floor = [build(tessera, "loaded", folder), ptx, "add_0"]
    for _ in range(16):
        times["tessera run"].append(wall(run, environment))
        if floor:
            times["the driver's own"].append(wall(floor, environment))
    for name, found in times.items():
        if found:
            found = found[1:]  # the first one fills the cache
            print(f"| start on {device}, {name}, ms | {statistics.median(found):.2f} | "
                  f"{min(found):.2f} |")
    if floor:
        over = [a - b for a, b in zip(*times.values())][1:]
        print(f"| start on {device}, over the driver's own, ms (at most 5) | "
              f"{statistics.median(over):.2f} | {min(over):.2f} |", flush=True)


def hits(tessera, device, folder):
    program = build(tessera, "hit", folder)
    environment = {**os.environ, "TESSERA_CACHE": str(folder / "cache")}
    for name, types in (("add", []), ("softmax", ["bf16"]), ("matmul", ["bf16"])):
        ran = subprocess.run([program, ROOT / f"examples/{name}.tile", device, *types],
                             capture_output=True, text=True, env=environment)
        found = [float(line) for line in ran.stdout.split()]
        print(f"| hit in the cache, {name} on {device} (at most 200) | "
              + (f"{statistics.median(found):.0f} | {min(found):.0f} |" if found else
                 f"{ran.stderr.strip()} | |"), flush=True)


def from_c(tessera, cuda):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if cuda:
            launches(tessera, folder)
        for device in ("cpu", "cuda")[: 2 if cuda else 1]:
            starts(tessera, device, folder)
            hits(tessera, device, folder)


def has_cuda(tessera):
    try:
        return tessera.device("cuda").kind == "cuda"
    except tessera.UnavailableError:
        return False


def triton_row(torch, x, y, z, wait):
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return

    @triton.jit
    def add(x, y, z, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

    show("GPU: Triton, out given", lambda: add[(1,)](x, y, z, 8, block=128), wait)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=pathlib.Path)
    program = parser.parse_args().tessera.resolve()
    tessera = ours.use(program)
    print("| what | median µs | least µs |\n| --- | --- | --- |")
    from_c(program, has_cuda(tessera))
    import numpy as np
    rows("CPU, NumPy", tessera, *(np.ones(8, np.float32) for _ in range(3)), lambda: None)
    try:
        import torch
    except ImportError:
        return
    rows("CPU, torch", tessera, *(torch.ones(8) for _ in range(3)), lambda: None)
    if torch.cuda.is_available():
        x, y, z = (torch.ones(8, device="cuda") for _ in range(3))
        wait = torch.cuda.synchronize
        driver_row(torch, tessera, x, y, z, wait)
        rows("GPU, torch", tessera, x, y, z, wait, torch.cuda.current_stream().cuda_stream)
        triton_row(torch, x, y, z, wait)
        show("GPU: torch.add, out=", lambda: torch.add(x, y, out=z), wait)
        show("GPU: torch.add", lambda: torch.add(x, y), wait)


if __name__ == "__main__":
    main()
