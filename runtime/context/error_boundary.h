/* SPDX-License-Identifier: Apache-2.0 */
/* The arena and diagnostics of one public object, with the error boundary in which it is created.
 */
#ifndef TESSERA_RUNTIME_API_ERROR_BOUNDARY_H
#define TESSERA_RUNTIME_API_ERROR_BOUNDARY_H

#include "support/arena.h"
#include "support/diag.h"

#include <tessera/tessera.h>

/* What one object was made from and with: an arena, and the diagnostics in it. */
typedef struct ErrorBoundary {
    TesseraContext *context;
    Arena arena;
    Diags diags;
} ErrorBoundary;

void work_init(ErrorBoundary *work, TesseraContext *context);
void work_free(ErrorBoundary *work);
/* Calls with both guards set. False from `task`: there are diagnostics. All that can go wrong
 * becomes a status and the context's error; `reproducer` makes the text for a bug, may be NULL. */
typedef bool BoundaryFn(void *user);
typedef void WorkReproducer(void *user, Text *out);
TesseraStatus error_boundary_run(ErrorBoundary *work, BoundaryFn *task, WorkReproducer *reproducer,
                                 void *user);

#endif
