/* SPDX-License-Identifier: Apache-2.0 */
/* The primitive steps of serialization: integers, booleans, texts and arrays, each written or read
 * depending on the direction. Reading checks every bound, because the bytes may be damaged. */
#include "runtime/device/serialize.h"

#include <string.h>

void serialize_i64(Serializer *way, int64_t *value)
{
    uint64_t bits = (uint64_t)*value;
    char bytes[8];
    if (way->out) {
        for (int i = 0; i < 8; i++) {
            bytes[i] = (char)(bits >> 8 * i);
        }
        text_add_n(way->out, bytes, sizeof bytes);
        return;
    }
    if (way->end - way->at < 8) {
        way->bad = true;
        *value = 0;
        return;
    }
    bits = 0;
    for (int i = 0; i < 8; i++) {
        bits |= (uint64_t)(unsigned char)way->at[i] << 8 * i;
    }
    way->at += 8;
    *value = (int64_t)bits;
}

/* Of least..most. */
void serialize_int(Serializer *way, int *value, int least, int most)
{
    int64_t wide = *value;
    serialize_i64(way, &wide);
    if (way->out) {
        return; /* what is shown may be constant */
    }
    bool fits = wide >= least && wide <= most;
    way->bad |= !fits;
    *value = fits ? (int)wide : least;
}

void serialize_bool(Serializer *way, bool *value)
{
    int number = *value;
    serialize_int(way, &number, 0, 1);
    if (!way->out) {
        *value = number != 0;
    }
}

/* NULL is a text of length -1. */
void serialize_text(Serializer *way, const char **text)
{
    int64_t n = *text ? (int64_t)strlen(*text) : -1;
    serialize_i64(way, &n);
    if (way->out) {
        text_add(way->out, *text ? *text : "");
        return;
    }
    *text = NULL;
    if (n < -1 || n > way->end - way->at) {
        way->bad = true;
    } else if (n >= 0) {
        *text = arena_strndup(way->arena, way->at, (size_t)n);
        way->at += n;
    }
}

/* How many items follow; when reading, space for them. Each takes 8 bytes at least. */
void *serialize_items(Serializer *way, void *items, int *n, size_t size)
{
    serialize_int(way, n, 0, INT32_MAX);
    if (way->out) {
        return items;
    }
    if (*n > (way->end - way->at) / 8) {
        way->bad = true;
        *n = 0;
    }
    return arena_alloc(way->arena, size * (size_t)*n);
}
