/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_PINS_DIGEST_H
#define TESSERA_PINS_DIGEST_H

#include "ir/base/arena.h"

/* XXH3-128 as 32 hexadecimal digits. */
const char *digest_text(Arena *arena, const char *bytes, size_t n);

#endif
