#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `tune report --html`, in headless Chromium: it follows its links, opens its folds and
measures its pictures by itself (#selftest), and says so in its title. It names nothing outside of
it, and shows what was said of failures as it was said. Pages that were broken on purpose must say
that they are. Prints `N passed, N failed, N skipped`: all of them are skipped for want of
Chromium."""

import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import page as pages  # noqa: E402
import patience  # noqa: E402

HOSTILE = """</section><script>document.title = "mine"</script><img src="x"> & "quoted" """


def sweep(seed, candidates):
    """Rows of tests/tools/tessera_store.c: a space of three lines, of which one matters most."""
    draw = random.Random(seed)
    rows = ["derived 9 4e-4 3.9e-4 4.1e-4 3.5e-4 | tile M 1, N 4096; warps 4; pipeline 2"]
    for i in range(candidates):
        m, n = draw.choice([1, 2, 4, 8]), draw.choice([256, 512, 1024])
        warps, pipeline = draw.choice([2, 4, 8, 16]), draw.choice([2, 3, 4])
        lines = f"tile M {m}, N {n}; warps {warps}; pipeline {pipeline}"
        if warps == 16:
            rows.append(f"does-not-fit 0 nan nan nan 1e-3 | {lines} | {HOSTILE}{m}")
            continue
        time = 1e-4 * (1 + m / 8 + abs(n - 512) / 512) * draw.uniform(0.98, 1.02)
        rows.append(f"ok 9 {time} {time * 0.98} {time * 1.02} "
                    f"{time * draw.uniform(0.8, 1.3)} | {lines}")
    return "\n".join(rows) + "\n"


STORES = {
    "a sweep": [("softmax", "T=f32,M=1000,N=4000", sweep(1, 200))],
    "several": [("softmax", "T=f32,M=1000,N=4000", sweep(2, 40)),
                ("softmax", "T=bf16,M=64,N=4096", sweep(3, 5)),
                ("linear", "T=bf16,M=4096,N=4096,K=4096", sweep(4, 900))],
    "one candidate": [("softmax", "T=f32,M=1000,N=4000",
                       "ok 1 1e-4 1e-4 1e-4 1e-4 | tile M 1\n")],
    "failures only": [("softmax", "T=f32,M=1000,N=4000",
                       f"crash 0 nan nan nan nan | tile M 1 | {HOSTILE}\n"
                       "timeout 0 nan nan nan nan | tile M 2 |\n")],
    "without lines": [("softmax", "T=f32,M=1000,N=4000", "derived 3 1e-4 nan nan nan | \n")],
}
BREAKS = {
    "a link to nowhere": lambda text: text.replace('href="#s0"', 'href="#nowhere"', 1),
    "a bar that is too long": lambda text: text.replace("<rect class=bar width=",
                                                        "<rect class=bar width=9", 1),
    "a part that is missing": lambda text: text.replace("<h3>Failures</h3>", "", 1),
    "a script that fails": lambda text: text.replace("const selftest = () => {",
                                                     "missing(); const selftest = () => {", 1),
}


def make_page(options, name, folder):
    stem = name.replace(" ", "-")
    store, page = folder / f"{stem}.db", folder / f"{stem}.html"
    for kernel, values, rows in STORES[name]:
        source = ROOT / "examples" / f"{kernel}.tile"
        subprocess.run([options.store, store, source, values, "NVIDIA H200", "sm_90a"],
                       input=rows, text=True, check=True)
    subprocess.run([options.tessera, "tune", "report", "--store", store, "--html", page],
                   check=True, timeout=patience.seconds(60))
    return page


def check_page(options, name, folder):
    page = make_page(options, name, folder)
    text = page.read_text()
    if pages.outside(text):
        return f"names {pages.outside(text)[0]}"
    if text.count("<section") != len(STORES[name]) or "<img" in text:
        return "what was said of a failure is markup"
    return pages.selftest(options, page, name)


def check_pages(options, folder):
    for name in STORES:
        yield name, check_page(options, name, folder)


if __name__ == "__main__":
    sys.exit(pages.run(__doc__, ["--tessera", "--store"], check_pages,
                       ("a-sweep.html", BREAKS)))
