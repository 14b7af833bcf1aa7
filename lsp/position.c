/* SPDX-License-Identifier: Apache-2.0 */
/* Converts between offsets in bytes and positions of the protocol. */
#include "lsp/position.h"
#include "support/unicode.h"

LinedText lined_text(Arena *arena, const char *text, size_t n, bool utf8)
{
    LinedText lined = {.text = text, .n = n, .utf8 = utf8, .n_lines = 1};
    for (size_t i = 0; i < n; i++) {
        lined.n_lines += text[i] == '\n';
    }
    lined.starts = ARENA_ARRAY(arena, uint32_t, lined.n_lines);
    size_t line = 1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            lined.starts[line++] = (uint32_t)i + 1;
        }
    }
    return lined;
}

/* Where the line ends, before its line break. */
static uint32_t line_end(const LinedText *lined, size_t line)
{
    uint32_t end = line + 1 < lined->n_lines ? lined->starts[line + 1] - 1 : (uint32_t)lined->n;
    bool carriage = end > lined->starts[line] && end < lined->n && lined->text[end - 1] == '\r';
    return carriage ? end - 1 : end;
}

static uint32_t units(const LinedText *lined, Char c)
{
    if (lined->utf8) {
        return (uint32_t)c.bytes;
    }
    return c.code >= 0x10000 ? 2 : 1;
}

uint32_t position_offset(const LinedText *lined, int64_t line, int64_t column)
{
    if (line < 0) {
        return 0;
    }
    if ((uint64_t)line >= lined->n_lines) {
        return (uint32_t)lined->n;
    }
    uint32_t at = lined->starts[line], end = line_end(lined, (size_t)line);
    for (int64_t left = column; at < end && left > 0;) {
        Char c = char_at(lined->text + at, end - at);
        left -= units(lined, c);
        at += left >= 0 ? (uint32_t)c.bytes : 0; /* the middle of a character is its start */
    }
    return at;
}

Position offset_position(const LinedText *lined, uint32_t offset)
{
    size_t low = 0, high = lined->n_lines;
    offset = offset > lined->n ? (uint32_t)lined->n : offset;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (lined->starts[middle] <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Position position = {(uint32_t)low, 0};
    for (uint32_t at = lined->starts[low]; at < offset;) {
        Char c = char_at(lined->text + at, lined->n - at);
        position.column += units(lined, c);
        at += (uint32_t)c.bytes;
    }
    return position;
}

void put_position(Text *out, const LinedText *lined, uint32_t offset)
{
    Position at = offset_position(lined, offset);
    text_printf(out, "{\"line\":%u,\"character\":%u}", at.line, at.column);
}

void put_range(Text *out, const LinedText *lined, uint32_t start, uint32_t end)
{
    text_add(out, "{\"start\":");
    put_position(out, lined, start);
    text_add(out, ",\"end\":");
    put_position(out, lined, end);
    text_char(out, '}');
}
