# SPDX-License-Identifier: Apache-2.0
"""The format of text tests, for lit.cfg.py. In a module of its own: lit hands it to processes."""

import lit.formats


class TextTest(lit.formats.ShTest):
    """Files without RUN lines are inputs of other tests."""

    def getTestsInDirectory(self, *arguments):
        for test in super().getTestsInDirectory(*arguments):
            with open(test.getSourcePath(), errors="replace") as file:
                if "RUN:" in file.read():
                    yield test
