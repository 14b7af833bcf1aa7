# SPDX-License-Identifier: Apache-2.0
"""A client of `tessera lsp`: sends messages, collects what comes back."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import patience  # noqa: E402

CAPABILITIES = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}},
                "workspace": {"inlayHint": {"refreshSupport": True}}}


def frame(body):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class Client:
    """One session. `uri` is that of the text that the methods are about."""

    uri = "file:///folder/a.tile"

    def __init__(self, tessera, capabilities=None, options=None, arguments=(), environment=None):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([tessera, "lsp", *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment)
        self.number, self.version, self.told = 0, 0, {}
        self.notifications = []
        self.last_position = None
        if capabilities is not False:
            self.initialized = self.ask("initialize", {
                "processId": None, "rootUri": None, "capabilities": capabilities or CAPABILITIES,
                "initializationOptions": options})
            self.tell("initialized", {})

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(frame(json.dumps(message).encode()))

    def receive(self):
        """The next message; None at the end."""
        length = None
        while True:
            line = self.process.stdout.readline()
            if not line:
                return None
            if line == b"\r\n":
                break
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.told[message["params"]["uri"]] = message["params"]
        if "method" in message:
            self.notifications.append(message)
        return message

    def request(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def answer(self, number):
        while (message := self.receive()) is not None:
            if "method" not in message and message.get("id") == number:
                return message
        raise AssertionError(f"the server ended: {self.stderr()}")

    def ask(self, method, params):
        """The result; an error fails the test."""
        message = self.answer(self.request(method, params))
        assert "error" not in message, message
        return message["result"]

    def refused(self, method, params):
        """The code of the error."""
        return self.answer(self.request(method, params))["error"]["code"]

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def open(self, text, uri=None):
        """Opens a text and returns its diagnostics."""
        self.uri = uri or self.uri
        self.version += 1
        self.tell("textDocument/didOpen", {"textDocument": {
            "uri": self.uri, "languageId": "tile", "version": self.version, "text": text}})
        return self.diagnostics()

    def change(self, *changes):
        """Changes the text: (start line, column, end line, column, text) each, or a whole text."""
        self.version += 1
        made = [{"text": c} if isinstance(c, str) else
                {"range": {"start": {"line": c[0], "character": c[1]},
                           "end": {"line": c[2], "character": c[3]}}, "text": c[4]}
                for c in changes]
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": made})

    def diagnostics(self):
        """Those of the version that was sent last."""
        while self.told.get(self.uri, {}).get("version") != self.version:
            if self.receive() is None:
                raise AssertionError(f"the server ended: {self.stderr()}")
        return self.told[self.uri]["diagnostics"]

    def at(self, line, column, **more):
        return {"textDocument": {"uri": self.uri},
                "position": {"line": line, "character": column}, **more}

    def document(self, **more):
        return {"textDocument": {"uri": self.uri}, **more}

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def end(self):
        """Ends the session in order; the exit status."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.close()

    def close(self):
        self.process.stdin.close()
        while self.receive() is not None:
            pass
        self.process.stdout.close()
        return self.process.wait(timeout=patience.seconds(60))
