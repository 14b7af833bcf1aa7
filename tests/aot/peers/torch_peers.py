#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_peers.py LIBRARY: copies between two GPUs, tessera_copy of the library (libtessera-launch
or libtessera) beside torch's copy_, on the same tensors in the same process: GB/s of both, the
median of interleaved rounds, in both directions. Ours come first, before torch has enabled
anything. Fails where what arrived is wrong, or ours has less than 0.9 of torch's speed. Prints
`N passed, N failed`."""

import ctypes
import statistics
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

import torch

MEBIBYTES = (1, 16, 64, 1024)
ROUNDS = 9
ABI = 1


class Failure(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char_p)]


class Library:
    """What is used of <tessera/launch.h>."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.tessera_context_open.argtypes = [c_int, c_void_p, c_void_p]
        self.c.tessera_device_open.argtypes = [c_void_p, c_char_p, c_int, c_void_p]
        self.c.tessera_copy.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]
        self.c.tessera_error.argtypes = [c_void_p]
        self.c.tessera_error.restype = ctypes.POINTER(Failure)
        self.context = c_void_p()
        self.check(self.c.tessera_context_open(ABI, None, byref(self.context)))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.tessera_error(self.context).contents.message.decode())

    def open(self, ordinal):
        device = c_void_p()
        self.check(self.c.tessera_device_open(self.context, b"cuda", ordinal, byref(device)))
        return device

    def copier(self, to_device, to, from_device, source, stream):
        arguments = (to_device, to.data_ptr(), from_device, source.data_ptr(), source.nbytes,
                     stream.cuda_stream)
        return lambda: self.check(self.c.tessera_copy(*arguments))


def speed(copy, bytes_, stream):
    """GB/s of copies back to back in the stream."""
    times = max(1, (1 << 30) // bytes_)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(stream.device), torch.cuda.stream(stream):
        begin.record()
        for _ in range(times):
            copy()
        end.record()
    end.synchronize()
    return times * bytes_ / begin.elapsed_time(end) * 1e-6


def torch_copier(to, source, to_stream, from_stream):
    """torch copies in the current stream of the source's device, and orders the other's by it."""
    def copy():
        with torch.cuda.device(source.device), torch.cuda.stream(from_stream):
            to.copy_(source, non_blocking=True)
    return copy


def compare(library, devices, streams, to, mebibytes):
    """True: what arrived is right, and fast."""
    start, n = 1 - to, mebibytes << 18
    source = torch.arange(n, dtype=torch.float32, device=f"cuda:{start}")
    ours, theirs = (torch.zeros(n, device=f"cuda:{to}") for _ in range(2))
    for i in range(2):
        torch.cuda.synchronize(i)
    copy = library.copier(devices[to], ours, devices[start], source, streams[to])
    their_copy = torch_copier(theirs, source, streams[to], streams[start])
    copy()
    streams[to].synchronize()
    right = bool(torch.equal(ours.cpu(), source.cpu()))
    figures = [(speed(copy, source.nbytes, streams[to]),
                speed(their_copy, source.nbytes, streams[start])) for _ in range(ROUNDS)]
    mine, others = (statistics.median(column) for column in zip(*figures))
    fast = mine >= 0.9 * others
    print(f"{mebibytes:5} MiB, {start} to {to}: ours {mine:6.1f} GB/s, torch {others:6.1f} GB/s"
          f"{'' if right else ', WRONG'}{'' if fast else ', SLOW'}")
    return right and fast


def main():
    if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
        print("torch sees no two GPUs\n0 passed, 0 failed")
        return 0
    library = Library(sys.argv[1])
    devices = [library.open(i) for i in range(2)]
    streams = [torch.cuda.Stream(device=i) for i in range(2)]
    print(torch.cuda.get_device_name(0), "torch", torch.__version__, "they reach each other:",
          torch.cuda.can_device_access_peer(0, 1), torch.cuda.can_device_access_peer(1, 0))
    good = [compare(library, devices, streams, to, n) for n in MEBIBYTES for to in (1, 0)]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
