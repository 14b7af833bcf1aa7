/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a cluster of blocks keeps resident together (PTX ISA, "Cooperative thread arrays in a
 * cluster"): each block has a part of the row in its registers, and the blocks exchange partial
 * reductions through shared memory. The row is read from global memory once. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "ir/build.h"
#include "ir/ir_errors.h"

enum { PART_BYTES = 32768 };

static bool is_along(const TilePlan *plan, const Value *written, const AxisPlan *axis)
{
    for (int i = 0; i < written->type->rank; i++) {
        if (axes_class(plan->axes, written, i) == axis->class) {
            return true;
        }
    }
    return false;
}

bool tile_writes_along(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *written = axes_written(op);
        if (written && !is_along(plan, written, axis)) {
            return false;
        }
    }
    return true;
}

/* What the rows are reduced to may be stored next to them, by one block of the cluster: a loss, or
 * the statistics of a norm. The others must not read it, and there must be a block. */
static bool may_divide(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    bool some = false;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *written = axes_written(op);
        bool along = written && is_along(plan, written, axis);
        some = some || along;
        if (!written || along) {
            continue;
        }
        for (const ValueUse *use = use_first(op->operands[0], group->regions[0]); use;
             use = use_next(use, group->regions[0])) {
            if (use->op != op) {
                return false;
            }
        }
        if (op->kind != OP_STORE || poly_least(axis->dim) < 1) {
            return false;
        }
    }
    return some;
}

static bool is_only_read(const Value *memory, const Op *group)
{
    const Block *body = group->regions[0];
    for (const ValueUse *use = use_first(memory, body); use; use = use_next(use, body)) {
        if (use->op->kind != OP_LOAD && use->op->kind != OP_GATHER) {
            return false;
        }
    }
    return true;
}

/* Every block of a cluster can compute these for its part of a row. */
static bool has_divisible_ops(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool of_index = op->kind == OP_IOTA || op->kind == OP_INDEX || op->kind == OP_GATHER;
        bool moves = op_moves_axes(op) || op->kind == OP_CONST || op->kind == OP_SIZE;
        if (!of_index && !moves && !op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_LOAD &&
            op->kind != OP_STORE && op->kind != OP_REDUCE) {
            return false;
        }
        if (op->kind == OP_GATHER && !is_only_read(op->operands[0], group)) {
            return false;
        }
    }
    return true;
}

/* Elements of the rows, all of them; 0: they are not known to be few enough. */
static int64_t elements_of_rows(const TilePlan *plan)
{
    int64_t elements = 1;
    bool rows = false;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t most = max_i64(1, poly_most(axis->dim));
        if (tile_is_row(axis) && (axis->held || most == INT64_MAX ||
                                  __builtin_mul_overflow(elements, most, &elements))) {
            return 0;
        }
        rows = rows || tile_is_row(axis);
    }
    return rows ? elements : 0;
}

/* Of what is no row nothing is folded: each block would fold all of it. */
static bool only_rows_fold(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool folds = (axis->flags & AXIS_REDUCED) || !(axis->flags & AXIS_STORED);
        if (folds && !tile_is_row(axis)) {
            return false;
        }
    }
    return true;
}

/* What the user says of rows leaves space for clusters, or asks for one. */
static bool may_be(Func *func, const TilePlan *plan)
{
    bool asked = schedule_peek_entry(func, "cluster", "") != NULL;
    bool may = asked || !schedule_user_entry(func, "reduction", "");
    for (int i = 0; i < plan->n && may; i++) {
        const char *name = tile_is_row(&plan->items[i]) ? plan->items[i].name : NULL;
        const ScheduleEntry *row = name ? tile_row_entry(func, name) : NULL;
        may = asked ? !row || text_equal(row->symbol, "resident")
                    : !row && !(name && schedule_user_entry(func, "tile", name));
    }
    return may;
}

bool tile_is_for_one_block(const TilePlan *plan, const Op *write)
{
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].how == AXIS_CLUSTER) {
            return !is_along(plan, axes_written(write), &plan->items[i]);
        }
    }
    return false;
}

/* Elements of the group's rows that a cluster may hold; 0: it may not. */
static int64_t shareable(Func *func, const Op *group, const TilePlan *plan)
{
    bool may = is_gpu(func) && func->target->cluster > 1 && plan->row_align <= 1 &&
               has_divisible_ops(group) && only_rows_fold(plan) && may_be(func, plan);
    bool some = false;
    for (int i = 0; i < plan->n && may; i++) {
        some = some ||
               (tile_is_row(&plan->items[i]) && may_divide(group, plan, &plan->items[i]));
    }
    return some ? elements_of_rows(plan) : 0;
}

int64_t tile_cluster_capacity(Func *func, const Op *group, const TilePlan *plan, int64_t given)
{
    int64_t elements = shareable(func, group, plan);
    if (!elements) {
        return 0;
    }
    const ScheduleEntry *line = schedule_peek_entry(func, "cluster", "");
    int64_t blocks = line ? line->number : func->target->cluster;
    return blocks * CLUSTER_ELEMENTS / elements / given;
}

/* The number of blocks for a row that one block cannot keep efficiently. The row is split into
 * parts of PART_BYTES: with smaller parts the fixed cost of a block (its start and two barriers) is
 * too high, with larger parts a multiprocessor holds too few blocks that continue while others wait
 * (docs/lab/memory_bound.md). A block that also loads other data can keep less of the row. For
 * columns, the data that blocks exchange grows with the cluster, so parts are as large as a block
 * can keep. */
static int64_t derived_blocks(const Func *func, const Op *group, const TilePlan *plan,
                              int64_t elements)
{
    int64_t blocks = 1, most = func->target->cluster;
    bool columns = !tile_is_row(&plan->items[plan->n - 1]);
    int64_t part =
        columns ? CLUSTER_ELEMENTS : PART_BYTES * tile_widest_access(group) / ACCESS_BYTES;
    bool loads_more = tile_loads_of_rows(group) > MAX_ROW_LOADS;
    int64_t most_of_block =
        loads_more ? min_i64(CLUSTER_ELEMENTS, part + part / 2) : CLUSTER_ELEMENTS;
    while (elements > most_of_block && blocks < most && elements / blocks > part) {
        blocks *= 2;
    }
    return elements / blocks <= 2 * CLUSTER_ELEMENTS ? blocks : 1;
}

static int64_t checked_blocks(Func *func, int64_t derived)
{
    int64_t most = func->target->cluster;
    int64_t blocks =
        schedule_decide_int(func, "cluster", "", derived,
                            "a row is longer than one block can keep efficiently: a cluster of "
                            "this many blocks shares it");
    if (blocks >= 1 && blocks <= most && (blocks & (blocks - 1)) == 0) {
        return blocks;
    }
    const ScheduleEntry *line = schedule_peek_entry(func, "cluster", "");
    Diag *d =
        diag_error(func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                   "`cluster %lld` is not possible on %s", (long long)blocks, func->target->name);
    diag_help(func->diags, d, "a power of two from 1 to %lld", (long long)most);
    return 1;
}

static bool is_last_row(const TilePlan *plan, const AxisPlan *axis)
{
    for (int i = (int)(axis - plan->items) + 1; i < plan->n; i++) {
        if (tile_is_row(&plan->items[i])) {
            return false;
        }
    }
    return true;
}

/* The part of the axis that each of `blocks` takes; of a shorter one the last ones may have none.
 */
static int64_t part_of(Func *func, const TilePlan *plan, const AxisPlan *axis, int64_t blocks)
{
    enum { PART_MULTIPLE = 32 }; /* elements: 16 bytes of the narrowest, and more */
    int64_t most = poly_most(axis->dim), multiple = is_last_row(plan, axis) ? PART_MULTIPLE : 1;
    const ScheduleEntry *given = schedule_user_entry(func, "tile", axis->name);
    int64_t part = round_up(ceil_div(most, blocks), multiple);
    return given && given->number >= 1 && given->number >= ceil_div(most, blocks)
               ? min_i64(given->number, most)
               : part;
}

/* The row axis whose parts leave least over; the outermost one of several, whose parts have whole
 * rows of the others. */
static AxisPlan *shared_axis(Func *func, const Op *group, TilePlan *plan, int64_t blocks)
{
    AxisPlan *best = NULL;
    double least = 0;
    for (int i = 0; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (!tile_is_row(axis) || !may_divide(group, plan, axis)) {
            continue;
        }
        double taken = (double)(part_of(func, plan, axis, blocks) * blocks) /
                       (double)max_i64(1, poly_most(axis->dim));
        if (!best || taken < least) {
            best = axis;
            least = taken;
        }
    }
    return best;
}

/* Parts that are given hold the axis together, and are not so large that half of the cluster's
 * blocks, or more, are left without any. */
static bool check_part(Func *func, const AxisPlan *axis, int64_t blocks)
{
    const ScheduleEntry *line = schedule_user_entry(func, "tile", axis->name);
    int64_t most = poly_most(axis->dim), part = line ? line->number : 0;
    int64_t wanted = ceil_div(most, blocks);
    if (part < 1 || most < 1 ||
        (part >= wanted && (part <= 32 || (most - 1) / part >= blocks / 2))) {
        return true;
    }
    Diag *d = diag_error(func->diags, ERR_NOT_HERE, line->span,
                         "`cluster %lld`: its blocks cannot share %lld elements of %s by tiles of "
                         "%lld",
                         (long long)blocks, (long long)most, axis->name, (long long)part);
    diag_help(func->diags, d, "`tile %s %lld`, or another cluster", axis->name, (long long)wanted);
    return false;
}

void tile_choose_cluster(Func *func, const Op *group, TilePlan *plan, int64_t given)
{
    int64_t elements = shareable(func, group, plan);
    if (!elements || __builtin_mul_overflow(elements, given, &elements)) {
        return;
    }
    int64_t derived = derived_blocks(func, group, plan, elements);
    if (derived < 2 && !schedule_peek_entry(func, "cluster", "")) {
        return;
    }
    int64_t blocks = checked_blocks(func, derived);
    if (blocks < 2) {
        return;
    }
    AxisPlan *axis = shared_axis(func, group, plan, blocks);
    int64_t part = part_of(func, plan, axis, blocks);
    if (!check_part(func, axis, blocks)) {
        return;
    }
    tile_set_step(func, axis, AXIS_CLUSTER, part, "a part of the row, in registers");
    plan->cluster = blocks;
}
