/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of sources, which may be any bytes: UTF-8 is decoded one character at a time. */
#ifndef TESSERA_SUPPORT_UNICODE_H
#define TESSERA_SUPPORT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAB_WIDTH = 4 };

typedef struct Char {
    uint32_t code; /* U+FFFD when malformed */
    int bytes;
} Char;

/* The first character of text[0..n), n > 0. */
Char char_at(const char *text, size_t n);
/* Invisible, unassigned, or able to reorder what is around it: shown as U+FFFD. */
bool char_is_control(uint32_t code);
/* Columns of the terminal: combining marks take none, East Asian wide characters and emoji two. */
int char_width(uint32_t code);

#endif
