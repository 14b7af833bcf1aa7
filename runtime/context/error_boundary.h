/* SPDX-License-Identifier: Apache-2.0 */
/* The arena and diagnostics of one public object, with the error boundary in which it is created.
 */
#ifndef TESSERA_RUNTIME_API_ERROR_BOUNDARY_H
#define TESSERA_RUNTIME_API_ERROR_BOUNDARY_H

#include "support/arena.h"
#include "support/diag.h"

#include <tessera/tessera.h>

/* The arena and diagnostics of one object. */
typedef struct ErrorBoundary {
    TesseraContext *context;
    Arena arena;
    Diags diags;
} ErrorBoundary;

void work_init(ErrorBoundary *work, TesseraContext *context);
void work_free(ErrorBoundary *work);
/* Runs `task`, which returns false after a diagnostic. An allocation failure, an internal error and
 * a diagnostic become a status and the error of the context; `reproducer`, which may be NULL,
 * writes a program that reproduces an internal error. The task runs on a deep stack
 * (support/deep_stack.h), for which the caller's thread waits. */
typedef bool BoundaryFn(void *user);
typedef void WorkReproducer(void *user, Text *out);
TesseraStatus error_boundary_run(ErrorBoundary *work, BoundaryFn *task, WorkReproducer *reproducer,
                                 void *user);
/* The same on the caller's stack, for tasks of some microseconds that walk over no operands. */
TesseraStatus error_boundary_run_here(ErrorBoundary *work, BoundaryFn *task, void *user);
/* The same within another task, for an attempt whose failure is none of the call: false, and the
 * context learns nothing of it. */
bool error_boundary_try(ErrorBoundary *work, BoundaryFn *task, void *user);

#endif
