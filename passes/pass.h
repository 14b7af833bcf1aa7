/* SPDX-License-Identifier: Apache-2.0 */
/* A pass is a function from IR to IR with one job, one file, one row of passes.def. */
#ifndef TESSERA_PASSES_PASS_H
#define TESSERA_PASSES_PASS_H

#include "ir/ir.h"

typedef void PassFn(Func *func);

typedef struct Pass {
    const char *name;
    PassFn *run;
    bool required; /* may it be skipped (--skip)? */
    const char *doc;
} Pass;

/* The rows of passes.def, in the order in which they run. */
const Pass *pass_rows(size_t *n);

/* One line in `out` per constraint that the table of passes breaks; returns how many. */
int passes_check_constraints(Text *out);

typedef struct PassHooks {
    void *user;
    /* After each pass; return false to stop the compilation there. */
    bool (*after)(void *user, const Pass *pass, Func *func, double seconds);
    /* May be NULL. True: leave this pass out. */
    bool (*skip)(void *user, const Pass *pass);
    bool verify; /* after each pass; a failure is diag_bug */
} PassHooks;

/* The two parts of the table, for func->target: the passes before `tile` run once, those from
 * `tile` on again with smaller tiles while these do not fit. False when a pass reported an error or
 * a hook stopped it. */
bool passes_run_before_tile(Func *func, const PassHooks *hooks);
bool passes_run_from_tile(Func *func, const PassHooks *hooks);

/* The attempts to find tiles that fit (retry_smaller_tiles.c). Begins with a copy of the
 * function as it is before `tile`; `hooks` must stay valid. */
typedef struct TileRetry TileRetry;
TileRetry *retry_begin(Func *func, const PassHooks *hooks);
/* After passes_run_from_tile has failed: the function is as before `tile` again, and `tile` will
 * choose smaller tiles. False: another error, a hook that stopped, or nothing is left to try; the
 * diagnostics then say which schedule entries would fit. */
bool retry_with_smaller_tiles(TileRetry *retry);
/* After code generation for a CPU has failed, with diagnostics from `n_diags` on: if these say only
 * that tiles take too much stack, they are forgotten, and the passes run again with smaller tiles.
 * True if they did. */
bool retry_with_less_stack(TileRetry *retry, size_t n_diags, int errors);

#define PASS(id, name, required, doc) void pass_##id(Func *func);
#include "passes/passes.def"
#undef PASS

#endif
