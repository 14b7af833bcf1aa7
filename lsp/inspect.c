/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of our own, for tests and for who measures the server. */
#include "lsp/server.h"

/* How many tokens and expressions were looked at for the text as it is, and how long it took. */
void method_work(Call *call)
{
    Document *document = call_document(call);
    const Analysis *a = document ? document_analysis(&call->server->documents, document) : NULL;
    if (a) {
        text_printf(call->result, "{\"work\":%zu,\"milliseconds\":%.3f}", a->work,
                    a->seconds * 1e3);
    }
}

/* How long the text is, and its version. */
void method_text(Call *call)
{
    Document *document = call_document(call);
    if (document) {
        text_printf(call->result, "{\"bytes\":%zu,\"version\":%lld}", document->lined.n,
                    (long long)document->version);
    }
}
