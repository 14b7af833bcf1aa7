# SPDX-License-Identifier: Apache-2.0
"""The format of text tests, for lit.cfg.py. In a module of its own: lit hands it to processes."""

import os
import resource

import lit.formats


def cpu_seconds():
    """Of all processes that this one started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class TextTest(lit.formats.ShTest):
    """Files without RUN lines are inputs of other tests. Where $TESSERA_TEXT_TIMES names a file,
    a line for each test is added to it: its CPU seconds and its name."""

    def getTestsInDirectory(self, *arguments):
        for test in super().getTestsInDirectory(*arguments):
            with open(test.getSourcePath(), errors="replace") as file:
                if "RUN:" in file.read():
                    yield test

    def execute(self, test, lit_config):
        begin = cpu_seconds()
        result = super().execute(test, lit_config)
        path = os.environ.get("TESSERA_TEXT_TIMES")
        if path:
            with open(path, "a") as file:
                file.write(f"{cpu_seconds() - begin:.3f} {'/'.join(test.path_in_suite)}\n")
        return result
