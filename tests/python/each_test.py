# SPDX-License-Identifier: Apache-2.0
"""Runs the functions of a module whose names begin with `test_`, all of them whatever fails."""

import sys
import traceback


def run_tests(names, is_missing=lambda name: False):
    """0, or 1 if a test failed. names: the module's globals(); is_missing(name): that test cannot
    run here. Prints `N passed, N failed, N skipped`."""
    passed = failed = skipped = 0
    for name, function in list(names.items()):
        if not name.startswith("test_"):
            continue
        if is_missing(name):
            skipped += 1
            continue
        try:
            function()
            passed += 1
        except Exception:  # noqa: BLE001 (whatever it is, the others go on)
            failed += 1
            print(f"{name}:")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
