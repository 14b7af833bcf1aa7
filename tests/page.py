# SPDX-License-Identifier: Apache-2.0
"""What tests of HTML pages share: a page tests itself in headless Chromium (#selftest) and says so
in its title; it names nothing outside of it; one that was broken on purpose must say that it is.
Pages may be looked at in the dark and as wide as a phone, too."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import patience

OUTSIDE = re.compile(r"""(?:src|href|action|data)\s*=\s*["']?(?!\#)[^"'\#\s>]
                         | url\( | @import | https?://""", re.X)


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


DARK = ["--blink-settings=preferredColorScheme=0"]
PHONE = 375  # pixels; no window of Chromium is as narrow, but a frame is
FRAME = """<!doctype html><title>no answer</title><body style="margin: 0">
<iframe width={width} height=800 style="border: 0" src="{page}#selftest"></iframe>
<script>addEventListener("load", () => {{
    document.title = document.querySelector("iframe").contentDocument.title; }});</script>
"""


def verdict(chromium, page, folder, how=()):
    """The title after the page has tested itself."""
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={folder}", *how, "--dump-dom", f"file://{page}#selftest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.seconds(120))
    found = re.search(r"<title>([^<]*)</title>", done.stdout)
    return found[1] if found else f"no page (exit {done.returncode}): {done.stderr[-300:]}"


def outside(text):
    """What in the page's own markup names something outside of it."""
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    tags = re.findall(r"<[a-z][^>]*>|<style[^>]*>.*?</style>", markup, flags=re.S)
    return [tag[:80] for tag in tags if "Content-Security-Policy" not in tag
            and OUTSIDE.search(tag)]


def selftest(options, page, what):
    """The problem, or None; says how much was checked."""
    if not options.chromium:
        return None
    title = verdict(options.chromium, page, page.parent / f"profile-{page.stem}")
    if not title.startswith("selftest passed: "):
        return title
    print(f"{what}: {page.stat().st_size // 1024} KiB, {title}")
    return None


def check_ways(options, page, what):
    """The problem, or None, of the page in the dark and on a phone."""
    if not options.chromium:
        return None
    frame = page.parent / f"phone-{page.name}"
    frame.write_text(FRAME.format(width=PHONE, page=page.name))
    ways = {"dark": (page, DARK),
            f"{PHONE} wide": (frame, ["--disable-web-security", "--allow-file-access-from-files"])}
    for way, (at, how) in ways.items():
        title = verdict(options.chromium, at, page.parent / f"profile-{page.stem}", how)
        if not title.startswith("selftest passed: ") or way not in title:
            return f"{way}: {title}"
    return None


def check_broken(options, page, name, change):
    """None when the page notices."""
    text = page.read_text()
    broken = change(text)
    if broken == text:
        return "nothing was broken"
    copy = page.parent / f"{name.replace(' ', '-')}.html"
    copy.write_text(broken)
    title = verdict(options.chromium, copy, page.parent / f"profile-{copy.stem}")
    return "it did not notice" if title.startswith("selftest passed") else None


def run(doc, needs, checks, breaks):
    """`checks(options, folder)` yields (what, problem or None) of a page each; then the page
    `breaks[0]` of the folder is broken in the ways of `breaks[1]`. Prints the counts; the exit
    status."""
    parser = argparse.ArgumentParser(description=doc)
    for option in needs:
        parser.add_argument(option, required=True, type=os.path.abspath)
    parser.add_argument("--chromium", default=browser())
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder for pictures of a page")
    parser.add_argument("--all", action="store_true", help="all combinations of what pages are of")
    options = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        results = list(checks(options, folder))
        for name, change in breaks[1].items() if options.chromium else ():
            results.append((name, check_broken(options, folder / breaks[0], name, change)))
    for what, problem in results:
        counts["failed" if problem else "passed" if options.chromium else "skipped"] += 1
        if problem:
            print(f"{what}: {problem}")
    counts["skipped"] += 0 if options.chromium else len(breaks[1])
    print(", ".join(f"{n} {how}" for how, n in counts.items()))
    return 1 if counts["failed"] else 0
