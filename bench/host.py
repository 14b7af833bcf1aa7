#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""host.py --tessera PROGRAM: what launching costs the host, in microseconds a call.

`add` on 8 elements, so that nothing waits for memory: our C launch through ctypes, what is
prepared, a call with and without out=, of NumPy on the CPU and, where there is a GPU, of torch
there, beside cuLaunchKernel of an empty kernel's arguments (the driver's own cost) and torch.add.
Loops of 2000 calls, the device waited for between them; the median of 25, and the least."""

import argparse
import ctypes
import pathlib
import statistics
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=pathlib.Path)
    tessera = ours.use(parser.parse_args().tessera)
    print("| what | median µs | least µs |\n| --- | --- | --- |")
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
        show("GPU: torch.add, out=", lambda: torch.add(x, y, out=z), wait)
        show("GPU: torch.add", lambda: torch.add(x, y), wait)


if __name__ == "__main__":
    main()
