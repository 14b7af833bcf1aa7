#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The playground. Builds the page; the compiler in it says the same as the program `tessera`
without its code generator, byte for byte: the IR, the schedule and the page of `explain` of every
kernel of the examples, and errors; what runs compute is near. Then the page in Chromium: it is
edited by keys, an error is shown at its line and mended, IR, explain and results are read, a
program that does not end is ended, a trap is survived, links hold programs, nonsense does not end
the page; in the dark, on a phone, and with contrast and names for all. Prints
`N passed, N failed, N skipped`: skipped for want of the tool chain for WebAssembly, Node, or
Chromium."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE), str(ROOT / "playground")]
import make_page  # noqa: E402
import page as pages  # noqa: E402
import page_checks  # noqa: E402
import patience  # noqa: E402
import suite  # noqa: E402

FILE = "program.tile"
TARGETS = ["sm_90a", "gfx942", "x86-64-v3", "sm_80", "sm_100a", "gfx1100"]
MAX_BYTES = 4_000_000
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf")
ERRORS = {  # as they are read, typed, and compiled
    "no token": "kernel f(x: f32[N]) -> f32[N] = x $ 1\n",
    "an open string": 'kernel f(x: f32[N]) -> f32[N] { print("', "nothing": "",
    "shapes": "kernel f(x: f32[M, N], y: f32[N, M]) -> f32[M, N] = x + y\n",
    "wide": "# é漢字😀́\nkernel 漢(x: f32[N]) -> f32[N] = x +  😀\n",
    "malformed": "kernel f(x: f32[N]) -> f32[N] = x \ud800 \x00 + 1\n",
    "an import": "import other\nkernel f(x: f32[N]) -> f32[N] = other.g(x)\n",
    "deep": "kernel f(x: f32[N]) -> f32[N] = " + "(" * 20000 + "x" + ")" * 20000 + "\n",
}


class Native:
    """The program without libtessera-codegen, as the page has it."""

    def __init__(self, build, folder):
        for part in ("bin", "lib", "work"):
            (folder / part).mkdir(parents=True)
        shutil.copy(build / "bin/tessera", folder / "bin")
        shutil.copy(build / "lib/libtessera.so.0", folder / "lib")
        self.program, self.work = folder / "bin/tessera", folder / "work"
        self.environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "TESSERA_CACHE": "off"}

    def run(self, args, source):
        (self.work / FILE).write_bytes(source.encode("utf-8", "surrogatepass"))
        done = subprocess.run([self.program, *args], cwd=self.work, env=self.environment,
                              capture_output=True, timeout=patience.seconds(120))
        return done.returncode, done.stdout.decode("latin1"), done.stderr.decode("latin1")


class Wasm:
    """The compiler of the page, in Node."""

    def __init__(self, node, wasm):
        self.process = subprocess.Popen([node, HERE / "run_program.js", wasm], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, args, source):
        source = source.encode("utf-8", "surrogatepass").decode("latin1")
        self.process.stdin.write(json.dumps([args, {FILE: source}]) + "\n")
        self.process.stdin.flush()
        return tuple(json.loads(self.process.stdout.readline())[:3])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def choices(kernel, example, sizes):
    """What the page chooses for a kernel (page.js): --set and --size, and sizes to run with."""
    sets, large, small = [], [], []
    for generic in kernel["generics"]:
        types = make_page.TYPES.get(generic["class"], make_page.TYPES["any"])
        sets.append(f"{generic['name']}={example.get('sets', {}).get(generic['name'], types[0])}")
    for param in kernel["params"]:
        if param["const"]:
            plain = "true" if param["type"] == "bool" else param.get("default", "1")
            sets.append(f"{param['name']}={example.get('sets', {}).get(param['name'], plain)}")
    names = {size["name"] for size in kernel["sizes"]}
    for size in kernel["sizes"]:
        for into, table in ((large, sizes["large"]), (small, sizes["small"])):
            value = table.get(size["name"], table[""])
            value = 3 if size["name"] in "RS" and {"R", "S"} <= names else value
            into.append(f"{size['name']}={size.get('values', [value])[0]}")
    scalars = [f"{p['name']}=1" for p in kernel["params"] if not p["const"] and "dims" not in p]
    some = ["--set", ",".join(sets)] if sets else []
    return (some, ["--size", ",".join(large)] if large else [],
            scalars + some + (["--size", ",".join(small)] if small else []))


def near(left, right):
    """The same words, and numbers that differ by rounding: the C libraries' functions do."""
    words = [NUMBER.split(text) for text in (left, right)]
    numbers = [list(map(float, NUMBER.findall(text))) for text in (left, right)]
    return words[0] == words[1] and all(
        a == b or a != a and b != b or abs(a - b) <= 1e-5 * max(abs(a), abs(b), 1e-3)
        for a, b in zip(*numbers))


def first_difference(left, right):
    for a, b in zip(left.splitlines() + [""], right.splitlines() + [""]):
        if a != b:
            return f"{a[:160]!r} is {b[:160]!r} in the page"
    return "one ends before the other"


def same(native, wasm, args, source):
    one, two = native.run(args, source), wasm.run(args, source)
    what = " ".join(args)
    if one[0] != two[0]:
        return f"{what}: exit status {one[0]}, in the page {two[0]}: {two[2][-300:]}"
    for a, b in zip(one[1:], two[1:]):
        if a != b:
            return f"{what}: {first_difference(a, b)}"
    return None


def compare_run(native, wasm, args, source):
    one, two = (re.sub(r"(?m)^time .*\n", "", side.run(args, source)[1]) for side in (native, wasm))
    return None if one and near(one, two) else f"{' '.join(args)}: {first_difference(one, two)}"


def compare(native, wasm, options):
    """Yields (what, problem or None)."""
    data, turn = make_page.data(), 0
    for example in suite.part_of(options, data["examples"]):
        source = example["source"]
        described = native.run(["compile", FILE, "--describe", "--json"], source)[1]
        yield example["name"], same(native, wasm, ["compile", FILE, "--describe", "--json"], source)
        for kernel in json.loads(described)["kernels"]:
            sets, sizes, run = choices(kernel, example, data["sizes"])
            path, target = f"{FILE}:{kernel['name']}", TARGETS[turn % len(TARGETS)]
            turn += 1
            chosen = [path, *sets, "--target", target, *sizes]
            for args in (["compile", *chosen, "--emit", "ir", "-o", "-"], ["explain", *chosen],
                         ["explain", *chosen, "--html", "-"]):
                yield kernel["name"], same(native, wasm, args, source)
            yield kernel["name"], compare_run(native, wasm,
                                              ["run", path, *run, "--device", "interp"], source)
    for name, source in ERRORS.items():
        for args in (["explain", FILE, "--target", "sm_90a"],
                     ["compile", FILE, "--target", "sm_90a", "--emit", "ir", "-o", "-"]):
            yield name, same(native, wasm, args, source)


def tools():
    """What is missing to build the page and to run its compiler."""
    there = {"clang-22": shutil.which("clang-22"), "wasm-ld": shutil.which("wasm-ld-22"),
             "wasi-libc": pathlib.Path("/usr/include/wasm32-wasi/stdio.h").exists(),
             "nodejs": shutil.which("node")}
    return [name for name, found in there.items() if not found]


def checks(options, folder):
    run = subprocess.run(["cmake", "--build", options.build, "--target", "playground"],
                         capture_output=True, text=True, timeout=patience.seconds(600))
    page = options.build / "playground.html"
    yield "the build", run.stdout[-1500:] + run.stderr[-500:] if run.returncode else None
    if run.returncode:
        return
    print(f"the page has {page.stat().st_size // 1024} KiB")
    yield "size", "too large" if page.stat().st_size > MAX_BYTES else None
    outside = pages.outside(re.sub(r'<script type="(text/plain|application/json)".*?</script>', "",
                                   page.read_text(), flags=re.S))
    yield "outside", f"names {outside[0]}" if outside else None
    wasm = Wasm(shutil.which("node"), options.build / "playground/wasm/tessera.wasm")
    yield from compare(Native(options.build, folder / "native"), wasm, options)
    wasm.end()
    if options.chromium:
        yield from page_checks.run(options.chromium, page, folder)


def main():
    parser = pages.argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--chromium", default=pages.browser())
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder for pictures of the page")
    suite.add_part(parser)
    options = parser.parse_args()
    page_checks.PICTURES = options.pictures
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    missing = tools()
    if missing:
        print(f"left out: there is no {', no '.join(missing)}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for what, problem in checks(options, pathlib.Path(folder)):
            counts["failed" if problem else "passed"] += 1
            if problem:
                print(f"{what}: {problem}")
    counts["skipped"] += 0 if options.chromium else len(page_checks.CHECKS)
    print(", ".join(f"{n} {how}" for how, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
