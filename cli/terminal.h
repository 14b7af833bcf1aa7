/* SPDX-License-Identifier: Apache-2.0 */
/* What the terminal can show: its width, and whether it has colour. */
#ifndef TESSERA_CLI_TERMINAL_H
#define TESSERA_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Styles of text; the escape sequences are in terminal.c. */
typedef enum Style {
    STYLE_NONE,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_CODE,
    STYLE_GOOD,
    STYLE_BAD,
    STYLE_WARN,
    N_STYLES,
} Style;

/* Applies --color wherever it stands, before any other option is parsed, so that errors in options
 * have the requested form. Returns 0, or an exit code after a message. */
int color_read(int argc, char **argv);
/* "auto", "always" or "never"; false: it is no such word. */
bool color_set(const char *text);
/* True if the stream shows colour: as --color says, else as NO_COLOR and TERM do, else whether it
 * is a terminal. */
bool has_color(FILE *stream);
/* The escape sequence that begins a style, "" without colour; STYLE_NONE ends all. */
const char *style_of(FILE *stream, Style style);
/* Prints a diagnostic of several lines, as the library formats it, with the styles of its parts. */
void diagnostic_color(FILE *to, const char *text);
/* Columns of standard output, MIN_COLUMNS to MAX_COLUMNS: of the terminal, of COLUMNS, or 80. */
enum { MIN_COLUMNS = 30, MAX_COLUMNS = 100 };
int terminal_columns(void);

#endif
