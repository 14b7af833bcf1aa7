/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program. Without memory the program ends with a message: a command line tool may,
 * the library may not. */
#ifndef TESSERA_CLI_SESSION_MEMORY_H
#define TESSERA_CLI_SESSION_MEMORY_H

#include <stddef.h>

/* Zeroed memory, to be freed with free(). */
void *alloc_or_exit(size_t bytes);
char *copy_or_exit(const char *text, size_t n);

/* Zeroed memory that session_free releases at the end of the program. */
void *session_alloc(size_t bytes);
char *session_text(const char *text, size_t n);
/* A copy of an array of n items with space for one more. */
void *session_grow(const void *items, size_t n, size_t item_bytes);
void session_free(void);

#endif
