/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which reductions of a dot's result the epilogue can compute: those along an axis, or
 * along parts of an axis, that one tile of the dot holds, if the additional code and registers per
 * element stay within their limits. */
#include "passes/analysis/epilogue_folds.h"

#include "ir/layout/matrix_instr.h"
#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "support/int_math.h"

enum {
    MOST = 128,      /* elements along an edge of 32-bit sums, as most tiles have */
    MOST_WIDE = 256, /* columns, where a warp group multiplies 64 rows by as many */
    ALIGNED = 64,    /* longer axes have tiles of a multiple */
    LEAST = 8,
    MOST_KNOWN = 1 << 30, /* elements of an axis */
    MAX_OPS = 110,        /* on an element where a thread has 64, */
    MAX_WIDE_OPS = 44,    /* and where it has 128: */
    MANY_WAVES = 4,       /* tiles of a multiprocessor, of which the last one costs little */
    DIVIDE_OPS = 20,      /* instructions of a division or a square root */
};

/* Does a warp group multiply 64 rows by this many columns? */
static bool may_be_wide(const Func *func, const Op *dot, int axis)
{
    bool narrow = dtype_bits(dot->operands[0]->type->dtype) <= 16 &&
                  dtype_bits(dot->operands[1]->type->dtype) <= 16;
    return axis == dot->results[0]->type->rank - 1 && narrow && func->target &&
           mma_warpgroup(func->target);
}

/* The user's tile along the axis; 0: none. */
static int64_t given_tile(Func *func, Type type, int axis)
{
    const DimVar *var = poly_name_giver(type->dims[axis]);
    const ScheduleEntry *given =
        var && var->name ? schedule_peek_entry(func, "tile", var->name) : NULL;
    return given ? given->number : 0;
}

/* Are there several tiles of the greatest size for each multiprocessor? */
static bool are_many_wide(const Func *func, Type type)
{
    double tiles = 1.0 / (MOST * MOST_WIDE);
    for (int i = 0; i < type->rank; i++) {
        tiles *= (double)poly_nominal(type->dims[i]);
    }
    return func->target && tiles >= MANY_WAVES * func->target->machine->num_sms;
}

int64_t an_parts_of_axis(Func *func, const Op *dot, int axis, int instructions)
{
    Type type = dot->results[0]->type;
    bool known = axis >= type->rank - 2 && poly_most(type->dims[axis]) < MOST_KNOWN;
    int64_t given = known ? given_tile(func, type, axis) : 0;
    int64_t words = max_i64(1, dtype_bytes(type->dtype) / 4);
    bool fills = known && axis == type->rank - 1 &&
                 (poly_most(type->dims[type->rank - 2]) <= ALIGNED || are_many_wide(func, type));
    bool wide = fills && may_be_wide(func, dot, axis) && instructions <= MAX_WIDE_OPS;
    if (!known) {
        return 0;
    }
    if (given > 0) {
        return given;
    }
    return (wide ? MOST_WIDE : MOST) / words;
}

int64_t an_whole_axis(Func *func, const Op *dot, int axis, int n_dots)
{
    Type type = dot->results[0]->type;
    int64_t extent = poly_most(type->dims[axis]);
    int64_t most = may_be_wide(func, dot, axis) ? MOST_WIDE : MOST;
    most /= power_of_two_at_least(n_dots) * max_i64(1, dtype_bytes(type->dtype) / 4);
    if (!func->target || axis < type->rank - 2 || extent > most) {
        return 0;
    }
    int64_t given = given_tile(func, type, axis);
    if (given && given < extent) {
        return 0; /* the user's tiles are smaller */
    }
    return extent <= ALIGNED ? power_of_two_at_least(max_i64(LEAST, extent))
                             : ceil_div(extent, ALIGNED) * ALIGNED;
}

int an_epilogue_instructions(const Op *op)
{
    switch (op->kind) {
    case OP_CAST: return 0;
    case OP_DIV:
    case OP_SQRT: return DIVIDE_OPS;
    default: return op_has(op, TRAIT_ELEMENTWISE) ? 1 : 0;
    }
}

int an_most_epilogue_instructions(int64_t whole)
{
    return whole > MOST ? MAX_WIDE_OPS : MAX_OPS;
}
