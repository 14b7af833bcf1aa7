/* SPDX-License-Identifier: Apache-2.0 */
/* What the registers of a memory-bound group allow: the elements of a row that a thread holds, and
 * the blocks of a multiprocessor. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "passes/analysis/narrow_rows.h"

enum {
    UNIT_REGISTERS = 65536, /* of a multiprocessor */
    THREAD_BESIDE = 16,     /* registers of a thread beside those of one value */
    LOADS_BESIDE = 24,      /* and these, where weights are loaded along a row */
    GUARDS_BESIDE = 8,      /* and these, where a row may end before its tiles */
    COLUMN_BESIDE = 3,      /* and these of each column: result, reciprocal, what is made of it */
    WALK_REGISTERS = 128,   /* of a thread that walks rows and holds what columns come to */
    WALK_BESIDE = 28,       /* of them, beside tiles */
};

/* Registers of an element of a row, while rows and columns are walked: what is loaded, what columns
 * have come to, and one more. */
static int64_t walk_words(const TilePlan *plan)
{
    return plan->tiles_per_cluster.loads + plan->tiles_per_cluster.folds + 1;
}

/* Does the block hold a row at each step of a walk that columns are folded along, too? */
static bool walks_rows(const TilePlan *plan)
{
    bool rows = false;
    for (int i = 0; i < plan->n; i++) {
        rows = rows || tile_is_row(&plan->items[i]);
    }
    return rows && plan->tiles_per_cluster.class >= 0;
}

int64_t tile_most_held(const Op *group, const TilePlan *plan)
{
    if (!walks_rows(plan)) {
        return tile_most_a_thread(group);
    }
    int64_t most = (WALK_REGISTERS - WALK_BESIDE) / walk_words(plan);
    return min_i64(power_of_two_at_most(most), tile_most_of_ops(group));
}

static bool rows_are_exact(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        Dim dim = plan->items[i].dim;
        if (tile_is_row(&plan->items[i]) && poly_divisor(dim) < poly_most(dim)) {
            return false;
        }
    }
    return true;
}

/* Memory-bound blocks overlap one another's loads, work and stores: several share a
 * multiprocessor. */
int64_t tile_choose_blocks(Func *func, const Op *group, const TilePlan *plan, int64_t threads)
{
    int64_t most = func->target->sm_threads / (tile_gathers_amid_work(group) ? 4 : 2);
    /* With more elements a thread, registers for fewer threads. */
    int64_t held = plan->elements / threads;
    int64_t beside = tile_loads_of_rows(group) > MAX_ROW_LOADS ? LOADS_BESIDE : 0;
    if (plan->cluster > 1 && an_narrow_rows(group->regions[0])) {
        /* rematerialize_casts.c keeps two elements in one register. */
        held = (held + 1) / 2;
        beside = beside / 2 + (rows_are_exact(plan) ? 0 : GUARDS_BESIDE);
    } else if (plan->cluster > 1 && !tile_is_row(&plan->items[plan->n - 1])) {
        beside += COLUMN_BESIDE * tile_widest_access(group); /* a row's are among all threads' */
    }
    int64_t all =
        walks_rows(plan) ? held * walk_words(plan) + WALK_BESIDE : held + THREAD_BESIDE + beside;
    int64_t each = (all + 7) / 8 * 8;
    int64_t room = UNIT_REGISTERS / max_i64(each, UNIT_REGISTERS / most);
    return tile_checked_blocks(func, (int)room, threads);
}
