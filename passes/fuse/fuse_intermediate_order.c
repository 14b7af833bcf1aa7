/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the order of an intermediate's axes in memory.
 *
 *   %w = gather %x[%b, %c, %p+r, %q+s] : f32[B, P, Q, C, R, S]
 *   %m = reduce reduce %w            : f32[B, P, Q, C]          (windows over the last axes of x)
 *   a gather reads %m                            →    its memory is f32[B, C, P, Q]
 *
 * Each element of x is read by several windows, in contiguous runs along the last axis of x. If the
 * intermediate had another order, no thread could both read and store contiguous runs. */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"

enum { MAX_STEPS = 64 }; /* ops from a value down to the memory that it is made of */

/* Which axes of a value each axis of a memory is walked by, as bits. */
typedef struct Walk {
    unsigned axes[MAX_RANK];
    int n; /* 0: no memory is known */
} Walk;

static int count_axes(const Walk *walk)
{
    unsigned all = 0;
    for (int i = 0; i < walk->n; i++) {
        all |= walk->axes[i];
    }
    return __builtin_popcount(all);
}

static Walk walk_of(const Value *value, int *steps);

static Walk walk_of_memory(const Op *op)
{
    Access access = op_access(op, 0);
    Walk walk = {.n = 0};
    bool plain = op->kind == OP_LOAD && op_accesses_whole(op);
    for (int i = 0; i < access.n && (plain || op->kind == OP_GATHER); i++) {
        walk.axes[walk.n++] = plain ? 1u << i : an_varies(NULL, access.indices[i]);
    }
    return walk;
}

/* Of what is gathered from an array: along the axes of the gather's indices. */
static Walk walk_of_gathered(const Op *gather, int *steps)
{
    Walk walk = walk_of(gather->operands[0], steps);
    for (int i = 0; i < walk.n; i++) {
        unsigned axes = 0;
        for (int k = 0; k < gather->operands[0]->type->rank; k++) {
            axes |= walk.axes[i] >> k & 1 ? an_varies(NULL, gather->operands[1 + k]) : 0;
        }
        walk.axes[i] = axes;
    }
    return walk;
}

/* Of several operands the one that has most of the value's axes. */
static Walk walk_of_operands(const Op *op, int *steps)
{
    Walk most = {.n = 0};
    for (int i = 0; i < op->n_operands && *steps > 0; i++) {
        Type type = op->operands[i]->type;
        bool chosen = type->rank > 0 && type->dtype != DT_BOOL; /* no condition of a select */
        Walk walk = chosen ? walk_of(op->operands[i], steps) : (Walk){.n = 0};
        most = count_axes(&walk) > count_axes(&most) ? walk : most;
    }
    return most;
}

static Walk walk_of(const Value *value, int *steps)
{
    const Op *op = value->def;
    if (!op || (*steps)-- <= 0) {
        return (Walk){.n = 0};
    }
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    if (reads && type_is_memory(op->operands[0]->type)) {
        return walk_of_memory(op);
    }
    if (op->kind == OP_GATHER) {
        return walk_of_gathered(op, steps);
    }
    if (op_moves_axes(op) || op->kind == OP_REDUCE) {
        Walk walk = walk_of(op->operands[0], steps);
        for (int i = 0; i < walk.n; i++) {
            unsigned folded = op->kind == OP_REDUCE ? 1u << op_int(op, ATTR_AXIS, 0) : 0;
            walk.axes[i] = folded ? walk.axes[i] & ~folded : an_axes_moved(op, walk.axes[i]);
        }
        return walk;
    }
    return op_has(op, TRAIT_ELEMENTWISE) ? walk_of_operands(op, steps) : (Walk){.n = 0};
}

/* Is it made of windows: a reduction, but for what is done with each of its elements? */
static bool is_of_windows(const Value *value)
{
    const Op *op = value->def;
    for (int steps = MAX_STEPS; op && steps > 0; steps--) {
        if (op->kind == OP_REDUCE) {
            return true; /* an axis that only it has is none of the memory's */
        }
        bool passes = op_moves_axes(op) || (op_has(op, TRAIT_ELEMENTWISE) && op->n_operands > 0);
        op = passes ? op->operands[0]->def : NULL;
    }
    return false;
}

/* Is it computed element by element, and no copy of an array in another order? */
static bool is_computed(const Value *value)
{
    const Op *op = value->def;
    while (op && (op_moves_axes(op) || op->kind == OP_CAST)) {
        op = op->operands[0]->def;
    }
    return op && op_has(op, TRAIT_ELEMENTWISE) && op->n_operands > 0;
}

int fuse_contiguous_axis(const Value *value)
{
    int steps = MAX_STEPS;
    Walk walk = walk_of(value, &steps);
    unsigned last = walk.n ? walk.axes[walk.n - 1] : 0;
    return __builtin_popcount(last) == 1 ? __builtin_ctz(last) : -1;
}

bool fuse_intermediate_order(const Value *value, int64_t *order)
{
    int steps = MAX_STEPS, n = 0;
    int rank = value->type->rank;
    Walk walk = is_of_windows(value) || is_computed(value) ? walk_of(value, &steps)
                                                           : (Walk){.n = 0};
    unsigned known = 0;
    for (int i = 0; i < walk.n; i++) {
        if (!walk.axes[i] || (known & walk.axes[i])) {
            return false;
        }
        known |= walk.axes[i];
        for (int k = 0; k < rank; k++) { /* groups and their elements: as the value has them */
            if (walk.axes[i] >> k & 1) {
                order[n++] = k;
            }
        }
    }
    int64_t last = n ? order[n - 1] : -1, extent;
    int longest = -1; /* the last axis of more than one element */
    for (int i = 0; i < rank; i++) {
        bool one = poly_is_const(value->type->dims[i], &extent) && extent == 1;
        longest = one ? longest : i;
        if (one && !(known >> i & 1)) {
            order[n++] = i;
        }
    }
    return n == rank && n > 1 && last != longest;
}
