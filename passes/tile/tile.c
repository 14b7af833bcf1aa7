/* SPDX-License-Identifier: Apache-2.0 */
/* tile: maps each fusion group to a grid, sequential loops and tiles.
 *
 *   parallel dims=[] steps=[] {               launch dims=[M, N] steps=[128, 256] warps=[8] {
 *     %a = load %x[:, :] : bf16[M, K]           (%m: range, %n: range)
 *     %b = load %w[:, :] : bf16[K, N]           %d = for %lo, %hi, %z dims=[K] steps=[64] {
 *     %d = dot %a, %b : f32[M, N]         →       (%k: range, %c: f32[%m, %n])
 *     store %y[:, :], %d                          %a = load %x[%m, %k] …
 *   }                                             yield %e } : f32[%m, %n]
 *                                               store %y[%m, %n], %d }
 *
 * Stored axes become grid axes. An axis that is only reduced becomes a loop around each reduction.
 * An axis that is both (a softmax row) stays resident in registers if it fits; otherwise it is
 * looped over once per reduction and once for the store, or only once if the stores need none of
 * its reductions (rows next to column sums). Requires: fuse. Establishes: the loop level.
 * Reassociates reductions. */
#include "passes/tile/tile_steps.h"

#include "ir/ir_errors.h"
#include "ir/text/ir_text.h"
#include "passes/analysis/epilogue_folds.h"
#include "passes/pass.h"

/* The name by which a schedule and `explain` refer to an axis: the size or loop variable of its
 * extent, followed by its position if an earlier axis has that name (`N2`), or `axis` and the
 * position. Positions count from 1. */
static const char *axis_name(Func *func, const TilePlan *plan, Dim dim, int position)
{
    const DimVar *var = poly_name_giver(dim);
    bool named = var && var->name && !var->unnamed;
    const char *name = named ? var->name : arena_printf(func->arena, "axis%d", position);
    for (int i = 0; i < plan->n; i++) {
        if (text_equal(plan->items[i].name, name)) {
            return arena_printf(func->arena, "%s%d", name, position);
        }
    }
    return name;
}

static AxisPlan *add_axis(Func *func, TilePlan *plan, const Value *value, int axis)
{
    int class = axes_class(plan->axes, value, axis);
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].class == class) {
            return &plan->items[i];
        }
    }
    if (class < 0) {
        return NULL;
    }
    if (plan->n == (int)(sizeof plan->items / sizeof *plan->items)) {
        diag_bug(func->diags, "more than %d axes in one group", plan->n);
    }
    Dim dim = value->type->dims[axis];
    AxisPlan *added = &plan->items[plan->n];
    *added = (AxisPlan){.class = class,
                        .dim = dim,
                        .name = axis_name(func, plan, dim, plan->n + 1),
                        .flags = axes_flags(plan->axes, class)};
    plan->n++;
    return added;
}

static void add_axes_of(Func *func, TilePlan *plan, const Value *value)
{
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        add_axis(func, plan, value, i);
    }
}

typedef struct Collector {
    Func *func;
    TilePlan *plan;
} Collector;

/* The axis of an op's value that has an element for each part of another; NULL: none. */
static const Value *parts_of(const Op *op)
{
    if (op->kind == OP_REDUCE_PARTS) {
        return op->results[0];
    }
    return op->kind == OP_REPEAT_PARTS ? op->operands[0] : NULL;
}

static bool is_of_parts(const TilePlan *plan, const Block *block, int class)
{
    for (const Op *op = block->first; op; op = op->next) {
        const Value *parts = parts_of(op);
        int axis = parts ? (int)op_int(op, ATTR_AXIS, 0) : 0;
        if (parts && axes_class(plan->axes, parts, axis) == class) {
            return true;
        }
    }
    return false;
}

/* Axes of what is written, in the order of the group; those of parts follow from others. */
static void collect_stored(Op *op, void *user)
{
    Collector *c = user;
    const Value *written = axes_written(op);
    for (int i = 0; written && written->type->kind == TYPE_ARRAY && i < written->type->rank; i++) {
        int class = axes_class(c->plan->axes, written, i);
        if (class < 0 || !is_of_parts(c->plan, op->parent, class)) {
            add_axis(c->func, c->plan, written, i);
        }
    }
}

/* A tile of the grid for each part: the block that has a part reduces all of it. The axis is no
 * row, even where the parts are in a group without the product whose tiles they are. */
static void collect_whole(Op *op, void *user)
{
    Collector *c = user;
    if (parts_of(op)) {
        const Value *whole = op->kind == OP_REDUCE_PARTS ? op->operands[0] : op->results[0];
        AxisPlan *item = add_axis(c->func, c->plan, whole, (int)op_int(op, ATTR_AXIS, 0));
        item->whole = op_int(op, ATTR_BY, 0);
        item->flags = (item->flags & ~(unsigned)AXIS_REDUCED) | AXIS_STORED;
    }
}

static void collect_parts(Op *op, void *user)
{
    Collector *c = user;
    if (parts_of(op)) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        const Value *whole = op->kind == OP_REDUCE_PARTS ? op->operands[0] : op->results[0];
        AxisPlan *item = add_axis(c->func, c->plan, parts_of(op), axis);
        if (item) {
            item->how = AXIS_PART;
            item->part_of = axes_class(c->plan->axes, whole, axis);
        }
    }
}

typedef struct Holder {
    Collector *collector;
    const Op *loop;
} Holder;

static bool is_carried(const TilePlan *plan, const Op *loop, int class)
{
    const Block *region = loop->regions[0];
    for (int i = 0; i < region->n_args; i++) {
        Type type = region->args[i]->type;
        for (int k = 0; type->kind == TYPE_ARRAY && k < type->rank; k++) {
            if (axes_class(plan->axes, region->args[i], k) == class) {
                return true;
            }
        }
    }
    return false;
}

static void hold_folded(Op *op, void *user)
{
    const Holder *holder = user;
    const Collector *c = holder->collector;
    bool fold = op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int class = fold ? axes_class(c->plan->axes, op->operands[0], axis) : -1;
    if (class >= 0 && is_carried(c->plan, holder->loop, class)) {
        AxisPlan *item = add_axis(c->func, c->plan, op->operands[0], axis);
        item->held = true;
        item->flags |=
            AXIS_STORED; /* a row, as if it were: of it, too, there is a tile at the end */
    }
}

/* What a loop carries from step to step and folds in them. */
static void collect_held(Op *op, void *user)
{
    Holder holder = {user, op};
    for (int r = 0; r < op->n_regions && (op->kind == OP_FOR || op->kind == OP_WHILE); r++) {
        block_walk(op->regions[r], hold_folded, &holder);
    }
}

typedef struct EpilogueFolds {
    Collector *collector;
    const Op *dot; /* the first one */
    int n_dots;
} EpilogueFolds;

static void find_dot(Op *op, void *user)
{
    EpilogueFolds *folds = user;
    folds->dot = folds->dot || op->kind != OP_DOT ? folds->dot : op;
    folds->n_dots += op->kind == OP_DOT;
}

/* What is folded along an axis of a dot's result: its tile holds all of the axis, as fuse has it
 * (fuse_split_products.c). */
static void hold_in_tile(Op *op, void *user)
{
    const EpilogueFolds *folds = user;
    const Collector *c = folds->collector;
    const Value *product = folds->dot->results[0];
    int axis = (int)op_int(op, ATTR_AXIS, 0), rank = product->type->rank;
    int class = op->kind == OP_REDUCE || op->kind == OP_FOLD
                    ? axes_class(c->plan->axes, op->operands[0], axis)
                    : -1;
    for (int i = rank - 2; i < rank && class >= 0; i++) {
        int64_t whole = axes_class(c->plan->axes, product, i) == class
                            ? an_whole_axis(c->func, folds->dot, i, folds->n_dots)
                            : 0;
        if (whole) {
            AxisPlan *item = add_axis(c->func, c->plan, product, i);
            item->whole = whole;
            item->flags |= AXIS_STORED; /* an axis of the grid, of one tile */
        }
    }
}

/* What an axis's reductions come from: by value, the classes of axes that were reduced before. */
typedef struct Dependence {
    const Collector *collector;
    int classes[64], n;
    uint64_t *reduced; /* a bit a class, by the value's id */
} Dependence;

static uint64_t class_bit(Dependence *d, int class)
{
    int i = 0;
    while (i < d->n && d->classes[i] != class) {
        i++;
    }
    if (i == 64) {
        return 0;
    }
    d->classes[i] = class;
    d->n += i == d->n;
    return (uint64_t)1 << i;
}

/* A row that is reduced again after what it was reduced to is known: held, it is read once. */
static void retry_resident(Op *op, void *user)
{
    Dependence *d = user;
    const Collector *c = d->collector;
    uint64_t before = 0, bit = 0;
    for (int i = 0; i < op->n_operands; i++) {
        before |= op->operands[i] ? d->reduced[op->operands[i]->id] : 0;
    }
    if (op->kind == OP_REDUCE) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        int class = axes_class(c->plan->axes, op->operands[0], axis);
        bit = class >= 0 ? class_bit(d, class) : 0;
        if ((before & bit) &&
            poly_most(op->operands[0]->type->dims[axis]) <= tile_longest_row(c->func)) {
            add_axis(c->func, c->plan, op->operands[0], axis)->flags |= AXIS_STORED;
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        d->reduced[op->results[i]->id] = before | bit;
    }
}

typedef struct ScanHolder {
    Collector *collector;
    bool *scanned; /* by the value's id: is it made of a scan? */
} ScanHolder;

/* What is made of a scan and reduced along an axis that the scan's elements have: a state, whose
 * steps one loop walks for all of it (split_scanned_across, passes/fuse/fuse_split_folds.c). */
static void hold_scanned(Op *op, void *user)
{
    ScanHolder *holder = user;
    const Collector *c = holder->collector;
    bool scanned = op->kind == OP_SCAN || (op->kind == OP_FOLD && op_int(op, ATTR_SCAN, 0));
    bool below = false;
    for (int i = 0; i < op->n_operands; i++) {
        below = below || (op->operands[i] && holder->scanned[op->operands[i]->id]);
    }
    for (int i = 0; i < op->n_results; i++) {
        holder->scanned[op->results[i]->id] = scanned || below;
    }
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    bool folds = below && !scanned && (op->kind == OP_REDUCE || op->kind == OP_FOLD);
    int class = folds ? axes_class(c->plan->axes, op->operands[0], axis) : -1;
    bool walked = class < 0 || (axes_flags(c->plan->axes, class) & AXIS_SCANNED);
    if (!walked && poly_most(op->operands[0]->type->dims[axis]) <= MAX_STATE) {
        AxisPlan *item = add_axis(c->func, c->plan, op->operands[0], axis);
        item->held = true;
        item->flags |= AXIS_STORED;
    }
}

static void collect_op(Op *op, void *user)
{
    Collector *c = user;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i]) {
            add_axes_of(c->func, c->plan, op->operands[i]);
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        add_axes_of(c->func, c->plan, op->results[i]);
    }
    if (op->kind == OP_DOT) {
        c->plan->dot = op;
        c->plan->n_dots++;
    }
}

void tile_collect(Func *func, TilePlan *plan, const Op *group)
{
    Collector c = {func, plan};
    block_walk(group->regions[0], collect_stored, &c);
    block_walk(group->regions[0], collect_held, &c);
    block_walk(group->regions[0], collect_whole, &c);
    ScanHolder scans = {&c, ARENA_ARRAY(func->arena, bool, func->n_values)};
    block_walk(group->regions[0], hold_scanned, &scans);
    EpilogueFolds folds = {.collector = &c};
    block_walk(group->regions[0], find_dot, &folds);
    if (folds.dot) {
        block_walk(group->regions[0], hold_in_tile, &folds);
    }
    Dependence d = {.collector = &c, .reduced = ARENA_ARRAY(func->arena, uint64_t, func->n_values)};
    if (is_gpu(func) && !block_contains(group->regions[0], OP_DOT)) {
        block_walk(group->regions[0], retry_resident, &d);
    }
    plan->n_stored = plan->n;
    block_walk(group->regions[0], collect_parts, &c);
    block_walk(group->regions[0], collect_op, &c);
}

/* An axis that rows and columns share is walked for both. */
static void note_walk(TilePlan *plan, const Op *group)
{
    plan->tiles_per_cluster = an_row_column_sweep(plan->axes, group->regions[0]);
    for (int i = 0; i < plan->n; i++) {
        plan->items[i].walked = plan->items[i].class == plan->tiles_per_cluster.class;
    }
}

static void tile_group(Func *func, Op *group, bool is_rest);
static const Value *first_written(const Op *group);

/* What is left of a tail is that much of the axes that are written. */
static void note_limits(TilePlan *plan, const Op *group)
{
    const Value *written = first_written(group);
    const Attr *upto = op_attr(group, ATTR_AXIS_END);
    for (int i = 0; upto && i < upto->n; i++) {
        AxisPlan *axis = tile_axis_of(plan, written, i);
        if (axis) {
            axis->upto = upto->ints[i];
        }
    }
}

static const Value *first_written(const Op *group)
{
    const Op *op = group->regions[0]->first;
    while (op && !axes_written(op)) {
        op = op->next;
    }
    return op ? axes_written(op) : NULL;
}

static bool same_shape(Type a, Type b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

/* Those of a shape, or all others. */
static void remove_stores(Op *group, Type shape, bool others)
{
    for (Op *op = group->regions[0]->first, *next; op; op = next) {
        const Value *written = axes_written(op);
        next = op->next;
        if (written && same_shape(written->type, shape) != others) {
            op_remove(op);
        }
    }
}

/* What the parts were folded from tied the axes of all that is stored. Now each shape has a grid of
 * its own. */
static void tile_rest(Func *func, Op *group)
{
    for (const Value *first = first_written(group); first; first = first_written(group)) {
        CloneMap map = clone_map_new(func);
        Builder before = build_before(func, group);
        Op *one = clone_op(&before, &map, group);
        remove_stores(one, first->type, true);
        remove_stores(group, first->type, false);
        func_remove_dead(func);
        tile_group(func, one, true);
    }
    op_remove(group);
}

/* `is_rest`: tile.h. */
static void tile_group(Func *func, Op *group, bool is_rest)
{
    schedule_at_op(func, group);
    if (tile_is_serial(group)) {
        tile_serial(func, group);
        return;
    }
    Axes axes = an_axes(func, group->regions[0]);
    TilePlan plan = {.axes = &axes, .is_rest = is_rest};
    tile_collect(func, &plan, group);
    note_walk(&plan, group);
    note_limits(&plan, group);
    tile_choose(func, group, &plan);
    SplitResult how = tile_split(func, group, &plan);
    if (how == SPLIT_NOT) {
        tile_emit(func, group, &plan);
    }
    axes_done(&axes);
    if (how == SPLIT_REST) {
        tile_rest(func, group);
    } else {
        op_remove(group);
    }
}

/* An axis of symbolic extent inside a `parallel` of the source must be a range. */
static void check_static(Op *op, void *user)
{
    Func *func = user;
    for (int r = 0; r < op->n_results; r++) {
        Type type = op->results[r]->type;
        for (int i = 0; type->kind == TYPE_ARRAY && i < type->rank; i++) {
            int64_t extent;
            if (poly_is_const(type->dims[i], &extent) || poly_as_range(type->dims[i])) {
                continue;
            }
            Text dim = text_new(func->arena);
            say_dim(func, type->dims[i], &dim);
            Diag *d = diag_error(func->diags, ERR_UNKNOWN_EXTENT, op->span,
                                 "a tile holds the whole axis %s, whose extent is not known when "
                                 "compiling",
                                 dim.data);
            diag_help(func->diags, d,
                      "iterate over it with `for j in %s by 128`, or add `assume "
                      "%s in …`",
                      dim.data, dim.data);
            return;
        }
    }
}

/* Where the source has tiles, it says by its own loops what becomes of what they come to; a derived
 * nest has said it of its reductions. */
static void run_over_tile(Op *op, void *user)
{
    if (op_reduces(op) && !op_attr(op, ATTR_OVER)) {
        op_set_over(user, op, op_reduced_extent(op));
    }
}

static void tile_source(Func *func, Op *parallel)
{
    tile_whole_axes(func, parallel);
    block_walk(parallel->regions[0], check_static, func);
    tile_pad_axes(func, parallel);
    tile_choose_source(func, parallel);
    tile_source_entries(func, parallel);
    block_walk(parallel->regions[0], run_over_tile, func);
    parallel->kind = OP_LAUNCH;
}

void pass_tile(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_PARALLEL && op_attr(op, ATTR_DIMS)->n > 0) {
            tile_batches(func, op);
        }
    }
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_PARALLEL) {
            continue;
        }
        if (op_attr(op, ATTR_DIMS)->n == 0) {
            tile_group(func, op, false);
        } else {
            schedule_at_op(func, op);
            tile_source(func, op);
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
    func_remove_dead(func);
    func->level = LEVEL_LOOP;
}
