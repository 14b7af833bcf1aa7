/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes text with XXH3-128. Kernel fingerprints and cache keys are such digests. */
#include "runtime/pins/digest.h"

#include <inttypes.h>
#include <xxhash.h>

const char *digest_text(Arena *arena, const char *bytes, size_t n)
{
    XXH128_hash_t sum = XXH3_128bits(bytes, n);
    return arena_printf(arena, "%016" PRIx64 "%016" PRIx64, (uint64_t)sum.high64,
                        (uint64_t)sum.low64);
}
