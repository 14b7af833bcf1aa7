# SPDX-License-Identifier: Apache-2.0
"""What every text test has, for layering.py:

- a line of a command (RUN) has at most 120 columns; a longer command goes on in the next line,
  which the last character `\\` announces
- each FileCheck has a positive directive for one of its prefixes: a test that only lists what must
  be absent also passes if the program prints something else entirely
- a test without FileCheck compares in another way: `--check`, an exit status that is expected, a
  program of the tests, `cmp`, `diff`
"""

import re

SUFFIXES = {".tile", ".ir", ".test"}
WIDTH = 120
RUN = re.compile(r"RUN:(.*)")
FILECHECK = re.compile(r"%FileCheck([^|&;]*)")
PREFIXES = re.compile(r"--check-prefix(?:es)?[= ](\S+)")
POSITIVE = r"(?<![\w-]){}(?:-(?:NEXT|SAME|DAG|LABEL|EMPTY|COUNT-\d+))?(?:\{{\w+\}})?:"
COMPARES = re.compile(r"--check\b|%exit\b|%compare\b|%python\b|\b(?:cmp|diff|grep|not|test)\b")


def commands(text):
    """The commands of the RUN lines, with continued lines joined."""
    found = []
    for match in RUN.finditer(text):
        if found and found[-1].endswith("\\"):
            found[-1] = found[-1][:-1] + match[1].rstrip()
        else:
            found.append(match[1].rstrip())
    return found


def problems(text):
    """(line, what is wrong) pairs of one text test."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH and "RUN:" in line:
            yield number, f"a RUN line of {len(line)} columns: continue it after a `\\`"
    runs = commands(text)
    checks = [options for command in runs for options in FILECHECK.findall(command)]
    for options in sorted(set(checks)):
        found = PREFIXES.search(options)
        prefixes = found[1].split(",") if found else ["CHECK"]
        if not any(re.search(POSITIVE.format(re.escape(p)), text) for p in prefixes):
            yield 1, f"no positive {' or '.join(prefixes)}: the check passes on any other text"
    if runs and not checks and not any(COMPARES.search(command) for command in runs):
        yield 1, "compares nothing"
