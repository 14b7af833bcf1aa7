# SPDX-License-Identifier: Apache-2.0
"""docs/api.md, from the declarations and comments of include/tessera.

Of C, each declaration is an item with the comment above it; those that follow without an empty line
are of the same item. Of C++, each class is one: its public members without their bodies."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "include/tessera"
MOST_HEADING = 90  # columns
SECTION = re.compile(r"^-{4} (.*?) -{4}\n?", re.S)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
PIECE = re.compile(r"/\*.*?\*/|^#(?:[^\n\\]|\\\n|\\)*|\n[ \t]*\n|[^\s]", re.M | re.S)
SKIPPED = re.compile(r'#(?:ifndef|ifdef|endif|include|if |else)|#define TESSERA_(?:API|LAUNCH_H|'
                     r'TESSERA_H)\b')


def plain(comment):
    """The text of a comment, without what marks it as one."""
    inner = comment[2:-2] if comment.startswith("/*") else comment
    lines = [re.sub(r"^ *(?:\* ?|// ?)?", "", line) if i or not comment.startswith("/*") else
             line.strip() for i, line in enumerate(inner.split("\n"))]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def prose(text, filled):
    """Paragraphs, filled; lines that are indented are code."""
    out, lines = [], []

    def flush():
        if lines:
            out.append(filled(" ".join(lines)))
            lines.clear()
    code = False
    for line in text.split("\n"):
        if line.startswith("    "):
            flush()
            if not code:
                out.append("")
            code = True
            out.append(line)
        elif not line:
            flush()
            if out and out[-1] != "":
                out.append("")
        else:
            if code and out[-1] != "":
                out.append("")
            code = False
            lines.append(re.sub(r"(<\w+/\w+\.\w+>)", r"`\1`", line.strip()))
    flush()
    return "\n".join(out).strip("\n")


def declaration(text, start):
    """Where the declaration that begins here ends: behind its semicolon, and a comment on the same
    line."""
    depth, at = 0, start
    while True:
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if text[at - 1] == ";" and depth == 0:
            trailing = re.compile(r"[ \t]*/\*.*?\*/", re.S).match(text, at)
            return trailing.end() if trailing else at


def items_of_c(path):
    """("section", title, text), ("text", text) and ("item", declarations, text)."""
    text = path.read_text().replace("#ifdef __cplusplus\nextern \"C\" {\n#endif\n", "") \
        .replace("#ifdef __cplusplus\n}\n#endif\n", "")
    at, comment, group = 0, None, None
    while True:
        found = PIECE.search(text, at)
        if not found:
            return
        piece, at = found[0], found.end()
        if piece.startswith("/*"):
            comment = plain(piece) if "SPDX" not in piece else None
            section = SECTION.match(comment or "")
            if section:
                yield "section", section[1], comment[section.end():]
                comment = None
            group = None
        elif piece.startswith("\n"):
            if comment:
                yield "text", "", comment
            comment = group = None
        elif piece.startswith("#") and SKIPPED.match(piece):
            continue
        else:
            end = at if piece.startswith("#") else declaration(text, found.start())
            code, at = text[found.start():end], end
            if code.startswith("TESSERA_API "):
                code = code[12:].replace("\n" + 12 * " ", "\n")
            if group is None:
                group = [code]
                yield "item", group, comment or ""
            else:
                group.append(code)
            comment = None


def name_of(code):
    if code.startswith("#define"):
        return re.match(r"#define (\w+)", code)[1]
    function = re.search(r"\b(tessera_\w+)\(", code)
    if function and not code.startswith("typedef"):
        return function[1]
    named = re.search(r"}\s*(\w+);", code) or re.search(r"\b(Tessera\w+)\s*(?:\(|;)", code) or \
        re.search(r"\b(TESSERA_\w+)", code) or re.search(r"\b(\w+);", code)
    return named[1]


def heading(names):
    """As many names as a line holds."""
    line = ""
    for i, name in enumerate(names):
        if len(line) + len(name) > MOST_HEADING:
            return line + ", …"
        line += f", `{name}`" if i else f"#### `{name}`"
    return line


def document_of_c(path, filled):
    out, shown = [], list(items_of_c(path))
    for kind, first, text in shown:
        if kind == "section":
            out.append(f"### {first[0].upper() + first[1:]}\n")
        if kind == "item":
            names = dict.fromkeys(name_of(code) for code in first)
            out.append(heading(names) + "\n")
            out.append("```c\n" + "\n".join(first) + "\n```\n")
        if text:
            out.append(prose(text, filled) + "\n")
    return "\n".join(out)


# ---- C++ ----

def matching(text, at):
    """Behind the brace that closes the one that is here."""
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


def without_bodies(body):
    """Members of a class: functions end with their parameters."""
    out, at, begin = "", 0, 0  # begin: in `out`, of the statement at hand
    while at < len(body):
        comment = COMMENT.match(body, at)
        if comment:
            out, at = out + comment[0], comment.end()
            begin = len(out)
            continue
        statement, char = out[begin:], body[at]
        inside = statement.count("(") > statement.count(")")
        if char == "{" and (inside or statement.rstrip().endswith("=")):  # a value
            end = matching(body, at)
            out, at = out + body[at:end], end
        elif char == "{" and "(" in statement:
            head = re.split(r"(?<=\))\s*:\s", statement.rstrip())[0]  # without initializers
            out, at = out[:begin] + head + ";", matching(body, at)
            begin = len(out)
        else:
            out, at = out + char, at + 1
            if char in ";{}":
                begin = len(out)
    return re.sub(r"\n\s*\n+", "\n\n", out)


def public_part(kind, body):
    """What stands behind `public:`; all of a structure."""
    parts = re.split(r"^(public|private|protected):\n", body, flags=re.M)
    kept = parts[0] if kind == "struct" else ""
    for access, part in zip(parts[1::2], parts[2::2]):
        kept += part if access == "public" else ""
    return re.sub(r"^    friend class [^\n]*\n", "", kept, flags=re.M)


def document_of_cpp(path, filled):
    text = path.read_text()
    head = text.split("#ifndef")[0].split("\n", 1)[1]
    out = [prose(plain(head), filled) + "\n"]
    text = re.sub(r"^namespace detail \{.*?^\} // namespace detail\n", "", text, flags=re.M | re.S)
    for found in re.finditer(r"(/\*(?:(?!\*/).)*\*/\n)?((?:template <class T> )?(class|struct) "
                             r"(?:\[\[nodiscard\]\] )?(\w+)[^;{]*)\{", text, re.S):
        if found.start() and text[found.start() - 1] != "\n" or not found[1]:
            continue
        end = matching(text, found.end() - 1)
        body = without_bodies(public_part(found[3], text[found.end(): end - 1])).strip("\n")
        out.append(f"#### `tessera::{found[4]}`\n")
        out.append(prose(plain(found[1].strip()), filled) + "\n")
        if body.strip():
            out.append(f"```cpp\n{found[2].strip()} {{\n{body}\n}};\n```\n")
    return "\n".join(out)


def api(title, filled):
    body = title("API reference", "include/tessera/*.h and *.hpp")
    body += filled("The functions and types of C and of C++, as the headers describe them. "
                   "[Tools](tools.md) and the [examples](../examples/host) show their use, "
                   "[python.md](python.md) the same from Python.") + "\n\n"
    for name, what in (("launch.h", "C: launching"), ("tessera.h", "C: compiling")):
        body += f"## {what}, `<tessera/{name}>`\n\n" + document_of_c(FOLDER / name, filled) + "\n"
    for name, what in (("launch.hpp", "C++: launching"), ("tessera.hpp", "C++: compiling")):
        body += f"## {what}, `<tessera/{name}>`\n\n" + document_of_cpp(FOLDER / name, filled) + "\n"
    return re.sub(r"\n{3,}", "\n\n", body).rstrip("\n") + "\n"
