/* SPDX-License-Identifier: Apache-2.0 */
/* Formats a source: the same tokens and comments on the same lines, with the spacing of the
 * standard library's sources. */
#ifndef TESSERA_FRONTEND_SYNTAX_FORMATTER_H
#define TESSERA_FRONTEND_SYNTAX_FORMATTER_H

#include "frontend/frontend.h"

/* False after errors of the grammar: what cannot be read is left alone. Imports are not
 * followed. */
bool frontend_format(Arena *arena, Diags *diags, int source, Text *out);

#endif
