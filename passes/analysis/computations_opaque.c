/* SPDX-License-Identifier: Apache-2.0 */
/* Describes computations of which only the reads and writes are known: ops that need several
 * elements along an axis in a fixed order (sorting, folds), and loops that the source tiles by
 * hand. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

static const Affine *number(ComputeBuild *b, int64_t value)
{
    return map_number(&b->all->space, value);
}

/* ---- loops ---- */

/* The axis that an argument of a parallel or for iterates over. */
static void add_loop_axis(ComputeBuild *b, const Value *arg, Dim extent, ComputeRole role)
{
    bool range = arg->type->kind == TYPE_RANGE;
    DimVar *var = range ? poly_as_range(arg->type->dims[0]) : NULL;
    const Axis *axis = compute_add_axis(b, var ? var->axis_extent : extent, arg, role);
    if (var && var->id < b->ranges.n) {
        b->ranges.items[var->id] = axis;
    } else if (!range) {
        memo_keep(b->loops, arg, 0, (intptr_t)axis);
    }
}

static void add_loop_axes(ComputeBuild *b, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS);
    bool loop = op->kind == OP_PARALLEL || op->kind == OP_FOR;
    for (int i = 0; loop && dims && i < dims->n && i < op->regions[0]->n_args; i++) {
        add_loop_axis(b, op->regions[0]->args[i], dims->dims[i],
                      op->kind == OP_FOR ? ROLE_ORDERED : ROLE_KEPT);
    }
}

/* ---- what is inside ---- */

/* The axes of a tile: those of ranges are the loops' axes. `whole`: others get one of their own;
 * otherwise the map is NULL, all of the axis. */
static Instance tile_instance(ComputeBuild *b, Value *value, bool whole)
{
    Instance tile = {.value = value};
    for (int i = 0; i < value->type->rank; i++) {
        Dim extent = value->type->dims[i];
        DimVar *var = poly_as_range(extent);
        const Axis *axis = var && var->id < b->ranges.n ? b->ranges.items[var->id] : NULL;
        if (poly_is_number(extent, 1)) {
            tile.at[i] = number(b, 0);
        } else if (axis || whole) {
            axis = axis ? axis : compute_add_axis(b, extent, NULL, ROLE_ORDERED);
            tile.at[i] = map_axis(&b->all->space, axis);
        }
    }
    return tile;
}

/* Elements of a value from outside, at its own axes. */
static void visit_outside(ComputeBuild *b, Value *value)
{
    for (size_t i = 0; i < b->now->instances.n; i++) {
        if (b->now->instances.items[i]->value == value) {
            return;
        }
    }
    Instance own = {.value = value};
    if (value->type->rank > 0 && compute_goes_by_element(b->now->op)) {
        own = b->now->result;
        own.value = value;
    } else {
        own = tile_instance(b, value, true);
    }
    compute_visit(b, &own, NULL, 0);
}

static void add_inner_access(ComputeBuild *b, const Op *op)
{
    bool indexed = op->kind == OP_GATHER || op->kind == OP_SCATTER;
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    Value *shape;
    if (reads) {
        shape = op->results[0];
    } else if (op->kind == OP_SCATTER) {
        shape = scatter_parts(op).value;
    } else {
        shape = op_moved_value(op);
    }
    UseMode mode = reads ? USE_READ : USE_WRITE;
    if (op->kind == OP_SCATTER && !text_equal(op_word(op, ATTR_FN), "set")) {
        mode = USE_ATOMIC;
    }
    Instance tile = tile_instance(b, shape, indexed);
    compute_add_access(b, op, tile.at, mode, NULL, 0);
}

static void take_inner(Op *op, void *user)
{
    ComputeBuild *b = user;
    add_loop_axes(b, op);
    bool access = op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_STORE ||
                  op->kind == OP_SCATTER;
    if (access && type_is_memory(op->operands[0]->type)) {
        add_inner_access(b, op);
    }
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        bool array = operand && operand->type->kind == TYPE_ARRAY && operand->def;
        if (array && !value_is_inside(operand, b->now->op)) {
            visit_outside(b, operand);
        }
    }
}

/* ---- the op ---- */

/* An operand has the result's axes where the op says so. */
static Instance operand_instance(ComputeBuild *b, const Op *op, int at)
{
    Instance operand = {.value = op->operands[at]};
    const Instance *result = &b->now->result;
    Type type = operand.value->type;
    bool by_element = compute_goes_by_element(op);
    for (int i = 0; i < type->rank; i++) {
        OpAxis axis = op_axis(op, at, i);
        bool sorted = op->kind == OP_SORT && i < type->rank - 1;
        int own = -1;
        if (sorted || by_element) {
            own = i;
        } else if (axis.role == AXIS_TIED) {
            own = axis.result;
        }
        if (poly_is_number(type->dims[i], 1)) {
            operand.at[i] = number(b, 0);
        } else if (own >= 0 && result->value && own < result->value->type->rank) {
            operand.at[i] = result->at[own];
        } else {
            const Axis *added = compute_add_axis(b, type->dims[i], NULL, ROLE_ORDERED);
            operand.at[i] = map_axis(&b->all->space, added);
        }
    }
    return operand;
}

void compute_build_opaque(ComputeBuild *b)
{
    const Op *op = b->now->op;
    add_loop_axes(b, op);
    for (int at = 0; at < op->n_operands; at++) {
        Value *operand = op->operands[at];
        if (operand && operand->type->kind == TYPE_ARRAY) {
            Instance own = operand_instance(b, op, at);
            compute_visit(b, &own, NULL, 0);
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], take_inner, b);
    }
}
