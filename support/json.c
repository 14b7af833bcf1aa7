/* SPDX-License-Identifier: Apache-2.0 */
/* A parser of JSON by recursive descent. Text of a string is decoded in place of its escapes;
 * halves of surrogate pairs that stand alone become U+FFFD. */
#include "support/json.h"
#include "support/text.h"
#include "support/unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, LONGEST_NUMBER = 400 };

typedef struct Reader {
    Arena *arena;
    const char *at, *end;
    int depth;
} Reader;

static void skip(Reader *r)
{
    while (r->at < r->end && *r->at && strchr(" \t\r\n", *r->at)) {
        r->at++;
    }
}

static bool take(Reader *r, char sign)
{
    skip(r);
    bool here = r->at < r->end && *r->at == sign;
    r->at += here;
    return here;
}

/* ---- strings ---- */

static void append_code(char *text, size_t *n, uint32_t code)
{
    if (code < 0x80) {
        text[(*n)++] = (char)code;
        return;
    }
    int more = 3;
    if (code < 0x800) {
        more = 1;
    } else if (code < 0x10000) {
        more = 2;
    }
    static const unsigned char heads[] = {0, 0xC0, 0xE0, 0xF0};
    text[(*n)++] = (char)(heads[more] | code >> 6 * more);
    while (more-- > 0) {
        text[(*n)++] = (char)(0x80 | (code >> 6 * more & 0x3F));
    }
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    char lower = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    const char *found = c ? strchr(digits, lower) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Four hexadecimal digits; false if there are none. */
static bool take_hex(Reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = r->at < r->end ? hex_digit(*r->at) : -1;
        if (digit < 0) {
            return false;
        }
        *code = *code << 4 | (uint32_t)digit;
        r->at++;
    }
    return true;
}

/* After `\u`: a code, of two such escapes if the first is half of a pair. */
static bool take_unicode(Reader *r, uint32_t *code)
{
    if (!take_hex(r, code)) {
        return false;
    }
    Reader ahead = *r;
    uint32_t low;
    bool high = *code >= 0xD800 && *code < 0xDC00;
    if (high && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        ahead.at += 2;
        if (take_hex(&ahead, &low) && low >= 0xDC00 && low < 0xE000) {
            *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
            r->at = ahead.at;
            return true;
        }
    }
    *code = *code >= 0xD800 && *code < 0xE000 ? 0xFFFD : *code;
    return true;
}

static bool take_escape(Reader *r, char *text, size_t *n)
{
    static const char signs[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char sign = r->at < r->end ? *r->at++ : 0;
    const char *found = sign ? strchr(signs, sign) : NULL;
    if (found) {
        text[(*n)++] = means[found - signs];
        return true;
    }
    uint32_t code;
    if (sign != 'u' || !take_unicode(r, &code)) {
        return false;
    }
    append_code(text, n, code);
    return true;
}

/* After the first quote; NULL if it does not end. */
static char *take_string(Reader *r, size_t *n)
{
    const char *close = r->at;
    while (close < r->end && *close != '"') {
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    }
    if (close >= r->end) {
        return NULL;
    }
    char *text = arena_alloc_raw(r->arena, (size_t)(close - r->at) + 1);
    *n = 0;
    while (r->at < close) {
        if (*r->at == '\\') {
            r->at++;
            if (!take_escape(r, text, n)) {
                return NULL;
            }
            continue;
        }
        Char c = char_at(r->at, (size_t)(close - r->at));
        bool malformed = c.code == 0xFFFD && c.bytes == 1;
        if (malformed || c.code < ' ') {
            return NULL;
        }
        memcpy(text + *n, r->at, (size_t)c.bytes);
        *n += (size_t)c.bytes;
        r->at += c.bytes;
    }
    text[*n] = 0;
    r->at++;
    return text;
}

/* ---- values ---- */

static Json *take_value(Reader *r);

static Json *make(Reader *r, JsonKind kind)
{
    Json *json = ARENA_NEW(r->arena, Json);
    json->kind = kind;
    return json;
}

static const char *take_key(Reader *r)
{
    size_t n;
    const char *key = take(r, '"') ? take_string(r, &n) : NULL;
    return key && take(r, ':') ? key : NULL;
}

static Json *take_children(Reader *r, JsonKind kind, char closing)
{
    Json *parent = make(r, kind), **last = &parent->first;
    if (take(r, closing)) {
        return parent;
    }
    do {
        const char *key = kind == JSON_OBJECT ? take_key(r) : NULL;
        Json *child = kind == JSON_OBJECT && !key ? NULL : take_value(r);
        if (!child) {
            return NULL;
        }
        child->key = key;
        *last = child;
        last = &child->next;
        parent->n++;
    } while (take(r, ','));
    return take(r, closing) ? parent : NULL;
}

static Json *take_number(Reader *r)
{
    char digits[LONGEST_NUMBER + 1];
    size_t n = 0;
    while (r->at + n < r->end && n < LONGEST_NUMBER && r->at[n] &&
           strchr("+-.0123456789eE", r->at[n])) {
        digits[n] = r->at[n];
        n++;
    }
    digits[n] = 0;
    char *end;
    Json *json = make(r, JSON_NUMBER);
    json->number = strtod(digits, &end);
    r->at += n;
    return n > 0 && end == digits + n && digits[0] != '+' ? json : NULL;
}

static Json *take_word(Reader *r)
{
    static const struct {
        const char *word;
        JsonKind kind;
        bool truth;
    } words[] = {
        {"true", JSON_BOOL, true}, {"false", JSON_BOOL, false}, {"null", JSON_NULL, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i].word, n) == 0) {
            Json *json = make(r, words[i].kind);
            json->truth = words[i].truth;
            r->at += n;
            return json;
        }
    }
    return take_number(r);
}

static Json *take_value(Reader *r)
{
    if (r->depth >= MAX_DEPTH) {
        return NULL;
    }
    r->depth++;
    Json *json = NULL;
    if (take(r, '{')) {
        json = take_children(r, JSON_OBJECT, '}');
    } else if (take(r, '[')) {
        json = take_children(r, JSON_ARRAY, ']');
    } else if (take(r, '"')) {
        size_t n;
        const char *text = take_string(r, &n);
        json = text ? make(r, JSON_STRING) : NULL;
        if (json) {
            json->text = text;
            json->n = n;
        }
    } else {
        json = take_word(r);
    }
    r->depth--;
    return json;
}

Json *json_parse(Arena *arena, const char *text, size_t n, size_t *end)
{
    Reader r = {.arena = arena, .at = text, .end = text + n};
    Json *json = take_value(&r);
    *end = (size_t)(r.at - text);
    return json;
}

Json *json_parse_all(Arena *arena, const char *text, size_t n)
{
    Reader r = {.arena = arena, .at = text, .end = text + n};
    Json *json = take_value(&r);
    skip(&r);
    return r.at == r.end ? json : NULL;
}

/* ---- questions ---- */

const Json *json_member(const Json *object, const char *key)
{
    const Json *found = NULL;
    for (const Json *at = object && object->kind == JSON_OBJECT ? object->first : NULL; at;
         at = at->next) {
        found = text_equal(at->key, key) ? at : found; /* of equal keys the last one counts */
    }
    return found;
}

const Json *json_path(const Json *object, const char *path)
{
    while (object) {
        char key[64];
        size_t n = strcspn(path, ".");
        if (n >= sizeof key) {
            return NULL;
        }
        memcpy(key, path, n);
        key[n] = 0;
        object = json_member(object, key);
        if (!path[n]) {
            break;
        }
        path += n + 1;
    }
    return object;
}

const char *json_text(const Json *object, const char *path)
{
    const Json *json = json_path(object, path);
    return json && json->kind == JSON_STRING ? json->text : NULL;
}

bool json_truth(const Json *object, const char *path, bool otherwise)
{
    const Json *json = json_path(object, path);
    return json && json->kind == JSON_BOOL ? json->truth : otherwise;
}

bool json_integer(const Json *number, int64_t *out)
{
    bool is_integer = number && number->kind == JSON_NUMBER && fabs(number->number) < 0x1p53 &&
                      floor(number->number) == number->number;
    *out = is_integer ? (int64_t)number->number : 0;
    return is_integer;
}
