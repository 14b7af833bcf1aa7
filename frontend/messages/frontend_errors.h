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
/* The rows by index, not in the order of codes; NULL past the last one. */
const ErrorRow *error_row(size_t index);
/* A small program with this error and its corrected form, or two shell commands. */
typedef struct ErrorExample {
    int code;
    const char *wrong, *mended;
} ErrorExample;
/* NULL if the code has no example. */
const ErrorExample *error_example(int code);

enum { MAX_ERRORS = 40 };

/* As diag_error, but errors after the first MAX_ERRORS are dropped, which bounds the output for a
 * hostile file. Never NULL. */
Diag *front_error(Diags *diags, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diag *front_warning(Diags *diags, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports "… not supported yet". */
Diag *front_unsupported(Diags *diags, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Collects candidates for "did you mean". */
typedef struct Nearest {
    const char *wanted, *best;
    int distance;
} Nearest;
/* A hint at what to write instead of a word of another language; NULL if it is not one. */
const char *foreign_word_help(const char *word);
Nearest nearest_to(const char *wanted);
void nearest_try(Nearest *nearest, const char *candidate);
/* The best candidate if it differs little enough to be a typing error, else NULL. */
const char *nearest_found(const Nearest *nearest);
/* The schedule key, or the target, that a wrong word probably means: the name for it in another
 * system, or a typing error; NULL if there is none. */
const char *nearest_schedule_key(const char *word);
const char *nearest_target(const char *word);

/* True if MAX_ERRORS are reported: lowering stops. */
bool errors_are_enough(const Diags *diags);

/* From the start of `a` to the end of `b`. */
Span span_join(Span a, Span b);

#endif
