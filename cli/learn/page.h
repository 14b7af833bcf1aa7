/* SPDX-License-Identifier: Apache-2.0 */
/* A lesson's page: Markdown with placeholders for figures, shown on the terminal or in the book. */
#ifndef TESSERA_CLI_LEARN_PAGE_H
#define TESSERA_CLI_LEARN_PAGE_H

#include "cli/learn/lesson.h"
#include "cli/terminal.h"

#include <stdio.h>

/* The page with its placeholders filled: 0, or an exit code after a message. */
int page_filled(const Lesson *lesson, char **text);

typedef enum PageBlockKind {
    PAGE_HEADING,
    PAGE_PARAGRAPH,
    PAGE_ITEM, /* of a list */
    PAGE_CODE,
} PageBlockKind;

typedef struct PageBlock {
    PageBlockKind kind;
    char *text; /* one line, except of PAGE_CODE */
} PageBlock;
/* The next block of the text; false at its end. */
bool page_next(const char **at, PageBlock *block);

/* Text between marks: `code`, *emphasis*, or plain (mark ' '). Moves *at behind it; false at the
 * end. */
bool page_span(const char **at, char *mark, const char **text, size_t *n);

/* Writes the page, or other text of this form, in lines of the terminal's width. */
void page_show(FILE *to, const char *text);
/* One line behind a label in a style; further lines are indented. */
void page_line(FILE *to, Style style, const char *label, const char *text);
/* The page as HTML. */
void page_html(FILE *to, const char *text);

/* One HTML page with all lessons: 0, or an exit code after a message. */
int book_write(FILE *to, const Lesson *lessons, size_t n);
/* The page that the book fills (book_page.html). */
extern const char book_page[];

#endif
