# SPDX-License-Identifier: Apache-2.0
"""What a client should not send. Each is refused, and the session goes on: the text that was open
is still there."""

import json

import client as protocol

PARSE, INVALID, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
NOT_INITIALIZED, CANCELLED = -32002, -32800


def still_works(client):
    """The text is as it was: another error than that of a text without f."""
    client.change("kernel f(x: f32[N]) -> f32[N] = x\n")
    assert client.diagnostics() == []
    assert client.end() == 0


def begin(start):
    client = start()
    client.open("kernel f(x: f32[N]) -> f32[N] = y\n")
    return client


def refused_bytes(start, data, code):
    client = begin(start)
    client.send_bytes(data)
    message = client.receive()
    assert message["id"] is None and message["error"]["code"] == code, message
    still_works(client)


def test_no_json(start):
    refused_bytes(start, protocol.frame(b"{nonsense"), PARSE)


def test_empty_message(start):
    refused_bytes(start, protocol.frame(b""), PARSE)


def test_no_utf8(start):
    refused_bytes(start, protocol.frame(b'{"jsonrpc":"2.0","method":"a\xff\xfe"}'), PARSE)


def test_json_twice(start):
    refused_bytes(start, protocol.frame(b"{} {}"), PARSE)


def test_deep_json(start):
    refused_bytes(start, protocol.frame(b"[" * 100000), PARSE)


def test_batch(start):
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]'
    refused_bytes(start, protocol.frame(batch), INVALID)


def test_number_as_message(start):
    refused_bytes(start, protocol.frame(b"42"), INVALID)


def test_id_that_is_none(start):
    refused_bytes(start, protocol.frame(b'{"id":{"a":1},"method":7}'), INVALID)


def test_header_without_length(start):
    refused_bytes(start, b"Content-Type: text\r\n\r\n", PARSE)


def test_negative_length(start):
    refused_bytes(start, b"Content-Length: -5\r\n\r\nhello", PARSE)


def test_length_that_is_no_number(start):
    refused_bytes(start, b"Content-Length: 5x\r\n\r\nhello", PARSE)


def test_incredible_length(start):
    refused_bytes(start, b"Content-Length: 99999999999999999999999\r\n\r\n{}", PARSE)


def test_long_message_is_skipped(start):
    n = 70 << 20
    body = b"Content-Length: 2 " + b" " * (n - 18)
    refused_bytes(start, b"Content-Length: %d\r\n\r\n" % n + body, PARSE)


def test_long_header(start):
    refused_bytes(start, b"Content-Length: 1" + b" " * 5000 + b"\r\n", PARSE)


def test_header_in_pieces_and_other_case(start):
    client = begin(start)
    body = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "nothing"}).encode()
    for piece in (b"content-", b"length:%d" % len(body), b"\r\nContent-Type: a\r", b"\n\r\n",
                  body[:7], body[7:]):
        client.send_bytes(piece)
    message = client.receive()
    assert message["id"] == "x" and message["error"]["code"] == NO_METHOD, message
    still_works(client)


def test_before_initialize(start):
    client = start(capabilities=False)
    assert client.refused("shutdown", None) == NOT_INITIALIZED
    client.tell("textDocument/didOpen", {})
    client.ask("initialize", {"capabilities": {}})
    assert client.refused("initialize", {"capabilities": {}}) == INVALID
    assert client.end() == 0


def test_after_shutdown(start):
    client = begin(start)
    client.ask("shutdown", None)
    assert client.refused("shutdown", None) == INVALID
    client.tell("exit", None)
    assert client.close() == 0


def test_unknown_methods(start):
    client = begin(start)
    assert client.refused("textDocument/none", {}) == NO_METHOD
    client.tell("$/none", {})
    client.tell("none", [1])
    still_works(client)


def test_request_as_notification(start):
    client = begin(start)
    client.tell("shutdown", None)
    assert client.refused("textDocument/didClose", client.document()) == INVALID
    still_works(client)


def test_wrong_params(start):
    client = begin(start)
    for params in (None, [], 3, {"textDocument": 5}, {"textDocument": {"uri": 7}},
                   {"textDocument": {"uri": "file:///not/open"}}):
        client.tell("textDocument/didChange", params)
        client.tell("textDocument/didClose", params)
        client.tell("textDocument/didOpen", params)
    client.change((0, 5, 0, 2, "backwards"))
    client.change((-1, 0, 0, 0, "negative"))
    client.change((0.5, 0, 0, 0, "half"))
    client.tell("textDocument/didChange", client.document(contentChanges=[{"text": 5}]))
    client.tell("textDocument/didChange", client.document(contentChanges="all"))
    client.change((0, 32, 0, 33, "x"))  # nothing of the above has changed the text
    assert client.diagnostics() == []
    still_works(client)


def test_places_outside(start):
    client = begin(start)
    client.change((99, 0, 99, 99, "kernel g(x: f32[N]) -> f32[N] = x\n"), (0, 32, 0, 999999, "x"))
    assert client.diagnostics() == []
    still_works(client)


def test_middle_of_surrogates(start):
    client = start()
    client.open("# \U0001F600\nkernel f(x: f32[N]) -> f32[N] = x\n")
    client.change((0, 3, 0, 3, "a"))
    assert client.diagnostics() == []
    still_works(client)


def test_answers_that_nobody_asked_for(start):
    client = begin(start)
    client.send({"jsonrpc": "2.0", "id": 77, "result": None})
    client.send({"jsonrpc": "2.0", "id": "tessera-1", "error": {"code": 1, "message": "no"}})
    still_works(client)


def test_cancel(start):
    client = begin(start)
    body = b"".join(protocol.frame(json.dumps(m).encode()) for m in (
        {"jsonrpc": "2.0", "id": 900, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": "b", "method": "shutdown"},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 900}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "b"}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 12345}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest"}))
    client.send_bytes(body)
    for number in (900, "b"):
        message = client.answer(number)
        assert message["error"]["code"] == CANCELLED, message
    still_works(client)


def test_zero_bytes_and_text_that_is_no_program(start):
    client = begin(start)
    client.open("kernel f\0(x: f32[N]) -> f32[N] = \ud83d x\0")
    client.open("\0" * 1000)
    client.open("(" * 20000)
    client.open("kernel f(x: f32[N]) -> f32[N] {" * 3000)
    still_works(client)
