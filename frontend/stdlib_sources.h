/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of the standard library (stdlib/ *.tile), which cmake/stdlib.cmake builds into the
 * program. */
#ifndef TESSERA_FRONTEND_STDLIB_SOURCES_H
#define TESSERA_FRONTEND_STDLIB_SOURCES_H

#include <stddef.h>

typedef struct StdlibSource {
    const char *name; /* <stdlib/math.tile> */
    const char *text;
    size_t n;
} StdlibSource;

extern const StdlibSource stdlib_sources[];
extern const size_t stdlib_count;

#endif
