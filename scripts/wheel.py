#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py LIBRARY OUT [--fast]: writes OUT/tessera-VERSION-py3-none-PLATFORM.whl, the folder
python/tessera with the libraries in it. Needs nothing but Python and strip; the same input gives
the same bytes. --fast compresses less, for tests. Done again only when something is newer."""

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "tessera"
LIBC = "2_35"  # tests/layering/exports.py holds the library to it
# Of what the wheel has: Tessera and LLVM, zlib, zstd, xxHash, utf8proc, SQLite, GCC's library.
LICENCE = ("Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND Zlib AND BSD-3-Clause AND "
           "BSD-2-Clause AND MIT AND blessing AND GPL-3.0-or-later WITH GCC-exception-3.1")
CLASSIFIERS = [
    "Development Status :: 3 - Alpha",
    "Environment :: GPU :: NVIDIA CUDA",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    *[f"Programming Language :: Python :: 3.{minor}" for minor in range(8, 15)],
    "Programming Language :: Python :: Implementation :: CPython",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Software Development :: Compilers",
    "Typing :: Typed",
]
METADATA = """Metadata-Version: 2.4
Name: tessera
Version: {version}
Summary: Compiles kernels of .tile files and runs them on NumPy's, torch's, CuPy's and JAX's arrays
Author: The authors of Tessera
Keywords: compiler,GPU,CUDA,kernels,tensors,tiles
License-Expression: {licence}
{licence_files}
{classifiers}
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{text}"""
ENTRY_POINTS = """[console_scripts]
tessera = tessera._command:main

[torch_dynamo_backends]
tessera = tessera.torch:backend
"""
WHEEL = """Wheel-Version: 1.0
Generator: scripts/wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


def version():
    header = (ROOT / "include/tessera/launch.h").read_text()
    return re.search(r'#define TESSERA_VERSION "(.+)"', header)[1]


def stripped(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy"
        subprocess.run(["strip", "-o", copy, path], check=True)
        return copy.read_bytes()


def licences():
    """{name: text} of Tessera and of what is linked in, from where Debian has them."""
    found = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for library in ("llvm-22", "zlib1g", "libzstd-dev", "libutf8proc-dev", "libxxhash-dev",
                    "libsqlite3-dev", "gcc-12-base"):
        path = pathlib.Path(f"/usr/share/doc/{library}/copyright")
        if path.exists():
            found[library] = path.read_bytes()
    return found


def metadata(names):
    """names: of the files with licences."""
    return METADATA.format(
        version=version(), licence=LICENCE, text=(ROOT / "docs" / "python.md").read_text(),
        licence_files="\n".join(f"License-File: {name}" for name in names),
        classifiers="\n".join(f"Classifier: {each}" for each in CLASSIFIERS))


def contents(library, tag):
    """{name in the wheel: (bytes, may it be run)}."""
    found = {f"tessera/{p.relative_to(PACKAGE)}": (p.read_bytes(), False)
             for p in PACKAGE.rglob("*") if p.suffix in (".py", ".pyi", ".typed") or
             p.name == "py.typed"}
    for header in sorted((ROOT / "include/tessera").iterdir()):
        found[f"tessera/include/tessera/{header.name}"] = (header.read_bytes(), False)
    for name in ("libtessera.so.0", "libtessera-codegen.so.0", "libtessera-launch.so.0"):
        found[f"tessera/{name}"] = (stripped(library.resolve().with_name(name)), True)
    # What `cc -ltessera-launch` looks for: a wheel has no links.
    found["tessera/libtessera-launch.so"] = (b"INPUT(libtessera-launch.so.0)\n", False)
    found["tessera/libtessera.so"] = (b"INPUT(libtessera.so.0)\n", False)
    for name in ("tessera", "tessera-worker"):
        program = library.resolve().parents[1] / "bin" / name
        if program.exists():
            found[f"tessera/{name}"] = (stripped(program), True)
    info = f"tessera-{version()}.dist-info"
    texts = licences()
    found[f"{info}/METADATA"] = (metadata(texts).encode(), False)
    found[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), False)
    found[f"{info}/entry_points.txt"] = (ENTRY_POINTS.encode(), False)
    for name, data in texts.items():
        found[f"{info}/licenses/{name}"] = (data, False)
    return found, f"{info}/RECORD"


def record(found, own):
    lines = []
    for name in sorted(found):
        digest = base64.urlsafe_b64encode(hashlib.sha256(found[name][0]).digest())
        lines.append(f"{name},sha256={digest.rstrip(b'=').decode()},{len(found[name][0])}\n")
    return "".join(lines) + f"{own},,\n"


def write(path, found, level):
    partial = path.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name in sorted(found, key=lambda n: (".dist-info/" in n, n)):
            data, runs = found[name]
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)
    partial.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args()
    tag = f"py3-none-manylinux_{LIBC}_{platform.machine()}"
    path = options.out / f"tessera-{version()}-{tag}.whl"
    sources = [options.library, pathlib.Path(__file__), ROOT / "docs/python.md",
               *PACKAGE.rglob("*.*"), *(ROOT / "include/tessera").iterdir()]
    if not path.exists() or any(p.stat().st_mtime > path.stat().st_mtime for p in sources):
        options.out.mkdir(parents=True, exist_ok=True)
        found, own = contents(options.library, tag)
        found[own] = (record(found, own).encode(), False)
        write(path, found, 1 if options.fast else 9)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
