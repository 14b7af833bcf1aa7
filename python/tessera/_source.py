# SPDX-License-Identifier: Apache-2.0
"""Where in a Python file the text of a program stands, so that messages name that line."""

import os
import sys


def opening(line, column):
    """Where the first character of a literal stands that begins here: behind its quotes."""
    while column < len(line) and line[column].isalpha():
        column += 1
    return column + (3 if line[column: column + 3] in ('"""', "'''") else 1)


def literals(source, text):
    """(line, column) of each literal with this value in a Python source, counted from 1 and 0;
    the column is that of its first character."""
    import ast
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # magic commands of a notebook, for example
        return []
    lines, found = source.split("\n"), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == text and isinstance(text, str):
            line = lines[node.lineno - 1]
            column = len(line.encode()[: node.col_offset].decode(errors="replace"))
            found.append((node.lineno, opening(line, column)))
    return found


def placed(text, depth):
    """(file name, the text with empty lines and spaces before it, so that its lines and columns are
    those of the Python file). depth: of the caller's frame. If the literal is not found, the text
    as it is, and None."""
    import linecache
    frame = sys._getframe(depth)
    file = frame.f_code.co_filename
    lines = linecache.getlines(file, frame.f_globals)
    found = literals("".join(lines), text) if lines else []
    if not found:
        return None, text
    line, column = min(found, key=lambda place: abs(place[0] - frame.f_lineno))
    return file, "\n" * (line - 1) + " " * column + text


def pin_file(file, text):
    """Of a program that was in no `.tile` file: beside the Python file, or in the user's data."""
    if file and os.path.isfile(file):
        return os.path.splitext(os.path.abspath(file))[0] + ".tune"
    import hashlib
    data = os.environ.get("XDG_DATA_HOME") or \
        os.path.join(os.path.expanduser("~"), ".local", "share")
    digest = hashlib.sha256(text.strip().encode()).hexdigest()[:16]
    return os.path.join(data, "tessera", "pins", digest + ".tune")
