#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tests/run.py, on suites that are shell scripts in a build folder made for them. Prints
`N passed, N failed, N skipped`."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import patience  # noqa: E402

results = []


def build(folder, suites):
    """A build folder as CTest reads it. Suites: name, script, properties."""
    lines = []
    for name, script, properties in suites:
        (folder / f"{name}.sh").write_text(script)
        lines.append(f'add_test({name} sh {folder}/{name}.sh)')
        words = " ".join(f'{key} "{value}"' for key, value in properties.items())
        lines.append(f"set_tests_properties({name} PROPERTIES {words})" if words else "")
    (folder / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")


def command(folder, *words):
    return [sys.executable, str(ROOT / "tests/run.py"), str(folder), *words]


def run(folder, *words):
    """Exit status, lines."""
    done = subprocess.run(command(folder, *words), capture_output=True, text=True,
                          timeout=patience.seconds(120))
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def pids(folder, count):
    """The numbers that the scripts wrote, once all have."""
    deadline = time.monotonic() + patience.seconds(60)
    while True:
        files = [path for path in folder.glob("*.pid") if path.read_text().endswith("\n")]
        if len(files) == count:
            return [int(path.read_text()) for path in files]
        assert time.monotonic() < deadline, files
        time.sleep(0.02)


# A child, a grandchild whose parent ends, and one in a session of its own without the parent.
FAMILY = """cd {folder}
sh -c 'echo $$ > child.pid; exec sleep 1000' &
sh -c 'sh -c "echo \\$\\$ > orphan.pid; exec sleep 1000" & exit' &
setsid sh -c 'setsid sh -c "echo \\$\\$ > away.pid; exec sleep 1000" & exit' &
while ! [ -s child.pid -a -s orphan.pid -a -s away.pid ]; do sleep 0.05; done
"""


def case(function):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            function(folder)
            results.append(True)
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            print(f"{function.__name__}: {problem}")
            results.append(False)
        finally:
            for path in folder.glob("*.pid"):
                if alive(path.read_text().strip()):
                    os.kill(int(path.read_text()), signal.SIGKILL)


@case
def counts_are_summed(folder):
    build(folder, [
        ("own", "echo noise; echo 3 passed, 0 failed", {}),
        ("own.skips", "echo 2 passed, 0 failed, 5 skipped", {}),
        ("check", "echo '50%: Checks: 4, Failures: 1, Errors: 1'; exit 1", {}),
        ("lit", "echo '  Unsupported: 7 (1%)'; echo '  Excluded   : 9 (1%)';"
                "echo '  Passed     : 6 (1%)'", {}),
        ("silent", "true", {}),
        ("long", "false", {"LABELS": "long"})])
    code, lines = run(folder)
    assert code == 1 and lines[-1] == "14 passed, 2 failed, 12 skipped", lines
    assert any(line.startswith("FAIL check") and "2 passed, 2 failed, 0 skipped" in line
               for line in lines), lines
    assert any(line.startswith("ok   lit") and "6 passed, 0 failed, 7 skipped" in line
               for line in lines), lines
    assert not any(line.split()[1:2] == ["long"] for line in lines), lines
    assert "noise" not in lines, lines
    code, lines = run(folder, "--only", "^own")
    assert (code, lines[-1]) == (0, "5 passed, 0 failed, 5 skipped"), lines


@case
def skips_are_those_that_are_known(folder):
    build(folder, [("some", "echo 3 passed, 0 failed, 2 skipped", {}),
                   ("none", "echo 3 passed, 0 failed", {})])
    skips = folder / "skips"
    for text, failed, words in (
            ("# a comment\nsome 2  # no GPU\n", 0, ""),
            ("some 1\n", 1, "some: 2 skipped, where 1 are known"),
            ("", 1, "some: 2 skipped, where 0 are known"),
            ("some 2\nnone 1\n", 1, "none: 0 skipped, where 1 are known"),
            ("some 2\nother 7\n", 0, "")):
        skips.write_text(text)
        code, lines = run(folder, "--skips", str(skips))
        assert (code, lines[-1]) == (min(failed, 1), f"6 passed, {failed} failed, 2 skipped"), lines
        assert words in "\n".join(lines), lines


@case
def failure_without_a_count(folder):
    """An exit status, a signal, a program that is not there."""
    build(folder, [("status", "echo 3 passed, 0 failed; exit 3", {}), ("signal", "kill -9 $$", {})])
    with open(folder / "CTestTestfile.cmake", "a") as file:
        file.write("add_test(missing /nowhere/at/all)\n")
    code, lines = run(folder)
    assert (code, lines[-1]) == (1, "3 passed, 3 failed, 0 skipped"), lines


@case
def nothing_to_run(folder):
    build(folder, [])
    code, lines = run(folder)
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped"), lines


@case
def late_suite_ends_with_its_children(folder):
    build(folder, [("late", FAMILY.format(folder=folder) + "echo so far; sleep 1000",
                    {"TIMEOUT": 1}), ("good", "echo 1 passed, 0 failed", {})])
    code, lines = run(folder)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped"), lines
    assert "so far" in lines and any(line.startswith("timed out") for line in lines), lines
    assert not [pid for pid in pids(folder, 3) if alive(pid)]


@case
def suite_leaves_nothing_behind(folder):
    build(folder, [("leaves", FAMILY.format(folder=folder) + "echo 1 passed, 0 failed", {})])
    assert run(folder)[0] == 0
    assert not [pid for pid in pids(folder, 3) if alive(pid)]


@case
def interrupt_ends_all(folder):
    build(folder, [("long.one", FAMILY.format(folder=folder) + "sleep 1000", {})])
    for number in (signal.SIGINT, signal.SIGTERM):
        for path in folder.glob("*.pid"):
            path.unlink()
        runner = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        started = pids(folder, 3)
        runner.send_signal(number)
        assert runner.wait(patience.seconds(60)) != 0
        assert not [pid for pid in started if alive(pid)]


@case
def longest_begins_first(folder):
    build(folder, [(name, f"echo {name} >> {folder}/order", {"COST": cost})
                   for name, cost in (("a", 3), ("b", 20), ("c", 100))])
    run(folder, "--jobs", "1")
    assert (folder / "order").read_text().split() == ["c", "b", "a"]


@case
def cpu_time_is_told(folder):
    build(folder, [("spins", f"{sys.executable} -c 'import time\n"
                             "while time.process_time() < 0.5: pass'", {}),
                   ("sleeps", "sleep 0.5", {})])
    _, lines = run(folder)
    took = {line.split()[1]: float(line.split()[-4]) for line in lines if "s of CPU" in line
            and "skipped" in line}
    assert 0.5 <= took["spins"] < 5 and took["sleeps"] < 0.4, lines


@case
def limits_grow_with_the_machine(folder):
    """A machine that is three times as slow waits three times as long."""
    for probe, want in ((patience.REFERENCE / 10, 1), (patience.REFERENCE * 3, 3)):
        os.environ["TESSERA_PROBE"] = str(probe)
        patience.measured = None
        load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
        assert 0.9 * max(want, load) <= patience.seconds(1) <= 1.1 * max(want, load)
        del os.environ["TESSERA_PROBE"]


def main():
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
