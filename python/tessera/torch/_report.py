# SPDX-License-Identifier: Apache-2.0
"""What became of the graphs: which calls run in kernels, which in torch and why."""

from collections import Counter
from typing import List

_graphs: "List[Graph]" = []  # of the process, in the order in which they were compiled


class Graph:
    """One graph. `kernels`: (the kernel's name, its file, the names of its calls, is the text
    edited); `torch`: the name of a call and why it runs there; `views`: how many calls make no
    array."""

    def __init__(self, kind):
        self.kind, self.kernels, self.torch, self.views = kind, [], [], 0
        self._finish = None

    def waits_for(self, finish):
        """A function after which the kernels are known, if they can be."""
        self._finish = finish

    def finish(self):
        """Waits for the kernels, once."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    @property
    def in_kernels(self):
        return sum(len(calls) for _, _, calls, _ in self.kernels)

    @property
    def calls(self):
        """Those in kernels and those of torch; views are neither."""
        return self.in_kernels + len(self.torch)

    @property
    def share(self):
        return self.in_kernels / self.calls if self.calls else 1.0

    def __str__(self):
        lines = [f"{self.kind}: {self.in_kernels} of {self.calls} calls in {len(self.kernels)} "
                 f"kernels, {self.views} views"]
        found = Counter((name, str(path), ", ".join(_short(calls)), edited)
                        for name, path, calls, edited in self.kernels)
        for (name, path, calls, edited), times in found.items():
            lines.append(f"  {name}{f' × {times}' if times > 1 else ''}: {calls}")
            lines.append(f"    {path}{' (edited)' if edited else ''}")
        for (name, why), times in Counter(self.torch).items():
            lines.append(f"  torch: {name}{f' × {times}' if times > 1 else ''}: {why}")
        return "\n".join(lines)


def _short(calls):
    return [f"{name}{f' × {n}' if n > 1 else ''}" for name, n in Counter(calls).items()]


class Report(list):
    """The graphs, as objects; printed, as text."""

    @property
    def calls(self):
        return sum(g.calls for g in self)

    @property
    def share(self):
        """Of all calls those in kernels: 0 to 1."""
        return sum(g.in_kernels for g in self) / self.calls if self.calls else 1.0

    def __str__(self):
        if not self:
            return "no graph was compiled"
        head = f"{len(self)} graphs, {self.share:.1%} of {self.calls} calls in kernels"
        return "\n".join([head, *map(str, self)])

    __repr__ = __str__


def report(clear=False):
    """Of the graphs that this process has compiled: a list, which prints as text. clear: forget
    them."""
    for graph in _graphs:
        graph.finish()
    found = Report(_graphs)
    if clear:
        _graphs.clear()
    return found


def add(graph):
    _graphs.append(graph)
