# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: what is taken away is tried, many at a time, and kept away if
the program still fails in the same way. It works on text: what is no program fails otherwise."""

import re

OPEN, CLOSE = "([{", ")]}"
TOKEN = re.compile(r"\d+\.\d+|\w+(?:\.\w+)*|//|<<|>>|<=|>=|==|!=|\.\.|->|[^\s]")
OPERATORS = {"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==",
             "!=", "@", "and", "or"}


def tokens(text):
    return [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(text)]


def groups(text):
    """(start, end, name's start) of each pair of parentheses."""
    stack, found, previous = [], [], None
    for token, start, end in tokens(text):
        if token in OPEN:
            name = previous[1] if previous and previous[2] == start and \
                re.match(r"\w", previous[0]) else start
            stack.append((start, name))
        elif token in CLOSE and stack:
            begin, name = stack.pop()
            if text[begin] == "(":
                found.append((begin, end, name))
        previous = (token, start, end)
    return sorted(found, key=lambda g: g[0] - g[1])


def parts(text, separators):
    """What stands between separators outside of all parentheses."""
    depth, begin, found = 0, 0, []
    for token, start, end in tokens(text):
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0 and token in separators:
            found.append(text[begin:start])
            begin = end
    return [p.strip() for p in found + [text[begin:]] if p.strip()]


def expressions(text):
    """Each group replaced by one of its parts, or by a number."""
    for start, end, name in groups(text):
        inside = text[start + 1:end - 1]
        pieces = parts(inside, {","} | OPERATORS | {"if", "else"})
        for piece in pieces + ["1", "0"]:
            if "in " not in piece and piece != inside or name != start:
                yield text[:name] + piece + text[end:]
        arguments = parts(inside, {","})
        if len(arguments) > 1:
            for i in range(len(arguments)):
                rest = arguments[:i] + arguments[i + 1:]
                yield text[:start + 1] + ", ".join(rest) + text[end - 1:]


def blocks(lines):
    """(first, last) of each line or block in braces that may go."""
    stack, found = [], []
    for i, line in enumerate(lines):
        if line.startswith("#:"):
            continue
        opened, closed = line.count("{"), line.count("}")
        if line.strip().startswith("} else {"):
            continue
        if opened > closed:
            stack.append(i)
        elif closed > opened and stack:
            first = stack.pop()
            if not lines[first].startswith("kernel"):
                found.append((first, i))
        else:
            found.append((i, i))
    return sorted(found, key=lambda b: b[0] - b[1])


def without_lines(text):
    lines = text.split("\n")
    for first, last in blocks(lines):
        yield "\n".join(lines[:first] + lines[last + 1:])
        if last > first:
            yield "\n".join(lines[:first] + lines[first + 1:last] + lines[last + 1:])


def without_results(text):
    """A result, with each statement that gives it."""
    for name in re.findall(r"(y\d+): ", text):
        less = re.sub(rf"(, )?{name}: [\w ]+\[[^]]*\]", "", text, count=1).replace("(, ", "(")
        lines = [s for s in less.split("\n") if not re.match(rf"\s*{name}\b", s)]
        yield "\n".join(lines)


def without_params(text):
    for name in re.findall(r"\b([xn]\d+): ", text):
        if len(re.findall(rf"\b{name}\b", re.sub(r"(?m)^#:.*$", "", text))) == 1:
            yield re.sub(rf"{name}: [\w ]+(\[[^]]*\])?(, )?", "", text, count=1).replace(", )", ")")


def heads(text):
    """Fewer ways, plainer data, smaller sizes."""
    runs = re.findall(r"(?m)^#: run .*\n", text)
    if len(runs) > 1:
        for run in runs:
            yield "".join(s for s in text.splitlines(True)
                          if not s.startswith("#: run") or s == run)
    for line in re.findall(r"(?m)^#: (?:data|any|seed).*\n", text):
        yield text.replace(line, "", 1)
    for name, value in re.findall(r"(?m)^#: size (\w+)=(\d+)", text):
        value = int(value)
        for smaller in dict.fromkeys([0, 1, 2, 3, 4, 8, 16, 32, value // 2, value - 1]):
            if 0 <= smaller < value:
                yield text.replace(f"#: size {name}={value}\n", f"#: size {name}={smaller}\n")
    used = re.sub(r"(?m)^#:.*$", "", text)
    for name, value in re.findall(r"(?m)^#: size (\w+)=(\d+)\n", text):
        if not re.search(rf"\b{name}\b", used):
            yield text.replace(f"#: size {name}={value}\n", "")
        for other, same in re.findall(r"(?m)^#: size (\w+)=(\d+)\n", text):
            if other != name and re.search(rf"\b{name}\b", used):
                yield re.sub(rf"\b{name}\b", other, text.replace(f"#: size {name}={value}\n", ""))


def types(text):
    for dtype in ["bf16", "f16", "f64", "i8", "i16", "u8", "u16", "u32", "u64", "i64"]:
        if re.search(rf"\b{dtype}\b", text):
            yield re.sub(rf"\b{dtype}\b", "f32" if dtype[0] in "bf" else "i32", text)


def candidates(text):
    yield from heads(text)
    at = text.rindex("#: ")
    at = text.index("\n", at) + 1
    for make in (without_results, without_lines, expressions, without_params, types):
        for other in make(text[at:]):
            if other != text[at:]:
                yield text[:at] + other


def shrink(text, fails, rounds=60):
    """fails(texts) gives for each whether it still fails in the same way."""
    for _ in range(rounds):
        found = None
        tried = list(dict.fromkeys(candidates(text)))
        for at in range(0, len(tried), 48):
            some = tried[at:at + 48]
            good = [t for t, bad in zip(some, fails(some)) if bad]
            if good:
                found = min(good, key=len)
                break
        if found is None:
            return text
        text = found
    return text
