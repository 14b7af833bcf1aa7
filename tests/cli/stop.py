#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stop.py TESSERA PROGRAM FOLDER: told to stop while a result is being written, the program removes
what it has written and exits with 128 + the signal; a reader that goes away ends it without
words."""

import pathlib
import signal
import subprocess
import sys
import time

SIZES = (16 << 20, 64 << 20, 192 << 20)  # of f32, until one takes long enough to be caught


def stopped(tessera, program, folder, number, size):
    """The exit status and what is left, or None when the program was faster."""
    command = [tessera, "run", program, "--device", "cpu", "--size", f"N={size}", "v=1",
               "-o", str(folder / "answer.npy")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        if any(folder.glob("answer.npy.*")):
            process.send_signal(number)
            break
        time.sleep(0.0005)
    words = process.communicate()[1]
    left = sorted(path.name for path in folder.iterdir())
    for path in folder.iterdir():
        path.unlink()
    return None if process.returncode == 0 else (process.returncode, left, words)


def check_stop(tessera, program, folder, number):
    for size in SIZES:
        found = stopped(tessera, program, folder, number, size)
        if found:
            assert found == (128 + number, [], b""), found
            return True
    return False


def check_pipe(tessera, program):
    command = f"'{tessera}' run '{program}' --device cpu --size N=1000000 v=1 -o - | head -c 6"
    done = subprocess.run(["bash", "-c", command + "; exit ${PIPESTATUS[0]}"], capture_output=True)
    assert done.stdout == b"\x93NUMPY", done.stdout
    assert done.returncode == 128 + signal.SIGPIPE, done.returncode
    assert b"error" not in done.stderr, done.stderr


def main():
    tessera, program, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True)
    caught = sum(check_stop(tessera, program, folder, number)
                 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    check_pipe(tessera, program)
    print(f"{caught} of 3 signals came while a file was under way; nothing was left")
    return 0 if caught > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
