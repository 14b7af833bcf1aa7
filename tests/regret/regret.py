#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""regret.py --tessera PROGRAM: bench/regret.py without a device. The committed rows replay; the
table of workloads compiles, is large enough and holds a third out by kernel; malformed rows fail;
a late step ends; a digest is the same twice and another where the code is. Prints
`N passed, N failed`."""

import argparse
import contextlib
import copy
import io
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests"))
import patience  # noqa: E402
import regret_measure  # noqa: E402
import regret_pool  # noqa: E402
import regret_records as records  # noqa: E402
import regret_workloads  # noqa: E402

TARGETS = {"gpu": "sm_90a@h200", "cpu": "x86-64-v3"}
A, B, C = ("0123456789abcdef", "fedcba9876543210", "00000000000000cc")


def row_of(name="softmax_rows bf16 M=8192 N=4096", target=TARGETS["gpu"], over=1.25, peer=0.8):
    """A row as `measure` writes it."""
    return {"workload": name, "target": target, "card": "a card", "digest": A,
            "derived": {"seconds": over * 1e-4, "spread": 0.01, "over": over},
            "best": {"seconds": 1e-4, "spread": 0.02, "lines": ["tile M 2"], "digest": B},
            "peers": {"torch": {"seconds": peer * 1e-4, "spread": 0.0, "over": peer}},
            "candidates": {B: 1.0, C: 1.5}, "tried": 2, "failed": {}, "error": [1e-3, 2e-2],
            "measured": "2026-01-02", "version": "0"}


def without(key, of=None):
    def change(row):
        del (row[of] if of else row)[key]
    return change


def put(key, value, of=None):
    def change(row):
        (row[of] if of else row)[key] = value
    return change


MALFORMED = {
    "no workload": without("workload"),
    "no such workload": put("workload", "softmax_rows bf16 M=1 N=1"),
    "no digest": without("digest"),
    "a digest of 15 digits": put("digest", A[1:]),
    "no derived": without("derived"),
    "no ratio": without("over", "derived"),
    "seconds as a text": put("seconds", "1e-4", "derived"),
    "no time at all": put("seconds", 0.0, "best"),
    "a ratio that the times do not have": put("over", 2.5, "derived"),
    "slower than what is derived": lambda row: (put("over", 0.5, "derived")(row),
                                                put("seconds", 0.5e-4, "derived")(row)),
    "the derived one is the best, and slower": put("lines", [], "best"),
    "a peer without a time": put("torch", {"over": 0.8}, "peers"),
    "candidates by name": put("candidates", {"tile M 2": 1.0}),
    "a wrong answer": put("error", [3e-2, 2e-2]),
}


def known():
    return {d: {w.name: w for w in regret_workloads.of_device(d)} for d in ("gpu", "cpu")}


def check_malformed():
    if records.check(row_of(), known()):
        return f"a right row: {records.check(row_of(), known())}"
    for what, change in MALFORMED.items():
        row = copy.deepcopy(row_of())
        change(row)
        if not records.check(row, known()):
            return f"{what}: nothing is wrong with it"
    return None


def check_table():
    for device, named in known().items():
        all_of = regret_workloads.of_device(device)
        held = [w for w in all_of if w.held_out]
        if len(named) != len(all_of):
            return f"{device}: two workloads have one name"
        if device == "gpu" and len(all_of) < 60:
            return f"{len(all_of)} workloads"
        if 3 * len(held) < len(all_of):
            return f"{device}: {len(held)} of {len(all_of)} are held out"
    stale = regret_workloads.HELD_OUT - {w.kernel for w in regret_workloads.WORKLOADS}
    return f"held out, but no workload's: {sorted(stale)}" if stale else None


def check_numbers():
    """The two numbers of rows whose answer is known."""
    row = row_of()
    if abs(records.selection(row, A) - 0.25) > 1e-9 or abs(records.space(row) - 0.25) > 1e-9:
        return f"{records.selection(row, A)}, {records.space(row)}"
    if records.selection(row, C) != 0.5 or records.selection(row, "0" * 16) is not None:
        return "a digest that the sweep timed is not replayed, or another one is"
    found = records.summary([0.1 * i for i in range(11)] + [None])
    return None if found and found[0] == 11 and abs(found[1] - 0.5) < 1e-9 and \
        abs(found[2] - 0.9) < 1e-9 else f"{found}"


def check_report(tessera):
    """The report of made rows: what is stale, what is replayed, and that a malformed one fails."""
    name = "softmax_rows bf16 M=8192 N=4096"
    digest = digests_of(tessera, [name], "gpu")[name]
    other = "sum_rows f32 M=16384 N=4096"
    replayed = row_of(other)
    replayed["candidates"][digests_of(tessera, [other], "gpu")[other]] = 1.75
    current, stale = row_of(name), row_of("gelu_all bf16 N=67108864")
    current["digest"] = digest
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "rows.json"
        records.write([current, replayed, stale], data)
        done = report(tessera, data)
        wanted = ("1 current, 1 replayed, 1 stale", f"stale: {stale['workload']}",
                  f"replayed: {other}", "median  50.0 %")
        for words in wanted:
            if done.returncode or words not in done.stdout:
                return f"{words}: {done.stdout}{done.stderr}"
        broken = row_of(other)
        del broken["best"]
        records.write([current, broken], data)
        done = report(tessera, data)
        return None if done.returncode == 1 and "malformed: " in done.stdout else done.stdout


def report(tessera, data, *more):
    return subprocess.run([sys.executable, str(ROOT / "bench/regret.py"), "report", "--tessera",
                           tessera, "--data", str(data), *more], capture_output=True, text=True,
                          timeout=patience.seconds(300))


def digests_of(tessera, names, device, lines=()):
    pool = regret_pool.Pool(tessera, 2)
    futures = {name: pool.submit({"workload": name, "device": device, "lines": list(lines),
                                  "target": TARGETS[device]}) for name in names}
    found = {name: future.result() for name, future in futures.items()}
    pool.close()
    return {name: answer.get("digest", answer.get("problem")) for name, answer in found.items()}


def check_digests(tessera):
    """Of all workloads: there is code; the same twice; another with another schedule."""
    for device in TARGETS:
        names = list(known()[device])
        found = digests_of(tessera, names, device)
        for name, digest in found.items():
            if not records.is_digest(digest):
                return f"{name}: {digest}"
        again = digests_of(tessera, names[::5], device)
        if any(found[name] != digest for name, digest in again.items()):
            return f"{device}: other digests of the same code"
    name = "softmax_rows f32 M=1024 N=1024"
    tiled = digests_of(tessera, [name], "cpu", ["tile M 1"])[name]
    return "the same digest with another tile" if tiled == found[name] else None


def check_committed(tessera):
    done = report(tessera, records.DATA)
    if done.returncode:
        return done.stdout + done.stderr
    rows = records.read()
    for target in {row["target"] for row in rows}:
        if f"{target}: " not in done.stdout:
            return f"no report of {target}: {done.stdout}"
    return None if records.text_of(rows) == records.DATA.read_text() else \
        "regret.json is not as records.write writes it"


def check_ranking(tessera):
    """The candidates that a sweep would measure, without a device."""
    pool = regret_pool.Pool(tessera, 1)
    answer = pool.submit({"workload": "softmax_rows bf16 M=8192 N=4096", "device": "gpu",
                          "target": TARGETS["gpu"], "rank": 10, "seconds": 2}).result()
    pool.close()
    lines = [c["lines"] for c in answer.get("candidates", [])]
    good = len(lines) == 10 and len(set(lines)) == 10 and all(
        c["predicted"] > 0 and c["schedule"] for c in answer["candidates"])
    return None if good else json.dumps(answer)[:500]


# What the supervisor watches: it begins steps and starts a process that sleeps. That one has the
# pipe that the test reads to its end open, and so must not outlive it.
SLEEPER = """
import faulthandler, pathlib, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import regret_measure
faulthandler.register(signal.SIGUSR1, all_threads=False)
subprocess.Popen(["sleep", "1000"])
state = regret_measure.State(sys.argv[2])
def endless():
    time.sleep(1000)
for limit, step in ((1000, lambda: None), (0.5, endless if sys.argv[3] == "late" else sys.exit)):
    state.begin("a workload", ["tile M 2"], limit)
    step()
"""


def check_watch():
    """A step that takes too long ends its process and all that it started, and it is told where
    that was; one that ends by itself is not late."""
    for wanted in ("late", "done"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "state.json"
            ran = subprocess.run(
                [sys.executable, "-c", "import sys, pathlib; sys.path.insert(0, sys.argv[1]);"
                 "import regret_measure; print(regret_measure.watched([sys.executable, '-c',"
                 "sys.argv[2], sys.argv[1], *sys.argv[3:]], pathlib.Path(sys.argv[3])))",
                 str(ROOT / "bench"), SLEEPER, str(path), wanted],
                capture_output=True, text=True, timeout=patience.seconds(60))
            status = "(-9, True)" if wanted == "late" else "(0, False)"
            told = "in endless" in ran.stderr
            if ran.stdout.strip() != status or told != (wanted == "late"):
                return f"{wanted}: {ran.stdout}{ran.stderr}"
            if wanted == "late":
                with contextlib.redirect_stdout(io.StringIO()):
                    regret_measure.leave_out(path, "late")
                if regret_measure.State(path).all["excluded"] != {"a workload": [["tile M 2"]]}:
                    return f"what is left out: {path.read_text()}"
    return None


def check_pauses():
    """Time in which the supervisor itself stood still makes nothing late."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "state.json"
        regret_measure.State(path).begin("a workload", ["tile M 2"], 5)
        watch = regret_measure.Watch(path)
        watch.is_late()
        watch.looked -= 1000
        return "a pause counts" if watch.is_late() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    tessera = str(pathlib.Path(parser.parse_args().tessera).resolve())
    checks = {"malformed rows": check_malformed, "the table": check_table,
              "the numbers": check_numbers, "a late step": check_watch,
              "pauses": check_pauses, "digests": lambda: check_digests(tessera),
              "the ranking": lambda: check_ranking(tessera),
              "the report": lambda: check_report(tessera),
              "the committed rows": lambda: check_committed(tessera)}
    failed = 0
    for name, check in checks.items():
        problem = check()
        failed += problem is not None
        if problem is not None:
            print(f"{name}: {problem}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
