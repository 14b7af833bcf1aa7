/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the server: takes all messages that have come, drops what is cancelled, answers the
 * first of the others. Diagnostics are sent when nothing waits, so that a burst of changes is
 * analysed once. */
#include "lsp/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WAITING = 1000 };

struct Message {
    Message *next;
    Arena arena;
    jmp_buf guard; /* of the arena */
    const Json *json;
    const Json *id; /* NULL: a notification */
    const char *method;
    RpcError error; /* it is answered with it */
    const char *why;
};

/* ---- writing ---- */

void put_comma(Text *out)
{
    char last = out->n > 0 ? out->data[out->n - 1] : '[';
    if (last != '[' && last != '{') {
        text_char(out, ',');
    }
}

void put_text(Text *out, const char *key, const char *text)
{
    text_printf(out, "\"%s\":", key);
    text_json(out, text, strlen(text));
}

void send_notification(Server *server, Arena *arena, const char *method, const char *params)
{
    Text out = text_new(arena);
    text_printf(&out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}", method, params);
    transport_write(&server->transport, out.data, out.n);
}

void send_refresh(Server *server)
{
    char text[128];
    int n = snprintf(text, sizeof text,
                     "{\"jsonrpc\":\"2.0\",\"id\":\"tessera-%lld\","
                     "\"method\":\"workspace/inlayHint/refresh\"}",
                     (long long)++server->asked);
    transport_write(&server->transport, text, (size_t)n);
}

static void put_id(Text *out, const Json *id)
{
    int64_t integer;
    text_add(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    if (id && id->kind == JSON_STRING) {
        text_json(out, id->text, id->n);
    } else if (json_integer(id, &integer)) {
        text_i64(out, integer);
    } else {
        text_add(out, "null");
    }
}

static void answer(Server *server, Message *m, const Call *call)
{
    Text out = text_new(&m->arena);
    put_id(&out, m->id);
    if (call->error) {
        text_printf(&out, ",\"error\":{\"code\":%d,", (int)call->error);
        put_text(&out, "message", call->why);
        text_char(&out, '}');
    } else {
        text_add(&out, ",\"result\":");
        text_add(&out, call->result->n ? call->result->data : "null");
    }
    text_char(&out, '}');
    transport_write(&server->transport, out.data, out.n);
}

/* What is answered where there is no memory for more. */
static void answer_exhausted(Server *server)
{
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,"
                               "\"message\":\"there is no memory for an answer\"}}";
    transport_write(&server->transport, text, sizeof text - 1);
}

/* ---- calls ---- */

void call_fail(Call *call, RpcError error, const char *why)
{
    call->error = error;
    call->why = why;
}

Document *call_document(Call *call)
{
    const char *uri = json_text(call->params, "textDocument.uri");
    Document *document = document_find(&call->server->documents, uri);
    if (!document) {
        call_fail(call, RPC_INVALID_PARAMS, uri ? "this text is not open" : "no text is named");
    }
    return document;
}

static bool read_position(Call *call, const Document *document, const Json *position,
                          uint32_t *offset)
{
    int64_t line, column;
    bool good = json_integer(json_member(position, "line"), &line) && line >= 0;
    good = json_integer(json_member(position, "character"), &column) && column >= 0 && good;
    if (!good) {
        call_fail(call, RPC_INVALID_PARAMS, "a position has a line and a character, from 0 on");
        return false;
    }
    *offset = position_offset(&document->lined, line, column);
    return true;
}

Document *call_position(Call *call, uint32_t *offset)
{
    Document *document = call_document(call);
    bool good =
        document && read_position(call, document, json_member(call->params, "position"), offset);
    return good ? document : NULL;
}

bool call_range(Call *call, const Document *document, const char *key, uint32_t *start,
                uint32_t *end)
{
    const Json *range = json_member(call->params, key);
    return read_position(call, document, json_member(range, "start"), start) &&
           read_position(call, document, json_member(range, "end"), end);
}

typedef struct MethodRow {
    const char *name;
    Method *function;
    bool request;
} MethodRow;

static const MethodRow *find_method(const char *name)
{
    static const MethodRow rows[] = {
#define METHOD(name, function, request) {name, function, request},
#include "lsp/methods.def"
#undef METHOD
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (text_equal(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Why the method is not called now; RPC_NONE: it is. */
static RpcError refused(const Server *server, const Message *m, const MethodRow *row,
                        const char **why)
{
    bool begins = row && row->function == method_initialize;
    bool ends = row && row->function == method_exit;
    if (m->error) {
        *why = m->why;
        return m->error;
    }
    if (server->shut_down && !ends) {
        *why = "the session is shut down";
        return RPC_INVALID_REQUEST;
    }
    if (!server->initialized && !begins && !ends) {
        *why = "the session is not initialized";
        return RPC_NOT_INITIALIZED;
    }
    if (!row || row->request != (m->id != NULL)) {
        *why = row ? "this method is called the other way" : "there is no such method";
        return row ? RPC_INVALID_REQUEST : RPC_NO_METHOD;
    }
    return RPC_NONE;
}

static void carry_out(Server *server, Message *m)
{
    const MethodRow *row = m->method ? find_method(m->method) : NULL;
    Text result = text_new(&m->arena);
    Call call = {.server = server, .arena = &m->arena, .result = &result};
    call.params = json_member(m->json, "params");
    call.error = refused(server, m, row, &call.why);
    if (!call.error) {
        row->function(&call);
    }
    if (m->id || (m->error && !m->method)) {
        answer(server, m, &call);
    } else if (call.error == RPC_INVALID_PARAMS || call.error == RPC_FAILED) {
        Text params = text_new(&m->arena);
        text_add(&params, "{\"type\":2,");
        put_text(&params, "message", arena_printf(&m->arena, "%.100s: %s", m->method, call.why));
        text_char(&params, '}');
        send_notification(server, &m->arena, "window/logMessage", params.data);
    }
}

/* ---- messages ---- */

static void message_free(Message *m)
{
    arena_free(&m->arena);
    free(m);
}

static void read_body(Message *m, const char *body, size_t n)
{
    m->json = json_parse_all(&m->arena, body, n);
    if (!m->json) {
        m->error = RPC_PARSE;
        m->why = "this is no JSON";
        return;
    }
    const Json *id = json_member(m->json, "id");
    const Json *params = json_member(m->json, "params");
    m->method = json_text(m->json, "method");
    bool named = id && (id->kind == JSON_STRING || id->kind == JSON_NUMBER);
    m->id = named ? id : NULL;
    bool reply = named && (json_member(m->json, "result") || json_member(m->json, "error"));
    bool bad = m->json->kind != JSON_OBJECT || (!m->method && !reply) ||
               (id && !named && id->kind != JSON_NULL) ||
               (params && params->kind != JSON_OBJECT && params->kind != JSON_ARRAY &&
                params->kind != JSON_NULL);
    if (bad) {
        m->error = RPC_INVALID_REQUEST;
        m->why = "this is no request";
    }
}

/* False: there is no memory for it. */
static bool message_new(Message **out, Arrival arrival, const char *body, size_t n)
{
    Message *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) {
        return false;
    }
    arena_init(&m->arena, allocator_default());
    m->arena.guard = &m->guard;
    if (setjmp(m->guard) != 0) {
        return false;
    }
    if (arrival == ARRIVED_BAD) {
        m->error = RPC_PARSE;
        m->why = body;
    } else {
        read_body(m, body, n);
    }
    return true;
}

static bool same_id(const Json *a, const Json *b)
{
    return a && b && a->kind == b->kind &&
           (a->kind == JSON_STRING ? text_equal(a->text, b->text) : a->number == b->number);
}

/* Marks the request as cancelled if it still waits. */
static void cancel(Server *server, const Json *id)
{
    for (Message *m = server->first; m; m = m->next) {
        if (m->method && same_id(m->id, id) && !m->error) {
            m->error = RPC_CANCELLED;
            m->why = "the request was cancelled";
        }
    }
}

static void enqueue(Server *server, Message *m)
{
    if (m->method && text_equal(m->method, "$/cancelRequest") && !m->error) {
        cancel(server, json_path(m->json, "params.id"));
        message_free(m);
        return;
    }
    *(server->last ? &server->last->next : &server->first) = m;
    server->last = m;
    server->waiting++;
}

/* Takes what has come; false at the end. */
static bool collect(Server *server, int milliseconds)
{
    while (server->waiting < MAX_WAITING) {
        const char *body;
        size_t n;
        Arrival arrival = transport_read(&server->transport, milliseconds, &body, &n);
        if (arrival == ARRIVED_END || arrival == ARRIVED_NOTHING) {
            return arrival != ARRIVED_END;
        }
        Message *m;
        if (message_new(&m, arrival, body, n)) {
            enqueue(server, m);
        } else {
            answer_exhausted(server);
            if (m) {
                message_free(m);
            }
        }
        milliseconds = 0;
    }
    return true;
}

static void handle(Server *server, Message *m)
{
    bool reply = m->id && !m->method;
    if (!reply || m->error) {
        if (setjmp(m->guard) == 0) {
            carry_out(server, m);
        } else {
            answer_exhausted(server);
        }
    }
}

static void serve_one(Server *server)
{
    Message *m = server->first;
    server->first = m->next;
    server->last = server->first ? server->last : NULL;
    server->waiting--;
    handle(server, m);
    message_free(m);
}

/* ---- the session ---- */

/* New schedules are shown where the client asks for its hints again. */
static void refresh_schedules(Server *server)
{
    if (derive_schedules(server) && server->refreshes) {
        send_refresh(server);
    }
}

int lsp_serve(int in, int out, const LspSettings *settings)
{
    Server server = {0};
    transport_init(&server.transport, in, out);
    server.target = settings->target ? strdup(settings->target) : NULL;
    server.sizes = settings->sizes ? strdup(settings->sizes) : NULL;
    server.sets = settings->sets ? strdup(settings->sets) : NULL;
    bool open = true;
    while (!server.exiting && !server.transport.failed && (open || server.first)) {
        if (!server.first && open) {
            publish_diagnostics(&server);
            refresh_schedules(&server);
        }
        open = open && collect(&server, server.first ? 0 : -1);
        if (server.first) {
            serve_one(&server);
        }
    }
    while (server.first) {
        Message *next = server.first->next;
        message_free(server.first);
        server.first = next;
    }
    documents_free(&server.documents);
    transport_free(&server.transport);
    free(server.target);
    free(server.sizes);
    free(server.sets);
    return server.shut_down && server.exiting ? 0 : 1;
}
