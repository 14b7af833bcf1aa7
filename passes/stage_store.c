/* SPDX-License-Identifier: Apache-2.0 */
/* Results of products leave through shared memory: registers hold them in pieces too small for wide
 * stores, and a bulk copy drains while the next tile is at work. */
#include "passes/stage.h"

int64_t bulk_store_bytes(const Stager *s, const Op *store)
{
    Access access = op_access(store, 0);
    Type value = store->operands[store->n_operands - 1]->type;
    if (!s->func->target->bulk_copy || value->rank != 2 || !bulk_describes(&access)) {
        return 0;
    }
    return poly_capacity(value->dims[0]) * poly_capacity(value->dims[1]) *
           dtype_bytes(value->dtype);
}

static void plain(Builder *b, OpKind kind)
{
    build_op(b, kind, 0, NULL, 0, NULL, 0);
}

static void stage_store(Stager *s, Op *store, Builder *at)
{
    Access access = op_access(store, 0);
    Value *value = store->operands[store->n_operands - 1];
    Value *shared = shared_tile(s, at, value->type->dtype, 1, poly_capacity(value->type->dims[0]),
                                poly_capacity(value->type->dims[1]));
    Builder b = build_before(s->func, store);
    Value *zero = build_int(&b, type_scalar(s->func, DT_I32), 0);
    plain(&b, OP_BULK_WAIT);
    plain(&b, OP_SYNC);
    Value *to_shared[] = {shared, zero, NULL, NULL, value};
    build_op(&b, OP_SHARED_STORE, 5, to_shared, 0, NULL, 0);
    plain(&b, OP_FENCE_ASYNC);
    plain(&b, OP_SYNC);
    Value *to_tensor[MAX_RANK + 8] = {shared, zero, NULL, NULL, access.memory};
    for (int i = 0; i < access.n; i++) {
        to_tensor[5 + i] = access.indices[i];
    }
    build_op(&b, OP_BULK_STORE, 5 + access.n, to_tensor, 0, NULL, 0);
    shared->name = access.memory->name;
    op_remove(store);
}

/* A third of shared memory at most: the rings need the rest. */
void stage_stores(Stager *s, Block *block, Builder *at)
{
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_STORE) {
            continue;
        }
        int64_t bytes = bulk_store_bytes(s, op);
        if (bytes && s->shared_bytes + bytes <= s->func->target->shared_bytes / 3) {
            stage_store(s, op, at);
        }
    }
}
