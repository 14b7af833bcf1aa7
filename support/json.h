/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON (RFC 8259) as a tree in an arena. */
#ifndef TESSERA_SUPPORT_JSON_H
#define TESSERA_SUPPORT_JSON_H

#include "support/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
} JsonKind;

typedef struct Json Json;
struct Json {
    JsonKind kind;
    bool truth;         /* BOOL */
    double number;      /* NUMBER */
    const char *text;   /* STRING: terminated, but may hold zero bytes; */
    size_t n;           /* its bytes, or the children of ARRAY and OBJECT */
    const char *key;    /* of a member of an object, else NULL */
    Json *first, *next; /* the first child; the next one of the same parent */
};

/* The value that begins at text[0]; *end is where it ends. NULL: it is no JSON, holds bytes that
 * are not UTF-8, or is nested more than 64 deep. */
Json *json_parse(Arena *arena, const char *text, size_t n, size_t *end);
/* The same of a text that is one value and white space. */
Json *json_parse_all(Arena *arena, const char *text, size_t n);

/* Each of these takes NULL, and values of any kind: then there is nothing to be found. */
const Json *json_member(const Json *object, const char *key);
/* By the keys of nested objects, with dots between. */
const Json *json_path(const Json *object, const char *path);
const char *json_text(const Json *object, const char *path); /* NULL: no string */
bool json_truth(const Json *object, const char *path, bool otherwise);
/* False if it is no whole number of 53 bits. */
bool json_integer(const Json *number, int64_t *out);

#endif
