# SPDX-License-Identifier: Apache-2.0
"""Each feature of the server: hover, hints, completion, definitions, rename, outline, signatures,
formatting, code actions; in texts with errors, too."""

import json
import os
import pathlib
import tempfile
import urllib.parse

TEXT = """# Doubles.
fn twice(x, factor: const i64 = 2) = x * f32(factor)
# Rows that sum to 1.
kernel softmax(x: T[M, N], a: f32) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    var s = twice(sum(e, axis=1), factor=3)
    for i in 0..3 { s += gelu(a) }
    return e / s
}
schedule softmax on sm_90a when N >= 4 { tile M 1; reduction resident }
"""
BROKEN = "kernel broken(x f32[N]) -> f32[N] {\n    let inner = x\n}\n"
ALL = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}


def place(text, what, nth=0, offset=0):
    """Line and column of the nth occurrence of `what`."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(what, at + 1)
    at += offset
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1


def begin(start, text=TEXT, **more):
    client = start(**more)
    client.text = text
    client.open(text)
    return client


def hover(client, what, nth=0, offset=0):
    answer = client.ask("textDocument/hover", client.at(*place(client.text, what, nth, offset)))
    return answer["contents"]["value"] if answer else None


def labels(client, what, nth=0, offset=0):
    where = client.at(*place(client.text, what, nth, offset))
    return [i["label"] for i in client.ask("textDocument/completion", where)["items"]]


def edited(text, edits):
    """The text after edits of ranges in ASCII."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines) + 1)]

    def offset(position):
        return min(starts[min(position["line"], len(lines))] + position["character"], len(text))
    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        first, last = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:first] + edit["newText"] + text[last:]
    return text


# ---- hover ----

def test_hover_of_names(start):
    client = begin(start)
    head = "kernel softmax(x: T[M, N], a: f32) -> T[M, N] where T: float"
    assert head in hover(client, "softmax")
    assert "Rows that sum to 1." in hover(client, "softmax")
    assert "let e: f32[M, N]" in hover(client, "e = exp")
    assert "axes `M` (0), `N` (1)" in hover(client, "e = exp")
    assert "var s: f32[M, 1]" in hover(client, "s += ")
    assert "x: T[M, N]" in hover(client, "x - max")
    assert "type T: float" in hover(client, "T[M, N]")
    assert "axis 1 of `x`" in hover(client, "N]")
    assert "i: i64" in hover(client, "i in 0")
    client.end()


def test_hover_of_functions(start):
    client = begin(start)
    assert "fn twice(x, factor: const i64 = 2)" in hover(client, "twice(sum")
    assert "Doubles." in hover(client, "twice(sum")
    exp = hover(client, "exp(x")
    assert "standard library, `math`" in exp and "here: `f32[M, N]`" in exp, exp
    assert "here: `f32[M, 1]`" in hover(client, "max(x, axis")
    assert "factor: const i64 = 2" in hover(client, "factor=3")
    client.end()


def test_hover_of_words(start):
    client = begin(start)
    assert "A loop" in hover(client, "for i")
    assert "decided by the pass `tile`" in hover(client, "tile M")
    assert "element by element" in hover(client, "- max")
    assert "here: `f32[M, N]`" in hover(client, "- max")
    assert "floating-point number, 32 bits" in hover(client, "f32)")
    assert hover(client, "# Doubles", offset=4) is None
    client.end()


# ---- hints ----

def test_hints_of_types(start):
    client = begin(start)
    hints = client.ask("textDocument/inlayHint", client.document(range=ALL))
    assert [(h["position"]["line"], h["label"]) for h in hints] == \
        [(4, ": f32[M, N]"), (5, ": f32[M, 1]")], hints
    few = client.ask("textDocument/inlayHint", client.document(range={
        "start": {"line": 5, "character": 0}, "end": {"line": 5, "character": 40}}))
    assert len(few) == 1, few
    client.end()


def wait_for_refresh(client):
    while not any(m["method"] == "workspace/inlayHint/refresh" for m in client.notifications):
        assert client.receive() is not None


def schedules(client):
    hints = client.ask("textDocument/inlayHint", client.document(range=ALL))
    return [h for h in hints if "kind" not in h]


def test_derived_schedule_of_a_comment(start):
    text = TEXT.replace("# Rows", "# tessera: --target sm_90a --size M=4096,N=1k\n# Rows")
    client = begin(start, text)
    assert schedules(client) == []  # it takes longer than an answer may
    wait_for_refresh(client)
    found = schedules(client)
    assert len(found) == 1 and found[0]["label"].startswith("sm_90a: tile M 1"), found
    assert found[0]["position"]["line"] == 4, found
    assert "given in the source" in found[0]["tooltip"]["value"]
    client.end()


def test_derived_schedule_of_settings(start):
    client = begin(start, capabilities={"workspace": {}},
                   options={"target": "gfx942", "sizes": "M=64,N=128", "sets": "T=bf16"})
    found = schedules(client)  # at once: the client cannot be asked to ask again
    assert len(found) == 1 and found[0]["label"].startswith("gfx942: "), found
    client.tell("workspace/didChangeConfiguration", {"settings": {"tessera": {"target": "sm_80"}}})
    assert schedules(client)[0]["label"].startswith("sm_80: ")
    client.tell("workspace/didChangeConfiguration", {"settings": {"tessera": {"sizes": None}}})
    assert schedules(client) == []
    client.end()


def test_derived_schedule_of_options(start):
    client = begin(start, capabilities={"workspace": {}},
                   arguments=("--target", "sm_90a", "--size", "M=64,N=128"))
    assert schedules(client)[0]["label"].startswith("sm_90a: ")
    client.end()


# ---- completion ----

def test_completion_in_expressions(start):
    client = begin(start)
    found = labels(client, "exp(x", offset=1)
    for name in ("x", "a", "M", "twice", "exp", "softmax_reference", "sum", "f32", "fast.exp"):
        assert name in found, (name, found)
    assert "e" not in found and "i" not in found and "kernel" not in found
    assert "detail.wide" not in found
    assert {"s", "e", "i"} <= set(labels(client, "gelu(a"))
    assert {"let", "return", "e"} <= set(labels(client, "return e"))
    client.end()


def test_completion_of_arguments_and_fields(start):
    client = begin(start)
    assert "factor=" in labels(client, "factor=3")
    client.open("kernel f(x: f32[M, N]) -> f32[N, M] {\n    return x.\n}\n")
    client.text = "kernel f(x: f32[M, N]) -> f32[N, M] {\n    return x.\n}\n"
    assert labels(client, "x.\n", offset=2) == ["T"]
    client.text = "kernel f(x: i32[N]) -> y: i32[N] {\n    atomic.\n}\n"
    client.open(client.text)
    assert {"add", "cas"} <= set(labels(client, "atomic.", offset=7))
    client.text = client.text.replace("atomic", "y = fast")
    client.open(client.text)
    assert "exp" in labels(client, "fast.", offset=5)
    client.end()


def test_completion_in_schedules(start):
    client = begin(start)
    keys = labels(client, "reduction resident")
    assert "tile" in keys and "warps" in keys and "let" not in keys
    assert labels(client, "M 1;") == ["M", "N", "i"]
    assert "resident" in labels(client, "resident")
    assert "sm_90a" in labels(client, "sm_90a")
    assert labels(client, "softmax on") == ["softmax"]
    client.end()


def test_completion_of_declarations(start):
    client = begin(start)
    assert {"kernel", "fn", "schedule", "import"} <= set(labels(client, "kernel softmax"))
    assert "let" not in labels(client, "kernel softmax")
    types = labels(client, "T[M, N], a")
    assert "bf16" in types and "M" in types and "exp" not in types
    client.text = "import \n"
    client.open(client.text)
    assert "norms" in labels(client, "import ", offset=7)
    assert labels(begin(start), "# Doubles", offset=5) == []
    client.end()


# ---- definitions, references, rename ----

def test_definition(start):
    client = begin(start)
    found = client.ask("textDocument/definition", client.at(*place(TEXT, "e / s")))
    assert found["range"]["start"] == {"line": 4, "character": 8}, found
    found = client.ask("textDocument/definition", client.at(*place(TEXT, "factor=3")))
    assert found["range"]["start"] == {"line": 1, "character": 12}, found
    found = client.ask("textDocument/definition", client.at(*place(TEXT, "M 1;")))
    assert found["range"]["start"] == {"line": 3, "character": 20}, found
    assert client.ask("textDocument/definition", client.at(*place(TEXT, "let e"))) is None
    client.end()


def test_definition_in_the_library(start):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, XDG_CACHE_HOME=folder)
        client = begin(start, environment=environment)
        found = client.ask("textDocument/definition", client.at(*place(TEXT, "gelu(a")))
        path = pathlib.Path(urllib.parse.unquote(found["uri"].removeprefix("file://")))
        line = path.read_text().split("\n")[found["range"]["start"]["line"]]
        assert line.startswith("fn gelu("), line
        # The library's text has no errors of its own, and names in it are known.
        text = path.read_text()
        assert client.open(text, found["uri"]) == []
        client.text = text
        assert "fn relu6(" in hover(client, "relu6(x + 3)")
        assert "ir.abs" in hover(client, "abs", text.index("ir.abs") and
                                 text[:text.index("ir.abs")].count("abs"))
        where = client.at(*place(text, "relu6(x + 3)"))
        inner = client.ask("textDocument/definition", where)
        assert inner["uri"] == found["uri"], inner
        assert client.refused("textDocument/rename", dict(where, newName="other")) == -32803
        client.end()


def test_definition_without_a_folder_to_write(start):
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    client = begin(start, environment=environment)
    assert client.ask("textDocument/definition", client.at(*place(TEXT, "gelu(a"))) is None
    client.end()


def test_definition_in_an_import(start):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "lib.tile").write_text("\nfn half(x) = x / 2\n")
        text = "import \"lib.tile\"\nkernel f(x: f32[N]) -> f32[N] = half(x)\n"
        client = start()
        client.open(text, (path / "main.tile").as_uri())
        found = client.ask("textDocument/definition", client.at(*place(text, "half")))
        assert found == {"uri": (path / "lib.tile").as_uri(), "range": {
            "start": {"line": 1, "character": 3}, "end": {"line": 1, "character": 7}}}, found
        found = client.ask("textDocument/definition", client.at(0, 10))
        assert found["uri"] == (path / "lib.tile").as_uri()
        assert client.refused("textDocument/rename",
                              client.at(*place(text, "half"), newName="third")) == -32803
        # From the file that defines it the name changes in all open texts.
        main = client.uri
        client.open("\nfn half(x) = x / 2\n", (path / "lib.tile").as_uri())
        found = client.ask("textDocument/rename", client.at(1, 4, newName="third"))
        assert {uri: len(edits) for uri, edits in found["changes"].items()} == \
            {client.uri: 1, main: 1}, found
        client.end()


def test_references_and_highlights(start):
    client = begin(start)
    found = client.ask("textDocument/references", client.at(*place(TEXT, "e = exp"),
                                                            context={"includeDeclaration": True}))
    assert [f["range"]["start"]["line"] for f in found] == [4, 5, 7], found
    found = client.ask("textDocument/documentHighlight", client.at(*place(TEXT, "M, N]")))
    assert [f["range"]["start"]["line"] for f in found] == [3, 3, 9], found
    client.end()


def rename(client, what, name, nth=0):
    where = client.at(*place(client.text, what, nth), newName=name)
    changes = client.ask("textDocument/rename", where)["changes"]
    return edited(client.text, changes[client.uri])


def test_rename(start):
    client = begin(start)
    size = rename(client, "M, N]", "Rows")
    assert "x: T[Rows, N]" in size and "tile Rows 1" in size and "-> T[Rows, N]" in size, size
    parameter = rename(client, "factor=3", "times")
    assert "times: const" in parameter and "f32(times)" in parameter and "times=3" in parameter
    function = rename(client, "twice(x", "thrice")
    assert "fn thrice(" in function and "thrice(sum" in function
    kernel = rename(client, "softmax", "rows")
    assert "kernel rows(" in kernel and "schedule rows on" in kernel
    for text in (size, parameter, function, kernel):
        assert client.open(text) == client.open(TEXT), text
    client.end()


def test_rename_is_refused(start):
    client = begin(start)
    for what, name, code in (("e = exp", "x", -32803), ("e = exp", "kernel", -32803),
                             ("e = exp", "f32", -32803), ("e = exp", "1x", -32602),
                             ("e = exp", "", -32602), ("e = exp", "a b", -32602),
                             ("e = exp", "\u00e9", -32602), ("gelu", "g", -32803),
                             ("max(x, axis", "m", -32803), ("let e", "m", -32803),
                             ("twice", "softmax", -32803)):
        where = client.at(*place(TEXT, what), newName=name)
        assert client.refused("textDocument/rename", where) == code, (what, name)
    assert client.refused("textDocument/rename", client.at(4, 8)) == -32602
    assert client.refused("textDocument/prepareRename", client.at(*place(TEXT, "gelu"))) == -32803
    found = client.ask("textDocument/prepareRename", client.at(*place(TEXT, "e = exp")))
    assert found["placeholder"] == "e", found
    client.end()


# ---- outline, signatures ----

def test_symbols(start):
    client = begin(start)
    found = client.ask("textDocument/documentSymbol", client.document())
    assert sorted((f["name"], f["detail"]) for f in found) == \
        [("softmax", "kernel"), ("softmax", "schedule"), ("twice", "fn")], found
    kernel = next(f for f in found if f["detail"] == "kernel")
    assert kernel["range"]["start"]["line"] == 3 and kernel["range"]["end"]["line"] == 8
    assert [c["name"] for c in kernel["children"]] == ["e", "s"]
    client.end()


def signature(client, what, nth=0, offset=0):
    found = client.ask("textDocument/signatureHelp",
                       client.at(*place(client.text, what, nth, offset)))
    if not found:
        return None
    active = found["signatures"][found["activeSignature"]]
    index = active["activeParameter"]
    parameters = [p["label"] for p in active["parameters"]]
    return active["label"], parameters[index] if index < len(parameters) else None


def test_signature_help(start):
    client = begin(start)
    assert signature(client, "sum(e") == ("twice(x, factor: const i64 = 2)", "x")
    assert signature(client, "factor=3", offset=7)[1] == "factor: const i64 = 2"
    assert signature(client, "x, axis=1")[0] == "max(x, axis)"
    assert signature(client, "axis=1", offset=5) == ("max(x, axis)", "axis")
    assert signature(client, "e / s") is None
    client.text = "kernel f(x: f32[N]) -> f32[N] {\n    return moments(x[0: 3], \n}\n"
    client.open(client.text)  # a call that is being written
    assert signature(client, ", \n", offset=2)[1] == "axis: const i64 = -1"
    client.end()


# ---- formatting, code actions ----

def test_formatting(start):
    text = TEXT.replace("let e = exp", "let   e=exp").replace("    return", "  return")
    client = begin(start, text)
    edits = client.ask("textDocument/formatting", client.document(options={"tabSize": 4}))
    assert edited(text, edits) == TEXT, edits
    assert len(edits) == 1 and edits[0]["range"]["start"]["line"] == 4, edits
    client.open(TEXT)
    assert client.ask("textDocument/formatting", client.document(options={})) == []
    client.open("kernel f(")
    assert client.ask("textDocument/formatting", client.document(options={})) == []
    client.end()


def actions(client, diagnostic, **context):
    return client.ask("textDocument/codeAction", client.document(
        range=diagnostic["range"], context={"diagnostics": [diagnostic], **context}))


def test_code_actions(start):
    client = start()
    for wrong, right in (
            ("kernel f(x: f32[N]) -> f32[N] = expp(x)", "= exp(x)"),
            ("kernel f(x: f32[N]) -> f32[N] = where(x < 1 < 2, x, x)", "(x < 1 and 1 < 2, x, x)"),
            ("kernel f(x: f32[N]) -> f32[N] = where(x < 1 && x > 2, x, x)", "x < 1 and x > 2"),
            ("kernel f(x: T[N]) -> T[N] = x", "kernel f(x: T[N]) -> T[N] where T: float = x"),
            ("kernel f(x: T[N]) -> T[N] where N >= 4 = x", "where N >= 4, T: float = x"),
            ("// Doubles.\nkernel f(x: f32[N]) -> f32[N] = 2 * x", "# Doubles.\nkernel"),
            ("kernel f(x: f32[N], a: f32) -> f32[N] {\n    var y = x\n"
             "    if a = 1 { y = -x }\n    return y\n}", "if a == 1 {"),
            ("kernel soft(x: f32[N]) -> f32[N] = x\nschedule sfot { warps 4 }", "schedule soft")):
        text = wrong + "\n"
        found = client.open(text)
        offered = actions(client, found[0])
        assert len(offered) == 1 and offered[0]["kind"] == "quickfix", offered
        assert offered[0]["diagnostics"][0]["code"] == found[0]["code"]
        mended = edited(text, offered[0]["edit"]["changes"][client.uri])
        assert right in mended, mended
        again = client.open(mended)
        assert found[0] not in again, again
    assert actions(client, found[0], only=["source.organizeImports"]) == []
    nowhere = dict(found[0], range={"start": {"line": 0, "character": 0},
                                    "end": {"line": 0, "character": 1}})
    assert actions(client, nowhere) == []
    client.end()


# ---- texts with errors ----

def test_features_of_a_broken_text(start):
    text = TEXT.replace("var s = twice(sum(e, axis=1), factor=3)", "var s = twice(sum(e, axis=1)") \
        .replace("# Doubles.", BROKEN + "# Doubles.")
    client = begin(start, text)
    assert len(client.told[client.uri]["diagnostics"]) == 2, client.told
    assert "let e: f32[M, N]" in hover(client, "e = exp")
    assert "Doubles." in hover(client, "twice(x")
    found = client.ask("textDocument/definition", client.at(*place(text, "s\n}")))
    assert found["range"]["start"]["line"] == 8, found
    names = [f["name"] for f in client.ask("textDocument/documentSymbol", client.document())]
    assert {"broken", "softmax", "twice"} <= set(names), names
    assert "s" in labels(client, "return e", offset=7)
    client.end()


def test_speed(start):
    """1,000 lines are answered after each change: what is counted is work, not time."""
    kernels = "\n".join(TEXT.replace("twice", f"twice{i}").replace("softmax", f"softmax{i}")
                        for i in range(100))
    assert kernels.count("\n") >= 1000
    client = begin(start, kernels)
    assert client.told[client.uri]["diagnostics"] == []
    found = client.ask("tessera/work", client.document())
    # Some 16 tokens and expressions a line; of 2,000 lines twice as many, not four times.
    assert found["work"] < 30_000, found
    client.open(kernels + kernels.replace("twice", "again").replace("softmax", "rows"))
    twice = client.ask("tessera/work", client.document())
    assert twice["work"] < 2.2 * found["work"], (found, twice)
    client.end()


def test_every_word_has_a_text(start):
    root = pathlib.Path(__file__).resolve().parents[2]
    words = (root / "lsp/words.def").read_text()
    for table, macro in (("frontend/lower/builtins.def", "BUILTIN("),
                         ("frontend/syntax/tokens.def", "KEYWORD(")):
        for line in (root / table).read_text().splitlines():
            if line.startswith(macro):
                name = line.split('"')[1]
                assert f'WORD({json.dumps(name)},' in words, name
    client = start()
    client.end()
