/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that the client has open. Each is analysed when somebody asks after it was changed. */
#ifndef TESSERA_LSP_DOCUMENT_H
#define TESSERA_LSP_DOCUMENT_H

#include "lsp/analysis.h"
#include "support/json.h"

typedef struct Document {
    struct Document *next;
    Arena arena;            /* of the fields below, but for the analysis */
    const char *uri, *path; /* path NULL: it is in no file */
    LinedText lined;
    int64_t version;
    bool published;      /* its diagnostics are sent */
    bool stale;          /* it, or what it imports, has changed since the analysis */
    Analysis *analysis;  /* NULL: none yet */
    bool derived_wanted; /* schedules.h: those below are not of this text */
    struct DerivedList *derived;
    bool derived_asked; /* the client has asked for hints */
} Document;

typedef struct Documents {
    Document *first;
    bool utf8; /* how the client counts columns */
} Documents;

Document *document_find(const Documents *documents, const char *uri);
/* A text of this name; one that is there already is replaced. NULL: there is no memory. */
Document *document_open(Documents *documents, const char *uri, const char *text, size_t n,
                        int64_t version);
/* Applies the changes of a notification in their order; false if one of them is malformed: then
 * the text is as it was. */
bool document_change(Documents *documents, Document *document, const Json *changes,
                     int64_t version);
void document_close(Documents *documents, Document *document);
void documents_free(Documents *documents);
/* The analysis of the text as it is now; NULL: there is no memory. */
Analysis *document_analysis(Documents *documents, Document *document);

/* The path of "file:///…"; NULL: it is no file. */
const char *uri_path(Arena *arena, const char *uri);
const char *path_uri(Arena *arena, const char *path);
/* The URI of a source of the analysis: of a text of the standard library a file that holds it is
 * written first. NULL: there is none. */
const char *source_uri(Arena *arena, const Document *document, int source);
/* The positions of a source of the analysis. */
LinedText source_lines(Arena *arena, const Document *document, int source);

#endif
