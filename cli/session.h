/* SPDX-License-Identifier: Apache-2.0 */
/* Error reporting of the program, its memory, and the context, program and device that a command
 * works with. */
#ifndef TESSERA_CLI_SESSION_H
#define TESSERA_CLI_SESSION_H

#include "cli/options.h"

#include <stdio.h>
#include <tessera/tessera.h>

/* The codes of the command line's errors: rows of the table that `tessera explain` shows. */
typedef enum FailCode {
    FAIL_VERB = 1001,
    FAIL_OPTION = 1002,
    FAIL_VALUE = 1003,
    FAIL_SIZE = 1004,
    FAIL_SET = 1005,
    FAIL_READ = 1006,
    FAIL_WRITE = 1007,
    FAIL_NPY = 1008,
    FAIL_DEVICE = 1010,
    FAIL_NO_DEVICE = 1011,
    FAIL_DIFFERENT = 1022,
    FAIL_TIMEOUT = 1023,
    FAIL_ASSUME = 1024,
    FAIL_WHERE_TO = 1025,
    FAIL_HOLD = 1027,
    FAIL_TOGETHER = 1029,
    FAIL_NO_FILE = 1030,
    FAIL_NO_CODE = 1031,
    FAIL_PARAMETER = 1032,
    FAIL_NOT_GIVEN = 1033,
    FAIL_ASSERTION = 1034,
    FAIL_STRIDES = 1035,
    FAIL_SLICE = 1037,
    FAIL_NO_END = 1038,
    FAIL_TRAP = 1039,
    FAIL_PINS = 1050,
    FAIL_STORE = 1051,
    FAIL_SEARCH = 1052,
} FailCode;

/* --diagnostics, wherever it stands: how all that follows is told. Returns 0, or an exit code. */
int diagnostics_read(int argc, char **argv);
/* One diagnostic on stderr; returns the status. */
int fail(TesseraStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_code(FailCode code, TesseraStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What fail_code would say, for who may not print when the time comes: n bytes at most, cut at the
 * end. Returns how many. */
size_t fail_words(char *out, size_t n, FailCode code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void show_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the last call said, errors or warnings. */
void show_diagnostics(const TesseraContext *context);
/* --allow and -Werror, for the context. */
int session_warn(const Options *options, TesseraContext *context);
/* An assertion that failed is a fault of the kernel: the first one, and how many there were; 0 when
 * all held. */
int fail_assertions(const TesseraMessages *said);
/* The context's error on stderr; keeps a reproducer of an internal one. */
int fail_context(const TesseraContext *context);
/* Ends the program when there is none: the command line tool may. */
void *alloc_or_exit(size_t bytes);
char *take_text(const char *text, size_t n);
/* The same until session_free, at the end of the program: what the command line was read into. */
void *session_alloc(size_t bytes);
char *keep_text(const char *text, size_t n);
/* A larger copy of an array of n items. */
void *keep_more(const void *items, size_t n, size_t item_bytes);
void session_free(void);

/* Of the names that `at` gives by index until NULL, one that `text` may have been meant to be, or
 * NULL when none is like it. */
const char *nearest_name(const char *text, const char *(*at)(size_t index));

/* What a verb works with. */
typedef struct Session {
    TesseraContext *context;
    TesseraProgram *program;
    const TesseraSignature *signature;
    TesseraDevice *device; /* NULL: none was opened */
    TesseraKernel *kernel;
} Session;
/* Context, debugging switches, program, kernel's signature. */
int session_open(const Options *options, Session *session);
void session_close(Session *session);
/* The debugging switches of the command line; what they tell goes to `to`. */
int session_debug(const Options *options, TesseraContext *context, FILE *to);
/* "cuda:1" */
int session_device(const Options *options, const char *wish, Session *session);
/* 0, or the exit code after a message: there is no kind of devices of this name. */
int check_device_name(const char *kind);
/* Options for the library, with what was inferred from arrays (`known` may be NULL). */
int session_options(const Options *options, Session *session, const TesseraTensor *known,
                    TesseraOptions *out);
/* Target from --target, or of the device of this machine. */
int session_compile(const Options *options, Session *session, const TesseraOptions *compile);

/* The kernels' signatures (cmd_describe.c). */
void describe(const Options *options, const Session *session, FILE *to);
/* A rule for make: what `made` is made from, into its file that ends in .d (dependencies.c). */
int write_dependencies(const TesseraProgram *program, const char *made);

#endif
