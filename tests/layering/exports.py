#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports.py LIBRARY [--names FILE] [--header FILE] [--archive FILE] [--most BYTES]: the shared
library shows tessera_… and nothing else, each name with a version of cmake/libtessera.map, and
nothing of a release that is not out yet; it needs only the C library, and no glibc newer than 2.35.
With --names it shows exactly those of the file, as do the archive and the header; stripped it takes
at most so many bytes. Prints `N passed, N failed`."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
           "ld-linux-x86-64.so.2"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stripped(library):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "library")
        subprocess.run(["strip", "-o", copy, library], check=True)
        return os.path.getsize(copy)


def compare(what, names, wanted, failures):
    for name in sorted(names - wanted):
        failures.append(f"{what} shows {name}, which no list names")
    for name in sorted(wanted - names):
        failures.append(f"{what} shows no {name}")


def more_checks(arguments, names, sanitized, failures):
    """Those that only some libraries have; returns how many there were."""
    checks = 0
    if arguments.names:
        wanted = set(pathlib.Path(arguments.names).read_text().split())
        compare(arguments.library, set(names), wanted, failures)
        checks += 1
        if arguments.header:
            text = pathlib.Path(arguments.header).read_text()
            declared = set(re.findall(r"^TESSERA_API [^;(]*?(tessera_\w+)\(", text, re.M))
            compare(arguments.header, declared, wanted, failures)
            checks += 1
        if arguments.archive:
            listed = output("nm", "-g", "--defined-only", arguments.archive)
            found = set(re.findall(r"^[0-9a-f]+ \w (\S+)$", listed, re.M))
            compare(arguments.archive, {n for n in found if not n.startswith("__odr_asan")},
                    wanted, failures)
            checks += 1
    if arguments.most and not sanitized:
        size = stripped(arguments.library)
        if size > arguments.most:
            failures.append(f"takes {size} bytes stripped, more than {arguments.most}")
        checks += 1
    return checks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--names")
    parser.add_argument("--header")
    parser.add_argument("--archive")
    parser.add_argument("--most", type=int)
    arguments = parser.parse_args()
    library, failures = arguments.library, []
    dynamic = output("readelf", "-d", library)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    sanitized = any("asan" in name for name in needed) or "__asan" in output("nm", "-D", library)
    defined = output("nm", "-D", "--defined-only", library)
    versioned = [line.split()[-1].partition("@@") for line in defined.splitlines()
                 if line.split()[-2] != "A"]  # the versions themselves
    names = [name for name, _, _ in versioned]
    strays = [n for n in names if not n.startswith("tessera_")]
    release = re.search(r'TESSERA_VERSION "(\d+)\.(\d+)',
                        (ROOT / "include/tessera/launch.h").read_text()).groups()
    for name, _, version in versioned:
        found = re.fullmatch(r"TESSERA_(\d+)\.(\d+)", version)
        if not found or tuple(map(int, found.groups())) > tuple(map(int, release)):
            failures.append(f"{name} has the version '{version}'")
    if strays:
        failures.append("exported: " + " ".join(strays[:10]))
    if not any(n.startswith("tessera_") for n in names):
        failures.append("exports no tessera_… name")
    if not sanitized and set(needed) - ALLOWED:
        failures.append("needs: " + " ".join(sorted(set(needed) - ALLOWED)))
    versions = re.findall(r"GLIBC_2\.(\d+)", output("readelf", "-V", library))
    if not sanitized and max(map(int, versions), default=0) > 35:
        late = [l.strip() for l in output("nm", "-D", library).splitlines() if "GLIBC_2.36" in l]
        failures.append("needs glibc newer than 2.35: " + " ".join(late))
    checks = 5 + more_checks(arguments, names, sanitized, failures)
    for failure in failures:
        print("exports:", failure)
    print(f"{max(checks - len(failures), 0)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
