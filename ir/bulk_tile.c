/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a bulk copy covers fewer rows than its shared-memory tile because the tensor is
 * smaller than the tile. The missing rows are then cleared once per block instead of being filled
 * by each copy. */
#include "ir/bulk_tile.h"

#include "ir/build.h"

enum { MAX_ROWS = 256 /* of one copy */ };

int64_t bulk_extent(const Access *tensor, int axis)
{
    const Value *index = tensor->indices[axis];
    if (!index) {
        return poly_capacity(tensor->memory->type->dims[axis]);
    }
    return index->type->kind == TYPE_RANGE ? poly_capacity(index->type->dims[0]) : 1;
}

int bulk_rows_axis(const Access *tensor)
{
    for (int axis = 0; axis + 1 < tensor->n; axis++) {
        if (bulk_extent(tensor, axis) > 1) {
            return axis;
        }
    }
    return -1;
}

typedef struct Loads {
    const Func *func;
    const Value *shared;
    Dim rows;   /* of the tensors that are copied there */
    bool alike; /* nothing else is written there, and all have this many */
} Loads;

static void see_load(Op *op, void *user)
{
    Loads *loads = user;
    if (op->kind == OP_BULK_LOAD && op_access_nth(op, 1).memory == loads->shared) {
        Access tensor = op_access_nth(op, 0);
        int axis = bulk_rows_axis(&tensor);
        Dim rows = axis < 0 ? NULL : tensor.memory->type->dims[axis];
        loads->alike = loads->alike && rows && !op_attr(op, ATTR_CLUSTER) &&
                       (!loads->rows || loads->rows == rows) &&
                       !func_im2col_of(loads->func, tensor.memory);
        loads->rows = rows;
    } else if (op->kind == OP_SHARED_STORE && op->operands[0] == loads->shared) {
        loads->alike = false;
    }
}

Dim bulk_short_tile(const Func *func, const Value *shared)
{
    Type type = shared->type;
    Loads loads = {.func = func, .shared = shared, .alike = true};
    int64_t rows = type->rank == 3 ? poly_capacity(type->dims[1]) : 0;
    block_walk(op_enclosing(shared->def, OP_LAUNCH)->regions[0], see_load, &loads);
    bool few = loads.alike && loads.rows && rows <= MAX_ROWS && poly_most(loads.rows) <= rows &&
               poly_least(loads.rows) < rows;
    return few ? loads.rows : NULL;
}
