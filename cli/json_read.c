/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON parser (RFC 8259). It calls a function for each value and keeps no document in
 * memory. */
#include "cli/json_write.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_PATH = 256 };

typedef struct Reader {
    const char *at;
    JsonEach *each;
    void *user;
    char path[MAX_PATH]; /* keys with dots between */
    int depth;
    bool bad;
} Reader;

static void skip(Reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool take_sign(Reader *r, char sign)
{
    skip(r);
    bool here = *r->at == sign;
    r->at += here;
    return here;
}

static void append_code(char *text, size_t *n, unsigned int code)
{
    if (code < 0x80) {
        text[(*n)++] = (char)code;
    } else if (code < 0x800) {
        text[(*n)++] = (char)(0xc0 | code >> 6);
        text[(*n)++] = (char)(0x80 | (code & 0x3f));
    } else {
        text[(*n)++] = (char)(0xe0 | code >> 12);
        text[(*n)++] = (char)(0x80 | (code >> 6 & 0x3f));
        text[(*n)++] = (char)(0x80 | (code & 0x3f));
    }
}

static void read_escape(Reader *r, char *text, size_t *n)
{
    static const char signs[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char sign = *r->at++;
    const char *found = sign ? strchr(signs, sign) : NULL;
    if (found) {
        text[(*n)++] = means[found - signs];
        return;
    }
    char digits[5] = "";
    memcpy(digits, r->at, strnlen(r->at, 4));
    char *end;
    unsigned long code = strtoul(digits, &end, 16);
    if (sign != 'u' || end != digits + 4) {
        r->bad = true;
        return;
    }
    r->at += 4;
    append_code(text, n, (unsigned int)code);
}

/* After the first quote; the caller frees. */
static char *read_string(Reader *r)
{
    char *text = alloc_or_exit(strlen(r->at) + 1);
    size_t n = 0;
    while (*r->at && *r->at != '"' && !r->bad) {
        if (*r->at == '\\') {
            r->at++;
            read_escape(r, text, &n);
        } else {
            text[n++] = *r->at++;
        }
    }
    r->bad = r->bad || *r->at != '"';
    r->at += *r->at == '"';
    return text;
}

static void read_value(Reader *r);

static void read_member(Reader *r)
{
    size_t before = strlen(r->path);
    if (!take_sign(r, '"')) {
        r->bad = true;
        return;
    }
    char *key = read_string(r);
    if (before + strlen(key) + 2 > MAX_PATH || !take_sign(r, ':')) {
        r->bad = true;
    } else {
        snprintf(r->path + before, MAX_PATH - before, "%s%s", before ? "." : "", key);
        read_value(r);
        r->path[before] = '\0';
    }
    free(key);
}

static void read_items(Reader *r, char closing)
{
    if (++r->depth > MAX_DEPTH) {
        r->bad = true;
    }
    if (!take_sign(r, closing)) {
        do {
            if (closing == '}') {
                read_member(r);
            } else {
                read_value(r);
            }
        } while (!r->bad && take_sign(r, ','));
        r->bad = !take_sign(r, closing) || r->bad;
    }
    r->depth--;
    if (closing == '}' && !r->bad) {
        r->each(r->user, r->path, NULL, 0);
    }
}

static void read_word(Reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(r->at, words[i], n) == 0) {
            r->at += n;
            return;
        }
    }
    char *end;
    double number = strtod(r->at, &end);
    r->bad = end == r->at;
    r->at = end;
    if (!r->bad) {
        r->each(r->user, r->path, "", number);
    }
}

static void read_value(Reader *r)
{
    if (take_sign(r, '{')) {
        read_items(r, '}');
    } else if (take_sign(r, '[')) {
        read_items(r, ']');
    } else if (take_sign(r, '"')) {
        char *text = read_string(r);
        if (!r->bad) {
            r->each(r->user, r->path, text, 0);
        }
        free(text);
    } else {
        read_word(r);
    }
}

bool json_read(const char *text, JsonEach *each, void *user)
{
    Reader r = {.at = text, .each = each, .user = user};
    for (skip(&r); *r.at && !r.bad; skip(&r)) {
        read_value(&r);
    }
    return !r.bad;
}
