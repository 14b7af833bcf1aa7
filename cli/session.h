/* SPDX-License-Identifier: Apache-2.0 */
/* The context, program and device that a command works with. */
#ifndef TESSERA_CLI_SESSION_H
#define TESSERA_CLI_SESSION_H

#include "cli/cli_diagnostics.h"
#include "cli/nearest.h"
#include "cli/options.h"
#include "cli/session_memory.h"

#include <stdio.h>
#include <tessera/tessera.h>

typedef struct Session {
    TesseraContext *context;
    TesseraProgram *program;
    const TesseraSignature *signature;
    TesseraDevice *device; /* NULL: none is open */
    TesseraKernel *kernel;
} Session;

/* Opens the context with the options for debugging and warnings, reads the program and finds the
 * kernel. All functions return 0, or an exit code after a message. */
int session_open(const Options *options, Session *session);
void session_close(Session *session);
/* Applies the options for debugging; their output goes to `to`. */
int session_debug(const Options *options, TesseraContext *context, FILE *to);
/* Opens a device by its name on the command line, as "cuda:1". */
int session_device(const Options *options, const char *name, Session *session);
/* Checks the kind of a device, as "cuda" or "cuda:1". */
int check_device_name(const char *name);
/* The options of the library, with what it infers from the arrays of `known`, or from none if that
 * is NULL. */
int session_options(const Options *options, Session *session, const TesseraTensor *known,
                    TesseraOptions *out);
/* Compiles for the --target, or for the device of this machine. */
int session_compile(const Options *options, Session *session, const TesseraOptions *compile);

#endif
