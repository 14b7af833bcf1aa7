/* SPDX-License-Identifier: Apache-2.0 */
/* sink_dequant_scale: multiplies narrow operands directly and applies their scale to the
 * accumulator.
 *
 *   %a = cast (load %x[%m, %k]) : f32
 *   %b = cast (load %w[%k, %n]) : f32          %p = dot (load %x[%m, %k]), (load %w[%k, %n])
 *   %s = gather %scale[%k / 128, %n]       →   %s = load %scale[start %k / 128, %n]
 *   %d = dot %a, (mul %b, %s), %c              %d = fma %p, %s, %c
 *
 * Products of elements of 16 bits or fewer are exact in f32, so a matrix instruction can multiply
 * them; a narrower operand is upcast on its way to the instruction. A scale that is constant within
 * one k step (that of a quantization group) is then one multiplication per element of the result
 * instead of one per element of the operand. Requires a matrix instruction for the two types and:
 * tile (the k step is known). Reassociates the sum of the dot. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/dequant_scale.h"
#include "ir/drop_axis.h"
#include "passes/pass.h"

/* The narrow operand, turned as the wide one was. */
static Value *turned(Builder *b, const Value *operand, Value *narrow)
{
    const Op *op = operand->def;
    if (op->kind != OP_PERMUTE) {
        return narrow;
    }
    return build_permute(b, turned(b, op->operands[0], narrow), op_attr(op, ATTR_PERM)->ints);
}

/* ---- a factor without k ---- */

/* The number that is the same for all elements; NULL: they may differ. */
static Value *number_of(Value *index)
{
    while (!type_is_scalar(index->type) && index->def &&
           (index->def->kind == OP_CAST || index->def->kind == OP_BROADCAST ||
            index->def->kind == OP_EXPAND)) {
        index = index->def->operands[0];
    }
    return type_is_scalar(index->type) ? index : NULL;
}

/* The range that an index counts in, if that is all of an axis. */
static Value *range_of(const Value *index, Dim extent)
{
    const Op *op = index->def;
    while (op && op->kind == OP_CAST) {
        op = op->operands[0]->def;
    }
    bool counts = op && op->kind == OP_INDEX &&
                  poly_as_range(op->results[0]->type->dims[0])->axis_extent == extent;
    return counts ? op->operands[0] : NULL;
}

/* Indices that are numbers but for one range, the last, make a gather a plain read. */
static Value *read_plainly(Func *func, Op *gather)
{
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK];
    Access access = op_access(gather, 0);
    const Attr *guard = op_attr(gather, ATTR_GUARD), *other = op_attr(gather, ATTR_VALUE);
    bool any = false;
    if (gather->results[0]->type->rank != 1 || (other && (other->f != 0 || other->i != 0))) {
        return gather->results[0];
    }
    Builder b = build_before(func, gather);
    for (int i = 0; i < access.n; i++) {
        bool last = i + 1 == access.n;
        Value *number = last ? NULL : number_of(access.indices[i]);
        if (last) {
            indices[i] = range_of(access.indices[i], access.memory->type->dims[i]);
        } else if (number) {
            indices[i] = build_cast(&b, number, DT_I64);
        } else {
            indices[i] = NULL;
        }
        guards[i] = !last && (!guard || guard->ints[i]);
        any = any || guards[i];
        if (!indices[i]) {
            return gather->results[0];
        }
    }
    Value *load = build_load(&b, access.memory, indices);
    if (any) {
        op_set_ints(func, load->def, ATTR_GUARD, access.n, guards);
    }
    func_replace_uses(func, gather->results[0], load);
    op_remove(gather);
    return load;
}

/* Returns the value, or the load that takes its place. */
static Value *read_all_plainly(Func *func, Value *value)
{
    Op *op = value->def;
    if (op && op->kind == OP_GATHER) {
        return read_plainly(func, op);
    }
    if (op && op_has(op, TRAIT_ELEMENTWISE)) {
        for (int i = 0; i < op->n_operands; i++) {
            read_all_plainly(func, op->operands[i]);
        }
    }
    return value;
}

/* As an array of the result's shape. */
static Value *own_factor(Builder *b, const FactorSide *found, Type operand, int side, Type to)
{
    Value *k = poly_as_range(operand->dims[side == 0 ? 1 : 0])->binder;
    Value *start = build_range_fact(b, OP_START, k);
    Value *factor = axis_taken(b, found->factor, found->along_k, start);
    Value *hold = read_all_plainly(b->func, build_cast(b, factor, DT_F32));
    if (hold->type->rank > 0) {
        hold = build_expand(b, hold, side == 0 ? 1 : 0);
    }
    return build_broadcast(b, hold, to->rank, to->dims);
}

/* ---- the product ---- */

static void factor(Op *dot, void *user)
{
    Func *func = user;
    ScaledDot found;
    if (dot->kind != OP_DOT || !an_scaled_dot(func, dot, &found)) {
        return;
    }
    Type result = dot->results[0]->type;
    Builder b = build_before(func, dot);
    Value *narrow[2], *scale = NULL;
    for (int side = 0; side < 2; side++) {
        const FactorSide *own = &found.sides[side];
        narrow[side] = turned(&b, dot->operands[side], own->narrow);
        if (own->factor) {
            Value *by = own_factor(&b, own, dot->operands[side]->type, side, result);
            scale = scale ? build_binary(&b, OP_MUL, scale, by) : by;
        }
    }
    Value *onto = dot->n_operands > 2 ? dot->operands[2] : NULL;
    Value *product = build_dot(&b, narrow[0], narrow[1], scale ? NULL : onto, DT_F32);
    op_inherit_over(func, product->def, dot);
    if (scale) {
        product =
            onto ? build_fma(&b, product, scale, onto) : build_binary(&b, OP_MUL, product, scale);
    }
    product->name = dot->results[0]->name;
    func_replace_uses(func, dot->results[0], product);
    op_remove(dot);
}

void pass_sink_dequant_scale(Func *func)
{
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, factor, func);
        func_remove_dead(func);
    }
}
