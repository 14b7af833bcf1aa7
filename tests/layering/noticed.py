#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of layering.py on texts that are wrong, each of which must be refused, and on texts
that are right. Prints `N passed, N failed`."""

import sys

import documents
import text_tests

LONG = "x" * 121
# (check, text, whether something is wrong with it)
SAMPLES = [
    (text_tests, "; RUN: %opt %s | %FileCheck %s\n; CHECK: dot\n", False),
    (text_tests, f"; RUN: %opt %s {LONG} | %FileCheck %s\n; CHECK: dot\n", True),
    (text_tests, f"; RUN: %opt %s \\\n; RUN:     | %FileCheck %s\n; CHECK: {LONG}\n", False),
    (text_tests, "; RUN: %opt %s | %FileCheck %s\n; CHECK-NOT: dot\n", True),
    (text_tests, "; RUN: %opt %s | %FileCheck %s\n; CHECK-NOT: dot\n; CHECK-NEXT: add\n", False),
    (text_tests, "; RUN: %opt %s | %FileCheck %s\n; CHECK-COUNT-2: dot\n", False),
    (text_tests, "; RUN: %opt %s | %FileCheck %s\n; CHECK{LITERAL}: [[0]]\n", False),
    (text_tests, "; RUN: %opt %s | %FileCheck --check-prefix=OFF %s\n; CHECK: dot\n", True),
    (text_tests, "; RUN: %opt %s | %FileCheck --check-prefix=OFF %s\n; NOTOFF: dot\n", True),
    (text_tests, "; RUN: %opt %s \\\n; RUN:  | %FileCheck --check-prefix=OFF %s\n; A: x\n", True),
    (text_tests, "; RUN: %opt %s | %FileCheck --check-prefixes=A,OFF %s\n; A: dot\n", False),
    (text_tests, "; RUN: %opt %s | %FileCheck %s | %FileCheck --check-prefix=B %s\n; B: x\n", True),
    (text_tests, "; RUN: %tessera compile %s --target native --emit ir -o %t\n", True),
    (text_tests, "; RUN: %tessera run %s --size N=5 --device cpu --check\n", False),
    (text_tests, "; RUN: %exit 2 %tessera compile %s --target none\n", False),
    (text_tests, "an input of other tests\n", False),
    (documents, "# A title\n\nA line.\n", False),
    (documents, LONG + "\n", True),
    (documents, "| a | b |\n| --- | --- |\n| c | " + LONG + " |\n", True),
    (documents, "é" * 120 + "\n", False),
]


def main():
    failed = 0
    for check, text, wrong in SAMPLES:
        found = list(check.problems(text))
        if bool(found) != wrong:
            failed += 1
            print(f"{check.__name__}: {text!r}: {found or 'nothing found'}")
    print(f"{len(SAMPLES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
