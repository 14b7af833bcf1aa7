/* SPDX-License-Identifier: Apache-2.0 */
/* The "did you mean" hint for misspelt words of the command line. */
#ifndef TESSERA_CLI_NEAREST_H
#define TESSERA_CLI_NEAREST_H

#include <stddef.h>

/* The name that `text` was probably meant to be, or NULL. `name_at` returns the names by index,
 * and NULL past the last one. */
const char *nearest_name(const char *text, const char *(*name_at)(size_t index));
/* `name` if `text` was probably meant to be it, else NULL. */
const char *nearest_of(const char *text, const char *name);

#endif
