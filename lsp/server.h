/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the server share: its state, and one call of a method. */
#ifndef TESSERA_LSP_SERVER_H
#define TESSERA_LSP_SERVER_H

#include "lsp/document.h"
#include "lsp/lsp.h"
#include "lsp/transport.h"

#include <tessera/tessera.h>

/* Of JSON-RPC and of the protocol. */
typedef enum RpcError {
    RPC_NONE = 0,
    RPC_PARSE = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_NO_METHOD = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_NOT_INITIALIZED = -32002,
    RPC_CANCELLED = -32800,
    RPC_FAILED = -32803,
} RpcError;

typedef struct Message Message;

typedef struct Server {
    Transport transport;
    Documents documents;
    Message *first, *last; /* messages that have come and wait */
    size_t waiting;
    bool initialized, shut_down, exiting;
    bool related;                /* the client shows further places of a diagnostic */
    bool refreshes;              /* it can be asked to ask for hints again */
    int64_t asked;               /* requests of ours so far */
    char *target, *sizes, *sets; /* settings; NULL: none */
} Server;

typedef struct Call {
    Server *server;
    Arena *arena; /* of this call */
    const Json *params;
    Text *result; /* JSON; empty: null */
    RpcError error;
    const char *why;
} Call;
typedef void Method(Call *call);

/* The document and the offset that the parameters name. NULL after call_fail: it is not open. */
Document *call_document(Call *call);
Document *call_position(Call *call, uint32_t *offset);
/* The range `key` of the parameters, as offsets; false after call_fail. */
bool call_range(Call *call, const Document *document, const char *key, uint32_t *start,
                uint32_t *end);
void call_fail(Call *call, RpcError error, const char *why);
/* Begins an item of a list of JSON: a comma, but for the first one. */
void put_comma(Text *out);
/* "key":"text" */
void put_text(Text *out, const char *key, const char *text);

/* The methods, each in the file of its subject. */
#define METHOD(name, function, request) Method function;
#include "lsp/methods.def"
#undef METHOD

/* Tells the client the diagnostics of all texts that have changed (publish.c). */
void publish_diagnostics(Server *server);
/* As the Diagnostic of the protocol. */
void put_diagnostic(Text *out, const Document *document, const Diag *diag, bool related,
                    Arena *arena);
void publish_closed(Server *server, const char *uri);
/* Applies settings of the client: an object with target, sizes, sets (lifecycle.c). */
void apply_settings(Server *server, const Json *settings);
void send_notification(Server *server, Arena *arena, const char *method, const char *params);
/* Asks the client to ask for inlay hints again. */
void send_refresh(Server *server);

#endif
