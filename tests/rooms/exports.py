#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports.py LIBRARY: the shared library shows tessera_… and nothing else, needs only the C
library, and no glibc newer than 2.35. Prints `N passed, N failed`."""

import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
           "ld-linux-x86-64.so.2"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library, failures = sys.argv[1], []
    dynamic = output("readelf", "-d", library)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    sanitized = any("asan" in name for name in needed) or "__asan" in output("nm", "-D", library)
    defined = output("nm", "-D", "--defined-only", library)
    names = [line.split()[-1] for line in defined.splitlines()]
    strays = [n for n in names if not n.split("@")[0].startswith("tessera_")]
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
    for failure in failures:
        print("exports:", failure)
    print(f"{4 - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
