#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep.py TESSERA MOCK FOLDER [--long]: sweeps of `tessera tune`, on the CPU and on a driver made
of plain memory (tests/mock_driver) whose kernels hang, fault and lie. Whatever happens, a sweep
ends, what was found is in the store, and no process and no folder stays. With --long fifty kernels
hang and a hundred fault in one sweep. Prints `N passed, 0 failed`, or fails."""

import csv
import io
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402

KERNEL = """kernel f(x: T[M, N]) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    return e / sum(e, axis=1)
}
"""
SMALL = """kernel mix(q: i4[N, K], s: f32[N, G], x: f16[M, K]) -> y: f16[M, N] where K = 32 * G {
    y[m, n] = f16(gelu(sum(k in K) f32(x[m, k]) * f32(q[n, k]) * s[n, k // 32]))
}
"""
# Weights are rounded as they are beside the greatest score so far: once a step.
STEPS = """kernel steps(x: bf16[M, N], v: bf16[N, D]) -> o: bf16[M, D] {
    assume D in 64
    parallel i in M by 16 {
        var m = fill(-inf, f32[i, 1])
        var l = zeros(f32[i, 1])
        var acc = zeros(bf16[i, D])
        for j in N by 64 {
            let s = f32(x[i, j])
            let m1 = max(m, max(s, axis=1))
            let top = softmax_reference(m1)
            let p = exp(s - top)
            l = l * exp(m - top) + sum(p, axis=1)
            acc = bf16(f32(acc) * exp(m - top) + f32(bf16(p) @ v[j, :]))
            m = m1
        }
        o[i, :] = bf16(f32(acc) / l)
    }
}
tune steps { tile j in 8, 16, 32, 64, 128, 256 }
"""
TUNE = "tune f { tile M in 1, 2, 4; reduction in resident, looped }\n"
SIZE = ["--set", "T=f32", "--size", "M=32,N=256"]


class Sweeps:
    def __init__(self, tessera, mock, folder):
        self.tessera, self.mock, self.folder = tessera, mock, folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = dict(os.environ, TMPDIR=str(self.temporary))
        self.environment.pop("TESSERA_TUNE_STORE", None)

    def source(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def command(self, source, store, *more):
        """A kernel has much time, where none is said: no candidate is late on a busy machine."""
        limit = [] if "--timeout" in more else ["--timeout", "60"]
        return [self.tessera, "tune", source, "--store", str(self.folder / store), *limit, *more]

    def clean(self):
        """No folder of a sweep and no process of it is there."""
        assert not list(self.temporary.iterdir()), list(self.temporary.iterdir())
        deadline = time.monotonic() + patience.seconds(10)
        while self.workers():
            assert time.monotonic() < deadline, self.workers()
            time.sleep(0.05)

    def workers(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(") ", 1)[1][0]
            except (OSError, IndexError):
                continue
            ours = b"--work" in words and str(self.folder).encode() in b" ".join(words)
            if ours and state != "Z":
                found.append(int(entry.name))
        return found

    def tune(self, source, store, *more, code=0, **settings):
        done = subprocess.run(self.command(source, store, *more), capture_output=True, text=True,
                              env=dict(self.environment, **settings), timeout=patience.seconds(570))
        assert done.returncode == code, (done.args, done.returncode, done.stdout, done.stderr)
        self.clean()
        return done.stdout if code == 0 else done.stderr

    def rows(self, store):
        text = subprocess.run([self.tessera, "tune", "export", "--csv", "--store",
                               str(self.folder / store)], check=True, capture_output=True,
                              text=True).stdout
        return list(csv.DictReader(io.StringIO(text)))

    def mocked(self, **settings):
        return dict(settings, LD_LIBRARY_PATH=f"{self.mock}/lib", MOCK_OPENED="0")


def on_the_cpu(s):
    source = s.source("declared.tile", KERNEL + TUNE)
    said = s.tune(source, "cpu.db", *SIZE, "--device", "cpu", "--candidates", "20")
    assert "space    6 points" in said and "winner   the" in said, said
    rows = s.rows("cpu.db")
    assert len([r for r in rows if r["derived"] in ("1", "true")]) == 1, rows
    assert {r["status"] for r in rows} == {"ok"} and len(rows) >= 6, rows
    for row in rows:
        low, median, high = (float(row[name]) for name in ("low_s", "median_s", "high_s"))
        assert 0 < low <= median <= high and float(row["predicted_s"]) > 0, row
    again = s.tune(source, "cpu.db", *SIZE, "--device", "cpu", "--resume", "--candidates", "20")
    assert "measured 0 in" in again, again
    return len(rows)


def proposed_on_the_cpu(s):
    """Without a block: tiles, unrolling and threads, as many as were asked for, in several
    batches."""
    source = s.source("proposed.tile", KERNEL)
    said = s.tune(source, "proposed.db", "--set", "T=f32", "--size", "M=48,N=700", "--device",
                  "cpu", "--threads", "3", "--candidates", "40", "--strategy", "random")
    assert "measured 40 in" in said and "could not fit: 0" in said, said
    lines = "\n".join(row["candidate"] for row in s.rows("proposed.db")).split("\n")
    for line in ("threads 1", "threads 2", "unroll 1", "unroll 2", "unroll 4", "unroll 8"):
        assert line in lines, (line, lines)
    assert "threads 4" not in lines, lines
    return len(s.rows("proposed.db"))


def small_answers(s):
    """Where terms cancel, and beside exact zeros, a small answer is as far off as a large one."""
    source = s.source("small.tile", SMALL)
    s.tune(source, "small.db", "--size", "M=64,N=96,G=8", "--device", "cpu", "--candidates", "24",
           "--budget", f"{patience.seconds(60):.0f}s")
    rows = s.rows("small.db")
    assert len(rows) >= 8 and {r["status"] for r in rows} == {"ok"}, rows
    return len(rows)


def other_steps(s):
    """What is rounded once a step is as good in other steps, and is compared so."""
    source = s.source("steps.tile", STEPS)
    s.tune(source, "steps.db", "--size", "M=64,N=1024,D=64", "--device", "cpu", "--strategy",
           "exhaustive")
    rows = s.rows("steps.db")
    assert len(rows) >= 5 and {r["status"] for r in rows} == {"ok"}, rows
    return len(rows)


def several_cases(s):
    source = s.source("several.tile", KERNEL + TUNE)
    s.tune(source, "several.db", "--set", "T=f32", "--set", "T=f64", "--size", "M=16,N=64..128:x2",
           "--size", "M=8,N=96", "--device", "cpu", "--candidates", "2")
    cases = {(row["types"], row["sizes"]) for row in s.rows("several.db")}
    assert len(cases) == 6, cases
    return len(cases)


def shards(s):
    source = s.source("shards.tile", KERNEL + TUNE)
    seen = []
    for shard in ("1/2", "2/2"):
        store = f"shard{shard[0]}.db"
        s.tune(source, store, *SIZE, "--device", "cpu", "--shard", shard, "--strategy",
               "exhaustive")
        seen.append({r["candidate"] for r in s.rows(store) if r["derived"] not in ("1", "true")})
    assert not seen[0] & seen[1] and len(seen[0] | seen[1]) >= 5, seen
    subprocess.run([s.tessera, "tune", "merge", str(s.folder / "shard1.db"),
                    str(s.folder / "shard2.db"), "--store", str(s.folder / "all.db")], check=True,
                   capture_output=True)
    assert seen[0] | seen[1] <= {r["candidate"] for r in s.rows("all.db")}


def is_stopped(s):
    """Ctrl-C in the middle: 130, and what was found is there. A sweep that is killed leaves no
    worker."""
    source = s.source("stopped.tile", KERNEL)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        store = f"stopped{number}.db"
        sweep = subprocess.Popen(s.command(source, store, "--set", "T=f32", "--size",
                                           "M=2000,N=4000", "--device", "cpu", "--budget", "10m"),
                                 env=s.environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + patience.seconds(120)
        while not (s.folder / store).exists() or len(s.rows(store)) < 4:
            assert sweep.poll() is None and time.monotonic() < deadline, sweep.stdout.read()
            time.sleep(0.3)
        assert s.workers()
        start = time.monotonic()
        sweep.send_signal(number)
        said = sweep.communicate(timeout=patience.seconds(60))[0]
        assert sweep.returncode == code, (sweep.returncode, said)
        assert time.monotonic() - start < patience.seconds(20)
        assert number == signal.SIGKILL or "stopped" in said, said
        if number == signal.SIGKILL:
            subprocess.run(["rm", "-rf", *map(str, s.temporary.iterdir())], check=True)
        s.clean()
        assert len(s.rows(store)) >= 4


def takes_no_more(s):
    """A store that cannot grow in the middle of a sweep: what was found is told, with the error."""
    source = s.source("full.tile", KERNEL)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))

    full = subprocess.run(s.command(source, "full.db", *SIZE, "--device", "cpu", "--candidates",
                                    "30"), capture_output=True, text=True, env=s.environment,
                          preexec_fn=limit, timeout=patience.seconds(300))
    assert full.returncode == 3 and "error[E1051]: tuning store" in full.stderr, full
    assert "derived  " in full.stdout and "winner   not decided" in full.stdout, full.stdout
    s.clean()


def stopped_early(s):
    """Ctrl-C while the first candidates are weighed and compiled."""
    source = s.source("early.tile", KERNEL)
    for seconds in (0.3, 0.8):
        sweep = subprocess.Popen(s.command(source, "early.db", "--set", "T=f32", "--size",
                                           "M=2000,N=4000", "--device", "cpu", "--budget", "10m"),
                                 env=s.environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + patience.seconds(60)
        while not s.workers() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(seconds)
        sweep.send_signal(signal.SIGINT)
        said = sweep.communicate(timeout=patience.seconds(60))[0]
        assert sweep.returncode == 130 and "winner   not decided" in said, (sweep.returncode, said)
        s.clean()


def on_the_mock(s, candidates, mixture):
    """Kernels that hang, fault and lie are marked, and the others are measured."""
    source = s.source("add.tile", "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n")
    store = f"mock{candidates}.db"
    said = s.tune(source, store, "--size", "N=4096", "--device", "cuda", "--candidates",
                  str(candidates), "--timeout", "1", "--strategy", "random", "--seed", "3",
                  **s.mocked(MOCK_SWEEP=mixture, MOCK_ERROR="719"))
    counts = {}
    for row in s.rows(store):
        counts[row["status"]] = counts.get(row["status"], 0) + 1
        if row["status"] == "timeout":
            assert "has not ended after 1 seconds" in row["message"], row
        if row["status"] == "crash":
            assert "MOCK_ERROR_719" in row["message"], row
        if row["status"] == "wrong":
            assert "differs from the derived" in row["message"], row
    distinct = int(re.search(r"(\d+) of them distinct", said).group(1))
    compiled = sum(n for name, n in counts.items() if name not in ("does not fit", "refused"))
    assert compiled == min(candidates + 1, distinct), (counts, distinct)
    return counts


def on_several_devices(s):
    source = s.source("add2.tile", "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n")
    said = s.tune(source, "two.db", "--size", "N=4096", "--device", "cuda", "--devices",
                  "cuda:0,cuda:0", "--candidates", "40", **s.mocked(MOCK_SWEEP="0,0,0,2"))
    assert "measured 40 in" in said, said


def repeats(s):
    """With times that are the same again, so are the candidates and the winner."""
    source = s.source("add3.tile", "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n")
    found = []
    for store in ("first.db", "second.db"):
        said = s.tune(source, store, "--size", "N=4096", "--device", "cuda", "--candidates", "48",
                      "--seed", "7", **s.mocked(MOCK_SWEEP="0,10,0,2"))
        told = "".join(line for line in said.splitlines(True) if not line.startswith("time "))
        found.append((re.sub(r"in [0-9.]+ s", "", told),
                      sorted((r["candidate"], r["status"]) for r in s.rows(store))))
    assert found[0] == found[1], found


def bad_input(s):
    one = s.source("one.tile", KERNEL + "tune f { reduction in resident }\n")
    wrong = [
        (2, "leave one choice", [one, "a.db", *SIZE]),
        (2, "nothing to search: --schedule gives `reduction`",
         [s.source("given.tile", KERNEL + "tune f { reduction in resident, looped }\n"), "a.db",
          *SIZE,
          "--schedule", "reduction looped"]),
        (1, "E0807", [s.source("empty.tile", KERNEL + "tune f { tile M in 8..4 }\n"), "a.db",
                      *SIZE]),
        (1, "E0805", [s.source("twice.tile", KERNEL + "tune f { tile M in 8; tile M in 4 }\n"),
                      "a.db", *SIZE]),
        (1, "nothing to search: of", [s.source(
            "none.tile", KERNEL + "tune f { tile M in 524288, 262144 }\n"), "a.db", *SIZE]),
        (3, "E1051", [s.source("space.tile", KERNEL), "one.tile/a.db", *SIZE]),
        (2, "--strategy modal: expected model, random or exhaustive; did you mean model?",
         [one, "a.db", *SIZE, "--strategy", "modal"]),
        (2, "--shard 3/2", [one, "a.db", *SIZE, "--shard", "3/2"]),
        (2, "--budget soon", [one, "a.db", *SIZE, "--budget", "soon"]),
        (2, "--candidates 0", [one, "a.db", *SIZE, "--candidates", "0"]),
        (2, "no device 'gpu'", [one, "a.db", *SIZE, "--device", "gpu"]),
        (2, "not all sizes of f are known", [one, "a.db", "--set", "T=f32", "--size", "M=3"]),
    ]
    for code, words, arguments in wrong:
        arguments = arguments if "--device" in arguments else [*arguments, "--device", "cpu"]
        said = s.tune(*arguments, code=code)
        assert words in said, (words, said)
    return len(wrong)


def main():
    # What a shell starts in the background ignores Ctrl-C, and so does what that starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tessera, mock, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    s = Sweeps(tessera, mock, folder)
    if "--long" in sys.argv:
        counts = on_the_mock(s, 200, "30,55,0,2")
        assert counts.get("timeout", 0) >= 50 and counts.get("crash", 0) >= 100, counts
        print(f"one sweep: {counts}")
        print("1 passed, 0 failed")
        return
    print(f"cpu: {on_the_cpu(s)} candidates; resumed")
    print(f"proposed: {proposed_on_the_cpu(s)} candidates")
    print(f"small answers: {small_answers(s)} candidates")
    print(f"other steps: {other_steps(s)} candidates")
    print(f"several: {several_cases(s)} cases")
    shards(s)
    print("shards: apart, and merged")
    is_stopped(s)
    stopped_early(s)
    takes_no_more(s)
    print("stopped: kept, and nothing stays")
    counts = on_the_mock(s, 32, "15,30,15,2")
    assert min(counts.get(name, 0) for name in ("ok", "timeout", "crash", "wrong")) > 0, counts
    print(f"mock: {counts}")
    on_several_devices(s)
    repeats(s)
    print("mock: two devices; the same again")
    print(f"bad input: {bad_input(s)} messages")
    print("13 passed, 0 failed")


main()
