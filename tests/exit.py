#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exit.py CODE COMMAND…: runs the command; succeeds when it exits with exactly this code."""

import subprocess
import sys

want, command = int(sys.argv[1]), sys.argv[2:]
code = subprocess.run(command).returncode
if code != want:
    print(f"exit.py: {command[0]} exited with {code}, not {want}", file=sys.stderr)
    sys.exit(1)
