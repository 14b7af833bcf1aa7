# SPDX-License-Identifier: Apache-2.0
"""Measuring: how long a kernel takes, and which schedule is fastest. A search is done by the
program `tessera tune`, whose processes a fault of a candidate may end."""

import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections import namedtuple

from . import _abi, _arrays
from ._abi import INOUT, UsageError
from ._command import program
from ._compiled import Spec
from ._signature import instead_of, whole_number

MOST_LAUNCHES = 1000000
MOST_FILES = 1 << 30  # bytes of arguments that are written to files for a search
STRATEGIES = ("model", "random", "exhaustive")


# ---- times ----

def interval(samples):
    """(median, low, high): between the last two the true median lies with 95 % confidence if there
    are 6 or more samples, whatever their distribution; see tune/sweep/tune_stats.h."""
    found, n = sorted(samples), len(samples)
    middle = (found[(n - 1) // 2] + found[n // 2]) / 2
    k, outside = 0, 2 * 0.5 ** n
    while outside <= 0.05 and k < n // 2:
        k += 1
        outside += 2 * math.comb(n, k) * 0.5 ** n
    k = max(k, 1)
    return middle, found[k - 1], found[n - k]


def words_of_time(seconds):
    for unit, factor in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            break
    return f"{seconds / factor:.4g} {unit}"


class Bench:
    """How long a launch takes: `seconds` is the median of the rounds, `low` and `high` enclose the
    true one with 95 % confidence. `bytes` are those of the arguments and results, `flops` those of
    matrix products."""

    def __init__(self, kernel, device, samples, launches, moved, flops):
        self.kernel, self.device, self.samples, self.launches = kernel, device, samples, launches
        self.seconds, self.low, self.high = interval(samples)
        self.bytes, self.flops = moved, flops

    @property
    def bandwidth(self):
        """Bytes a second, if each argument is read and each result written once."""
        return self.bytes / self.seconds

    @property
    def rate(self):
        """Floating-point operations of matrix products a second."""
        return self.flops / self.seconds

    def __str__(self):
        rate = f", {self.rate / 1e12:.4g} TFLOP/s" if self.flops else ""
        return (f"{self.kernel} on {self.device}: {words_of_time(self.seconds)}, from "
                f"{words_of_time(self.low)} to {words_of_time(self.high)} in {len(self.samples)} "
                f"rounds of {self.launches}; {self.bandwidth / 1e9:.4g} GB/s{rate}")

    def __repr__(self):
        return f"<tessera.Bench {self}>"


def bench(kernel, args, out, seconds, rounds, named):
    rounds = whole_number(f"{kernel.name}: rounds", rounds)
    if rounds < 1 or not 0 < seconds < math.inf:
        raise UsageError(f"{kernel.name}: {rounds} rounds in {seconds} seconds are none")
    kernel._params.check_names(named, ("out", "seconds", "rounds"))
    launch = kernel.prepare(*args, out=out, **named)
    stream = launch._current()
    launch.time(1, stream)  # the first one loads the code
    share = seconds / (rounds + 1)
    first = max(launch.time(1, stream), 1e-7)
    warm = max(1, min(MOST_LAUNCHES, int(share / first)))
    first = max(launch.time(warm, stream), 1e-7)
    times = max(1, min(MOST_LAUNCHES, int(share / first)))
    samples = [launch.time(times, stream) for _ in range(rounds)]
    if launch._says:
        launch.messages(stream)
    moved, resources = 0, _abi.Resources()
    for p, look in launch._looks:
        if look is not None:
            bits = _arrays.product(look.dims) * _arrays.bits_of(look.type)
            moved += (bits + 7) // 8 * (2 if p.io == INOUT else 1)
    with kernel._runtime.lock:
        kernel._runtime.call("kernel_resources", launch.compiled._handle, ctypes.byref(resources))
        flops = resources.flops
    return Bench(kernel.name, launch.device.name, samples, times, moved, flops)


# ---- what a search says ----

class Progress(namedtuple("Progress", "doing done all seconds left derived best ratio failed")):
    """How a search stands. `doing`: "weighing", "measuring", "measuring the best"; `done` of `all`
    candidates; `seconds` since it began, and that are left; the times of the derived schedule and
    of the best one, and how many times as fast that is; `failed`: {why: how many}. What is not
    known yet is None."""
    __slots__ = ()

    def __str__(self):
        words = f"{self.doing} {self.done}/{self.all}"
        if self.best and self.ratio:
            words += f", best {words_of_time(self.best)}, {self.ratio:.3f} times the derived"
        failed = sum(self.failed.values())
        if failed:
            words += f", {failed} failed"
        return words + (f", {self.left:.0f} s left" if self.left is not None else "")


class Tuned:
    """What a search found. `faster`: a schedule surely is faster than the derived one; `schedule`:
    the entries of the best one; `ratio`: how many times as fast it was, within `ratio_low` and
    `ratio_high`; `seconds`, `derived`: their times; `pinned`: the file in which it is pinned, or
    None. `raw` has all that the program said."""

    def __init__(self, raw, pinned):
        best = raw["best"] or {}
        self.raw, self.pinned = raw, pinned
        self.faster, self.schedule = raw["faster"], raw["schedule"]
        self.measured, self.failed = raw["measured"], raw["failed"]
        self.seconds = best.get("seconds")
        self.derived = (raw["derived"] or {}).get("seconds")
        self.ratio, self.ratio_low, self.ratio_high = [
            best.get(name) for name in ("ratio", "ratio_low", "ratio_high")]

    def __str__(self):
        words = f"{self.raw['kernel']} on {self.raw['device']}, {self.raw['sizes']}: "
        if not self.faster:
            return words + f"none of {self.measured} schedules is surely faster than the derived"
        return words + (f"{self.ratio:.3f} times as fast ({self.ratio_low:.3f} to "
                        f"{self.ratio_high:.3f}): {'; '.join(self.schedule)}")

    def __repr__(self):
        return f"<tessera.Tuned {self}>"


class Shown:
    """The progress on a line of standard error, which a terminal or a notebook writes again."""

    def __init__(self, name, always):
        notebook = "ipykernel" in sys.modules
        self.again = notebook or sys.stderr.isatty()
        self.shows, self.name, self.longest, self.last = always or self.again, name, 0, -10.0

    def __call__(self, progress):
        if not self.shows or (not self.again and progress.seconds < self.last + 10):
            return
        self.last, line = progress.seconds, f"tune {self.name}: {progress}"
        self.longest = max(self.longest, len(line))
        print(f"\r{line:{self.longest}}" if self.again else line, end="" if self.again else "\n",
              file=sys.stderr, flush=True)

    def end(self):
        if self.shows and self.again and self.longest:
            print("\r" + " " * self.longest + "\r", end="", file=sys.stderr, flush=True)


# ---- what the program is told ----

def stride_words(look):
    """The strides of an array as `--strides` takes them; None: it is contiguous and aligned."""
    address = (look.data or 0) % 16
    at = f"@{address & -address}" if address else ""
    if look.strides is None:
        return at or None
    words = []
    for stride in look.strides:
        by = min(abs(stride) & -abs(stride), 16)
        word = str(abs(stride)) if abs(stride) < 2 else f"*{by}" if by > 1 else "*"
        words.append("-" + word if stride < 0 else word)
    return ",".join(words) + at


def write_array(adapter, value, look, path):
    """The array as a file, with no more than its elements; False: it has no name for NumPy."""
    array = adapter.host(value) if look.type not in ("i4", "u4") else None
    if array is None:
        return False
    import numpy
    array = numpy.ascontiguousarray(array)
    if look.type in ("bf16", "f8e4m3", "f8e5m2"):  # as the program reads them
        array = array.view({"bf16": "V2", "f8e4m3": "V1", "f8e5m2": "V1"}[look.type])
    numpy.save(path, array)
    return True


def arguments(kernel, values, looks, folder):
    """[words]: the values and strides of what the call gives, the values last."""
    options, given, room = [], [], MOST_FILES
    for p, value, look in zip(kernel.inputs, values, looks):
        if p.is_const or value is None:
            continue
        if look is None:
            given.append(f"{p.name}={value}")
            continue
        words = stride_words(look)
        if words is not None:
            options += ["--strides", f"{p.name}={words}"]
        if isinstance(value, Spec):
            continue
        size = _arrays.product(look.dims) * _arrays.bits_of(look.type) // 8
        path = os.path.join(folder, f"{p.name}.npy")
        if size <= room and look.type != "f8e5m2" and \
                write_array(_arrays.adapter_of(value), value, look, path):
            room -= size
            given.append(f"{p.name}={path}")
    return [*options, "--", *given]


def read_options(kernel, options):
    """(words of the command line, store, pins, device, what is given by name)."""
    words, named = [], {}
    taken = {"candidates": None, "strategy": None, "seed": None, "resume": None, "workers": None,
             "store": None, "pins": None, "device": None}
    for name, value in options.items():
        if name in taken:
            taken[name] = value
        else:
            named[name] = value
    kernel._params.check_names(named, ("budget", "pin", "progress", *taken))
    if taken["strategy"] is not None and taken["strategy"] not in STRATEGIES:
        raise UsageError(f"{kernel.name}: no strategy '{taken['strategy']}'"
                         + instead_of(str(taken["strategy"]), list(STRATEGIES)))
    for name in ("candidates", "seed", "workers"):
        if taken[name] is not None:
            number = whole_number(f"{kernel.name}: {name}", taken[name])
            words += [f"--{name}", str(number)]
    if taken["strategy"]:
        words += ["--strategy", taken["strategy"]]
    if taken["resume"]:
        words.append("--resume")
    store = [] if taken["store"] is None else ["--store", os.fspath(taken["store"])]
    return words, store, taken["pins"], taken["device"], named


def budget_words(kernel, budget):
    if isinstance(budget, str):
        return ["--budget", budget]
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or \
            not 0 <= budget < 1e7:
        raise UsageError(f"{kernel.name}: a budget is a number of seconds, or \"10m\": not "
                         f"{budget!r}")
    return ["--budget", f"{budget}s"]


# ---- running it ----

def fail(status, said):
    """The program's error as an exception."""
    kind = _abi.ERRORS.get(status, _abi.UnavailableError)
    raise kind(said.strip() or f"tessera tune ended with status {status}")


def run(words, each):
    """Runs the program; `each` is called with every object that it says. Ctrl-C lets it end."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        with child.stdout:
            try:
                for line in child.stdout:
                    each(json.loads(line.decode(errors="replace")))
                status = child.wait()
            except BaseException:  # KeyboardInterrupt, or an error of `each`
                child.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(30)
                child.kill()
                child.wait()
                raise
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if status != 0:
        fail(status, said)
    if said.strip():
        _abi.logger().info("%s", said.strip())


def file_of(kernel, folder):
    """The `.tile` file that the program reads: its own, or one of its text."""
    source = kernel._program
    if source.path is not None:
        return os.path.abspath(source.path)
    path = os.path.join(folder, kernel.name + ".tile")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source.text)
    return path


def pin_it(kernel, path, result, store, pins):
    """The file in which the best schedule is pinned, if it is."""
    os.makedirs(os.path.dirname(os.path.abspath(pins)), exist_ok=True)
    before = _bytes_of(pins)
    words = [program(), "tune", "pin", *store, "--pins", pins, f"{path}:{kernel.name}"]
    words += [f"{name}={result[name]}" for name in ("types", "bucket", "device") if result[name]]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        fail(done.returncode, done.stderr.decode(errors="replace"))
    said = done.stdout.decode(errors="replace")
    _abi.logger().info("%s", said.strip())
    if _bytes_of(pins) != before:
        kernel._program.refresh()
    return pins if ": pinned, " in said else None  # by all that the store has of such sizes


def _bytes_of(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def tune(kernel, args, budget, pin, progress, options):
    given = kernel._given
    if given.get("facts"):
        raise UsageError(f"{kernel.name}: a search is for the sizes of its arguments: it takes no "
                         "facts that are given")
    words, store, pins, where, named = read_options(kernel, options)
    words += budget_words(kernel, budget)
    if not args and not named and kernel._last:
        args, named, _ = kernel._last
    plain = kernel.given(pins=False)
    compiled = plain.compile(*args, **named)
    values, _ = kernel._bind(args, named)
    looks, _, _, place = kernel._looks(values, [None] * len(kernel.outputs))
    real = any(look is not None and not isinstance(v, Spec) for look, v in zip(looks, values))
    if where is None:
        where = "auto" if not real else "cpu" if place[0] == "cpu" else f"{place[0]}:{place[1]}"
    for name, value in compiled.bindings.items():
        words += ["--set", f"{name}={value}"]
    for name, value in compiled.sizes.items():
        words += ["--size", f"{name}={value}"]
    for line in given.get("lines", ()):
        words += ["--schedule", line]
    if given.get("optimize"):
        words += ["--optimize", str(max(given["optimize"], 0))]
    show = progress if callable(progress) else Shown(kernel.name, bool(progress)) \
        if progress is not False else None
    result = {}

    def each(said):
        if "result" in said:
            result.update(said["result"])
        elif show is not None:
            show(Progress(*[said["progress"][name] for name in Progress._fields]))

    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        path = file_of(kernel, folder)
        try:
            run([program(), "tune", "--json", "--device", where, *words, *store,
                 f"{path}:{kernel.name}", *arguments(kernel, values, looks, folder)], each)
        finally:
            if isinstance(show, Shown):
                show.end()
        pins = os.fspath(pins) if pins is not None else given.get("pins") or kernel._program.pins
        pinned = pin_it(kernel, path, result, store, pins) if pin else None
    return Tuned(result, pinned)
