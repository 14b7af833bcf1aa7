/* SPDX-License-Identifier: Apache-2.0 */
/* The error codes of the front end (frontend_errors.def), the functions that report them, and the
 * "did you mean" search. */
#ifndef TESSERA_FRONTEND_MESSAGES_FRONTEND_ERRORS_H
#define TESSERA_FRONTEND_MESSAGES_FRONTEND_ERRORS_H

#include "ir/ir_errors.h"
#include "support/diag.h"

typedef enum ErrorCode {
#define ERROR(id, code, title, explanation) ERR_##id = code,
#include "frontend/messages/frontend_errors.def"
    ERR_NONE = 0
} ErrorCode;

/* A row of the tables; the codes of all components are there. */
typedef struct ErrorRow {
    int code;
    const char *title, *explanation;
} ErrorRow;
/* By number, in no order of codes; NULL after the last. */
const ErrorRow *error_row(size_t index);
/* A small program that gets this error, and what was meant; or lines of a shell. */
typedef struct ErrorExample {
    int code;
    const char *wrong, *mended;
} ErrorExample;
/* NULL when there is none. */
const ErrorExample *error_example(int code);

enum { MAX_ERRORS = 40 };

/* As diag_error, but after MAX_ERRORS of them the rest is dropped: a hostile file gets a page, not
 * a gigabyte. Never NULL. */
Diag *front_error(Diags *diags, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diag *front_warning(Diags *diags, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "… is not supported yet". */
Diag *front_unsupported(Diags *diags, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Collects candidates for "did you mean". */
typedef struct Nearest {
    const char *wanted, *best;
    int distance;
} Nearest;
/* What is written here for a word of another language; NULL: it is none. */
const char *habit_help(const char *word);
Nearest nearest_to(const char *wanted);
void nearest_try(Nearest *nearest, const char *candidate);
/* The best one if it is near enough to be a slip of the fingers, else NULL. */
const char *nearest_found(const Nearest *nearest);
/* The key of a schedule line, the target, that is meant by a word that is none: what other systems
 * call it, or a slip of the fingers; NULL: nobody knows. */
const char *nearest_line(const char *word);
const char *nearest_target(const char *word);

/* There were so many that nobody reads on: stop. */
bool errors_are_enough(const Diags *diags);

/* From the start of `a` to the end of `b`. */
Span span_join(Span a, Span b);

#endif
