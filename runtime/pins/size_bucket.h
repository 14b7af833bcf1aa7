/* SPDX-License-Identifier: Apache-2.0 */
/* Size buckets: a schedule that was measured at one size is used for all sizes of its bucket.
 *
 * A bucket is an octave that ends in a power of two, such as 2049..4096, so that tiles chosen for
 * its maximum cover the others, combined with a divisor of its sizes: 64, which suits dot tiles
 * and vectors of every type; 8, the least for which rows of 16-bit elements begin at multiples of
 * 16 bytes; or 1. */
#ifndef TESSERA_RUNTIME_PINS_SIZE_BUCKET_H
#define TESSERA_RUNTIME_PINS_SIZE_BUCKET_H

#include "support/text.h"

#include <stdint.h>

typedef struct Bucket {
    int64_t least, most; /* both are in it */
    int64_t multiple;    /* 64, 8 or 1 */
} Bucket;

/* Of a size from 0 on. */
Bucket bucket_of(int64_t size);
bool bucket_same(const Bucket *a, const Bucket *b);

/* "M=2049..4096%64"; without what divides where that is 1. */
void bucket_print(const char *name, const Bucket *bucket, Text *out);
/* The next of "K=…, M=…" at *at, which continues behind it; the arena holds the name. False: there
 * is none, or it is no bucket that there is. */
bool bucket_read(Arena *arena, const char **at, const char **name, Bucket *bucket);

#endif
