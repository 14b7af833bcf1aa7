# SPDX-License-Identifier: Apache-2.0
"""What every document (*.md) has, for layering.py: lines of at most 120 columns. A row of a table
is one line, so no cell of a table holds a paragraph: longer texts are lists below the table."""

WIDTH = 120


def problems(text):
    """(line, what is wrong) pairs of one document."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > WIDTH and line.startswith("|"):
            yield number, f"a row of {len(line)} columns: a table has short cells"
        elif len(line) > WIDTH:
            yield number, f"{len(line)} columns"
