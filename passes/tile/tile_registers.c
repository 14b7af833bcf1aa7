/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what the register file allows a memory-bound group: the elements of a row that a thread
 * keeps, and the blocks per multiprocessor. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "passes/analysis/narrow_rows.h"

enum {
    UNIT_REGISTERS = 65536, /* of a multiprocessor */
    THREAD_OWN = 16,        /* registers of a thread in addition to those of one tile */
    WEIGHT_OWN = 24,        /* and these, where weights are loaded along a row */
    GUARD_OWN = 12,         /* and these, where a row may end before its tiles */
    COLUMN_OWN = 3,         /* and these of each column: result, reciprocal, a value made of it */
    FUNCTION_OWN = 40,      /* where elements take long functions: constants and temporaries */
    WALK_REGISTERS = 128,   /* of a thread that walks rows and holds the results of columns */
    WALK_OWN = 28,          /* of them, in addition to tiles */
    REGISTER_BITS = 32,
};

/* Registers of an element of a row, while rows and columns are walked: what is loaded, what columns
 * have come to, and one more. */
static int64_t walk_words(const TilePlan *plan)
{
    return plan->tiles_per_cluster.loads + plan->tiles_per_cluster.folds + 1;
}

static bool holds_rows(const TilePlan *plan)
{
    bool rows = false;
    for (int i = 0; i < plan->n; i++) {
        rows = rows || tile_is_row(&plan->items[i]);
    }
    return rows;
}

/* Does the block hold a row at each step of a walk that columns are folded along, too? */
static bool walks_rows(const TilePlan *plan)
{
    return holds_rows(plan) && plan->tiles_per_cluster.class >= 0;
}

int64_t tile_most_held(const Op *group, const TilePlan *plan)
{
    if (!walks_rows(plan)) {
        return tile_most_a_thread(group);
    }
    int64_t most = (WALK_REGISTERS - WALK_OWN) / walk_words(plan);
    return min_i64(power_of_two_at_most(most), tile_most_of_ops(group));
}

/* Do rows fill the elements that threads have for their tiles? */
static bool rows_are_exact(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t held = power_of_two_at_least(max_i64(1, axis->step));
        if (tile_is_row(axis) && poly_divisor(axis->dim) % held != 0) {
            return false;
        }
    }
    return true;
}

static void count_words(Op *op, void *user)
{
    int64_t *words = user;
    bool kept = op->kind == OP_LOAD || op->kind == OP_REDUCE || op->kind == OP_FOLD;
    for (int i = 0; kept && i < op->n_results; i++) {
        *words += ceil_div(dtype_bits(op->results[i]->type->dtype), REGISTER_BITS);
    }
}

/* Registers of an element that passes through a long function: what is loaded, since all loads of a
 * step are issued before the first element is computed, and what it is reduced into. */
static int64_t function_words(const Op *group)
{
    int64_t words = 0;
    block_walk(group->regions[0], count_words, &words);
    return words;
}

/* Memory-bound blocks overlap one another's loads, work and stores: several share a
 * multiprocessor. */
int64_t tile_choose_blocks(Func *func, const Op *group, const TilePlan *plan, int64_t threads)
{
    int64_t most = func->target->sm_threads / (tile_gathers_amid_work(group) ? 4 : 2);
    /* With more elements a thread, registers for fewer threads. */
    int64_t held = plan->elements / threads;
    int64_t own = THREAD_OWN + (tile_loads_of_rows(group) > MAX_ROW_LOADS ? WEIGHT_OWN : 0);
    if (plan->cluster > 1 && an_narrow_rows(group->regions[0])) {
        /* rematerialize_casts.c keeps two elements in one register. */
        held = (held + 1) / 2;
        own = THREAD_OWN + (own - THREAD_OWN) / 2 + (rows_are_exact(plan) ? 0 : GUARD_OWN);
    } else if (plan->cluster > 1 && !tile_is_row(&plan->items[plan->n - 1])) {
        own += COLUMN_OWN * tile_widest_access(group); /* a row's are among all threads' */
    }
    if (walks_rows(plan)) {
        held *= walk_words(plan);
        own = WALK_OWN;
    } else if (!holds_rows(plan) && tile_has_long_functions(func, group)) {
        held *= function_words(group);
        own = FUNCTION_OWN;
    }
    int64_t each = round_up(held + own, func->target->register_step);
    int64_t fitting = UNIT_REGISTERS / max_i64(each, UNIT_REGISTERS / most);
    return tile_checked_blocks(func, (int)fitting, threads);
}
