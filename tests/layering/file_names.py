# SPDX-License-Identifier: Apache-2.0
"""Names of sources in comments and documents, for layering.py: a file that is named exists. In a
comment `folder/file.c` is a path from the root or the end of one, and `file.c` is the basename of a
source; a document may name files of a user's, so that only paths count there."""

import pathlib
import re

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
PATH = re.compile(r"(?<![\w/.<*{}$%-])((?:[a-z_]\w*/)+\w+\.(?:cpp|c|h|def))\b(?![\w/.(])")
NAME = re.compile(r"(?<![\w/.<*{}$%\"-])([a-z_]\w*\.(?:cpp|c|def))\b(?![\w/.(])")
PUBLIC = "include/"  # these comments show a user's files


class Names:
    """What the tracked files are called."""

    def __init__(self, paths):
        self.basenames = {pathlib.Path(p).name for p in paths}
        self.ends = set()
        for path in paths:
            parts = path.split("/")
            self.ends |= {"/".join(parts[i:]) for i in range(len(parts))}

    def problems(self, path, text):
        """(line, what is wrong) pairs of one source or document."""
        document = path.endswith(".md")
        for part in [re.match(r"(?s).*", text)] if document else COMMENT.finditer(text):
            found = [(m, m[1] in self.ends) for m in PATH.finditer(part[0])]
            if not document and not path.startswith(PUBLIC):
                found += [(m, m[1] in self.basenames) for m in NAME.finditer(part[0])]
            for match, exists in found:
                if not exists:
                    line = text.count("\n", 0, part.start() + match.start()) + 1
                    yield line, f"no file is called {match[1]}"
