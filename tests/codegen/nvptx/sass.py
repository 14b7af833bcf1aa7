# SPDX-License-Identifier: Apache-2.0
"""Assembles what code generation makes and looks at the machine code.

    sass.py --emit TOOL [--target NAME] FILE.ir --registers N --expect HGMMA UTMALDG …

--pass NAME… are the passes that run before, by default `assign_layouts` and `vectorize`. Checks: no
spills, no stack, the number of registers at entry, no warning of the assembler (it warns if it
ignores setmaxnreg or serializes dots), and, if there is nvdisasm, that the machine code has the
instructions of --expect and not those of --absent; with --between NAME, that such an instruction is
between a wait for all dots but one and the next wait for all.
Prints why when it leaves a check out: there is no assembler or disassembler on a bare machine.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from tools import find_tool


def fail(text):
    sys.exit("sass.py: " + text)


def assemble(ptxas, options, folder):
    ptx, cubin = os.path.join(folder, "a.ptx"), os.path.join(folder, "a.cubin")
    target = ["--target", options.target] if options.target else []
    passes = [word for name in options.passes or ["assign_layouts", "vectorize"]
              for word in ("--pass", name)]
    subprocess.run([options.emit, *target, *passes, "--emit", "ptx", "-o", ptx, options.source],
                   check=True)
    arch = "-arch=" + (options.target or "sm_90a")
    done = subprocess.run([ptxas, arch, "-v", "-o", cubin, ptx], capture_output=True, text=True)
    if done.returncode:
        fail(done.stderr)
    return cubin, done.stderr


def check_report(report, registers):
    spills = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", report)
    if not spills or any(int(n) for n in spills):
        fail("spills:\n" + report)
    if registers and f"Used {registers} registers" not in report:
        fail(f"not {registers} registers:\n" + report)
    if "warning" in report.lower() or "Potential Performance Loss" in report:
        fail("the assembler warns:\n" + report)


def check_between(sass, name):
    """Work is done while a product is in flight, and not behind the wait for it."""
    parts = re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1", sass)[1:]
    counts = [re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0", part)[0].count(name) for part in parts]
    if not counts or min(counts) < 32:
        fail(f"{name} while a product is in flight: {counts}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--emit", required=True)
    parser.add_argument("--target")
    parser.add_argument("--pass", dest="passes", action="append")
    parser.add_argument("--registers", type=int, default=0)
    parser.add_argument("--expect", nargs="*", default=[])
    parser.add_argument("--absent", nargs="*", default=[])
    parser.add_argument("--between", default="")
    parser.add_argument("source")
    options = parser.parse_args()
    ptxas = find_tool("ptxas", "TESSERA_PTXAS")
    if not ptxas:
        print("left out: no ptxas")
        return
    with tempfile.TemporaryDirectory() as folder:
        cubin, report = assemble(ptxas, options, folder)
        check_report(report, options.registers)
        nvdisasm = find_tool("nvdisasm", "TESSERA_NVDISASM")
        if not nvdisasm:
            print("left out: no nvdisasm")
            return
        sass = subprocess.run([nvdisasm, cubin], capture_output=True, text=True, check=True).stdout
        missing = [name for name in options.expect if name not in sass]
        if missing:
            fail("not in the machine code: " + ", ".join(missing))
        present = [name for name in options.absent if name in sass]
        if present:
            fail("in the machine code: " + ", ".join(present))
        if options.between:
            check_between(sass, options.between)


main()
