/* SPDX-License-Identifier: Apache-2.0 */
/* The iteration axes of a group of whole-tensor statements: which axes of which values iterate
 * together. Elementwise ops tie their operands' axes to the result's; a broadcast ties what it does
 * not stretch; a dot ties m, n and k. A class of tied axes is one loop. */
#ifndef TESSERA_PASSES_ANALYSIS_AXIS_CLASSES_H
#define TESSERA_PASSES_ANALYSIS_AXIS_CLASSES_H

#include "ir/ir.h"
#include "ir/op_axes.h"

typedef struct Axes {
    Func *func;
    struct AxesMemory *memory;
    uint32_t n_values; /* of the function, when they were tied */
} Axes;

/* Flags of a class: AXIS_REDUCED, AXIS_CONTRACTED, AXIS_SCANNED (then AXIS_REDUCED, too) of
 * op_axes.h, and this one: an op writes an array along it. */
enum { AXIS_STORED = 64 };

/* Elements of a state that each element of a scan has, and that is reduced: a block holds them all,
 * so that the loop along the scanned axis needs none inside of it. */
enum { MAX_STATE = 64 };

/* An axis that no one has to choose a loop for: one element, or a range of the source's. */
bool axes_is_settled(Dim dim);

/* Axis i of `a` and axis k of `b` iterate together, since `a` is operand `use` of `by`; `by` NULL:
 * since both are carried by a loop, or are results of one op. */
typedef struct AxesTie {
    Op *by;
    int use;
    Value *a;
    int i;
    Value *b;
    int k;
} AxesTie;
typedef void AxesTieFn(const AxesTie *tie, void *user);
/* What an op ties, without the ops in its regions; axes of one element are left out. */
void axes_ties(Op *op, AxesTieFn *fn, void *user);
/* Writing ops of a launch of which each has an axis that is like none of those before it: of
 * another extent, or at another place, past those of one element. */
typedef struct AxesWriters {
    Op **items;
    size_t n, cap;
} AxesWriters;
void axes_add_writer(Arena *arena, AxesWriters *writers, Op *op);
/* What a writing op ties with those: axes of the same place and extent. So what two writes tie does
 * not depend on a third one: an intermediate that nothing reads is dropped later. */
void axes_ties_written(Op *op, const AxesWriters *writers, AxesTieFn *fn, void *user);

/* Over the ops in `block` and in the regions of its ops. */
Axes an_axes(Func *func, Block *block);
/* The same for a block that has changed, in the same memory. */
void axes_rebuild(Axes *axes, Block *block);
/* They are not asked again: the next ones have their memory. */
void axes_done(Axes *axes);
/* The class of an axis; -1 for an axis of literal extent 1, and for a range of the source's. */
int axes_class(const Axes *axes, const Value *value, int axis);
unsigned axes_flags(const Axes *axes, int class);
/* The array whose axes an op writes along: a store's value, a scatter's, what is printed; NULL for
 * ops without an effect of their own. */
const Value *axes_written(const Op *op);
/* Two axes of one value walk together: `x + x.T` over one load of x. Then the statements must not
 * share that value. */
bool axes_conflict(const Axes *axes, Block *block);

#endif
