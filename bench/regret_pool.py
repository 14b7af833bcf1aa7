#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that compile for regret.py: they need no device and no torch.

A job is a dictionary: {"workload": name, "device": "gpu" or "cpu", "target": …, "lines": […]}
compiles the workload with these schedule entries for a target, and gives {"digest": …}, of PTX or
of the object; with "make" it leaves the code in the cache, as the process that launches it looks
for it. {"rank": N, …} lists what a sweep would measure (`tessera tune --target`). A job that fails
gives {"problem": …}, also where its process ends or takes too long."""

import concurrent.futures
import importlib.util
import itertools
import json
import os
import pathlib
import queue
import select
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
JOB_SECONDS = 40  # that compiling one candidate may take
RANK_SECONDS = 60


def digests():
    """The functions by which tests/digests tells machine code apart."""
    path = HERE.parent / "tests" / "digests" / "digests.py"
    spec = importlib.util.spec_from_file_location("digests", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# ---- the process that compiles ----

def kernel_of(library, workload, lines=(), source=None):
    """The kernel of a workload with its constants, without pins."""
    kernel = library.kernel(str(HERE.parent / (source or workload.source)))
    consts = dict(workload.consts)
    return kernel.given(schedule=list(lines), pins=False, **consts)


def compiled_digest(tools, compiled):
    """Of a kernel that is compiled, what its machine code is known by."""
    is_ptx = compiled.target.startswith("sm_")
    code = compiled.emit("ptx" if is_ptx else "hsaco" if compiled.target.startswith("gfx")
                         else "obj")
    return (tools.ptx_digest if is_ptx else tools.elf_digest)(code)


def compile_job(library, tools, job):
    import regret_workloads
    workload = regret_workloads.by_name(job["workload"], job["device"])
    kernel = kernel_of(library, workload, job.get("lines", ()), job.get("source"))
    sizes = dict(workload.sizes)
    if job.get("make"):
        kernel.start(target=job["make"], **sizes)
    compiled = kernel.compile(target=job["target"], **sizes)
    answer = {"digest": compiled_digest(tools, compiled)}
    if job.get("price"):
        answer["price"] = json.loads(compiled.explain("json")).get("seconds")
    if job.get("make"):  # waits for it
        kernel.compile(target=job["make"], **sizes)
    return answer


def rank_job(program, job):
    """What a sweep would measure, the derived schedule first: {"derived": …, "candidates": […]}"""
    import regret_workloads
    workload = regret_workloads.by_name(job["workload"], job["device"])
    words = [program, "tune", workload.source, *workload.words(), "--target", job["target"],
             "--json", "--workers", "1", "--budget", f"{job['seconds']}s", "--candidates",
             str(job["rank"]), "--allow", "all"]
    done = subprocess.run(words, cwd=HERE.parent, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=RANK_SECONDS)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])["ranking"]
    if "nothing to search" in done.stderr:
        return {"derived": None, "candidates": [], "points": 1, "failed": {}}
    return {"problem": done.stderr.strip()[:500]}


def serve(program):
    """Jobs as lines of JSON on standard input, answers on standard output."""
    import ours
    os.nice(5)  # what is timed comes first
    library, tools = ours.use(program), digests()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = rank_job(program, job) if "rank" in job else compile_job(library, tools, job)
        except Exception as problem:
            answer = {"problem": f"{type(problem).__name__}: {problem}"[:500]}
        print(json.dumps(answer), flush=True)


# ---- the pool ----

class Pool:
    """Jobs by priority, the lowest number first; of one priority in the order in which they came.
    Each thread owns a process, which is started again where it ended or took too long."""

    def __init__(self, program, workers, environment=None):
        self.program, self.environment = str(program), {**os.environ, **(environment or {})}
        self.jobs, self.count, self.closed = queue.PriorityQueue(), itertools.count(), False
        self.busy = 0.0  # seconds of all workers
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def submit(self, job, priority=0):
        future = concurrent.futures.Future()
        self.jobs.put((priority, next(self.count), job, future))
        return future

    def close(self):
        self.closed = True
        for _ in self.threads:
            self.jobs.put((-1, next(self.count), None, None))
        for thread in self.threads:
            thread.join(5)

    def _start(self):
        return subprocess.Popen(
            [sys.executable, str(HERE / "regret_pool.py"), self.program], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment)

    def _run(self):
        child = None
        while True:
            _, _, job, future = self.jobs.get()
            if job is None or self.closed:
                break
            begun = time.perf_counter()
            child = child or self._start()
            answer = self._ask(child, job)
            if answer is None:
                child.kill()
                code = child.wait()
                child = None
                late = time.perf_counter() - begun > JOB_SECONDS - 1
                answer = {"problem": "compiling takes too long" if late
                          else f"the process that compiles ended ({code})"}
            self.busy += time.perf_counter() - begun
            future.set_result(answer)
        if child:
            child.stdin.close()
            child.kill()
            child.wait()

    def _ask(self, child, job):
        """The answer; None: there is none in time."""
        try:
            child.stdin.write(json.dumps(job).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            return None
        limit = RANK_SECONDS + 5 if "rank" in job else JOB_SECONDS
        if not select.select([child.stdout], [], [], limit)[0]:
            return None
        line = child.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None


if __name__ == "__main__":
    serve(sys.argv[1])
