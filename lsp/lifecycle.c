/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that begin and end a session, and those that open, change and close texts. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

static bool lists(const Json *array, const char *word)
{
    for (const Json *at = array && array->kind == JSON_ARRAY ? array->first : NULL; at;
         at = at->next) {
        if (at->kind == JSON_STRING && text_equal(at->text, word)) {
            return true;
        }
    }
    return false;
}

/* ---- settings ---- */

static void replace(char **setting, const Json *settings, const char *key)
{
    const Json *given = json_member(settings, key);
    if (given && (given->kind == JSON_STRING || given->kind == JSON_NULL)) {
        free(*setting);
        *setting = given->kind == JSON_STRING && given->n > 0 ? strdup(given->text) : NULL;
    }
}

void apply_settings(Server *server, const Json *settings)
{
    replace(&server->target, settings, "target");
    replace(&server->sizes, settings, "sizes");
    replace(&server->sets, settings, "sets");
}

void method_configuration(Call *call)
{
    const Json *settings = json_member(call->params, "settings");
    const Json *own = json_member(settings, "tessera");
    apply_settings(call->server, own ? own : settings);
    for (Document *d = call->server->documents.first; d; d = d->next) {
        d->derived_wanted = d->derived_asked;
    }
}

/* ---- the session ---- */

void method_initialize(Call *call)
{
    Server *server = call->server;
    if (server->initialized) {
        call_fail(call, RPC_INVALID_REQUEST, "the session is initialized already");
        return;
    }
    const Json *client = json_member(call->params, "capabilities");
    server->initialized = true;
    server->documents.utf8 = lists(json_path(client, "general.positionEncodings"), "utf-8");
    server->related =
        json_truth(client, "textDocument.publishDiagnostics.relatedInformation", false);
    server->refreshes = json_truth(client, "workspace.inlayHint.refreshSupport", false);
    apply_settings(server, json_member(call->params, "initializationOptions"));
    text_printf(call->result, "{\"capabilities\":{\"positionEncoding\":\"%s\"",
                server->documents.utf8 ? "utf-8" : "utf-16");
    text_add(call->result, ",\"textDocumentSync\":{\"openClose\":true,\"change\":2,\"save\":true}");
#define CAPABILITY(json) text_add(call->result, "," json);
#include "lsp/capabilities.def"
#undef CAPABILITY
    text_add(call->result,
             "},\"serverInfo\":{\"name\":\"tessera\",\"version\":\"" TESSERA_VERSION "\"}}");
}

void method_initialized(Call *call)
{
    (void)call;
}

void method_shutdown(Call *call)
{
    call->server->shut_down = true;
}

void method_exit(Call *call)
{
    call->server->exiting = true;
}

/* ---- texts ---- */

void method_open(Call *call)
{
    const Json *item = json_member(call->params, "textDocument"), *text = json_member(item, "text");
    const char *uri = json_text(item, "uri");
    int64_t version;
    json_integer(json_member(item, "version"), &version);
    if (!uri || !text || text->kind != JSON_STRING) {
        call_fail(call, RPC_INVALID_PARAMS, "a text has a uri and a text");
    } else if (!document_open(&call->server->documents, uri, text->text, text->n, version)) {
        call_fail(call, RPC_FAILED, "there is no memory for this text");
    }
}

void method_change(Call *call)
{
    Document *document = call_document(call);
    int64_t version;
    json_integer(json_path(call->params, "textDocument.version"), &version);
    if (document && !document_change(&call->server->documents, document,
                                     json_member(call->params, "contentChanges"), version)) {
        call_fail(call, RPC_INVALID_PARAMS, "a change has a text, and a range that is in order");
    }
}

void method_close(Call *call)
{
    Document *document = call_document(call);
    if (document) {
        publish_closed(call->server, document->uri);
        document_close(&call->server->documents, document);
    }
}
