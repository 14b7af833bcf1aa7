/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, changes and closes texts, and reads what they import: from an open text if there is one,
 * else from its file. */
#include "lsp/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_TEXT = 64 << 20 };

Document *document_find(const Documents *documents, const char *uri)
{
    for (Document *d = documents->first; d && uri; d = d->next) {
        if (text_equal(d->uri, uri)) {
            return d;
        }
    }
    return NULL;
}

static void release(Document *document)
{
    analysis_free(document->analysis);
    derived_free(document);
    arena_free(&document->arena);
    free(document);
}

static bool imports_files(const Document *document)
{
    const Module *module = document->analysis ? document->analysis->module : NULL;
    for (size_t i = 0; module && i < module->imports.n; i++) {
        if (module->imports.items[i].is_file) {
            return true;
        }
    }
    return false;
}

/* A text was changed: those that may import it are read again, too. */
static void make_stale(Documents *documents)
{
    for (Document *d = documents->first; d; d = d->next) {
        if (imports_files(d)) {
            d->stale = true;
            d->published = false;
        }
    }
}

/* ---- open, change, close ---- */

static bool fill(Document *document, const char *uri, const char *text, size_t n, bool utf8)
{
    jmp_buf guard;
    document->arena.guard = &guard;
    if (setjmp(guard) != 0) {
        return false;
    }
    document->uri = arena_strdup(&document->arena, uri);
    document->path = uri_path(&document->arena, uri);
    document->lined =
        lined_text(&document->arena, arena_strndup(&document->arena, text, n), n, utf8);
    document->arena.guard = NULL;
    return true;
}

Document *document_open(Documents *documents, const char *uri, const char *text, size_t n,
                        int64_t version)
{
    Document *document = n <= LONGEST_TEXT ? calloc(1, sizeof *document) : NULL;
    if (!document) {
        return NULL;
    }
    arena_init(&document->arena, allocator_default());
    if (!fill(document, uri, text, n, documents->utf8)) {
        release(document);
        return NULL;
    }
    document->version = version;
    document_close(documents, document_find(documents, uri));
    document->next = documents->first;
    documents->first = document;
    make_stale(documents);
    return document;
}

/* A number from 0 on. */
static bool read_place(const Json *position, int64_t *line, int64_t *column)
{
    return json_integer(json_member(position, "line"), line) && *line >= 0 &&
           json_integer(json_member(position, "character"), column) && *column >= 0;
}

typedef struct Edited {
    char *text;
    size_t n;
} Edited;

/* Puts `text` where the range is; without a range it is the whole text. */
static bool apply(const Json *change, bool utf8, Edited *edited)
{
    const Json *text = json_member(change, "text"), *range = json_member(change, "range");
    if (!text || text->kind != JSON_STRING) {
        return false;
    }
    size_t start = 0, end = edited->n;
    if (range && range->kind != JSON_NULL) {
        int64_t line, column, to_line, to_column;
        if (!read_place(json_member(range, "start"), &line, &column) ||
            !read_place(json_member(range, "end"), &to_line, &to_column)) {
            return false;
        }
        Arena arena;
        arena_init(&arena, allocator_default());
        LinedText lined = lined_text(&arena, edited->text, edited->n, utf8);
        start = position_offset(&lined, line, column);
        end = position_offset(&lined, to_line, to_column);
        arena_free(&arena);
    }
    if (end < start || edited->n - (end - start) + text->n > LONGEST_TEXT) {
        return false;
    }
    char *made = malloc(edited->n - (end - start) + text->n + 1);
    if (!made) {
        return false;
    }
    memcpy(made, edited->text, start);
    memcpy(made + start, text->text, text->n);
    memcpy(made + start + text->n, edited->text + end, edited->n - end);
    free(edited->text);
    *edited = (Edited){made, start + text->n + edited->n - end};
    return true;
}

bool document_change(Documents *documents, Document *document, const Json *changes, int64_t version)
{
    Edited edited = {malloc(document->lined.n + 1), document->lined.n};
    bool good = edited.text && changes && changes->kind == JSON_ARRAY;
    if (good) {
        memcpy(edited.text, document->lined.text, edited.n);
    }
    for (const Json *change = good ? changes->first : NULL; change && good; change = change->next) {
        good = apply(change, documents->utf8, &edited);
    }
    Document made = {.next = document->next,
                     .version = version,
                     .stale = true,
                     .analysis = document->analysis,
                     .derived_wanted = document->derived_asked,
                     .derived_asked = document->derived_asked,
                     .derived = document->derived};
    arena_init(&made.arena, allocator_default());
    if (good && fill(&made, document->uri, edited.text, edited.n, documents->utf8)) {
        arena_free(&document->arena);
        *document = made;
        make_stale(documents);
    } else {
        arena_free(&made.arena);
        good = false;
    }
    free(edited.text);
    return good;
}

void document_close(Documents *documents, Document *document)
{
    for (Document **at = &documents->first; document && *at; at = &(*at)->next) {
        if (*at == document) {
            *at = document->next;
            release(document);
            make_stale(documents);
            return;
        }
    }
}

void documents_free(Documents *documents)
{
    while (documents->first) {
        document_close(documents, documents->first);
    }
}

/* ---- imports ---- */

typedef struct Reading {
    const Documents *documents;
    const Document *from;
    Arena arena; /* of the texts, until the analysis has copied them */
} Reading;

static char *read_file(Arena *arena, const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text = NULL;
    if (length >= 0 && length <= LONGEST_TEXT && fseek(file, 0, SEEK_SET) == 0) {
        text = arena_alloc_raw(arena, (size_t)length + 1);
        *n = fread(text, 1, (size_t)length, file);
        text[*n] = 0;
    }
    fclose(file);
    return text;
}

static const char *sibling_path(Arena *arena, const Document *document, const char *path)
{
    const char *slash = document->path ? strrchr(document->path, '/') : NULL;
    return slash ? arena_printf(arena, "%.*s%s", (int)(slash + 1 - document->path), document->path,
                                path)
                 : NULL;
}

static const char *read_import(void *user, const char *path, size_t *n, const char **why)
{
    Reading *reading = user;
    const char *full = sibling_path(&reading->arena, reading->from, path);
    *why = "there is no such file";
    for (const Document *d = reading->documents->first; d && full; d = d->next) {
        if (d->path && text_equal(d->path, full)) {
            *n = d->lined.n;
            return d->lined.text;
        }
    }
    return full ? read_file(&reading->arena, full, n) : NULL;
}

Analysis *document_analysis(Documents *documents, Document *document)
{
    if (!document->analysis || document->stale) {
        Reading reading = {.documents = documents, .from = document};
        Importer importer = {read_import, &reading};
        arena_init(&reading.arena, allocator_default());
        Analysis *made =
            analysis_new(document->path ? path_file(document->path) : document->uri,
                         document->lined.text, document->lined.n, &importer, &reading.arena);
        arena_free(&reading.arena);
        if (made) {
            analysis_free(document->analysis);
            document->analysis = made;
            document->stale = false;
        }
    }
    return document->stale ? NULL : document->analysis;
}
