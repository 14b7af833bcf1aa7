/* SPDX-License-Identifier: Apache-2.0 */
/* Maps a size to its bucket and prints, parses and compares buckets. All sizes of a bucket use the
 * schedule that was measured for one of them. */
#include "runtime/pins/size_bucket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MULTIPLES[] = {64, 8, 1};

static int64_t multiple_of(int64_t size)
{
    int i = 0;
    while (size % MULTIPLES[i] != 0) {
        i++;
    }
    return MULTIPLES[i];
}

Bucket bucket_of(int64_t size)
{
    Bucket bucket = {.least = size, .most = size, .multiple = multiple_of(size)};
    if (size > 2) {
        int64_t half = 2;
        while (half < size - half) {
            half *= 2;
        }
        bucket.least = half + 1;
        bucket.most = half > INT64_MAX / 2 ? INT64_MAX : 2 * half;
    }
    return bucket;
}

bool bucket_same(const Bucket *a, const Bucket *b)
{
    return a->least == b->least && a->most == b->most && a->multiple == b->multiple;
}

void bucket_print(const char *name, const Bucket *bucket, Text *out)
{
    text_printf(out, "%s=%" PRId64, name, bucket->least);
    if (bucket->most != bucket->least) {
        text_printf(out, "..%" PRId64, bucket->most);
    }
    if (bucket->multiple != 1) {
        text_printf(out, "%%%" PRId64, bucket->multiple);
    }
}

static bool take_number(const char **at, int64_t *number)
{
    char *end;
    errno = 0;
    *at += strspn(*at, " ");
    if (**at < '0' || **at > '9') {
        return false;
    }
    *number = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

static bool take(const char **at, const char *word)
{
    *at += strspn(*at, " ");
    size_t n = strlen(word);
    bool here = strncmp(*at, word, n) == 0;
    *at += here ? n : 0;
    return here;
}

bool bucket_read(Arena *arena, const char **at, const char **name, Bucket *bucket)
{
    *at += strspn(*at, " ");
    size_t n = strcspn(*at, " =,");
    *name = arena_strndup(arena, *at, n);
    *at += n;
    *bucket = (Bucket){.multiple = 1};
    if (n == 0 || !take(at, "=") || !take_number(at, &bucket->least)) {
        return false;
    }
    bucket->most = bucket->least;
    if ((take(at, "..") && !take_number(at, &bucket->most)) ||
        (take(at, "%") && !take_number(at, &bucket->multiple))) {
        return false;
    }
    /* The greatest of the bucket that its multiple divides is of the same bucket. */
    int64_t divides = bucket->multiple > 0 ? bucket->multiple : 1;
    Bucket real = bucket_of(bucket->most / divides * divides);
    bool exists = real.least == bucket->least && real.most == bucket->most &&
                  (bucket->multiple == 1 || bucket->multiple == 8 || bucket->multiple == 64);
    return exists && (take(at, ",") || **at == '\0');
}
