/* SPDX-License-Identifier: Apache-2.0 */
/* What one object is made with, and where errors of making it end. */
#ifndef TESSERA_RUNTIME_API_ERROR_BOUNDARY_H
#define TESSERA_RUNTIME_API_ERROR_BOUNDARY_H

#include "support/arena.h"
#include "support/diag.h"

#include <tessera/tessera.h>

/* What one object was made from and with: an arena, and the diagnostics in it. */
typedef struct Work {
    TesseraContext *context;
    Arena arena;
    Diags diags;
} Work;


void work_init(Work *work, TesseraContext *context);
void work_free(Work *work);
/* Calls with both guards set. False from `task`: there are diagnostics. All that can go wrong
 * becomes a status and the context's error; `reproducer` makes the text for a bug, may be NULL. */
typedef bool WorkTask(void *user);
typedef void WorkReproducer(void *user, Text *out);
TesseraStatus work_run(Work *work, WorkTask *task, WorkReproducer *reproducer, void *user);

#endif
