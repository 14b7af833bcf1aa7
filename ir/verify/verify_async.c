/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of asynchronous copies from global to shared memory (copy_load, copy_wait). */
#include "ir/verify/verify_ops.h"

/* Extents of what an access takes, of a range its capacity; how many there are. */
static int taken(const Access *access, int64_t *extents)
{
    int n = 0;
    for (int i = 0; i < access->n; i++) {
        const Value *index = access->indices[i];
        if (!index || index->type->kind == TYPE_RANGE) {
            extents[n++] =
                poly_capacity(index ? index->type->dims[0] : access->memory->type->dims[i]);
        }
    }
    return n;
}

static bool is_slot_of(const Access *from, const Access *to)
{
    int64_t tile[MAX_RANK], slot[MAX_RANK];
    int n = taken(from, tile);
    bool same = n == 2 && taken(to, slot) == 2 && to->n == 3 && to->indices[0] &&
                to->indices[0]->type->kind != TYPE_RANGE &&
                from->memory->type->dtype == to->memory->type->dtype;
    return same && tile[0] == slot[0] && tile[1] == slot[1];
}

void verify_copy_load(Verifier *v, const Op *op)
{
    static const TypeKind kinds[] = {TYPE_TENSOR, TYPE_SHARED};
    int before = v->failures;
    verify_kinds(v, op, 2, kinds);
    if (v->failures > before) {
        return;
    }
    Access from = op_access(op, 0), to = op_access_nth(op, 1);
    if (!is_slot_of(&from, &to)) {
        verify_fail(v, op, "the place is no slot of the tile's rows and columns");
    }
    const Attr *guard = op_attr(op, ATTR_GUARD), *value = op_attr(op, ATTR_VALUE);
    if (guard && guard->n != op_access(op, 0).n) {
        verify_fail(v, op, "`guard` has not one entry an axis");
    }
    if (value && (value->f != 0 || value->i != 0)) {
        verify_fail(v, op, "what is outside of a tensor arrives as zeros");
    }
}

void verify_copy_wait(Verifier *v, const Op *op)
{
    bool none = op->n_operands == 0;
    if (!none && (op->n_operands != 1 || !type_is_scalar(op->operands[0]->type) ||
                  op->operands[0]->type->dtype != DT_BOOL)) {
        verify_fail(v, op, "its operand is no bool scalar");
    } else if (op_int(op, ATTR_PENDING, 0) < 0) {
        verify_fail(v, op, "`pending` is negative");
    }
}
