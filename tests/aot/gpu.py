#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu.py --tessera PROGRAM [--device cuda] [--made FOLDER] [--make-only]: the programs of
tests/aot and examples/host on a GPU, some on all: code for that very part, and code for an
earlier one that the driver assembles; copies between two GPUs beside torch's, where it is. With
--make-only they are made into the folder, with --made run from there: where a GPU is there need not
be a compiler. Prints `N passed, N failed`."""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = ROOT / "tests/aot/consumer"
EXAMPLES = ROOT / "examples/host"
PEERS = ROOT / "tests/aot/peers"
BUILT = {EXAMPLES / "streams": "scale", EXAMPLES / "graph": "step", EXAMPLES / "threads": "row",
         EXAMPLES / "parallel": "fit", PEERS: "twice"}
PARTS = {"cuda": ("sm_90a", "sm_80"), "hip": ("gfx942",)}


def run(*command, cwd=None):
    subprocess.run([str(c) for c in command], check=True, cwd=cwd)


def make(tessera, target, folder):
    folder.mkdir(parents=True, exist_ok=True)
    prefix = tessera.parents[1]
    headers = prefix / "include" if (prefix / "include").is_dir() else ROOT / "include"
    run(tessera, "compile", CONSUMER / "kernels.tile", "--target", target, "--variant",
        "T=f32, N % 8 == 0", "--variant", "T=bf16", "--variant", "T=f32, x=*8, 1", "--assume",
        "N <= 1048576", "--emit", "bundle", "-o", folder / "my_kernels")
    run(tessera, "compile", ROOT / "examples/softmax.tile", "--target", target, "--set", "T=f32",
        "--emit", "bundle", "-o", folder / "softmax")
    archive = prefix / "lib/libtessera-launch.a"
    flags = ["-O2", f"-I{headers}", f"-I{folder}"]
    run("c++", *flags, "-c", CONSUMER / "other.cpp", "-o", folder / "other.o")
    run("cc", *flags, CONSUMER / "consumer.c", folder / "other.o", folder / "my_kernels.o", archive,
        "-ldl", "-lpthread", "-o", folder / "consumer")
    run("cc", *flags, EXAMPLES / "embedded/main.c", folder / "softmax.o", archive, "-ldl",
        "-lpthread", "-o", folder / "embedded")
    for source, kernels in BUILT.items():
        run(tessera, "compile", source / f"{kernels}.tile", "--target", target, "--emit",
            "bundle", "-o", folder / kernels)
        run("cc", *flags, source / "main.c", folder / f"{kernels}.o", archive, "-ldl",
            "-lpthread", "-lm", "-o", folder / source.name)


def make_repeat(tessera, folder):
    """Compiles at run time, so it is for all parts."""
    prefix = tessera.parents[1]
    headers = prefix / "include" if (prefix / "include").is_dir() else ROOT / "include"
    run("cc", "-O2", f"-I{headers}", ROOT / "tests/aot/repeat/main.c", f"-L{prefix}/lib",
        "-ltessera", f"-Wl,-rpath,{prefix}/lib", "-ldl", "-o", folder / "repeat")


def libraries():
    """With NCCL's folder, where that came with a Python package."""
    there = [str(p.parent) for path in sys.path
             for p in pathlib.Path(path).glob("nvidia/nccl/lib/libnccl.so.2")]
    return ":".join([*there, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]).rstrip(":")


def good(*command):
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries()}
    ran = subprocess.run([str(c) for c in command], text=True, capture_output=True,
                         env=environment)
    if ran.returncode:
        print(" ".join(map(str, command)), f"status {ran.returncode}", ran.stdout + ran.stderr)
    elif command[0] == sys.executable:
        print(ran.stdout, end="")
    elif pathlib.Path(command[0]).name in {"repeat", *(source.name for source in BUILT)}:
        print(pathlib.Path(command[0]).name, "; ".join(ran.stdout.strip().splitlines()[-2:]))
    return ran.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--device", default="cuda", choices=PARTS)
    parser.add_argument("--made", type=pathlib.Path)
    parser.add_argument("--make-only", action="store_true")
    parser.add_argument("--repeat", type=int, default=0, metavar="N",
                        help="compile, launch and free as often besides, for 60 s at most")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        made = (options.made or pathlib.Path(name)).resolve()
        for target in PARTS[options.device]:
            folder = made / target
            if not (folder / "embedded").exists() or options.make_only:
                make(options.tessera, target, folder)
            if not options.make_only:
                results.append(good(folder / "consumer", options.device, target, 0, "real"))
                results += [good(folder / "embedded", options.device, n) for n in (4096, 13, 1)]
                results += [good(folder / s.name, options.device) for s in BUILT]
        library = made / "libtessera-launch.so"
        if options.make_only or not library.exists():
            shutil.copyfile(options.tessera.parents[1] / "lib/libtessera-launch.so", library)
        if not options.make_only and importlib.util.find_spec("torch"):
            results.append(good(sys.executable, PEERS / "torch_peers.py", library))
        if options.repeat:
            make_repeat(options.tessera, made)
            os.environ["TESSERA_CACHE"] = str(pathlib.Path(name) / "cache")
            results.append(good(made / "repeat", options.device, options.repeat, 60))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    os.environ.setdefault("TESSERA_CACHE", "off")
    sys.exit(main())
