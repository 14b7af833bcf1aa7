/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string buffer in an arena; `data` is always terminated. */
#ifndef TESSERA_SUPPORT_TEXT_H
#define TESSERA_SUPPORT_TEXT_H

#include "support/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Text {
    Arena *arena;
    char *data;
    size_t n, cap;
    bool exact; /* text_double writes bits: for keys, many times as quick as decimals */
} Text;

Text text_new(Arena *arena);
/* With space for this many bytes: what is known to be long is not moved as it grows. */
Text text_new_for(Arena *arena, size_t bytes);
void text_add(Text *text, const char *piece);
void text_add_n(Text *text, const char *piece, size_t n);
void text_char(Text *text, char c);
void text_i64(Text *text, int64_t value);
void text_repeat(Text *text, char c, int times);
void text_printf(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(Text *text, const char *format, va_list args);
/* The shortest decimal that reads back as the same double; "inf", "-inf" and "nan" by name. Of
 * an exact text its bits, in hexadecimal digits. */
void text_double(Text *text, double value);
/* As a string of JSON, with its quotes. */
void text_json(Text *out, const char *text, size_t n);

bool text_equal(const char *a, const char *b);
/* The end of the line that begins here. */
const char *text_line_end(const char *at);
/* "softmax.tile" of "examples/softmax.tile". */
const char *path_file(const char *path);
/* Bytes of the mark with which some editors begin a file of UTF-8, and which means nothing. */
size_t text_mark(const char *text, size_t n);
/* How far `b` is from what somebody wrote as `a`, for "did you mean": edits (insert, leave out,
 * replace, swap two neighbours), a whole one TEXT_EDIT. Where words are joined, and large or small
 * letters, people do not remember: sm90 is nearly sm_90. A number is not another one by a slip of
 * the fingers: sm_90 is not sm_80. */
enum { TEXT_EDIT = 4 };
int text_distance(const char *a, const char *b);

#endif
