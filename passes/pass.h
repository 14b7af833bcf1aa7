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

/* Runs all passes for func->target; hooks may be NULL. False when a pass reported an error or a
 * hook stopped it. */
bool passes_run(Func *func, const PassHooks *hooks);

#define PASS(id, name, required, doc) void pass_##id(Func *func);
#include "passes/passes.def"
#undef PASS

#endif
