/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and notes of the program on standard error, and the exit codes that follow from them. */
#ifndef TESSERA_CLI_CLI_DIAGNOSTICS_H
#define TESSERA_CLI_CLI_DIAGNOSTICS_H

#include <stddef.h>
#include <tessera/tessera.h>

/* The codes of the command line's errors: rows of the table that `tessera explain` shows. */
typedef enum FailCode {
    FAIL_COMMAND = 1001,
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
    FAIL_COMPILE_TIMEOUT = 1023,
    FAIL_ASSUME = 1024,
    FAIL_NO_OUTPUT = 1025,
    FAIL_NOT_REPRESENTABLE = 1027,
    FAIL_CONFLICT = 1029,
    FAIL_NO_FILE = 1030,
    FAIL_NO_CODE = 1031,
    FAIL_PARAMETER = 1032,
    FAIL_NOT_GIVEN = 1033,
    FAIL_ASSERTION = 1034,
    FAIL_STRIDES = 1035,
    FAIL_SLICE = 1037,
    FAIL_KERNEL_TIMEOUT = 1038,
    FAIL_TRAP = 1039,
    FAIL_PINS = 1050,
    FAIL_STORE = 1051,
    FAIL_SEARCH = 1052,
} FailCode;

/* Applies --diagnostics wherever it stands, before any other option is parsed, so that errors in
 * options have the requested form. Returns 0, or an exit code after a message. */
int diagnostics_read(int argc, char **argv);

/* Prints one error; returns the status. */
int fail(TesseraStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_code(FailCode code, TesseraStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes what fail_code would print into `out`, at most n bytes, for a signal handler, which may
 * not format it. Returns the number of bytes. */
size_t fail_text(char *out, size_t n, FailCode code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void show_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the errors and warnings of the context's last call. */
void show_diagnostics(const TesseraContext *context);
/* Prints the context's error and returns its status; writes a reproducer of an internal error. */
int fail_context(const TesseraContext *context);
/* Reports the first failed assertion of a kernel and their number; 0 if all held. */
int fail_assertions(const TesseraMessages *messages);

#endif
