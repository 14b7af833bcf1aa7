#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""least.py TESSERA: what `explain` says does not contradict itself, over programs and targets: what
is expected takes at least the least time, a loop of data says so, and bytes, sectors and times fit
one another at each level of memory."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = [
    ("examples/add.tile", ["--size", "N=64M"]),
    ("examples/add.tile", ["--size", "N=1000"]),
    ("examples/softmax.tile", ["--set", "T=bf16", "--size", "M=8192,N=4096"]),
    ("examples/softmax.tile", ["--set", "T=f32", "--size", "M=3,N=100000"]),
    ("examples/linear.tile", ["--set", "T=bf16", "--size", "M=4096,N=4096,K=4096"]),
    ("examples/linear.tile", ["--set", "T=bf16", "--size", "M=64,N=64,K=1M"]),
    ("examples/attention.tile", ["--set", "T=bf16,causal=true,D=128",
                                 "--size", "B=1,H=8,S=2k,L=2k"]),
    ("examples/scatter_add.tile", ["--size", "N=100k,D=64,V=1000"]),
    ("examples/transpose.tile", ["--set", "T=f32", "--size", "M=4096,N=4096"]),
    ("examples/transpose.tile", ["--set", "T=f32", "--size", "M=1,N=3"]),
    ("examples/embedding.tile", ["--set", "T=bf16", "--size", "B=8,S=512,V=32000,D=1024"]),
    ("examples/layer_norm.tile", ["--set", "T=f32", "--size", "M=33,N=777"]),
]
TARGETS = ["sm_90a", "gfx942"]


SECTOR = {"sm_90a": 32}  # bytes; of AMD's accesses `explain` counts the lines of its own caches
READS, WRITES = ("load", "bulk_load", "copy"), ("store", "bulk_store")


def close(a, b):
    return abs(a - b) <= 1e-3 * max(abs(a), abs(b), 1e-12)


def bytes_fit(launch, target):
    """What is asked of the caches, what memory moves, and the least of both; None: they fit."""
    roof, totals, predicted = launch["roofline"], launch["totals"], launch.get("predicted_seconds")
    least = roof["read_bytes"] + roof["written_bytes"]
    for kind in totals:
        kinds = [a for a in launch["accesses"] if a["kind"].replace(" ", "_") == kind]
        for what in ("requests", "sectors"):
            if what in totals[kind] and kinds and not close(sum(a[what] for a in kinds),
                                                            totals[kind][what]):
                return f"the {what} of {kind} are not those of its accesses"
    for access in launch["accesses"]:
        if access.get("least_sectors", 0) > access.get("sectors", 0) * 1.001:
            return f"{access['op']} takes fewer sectors than the least"
    if launch["uncertain"]:
        return None
    if target in SECTOR:
        for kinds, asked in ((READS, "asked_read_bytes"), (WRITES, "asked_written_bytes")):
            moved = SECTOR[target] * sum(totals[kind]["sectors"] for kind in kinds)
            if not totals["atomic"]["sectors"] and not close(moved, roof[asked]):
                return f"{asked} is {roof[asked]}, the sectors are {moved} bytes"
    # Sectors that are written partly are read, too, though no access asks for them.
    asked = roof["asked_read_bytes"] + roof["partly_written_bytes"]
    if roof["memory_read_bytes"] > 1.001 * asked:
        return "memory gives more than is asked of the caches"
    if least and not close(roof["intensity"], (roof["flops"] + roof["matrix_flops"]) / least):
        return "the intensity is not that of the operations and bytes"
    if (roof["bound"] == "compute") != (roof["compute_seconds"] > roof["memory_seconds"]):
        return "bound by what takes less time"
    rate = least / roof["memory_seconds"] if roof["memory_seconds"] else None
    moved = roof["memory_read_bytes"] + roof["memory_written_bytes"]
    if rate and predicted is not None and predicted < 0.999 * moved / rate:
        return "memory cannot move so much in the time that is expected"
    return None


def parts_fit(launch):
    """What follows one another is the predicted time, and no unit alone takes longer; None: so it
    is."""
    expected, parts = launch.get("predicted_seconds"), launch.get("predicted_parts", ())
    if not expected:
        return "parts of no time" if parts else None
    whole = sum(part["seconds"] for part in parts)
    if not abs(whole - expected) <= 1e-4 * expected:
        return f"parts of {whole} s, where {expected} s are expected"
    for part in launch["predicted_alone"]:
        if part["seconds"] > 1.01 * expected:
            return f"{part['what']} alone takes {part['seconds']} of {expected} s"
    return None


def check(tessera, source, arguments, target):
    done = subprocess.run([tessera, "explain", ROOT / source, *arguments, "--target", target,
                           "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return 0
    for launch in json.loads(done.stdout)["launches"]:
        roof = launch.get("roofline", launch)
        least = max(roof.get("memory_seconds", 0), roof.get("compute_seconds", 0))
        expected = launch.get("predicted_seconds")
        assert expected is None or expected >= 0.999 * least, (source, target, expected, least)
        wrong = bytes_fit(launch, target) or parts_fit(launch)
        assert not wrong, (source, arguments, target, launch["symbol"], wrong)
        assert launch["uncertain"] or not launch["trip_count_is_data"], (source, target)
    return 1


def main():
    done = sum(check(sys.argv[1], source, arguments, target)
               for source, arguments in PROGRAMS for target in TARGETS)
    assert done >= len(TARGETS) * 5, done


if __name__ == "__main__":
    main()
