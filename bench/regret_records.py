# SPDX-License-Identifier: Apache-2.0
"""The rows of regret.json: reading and writing them, what makes a row right, the two numbers.

A row is what one workload came to on one card:

    workload, target, card    its name; what its code is compiled for; the device's name
    digest                    of the machine code of what was derived then
    derived                   {seconds, spread, over}: over: times the best schedule's time
    best                      {seconds, spread, lines, digest}: of all schedules that were tried;
                              no lines: what is derived
    peers                     {name: {seconds, spread, over}}: torch's, and forms tiled by hand
    candidates                {digest: over} of each schedule that was timed
    tried, failed             how many schedules; {why: how many}
    error                     of the derived schedule's answer, relative, and the limit
    measured, version         the day, and the compiler's commit
    on_device                 the digest of the device's own code, where that is another

`over` is the median of the rounds of ratios to the best schedule, which took turns with it."""

import json
import math
import pathlib
import re

DATA = pathlib.Path(__file__).with_name("regret.json")
AIMS = {"gpu": {"selection": (0.03, 0.10), "space": (0.10, 0.30)},
        "cpu": {"selection": (0.10, 0.25), "space": (0.10, 0.30)}}
DIGEST = re.compile(r"[0-9a-f]{16}")
NOISE = 0.02  # of a ratio: what is faster than the best by less is as fast


def device_of(target):
    return "gpu" if re.match(r"sm_|gfx", target) else "cpu"


# ---- the file ----

def read(path=DATA):
    path = pathlib.Path(path)
    return json.loads(path.read_text())["rows"] if path.exists() else []


def text_of(rows):
    """One line a row, so that a change of one row is a change of one line."""
    ordered = sorted(rows, key=lambda row: (row["target"], row["workload"]))
    lines = ",\n".join(" " + json.dumps(row, ensure_ascii=False) for row in ordered)
    return '{"rows": [\n' + lines + "\n]}\n"


def write(rows, path=DATA):
    """At once, so that a reader sees the old rows or the new ones."""
    path = pathlib.Path(path)
    temporary = path.with_suffix(".part")
    temporary.write_text(text_of(rows))
    temporary.replace(path)


def put(rows, row):
    """Replaces the row of the same workload and target, or adds one."""
    kept = [r for r in rows if (r["workload"], r["target"]) != (row["workload"], row["target"])]
    return [*kept, row]


# ---- what makes a row right ----

def is_time(entry):
    return (isinstance(entry, dict) and isinstance(entry.get("seconds"), float)
            and 0 < entry["seconds"] < 1e4 and isinstance(entry.get("spread"), float)
            and entry["spread"] >= 0)


def is_ratio(value):
    return isinstance(value, float) and math.isfinite(value) and value > 0


def is_digest(value):
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def check_schedules(row):
    """What is wrong with the times of schedules."""
    derived, best = row.get("derived"), row.get("best")
    if not is_time(derived) or not is_ratio(derived.get("over")):
        yield "derived: no time"
        return
    if not is_time(best) or not isinstance(best.get("lines"), list):
        yield "best: no time, or no lines"
        return
    if not is_digest(row.get("digest")) or not is_digest(best.get("digest")):
        yield "a digest is no 16 hexadecimal digits"
    if not best["lines"] and derived["over"] != 1:
        yield f"the best schedule is the derived one, which takes {derived['over']} times as long"
    if derived["over"] < 1 - NOISE:
        yield "the derived schedule is faster than the best"
    ratio = derived["seconds"] / best["seconds"]
    if not 0.8 < ratio / derived["over"] < 1.25:
        yield f"derived over best: {derived['over']}, but their medians have {ratio:.3f}"


def check(row, workloads):
    """What is wrong with a row, as words. `workloads`: {device: {name: workload}}"""
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in
                                            ("workload", "target", "card", "measured")):
        return ["it does not say what was measured, where and when"]
    found = list(check_schedules(row))
    if row["workload"] not in workloads[device_of(row["target"])]:
        found.append("there is no such workload")
    for name, peer in row["peers"].items() if isinstance(row.get("peers"), dict) else [("", {})]:
        if not is_time(peer) or not is_ratio(peer.get("over")):
            found.append(f"peer {name}: no time")
    candidates = row.get("candidates")
    if not isinstance(candidates, dict) or not all(is_digest(k) and is_ratio(v)
                                                   for k, v in candidates.items()):
        found.append("candidates are no ratios by digest")
    if not isinstance(row.get("error"), list) or len(row["error"]) != 2 or \
            not row["error"][0] <= row["error"][1]:
        found.append("the answer is not within its limit")
    return found


# ---- the two numbers ----

def selection(row, digest):
    """How much longer what is derived takes than the best schedule that was found, as a share;
    None: code of this digest was never timed."""
    if digest == row["digest"]:
        return max(0.0, row["derived"]["over"] - 1)
    over = row["candidates"].get(digest)
    return None if over is None else max(0.0, over - 1)


def space(row):
    """How much longer the best schedule takes than the fastest peer; None: there is no peer."""
    fastest = min((peer["over"] for peer in row["peers"].values()), default=None)
    return None if fastest is None else max(0.0, 1 / fastest - 1)


def quantile(values, share):
    """Between the two values that lie around it."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(values):
    """(n, median, p90); None of nothing."""
    known = [v for v in values if v is not None]
    return (len(known), quantile(known, 0.5), quantile(known, 0.9)) if known else None


def words_of(summed, aims):
    if summed is None:
        return "no rows"
    n, *found = summed
    words = [f"{name} {100 * value:5.1f} % (aim {100 * aim:.0f} %: "
             + ("met" if value <= aim else "missed") + ")"
             for name, value, aim in zip(("median", "p90"), found, aims)]
    return f"{n:3} rows, " + ", ".join(words)
