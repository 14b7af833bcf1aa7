/* SPDX-License-Identifier: Apache-2.0 */
/* Pads whole axes of dots in a `parallel` of the source to a multiple of the matrix instruction's
 * shape, such as attention heads of 40 or 72 elements. The axis becomes a range of the grid that
 * one tile holds and that ends inside of it. Everything then works as for other ragged axes: TMA
 * and guarded loads fill the rest of the tile with zeros, `bounds` masks computed operands, and
 * stores skip the padding.
 *
 *   parallel dims=[S] steps=[128] {            parallel dims=[40, S] steps=[48, 128] {
 *     (%s: range)                                (%d: range, %s: range)
 *     %0 = load %q[%s, :] : bf16[%s, 40]    →    %0 = load %q[%s, %d] : bf16[%s, %d]
 *
 * Without padding, a dot over 40 elements could not use matrix instructions. An axis that an op
 * splits or concatenates stays as it is. Changes no bits but those of sums that another instruction
 * adds up. */
#include "passes/tile/tile_steps.h"

enum { MAX_PADDED = 4 }; /* axes of a `parallel` */

typedef struct PaddedAxis {
    int class;
    Dim dim;
    int64_t step;
    bool refused;
    Value *range;
} PaddedAxis;

typedef struct Padding {
    Func *func;
    Op *parallel;
    Axes axes;
    PaddedAxis items[MAX_PADDED];
    int n;
    bool *inside; /* by value id: values of the `parallel` */
} Padding;

static int64_t literal(Dim dim)
{
    int64_t extent;
    return poly_is_const(dim, &extent) ? extent : 0;
}

/* ---- which axes ---- */

/* The axis of this value rounded up to `unit`. */
static void round_axis(Padding *p, const Value *value, int axis, int64_t unit)
{
    int class = axes_class(&p->axes, value, axis), i = 0;
    int64_t extent = literal(value->type->dims[axis]);
    if (class < 0 || extent == 0 || extent % unit == 0) {
        return;
    }
    while (i < p->n && p->items[i].class != class) {
        i++;
    }
    if (i == p->n && p->n == MAX_PADDED) {
        return;
    }
    int64_t before = i < p->n ? p->items[i].step : 0;
    p->items[i] = (PaddedAxis){.class = class,
                               .dim = value->type->dims[axis],
                               .step = max_i64(before, round_up(extent, unit))};
    p->n = i == p->n ? i + 1 : p->n;
}

static void see_dot(Op *op, void *user)
{
    Padding *p = user;
    if (op->kind != OP_DOT || op->results[0]->type->rank != 2) {
        return;
    }
    const MatrixInstr *found = tile_rounded_instruction(p->func, op);
    if (found) {
        round_axis(p, op->operands[0], op->operands[0]->type->rank - 1, found->k);
        round_axis(p, op->operands[1], op->operands[1]->type->rank - 1, found->n);
    }
}

/* ---- where they can be ranges ---- */

static PaddedAxis *padded_axis(Padding *p, const Value *value, int axis)
{
    int class = value->type->kind == TYPE_ARRAY ? axes_class(&p->axes, value, axis) : -1;
    for (int i = 0; i < p->n && class >= 0; i++) {
        if (p->items[i].class == class) {
            return &p->items[i];
        }
    }
    return NULL;
}

static bool takes_ranges(const Op *op)
{
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE: return op_access(op, 0).memory->type->kind == TYPE_TENSOR;
    case OP_CONST:
    case OP_IOTA:
    case OP_REDUCE:
    case OP_DOT:
    case OP_FOR:
    case OP_IF:
    case OP_YIELD: return true;
    default: return op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    }
}

static void refuse(Padding *p, const Value *value)
{
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        PaddedAxis *axis = padded_axis(p, value, i);
        if (axis) {
            axis->refused = true;
        }
    }
}

/* Two axes of a value cannot be one range. */
static void check_value(Padding *p, const Value *value)
{
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        const PaddedAxis *axis = padded_axis(p, value, i);
        for (int k = 0; axis && k < i; k++) {
            if (padded_axis(p, value, k) == axis) {
                refuse(p, value);
            }
        }
    }
}

static void check_op(Op *op, void *user)
{
    Padding *p = user;
    bool takes = takes_ranges(op);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (value && (!takes || !p->inside[value->id])) {
            refuse(p, value);
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        check_value(p, op->results[i]);
        if (!takes) {
            refuse(p, op->results[i]);
        }
    }
}

static void see_values(Op *op, void *user)
{
    Padding *p = user;
    for (int i = 0; i < op->n_results; i++) {
        p->inside[op->results[i]->id] = true;
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            p->inside[op->regions[r]->args[i]->id] = true;
        }
    }
}

/* ---- the ranges ---- */

/* The grid's first axes: those that say in which order tiles follow one another stay the last. */
static void add_ranges(Padding *p)
{
    Func *func = p->func;
    Block *body = p->parallel->regions[0];
    const Attr *dims = op_attr(p->parallel, ATTR_DIMS), *steps = op_attr(p->parallel, ATTR_STEPS);
    int n = dims->n, more = p->n;
    Dim all_dims[MAX_RANK];
    int64_t all_steps[MAX_RANK];
    for (int i = 0; i < n; i++) {
        all_dims[more + i] = dims->dims[i];
        all_steps[more + i] = steps->ints[i];
    }
    for (int i = 0; i < more; i++) {
        PaddedAxis *axis = &p->items[i];
        DimVar *var =
            func_range(func, arena_printf(func->arena, "whole%d", i + 1), axis->dim, axis->step);
        var->holds_all = true;
        axis->range = block_arg(func, body, type_range(func, var), var->name);
        all_dims[i] = axis->dim;
        all_steps[i] = axis->step;
    }
    for (int i = n - 1; i >= 0; i--) {
        body->args[more + i] = body->args[i];
    }
    for (int i = 0; i < more; i++) {
        body->args[i] = p->items[i].range;
    }
    for (int i = 0; i < n + more; i++) {
        body->args[i]->index = (uint32_t)i;
    }
    op_set_dims(func, p->parallel, ATTR_DIMS, n + more, all_dims);
    op_set_ints(func, p->parallel, ATTR_STEPS, n + more, all_steps);
}

/* The axis of memory, indexed whole, that is this axis of what is moved. */
static void index_by_ranges(Padding *p, Op *op)
{
    const Value *moved = op_moved_value(op);
    Access access = op_access(op, 0);
    int axis = 0;
    for (int i = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        const PaddedAxis *padded = index ? NULL : padded_axis(p, moved, axis);
        axis += !index || index->type->kind == TYPE_RANGE;
        if (padded) {
            op_set_operand(op, 1 + i, padded->range);
        }
    }
}

static void use_ranges(Op *op, void *user)
{
    Padding *p = user;
    const PaddedAxis *counted = op->kind == OP_IOTA ? padded_axis(p, op->results[0], 0) : NULL;
    if (op->kind == OP_LOAD || op->kind == OP_STORE) {
        index_by_ranges(p, op);
    } else if (counted) {
        Builder before = build_before(p->func, op);
        func_replace_uses(p->func, op->results[0],
                          build_index(&before, counted->range, op->results[0]->type->dtype));
    }
}

static void set_type(Padding *p, Value *value)
{
    Type type = value->type;
    Dim dims[MAX_RANK];
    bool changed = false;
    for (int i = 0; type->kind == TYPE_ARRAY && i < type->rank; i++) {
        const PaddedAxis *axis = padded_axis(p, value, i);
        dims[i] = axis ? axis->range->type->dims[0] : type->dims[i];
        changed = changed || axis;
    }
    if (changed) {
        value->type = type_with_dims(p->func, type, type->rank, dims);
    }
}

static void set_types(Op *op, void *user)
{
    for (int i = 0; i < op->n_results; i++) {
        set_type(user, op->results[i]);
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            set_type(user, op->regions[r]->args[i]);
        }
    }
}

static void drop_refused(Padding *p)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        if (!p->items[i].refused) {
            p->items[n++] = p->items[i];
        }
    }
    p->n = n;
}

void tile_pad_axes(Func *func, Op *parallel)
{
    Block *body = parallel->regions[0];
    if (!is_gpu(func) || !mma_first(func->target, NULL) || !block_contains(body, OP_DOT)) {
        return;
    }
    Padding p = {.func = func, .parallel = parallel, .axes = an_axes(func, body)};
    block_walk(body, see_dot, &p);
    if (p.n > 0) {
        p.inside = ARENA_ARRAY(func->arena, bool, func->n_values);
        block_walk(body, see_values, &p);
        block_walk(body, check_op, &p);
        drop_refused(&p);
    }
    if (p.n > 0 && op_attr(parallel, ATTR_DIMS)->n + p.n <= TENSOR_RANK) {
        add_ranges(&p);
        block_walk(body, use_ranges, &p);
        block_walk(body, set_types, &p);
        func_remove_dead(func);
    }
    axes_done(&p.axes);
}
