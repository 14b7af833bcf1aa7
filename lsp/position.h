/* SPDX-License-Identifier: Apache-2.0 */
/* Positions of the protocol: a line and a column from 0, the column in UTF-16 units, or in bytes
 * where the client agreed to it. Places outside of the text are moved to its nearest end. */
#ifndef TESSERA_LSP_POSITION_H
#define TESSERA_LSP_POSITION_H

#include "support/diag.h"

typedef struct LinedText {
    const char *text;
    size_t n;
    uint32_t *starts; /* of lines */
    size_t n_lines;
    bool utf8; /* columns are bytes */
} LinedText;

typedef struct Position {
    uint32_t line, column;
} Position;

/* The lines of the text, in memory of the arena. */
LinedText lined_text(Arena *arena, const char *text, size_t n, bool utf8);
uint32_t position_offset(const LinedText *lined, int64_t line, int64_t column);
Position offset_position(const LinedText *lined, uint32_t offset);
/* As the protocol's Range and Position. */
void put_position(Text *out, const LinedText *lined, uint32_t offset);
void put_range(Text *out, const LinedText *lined, uint32_t start, uint32_t end);

#endif
