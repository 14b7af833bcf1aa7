/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the shared library, or the program, that contains an address of code or data. */
#ifndef TESSERA_SUPPORT_SHARED_OBJECT_H
#define TESSERA_SUPPORT_SHARED_OBJECT_H

#include "support/text.h"

/* The linker's digest of it, in hexadecimal digits. False: it was linked without one. */
bool object_build(const void *inside, Text *out);

/* A file that can be read in the folder that it was loaded from, wherever the process has gone
 * since, or in that of the file which a link stands for; NULL: there is none. */
const char *object_sibling_path(Arena *arena, const void *inside, const char *file);

#endif
