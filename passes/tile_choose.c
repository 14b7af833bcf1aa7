/* SPDX-License-Identifier: Apache-2.0 */
/* Which step each axis gets. Everything here ends in a schedule line: what the user wrote, else
 * what is derived from the target's facts and what is known of the sizes, with the reason. */
#include "passes/tile_steps.h"

#include "ir/errors.h"

enum {
    ROW_ELEMENTS = 32,     /* the same where rows are reduced: fewer threads to meet */
    BLOCK_ELEMENTS = 4096, /* of a memory-bound block, unless a row is longer */
    ROW_MOST_THREAD = 32,  /* elements of a resident row that a thread may hold */
    ROW_MOST_CPU = 32768, /* elements of a resident row on a CPU: stays in the second-level cache */
    BUSY_THREADS = 1024,  /* of a multiprocessor, in a memory-bound kernel */
    ACCESS_BYTES = 16,    /* of one access of a thread */
    LOOP_STEP = 8192,     /* of a row that does not fit */
};

/* Gives the stored axes that are left steps that multiply to about `elements`, last axis first. */
static void choose_grid(Func *func, TilePlan *plan, int64_t elements)
{
    for (int i = plan->n_stored; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->step) {
            continue;
        }
        tile_set_step(func, axis, AXIS_GRID, fitted(axis->dim, larger(1, elements)),
                      "enough elements a block for wide, overlapping accesses");
        elements /= axis->step;
    }
}

static int64_t row_capacity(const Func *func)
{
    return is_gpu(func) ? (int64_t)func->target->max_threads * ROW_MOST_THREAD : ROW_MOST_CPU;
}

static int64_t row_threads(const Func *func, int64_t elements)
{
    int64_t threads = smaller(elements / ROW_ELEMENTS, func->target->max_threads);
    return power_of_two_at_least(larger(func->target->warp, threads));
}

/* Elements that the widest access of a thread moves, of the narrowest tensor. */
static int64_t widest_access(const Op *group)
{
    int bytes = ACCESS_BYTES;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_LOAD || op->kind == OP_STORE) {
            int own = dtype_bytes(op->operands[0]->type->dtype);
            bytes = own < bytes ? own : bytes;
        }
    }
    return ACCESS_BYTES / bytes;
}

/* A row's tile is whole rounds of accesses by all threads: what is past its end is not loaded,
 * but its registers and their arithmetic would be there. */
static int64_t row_step(const Func *func, const Op *group, int64_t most)
{
    if (!is_gpu(func)) {
        return power_of_two_at_least(larger(1, most));
    }
    int64_t round = row_threads(func, most) * widest_access(group);
    return most <= round ? power_of_two_at_least(larger(1, most))
                         : (most + round - 1) / round * round;
}

/* Returns the elements that a resident row takes, or the loop's step; `inner` are those of row axes
 * inside of this one. */
static int64_t choose_row(Func *func, const Op *group, AxisPlan *axis, int64_t inner)
{
    int64_t most = poly_most(axis->dim);
    bool fits = most <= row_capacity(func) / inner;
    const char *how = schedule_word(func, "rows", "", fits ? "resident" : "looped", "%s",
                                    fits ? "a row fits the registers of one block: it is read once"
                                         : "a row may be longer than what one block can hold");
    if (text_same(how, "resident") && most != INT64_MAX) {
        tile_set_step(func, axis, AXIS_ROW, row_step(func, group, most), "the whole row");
    } else {
        tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, larger(1, LOOP_STEP / inner)),
                      "one step along a long row");
    }
    return axis->step;
}

static void choose_memory_bound(Func *func, const Op *group, TilePlan *plan)
{
    int64_t row = 1;
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->flags & AXIS_STORED && axis->flags & AXIS_REDUCED) {
            row *= choose_row(func, group, axis, row);
        }
    }
    /* Of several reduced axes the last one, which lies contiguous, gets the long steps. */
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (!(axis->flags & AXIS_STORED)) {
            int64_t wanted = larger(1, power_of_two_at_most(LOOP_STEP / 2 / row));
            tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, wanted),
                          "one step along a reduced axis");
            row *= axis->step;
        }
    }
    choose_grid(func, plan, power_of_two_at_most(BLOCK_ELEMENTS / row));
    int64_t elements = row;
    for (int i = 0; i < plan->n_stored; i++) {
        elements *= plan->items[i].how == AXIS_GRID ? plan->items[i].step : 1;
    }
    int64_t threads =
        larger(func->target->warp, elements / (row > 1 ? ROW_ELEMENTS : THREAD_ELEMENTS));
    plan->warps =
        power_of_two_at_least(smaller(threads, func->target->max_threads)) / func->target->warp;
}

/* Memory-bound blocks overlap one another's loads, work and stores: several share a
 * multiprocessor. */
static int64_t checked_blocks(Func *func, int64_t threads, bool wide)
{
    int busy = wide ? BUSY_THREADS : BUSY_THREADS / 2;
    int64_t blocks = schedule_number(
        func, "blocks", "", larger(1, busy / threads),
        wide ? "%d threads of a multiprocessor keep its memory busy"
             : "%d threads of a multiprocessor: guards of single elements take registers",
        busy);
    if (blocks < 1 || blocks > 32 || blocks * threads > 2048) {
        const Line *line = schedule_given(func, "blocks", "");
        Diag *d = diag_error(func->diags, ERR_BLOCKS, line ? line->span : SPAN_NONE,
                             "`blocks %lld` of %lld threads do not fit a multiprocessor",
                             (long long)blocks, (long long)threads);
        diag_help(func->diags, d, "at most %lld", (long long)larger(1, 2048 / threads));
        return 1;
    }
    return blocks;
}

/* Every tensor's rows can be accessed 16 bytes at a time. */
static bool rows_are_wide(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind != OP_LOAD && op->kind != OP_STORE) {
            continue;
        }
        Type tensor = op->operands[0]->type;
        if (tensor->rank > 1 &&
            poly_divisor(tensor->dims[tensor->rank - 1]) * dtype_bytes(tensor->dtype) % 16) {
            return false;
        }
    }
    return true;
}

void tile_choose(Func *func, Op *group, TilePlan *plan)
{
    if (plan->dot) {
        tile_choose_product(func, plan);
    } else {
        choose_memory_bound(func, group, plan);
    }
    if (is_gpu(func)) {
        plan->warps =
            tile_checked_warps(func, plan->warps,
                               plan->dot ? "a thread holds its share of the product's tile"
                                         : "16 elements of each value a thread, 32 of a row");
        if (!plan->dot) {
            int64_t threads = plan->warps * func->target->warp;
            plan->blocks = checked_blocks(func, threads, rows_are_wide(group));
        }
    } else {
        plan->warps = 1;
    }
}
