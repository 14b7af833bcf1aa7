/* SPDX-License-Identifier: Apache-2.0 */
/* The axis that a reduction runs over. At the tensor level an operand has the whole axis, and its
 * type gives the extent. At lower levels an operand is a tile, so the op names the whole axis in
 * its attribute `over`. */
#include "ir/build.h"
#include "ir/ir.h"
#include "ir/op_axes.h"

#include <string.h>

bool op_reduces(const Op *op)
{
    switch (op_info(op->kind)->axes) {
    case AXES_REDUCE:
    case AXES_SCAN:
    case AXES_FOLD:
    case AXES_DOT: return true;
    default: return false;
    }
}

int access_dims(const Access *access, Dim *dims)
{
    int rank = 0;
    if (!type_is_memory(access->memory->type)) {
        memcpy(dims, access->memory->type->dims, sizeof(Dim) * access->memory->type->rank);
        return access->memory->type->rank;
    }
    for (int i = 0; i < access->n; i++) {
        if (!access->indices[i]) {
            dims[rank++] = access->memory->type->dims[i];
        } else if (access->indices[i]->type->kind == TYPE_RANGE) {
            dims[rank++] = access->indices[i]->type->dims[0];
        }
    }
    return rank;
}

Dim op_reduced_extent(const Op *op)
{
    Dim dims[MAX_RANK];
    Access first = op->n_operands ? op_access(op, 0) : (Access){0};
    if (!first.memory || first.n >= op->n_operands || op->n_results == 0) {
        return NULL; /* the parser asks before the verifier has seen the op */
    }
    int axis = op_reduced_axis(op, access_dims(&first, dims));
    return axis < 0 ? NULL : dims[axis];
}

/* A tile of the source's own is all that the op runs over. */
static Dim own_tile(Func *func, Dim extent)
{
    int64_t tile = poly_as_range(extent) ? poly_capacity(extent) : -1;
    return tile > 0 ? poly_const(func, tile) : extent;
}

bool op_runs_over_tile(const Op *op)
{
    const Attr *over = op_attr(op, ATTR_OVER);
    Dim extent = op_reduces(op) ? op_reduced_extent(op) : NULL;
    int64_t all;
    return over && over->n == 1 && extent && poly_is_const(over->dims[0], &all) &&
           all == poly_capacity(extent);
}

void op_set_over(Func *func, Op *op, Dim over)
{
    Dim all = own_tile(func, over);
    op_set_dims(func, op, ATTR_OVER, 1, &all);
}

void op_inherit_over(Func *func, Op *op, const Op *from)
{
    const Attr *over = op_attr(from, ATTR_OVER);
    if (over) {
        op_set_dims(func, op, ATTR_OVER, 1, over->dims);
    }
}
