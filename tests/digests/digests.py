#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digests.py --tessera PROGRAM [--like FILE] [--kernelbench FOLDER] [ROOT]: digests of the machine
code of the corpus, one line each: `target digest kernel options`.

The corpus: the examples with the types and sizes of tests/examples for all targets, the kernels
of tests/stdlib, tests/lang, tests/cases and, with --kernelbench, of that folder for some of them.
Names of symbols and parameters, source locations, comments and messages do not enter, so that two
builds may be compared between which names changed: `--like FILE` compiles what FILE lists, prints
what differs and ends with 1 if anything does.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

DEFAULT_ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = "native x86-64-v3 x86-64-v4 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120 gfx90a gfx942 gfx950" \
      " gfx1100 gfx1201".split()
SOME = "native sm_90a gfx942".split()
OTHERS = "x86-64-v3 x86-64-v4 sm_80 sm_86 sm_89 sm_100a sm_120 gfx90a gfx950 gfx1100" \
         " gfx1201".split()


def ptx_digest(data):
    """Of PTX text: instructions only, with names numbered in the order in which they appear."""
    names, lines = {}, []
    for line in data.decode().split("\n"):
        line = re.sub(r"//.*", "", line).strip()
        if line.startswith(".section"):  # debug information stands at the end
            break
        if line and not re.match(r"\.(loc|file)\b|\$L__(tmp|func)\w*:", line):
            lines.append(line)
    text = "\n".join(lines)
    declared = re.findall(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]*)", text)
    declared += re.findall(r"\.param [^;\n]*?([A-Za-z_$][\w$]*)(?:\[\d*\])?[,;\n]", text)
    declared += re.findall(r"\.(?:shared|global|const|local) [^;=\n]*?([A-Za-z_$][\w$]*)\[", text)
    known = set(declared)

    def numbered(match):
        if match[0] not in known:
            return match[0]
        return names.setdefault(match[0], f"name{len(names)}")
    text = re.sub(r"(?<![\w$%.])[A-Za-z_$][\w$]*", numbered, text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def elf_digest(data):
    """Of a 64-bit ELF object: code and constants; not messages, names or places of sections."""
    table, = struct.unpack_from("<Q", data, 40)
    size, count, strings = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = sections[strings][4]
    made = hashlib.sha256()
    for name, kind, _, _, offset, length in sections:
        start = names + name
        name = data[start:data.index(b"\0", start)].decode()
        wanted = name.startswith((".text", ".rodata")) and ".str" not in name
        if not wanted or kind != 1:
            continue
        part = bytearray(data[offset:offset + length])
        if name == ".rodata" and data[18] == 224:  # AMD: kernel descriptors say where the code is
            for at in range(0, length - 63, 64):
                part[at + 16:at + 24] = bytes(8)
        made.update(re.sub(r"\.[A-Za-z_]\w*_\d+$", "", name).encode() + b"\0" + bytes(part))
    return made.hexdigest()[:16]


def kind_of(target):
    return "ptx" if target.startswith("sm_") else "hsaco" if target.startswith("gfx") else "obj"


def command_of(tessera, source, sets, sizes, target, out):
    command = [tessera, "compile", source, "--target", target, "--emit", kind_of(target),
               "-o", str(out), "--no-pins", "--timeout", "0"]
    command += ["--set", sets] if sets else []
    return command + (["--size", sizes] if sizes else [])


def compiled(tessera, source, sets, sizes, target, out):
    """The digest, or `error:CODES`, and what the program said."""
    done = subprocess.run(command_of(tessera, source, sets, sizes, target, out),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        codes = sorted(set(re.findall(r"\b[EW]\d{4}\b", done.stderr)))
        return "error:" + ",".join(codes or [str(done.returncode)]), done.stderr
    data = pathlib.Path(out).read_bytes()
    return (ptx_digest if kind_of(target) == "ptx" else elf_digest)(data), ""


def bound(tessera, source, sets, prefer, out):
    """The generic parameters with those that are not given: as preferred, else as the help
    proposes, T as bf16."""
    for _ in range(6):
        digest, said = compiled(tessera, source, sets, "", "sm_90a", out)
        if not digest.startswith("error:E0701"):
            break
        more = {}
        for name, value in re.findall(r"(\w+)=([\w.+-]+)", "\n".join(
                line for line in said.split("\n") if "= help:" in line)):
            value = "bf16" if value == "f32" else value.rstrip(".,")
            more.setdefault(name, prefer.get(name, value))
        sets = ",".join(([sets] if sets else []) + [f"{k}={v}" for k, v in more.items()])
    return sets


def text_of(sizes):
    return ",".join(f"{k}={v}" for k, v in sizes.items())


def examples(root):
    """Each example as tests/examples runs it: (name, file, sets, sizes,
    values for what is not bound, targets)."""
    sys.path.insert(0, str(root / "tests" / "examples"))
    import attention_references  # noqa: F401
    import numpy as np
    import product_references  # noqa: F401
    import references
    import window_references  # noqa: F401
    for name, (sizes, make, _, _, types) in sorted(references.CASES.items()):
        file = root / "examples" / f"{name}.tile"
        if not file.exists():
            continue
        text = file.read_text()
        seen = set()
        for row in range(len(sizes)):
            try:
                with np.errstate(all="ignore"):
                    made = make(np.random.default_rng(1), sizes[row])
            except Exception:
                continue
            sets = {k: str(v).lower() if isinstance(v, bool) else v
                    for k, v in dict(made.get("set", {})).items()}
            for dtype in types:
                given = text_of({**sets, **({"T": dtype} if len(types) > 1 else {})})
                if given not in seen:
                    seen.add(given)
                    yield f"examples/{name}", file, given, {}, sizes[row], ALL
            if row == len(sizes) - 1:  # and for the sizes of the last case
                named = {k: v for k, v in sizes[row].items()
                         if isinstance(v, int) and k not in sets
                         and re.search(rf"[\[,] *{k}\b|\b{k} *[\],]", text)}
                yield f"examples/{name}", file, given, named, sizes[row], SOME


def stdlib(root, folder):
    sys.path[:0] = [str(root / "tests" / "stdlib"), str(root / "tests")]
    import stdlib as suite
    for number, row in enumerate(suite.ROWS):
        file = folder / f"row{number}.tile"
        file.write_text(suite.source(row[0], row[1])[1])
        yield f"stdlib/row{number}", file, "", {}, {}, SOME
    for number, (call, shapes, result, _) in enumerate(suite.WINDOWS):
        head = ", ".join(f"{n}: {suite.tensor(shape)}" for n, shape in shapes.items())
        file = folder / f"window{number}.tile"
        file.write_text("fn first(a) {\n    let (b, c) = a\n    return b\n}\n"
                        "fn back(a) {\n    let (b, c) = a\n    return dequantize(b, c)\n}\n"
                        f"kernel k({head}) -> {suite.tensor(result)} = {call}\n")
        yield f"stdlib/window{number}", file, "", {}, {}, SOME


def language(root):
    sys.path[:0] = [str(root / "tests" / "lang"), str(root / "tests")]
    for folder in ("agree", "differential"):  # before the renames, after them
        sys.path.insert(0, str(root / "tests" / folder))
    import importlib
    import lang
    sys.modules.setdefault("lang", lang)
    for file in sorted((root / "tests" / "lang" / "inputs").glob("*.tile")):
        importlib.import_module(file.stem)
    for number, program in enumerate(lang.PROGRAMS):
        file = root / "tests" / "lang" / "inputs" / f"{program.file}.tile"
        targets = [OTHERS[number % len(OTHERS)], SOME[number % 3]]
        yield f"lang/{program.file}:{program.name}", f"{file}:{program.name}", program.set, {}, \
            program.sizes[-1], targets


def kernels_of(file):
    return re.findall(r"^kernel (\w+)", file.read_text(), re.M)


def cases(root):
    for file in sorted((root / "tests" / "cases").glob("*.tile")):
        for name in kernels_of(file):
            yield f"cases/{file.stem}:{name}", f"{file}:{name}", "", {}, {}, SOME


def kernelbench(folder):
    for number, file in enumerate(sorted(folder.glob("sol/*/*/kernel.tile"))):
        for name in kernels_of(file):
            label = f"kernelbench/{'/'.join(file.parts[-3:-1])}:{name}"
            yield label, f"{file}:{name}", "", {}, {}, \
                ["sm_90a", OTHERS[number % len(OTHERS)], ("gfx942", "native")[number % 2]]


def corpus(options, folder):
    found = list(examples(options.root)) + list(stdlib(options.root, folder))
    found += list(language(options.root)) + list(cases(options.root))
    return found + (list(kernelbench(options.kernelbench)) if options.kernelbench else [])


def work(options, folder, job):
    """The lines of one kernel: {(target, kernel, options): digest}."""
    number, (name, source, sets, sizes, prefer, targets) = job
    out = folder / f"out{number}"
    sets = bound(options.tessera, str(source), sets, prefer, out)
    taken = {word.split("=")[0] for word in sets.split(",")}
    sizes = text_of({k: v for k, v in sizes.items() if k not in taken})
    lines = {}
    for target in targets:
        key = (target, name, f"set:{sets} size:{sizes}")
        lines[key] = compiled(options.tessera, str(source), sets, sizes, target, out)[0]
    out.unlink(missing_ok=True)
    return lines


def read(path):
    rows = (line.split(" ", 3) for line in path.read_text().splitlines())
    return {(target, name, how): digest for target, digest, name, how in rows}


def compare(before, after):
    keys = sorted(before.keys() | after.keys())
    bad = [k for k in keys if before.get(k) != after.get(k)]
    for key in bad:
        print("differs:", *key, before.get(key), after.get(key))
    print(f"{len(keys) - len(bad)} equal, {len(bad)} differ")
    return 1 if bad else 0


def main():
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("root", nargs="?", type=pathlib.Path, default=DEFAULT_ROOT)
    made.add_argument("--tessera", required=True, type=os.path.abspath)
    made.add_argument("--kernelbench", type=pathlib.Path)
    made.add_argument("--like", type=pathlib.Path)
    made.add_argument("--only", default="", help="a regular expression for kernels")
    made.add_argument("-o", type=pathlib.Path)
    made.add_argument("--jobs", type=int, default=os.cpu_count())
    options = made.parse_args()
    options.root = options.root.resolve()
    os.environ["TESSERA_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        jobs = [job for job in corpus(options, folder) if re.search(options.only, job[0])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda job: work(options, folder, job), enumerate(jobs)))
    lines = {key: digest for found in results for key, digest in found.items()}
    if options.o:
        options.o.write_text("".join(f"{t} {lines[t, n, how]} {n} {how}\n"
                                     for t, n, how in sorted(lines)))
    errors = sum(digest.startswith("error:") for digest in lines.values())
    print(f"{len(lines)} kernels, {errors} of them are refused")
    if options.like:
        before = {k: v for k, v in read(options.like).items() if re.search(options.only, k[1])}
        return compare(before, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
