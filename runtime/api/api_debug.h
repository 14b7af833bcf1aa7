/* SPDX-License-Identifier: Apache-2.0 */
/* Watching and steering the passes, for people who work on the compiler. Besides tessera.h and
 * api_search.h this is the only header that the program `tessera` includes. */
#ifndef TESSERA_RUNTIME_API_API_DEBUG_H
#define TESSERA_RUNTIME_API_API_DEBUG_H

#include <tessera/tessera.h>

typedef struct TesseraDebug {
    const char *print_after; /* a pass, "frontend", or "all": its IR */
    bool print_changed;      /* the IR after each pass that changed it */
    bool print_computations; /* what is computed over which axes, after `simplify`; with
                              * print_after after that pass instead */
    const char *stop_after;  /* no pass after this one; "frontend": none */
    const char *const *skip; /* passes to leave out, of those that may be */
    size_t n_skip;
    bool time_passes, count_work;
    bool verify; /* after each pass */
    /* Of tessera_interpret: it fails at the first op that makes a NaN of what is none; it tells how
     * this element of this result was computed (NULL: none). */
    bool trap_nan;
    const char *trace;
    int trace_rank;
    int64_t trace_index[TESSERA_MAX_RANK];
    void (*write)(void *user, const char *text, size_t n);
    void *user;
} TesseraDebug;

/* For later compilations with this context; NULL: off. The structure is copied, what it points to
 * is not. An unknown pass is an error of usage. */
TESSERA_API TesseraStatus tessera_debug(TesseraContext *context, const TesseraDebug *debug);

/* As tessera_kernel_explain with TESSERA_EXPLAIN_JSON, without the hints, for which other schedules
 * are compiled. */
TESSERA_API TesseraStatus tessera_kernel_figures(TesseraKernel *kernel, TesseraBytes *bytes);

/* As tessera_kernel_explain with TESSERA_EXPLAIN_HTML, and what differs from `other`, the same
 * kernel with another schedule. */
TESSERA_API TesseraStatus tessera_kernel_compare(TesseraKernel *kernel, TesseraKernel *other,
                                                 TesseraBytes *bytes);

#endif
