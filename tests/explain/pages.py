#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of `explain --html`, in headless Chromium: each folds all its folds, follows all its
links and lights all its lines by itself (#selftest), and says so in its title. They name nothing
outside of them and are small. Pages that were broken on purpose must say that they are.
Prints `N passed, N failed`, and how many were skipped for want of Chromium."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["sm_90a", "gfx942", "native"]
PAGES = {
    "softmax": ["--set", "T=bf16", "--size", "M=4000,N=4096"],
    "linear": ["--set", "T=bf16", "--size", "M=4096,N=4096,K=4096"],
    "attention": ["--set", "T=bf16,causal=true", "--size", "B=2,H=8,S=1000,L=1000,D=64"],
    "layer_norm": ["--set", "T=f32", "--size", "M=1001,N=1003"],
    "histogram": ["--size", "N=1M"],
    "conv2d": ["--set", "T=bf16", "--size", "B=8,H=28,W=28,C=64,O=64,R=3,S=3"],
}
MOST_BYTES = 3_000_000
OUTSIDE = re.compile(r"""(?:src|href|action|data)\s*=\s*["']?(?!\#)[^"'\#\s>]
                         | url\( | @import | https?://""", re.X)


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def verdict(chromium, page, folder):
    """The title after the page has tested itself."""
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={folder}", "--dump-dom", f"file://{page}#selftest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>([^<]*)</title>", done.stdout)
    return found[1] if found else f"no page (exit {done.returncode}): {done.stderr[-300:]}"


def outside(text):
    """What in the page's own markup names something outside of it."""
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    tags = re.findall(r"<[a-z][^>]*>|<style[^>]*>.*?</style>", markup, flags=re.S)
    return [tag[:80] for tag in tags if "Content-Security-Policy" not in tag
            and OUTSIDE.search(tag)]


def unlinked(text):
    """The listings of which no line has a line of the source."""
    folds = re.findall(r'<details class=code id="at-([^"]*)">(.*?)</details>', text, flags=re.S)
    return [name for name, listing in folds if "<span class=l" not in listing] or not folds


def check_page(options, name, target, folder):
    page = folder / f"{name}-{target}.html"
    command = [options.tessera, "explain", str(ROOT / "examples" / f"{name}.tile"),
               "--target", target, *PAGES[name], "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr[-500:]}"
    text = page.read_text()
    if len(text.encode()) > MOST_BYTES:
        return f"{len(text.encode())} bytes"
    if outside(text):
        return f"names {outside(text)[0]}"
    if unlinked(text):
        return f"not linked to the source: {unlinked(text)}"
    if options.chromium:
        title = verdict(options.chromium, page, folder / f"profile-{name}-{target}")
        if not title.startswith("selftest passed: "):
            return title
        print(f"{name} on {target}: {len(text) // 1024} KiB, {title}")
    return None


BREAKS = {
    "a link to nowhere": lambda text: text.replace('href="#roofline"', 'href="#nowhere"', 1),
    "an element that loads": lambda text: text.replace("<nav>", '<img src="a.png"><nav>', 1),
    "a fold without a head": lambda text: text.replace(
        "<details class=code id=", "<details open><details class=code id=", 1),
    "a script that fails": lambda text: text.replace("const selftest = () => {",
                                                     "missing(); const selftest = () => {", 1),
}


def check_broken(options, name, folder):
    """None when the page notices."""
    page = folder / "softmax-native.html"
    text = page.read_text()
    broken = BREAKS[name](text)
    if broken == text:
        return "nothing was broken"
    copy = folder / f"{name.replace(' ', '-')}.html"
    copy.write_text(broken)
    title = verdict(options.chromium, copy, folder / f"profile-{copy.stem}")
    return "it did not notice" if title.startswith("selftest passed") else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True, type=os.path.abspath)
    parser.add_argument("--chromium", default=browser())
    options = parser.parse_args()
    counts = {"passed": 0, "failed": 0}

    def tell(what, problem):
        counts["failed" if problem else "passed"] += 1
        if problem:
            print(f"{what}: {problem}")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        jobs = [(name, target) for name in PAGES for target in TARGETS]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for job, problem in zip(jobs, pool.map(
                    lambda job: check_page(options, *job, folder), jobs)):
                tell(" on ".join(job), problem)
        for name in BREAKS if options.chromium else ():
            tell(name, check_broken(options, name, folder))
    skipped = 0 if options.chromium else len(PAGES) * len(TARGETS) + len(BREAKS)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {skipped} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
