/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and URIs, and files of texts that the compiler has built in: an editor that goes to a
 * definition there needs a file. */
#include "lsp/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

const char *uri_path(Arena *arena, const char *uri)
{
    static const char scheme[] = "file://";
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    const char *at = uri + sizeof scheme - 1;
    at += strncmp(at, "localhost/", 10) == 0 ? 9 : 0;
    Text path = text_new(arena);
    for (; *at; at++) {
        int high = *at == '%' ? hex_value(at[1]) : -1;
        int low = high >= 0 ? hex_value(at[2]) : -1;
        if (low >= 0 && (high || low)) {
            text_char(&path, (char)(high << 4 | low));
            at += 2;
        } else {
            text_char(&path, *at);
        }
    }
    return path.n > 0 && path.data[0] == '/' ? path.data : NULL;
}

const char *path_uri(Arena *arena, const char *path)
{
    Text uri = text_new(arena);
    text_add(&uri, "file://");
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~/", c);
        text_printf(&uri, plain ? "%c" : "%%%02X", c);
    }
    return uri.data;
}

/* ---- texts that are built in ---- */

static const char *cache_folder(Arena *arena)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/') {
        return arena_strdup(arena, cache);
    }
    return home && *home == '/' ? arena_printf(arena, "%s/.cache", home) : NULL;
}

static bool holds(const char *path, const Source *source)
{
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(source->n + 1) : NULL;
    bool same = text && fread(text, 1, source->n + 1, file) == source->n &&
                memcmp(text, source->text, source->n) == 0;
    free(text);
    if (file) {
        fclose(file);
    }
    return same;
}

/* The file is written under another name first, so that no one reads half of it. */
static bool write_source(Arena *arena, const char *path, const Source *source)
{
    const char *part = arena_printf(arena, "%s.part", path);
    FILE *file = fopen(part, "wb");
    if (!file) {
        return false;
    }
    bool good = fwrite(source->text, 1, source->n, file) == source->n;
    good = fclose(file) == 0 && good;
    return good && rename(part, path) == 0;
}

/* <stdlib/math.tile> as $XDG_CACHE_HOME/tessera/stdlib/math.tile; NULL: it cannot be written. */
static const char *library_file(Arena *arena, const Source *source)
{
    const char *folder = cache_folder(arena), *name = strrchr(source->name, '/');
    if (!folder || !name) {
        return NULL;
    }
    mkdir(folder, 0777);
    folder = arena_printf(arena, "%s/tessera", folder);
    mkdir(folder, 0777);
    folder = arena_printf(arena, "%s/stdlib", folder);
    mkdir(folder, 0777);
    const char *path = arena_printf(arena, "%s%.*s", folder, (int)strlen(name) - 1, name);
    return holds(path, source) || write_source(arena, path, source) ? path : NULL;
}

const char *source_uri(Arena *arena, const Document *document, int source)
{
    const Analysis *a = document->analysis;
    if (!a || source < 0 || (size_t)source >= a->diags.sources.n) {
        return NULL;
    }
    if (source == a->source) {
        return document->uri;
    }
    const Source *from = &a->diags.sources.items[source];
    if (from->name[0] == '<') {
        const char *path = library_file(arena, from);
        return path ? path_uri(arena, path) : NULL;
    }
    const char *slash = document->path ? strrchr(document->path, '/') : NULL;
    return slash ? path_uri(arena, arena_printf(arena, "%.*s%s", (int)(slash + 1 - document->path),
                                                document->path, from->name))
                 : NULL;
}

LinedText source_lines(Arena *arena, const Document *document, int source)
{
    const Analysis *a = document->analysis;
    if (source == a->source) {
        return document->lined;
    }
    const Source *from = &a->diags.sources.items[source];
    return lined_text(arena, from->text, from->n, document->lined.utf8);
}
