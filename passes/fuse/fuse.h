/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the pass fuse, private to the component:
 *
 *   fuse.c                    units of statements, their order, launches
 *   fusion_group.c            builds the statements of one launch
 *   fuse_axis_conflicts.c     copies of values that are iterated over along different axes
 *   fuse_dependences.c        dependences between statements
 *   fuse_split.h              which values get a launch of their own
 *   fuse_column_reductions.c  column reductions in the launch of row work
 *   fuse_intermediates.c      intermediates in memory; reads of memory that changes
 *   fuse_intermediate_order.c the order of their axes
 *   fuse_in_place.c           updates of tensors that need each other's old elements
 *   invert_gathers.c          gathers from costly arrays that become scatters
 *   fuse_pieces.c             stores of concatenated arrays, piece by piece
 *   fuse_gathers.c            gathers from computed arrays
 *   fuse_epilogue_folds.c     partial reductions of dots in their epilogues
 *   fuse_moments.c            the replacements of such reductions
 *   fuse_value_at.c           values rebuilt at other indices
 *   fuse_sequential.c         loops with a cross-element dependence */
#ifndef TESSERA_PASSES_FUSE_FUSE_H
#define TESSERA_PASSES_FUSE_FUSE_H

#include "ir/build.h"
#include "passes/analysis/row_column_sweep.h"

/* Why not (fuse_reasons.def). */
typedef enum FuseReason {
    FUSE_FITS,
#define FUSE_REASON(id, text) FUSE_##id,
#include "passes/fuse/fuse_reasons.def"
#undef FUSE_REASON
} FuseReason;

/* Does an op write memory, or have one in its regions that does? */
bool fuse_has_effect(const Op *op);

/* True of a store to an operand in the form that a matrix instruction reads (ATTR_REPACKED): its
 * readers need that form, so it stays in memory. */
bool fuse_is_repacked(const Op *store);

/* ---- invert_gathers.c ---- */
/* Which gathers: those of dot results and of sums of products, or those of all costly arrays, after
 * stores of several pieces have been split. */
typedef enum InvertScope { INVERT_PRODUCTS, INVERT_ALL } InvertScope;
/* Computes what follows from the elements that a gather reads of a costly array, each once, over
 * the array's own axes, and scatters it to the inverse index. */
void fuse_invert_gathers(Func *func, Block *block, InvertScope scope);

/* ---- fuse_gathers.c ---- */
/* Makes gathers from arrays gathers from memory: by what the array is computed from, where that is
 * cheap, else by an intermediate. */
void fuse_gathers(Func *func, Block *block);

/* True if what the gather reads is cheap to compute at its indices. */
bool fuse_is_cheap_gather(const Func *func, const Op *gather);

/* True if it is cheap to compute the value at these indices, arrays of the shape or scalars. */
bool fuse_is_cheap_at(const Func *func, const Value *value, Value *const *indices, Type shape);

/* ---- fuse_epilogue_folds.c ---- */
/* Reduces what a dot's epilogue can reduce of rows that no block holds, and stores it. */
void fuse_epilogue_folds(Func *func, Block *block);

/* ---- fuse_intermediates.c, fuse_intermediate_order.c ---- */
/* Stores a value to an intermediate tensor right where it is made, and reads
 * it from there in every other op, for this reason. Returns the store. */
Op *fuse_materialize(Func *func, Value *value, FuseReason reason);
/* The order of axes in which an intermediate of the value should lie, which is made of windows over
 * memory that lies so: its axis i is axis order[i] of the value. False: the value's own order. */
bool fuse_intermediate_order(const Value *value, int64_t *order);
/* The axis of a value, of windows perhaps, along which the memory that it is made of lies; -1:
 * none, or not known. */
int fuse_contiguous_axis(const Value *value);
/* Is the value made in a block, by something other than a read of an intermediate? */
bool fuse_may_materialize(const Func *func, const Block *block, const Value *value);
/* A read of memory which is written again before the reader of it runs, or by the reader itself at
 * other places; NULL when there is none. `group`: of the reader alone. */
Value *fuse_changed_read(Func *func, const Op *reader);

/* ---- fuse_in_place.c ---- */
/* Makes one launch of stores to `inout` tensors that need one another's old elements. */
void fuse_in_place(Func *func, Block *block);

/* ---- fusion_group.c ---- */
/* A launch: `parallel` without axes that holds the statements. */
typedef struct FusionGroup {
    Op *parallel;
    CloneMap copies; /* from the body's values */
    HashTable originals; /* back */
} FusionGroup;
FusionGroup fuse_group(Func *func, Builder *at, int n, Op *const *statements);
typedef struct NeededOps {
    Op **items;
    size_t n, cap;
} NeededOps;
/* The ops of the block that the statements are made of, in the block's order; with `effects` also
 * the statements, and ops that write memory. */
NeededOps fuse_needed_ops(Func *func, const Block *block, int n, Op *const *statements,
                          bool effects);
/* Puts copies of what an op needs right before it. */
void fuse_copy_operands(Func *func, Op *op);
/* The body's value that this one of the group is a copy of, or NULL. */
Value *fuse_original(const FusionGroup *group, const Value *copy);
void fuse_remember(Func *func, FusionGroup *group, const Value *copy, Value *original);
/* Is the value made in a region of the op? */
bool fuse_is_within(const Value *value, const Op *op);

/* ---- fuse_axis_conflicts.c ---- */
/* Gives uses that iterate over a value along different axes their own copies of it. False when a
 * value is in the way that costs too much to compute twice: `*costly`, of the body. */
bool fuse_resolve_axis_conflicts(Func *func, FusionGroup *group, Value **costly);

/* ---- fuse_dependences.c ---- */
/* What a statement and all that it computes from touch of each parameter: whole reads, other reads,
 * writes of both kinds, as bits by its number. */
typedef struct MemoryEffects {
    const Op *statement;
    uint64_t *loads, *others, *writes;
} MemoryEffects;
MemoryEffects fuse_touches(Func *func, Op *statement);
/* Must `b` stay behind `a`? Forward: it loads an intermediate that `a` stores, which it may have
 * from `a` in the same launch. */
typedef enum StmtDependence { ORDER_NONE, ORDER_FORWARD, ORDER_STRICT } StmtDependence;
/* True if both write pieces of one store: no element twice. */
bool fuse_are_pieces(const Op *a, const Op *b);
StmtDependence fuse_order(const Func *func, const MemoryEffects *a, const MemoryEffects *b);

/* ---- fuse_split.c ---- */
/* Can one launch compute a group of statements? All conditions are asked here, in one order, and
 * the first one that is broken is the reason that `explain` gives. Gives uses that conflict their
 * own copies of a value. With `body`, the program's, of one statement alone: `*value` is a value of
 * the body that a launch before it should make; FUSE_FITS: there is none. */
FuseReason fuse_nest_check(Func *func, FusionGroup *group, const Block *body, Value **value);
/* What `explain` says of it; NULL: nothing (FUSE_FITS). */
const char *fuse_reason_text(FuseReason reason);
/* Do the statements, which have passed the other conditions, store along the same grid? */
bool fuse_shares_grid(Func *func, const FusionGroup *group);

/* ---- fuse_column_reductions.c ---- */
/* Should a launch that has this walk do all of it? */
bool fuse_keeps_column_reductions(Func *func, const Axes *axes, const Block *block,
                                  const RowColumnSweep *walk);
/* Later launches read results where an intermediate has the same elements. */
void fuse_read_results(Func *func);
/* Says so of a launch that does, whatever else was looked at; `group`: any op of the function. */
void fuse_note_columns(Op *group, void *func);

/* ---- fuse_sequential.c ---- */
/* A loop or a choice whose steps are the same for all elements. */
bool fuse_is_uniform(const Op *op);
/* Do the steps of such ops in a group mix elements of what they carry? */
bool fuse_steps_mix(Func *func, const Axes *axes, Block *group);
/* Do the steps of a loop, or what a choice does, mix elements of what they make? */
bool fuse_has_cross_dependence(Func *func, Op *op);
/* The same of a loop whose arrays are in memory before it: do blocks neither hold the rows that a
 * step mixes nor walk the loop for rows of their own? */
bool fuse_steps_need_all(Func *func, Op *op);
/* The op again, with its arrays in memory. */
Op *fuse_serialize(Func *func, Op *op);
/* An op that has groups in its regions. */
bool fuse_is_serial(const Op *op);
/* A value from outside of the op that it must not make again each time; NULL: none. */
Value *fuse_wanted_outside(Func *func, Op *op);

#endif
