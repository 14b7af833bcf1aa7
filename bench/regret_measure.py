# SPDX-License-Identifier: Apache-2.0
"""Measuring for regret.py: the best of many schedules, the derived one and torch's versions.

The model's ranking of each workload (`tessera tune --target`) gives a first batch of schedules,
half of them those that it ranks first, half unlike those; a second one has those that differ least
from the best of the first. Other processes compile them ahead (regret_pool.py); this one loads,
checks and times. The best three, the derived schedule, torch's version and a form tiled by hand
then take turns: rounds go over all, every other one in reversed order. On a GPU each launch is
timed alone, with the second-level cache overwritten before; on a CPU bursts are, while nothing is
compiled.

A kernel that faults or never ends takes its process with it: the supervisor leaves that schedule
out and starts the process again, which goes on where it was. Before it ends a process that is late,
it has that print where it is, which tells a kernel that hangs from a driver, an assembler or a
machine that does."""

import datetime
import faulthandler
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import regret_pool
import regret_records as records
import regret_workloads
from regret_timing import Place, error_of, poison, take_turns

MOST_RESTARTS = 12
CHUNK = 8            # workloads whose second batches are compiled while the others are timed
FINALISTS = 3
NEAR = 3             # schedules of the first batch around which the second one lies
SCREENS = 5          # launches of a candidate that are timed at first
SLOW = 2.5           # times the derived schedule's: such a candidate is timed once
LOADING = 60         # seconds in which a candidate is compiled, mostly from the cache, and loaded
RUNNING = 20         # seconds in which it runs, is compared and timed
POLL = 0.2           # seconds between two looks at the state


# ---- the supervisor ----

class State:
    """A file that says what is being done, how long that may take, and a number that grows with
    each such step; what is done; what is left out."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.all = json.loads(self.path.read_text()) if self.path.exists() else {
            "done": [], "excluded": {}, "running": None, "step": 0}

    def save(self):
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(self.all))
        temporary.replace(self.path)

    def begin(self, name, lines, limit, phase="schedule"):
        self.all["step"] += 1
        self.all["running"] = {"name": name, "lines": lines, "phase": phase, "limit": limit}
        self.save()

    def end(self, name=None):
        self.all["running"] = None
        if name:
            self.all["done"].append(name)
        self.save()


def environment(work):
    made = {**os.environ, "TESSERA_CACHE": str(work / "cache"), "TESSERA_CACHE_SIZE": "16G"}
    triton = importlib.util.find_spec("triton")
    found = [shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    if triton and triton.submodule_search_locations:
        found.append(triton.submodule_search_locations[0] + "/backends/nvidia/bin/ptxas")
    assembler = next((path for path in found if path and os.access(path, os.X_OK)), None)
    if assembler:
        made.setdefault("TESSERA_PTXAS", assembler)
    return made


class Watch:
    """How long the step that a state names has taken. What counts is the time in which this process
    ran, too: a machine that stands still, or that others use, makes no kernel endless."""

    def __init__(self, path):
        self.path, self.step, self.taken = pathlib.Path(path), None, 0.0
        self.looked = time.monotonic()

    def is_late(self):
        now = time.monotonic()
        passed, self.looked = min(now - self.looked, 2 * POLL), now
        try:
            state = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return False
        if state["running"] is None or state["step"] != self.step:
            self.step, self.taken = state["step"], 0.0
            return False
        self.taken += passed
        return self.taken > state["running"]["limit"]


def end_group(child):
    """Ends a process and those that compile for it, which would take processors from the next."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def watched(command, path, env=None):
    """(its status, whether it was late): a process whose state is in a file."""
    child = subprocess.Popen(command, env=env, process_group=0)
    watch, late = Watch(path), False
    try:
        while child.poll() is None and not late:
            time.sleep(POLL)
            late = watch.is_late()
        if late:
            child.send_signal(signal.SIGUSR1)  # it prints where it is
            time.sleep(1)
        status = child.poll()
    finally:
        end_group(child)
    return child.returncode if status is None else status, late


def leave_out(path, why):
    """What was running when the process ended; False: nothing was."""
    state = State(path)
    running = state.all["running"]
    if running is None:
        return False
    name, lines = running["name"], running["lines"]
    print(f"# {name}: {why} ({running['phase']} {'; '.join(lines or ['as derived'])})", flush=True)
    if lines:
        state.all["excluded"].setdefault(name, []).append(lines)
    else:
        compiled = "compile " if running["phase"] == "torch.compile" else ""
        state.all["done"].append(compiled + name)
    state.end()
    return True


def supervise(options, begun):
    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="tessera-regret-"))
    work.mkdir(parents=True, exist_ok=True)
    path, status = work / "state.json", 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the child as well
    path.unlink(missing_ok=True)
    for _ in range(MOST_RESTARTS):
        left = options.seconds - (time.monotonic() - begun)
        command = [sys.executable, *sys.argv, "--child", str(path), "--work", str(work),
                   "--seconds", str(left)]
        status, late = watched(command, path, environment(work))
        why = "it was not done in time" if late else f"the process ended with {status}"
        if status in (0, 2) or not path.exists() or not leave_out(path, why):
            break
    if status not in (0, 2):
        print(f"# the process that measures ended with {status}", flush=True)
    if not options.work:
        shutil.rmtree(work, ignore_errors=True)
    return status


# ---- one workload ----

def entries(schedule):
    """{key with what it is of: value}: of "tile N 512, M 8" both numbers."""
    found = {}
    for line in schedule:
        launch, colon, rest = line.rpartition(": ")
        key, _, parts = rest.partition(" ")
        for part in parts.split(", "):
            of, _, value = part.rpartition(" ")
            found[launch + colon + key + " " + of] = value
    return found


def apart(a, b):
    """In how many entries two schedules differ."""
    return sum(a.get(key) != b.get(key) for key in a.keys() | b.keys())


class Task:
    """One workload: what is compiled for it, what was timed."""

    def __init__(self, run, workload, nth, earlier):
        self.run, self.workload, self.nth = run, workload, nth
        self.earlier = [earlier["best"]["lines"]] if earlier and earlier["best"]["lines"] else []
        self.making, self.timed, self.failed = {}, {}, {}  # by lines
        self.digests = {}  # lines → digest of those that were timed
        self.ranking = None
        self.problem = None

    def job(self, **more):
        return {"workload": self.workload.name, "device": self.workload.device,
                "target": self.run.place.target, **more}

    def start(self):
        """Has the candidates ranked, then those of the first batch compiled."""
        o = self.run.options
        target = self.run.place.make
        self.derived = self.run.pool.submit(self.job(make=target), self.nth)
        self.ranked = self.run.pool.submit(
            self.job(rank=2000, seconds=o.rank_seconds) | {"target": target}, self.nth)
        self.ranked.add_done_callback(self.take_ranking)

    def take_ranking(self, future):
        answer = future.result()
        self.problem = answer.get("problem")
        self.ranking = [] if self.problem else answer["candidates"]
        first = [c["lines"].split(";") for c in self.ranking[:self.run.options.candidates]]
        for lines in [*self.earlier, *first]:
            self.compile(lines, self.nth)

    def compile(self, lines, priority):
        key = ";".join(lines)
        left_out = self.run.state.all["excluded"].get(self.workload.name, [])
        if key not in self.making and lines not in left_out:
            self.making[key] = self.run.pool.submit(
                self.job(lines=lines, make=self.run.place.make), priority)

    def wait(self):
        """Until all that was asked for is compiled."""
        self.ranked.result()
        while self.ranking is None:
            time.sleep(0.01)
        for future in [self.derived, *self.making.values()]:
            future.result()
        problem = self.problem or self.derived.result().get("problem")
        if problem:
            raise RuntimeError(problem)

    def refine(self):
        """Asks for the second batch: what differs least from the best that were timed."""
        known = {c["lines"]: entries(c["schedule"]) for c in self.ranking}
        best = sorted((key for key in self.timed if key in known), key=self.timed.get)[:NEAR]
        others = [c for c in self.ranking if c["lines"] not in self.making]

        def rank(candidate):
            own = entries(candidate["schedule"])
            return (min(apart(own, known[key]) for key in best), candidate["predicted"] or 1)
        if best:
            for candidate in sorted(others, key=rank)[:self.run.options.refine]:
                self.compile(candidate["lines"].split(";"), -1)

    # ---- arrays and launches ----

    def open(self):
        """Inputs, what is derived, and its answer beside torch's."""
        import regret_peers as peers
        run, w = self.run, self.workload
        run.place.torch.manual_seed(1)
        self.kernel = regret_pool.kernel_of(run.library, w)
        shapes = self.kernel.compile(target=run.place.make, **dict(w.sizes))
        self.inputs = peers.make_inputs(w, self.kernel, shapes, run.place.kind)
        launch = self.kernel.prepare(**self.inputs)
        made = launch.results
        self.results = list(made) if isinstance(made, (tuple, list)) else [made]
        self.reference = peers.reference(w, self.inputs)
        self.limit = peers.TOLERANCE[dict(w.consts).get("T", "")]
        run.state.begin(w.name, None, 60)
        self.error = self.answer_error(launch)
        run.state.end()
        self.launch = launch
        return self.error <= self.limit

    def close(self):
        self.inputs = self.results = self.reference = self.launch = self.kernel = None
        if self.run.place.is_gpu:
            self.run.place.torch.cuda.empty_cache()

    def answer_error(self, launch):
        for result in self.results:
            poison(result)
        launch()
        self.run.place.sync()
        return max(error_of(a, b) for a, b in zip(self.results, self.reference, strict=True))

    def prepare(self, lines, source=None):
        kernel = regret_pool.kernel_of(self.run.library, self.workload, lines, source)
        out = tuple(self.results) if len(self.results) > 1 else self.results[0]
        given = {p.name for p in kernel.inputs}
        return kernel.prepare(out=out, **{k: x for k, x in self.inputs.items() if k in given})

    # ---- timing ----

    def screen(self):
        """Times what is compiled and was not timed, beside the derived schedule."""
        place = self.run.place
        seen = {self.derived.result().get("digest"), *self.digests.values()}
        derived = place.middle(place.times(self.launch, SCREENS))
        for nth, (key, future) in enumerate(list(self.making.items())):
            answer = future.result()
            if key in self.timed or key in self.failed:
                continue
            digest = answer.get("digest")
            if digest is None or digest in seen:
                self.failed[key] = "refused" if digest is None else "the same code"
                continue
            if nth % 8 == 7:
                derived = place.middle(place.times(self.launch, SCREENS))
            seen.add(digest)
            taken = self.time_candidate(key, derived)
            self.run.state.end()
            if taken is not None:
                self.timed[key], self.digests[key] = taken / derived, digest

    def time_candidate(self, key, derived):
        """Its seconds; None: it failed, as `failed` says."""
        place, state = self.run.place, self.run.state
        lines = key.split(";")
        try:
            state.begin(self.workload.name, lines, LOADING, "loading")
            launch = self.prepare(lines)
            state.begin(self.workload.name, lines, RUNNING)
            wrong = not self.answer_error(launch) <= self.limit
            once = place.times(launch, 1)[0]
        except self.run.library.Error as problem:
            if isinstance(problem, self.run.library.FaultError):
                raise  # the context is lost
            self.failed[key] = "refused"
            return None
        if wrong:
            self.failed[key] = "wrong"
            return None
        if once > SLOW * derived:
            return once
        return place.middle(place.times(launch, SCREENS))

    def competitors(self):
        """{name: launch} of the last measurement; a schedule's name is the tuple of its lines."""
        import regret_peers as peers
        w, found = self.workload, {(): self.launch}
        best = sorted(self.timed, key=self.timed.get)[:FINALISTS]
        earlier = [";".join(lines) for lines in self.earlier if ";".join(lines) in self.timed]
        for key in dict.fromkeys([*best, *earlier]):
            found[tuple(key.split(";"))] = self.prepare(key.split(";"))
        library = peers.library(w, self.inputs)
        if library is not None and self.runs(library):
            found["torch"] = library
        if w.by_hand:
            launch = self.prepare([], w.by_hand)
            if self.answer_error(launch) <= self.limit:
                found["by hand"] = launch
        return found

    def runs(self, peer):
        """Whether torch has it for these arrays."""
        try:
            peer()
            return True
        except (RuntimeError, NotImplementedError) as problem:
            if "CUDA error" in str(problem):
                raise
            print(f"# {self.workload.name}: torch: {str(problem).splitlines()[0]}", flush=True)
            return False

    def final(self):
        """The row."""
        place, w = self.run.place, self.workload
        self.run.state.begin(w.name, None, 90)
        rivals = self.competitors()
        times = take_turns(place, rivals, self.run.options.rounds)
        schedules = [name for name in rivals if isinstance(name, tuple)]
        best = min(schedules, key=lambda name: place.middle(times[name]))
        if place.over(times, (), best) < 1:  # by its rounds it is no slower
            best = ()
        digest = self.derived.result()["digest"]
        ours = regret_pool.compiled_digest(self.run.tools, self.launch.compiled) \
            if place.is_gpu else digest
        if ours != digest:
            print(f"# {w.name}: the device's code is not that of {place.target}", flush=True)
        derived_over = place.over(times, (), best)
        candidates = {self.digests[key]: round(ratio * derived_over, 4)
                      for key, ratio in self.timed.items()}
        candidates |= {self.digests[";".join(name)]: round(place.over(times, name, best), 4)
                       for name in schedules if name}
        reasons = list(self.failed.values())
        self.run.state.end()
        row = {
            "workload": w.name, "target": place.target, "card": place.card, "digest": digest,
            "derived": place.timed(times, (), best),
            "best": {**place.timed(times, best, best), "lines": list(best),
                     "digest": self.digests[";".join(best)] if best else digest},
            "peers": {name: place.timed(times, name, best) for name in rivals
                      if not isinstance(name, tuple)},
            "tried": len(self.timed), "failed": {r: reasons.count(r) for r in sorted(set(reasons))},
            "error": [float(f"{self.error:.2e}"), self.limit], "candidates": candidates,
            "measured": datetime.date.today().isoformat(), "version": self.run.version}
        return row if ours == digest else {**row, "on_device": ours}


# ---- all workloads ----

class Run:
    def __init__(self, options, wanted_names, begun):
        import ours
        self.options, self.begun, self.state = options, begun, State(options.child)
        self.library, self.tools = ours.use(options.tessera), regret_pool.digests()
        self.place = Place(options, self.library)
        self.rows = records.read(options.data)
        self.version = subprocess.run([options.tessera, "version"], capture_output=True,
                                      text=True).stdout.strip().removeprefix("tessera ")
        names = [n for n in wanted_names(options, self.rows, self.place.target)
                 if n not in self.state.all["done"]]
        self.pool = regret_pool.Pool(options.tessera, options.jobs)
        earlier = {r["workload"]: r for r in self.rows if r["target"] == self.place.target}
        device = records.device_of(self.place.target)
        self.tasks = [Task(self, regret_workloads.by_name(name, device), nth, earlier.get(name))
                      for nth, name in enumerate(names)]
        print(f"# {self.place.card}, {self.place.target}: {len(names)} workloads, "
              f"{options.jobs} processes compile", flush=True)

    def has_time(self):
        return time.monotonic() - self.begun < self.options.seconds

    def attempt(self, task, step):
        """A step of a task: False if that ends it."""
        try:
            if task.problem is None:
                step(task)
        except self.library.FaultError:
            raise
        except Exception as problem:
            if "CUDA error" in str(problem):
                raise
            task.problem = f"{type(problem).__name__}: {problem}"
        if task.problem is not None:
            print(f"# {task.workload.name}: {str(task.problem).splitlines()[0][:300]}", flush=True)
            self.state.end(task.workload.name)
            task.close()
        return task.problem is None

    def first(self, task):
        task.wait()
        if not task.open():
            raise RuntimeError(f"the answer is wrong: {task.error:.2g}, allowed {task.limit:.2g}")
        task.screen()
        task.close()

    def second(self, task):
        task.wait()
        task.open()
        task.screen()
        row = task.final()
        self.rows = records.put(self.rows, row)
        records.write(self.rows, self.options.data)
        task.close()
        self.state.end(task.workload.name)
        print(line_of(row, time.monotonic() - self.begun), flush=True)

    def chunk(self, tasks):
        """First passes, then second ones, whose candidates are compiled meanwhile. A CPU is quiet
        while it is timed."""
        quiet = not self.place.is_gpu
        if quiet:
            for task in tasks:
                task.start()
            for task in tasks:
                task.wait()
        going = []
        for task in tasks:
            if self.has_time() and self.attempt(task, self.first):
                going.append(task)
                if not quiet:
                    task.refine()
        for task in going if quiet else ():
            task.refine()
        for task in going if quiet else ():
            task.wait()
        for task in going:
            self.attempt(task, self.second)

    def all(self):
        if self.place.is_gpu:
            for task in self.tasks:
                task.start()
        for at in range(0, len(self.tasks), CHUNK):
            if self.has_time():
                self.chunk(self.tasks[at:at + CHUNK])
        self.pool.close()
        if not self.options.no_compile:
            self.compiled_peers()
        left = [t.workload.name for t in self.tasks
                if t.workload.name not in self.state.all["done"]]
        print(f"# {time.monotonic() - self.begun:.0f} s"
              + (f"; no time for {len(left)}: {', '.join(left)}" if left else ""), flush=True)

    def compiled_peers(self):
        """torch.compile's versions, beside the best schedule that the row names."""
        import regret_peers as peers
        device = records.device_of(self.place.target)
        for row in [r for r in self.rows if r["target"] == self.place.target]:
            w = regret_workloads.by_name(row["workload"], device)
            mark = f"compile {w.name}" if w else ""
            wanted = w and self.options.only in w.name and w.kernel in peers.COMPILED and \
                "torch.compile" not in row["peers"] and mark not in self.state.all["done"]
            if wanted and self.has_time():
                self.state.begin(w.name, None, 120, "torch.compile")
                self.attempt(Task(self, w, 0, None), lambda task, row=row:
                             self.compiled_peer(task, row))
                self.state.end(mark)

    def compiled_peer(self, task, row):
        import regret_peers as peers
        torch = self.place.torch
        task.derived = None
        task.open()
        torch._dynamo.reset()
        call = torch.compile(peers.PEERS[task.workload.kernel], dynamic=False)
        consts = peers.consts_of(task.workload)
        rivals = {(): task.prepare(row["best"]["lines"]),
                  "torch.compile": lambda: call(**task.inputs, **consts)}
        self.state.begin(task.workload.name, None, 120, "torch.compile")
        times = take_turns(self.place, rivals, self.options.rounds)
        peer = self.place.timed(times, "torch.compile", ())
        peer["seconds"] = float(f"{row['best']['seconds'] * peer['over']:.5g}")
        row["peers"]["torch.compile"] = peer
        records.write(self.rows, self.options.data)
        task.close()
        print(f"{task.workload.name:60} torch.compile x{peer['over']:.3f}"
              f"  {time.monotonic() - self.begun:.0f} s", flush=True)


def line_of(row, seconds):
    peers = ", ".join(f"{name} x{peer['over']:.3f}" for name, peer in row["peers"].items())
    best = "; ".join(row["best"]["lines"]) or "as derived"
    return (f"{row['workload']:60} {row['derived']['seconds'] * 1e6:9.1f} us, best "
            f"/{row['derived']['over']:.3f} of {row['tried']} ({best}); {peers}  {seconds:.0f} s")


def run(options, wanted_names, begun):
    if options.child is None:
        return supervise(options, begun)
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # others wait for compilers
    if importlib.util.find_spec("torch") is None:
        print("regret.py: measuring needs torch", file=sys.stderr)
        return 2
    Run(options, wanted_names, begun).all()
    return 0
