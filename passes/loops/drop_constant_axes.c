/* SPDX-License-Identifier: Apache-2.0 */
/* drop_constant_axes: gathers a value that is equal along an axis of its tile without that axis.
 *
 *   for … (%k) {                                    for … (%k) {
 *     %g = div (index %k), 128 : i64[%k]              %g = div (start %k), 128 : i64
 *     %z = gather %zero[%n, %g] : u4[%n, %k]    →     %a = gather %zero[%n, %g] : u4[%n]
 *                                                     %z = broadcast (expand %a) : u4[%n, %k]
 *
 * A tile of k lies in one quantization group of 128 elements, which has one scale and one zero
 * point. Later passes do not know that neighbours along k read the same element, so a thread would
 * load it once for each of its elements. The ops that read the broadcast value stay as they are,
 * and LLVM merges the equal ones. Only gathers from inputs that nothing writes are moved. Requires:
 * tile (the steps are known). Changes no bits. */
#include "ir/drop_axis.h"
#include "ir/target/target.h"
#include "passes/analysis/constant_runs.h"
#include "passes/pass.h"

#include <math.h>

/* True if what is outside of the tensor counts as +0, as that of a load does. */
static bool is_zero_outside(const Op *gather)
{
    const Attr *other = op_attr(gather, ATTR_VALUE);
    return !other || (other->f == 0 && !signbit(other->f) && other->i == 0);
}

/* One element is loaded: an index of a gather is an array. */
static Value *loaded(Builder *b, const Op *gather)
{
    Value *indices[MAX_RANK];
    Access access = op_access(gather, 0);
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    for (int i = 0; i < access.n; i++) {
        indices[i] = build_cast(b, access.indices[i], DT_I64);
    }
    Value *load = build_load(b, access.memory, indices);
    if (guard) {
        op_set_ints(b->func, load->def, ATTR_GUARD, access.n, guard->ints);
    }
    return load;
}

static bool is_input(const Func *func, const Value *memory)
{
    return memory->type->kind == TYPE_TENSOR && func->params.items[memory->index].io == PARAM_IN;
}

/* True if there are several elements along the axis, and all are equal. */
static bool is_constant_along(const Value *value, int axis)
{
    int64_t run = poly_capacity(value->type->dims[axis]) != 1 ? an_constant_run(value, axis) : 1;
    const DimVar *range = poly_as_range(value->type->dims[axis]);
    return run == 0 || (run > 1 && range && an_is_within_run(range, run));
}

/* The gather without the axes along which its elements are equal, and these axes. */
static Value *without_constant_axes(Builder *b, Value *value, bool *dropped)
{
    for (int axis = value->type->rank; axis-- > 0;) {
        Dim dim = value->type->dims[axis];
        bool scalar = value->type->rank == 1 && !is_zero_outside(value->def);
        dropped[axis] = !scalar && is_constant_along(value, axis);
        if (!dropped[axis]) {
            continue;
        }
        const DimVar *range = poly_as_range(dim);
        value = range ? axis_taken(b, value, axis, build_range_fact(b, OP_START, range->binder))
                      : axis_dropped(b, value, axis);
    }
    return value;
}

static void shrink(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_GATHER || !is_input(func, op->operands[0])) {
        return;
    }
    Type type = op->results[0]->type;
    bool dropped[MAX_RANK] = {false};
    Builder b = build_before(func, op);
    Value *value = without_constant_axes(&b, op->results[0], dropped);
    if (value == op->results[0]) {
        return;
    }
    value = value->type->rank == 0 ? loaded(&b, value->def) : value;
    value->name = op->results[0]->name;
    for (int axis = 0; axis < type->rank; axis++) {
        value = dropped[axis] ? build_expand(&b, value, axis) : value;
    }
    func_replace_uses(func, op->results[0], build_broadcast(&b, value, type->rank, type->dims));
    op_remove(op);
}

void pass_drop_constant_axes(Func *func)
{
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, shrink, func);
        func_remove_dead(func);
    }
}
