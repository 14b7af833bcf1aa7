/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes numbers and texts: little-endian, 8 bytes per number. One function per struct serves
 * both directions: each `serialize_` function writes the value it points to, or reads and checks
 * it. */
#ifndef TESSERA_RUNTIME_DEVICE_SERIALIZE_H
#define TESSERA_RUNTIME_DEVICE_SERIALIZE_H

#include "support/text.h"

#include <stdint.h>

typedef struct Serializer {
    Text *out;            /* NULL: reading */
    const char *at, *end; /* what is left to read */
    Arena *arena;         /* holds what is read */
    bool bad;             /* something read cannot be; it was replaced by what can */
} Serializer;

void serialize_i64(Serializer *way, int64_t *value);
/* Of least..most. */
void serialize_int(Serializer *way, int *value, int least, int most);
void serialize_bool(Serializer *way, bool *value);
/* May be NULL. */
void serialize_text(Serializer *way, const char **text);
/* How many items follow; when reading, space for them. Each takes 8 bytes at least. */
void *serialize_items(Serializer *way, void *items, int *n, size_t size);

#endif
