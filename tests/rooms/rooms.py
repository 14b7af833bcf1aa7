#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the house: who includes what, and the look of the sources. Prints `N passed, N failed`.

- a file of a room includes its own room, the rooms (or single headers) that its MAY list in
  CMakeLists.txt names, and the system; LLVM only where MAY lists it, in headers only codegen/llvm.h
- every source begins with one SPDX line, has lines of at most 100 columns, no tabs, no trailing
  blanks (text tests and tables may be wider; text tests need no SPDX line)
- no absolute path of the machine on which it was written; nothing left to do behind
- files under 600 lines are normal: longer ones are reported, above 900 they fail
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOM = re.compile(r"^tessera_room\((\w+)\s+(\S+)\s+MAY\s*([^)]*)\)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
CODE = {".c", ".h", ".cpp", ".def"}
TEXT = CODE | {".py", ".sh", ".cmake", ".in", ".txt", ".tile", ".ir", ".test"}
MACHINE = re.compile(r"(?<![\w.$}])/(?:home|root|work|Users)/[\w.]")
LEFT_BEHIND = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
LONG, TOO_LONG = 600, 900


class Room:
    def __init__(self, name, folder, may):
        self.name, self.folder = name, folder
        words = may.split()
        if "EXECUTABLE" in words:
            words = words[: words.index("EXECUTABLE")]
        self.recurse = "RECURSE" in words
        self.may = [w for w in words if w != "RECURSE"]


def read_rooms():
    text = (ROOT / "CMakeLists.txt").read_text()
    rooms = {m[1]: Room(m[1], m[2], m[3]) for m in ROOM.finditer(text)}
    rooms["public"] = Room("public", "include/tessera", "")
    return rooms


def room_of(path, rooms):
    """The room whose folder holds the path: the longest one."""
    found = [r for r in rooms.values() if path == r.folder or path.startswith(r.folder + "/")]
    return max(found, key=lambda r: len(r.folder), default=None)


def tracked():
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        listed = listed.split("\n")
    except (OSError, subprocess.CalledProcessError):  # an exported tree
        listed = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        listed = [p for p in listed if not re.match(r"build|\.git/", p)]
    return [p for p in listed if p and (ROOT / p).is_file()]


def include_problem(path, bracket, target, room, rooms):
    """Why this include is not allowed, or None."""
    if target.startswith("llvm-c/"):
        allowed = path == "codegen/llvm.h" or "LLVM" in room.may and not path.endswith(".h")
        return None if allowed else "llvm-c stays behind codegen/llvm.h"
    if target.startswith(("llvm/", "lld/")):
        allowed = "LLVM" in room.may and path.endswith(".cpp")
        return None if allowed else "LLVM's C++ is for .cpp of codegen"
    if target.startswith("tessera/"):
        target = "include/" + target
    elif bracket == "<":
        return None
    if not (ROOT / target).is_file():
        return f"no file {target} (includes are written from the root)"
    other = room_of(target, rooms)
    if other is None:
        return f"{target} is in no room"
    if other is room or other.name in room.may or target in room.may:
        return None
    return f"room {room.name} may not include {target}: MAY lists {' '.join(room.may) or 'nothing'}"


def check_includes(path, text, rooms, fail):
    room = room_of(path, rooms)
    if room is None:
        return
    for match in INCLUDE.finditer(text):
        why = include_problem(path, match[1], match[2], room, rooms)
        if why:
            line = text.count("\n", 0, match.start()) + 1
            fail(f"{path}:{line}: {why}")


def check_look(path, text, fail):
    lines = text.split("\n")
    wide = pathlib.Path(path).suffix in {".def", ".tile", ".ir", ".test"}
    text_test = wide and path.startswith("tests/")
    if not text_test and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        fail(f"{path}:1: no SPDX line")
    for number, line in enumerate(lines, 1):
        if len(line) > 100 and not wide:
            fail(f"{path}:{number}: {len(line)} columns")
        if line != line.rstrip() or ("\t" in line and not text_test):
            fail(f"{path}:{number}: tab or trailing blank")
        if MACHINE.search(line) and path != "tests/rooms/rooms.py":
            fail(f"{path}:{number}: a path of one machine")
        if LEFT_BEHIND.search(line) and path != "tests/rooms/rooms.py":
            fail(f"{path}:{number}: something is left to do here")
    if len(lines) > TOO_LONG:
        fail(f"{path}: {len(lines)} lines: look for the seam")


def report(lengths):
    code = sorted(n for path, n in lengths.items() if pathlib.Path(path).suffix in CODE)
    if code:
        print(f"{len(code)} files of C, {sum(code)} lines; median {code[len(code) // 2]},"
              f" p90 {code[len(code) * 9 // 10]}, longest {code[-1]}")
    for path, n in sorted(lengths.items(), key=lambda item: -item[1]):
        if n > LONG:
            print(f"note: {path} has {n} lines")


def main():
    rooms, failures, passed, lengths = read_rooms(), [], 0, {}
    for path in tracked():
        if pathlib.Path(path).suffix not in TEXT:
            continue
        text = (ROOT / path).read_text(errors="replace")
        before = len(failures)
        if pathlib.Path(path).suffix in CODE:
            check_includes(path, text, rooms, failures.append)
        check_look(path, text, failures.append)
        lengths[path] = text.count("\n")
        passed += len(failures) == before
    print("\n".join(failures), end="\n" if failures else "")
    report(lengths)
    bad = len(lengths) - passed
    print(f"{passed} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
