#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""driver.py TESSERA MOCK PROGRAM FOLDER: the program on drivers made of plain memory
(tests/mock_driver), found as the installed ones would be. Every call of a driver fails once: no
crash, nothing left open, a message with the call and the driver's name for the error, exit status
3, or 4 where the error is a kernel's. A kernel that never ends is left after --timeout, with status
4, and the next run is fine."""

import math
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import patience  # noqa: E402

FAULT = 719  # of a kernel: CUDA_ERROR_LAUNCH_FAILED, hipErrorLaunchFailure
SIZE = ["--size", "N=1000"]


class Program:
    def __init__(self, tessera, mock, source, folder):
        self.tessera, self.source, self.report = tessera, source, folder / "report"
        self.environment = dict(os.environ, LD_LIBRARY_PATH=f"{mock}/lib", ROCM_PATH=mock,
                                MOCK_OPENED="0", MOCK_REPORT=str(self.report))

    def run(self, verb, device, *more, **settings):
        """Exit status, what was said, and how many calls there were."""
        command = [self.tessera, verb, self.source]
        command += ["--device", device] if verb != "check" else []
        self.report.unlink(missing_ok=True)
        done = subprocess.run(command + list(more), env=dict(self.environment, **settings),
                              capture_output=True, text=True, timeout=patience.seconds(60))
        calls = 0
        if self.report.exists():
            calls, left = map(int, self.report.read_text().split())
            assert left == 0, (settings, left)
        return done.returncode, done.stderr, calls


def fail_calls(program, device, prefix):
    code, words, calls = program.run("run", device, *SIZE)
    assert (code, words) == (0, "") and calls > 40, (code, words, calls)
    told = 0
    for call in range(1, calls + 1):
        code, words, _ = program.run("run", device, *SIZE, MOCK_FAIL=str(call))
        assert code in (0, 3), (call, code, words)
        assert code == 0 or (prefix in words and "MOCK_ERROR (2)" in words), (call, words)
        told += code == 3
    code, words, _ = program.run("run", device, *SIZE, MOCK_FAIL=f"{calls // 4 * 3}+",
                                 MOCK_ERROR=str(FAULT))
    assert code == 4 and f"MOCK_ERROR_{FAULT}" in words, (code, words)
    return calls, told


def never_end(program, device):
    for verb in ("run", "bench", "check"):
        given = math.ceil(patience.seconds(1))  # compiling has to end in as many
        start = time.monotonic()
        code, words, _ = program.run(verb, device, *SIZE, "--timeout", str(given), MOCK_HANGS="1")
        assert code == 4, (code, words)
        assert f"the kernel has not ended after {given} second" in words, words
        assert 0.9 * given < time.monotonic() - start < patience.seconds(20)
        code, words, _ = program.run("run", device, *SIZE)
        assert (code, words) == (0, ""), (code, words)


def main():
    tessera, mock, source, folder = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    program = Program(tessera, mock, source, folder)
    for device, prefix in (("cuda", "cu"), ("hip", "hip")):
        calls, told = fail_calls(program, device, prefix)
        never_end(program, device)
        print(f"{device}: each of {calls} calls failed once, {told} were told")
    return 0


if __name__ == "__main__":
    sys.exit(main())
