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

/* What a context of libtessera has besides. Its texts are from the allocator; NULL: none. */
typedef struct CompilerState {
    char *warnings, *formatted;
    Arena told; /* holds the diagnostics of the last call that had any */
    TesseraDiagnostic *diagnostics;
    size_t n_diagnostics;
    int *allowed; /* codes of warnings; from the allocator */
    DiagPolicy policy;
    TesseraDebug debug;
    TesseraTarget target; /* of the last tessera_target */
    struct Cache *cache;  /* cached_codegen.c; NULL: was not asked yet */
    char *cache_folder;   /* NULL: as the environment says */
    int64_t cache_limit;
    char *host;      /* this CPU as keys have it: asking it takes longer than a hit; or NULL */
    bool cache_only; /* nothing is compiled to machine code */
    TesseraIsolate isolate;
    double isolate_seconds;       /* 0: as normal */
    char *worker;                 /* from the allocator; NULL: it is looked for */
    char *pins;                   /* the file of pins, or "off"; NULL: beside the source */
    struct TaskGate *gate;        /* api_tasks.c; NULL: no task yet */
    const atomic_bool *cancelled; /* of a task's own context; NULL: nobody can */
    struct CacheListing *listing; /* of the last tessera_cache_list; NULL: none */
    struct Doctor *doctor;        /* api_doctor.c; NULL: was not asked */
    const char *making;           /* which of many errors are about; NULL: there is one */
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
