#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs.py [--check]: writes docs/ops.md, passes.md, targets.md, stdlib.md, schedule.md, errors.md,
api.md and the lists of folders in README.md and docs/architecture.md from the tables and comments
of the sources; with --check only says whether they are current. The tables of docs/performance.md
come from docs_results.py, docs/api.md from docs_api.py.

Lines have at most 120 columns. A table has short cells; texts are lists, which are wrapped."""

import pathlib
import re
import sys
import textwrap

from docs_api import api
from docs_results import performance

WIDTH = 120  # columns of a line; tests/layering/documents.py checks it
FIRST_WARNING = 2000  # as in support/diag.h
ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*|[(),]|[^\s"(),]+', re.S)


def words(text):
    """Tokens without comments."""
    return [t for t in TOKEN.findall(text) if not t.startswith(("/*", "//"))]


def rows(path, macro):
    """The arguments of each `macro(…)` of a table; strings are joined and unquoted."""
    return rows_of((ROOT / path).read_text(), macro)


def rows_of(table_text, macro):
    text = re.sub(r"^\s*#[^\n]*\n", "", table_text, flags=re.M)
    tokens, found, i = words(text), [], 0
    while i < len(tokens) - 1:
        if tokens[i] == macro and tokens[i + 1] == "(":
            row, depth, i = [[]], 1, i + 2
            while depth:
                token = tokens[i]
                depth += {"(": 1, ")": -1}.get(token, 0)
                if token == "," and depth == 1:
                    row.append([])
                elif depth:
                    row[-1].append(token)
                i += 1
            found.append([value(argument) for argument in row])
        else:
            i += 1
    return found


def value(tokens):
    if tokens and all(t.startswith('"') for t in tokens):
        return re.sub(r'\\(["\\])', r"\1", "".join(t[1:-1] for t in tokens))
    return " ".join(tokens)


def table(head, lines):
    escaped = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(out + ["| " + " | ".join(line) + " |" for line in escaped]) + "\n"


def title(name, source):
    return f"# {name}\n\n<!-- Made by `make docs` from {source}; do not edit. -->\n\n"


def groups(path, macro):
    """The rows of a table below each comment that starts a line of its own: (heading, rows)."""
    text = (ROOT / path).read_text()
    parts = re.split(r"\n\n/\* (.*?) \*/\n", text, flags=re.S)
    for comment, part in zip(parts[1::2], parts[2::2]):
        yield comment.split(":")[0].replace("\n *", " "), rows_of(part, macro)


def filled(text, first="", rest=""):
    """A paragraph in lines of the width that documents have. Code of one line is not broken."""
    kept = re.sub(r"`[^`]{1,90}`", lambda code: code[0].replace(" ", "\0"), text)
    kept = re.sub(r" (?=(?:[-+*#=>|]|\d+[.)])(?: |$))", "\0", kept)  # no marker begins a line
    lines = textwrap.wrap(kept, WIDTH, initial_indent=first, subsequent_indent=rest,
                          break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def listed(items):
    """A list, an item for each text."""
    return "\n".join(filled(text, "- ", "  ") for text in items) + "\n"


def ops():
    levels = {"TLS": "all", "TL": "tensor, loop", "LS": "loop, staged", "S": "staged",
              "L": "loop", "T": "tensor"}
    body = title("Operations", "ir/ops.def, ir/attrs.def, ir/dtypes.def")
    body += filled("The text form and the structures are described in [ir.md](ir.md). An operation "
                   "is legal at the levels that its row names; its traits say what passes may do "
                   "with it. Column \"axes\" says how the axes of array operands relate to the "
                   "axes of the result (or of the array that the op writes): `equal` one by one; "
                   "`first` only those of the first operand; `indexed` those of all but the first "
                   "operand, whose elements are indexed; `reduce`, `scan` and `fold` one by one, "
                   "except for the axis that attribute `axis` names; the other words as the op's "
                   "text says. The list below each table says what the operations mean.") + "\n"
    for heading, rows_of_group in groups("ir/ops.def", "OP"):
        body += f"\n## {heading}\n\n" + table(
            ["operation", "operands", "results", "traits", "levels", "axes"],
            [[f"`{name}`", operands.replace("V", "varies"), results.replace("V", "varies"),
              "" if traits == "0" else traits.lower().replace(" | ", ", "), levels[level],
              "" if axes == "NONE" else axes.lower()]
             for _, name, operands, results, traits, level, axes, _ in rows_of_group])
        body += "\n" + listed(f"`{name}`: {doc}" for _, name, *_, doc in rows_of_group)
    body += "\n## Attributes\n\n"
    text = (ROOT / "ir/attrs.def").read_text()
    body += listed(f"`{name}` ({kind.lower()}): " +
                   re.sub(r"\s*\n \* *|\s*\n     \* *", " ", meaning)
                   for name, kind, meaning in
                   re.findall(r'^ATTR\(\w+, "(\w+)", (\w+)\)\s*/\* (.*?) \*/', text,
                              flags=re.M | re.S))
    body += "\n## Element types\n\n"
    kinds = {"B": "bool", "I": "signed", "U": "unsigned", "F": "float"}
    return body + table(["type", "bits", "class"], [[f"`{r[1]}`", r[2], kinds[r[3]]]
                                                    for r in rows("ir/dtypes.def", "DTYPE")])


def contract(function):
    """The comment at the head of a pass's file, as text."""
    for path in (ROOT / "passes").rglob("*.c"):
        text = path.read_text()
        if re.search(rf"^void pass_{function}\(", text, re.M):
            comments = re.findall(r"/\*.*?\*/", text.split("#include")[0], re.S)
            lines = [re.sub(r"^(/\*+ ?| \* ?| \*/)|\s*\*/$", "", line)
                     for comment in comments if "SPDX" not in comment
                     for line in comment.split("\n")]
            return path.relative_to(ROOT).as_posix(), "\n".join(lines).strip()
    return None, ""


def orders():
    text = (ROOT / "passes/pass_manager.c").read_text()
    block = text[text.index("CONSTRAINTS[] = {"):].split("};")[0]
    return [tuple(value([s for s in TOKEN.findall(p) if s.startswith('"')]) for p in (a, b, c))
            for a, b, c in re.findall(r'\{\s*("[^"]*"),\s*("[^"]*"),\s*((?:"[^"]*"\s*)+)\}', block)]


def passes():
    rows_of_passes = rows("passes/passes.def", "PASS")
    entries = rows("ir/schedule.def", "SCHEDULE_ENTRY")
    body = title("Passes", "passes/passes.def, pass_manager.c, ir/schedule.def, heads of files")
    body += filled("The passes are listed in the order in which they run, with what each does and "
                   "the [schedule keys](schedule.md#keys) that it decides. A pass that is not "
                   "required can be skipped (`--skip`).") + "\n\n"
    for number, (_, name, required, doc) in enumerate(rows_of_passes, 1):
        keys = ", ".join(f"`{entry[0]}`" for entry in entries if name in entry[3].split())
        body += filled(f"`{name}`: {doc}" + (" Required." if required == "true" else "") +
                       (f" Decides {keys}." if keys else ""), f"{number}. ".ljust(4), "    ") + "\n"
    body += "\n## Ordering constraints\n\n"
    body += filled("Each item names two passes, in the order in which they must run, and what "
                   "would break in the other order. A test checks that the table of passes keeps "
                   "all of them.") + "\n\n"
    body += listed(f"`{first}` before `{second}`: {reason}" for first, second, reason in orders())
    for function, name, _, _ in rows_of_passes:
        path, text = contract(function)
        if text:
            body += f"\n## {name}\n\n{path}\n\n" + "\n".join(
                ("    " + line).rstrip() for line in text.split("\n")) + "\n"
    return body


def unit_targets(text):
    """The targets that a row's text names, which may be a macro of the table."""
    table_text = (ROOT / "ir/layout/matrix_instrs.def").read_text()
    macros = dict(re.findall(r'^#define (\w+) "([^"]*)"', table_text, flags=re.M))
    assert text in macros or not text.isupper(), \
        f"{text} of ir/layout/matrix_instrs.def is no macro"
    return " ".join(f"`{name}`" for name in macros.get(text, text).split())


def target_facts(row, fields):
    """Cells of a table of targets: what the row says of the fields, each of which may lack."""
    facts = dict(re.fullmatch(r"\.(\w+) = (.+)", fact).groups() for fact in row[5:])
    cards = {r[0]: r[1] for r in rows("ir/target/machines.def", "MACHINE")}
    for field in fields:
        if field == "machine":
            card = re.search(r"CARD_(\w+)", facts[field])
            yield f"`{cards[card[1]]}`"
        elif field.startswith("has_"):
            yield "yes" if facts.get(field) == "true" else "no"
        elif field == "async_copy_bytes":
            sizes = [str(n) for n in (4, 8, 16) if int(facts.get(field, 0)) & n]
            yield ", ".join(sizes) or "no"
        else:
            yield facts.get(field, "–").replace("NATIVE_VECTOR", "this machine's")


def machines():
    """The rows of the table of cards, with its macros expanded, as (positional, facts)."""
    text = (ROOT / "ir/target/machines.def").read_text()
    macros = dict(re.findall(r"^#define (\w+) ((?:.*\\\n)*.*)$", text, flags=re.M))
    text = re.sub(r"^#define (?:.*\\\n)*.*\n", "", text, flags=re.M)
    for _ in range(4):  # macros name macros
        for name, body in macros.items():
            text = re.sub(rf"\b{name}\b", body.replace("\\\n", " ").replace("\\", ""), text)
    for row in rows_of(text, "MACHINE"):
        yield row[:6], dict(re.fullmatch(r"\.(\w+) = (\w+)", fact).groups() for fact in row[6:])


def machine_tables():
    """The cards: one table of devices, one of rates, and the machine's CPU."""
    found = list(machines())
    defaults = set(re.findall(r"CARD_(\w+)", (ROOT / "ir/target/targets.def").read_text()))
    device = {"num_sms": "SMs", "clock": "MHz", "matrix_clock": "MHz of the peak",
              "memory_gbs": "memory GB/s", "l2_mib": "L2 MiB"}
    rates = {"product64": "f64", "product32": "f32 or tf32", "product16": "16-bit",
             "product8": "8-bit", "warp_percent": "by single warps, %", "lanes": "f32 lanes",
             "l2_bytes": "L2", "l2_loaded_bytes": "by all", "memory_bytes": "memory bytes"}
    times = {"step_overhead": "loop step", "start": "start", "host_cycles": "host launch",
             "l1_latency": "L1", "l2_latency": "L2, loaded", "memory_latency": "memory, ns",
             "fetch_bytes": "fetched code, bytes per cycle"}
    meetings = {"chain_step": "step of a dot chain", "chain_tile": "its tile",
                "barrier": "barrier", "combine": "combining in a block",
                "cluster_combine": "in a cluster"}
    dots = {"dot_drain": "drain of dots", "multicast_step": "multicast step",
            "cluster_sync": "cluster", "tail_start": "tail", "early_start": "early start",
            "uneven_percent": "uneven, %", "uneven_l2_percent": "from L2, %"}
    blocks = {"block_start": "block start", "block_next": "next block",
              "load_ns": "first loads, ns", "next_load_ns": "next loads, ns",
              "store_ns": "stores, ns", "begin_bytes": "memory meanwhile, bytes"}
    gpus = [(head, facts) for head, facts in found if head[3] != "CPU"]
    head = (ROOT / "ir/target/machines.def").read_text()
    letters = re.findall(r"^ \*   ([A-Z])  ((?:.*\n)(?: \*      .*\n)*)", head, flags=re.M)
    body = filled("A target's code is made for a card: for the default one ahead of time "
                  "(marked *), for the device's at run time, or for the one that `--target "
                  "sm_90a@h100` names. Cards of one target differ in the tiles that the cost "
                  "models choose. A device that no row describes is taken for the default card "
                  "with the driver's multiprocessors and clock (`sm_90a@78x1755`). The table is "
                  "`ir/target/machines.def`; `ir/target/machine.h` explains each column.") + "\n\n"
    body += table(["target", "card", "device", *device.values(), "sources"],
                  [[f"`{h[2]}`", f"`{h[1]}`" + (" *" if h[0] in defaults else ""), h[3],
                    *(f.get(key, "–") for key in device), h[5]] for h, f in gpus]) + "\n"
    body += filled("Per cycle of a multiprocessor: FLOP of the matrix units, lanes, bytes; "
                   "memory serves all of them.") + "\n\n"
    body += table(["card", *rates.values()], [[f"`{h[1]}`", *(f.get(key, "–") for key in rates)]
                                              for h, f in gpus]) + "\n"
    body += "Latencies and overheads, in cycles.\n\n"
    for columns in times, meetings, dots, blocks:
        alike = {}
        for h, f in gpus:
            alike.setdefault(tuple(f.get(key, "–") for key in columns), []).append(h[3].split()[0])
        body += table(["vendor", *columns.values()],
                      [[" ".join(sorted(set(names))), *row] for row, names in alike.items()]) + "\n"
    meaning = {letter: " ".join(re.sub(r"^ \*", "", line).strip() for line in text.splitlines())
               for letter, text in letters}
    return body + listed([f"{letter}: {text}" for letter, text in meaning.items()])


def targets():
    limits = {"warp": "lanes of a warp", "max_threads": "threads per block",
              "sm_threads": "threads per multiprocessor", "sm_blocks": "blocks per multiprocessor"}
    further = ({"machine": "default card", "schedulers": "schedulers",
                "group_warps": "warps of a warp group", "cluster": "blocks per cluster",
                "portable_cluster": "on every device"},
               {"registers": "registers per multiprocessor",
                "registers_thread": "registers per thread", "register_step": "granularity",
                "has_setmaxnreg": "setmaxnreg"},
               {"shared_bytes": "shared bytes per block", "shared_reserved": "reserved per block",
                "shared_row": "bytes of a row of banks"},
               {"code_bytes": "code bytes", "vector_bytes": "vector bytes",
                "has_bulk_copy": "bulk copies",
                "async_copy_bytes": "async copies (bytes)", "has_packed_minmax": "packed min/max"})
    families = {"CPU": "CPU", "NVPTX": "NVIDIA", "AMDGCN": "AMD"}
    found = rows("ir/target/targets.def", "TARGET")
    body = title("Targets", "ir/target/targets.def")
    body += filled("Passes read these facts and never the name of a target. All counts are maxima; "
                   "`ir/target/target.h` explains each column. On a CPU, the shared bytes are the "
                   "part of the L2 cache that a block may use, and the registers are vector "
                   "registers.") + "\n\n"
    body += table(["target", "family", *limits.values()],
                  [[f"`{r[0]}`", families[r[1]], *target_facts(r, limits)] for r in found]) + "\n"
    body += "\n".join(table(["target", *fields.values()],
                            [[f"`{r[0]}`", *target_facts(r, fields)] for r in found])
                      for fields in further)
    body += ("\n## Matrix instructions\n\n"
             "The rows of `ir/layout/matrix_instrs.def`: the value of the schedule key\n"
             "`instruction`, the element types of operands and result in registers, and the\n"
             "extents m × n × k of one instruction, of which tiles are multiples. A dot uses\n"
             "the first row of its target that can compute it. Operands of a narrower type\n"
             "are upcast if the row's type can represent each of their values (8-bit floats\n"
             "as f16, f16 and bf16 as f32, 4-bit integers as i8), which is exact. All other\n"
             "dots are computed by fused multiply-adds.\n\n")
    body += table(["instruction", "targets", "operands", "result", "m × n × k"],
                  [[f"`{r[0]}`", unit_targets(r[1]), f"`{r[2].lower()}`", f"`{r[3].lower()}`",
                    f"{r[at]} × {r[at + 1]} × {r[at + 2]}"]
                   for kind, at in (("WARPGROUP_MMA", 5), ("WARP_MMA", 4))
                   for r in rows("ir/layout/matrix_instrs.def", kind)])
    return body + "\n## Cards\n\n" + machine_tables()


def schedule():
    """docs/schedule.md is written by hand but for the table between its marks."""
    begin, end = "<!-- lines: made by `make docs` from ir/schedule.def -->", "<!-- /lines -->"
    text = (ROOT / "docs/schedule.md").read_text()
    head, rest = text.split(begin)
    found = rows("ir/schedule.def", "SCHEDULE_ENTRY")
    keys = [[f"`{key}`", "" if subs == "-" else f"`{subs}`", f"`{values}`",
             " ".join(f"`{name}`" for name in owner.split()), "yes" if bits == "true" else "no"]
            for key, subs, values, owner, bits, _, _ in found]
    fields = ["key", "subkeys", "values", "decided by", "changes bits"]
    texts = [f"`{key}`: {meaning} Applies to {where}." for key, *_, meaning, where in found]
    return (head + begin + "\n" + table(fields, keys) + "\n" + listed(texts) + end +
            rest.split(end)[1])


def declared(lines, at):
    """The head of the function that begins at a line, without its body."""
    head = ""
    for line in lines[at:]:
        head += line.strip() + " "
        if head.count("(") == head.count(")"):
            break
    depth = 0
    for i, c in enumerate(head):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == ")" and depth == 0:
            result = re.match(r"\s*->\s*\S+", head[i + 1:])
            return head[3:i + 1] + (result.group(0).rstrip("{= ") if result else "")
    return head


def described(lines, at):
    """The comment right above a line, as one paragraph."""
    first = at
    while first and lines[first - 1].startswith("# ") and "SPDX" not in lines[first - 1]:
        first -= 1
    return " ".join(line[2:].strip() for line in lines[first:at])


def functions(path):
    lines = path.read_text().split("\n")
    for at, line in enumerate(lines):
        if line.startswith("fn ") and not line.startswith("fn detail."):
            yield declared(lines, at), described(lines, at)


def module_head(path):
    """What the comment at the head of a module says."""
    lines, said = path.read_text().split("\n")[1:], []
    for line in lines:
        if not line.startswith("#"):
            break
        said.append(line[1:].strip())
    return " ".join(said)


def stdlib():
    body = title("The standard library", "stdlib/*.tile")
    body += filled(
        "Functions of `.tile`, there in every program without an import. Arguments of f16 and "
        "bf16 are computed in f32; `float`, `int`, `number` and `any` are classes of element "
        "types; names in brackets are extents that the arguments give. What is built into the "
        "language stands in [language.md](language.md).") + "\n\n"
    for path in sorted((ROOT / "stdlib").glob("*.tile")):
        body += f"## {path.stem}\n\n{filled(module_head(path))}\n\n"
        texts, last = {}, ""  # functions of one text are one item
        for head, text in functions(path):
            last = text or last
            texts.setdefault(last, []).append(f"`{head}`")
        body += listed(", ".join(heads) + f": {text}" for text, heads in texts.items()) + "\n"
    return body.rstrip("\n") + "\n"


def components():
    sys.path.insert(0, str(ROOT / "tests/layering"))
    import layering
    return layering.read_components().values()


def folders():
    """The README: its table of folders, from the components of CMakeLists.txt."""
    text = (ROOT / "README.md").read_text()
    begin, end = "<!-- folders: made by `make docs` from CMakeLists.txt -->", "<!-- /folders -->"
    head, rest = text.split(begin)
    holds = [[f"`{c.folder}/`", c.holds] for c in components()]
    return (head + begin + "\n" + table(["folder", "what lives there"], holds) + end +
            rest.split(end)[1])


def includes():
    """docs/architecture.md: what each folder may include, from the same components."""
    text = (ROOT / "docs/architecture.md").read_text()
    begin, end = "<!-- includes: made by `make docs` from CMakeLists.txt -->", "<!-- /includes -->"
    head, rest = text.split(begin)
    items = [f"`{c.folder}/`: " + (", ".join(f"`{i}`" for i in c.includes) or "nothing")
             for c in components()]
    return head + begin + "\n" + listed(items) + end + rest.split(end)[1]


def foreign_words():
    """docs/glossary.md: what CUDA and Triton call it, from the page of `explain`."""
    text = (ROOT / "docs/glossary.md").read_text()
    begin, end = "<!-- words: made by `make docs` from runtime/explain/page_terms.def -->", \
        "<!-- /words -->"
    head, rest = text.split(begin)
    items = [f"**{ours}**: " + "; ".join(f"{of}: {names}" for of, names in
                                         (("CUDA", cuda), ("Triton", triton)) if names)
             for ours, cuda, triton, _ in rows("runtime/explain/page_terms.def", "TERM")
             if cuda or triton]
    return head + begin + "\n" + listed(items) + end + rest.split(end)[1]


def errors():
    body = title("Errors", "frontend/messages/frontend_errors.def, ir/ir_errors.def")
    body += "`tessera explain E0412` also shows an example of the error.\n"
    found = rows("frontend/messages/frontend_errors.def", "ERROR") + rows("ir/ir_errors.def",
                                                                          "ERROR")
    for _, code, name, explanation in sorted(found, key=lambda row: int(row[1])):
        letter = "W" if int(code) >= FIRST_WARNING else "E"
        body += "\n" + filled(f"**{letter}{int(code):04}** {name}. {explanation}") + "\n"
    return body


def main():
    stale = []
    documents = (("../README", folders), ("architecture", includes),
                 ("glossary", foreign_words), ("ops", ops),
                 ("passes", passes), ("targets", targets), ("stdlib", stdlib),
                 ("schedule", schedule), ("errors", errors), ("performance", performance),
                 ("api", lambda: api(title, filled)))
    for name, make in documents:
        path, text = (ROOT / "docs" / f"{name}.md").resolve(), make()
        if not path.is_file() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in sys.argv:
                path.write_text(text)
    if "--check" in sys.argv and stale:
        print("not current, run `make docs`:", *stale)
        return 1
    print("current" if not stale else "written: " + " ".join(stale))
    return 0


if __name__ == "__main__":
    sys.exit(main())
