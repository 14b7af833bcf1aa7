#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""regret.py report|measure --tessera PROGRAM: what choosing schedules by the cost model loses.

Two numbers over the workloads of regret_workloads.py: *selection*, by how much the derived
schedule is slower than the best that a sweep found, and *space*, by how much that is slower than
the fastest of torch's versions and of forms tiled by hand. Kernels that are held out, of which no
constant was chosen, are counted apart.

`report` needs no device: it compiles every workload, and reads the times from regret.json by the
digest of the machine code. A row whose code has changed to what the sweep timed as well is
replayed; any other is stale. It ends with 1 where a row is malformed.

`measure` needs a device and torch; `--stale` measures only what is stale or missing. Each row is
written when it is there."""

import argparse
import os
import pathlib
import sys
import time

import regret_pool
import regret_records as records
import regret_workloads

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = {False: "tuned", True: "held out"}


def known_workloads():
    return {device: {w.name: w for w in regret_workloads.of_device(device)}
            for device in ("gpu", "cpu")}


def current_digests(program, wanted, jobs):
    """{(workload, target): digest, or what is wrong} of what is derived now."""
    pool = regret_pool.Pool(program, jobs)
    futures = {(name, target): pool.submit({"workload": name, "target": target,
                                            "device": records.device_of(target)})
               for name, target in wanted}
    answers = {key: future.result() for key, future in futures.items()}
    pool.close()
    return {key: answer.get("digest") or "! " + answer["problem"].split("\n")[0]
            for key, answer in answers.items()}


def malformed(rows):
    """[what is wrong], with the rows that it is of."""
    workloads, found, seen = known_workloads(), [], set()
    for row in rows:
        key = (row.get("workload"), row.get("target")) if isinstance(row, dict) else None
        found += [f"{key}: {problem}" for problem in records.check(row, workloads)]
        if key in seen:
            found.append(f"{key}: two rows")
        seen.add(key)
    return found


# ---- report ----

def state_of(row, digest):
    if digest == row["digest"]:
        return "current"
    return "replayed" if digest in row["candidates"] else "stale"


def report_target(target, rows, digests, worst):
    """Prints what the rows of one target come to; returns the names of those that are stale."""
    device, workloads = records.device_of(target), known_workloads()
    aims = records.AIMS[device]
    states, named = {}, workloads[device]
    for row in rows:
        digest = digests[row["workload"], target]
        states.setdefault(state_of(row, digest), []).append(row["workload"])
    print(f"\n{target}: {len(rows)} of {len(named)} workloads, measured on "
          + ", ".join(sorted({row["card"] for row in rows})))
    print("  " + ", ".join(f"{len(names)} {state}" for state, names in sorted(states.items())))
    losses = []
    for row in rows:
        chosen = records.selection(row, digests[row["workload"], target])
        losses.append((row, named[row["workload"]].held_out, chosen, records.space(row)))
    for index, what in ((2, "selection"), (3, "space")):
        for held in (False, True):
            summed = records.summary([loss[index] for loss in losses if loss[1] == held])
            print(f"  {what:9} {KINDS[held]:8} {records.words_of(summed, aims[what])}")
        ordered = sorted((x for x in losses if x[index]), key=lambda x: -x[index])
        for row, held, *_ in ordered[:worst]:
            print("    " + row_line(row, held, row_loss(ordered, row, index), what))
    other = [row["workload"] for row in rows if "on_device" in row]
    if other:
        print(f"  the device had other code than {target}: {', '.join(other)}")
    for state in ("replayed", "stale"):
        for name in states.get(state, ()):
            problem = digests[name, target]
            print(f"  {state}: {name}" + (f" {problem}" if problem.startswith("!") else ""))
    missing = [name for name in named if name not in {row["workload"] for row in rows}]
    for name in missing:
        print(f"  missing: {name}")
    return states.get("stale", []) + missing


def row_loss(losses, row, index):
    return next(loss[index] for loss in losses if loss[0] is row)


def row_line(row, held, loss, what):
    """One of the worst rows."""
    mark = "*" if held else " "
    if what == "selection":
        best = row["best"]
        words = "; ".join(best["lines"]) or "as derived"
        times = (f"{row['derived']['seconds'] * 1e6:.1f} us, "
                 f"{best['seconds'] * 1e6:.1f} us by {words}")
    else:
        name = min(row["peers"], key=lambda peer: row["peers"][peer]["over"])
        times = (f"{row['best']['seconds'] * 1e6:.1f} us, {name} "
                 f"{row['peers'][name]['seconds'] * 1e6:.1f} us")
    return f"{100 * loss:6.1f} % {mark}{row['workload']}: {times}"


def report(options):
    rows = records.read(options.data)
    problems = malformed(rows)
    for problem in problems:
        print(f"malformed: {problem}")
    if problems:
        return 1
    targets = sorted({row["target"] for row in rows})
    digests = current_digests(options.tessera, [(row["workload"], row["target"]) for row in rows],
                              options.jobs)
    for target in targets:
        report_target(target, [row for row in rows if row["target"] == target], digests,
                      options.worst)
    if not rows:
        print("nothing was measured yet")
    return 0


# ---- measure ----

def wanted_names(options, rows, target):
    """Of the device's workloads those that are to be measured."""
    device = records.device_of(target)
    names = [w.name for w in regret_workloads.of_device(device) if options.only in w.name]
    if not options.stale:
        return names
    digests = current_digests(options.tessera, [(name, target) for name in names], options.jobs)
    known = {row["workload"]: row for row in rows if row["target"] == target}
    return [name for name in names
            if name not in known or known[name]["digest"] != digests[name, target]]


def measure(options):
    import regret_measure
    return regret_measure.run(options, wanted_names, time.monotonic())


def cpus():
    return len(os.sched_getaffinity(0))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("report", "measure"))
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "bin" / "tessera",
                        help="the program, also of an installed package: FOLDER/tessera/tessera")
    parser.add_argument("--data", type=pathlib.Path, default=records.DATA, help="the rows")
    parser.add_argument("--jobs", type=int, default=max(1, cpus() - 1),
                        help="processes that compile (default: the CPUs less one)")
    parser.add_argument("--worst", type=int, default=8, help="report: rows that are named")
    of = parser.add_argument_group("measure")
    of.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    of.add_argument("--stale", action="store_true", help="only what is stale or missing")
    of.add_argument("--only", default="", help="a part of the workloads' names")
    of.add_argument("--candidates", type=int, default=32, help="schedules of the first batch")
    of.add_argument("--refine", type=int, default=16, help="schedules near the best of those")
    of.add_argument("--rounds", type=int, default=7, help="of the last measurement")
    of.add_argument("--rank-seconds", type=float, default=20,
                    help="for which the model's ranking of one workload is made")
    of.add_argument("--seconds", type=float, default=1e9, help="no workload begins after so many")
    of.add_argument("--no-compile", action="store_true", help="without torch.compile")
    of.add_argument("--work", type=pathlib.Path, help="a folder for compiled code, kept")
    of.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.tessera = options.tessera.resolve()
    if not options.tessera.is_file():
        parser.error(f"{options.tessera} is not there: --tessera names the program")
    return report(options) if options.command == "report" else measure(options)


if __name__ == "__main__":
    sys.exit(main())
