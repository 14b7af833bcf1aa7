/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's part of a public context, which libtessera-launch does not have, and how errors
 * become the context's. */
#ifndef TESSERA_RUNTIME_CONTEXT_COMPILER_CONTEXT_H
#define TESSERA_RUNTIME_CONTEXT_COMPILER_CONTEXT_H

#include "runtime/api/api_debug.h"
#include "runtime/launch/launch_context.h"
#include "support/arena.h"

#include <stdatomic.h>
#include <tessera/tessera.h>

/* The part of a context that only libtessera has. Its texts are from the allocator; NULL: none. */
typedef struct CompilerState {
    char *warnings, *formatted;
    Arena diagnostics_arena; /* memory of `diagnostics`, those of the last call that had any */
    TesseraDiagnostic *diagnostics;
    size_t n_diagnostics;
    int *allowed; /* codes of warnings; from the allocator */
    DiagPolicy policy;
    TesseraDebug debug;
    TesseraTarget target; /* of the last tessera_target */
    struct Cache *cache;  /* NULL: not opened yet */
    char *cache_folder;   /* NULL: the environment decides */
    int64_t cache_limit;
    char *host;      /* this CPU in cache keys: to detect it takes longer than a hit; or NULL */
    bool cache_only; /* code that is not in the cache is an error */
    TesseraIsolate isolate;
    double isolate_seconds; /* time limit of a worker; 0: the default */
    char *worker;           /* its path; NULL: it is searched for */
    char *pins;             /* the pin file, or "off"; NULL: the one next to the source */
    struct TaskGate *gate;  /* api_tasks.c; NULL: no task yet */
    const atomic_bool
        *cancelled; /* whether the task of this context is; NULL: it is not a task's */
    struct CacheListing *listing; /* of the last tessera_cache_list; NULL: none */
    struct Doctor *doctor;      /* findings of the last tessera_doctor (api_doctor.c); NULL: none */
    const char *bundle_variant; /* the variant of a bundle that errors are about; NULL: none */
} CompilerState;

/* ---- errors (stored_diagnostics.c) ---- */

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered);
/* Copies diagnostics for tessera_diagnostics; without memory there are none. */
void context_store_diagnostics(TesseraContext *context, const Diags *diags);
/* The class that becomes this status; DIAG_INTERNAL: none does. */
DiagClass diag_class_of(TesseraStatus status);
void context_tell_plain(TesseraContext *context, TesseraStatus status, int code,
                        const char *message);

#endif
