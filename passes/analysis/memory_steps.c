/* SPDX-License-Identifier: Apache-2.0 */
/* Computes distances in memory between elements of a gathered or scattered tile. The indices are
 * evaluated at two coordinates, with the greatest possible sizes and ranges that begin at 0. */
#include "passes/analysis/memory_steps.h"

#include "passes/analysis/computations.h"

#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "support/int_math.h"

/* What a size without a maximum counts as, and a bound of all numbers here: sums and products of
 * two of them do not overflow. */
static const int64_t LARGE = (int64_t)1 << 20, FAR = (int64_t)1 << 31;

static const int64_t UNKNOWN = INT64_MIN;

typedef struct Probe {
    Memo *memo;
    int64_t at;
} Probe;

static int64_t value_at(const Probe *p, const Value *value, int axis);

static int64_t size_of(Dim dim)
{
    int64_t most = poly_most(dim);
    if (most <= 0) {
        return 1;
    }
    return most < FAR ? most : LARGE;
}

static int64_t within(int64_t number)
{
    return min_i64(FAR, max_i64(-FAR, number));
}

static int64_t binary_at(OpKind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case OP_ADD: return within(a + b);
    case OP_SUB: return within(a - b);
    case OP_MUL: return within(a * b);
    case OP_DIV: return b > 0 && a >= 0 ? a / b : UNKNOWN;
    case OP_MOD: return b > 0 && a >= 0 ? a % b : UNKNOWN;
    case OP_SHR: return b >= 0 && b < 63 && a >= 0 ? a >> b : UNKNOWN;
    case OP_AND: return a >= 0 && b >= 0 ? a & b : UNKNOWN;
    default: return UNKNOWN;
    }
}

static int64_t op_at(const Probe *p, const Op *op, int axis)
{
    if (op_moves_axes(op)) {
        const Value *from = op->operands[0];
        int own = axis >= 0 ? op_operand_axis(op, 0, axis) : -1;
        bool stretched = own >= 0 && from->type->dims[own] != op->results[0]->type->dims[axis];
        return value_at(p, from, stretched ? -1 : own);
    }
    switch (op->kind) {
    case OP_CONST: return within(op_attr(op, ATTR_VALUE)->i);
    case OP_SIZE: return size_of(op_attr(op, ATTR_DIM)->dims[0]);
    case OP_START: return 0;
    case OP_IOTA:
    case OP_INDEX: return axis >= 0 ? p->at : 0;
    case OP_CAST:
        return dtype_is_int(op->operands[0]->type->dtype) ? value_at(p, op->operands[0], axis)
                                                          : UNKNOWN;
    default: break;
    }
    if (op->n_operands != 2 || !op_has(op, TRAIT_ELEMENTWISE)) {
        return UNKNOWN;
    }
    int64_t a = value_at(p, op->operands[0], axis), b = value_at(p, op->operands[1], axis);
    return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : binary_at(op->kind, a, b);
}

/* The element at the coordinate along the axis (-1: along none), and at 0 along all others. */
static int64_t value_at(const Probe *p, const Value *value, int axis)
{
    int64_t found;
    bool integer = value->type->kind == TYPE_ARRAY && dtype_is_int(value->type->dtype);
    if (value->type->kind == TYPE_RANGE || (!value->def && integer && !value->type->rank)) {
        return 0; /* of a loop over places */
    }
    if (!value->def || !integer || value->def->n_results != 1) {
        return UNKNOWN;
    }
    axis = value->type->rank ? axis : -1;
    return memo_known(p->memo, value, axis + 1, &found)
               ? found
               : memo_keep(p->memo, value, axis + 1, op_at(p, value->def, axis));
}

/* The place in memory; UNKNOWN: it is computed otherwise. */
static int64_t place_at(const Op *op, int axis, int64_t at)
{
    Access access = op_access(op, 0);
    Type memory = access.memory->type;
    Probe p = {memo_about(op_moved_value(op)), at};
    int64_t place = 0, stride = 1;
    for (int i = access.n; i-- > 0 && place != UNKNOWN;) {
        bool varies = an_varies(NULL, access.indices[i]) >> axis & 1;
        int64_t index = varies ? value_at(&p, access.indices[i], axis) : 0;
        int64_t own = memory->strides ? size_of(memory->strides[i]) : stride;
        place = index == UNKNOWN ? UNKNOWN : within(place + within(index * own));
        stride = within(stride * size_of(memory->dims[i]));
    }
    memo_close(p.memo);
    return place;
}

int64_t an_memory_step(const Op *op, int axis, int64_t at)
{
    int64_t from = place_at(op, axis, 0), to = place_at(op, axis, at);
    if (from == UNKNOWN || to == UNKNOWN) {
        return -1;
    }
    return from < to ? to - from : from - to;
}

bool an_has_neighbours(const Op *op, int64_t within)
{
    enum { BITS = 3 }; /* of coordinates: eight elements */
    Type type = op_moved_value(op)->type;
    int near = 0;
    for (int axis = 0; axis < type->rank; axis++) {
        for (int64_t at = 1; at < poly_capacity(type->dims[axis]) && near < BITS; at *= 2) {
            int64_t step = an_memory_step(op, axis, at);
            near += step > 0 && step < within;
        }
    }
    return near == BITS;
}

/* The axis of the memory along which the statement reads neighbours for neighbours that it writes,
 * or of its result where it writes none; -1: it reads nothing there, or has no such axis. */
enum { FEW = 16 }; /* neighbours, that a warp does not take */

static int read_along(const Compute *statement, const Value *memory)
{
    const Value *result = statement->result.value;
    int rank = result && result->type->kind == TYPE_ARRAY ? result->type->rank : 0;
    const Axis *last = NULL;
    while (rank > 0 && !last) { /* of several elements */
        last = map_as_axis(statement->result.at[--rank]);
    }
    for (size_t i = 0; i < statement->axes.n; i++) { /* few results of long rows: along these */
        const ComputeAxis *own = &statement->axes.items[i];
        bool known = last && last->extent && own->axis->extent;
        bool is_longer = known && poly_nominal(last->extent) < FEW &&
                         poly_nominal(own->axis->extent) > poly_nominal(last->extent);
        last = own->role == ROLE_REDUCED && is_longer ? own->axis : last;
    }
    for (size_t i = 0; i < statement->uses.n; i++) {
        const Use *use = &statement->uses.items[i];
        bool writes = use->mode == USE_WRITE && use->rank > 0;
        last = writes ? map_as_axis(use->at[use->rank - 1]) : last;
    }
    for (size_t i = 0; last && i < statement->uses.n; i++) {
        const Use *use = &statement->uses.items[i];
        for (int k = 0; use->mode == USE_READ && use->memory == memory && k < use->rank; k++) {
            if (use->at[k] && map_depends_on(use->at[k], last)) {
                return k;
            }
        }
    }
    return -1;
}

static double elements_written(const Compute *statement)
{
    double n = 1;
    for (size_t i = 0; i < statement->axes.n; i++) {
        const ComputeAxis *own = &statement->axes.items[i];
        bool kept = own->role == ROLE_KEPT && own->axis->extent;
        n *= kept ? (double)poly_nominal(own->axis->extent) : 1;
    }
    return n;
}

int an_read_along(Func *func, const Value *memory)
{
    Computations all = an_computations(func, func->body);
    int along = -1;
    double most = 0;
    for (size_t i = 0; i < all.all.n; i++) {
        int own = read_along(all.all.items[i], memory);
        double n = own >= 0 ? elements_written(all.all.items[i]) : 0;
        along = n > most ? own : along;
        most = n > most ? n : most;
    }
    return along;
}
