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
/* Between them nobody is stopped. */
void interrupts_hold(InterruptHold *hold);
void interrupts_go_on(const InterruptHold *hold);
/* The file that is removed when the program is stopped, or NULL: none any more. */
void interrupts_remove(const char *path);

/* Between them is compiling: when it takes longer than --timeout, or a minute, the program ends
 * with status 124. */
void timeout_begin(const Options *options);
void timeout_end(void);
/* From here to timeout_end inputs are made, or read: as long as is said, or any time. */
void inputs_begin(const Options *options);
/* Between them a kernel runs, on what `where` says: when that takes longer than --timeout the
 * program ends with status 4; and so it does when `own_code`, which runs on the CPU, makes an
 * access or an instruction that the machine refuses. */
void run_begin(const Options *options, bool own_code, const char *kernel, const char *where);
void run_begin_on(const Options *options, const char *kernel, const TesseraDevice *device);
void run_end(void);

#endif
