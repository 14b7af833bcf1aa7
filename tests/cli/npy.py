#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""npy.py TESSERA FOLDER: files of NumPy's go through a kernel and come back the same; hostile ones
are refused with exit status 1 to 3 and words, never a crash. Prints the counts."""

import io
import pathlib
import random
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402

MUTATIONS = 150


class Failed(Exception):
    pass


def run(tessera, source, path, answer):
    command = [tessera, "run", str(source), "--device", "interp", f"x={path}", "-o", str(answer)]
    return subprocess.run(command, capture_output=True, text=True,
                          timeout=patience.seconds(60), errors="replace")


def dims(rank):
    return ", ".join("ABCDEFGH"[:rank])


def source_of(folder, rank):
    path = folder / f"copy{rank}.tile"
    path.write_text(f"kernel copy(x: T[{dims(rank)}]) -> T[{dims(rank)}] where T: float = x\n")
    return path


def save(path, descr, shape, data, order=False, version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape!r}, }}"
    size = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + b"\n" + data)


def round_trip(tessera, folder, name, values, write):
    path, answer = folder / f"{name}.npy", folder / f"{name}.out.npy"
    write(path)
    done = run(tessera, source_of(folder, values.ndim), path, answer)
    if done.returncode != 0:
        raise Failed(f"{name}: exit {done.returncode}: {done.stderr}")
    got = np.load(answer)
    if got.shape != values.shape or got.tobytes() != np.ascontiguousarray(values).tobytes():
        raise Failed(f"{name}: another array came back: {got.dtype} {got.shape}")
    if answer.read_bytes()[:6] != b"\x93NUMPY" or (answer.stat().st_size - got.nbytes) % 64:
        raise Failed(f"{name}: the header is not aligned")


def good(tessera, folder):
    rng = np.random.default_rng(1)
    count = 0
    for dtype in (np.float16, np.float32, np.float64):
        for shape in ((7,), (0,), (3, 5), (2, 0, 3), (2, 3, 4, 5)):
            values = rng.standard_normal(shape).astype(dtype)
            for layout in ("C", "F"):
                ordered = np.asarray(values, order=layout)
                round_trip(tessera, folder, "array", values, lambda p: np.save(p, ordered))
                count += 1
    values = rng.standard_normal((4, 6)).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    for descr in ("<V2", "|V2"):
        round_trip(tessera, folder, "bf16", bits.view("V2"),
                   lambda p: save(p, descr, bits.shape, bits.tobytes()))
    for version in (1, 2, 3):
        round_trip(tessera, folder, "version", values,
                   lambda p: save(p, "<f4", values.shape, values.tobytes(), version=version))
    return count + 5


def small(tessera, folder):
    """Types that are not NumPy's: the bytes that ml_dtypes writes, or their bits; i4 and u4 as i8
    and u8. What comes out NumPy loads, and the kernel takes it again."""
    halves = np.array([[1, -2, 7, -8, 0], [3, 4, -5, 6, -1], [2, 2, 0, 5, 5]], np.int8)
    bits = np.arange(15, dtype=np.uint8) * 17
    bits = np.where(bits & 0x7f == 0x7f, 0x33, bits).astype(np.uint8)
    cases = [("i4", "|i1", halves), ("u4", "|u1", halves.view(np.uint8) & 15),
             ("i4", "<V1", halves), ("f8e4m3", "<V1", bits), ("f8e4m3", "|V1", bits),
             ("f8e5m2", "<f1", bits & 0xfb), ("f8e5m2", "|V1", bits & 0xfb),
             ("f8e5m2", "|u1", bits & 0xfb), ("f8e4m3", "|u1", bits),
             ("bf16", "<u2", bits.astype(np.uint16) * 0x81)]
    for dtype, descr, values in cases:
        source, path, answer = folder / "small.tile", folder / "small.npy", folder / "small.out.npy"
        source.write_text(f"kernel copy(x: {dtype}[A, B]) -> {dtype}[A, B] = x\n")
        save(path, descr, (3, 5), values.tobytes())
        done = run(tessera, source, path, answer)
        if done.returncode != 0 or np.load(answer).tobytes() != values.tobytes():
            raise Failed(f"{dtype} from {descr}: {done.stderr}")
        again = run(tessera, source, answer, folder / "again.npy")
        if again.returncode != 0 or (folder / "again.npy").read_bytes() != answer.read_bytes():
            raise Failed(f"{dtype} from {descr}, once more: {again.stderr}")
    save(path, "|i1", (3, 5), bytes([9] * 15))
    source.write_text("kernel copy(x: i4[A, B]) -> i4[A, B] = x\n")
    if "which i4 cannot hold" not in run(tessera, source, path, answer).stderr:
        raise Failed("an i4 of 9 is taken")
    return len(cases) + 1


def hostile(folder):
    """(name, bytes) of files that must be refused."""
    data = bytes(24)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 3), np.float32))
    whole = buffer.getvalue()
    yield "empty", b""
    yield "text", b"hello, world\n" * 20
    for n in (3, 6, 7, 9, 20, 127, 128, len(whole) - 1):
        yield f"cut at {n}", whole[:n]
    yield "version 9", whole[:6] + b"\x09" + whole[7:]
    yield "long header", whole[:8] + b"\xff\xff" + whole[10:]
    path = folder / "made.npy"

    def made(*arguments, **more):
        save(path, *arguments, **more)
        return path.read_bytes()

    yield "huge header", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + data
    yield "big endian", made(">f4", (2, 3), data)
    yield "complex", made("<c8", (3, 1), data)
    yield "object", made("|O", (3, 1), data)
    yield "text items", made("<U3", (2, 1), data)
    yield "three bytes", made("<V3", (2, 3), data)
    yield "integers", made("<i4", (2, 3), data)
    yield "short", made("<f4", (200, 3), data)
    yield "other rank", made("<f4", (6,), data)
    yield "overflow", made("<f4", (2**62, 2**62), data)
    yield "overflow of 64 bits", made("<f4", (2**64, 1), data)
    yield "bytes overflow", made("<f4", (2**62, 1), data)
    yield "terabytes", made("<f4", (2**40, 1), data)
    yield "9 axes", made("<f4", (1,) * 9, data)
    yield "structured", whole.replace(b"'<f4'", b"[('a')]")[: len(whole)]
    for old, new in ((b"False", b"Maybe"), (b"'shape'", b"'shade'"), (b"(2, 3)", b"(2; 3)"),
                     (b"(2, 3)", b"(-2,3)"), (b"(2, 3)", b"(2, 3 "), (b"{", b"["), (b"}", b" "),
                     (b"'descr'", b"'shape'"), (b"'descr':", b"'descr' "), (b"<f4'", b"<f4\\"),
                     (b"2, 3", b"2 3,"), (b"'descr'", b"\0\0\0\0\0\0\0")):
        yield f"{old} {new}", whole.replace(old, new)


def refused(tessera, folder):
    count = 0
    for name, data in hostile(folder):
        path = folder / "hostile.npy"
        path.write_bytes(data)
        answer = folder / "hostile.out.npy"
        done = run(tessera, source_of(folder, 2), path, answer)
        if done.returncode not in (1, 2, 3) or not done.stderr.startswith("error"):
            raise Failed(f"{name}: exit {done.returncode}: {done.stderr!r}")
        if answer.exists():
            raise Failed(f"{name}: an answer was written")
        count += 1
    return count


def mutated(tessera, folder):
    """Bytes of a header changed at random: refused, or read; never a crash."""
    generator = random.Random(1)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 3), np.float32))
    whole = buffer.getvalue()
    path = folder / "mutated.npy"
    for _ in range(MUTATIONS):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(80)] = generator.choice(b"0123456789(),'{}:[]<>|fiVb \0\xff")
        path.write_bytes(data)
        done = run(tessera, source_of(folder, 2), path, folder / "mutated.out.npy")
        if done.returncode not in (0, 1, 2, 3):
            raise Failed(f"{bytes(data)!r}: exit {done.returncode}: {done.stderr!r}")
    return MUTATIONS


def main():
    tessera, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(f"{good(tessera, folder)} arrays went through and came back the same")
        print(f"{small(tessera, folder)} files of small types")
        print(f"{refused(tessera, folder)} hostile files were refused")
        print(f"{mutated(tessera, folder)} mutated files did no harm")
    except Failed as problem:
        print(problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
