# SPDX-License-Identifier: Apache-2.0
"""Reads a report from standard input and checks it by what can be reckoned by hand."""

import json
import sys

report = json.load(sys.stdin)
launch = report["launches"][-1]
totals, roof = launch["totals"], launch["roofline"]
MIB = 1 << 20


def near(a, b, share=0.01):
    assert abs(a - b) <= share * abs(b), f"{a} is not near {b}"


def add():
    assert totals["load"] == {"requests": 2 * MIB // 128, "sectors": 2 * 4 * MIB // 32}
    assert totals["store"] == {"requests": MIB // 128, "sectors": 4 * MIB // 32}
    assert (roof["read_bytes"], roof["written_bytes"]) == (8 * MIB, 4 * MIB)
    assert roof["flops"] == MIB and roof["bound"] == "memory"
    near(roof["memory_seconds"], 12 * MIB / 4.8e12)
    assert all(a["guard"].startswith("none") for a in launch["accesses"])


def add_ragged():
    near(totals["load"]["sectors"], 2 * 4 * 1000003 / 32)
    assert any("may end past N" in a["guard"] for a in launch["accesses"])


def softmax():
    bytes_ = 8192 * 4096 * 2
    assert totals["load"]["sectors"] == totals["store"]["sectors"] == bytes_ // 32
    assert roof["read_bytes"] == roof["written_bytes"] == bytes_
    assert totals["shared_load"]["conflicts"] == totals["shared_store"]["conflicts"] == 0
    assert totals["shared_store"]["wavefronts"] == 8192 * 2 * 2  # two reductions, two warps


def cumsum():
    first, second = report["launches"]
    n = 16 * MIB * 4  # larger than the cache: read forward, then backward from where it ended
    for launch, lost in ((first, 0.44), (second, 0.86)):  # as counted on an H200
        roof = launch["roofline"]
        assert roof["asked_read_bytes"] >= 2 * n and n <= roof["read_bytes"] < 1.01 * n
        near(roof["memory_read_bytes"], (1 + lost) * n, 0.03)


def fits():
    assert launch["roofline"]["memory_read_bytes"] == launch["roofline"]["read_bytes"]


def column():
    x, y = launch["accesses"][:2]
    assert (x["memory"], y["memory"]) == ("x", "y")
    assert x["sectors"] == 64 << 10 and y["sectors"] == (64 << 10) * 4 // 32
    assert x["bytes"] == 4 and "neighbours side by side" in x["why_width"]
    assert any("8.0 times the sectors" in note for note in launch["notes"])


def linear():
    assert roof["matrix_flops"] == 2 * 4096**3 and roof["bound"] == "compute"
    loads = {a["memory"]: a for a in launch["accesses"] if a["kind"] == "bulk load"}
    tiles = launch["tiles"]
    assert tiles == "M by 128, N by 256", tiles
    # each row of tiles reads all of w, each column all of x
    assert loads["x"]["moved"] == 4096 * 4096 * 2 * (4096 // 256)
    assert loads["w"]["moved"] == 4096 * 4096 * 2 * (4096 // 128)
    assert roof["written_bytes"] == 4096 * 4096 * 2
    assert launch["persistent"] and launch["blocks"] == 132


def attention():
    blocks, rows = 9 * 8, 1024 // 128
    assert launch["blocks"] == blocks
    tile = 128 * 128 * 2
    loads = sum(a["moved"] for a in launch["accesses"] if a["memory"] in "kv")
    # causal: block i reads i + 1 tiles of k and of v
    near(loads, 2 * tile * 9 * rows * (rows + 1) / 2)
    assert not launch["uncertain"]


def histogram():
    assert totals["load"]["sectors"] == 4 * MIB // 64  # of 64 bytes here
    atomics = [a for a in launch["accesses"] if a["kind"] == "shared atomic"]
    assert atomics and atomics[0]["assumed"] and atomics[0]["requests"] == MIB // 64
    assert launch["registers"] > 0 and launch["occupancy"]["blocks"] > 0
    assert launch["why"].startswith("it needs all of count")


globals()[sys.argv[1]]()
