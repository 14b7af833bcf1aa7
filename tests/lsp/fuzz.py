#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sessions of the language server: programs of examples/ that are cut, joined and mangled,
changed step by step, and requests at random places, some of them malformed. Each request must be
answered once, the server must end in order, and its text must be that of the client at the end.
Prints `N passed, N failed`."""

import json
import pathlib
import random
import sys
import traceback

import client as protocol

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import suite  # noqa: E402

ROOT = HERE.parents[1]
PLACES = ["hover", "completion", "signatureHelp", "definition", "references", "documentHighlight",
          "prepareRename", "rename"]
WORDS = ["kernel ", "fn ", "let ", "var ", "{", "}", "(", ")", "[", "]", "=", ":", ",", "\n",
         " by ", "schedule f on sm_90a {", "tile M 64\n", "where T: float", "x", "sum(", "axis=",
         "vjp(", "import \"a.tile\"\n", "parallel i in N {", "for j in 0..3 {", "1e400", "0x",
         "\"", "#", "...", ".", "return ", "if ", " else ", "assume ", "-> ", "f32[",
         "\U0001F600", "\0", "\u00e9", "\r", "atomic.add(", "derivative of ", "when N >= 4 {",
         "tune f {", "in 1..2"]


class Text:
    """The client's text, with columns in UTF-16 units."""

    def __init__(self, text):
        self.text = text

    def position(self, at):
        line = self.text.count("\n", 0, at)
        start = self.text.rfind("\n", 0, at) + 1
        return {"line": line,
                "character": len(self.text[start:at].encode("utf-16-le", "surrogatepass")) // 2}

    def change(self, rng):
        """A random edit; returns it as the protocol has it."""
        first = rng.randrange(len(self.text) + 1)
        last = min(len(self.text), first + rng.choice([0, 0, 1, 2, 5, 30, 300]))
        # A carriage return before a line break belongs to it: no position lies between them.
        for _ in range(2):
            first -= self.text[first - 1:first + 1] == "\r\n"
            last += self.text[last - 1:last + 1] == "\r\n"
        kind = rng.random()
        piece = "" if kind < 0.3 else "".join(rng.choices(WORDS, k=rng.randrange(1, 4)))
        if kind > 0.9:
            start = rng.randrange(len(self.text) + 1)
            piece = self.text[start:start + rng.randrange(200)]
        edit = {"range": {"start": self.position(first), "end": self.position(last)},
                "text": piece}
        self.text = self.text[:first] + piece + self.text[last:]
        return edit


def nonsense(rng):
    """Bytes of a message that is none, or none that means anything."""
    body = json.dumps({"jsonrpc": "2.0", "method": rng.choice(["textDocument/hover", "x"]),
                       "params": rng.choice([None, 1, [], {}, {"textDocument": {"uri": 5}},
                                             {"position": {"line": -1}}])}).encode()
    kind = rng.randrange(4)
    if kind == 0:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + 1:]
    elif kind == 1:
        body = body[:rng.randrange(len(body))]
    elif kind == 2:
        return rng.choice([b"Content-Length: x\r\n\r\n", b"\r\n\r\n",
                           b"Content-Length: 18446744073709551617\r\n\r\n", b"junk\n\n"])
    return protocol.frame(body)


def requests(rng, text):
    """A method and parameters that it has."""
    at = text.position(rng.randrange(len(text.text) + 1))
    if rng.random() < 0.1:
        at = {"line": rng.choice([0, 5, 10 ** 9]), "character": rng.choice([0, 3, 10 ** 9])}
    kind = rng.randrange(6)
    if kind < 3:
        method = rng.choice(PLACES)
        return method, {"position": at, "newName": rng.choice(["q", "x", "1", "kernel"])}
    whole = {"start": {"line": 0, "character": 0}, "end": at}
    return rng.choice([("documentSymbol", {}), ("formatting", {"options": {}}),
                       ("inlayHint", {"range": whole}),
                       ("codeAction", {"range": whole, "context": {"diagnostics": []}})])


def check_text(client, text):
    """The server's text is as long as the client's."""
    number = client.request("textDocument/documentSymbol", client.document())
    assert "error" not in client.answer(number)
    found = client.ask("tessera/text", client.document())
    sent = text.text.encode("utf-8", "surrogatepass")
    assert found["bytes"] == len(sent), (found, len(sent))


def session(tessera, seed, steps):
    rng = random.Random(seed)
    paths = sorted((ROOT / "examples").glob("*.tile")) + sorted((ROOT / "stdlib").glob("*.tile"))
    source = "".join(rng.choice(paths).read_text() for _ in range(rng.randrange(1, 3)))
    text = Text(source[:rng.choice([len(source), rng.randrange(len(source))])])
    client = protocol.Client(tessera)
    client.open(text.text)
    for _ in range(steps):
        kind = rng.random()
        if kind < 0.5:
            edits = [text.change(rng) for _ in range(rng.randrange(1, 4))]
            client.version += 1
            client.tell("textDocument/didChange", {
                "textDocument": {"uri": client.uri, "version": client.version},
                "contentChanges": edits})
        elif kind < 0.55:
            client.send_bytes(nonsense(rng))
        else:
            method, params = requests(rng, text)
            number = client.request("textDocument/" + method, client.document(**params))
            if rng.random() < 0.1:
                client.tell("$/cancelRequest", {"id": number})
            client.answer(number)
    check_text(client, text)
    status = client.end()
    assert status == 0 and not client.stderr(), (status, client.stderr())


def attempt(options, seed):
    try:
        session(options.tessera, seed, options.steps)
        return None
    except Exception:  # of any kind: the session failed
        return traceback.format_exc()


def main():
    made = suite.parser(__doc__)
    made.add_argument("--first", type=int, default=1)
    made.add_argument("--count", type=int, default=24)
    made.add_argument("--steps", type=int, default=60)
    options = suite.options_of(made)
    seeds = range(options.first, options.first + options.count)
    return suite.run(options, seeds, lambda seed: attempt(options, seed), "seed {}".format)


if __name__ == "__main__":
    sys.exit(main())
