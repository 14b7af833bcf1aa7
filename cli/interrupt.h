/* SPDX-License-Identifier: Apache-2.0 */
/* How the program ends early: by a signal, by --timeout, or by a fault of a kernel. */
#ifndef TESSERA_CLI_INTERRUPT_H
#define TESSERA_CLI_INTERRUPT_H

#include "cli/options.h"

#include <signal.h>
#include <tessera/tessera.h>

typedef struct InterruptHold {
    sigset_t before;
} InterruptHold;
void interrupts_begin(void);
/* Between these calls, signals that end the program are delayed. */
void interrupts_hold(InterruptHold *hold);
void interrupts_release(const InterruptHold *hold);
/* Sets the file that is removed if the program is stopped; NULL: none. */
void interrupts_remove(const char *path);

/* Between these calls the program compiles: if that exceeds --timeout, or by default a minute of
 * CPU time, the program ends with status 124. */
void timeout_begin(const Options *options);
void timeout_end(void);
/* From here to timeout_end inputs are generated or read, limited only by --timeout. */
void inputs_begin(const Options *options);
/* Between these calls a kernel runs on the device `where`. The program ends with status 4 if that
 * exceeds --timeout, or if `own_code`, which runs on the CPU, makes an access or executes an
 * instruction that the machine refuses. */
void run_begin(const Options *options, bool own_code, const char *kernel, const char *where);
void run_begin_on(const Options *options, const char *kernel, const TesseraDevice *device);
void run_end(void);

#endif
