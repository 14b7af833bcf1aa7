/* SPDX-License-Identifier: Apache-2.0 */
/* Loops with a cross-element dependence, whose steps exchange values through intermediates in
 * memory: one launch executes the whole loop. An axis along which no group inside has such a
 * dependence becomes the grid, and each block runs the loop for its own elements. If there is no
 * such axis, a single block runs the loop, and a warning reports it for large arrays.
 *
 *   parallel dims=[] {                         launch dims=[M] steps=[1] {
 *     for %j {                                   (%m: range)
 *       parallel dims=[] { … over [M, N] }   →   for %j { for %n { … over [%m, %n] } } }
 *     } } */
#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/index_bounds.h"
#include "passes/tile/tile_steps.h"

enum {
    MAX_GROUPS = 64,
    BLOCK_ELEMENTS = 1024, /* of a block, along all axes */
    MANY_ELEMENTS = 1 << 18, /* of a step: all blocks make them a hundred times as fast as one */
};

bool tile_is_serial(const Op *op)
{
    bool found = false;
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
            found = found || inner->kind == OP_PARALLEL || tile_is_serial(inner);
        }
    }
    return found;
}

/* ---- an axis along which nothing is mixed ---- */

/* A group, and which of its axes is the one: that of a value. */
typedef struct Inner {
    const Op *group;
    Axes axes;
    int class; /* -1: not known yet */
    const Value *value;
    int axis;
} Inner;

typedef struct IndependentAxis {
    Func *func;
    Inner inners[MAX_GROUPS];
    int n;
    bool *written; /* by parameter: in some group */
    int *axes;     /* by parameter: which of its axes is the one; -1: not known yet */
    Dim dim;
    bool mixed, changed;
    Inner *inner; /* at work */
} IndependentAxis;

/* The value's axis that walks the memory's whole axis; -1: an index stands there. */
static int walked_axis(const Access *access, int axis)
{
    int n = 0;
    for (int i = 0; i < axis; i++) {
        const Value *index = access->indices[i];
        n += !index || index->type->kind == TYPE_RANGE;
    }
    return access->indices[axis] ? -1 : n;
}

/* The axis of a gather's index that counts up along the memory's axis; -1: it goes anywhere. */
static int counted_axis(const Access *access, int axis, const Op *gather)
{
    const Value *index = access->indices[axis];
    int at = -1, rank = gather->results[0]->type->rank;
    int64_t stride;
    if (!value_def_of_kind(value_unstretched(index), OP_IOTA)) {
        return -1;
    }
    for (int i = 0; i < rank; i++) {
        stride = 0;
        at = an_index_stride(access->indices[axis], i, &stride) && stride == 1 ? i : at;
    }
    return at;
}

static int value_axis(const Op *op, const Access *access, int axis)
{
    return op->kind == OP_GATHER ? counted_axis(access, axis, op) : walked_axis(access, axis);
}

static bool learn_class(IndependentAxis *a, const Value *value, int axis)
{
    int class = axis < 0 ? -1 : axes_class(&a->inner->axes, value, axis);
    if (class < 0 || (a->inner->class >= 0 && a->inner->class != class) ||
        value->type->dims[axis] != a->dim) {
        return false;
    }
    a->changed = a->changed || a->inner->class < 0;
    a->inner->class = class;
    a->inner->value = value;
    a->inner->axis = axis;
    return true;
}

/* The memory's axis that a group walks by its axis. */
static int axis_of_memory(const IndependentAxis *a, const Op *op, const Access *access,
                          const Value *value)
{
    for (int i = 0; i < access->n; i++) {
        int axis = value_axis(op, access, i);
        if (axis >= 0 && axes_class(&a->inner->axes, value, axis) == a->inner->class) {
            return i;
        }
    }
    return -1;
}

/* What a block writes it alone reads: all of it lies along the axis. */
static void follow(Op *op, void *user)
{
    IndependentAxis *a = user;
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    if (a->mixed || (!reads && op->kind != OP_STORE) ||
        op->operands[0]->type->kind != TYPE_TENSOR || !a->written[op->operands[0]->index]) {
        return;
    }
    Access access = op_access(op, 0);
    const Value *value = reads ? op->results[0] : axes_written(op);
    int *known = &a->axes[access.memory->index];
    if (*known >= 0) {
        a->mixed = !learn_class(a, value, value_axis(op, &access, *known));
    } else if (a->inner->class >= 0) {
        *known = axis_of_memory(a, op, &access, value);
        a->changed = a->changed || *known >= 0;
        a->mixed = *known < 0;
    }
}

static bool goes_along(const IndependentAxis *a, const Value *value)
{
    for (int i = 0; i < value->type->rank; i++) {
        if (axes_class(&a->inner->axes, value, i) == a->inner->class) {
            return true;
        }
    }
    return false;
}

static void check_effect(Op *op, void *user)
{
    IndependentAxis *a = user;
    a->mixed = a->mixed || op->kind == OP_DOT || op->kind == OP_SCATTER ||
               (axes_written(op) && !goes_along(a, axes_written(op)));
}

static void check_groups(IndependentAxis *a)
{
    for (int i = 0; i < a->n && !a->mixed; i++) {
        a->inner = &a->inners[i];
        a->mixed = a->inner->class < 0 ||
                   (axes_flags(&a->inner->axes, a->inner->class) & ~(unsigned)AXIS_STORED);
        if (!a->mixed) {
            block_walk(a->inner->group->regions[0], check_effect, a);
        }
    }
}

/* Beginning with an axis of what the first group stores. */
static bool is_independent(IndependentAxis *a, const Op *store, int axis)
{
    Access access = op_access(store, 0);
    int value = walked_axis(&access, axis);
    if (value < 0) {
        return false;
    }
    a->dim = axes_written(store)->type->dims[value];
    a->mixed = false;
    a->changed = true;
    for (size_t i = 0; i < a->func->params.n; i++) {
        a->axes[i] = -1;
    }
    for (int i = 0; i < a->n; i++) {
        a->inners[i].class = -1;
    }
    a->axes[access.memory->index] = axis;
    while (a->changed && !a->mixed) {
        a->changed = false;
        for (int i = 0; i < a->n && !a->mixed; i++) {
            a->inner = &a->inners[i];
            block_walk(a->inner->group->regions[0], follow, a);
        }
    }
    check_groups(a);
    return !a->mixed;
}

static void note_written(Op *op, void *user)
{
    IndependentAxis *a = user;
    if (op->kind == OP_STORE) {
        a->written[op->operands[0]->index] = true;
    }
}

static void collect_groups(IndependentAxis *a, Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_PARALLEL && !tile_is_serial(op)) {
            a->mixed = a->mixed || a->n == MAX_GROUPS || op_attr(op, ATTR_DIMS)->n > 0;
            if (!a->mixed) {
                a->inners[a->n++] = (Inner){.group = op, .axes = an_axes(a->func, op->regions[0])};
                block_walk(op->regions[0], note_written, a);
            }
            continue;
        }
        for (int r = 0; r < op->n_regions; r++) {
            collect_groups(a, op->regions[r]);
        }
    }
}

/* A scalar between groups that is read from what they write is made of all of it. */
static void check_scalars(IndependentAxis *a, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        const Value *memory = op->kind == OP_LOAD || op->kind == OP_GATHER ? op->operands[0] : NULL;
        if (op->kind == OP_PARALLEL && !tile_is_serial(op)) {
            continue;
        }
        a->mixed = a->mixed || axes_written(op) ||
                   (memory && memory->type->kind == TYPE_TENSOR && a->written[memory->index]);
        for (int r = 0; r < op->n_regions; r++) {
            check_scalars(a, op->regions[r]);
        }
    }
}

static bool find_independent_axis(IndependentAxis *a, Block *block)
{
    a->written = ARENA_ARRAY(a->func->arena, bool, a->func->params.n);
    a->axes = ARENA_ARRAY(a->func->arena, int, a->func->params.n);
    collect_groups(a, block);
    check_scalars(a, block);
    const Op *store = a->n ? a->inners[0].group->regions[0]->first : NULL;
    while (store && store->kind != OP_STORE) {
        store = store->next;
    }
    if (a->mixed || !store) {
        return false;
    }
    for (int axis = 0; axis < op_access(store, 0).n; axis++) {
        if (is_independent(a, store, axis)) {
            return true;
        }
    }
    return false;
}

/* ---- groups inside of a launch ---- */

typedef struct Serial {
    Func *func;
    IndependentAxis *independent;
    Value *range; /* of the axis, this block's; NULL: one block walks all */
    int64_t warps;
} Serial;

static void split_along_axis(const Serial *s, TilePlan *plan, const Op *group)
{
    for (int i = 0; s->range && i < s->independent->n; i++) {
        const Inner *inner = &s->independent->inners[i];
        int class = inner->group == group ? axes_class(plan->axes, inner->value, inner->axis) : -1;
        for (int k = 0; k < plan->n && class >= 0; k++) {
            if (plan->items[k].class == class) {
                plan->items[k].how = AXIS_GRID;
                plan->items[k].step = poly_as_range(s->range->type->dims[0])->capacity;
                plan->outer = &plan->items[k];
                plan->outer_range = s->range;
            }
        }
    }
}

static void tile_here(Serial *s, Op *group)
{
    Axes axes = an_axes(s->func, group->regions[0]);
    TilePlan plan = {.axes = &axes};
    tile_collect(s->func, &plan, group);
    split_along_axis(s, &plan, group);
    tile_choose(s->func, group, &plan);
    tile_emit_here(s->func, group, &plan);
    axes_done(&axes);
    op_remove(group);
    s->warps = max_i64(s->warps, plan.warps);
}

static void tile_inside(Serial *s, Block *block)
{
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_PARALLEL && tile_is_serial(op)) {
            next = op->regions[0]->first;
            while (op->regions[0]->first) {
                op_move_before(op->regions[0]->first, op);
            }
            next = next ? next : op->next;
            op_remove(op);
        } else if (op->kind == OP_PARALLEL) {
            tile_here(s, op);
        } else {
            for (int r = 0; r < op->n_regions; r++) {
                tile_inside(s, op->regions[r]);
            }
        }
    }
}

/* ---- the launch ---- */

/* Elements along the other axes of the group that has most of them. */
static int64_t other_elements(const IndependentAxis *a)
{
    int64_t most = 1;
    for (int i = 0; i < a->n; i++) {
        TilePlan plan = {.axes = &a->inners[i].axes};
        int64_t elements = 1;
        tile_collect(a->func, &plan, a->inners[i].group);
        for (int k = 0; k < plan.n; k++) {
            int64_t extent = min_i64(poly_nominal(plan.items[k].dim), BLOCK_ELEMENTS);
            elements *= plan.items[k].class == a->inners[i].class ? 1 : max_i64(1, extent);
            elements = min_i64(elements, BLOCK_ELEMENTS);
        }
        most = max_i64(most, elements);
    }
    return most;
}

static Op *build_launch(Func *func, Op *group, const IndependentAxis *independent)
{
    Builder before = build_before(func, group);
    if (!independent) {
        return build_parallel(&before, OP_LAUNCH, 0, NULL, NULL, NULL);
    }
    const DimVar *var = poly_as_var(independent->dim);
    const char *name = var && var->name && !var->unnamed ? var->name : "axis1";
    int64_t step = tile_checked_step(
        func, name,
        schedule_decide_int(
            func, "tile", name,
            fitted(independent->dim,
                   power_of_two_at_most(BLOCK_ELEMENTS / other_elements(independent))),
            "the loop has dependences along other axes: each block runs it for its own part of %s",
            name));
    return build_parallel(&before, OP_LAUNCH, 1, &independent->dim, &step, &name);
}

/* Elements that the group with most of them walks in a step. */
static double walked_elements(const IndependentAxis *a)
{
    double most = 0;
    for (int i = 0; i < a->n; i++) {
        TilePlan plan = {.axes = &a->inners[i].axes};
        double elements = 1;
        tile_collect(a->func, &plan, a->inners[i].group);
        for (int k = 0; k < plan.n; k++) {
            elements *= (double)poly_nominal(plan.items[k].dim);
        }
        most = elements > most ? elements : most;
    }
    return most;
}

static void warn_of_one_block(const IndependentAxis *a, const Op *group)
{
    const Op *loop = group->regions[0]->first;
    while (loop && loop->n_regions == 0) {
        loop = loop->next;
    }
    if (loop && is_gpu(a->func) && walked_elements(a) >= MANY_ELEMENTS) {
        Diag *d = diag_warning(a->func->diags, ERR_ONE_BLOCK_LOOP, loop->span,
                               "a single block runs this loop over all of its arrays");
        diag_help(a->func->diags, d,
                  "loops of few steps, if the number is known when compiling, become launches");
    }
}

void tile_serial(Func *func, Op *group)
{
    IndependentAxis *independent = ARENA_NEW(func->arena, IndependentAxis);
    *independent = (IndependentAxis){.func = func};
    if (!find_independent_axis(independent, group->regions[0])) {
        warn_of_one_block(independent, group);
        independent = NULL;
    }
    Op *launch = build_launch(func, group, independent);
    while (group->regions[0]->first) {
        op_move_to_end(group->regions[0]->first, launch->regions[0]);
    }
    Serial serial = {func, independent, independent ? launch->regions[0]->args[0] : NULL, 1};
    tile_inside(&serial, launch->regions[0]);
    op_set_ints(func, launch, ATTR_WARPS, 1, &serial.warps);
    op_remove(group);
}
