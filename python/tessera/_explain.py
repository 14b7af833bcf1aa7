# SPDX-License-Identifier: Apache-2.0
"""The report of `explain`, as text, and as a page in a notebook."""

import html
import json


class Explanation(str):
    """The report as text. A notebook shows the page: the source beside the IR after each pass and
    the code, linked line by line."""

    def __new__(cls, compiled):
        made = super().__new__(cls, compiled.explain("text"))
        made._compiled = compiled
        return made

    def html(self):
        """The page, which needs nothing else."""
        return self._compiled.explain("html")

    def json(self):
        """The report as a dictionary."""
        return json.loads(self._compiled.explain("json"))

    def _repr_html_(self):
        return ('<iframe style="width: 100%; height: 48em; border: 1px solid #ccc" '
                f'srcdoc="{html.escape(self.html())}"></iframe>')

    def __repr__(self):
        return str(self)

    def __reduce__(self):
        return str, (str(self),)
