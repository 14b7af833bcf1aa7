/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_launch_config: records on CPU launches how many threads execute the blocks and how many
 * vectors an inner loop takes per iteration.
 *
 *   launch dims=[N] steps=[1024] {…}   →   launch dims=[N] steps=[1024] threads=4 unroll=2 {…}
 *
 * Only values of the user's schedule are recorded: without `threads` all threads of the pool
 * execute blocks, and without `unroll` code generation chooses for each loop. Requires: tile.
 * `unroll` changes the association order of row sums, and no other bits. */
#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/pass.h"

enum { MAX_THREADS = 1024, MAX_UNROLL = 16 };

/* The number that is given for the key, 0: none, or an error. */
static int64_t given(Func *func, const char *key, int64_t most, bool power)
{
    const ScheduleEntry *line = schedule_user_entry(func, key, "");
    if (!line || line->symbol) {
        return 0;
    }
    int64_t n = line->number;
    if (n < 1 || n > most || (power && (n & (n - 1)))) {
        Diag *d = diag_error(func->diags, ERR_HOST, line->span, "`%s %lld` is not possible", key,
                             (long long)n);
        diag_help(func->diags, d, "%s from 1 to %lld", power ? "a power of two" : "a number",
                  (long long)most);
        return 0;
    }
    return n;
}

void pass_cpu_launch_config(Func *func)
{
    if (!func->target || func->target->family != FAMILY_CPU) {
        return;
    }
    int64_t threads = given(func, "threads", MAX_THREADS, false);
    int64_t unroll = given(func, "unroll", MAX_UNROLL, true);
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH && threads > 0) {
            op_set_int(func, op, ATTR_THREADS, threads);
        }
        if (op->kind == OP_LAUNCH && unroll > 0) {
            op_set_int(func, op, ATTR_UNROLL, unroll);
        }
    }
}
