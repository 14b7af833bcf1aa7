/* SPDX-License-Identifier: Apache-2.0 */
/* reads: gathers that walk whole axes in order become plain reads.
 *
 *   %i = iota dim=[N]                        %x0 = load %x[:, :] : f32[M, N]
 *   %j = iota dim=[M]                  →     %g  = permute %x0 perm=[1, 0] : f32[N, M]
 *   %g = gather %x[%j, %i] : f32[N, M]
 *
 * (Each index is broadcast to the result's shape.) Such a read is inside by construction, is copied
 * in bulk, and ties the axes of what reads it. Requires the tensor stage. Changes no bits. */
#include "ir/build.h"
#include "passes/pass.h"

/* The axis along which an index is 0, 1, 2, … up to the extent; -1: it is something else. */
static int plain_axis(const Value *index, Dim extent)
{
    const Op *op = index->def;
    if (!op) {
        return -1;
    }
    if (op->kind == OP_IOTA) {
        return op_attr(op, ATTR_DIM)->dims[0] == extent ? 0 : -1;
    }
    bool moves = op->kind == OP_CAST || op->kind == OP_BROADCAST || op->kind == OP_EXPAND ||
                 op->kind == OP_SQUEEZE || op->kind == OP_PERMUTE;
    int axis = moves ? plain_axis(op->operands[0], extent) : -1;
    int at = (int)op_int(op, ATTR_AXIS, 0), rank = index->type->rank;
    if (axis < 0) {
        return -1;
    }
    switch (op->kind) {
    case OP_BROADCAST: axis += rank - op->operands[0]->type->rank; break;
    case OP_EXPAND: axis += axis >= at; break;
    case OP_SQUEEZE: axis -= axis > at; break;
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++) {
            if (op_attr(op, ATTR_PERM)->ints[i] == axis) {
                return i;
            }
        }
        return -1;
    default: break;
    }
    return axis >= 0 && index->type->dims[axis] == extent ? axis : -1;
}

/* Which of the result's axes each index walks; false: this is no plain read. */
static bool is_plain(const Op *gather, int *axes)
{
    Type from = gather->operands[0]->type;
    unsigned seen = 0;
    for (int i = 0; i < from->rank; i++) {
        const Value *index = gather->operands[i + 1];
        axes[i] = index->type->rank ? plain_axis(index, from->dims[i]) : -1;
        if (axes[i] < 0 || (seen >> axes[i] & 1)) {
            return false;
        }
        seen |= 1u << axes[i];
    }
    return true;
}

/* Axis i of the value becomes axis axes[i] of the result; others are stretched. */
static Value *placed(Builder *b, Value *value, const int *axes, Type to)
{
    int64_t perm[MAX_RANK];
    int n = 0, rank = value->type->rank;
    bool ordered = true;
    for (int axis = 0; axis < to->rank; axis++) {
        for (int i = 0; i < rank; i++) {
            if (axes[i] == axis) {
                ordered = ordered && i == n;
                perm[n++] = i;
            }
        }
    }
    value = ordered ? value : build_permute(b, value, perm);
    for (int axis = 0; axis < to->rank; axis++) {
        bool walked = false;
        for (int i = 0; i < rank; i++) {
            walked = walked || axes[i] == axis;
        }
        value = walked ? value : build_expand(b, value, axis);
    }
    return build_broadcast(b, value, to->rank, to->dims);
}

static void read_plainly(Op *op, void *user)
{
    static Value *const WHOLE[MAX_RANK];
    Func *func = user;
    int axes[MAX_RANK];
    if (op->kind != OP_GATHER || !is_plain(op, axes)) {
        return;
    }
    Builder b = build_before(func, op);
    Value *from = op->operands[0];
    if (type_is_memory(from->type)) {
        from = build_load(&b, from, WHOLE);
    }
    Value *result = placed(&b, from, axes, op->results[0]->type);
    func_replace_uses(func, op->results[0], result);
    op_remove(op);
}

void pass_opt_reads(Func *func)
{
    func_walk(func, read_plainly, func);
    func_remove_dead(func);
}
