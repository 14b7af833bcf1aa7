/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function for each value of a text of JSON, which may be several values one behind the
 * other. */
#include "cli/json_write.h"
#include "support/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 256 };

typedef struct Walk {
    JsonEach *each;
    void *user;
    char path[MAX_PATH]; /* keys with dots between */
} Walk;

static bool walk(Walk *w, const Json *json)
{
    size_t before = strlen(w->path);
    for (const Json *child = json->first; child; child = child->next) {
        if (child->key) {
            const char *dot = before ? "." : "";
            int n = snprintf(w->path + before, MAX_PATH - before, "%s%s", dot, child->key);
            if (n < 0 || (size_t)n >= MAX_PATH - before) {
                return false;
            }
        }
        if (!walk(w, child)) {
            return false;
        }
        w->path[before] = '\0';
    }
    if (json->kind == JSON_OBJECT || json->kind == JSON_STRING) {
        w->each(w->user, w->path, json->text, 0);
    } else if (json->kind == JSON_NUMBER) {
        w->each(w->user, w->path, "", json->number);
    }
    return true;
}

static bool read_all(Arena *arena, const char *text, JsonEach *each, void *user)
{
    bool good = true;
    while (good && text[strspn(text, " \t\r\n")]) {
        Walk w = {.each = each, .user = user};
        size_t end;
        const Json *json = json_parse(arena, text, strlen(text), &end);
        good = json && walk(&w, json);
        text += end;
    }
    return good;
}

bool json_read(const char *text, JsonEach *each, void *user)
{
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    bool good = setjmp(guard) == 0 && read_all(&arena, text, each, user);
    arena_free(&arena);
    return good;
}
