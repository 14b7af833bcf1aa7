#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of `explain --html`, in headless Chromium: each folds all its folds, follows all its
links and lights all its lines by itself (#selftest), and says so in its title. They name nothing
outside of them and are small. Each is of one target, in turn, or with --all of all. Pages that were
broken on purpose must say that they are. Prints
`N passed, N failed, N skipped`: all of them are skipped for want of Chromium."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import page as pages  # noqa: E402
import patience  # noqa: E402

TARGETS = ["sm_90a", "gfx942", "native"]
PAGES = {
    "softmax": ["--set", "T=bf16", "--size", "M=4000,N=4096"],
    "linear": ["--set", "T=bf16", "--size", "M=4096,N=4096,K=4096"],
    "attention": ["--set", "T=bf16,causal=true", "--size", "B=2,H=8,S=1000,L=1000,D=64"],
    "layer_norm": ["--set", "T=f32", "--size", "M=1001,N=1003"],
    "histogram": ["--size", "N=1M"],
    "conv2d": ["--set", "T=bf16", "--size", "B=8,H=28,W=28,C=64,O=64,R=3,S=3"],
}
MAX_BYTES = 3_000_000


def unlinked(text):
    """The listings of which no line has a line of the source."""
    folds = re.findall(r'<details class=code id="at-([^"]*)">(.*?)</details>', text, flags=re.S)
    return [name for name, listing in folds if "<span class=l" not in listing] or not folds


def check_page(options, name, target, folder):
    page = folder / f"{name}-{target}.html"
    command = [options.tessera, "explain", str(ROOT / "examples" / f"{name}.tile"),
               "--target", target, *PAGES[name], "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.seconds(120))
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr[-500:]}"
    text = page.read_text()
    if len(text.encode()) > MAX_BYTES:
        return f"{len(text.encode())} bytes"
    if pages.outside(text):
        return f"names {pages.outside(text)[0]}"
    if unlinked(text):
        return f"not linked to the source: {unlinked(text)}"
    return pages.selftest(options, page, f"{name} on {target}")


BREAKS = {
    "a link to nowhere": lambda text: text.replace('href="#roofline"', 'href="#nowhere"', 1),
    "an element that loads": lambda text: text.replace("<nav>", '<img src="a.png"><nav>', 1),
    "a fold without a head": lambda text: text.replace(
        "<details class=code id=", "<details open><details class=code id=", 1),
    "a script that fails": lambda text: text.replace("const selftest = () => {",
                                                     "missing(); const selftest = () => {", 1),
}


def check_pages(options, folder):
    jobs = [(name, target) for i, name in enumerate(PAGES) for k, target in enumerate(TARGETS)
            if options.all or (i + 2) % len(TARGETS) == k]  # softmax on the CPU is broken, too
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda job: check_page(options, *job, folder), jobs)
        yield from zip((" on ".join(job) for job in jobs), found)


if __name__ == "__main__":
    sys.exit(pages.run(__doc__, ["--tessera"], check_pages, ("softmax-native.html", BREAKS)))
