/* SPDX-License-Identifier: Apache-2.0 */
/* What the tools over IR text share: reading a function, running passes on it with the verifier
 * after each, and the boundary that ends an error of memory or of the compiler. */
#ifndef TESSERA_TESTS_IR_TOOL_H
#define TESSERA_TESTS_IR_TOOL_H

#include "passes/pass.h"

/* The whole text of a file, or of standard input if the path is `-`; NULL: it cannot be read. */
char *tool_read(Arena *arena, const char *path, size_t *n);

/* Writes "TOOL: WHAT NAME" to standard error and returns the exit code 1. */
int tool_complain(const char *tool, const char *what, const char *name);

/* Parses and verifies a file, for `target` unless that is NULL. NULL: it failed, which was
 * reported. */
Func *tool_read_func(const char *tool, Diags *diags, const char *path, const char *target);

/* A schedule entry KEY[.SUB]=VALUE as a user's; false: it has another form, or there is no such
 * key. */
bool tool_add_entry(Func *func, const char *text);

/* Runs the passes of these names in this order, or all if the only name is "all", and verifies
 * after each. Returns the exit code. */
int tool_run_passes(const char *tool, Func *func, const char *const *names, int n);

/* Takes the value of option `name` if argv[*at] is that option. */
bool tool_take(int argc, char **argv, int *at, const char *name, const char **value);

/* Calls `process`, reports its diagnostics, and returns the exit code: 1 after a diagnostic, 2
 * after an error of memory or of the compiler. */
int tool_main(int (*process)(Diags *diags, const void *options), const void *options);

#endif
