/* SPDX-License-Identifier: Apache-2.0 */
/* Maps each line of LLVM IR or assembly to a source line, from the debug information in the text:
 * `!dbg !7` and `!7 = !DILocation(line: 3, …)`; `.file 1 "name"` and `.loc 1 3 …`, which holds
 * until the next one. Without debug information all lines are 0. */
#include "runtime/explain/explain_report.h"

#include "support/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Where `words` begin in [at, end), or NULL. */
static const char *find(const char *at, const char *end, const char *words)
{
    size_t n = strlen(words);
    for (; at + n <= end; at++) {
        if (memcmp(at, words, n) == 0) {
            return at;
        }
    }
    return NULL;
}

/* The number behind `words`; 0: there is none. */
static int number_behind(const char *at, const char *end, const char *words)
{
    const char *found = find(at, end, words);
    return found ? (int)strtol(found + strlen(words), NULL, 10) : 0;
}

/* ---- LLVM ---- */

typedef struct Location {
    int line, inlined_at; /* line 0: it is none */
} Location;

typedef struct Locations {
    Location *items; /* by number of the metadata */
    int n;
} Locations;

static Locations read_locations(Arena *arena, const char *text)
{
    Locations all = {.n = 0};
    for (const char *at = text; *at;
         at = *text_line_end(at) ? text_line_end(at) + 1 : text_line_end(at)) {
        int id = *at == '!' && isdigit((unsigned char)at[1]) ? atoi(at + 1) : -1;
        all.n = id >= all.n ? id + 1 : all.n;
    }
    all.items = ARENA_ARRAY(arena, Location, all.n + 1);
    for (const char *at = text; *at;
         at = *text_line_end(at) ? text_line_end(at) + 1 : text_line_end(at)) {
        const char *end = text_line_end(at);
        if (*at == '!' && isdigit((unsigned char)at[1]) && find(at, end, "!DILocation(")) {
            all.items[atoi(at + 1)] = (Location){number_behind(at, end, "line: "),
                                                 number_behind(at, end, "inlinedAt: !")};
        }
    }
    return all;
}

/* What was inlined has the line that calls it. */
static int location_line(const Locations *all, int id)
{
    enum { MAX_INLINED = 64 };
    for (int i = 0; i < MAX_INLINED && id > 0 && id < all->n; i++) {
        if (!all->items[id].inlined_at) {
            return all->items[id].line;
        }
        id = all->items[id].inlined_at;
    }
    return 0;
}

/* ---- assembly ---- */

enum { MAX_FILES = 64 };

typedef struct Assembly {
    bool ours[MAX_FILES];
    int line; /* of the last .loc */
} Assembly;

static void read_files(const char *text, const char *source, Assembly *a)
{
    for (const char *at = text; *at;
         at = *text_line_end(at) ? text_line_end(at) + 1 : text_line_end(at)) {
        const char *end = text_line_end(at), *file = at + strspn(at, " \t");
        if (strncmp(file, ".file", 5) == 0 && (file[5] == ' ' || file[5] == '\t')) {
            long id = strtol(file + 5, NULL, 10);
            if (id >= 0 && id < MAX_FILES && find(file, end, "\"")) {
                /* MD5 sums and comments may follow the name */
                const char *sum = find(file, end, "\" md5");
                /* A `.file 1 "folder" "name.tile"` directive refers to this source if the names
                 * agree. */
                const char *stop = sum ? sum : end;
                const char *name = path_file(source);
                size_t n = strlen(name);
                while (stop > file && *stop != '"') {
                    stop--;
                }
                a->ours[id] |= stop - file > (ptrdiff_t)n && memcmp(stop - n, name, n) == 0 &&
                               (stop[-(ptrdiff_t)n - 1] == '"' || stop[-(ptrdiff_t)n - 1] == '/');
            }
        }
    }
}

void listing_lines_of_code(Arena *arena, const char *source, Listing *listing)
{
    Locations locations = read_locations(arena, listing->text);
    Assembly assembly = {.line = 0};
    read_files(listing->text, source, &assembly);
    /* A text has one line more than it has newlines. */
    const char *p = listing->text;
    int n = 1;
    for (; *p; p++) {
        n += *p == '\n';
    }
    listing->n = n;
    listing->lines = ARENA_ARRAY(arena, int, listing->n);
    const char *at = listing->text;
    for (int i = 0; i < listing->n; i++) {
        const char *end = text_line_end(at);
        char *next;
        const char *loc = at + strspn(at, " \t");
        if (strncmp(loc, ".loc", 4) == 0 && (loc[4] == ' ' || loc[4] == '\t')) {
            long file = strtol(loc + 4, &next, 10);
            long line = strtol(next, NULL, 10);
            const char *inlined = find(loc, text_line_end(loc), "inlined_at ");
            if (inlined) {
                file = strtol(inlined + strlen("inlined_at "), &next, 10);
                line = strtol(next, NULL, 10);
            }
            assembly.line = file >= 0 && file < MAX_FILES && assembly.ours[file] ? (int)line : 0;
        } else if (*loc == '.' && find(loc, text_line_end(loc), ".entry")) {
            assembly.line = 0;
        }
        int id = number_behind(at, end, "!dbg !");
        listing->lines[i] = id ? location_line(&locations, id) : assembly.line;
        at = *end ? end + 1 : end;
    }
}
