#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_page.py FILE.wasm -o FILE.html: one page that needs nothing else: page.html with what
cmake/page_head.html gives to all pages, page.js, program.js, the compiler, packed, and the
examples. The same files give the same bytes."""

import argparse
import base64
import gzip
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
POLICY = "script-src 'unsafe-inline'"
# Nothing is loaded: the worker is a text of the page.
OWN_POLICY = POLICY + " 'wasm-unsafe-eval' blob:; worker-src blob:"
TYPES = {
    "float": ["f32", "bf16", "f16", "f64"],
    "int": ["i32", "i64", "i8", "u8"],
    "any": ["f32", "bf16", "f16", "f64", "i32", "i64", "i16", "i8", "u64", "u32", "u16", "u8",
            "bool", "f8e4m3", "f8e5m2", "i4", "u4"],
}


def examples():
    """Programs, with the sizes and constants of examples.json where others than the page's are
    wanted."""
    choices = json.loads((HERE / "examples.json").read_text())
    for path in sorted((ROOT / "examples").glob("*.tile")):
        source = re.sub(r"\A# SPDX.*\n", "", path.read_text())
        yield {"name": path.stem, "source": source, **choices["examples"].get(path.stem, {})}


def data():
    targets = re.findall(r'^TARGET\("([^"]+)",', (ROOT / "ir/target/targets.def").read_text(),
                         re.M)
    tokens = (ROOT / "frontend/syntax/tokens.def").read_text()
    words = re.findall(r'^KEYWORD\(\w+, "(\w+)"\)', tokens, re.M)
    return {
        "examples": list(examples()),
        "targets": [name for name in targets if name != "native"],
        "words": words + ["where"],
        "types": TYPES,
        "sizes": json.loads((HERE / "examples.json").read_text())["sizes"],
    }


def page(wasm):
    head = (ROOT / "cmake/page_head.html").read_text()
    assert POLICY in head
    parts = {
        "head": head.replace(POLICY, OWN_POLICY),
        "data": json.dumps(data()).replace("<", "\\u003c"),
        "wasm": base64.b64encode(gzip.compress(wasm, 9, mtime=0)).decode(),
        "program": (HERE / "program.js").read_text(),
        "page": (HERE / "page.js").read_text(),
    }
    assert "</script" not in parts["program"] + parts["page"]
    return re.sub(r"<!--(\w+)-->", lambda m: parts[m[1]], (HERE / "page.html").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wasm", type=pathlib.Path)
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.write_text(page(options.wasm.read_bytes()))


if __name__ == "__main__":
    main()
