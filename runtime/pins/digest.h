/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of text, by which kernels and their measured schedules are found again. */
#ifndef TESSERA_RUNTIME_PINS_DIGEST_H
#define TESSERA_RUNTIME_PINS_DIGEST_H

#include "support/arena.h"

/* XXH3-128 as 32 hexadecimal digits. */
const char *digest_text(Arena *arena, const char *bytes, size_t n);

#endif
