# SPDX-License-Identifier: Apache-2.0
"""Sessions, texts that are opened and changed, and diagnostics."""

import pathlib
import tempfile

SOFTMAX = """kernel softmax(x: T[M, N]) -> T[M, N] where T: float {
    let e = exp(x - max(x, axis=1))
    return e / sum(e, axis=1)
}
"""


def codes(diagnostics):
    return [d.get("code") for d in diagnostics]


def test_session(start):
    client = start()
    capabilities = client.initialized["capabilities"]
    assert capabilities["positionEncoding"] == "utf-16", capabilities
    assert client.open(SOFTMAX) == []
    assert client.end() == 0


def test_exit_without_shutdown(start):
    client = start()
    client.tell("exit", None)
    assert client.close() == 1


def test_end_of_input(start):
    assert start().close() == 1


def test_error_with_place_and_help(start):
    client = start()
    found = client.open(SOFTMAX.replace("return e /", "return f /"))
    assert codes(found) == ["E0301"], found
    assert found[0]["severity"] == 1 and found[0]["source"] == "tessera"
    assert found[0]["range"] == {"start": {"line": 2, "character": 11},
                                 "end": {"line": 2, "character": 12}}, found
    assert "nothing is called `f` here" in found[0]["message"]
    client.end()


def test_labels(start):
    client = start()
    found = client.open("kernel add(x: f32[M], y: f32[N]) -> f32[M] = x + y\n")
    related = found[0]["relatedInformation"]
    assert [r["message"] for r in related] == ["f32[M]", "f32[N]"], found
    assert related[1]["location"]["range"]["start"] == {"line": 0, "character": 49}, related
    client.end()


def test_warning(start):
    client = start()
    found = client.open(SOFTMAX.replace("    return", "    let unused = x\n    return"))
    assert [d["severity"] for d in found] == [2] and found[0]["code"].startswith("W"), found
    client.end()


def test_several_errors_of_syntax(start):
    client = start()
    found = client.open("kernel a(x f32[N]) -> f32[N] {\n    let y = x +\n    return y\n}\n"
                        "kernel b(x: f32[N]) -> f32[N] {\n    let q = = 3\n    return x )\n}\n"
                        "kernel c(x: f32[M], y: f32[N]) -> f32[M] = x + y\n")
    places = sorted((d["range"]["start"]["line"], d["code"]) for d in found)
    # The error of types in c is found, although a and b cannot be read.
    assert [line for line, _ in places] == [0, 2, 5, 6, 8], found
    assert places[-1][1] == "E0402", found
    client.end()


def test_block_without_end(start):
    client = start()
    found = client.open("fn g(x) { let y = 1\nfn h(x) = x + 1\n"
                        "kernel d(x: f32[N]) -> f32[N] = h(x) + sim(x)\n")
    assert sorted(d["range"]["start"]["line"] for d in found) == [1, 2], found
    client.end()


def test_generics_and_constants_are_tried(start):
    client = start()
    # Neither is compiled with what is tried first: f32 and 4.
    assert client.open("kernel a(x: f32[N], B: const i64) -> f32[N, 4 // B] where B <= 1 {\n"
                       "    return x[:, None] * ones(f32[N, 4 // B])\n}\n") == []
    assert client.open("kernel b(x: T[N]) -> f32[N] where T: float {\n"
                       "    let y: f16 = x\n    return y\n}\n") == []
    client.end()


def test_changes(start):
    client = start()
    assert client.open(SOFTMAX) == []
    client.change((1, 8, 1, 9, "g"))  # e is no name any more
    assert codes(client.diagnostics()) == ["E0301"]
    client.change((2, 11, 2, 12, "g"), (2, 19, 2, 20, "g"))
    assert client.diagnostics() == []
    client.change("kernel f(x: f32[N]) -> f32[N] = y\n")
    assert codes(client.diagnostics()) == ["E0301"]
    client.end()


def test_columns(start):
    # Columns in UTF-16 units; the emoji is two of them, four bytes, one character.
    text = "kernel f(x: f32[N]) -> f32[N] {\n" \
           "    print(\"\U0001F600é\", x); let a = b\n    return x\n}\n"
    client = start()
    assert client.open(text)[0]["range"]["start"] == {"line": 1, "character": 29}
    client.change((1, 29, 1, 30, "x"))
    assert codes(client.diagnostics()) == ["W2001"], client.told
    client.end()
    client = start(capabilities={"general": {"positionEncodings": ["utf-8", "utf-16"]}})
    assert client.initialized["capabilities"]["positionEncoding"] == "utf-8"
    assert client.open(text)[0]["range"]["start"] == {"line": 1, "character": 32}
    client.end()


def test_line_breaks_of_windows(start):
    client = start()
    found = client.open(SOFTMAX.replace("return e", "return f").replace("\n", "\r\n"))
    assert found[0]["range"]["start"] == {"line": 2, "character": 11}, found
    client.change((2, 11, 2, 99, "e / sum(e, axis=1)"))
    assert client.diagnostics() == []
    client.end()


def test_close_forgets(start):
    client = start()
    client.open("kernel f(x: f32[N]) -> f32[N] = y\n")
    client.tell("textDocument/didClose", client.document())
    client.told.clear()
    client.ask("shutdown", None)
    assert client.told.get(client.uri, {}).get("diagnostics", []) == []
    client.tell("exit", None)
    assert client.close() == 0


def test_imports(start):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "lib.tile").write_text("fn twice(x) = x + x\n")
        client = start()
        main = "import \"lib.tile\"\nkernel f(x: f32[N]) -> f32[N] = twice(x)\n"
        assert client.open(main, (path / "main.tile").as_uri()) == []
        # An open text counts instead of its file, and who imports it is told again.
        main_uri = client.uri
        client.open("fn thrice(x) = 3 * x\n", (path / "lib.tile").as_uri())
        client.ask("shutdown", None)
        assert codes(client.told[main_uri]["diagnostics"]) == ["E0302"], client.told
        client.tell("exit", None)
        client.close()


def test_error_in_imported_file(start):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "lib.tile").write_text("\nfn twice(x) = x +\n")
        client = start()
        found = client.open("\nimport \"lib.tile\"\nkernel f(x: f32[N]) -> f32[N] = x\n",
                            (path / "main.tile").as_uri())
        assert found[0]["range"]["start"]["line"] == 1, found
        assert found[0]["message"].startswith("lib.tile:"), found
        client.end()
