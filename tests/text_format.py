# SPDX-License-Identifier: Apache-2.0
"""The format of text tests, for lit.cfg.py. It is a module of its own because lit passes it to
other processes."""

import os
import re
import resource

import lit.formats
import lit.Test


def cpu_seconds():
    """Of all processes that this one started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


LEFT_OUT = re.compile(r"^(?:# \| )?left out: (.*)$", re.M)


class TextTest(lit.formats.ShTest):
    """Files without RUN lines are inputs of other tests. With --param long=1 only the tests run
    that have `%if long` commands. A test of which a command prints `left out:` counts as
    unsupported. If $TESSERA_TEXT_TIMES names a file, each test appends a line to it: its CPU
    seconds and name."""

    def getTestsInDirectory(self, suite, path, lit_config, local):
        wanted = "%if long" if lit_config.params.get("long") else "RUN:"
        for test in super().getTestsInDirectory(suite, path, lit_config, local):
            with open(test.getSourcePath(), errors="replace") as file:
                if wanted in file.read():
                    yield test

    def execute(self, test, lit_config):
        begin = cpu_seconds()
        result = super().execute(test, lit_config)
        path = os.environ.get("TESSERA_TEXT_TIMES")
        if path:
            with open(path, "a") as file:
                file.write(f"{cpu_seconds() - begin:.3f} {'/'.join(test.path_in_suite)}\n")
        if result.code is lit.Test.PASS and LEFT_OUT.search(result.output):
            result.code = lit.Test.UNSUPPORTED
        return result
