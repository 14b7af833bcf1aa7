/* SPDX-License-Identifier: Apache-2.0 */
/* Emission of a group over ranges, in parts: tile_emit.c (frames, values, stores, the launch),
 * tile_emit_reductions.c (reductions, scans, products), tile_emit_regions.c (loops and choices of
 * the source). Private to tile. */
#ifndef TESSERA_PASSES_TILE_TILE_EMIT_H
#define TESSERA_PASSES_TILE_TILE_EMIT_H

#include "passes/tile/tile.h"

enum { MOST_SCANS = 16 }; /* that one loop carries */

/* Where values are put: the launch is the outer frame, each loop opens one, and so does each region
 * of the source. */
typedef struct Frame {
    struct Frame *outer;
    Op *op;              /* the loop, or the op with the region; NULL in the launch's frame, and
                            where a window is written out */
    int class;           /* that the loop walks; -1: none */
    const Block *source; /* the region of the source that is emitted here, or NULL */
    Builder at;
    CloneMap values;             /* what has been emitted here; ranges of the source's loops */
    Dim *dims;                   /* by plan item: what stands for its extent here; NULL: none yet */
    Value **ranges;              /* the range, or of a scalar axis the i64 */
    const Op *scans[MOST_SCANS]; /* along the loop's axis: each carries what came before */
    int n_scans, first_scan;     /* carried value of the first */
} Frame;

/* An axis that is shared out over the grid (tile_split_axis.c, tile_lookback.c). */
typedef struct Split {
    int item;
    int64_t shares;
    Value *share, *lo, *hi;    /* of this block: its number, its part of the axis */
    Op *ops[MOST_SCANS];       /* along the axis */
    Value **parts[MOST_SCANS]; /* by result: the tensor of what the shares come to */
    Value **inits[MOST_SCANS]; /* by result: what this block's share begins with */
    int n;
    bool scans;
} Split;

typedef struct Emitter {
    Func *func;
    const TilePlan *plan;
    const Split *split; /* NULL: none */
} Emitter;

/* The plan's item of an axis; -1: one element, or a range of the source's. */
int emit_item(const Emitter *e, const Value *value, int axis);
/* Is the axis walked one element at a time: what is read is without it, and expanded? */
bool emit_is_scalar(const Emitter *e, int item);
/* Is the axis walked by a loop inside of the block? */
bool emit_is_looped(const Emitter *e, int item);
Type emit_type(const Emitter *e, const Frame *frame, const Value *value);
/* The value over this frame's ranges, made there or outside where it does not depend on them. */
Value *emit_value(Emitter *e, Frame *frame, Value *value);
/* The same op on operands from here; a value made without an op of its own is mapped. */
Op *emit_copy(Emitter *e, Frame *frame, const Op *op);

/* A loop over a whole axis for what `roots` need; `inside` is its frame. Ended by emit_end. */
Op *emit_loop(Emitter *e, Frame *frame, int item, int n, Value *const *inits, int n_roots,
              Value *const *roots, Frame *inside);
void emit_end(Emitter *e, Frame *inside, int n, Value *const *next);
/* The value without an axis of one element, as if that had never been there where it was
 * expanded. */
Value *emit_without(Builder *b, Value *value, int axis);
/* The same place with element `k` of a window's axis. */
Frame emit_element(Emitter *e, Frame *frame, int item, int64_t k);
bool emit_is_unrolled(const Emitter *e, int item);
/* Stores, scatters, and what has them in its regions. */
bool emit_has_effect(const Op *op);
void emit_effect(Emitter *e, Frame *frame, const Op *op);
void emit_effects(Emitter *e, const Op *group, Frame *frame);
/* A launch's frame, and a launch by the plan. `shares`: its first axis is these, or, if a cluster's
 * blocks have one each, its last; NULL: none. */
Frame emit_frame(const Emitter *e);
/* What is in the region of `op`, inside of `outer`. */
Frame emit_frame_in(Emitter *e, Frame *outer, Op *op, Builder at);
Op *emit_launch(Emitter *e, Op *group, Frame *frame, Dim shares, const char *name);

/* tile_emit_reductions.c: results are mapped in the frame. */
void emit_reduce(Emitter *e, Frame *frame, const Op *op);
void emit_dot(Emitter *e, Frame *frame, const Op *op);
/* The product's tile as a matrix, and one as what the source has there: with the axes before. */
Value *emit_matrix(Emitter *e, Frame *frame, const Op *dot);
void emit_map_matrix(Frame *frame, const Op *op, Value *matrix);
void emit_scan(Emitter *e, Frame *frame, const Op *op);
void emit_fold(Emitter *e, Frame *frame, const Op *op);
/* A reduction, fold or scan in parts. What the tile here comes to, an array a result: */
void emit_totals(Emitter *e, Frame *frame, const Op *op, Value **out);
/* what arrays of parts come to along their first axis, in their place; */
void emit_fold_arrays(Emitter *e, Frame *frame, const Op *op, Value **parts);
/* what a scan has come to, and what it walks next, as one; */
void emit_joined(Emitter *e, Frame *frame, const Op *scan, Value *const *before, Value *const *next,
                 Value **out);
/* and what changes nothing of result i. */
Value *emit_nothing(Emitter *e, Frame *frame, const Op *op, int i, Type type);
/* What it comes to in this block's part of the split axis, a value a result: the part is walked. */
Value **emit_share_totals(Emitter *e, Frame *frame, const Op *op);
/* One walk along an axis for all that is folded along it, and for stores; folds are mapped. */
void emit_walk(Emitter *e, Frame *frame, int item, int n_folds, Op *const *folds, int n_stores,
               Op *const *stores);
/* What a scan carries into a loop's first step, and out of each. */
int emit_scan_inits(Emitter *e, Frame *frame, const Op *scan, Value **inits);
int emit_scan_next(Emitter *e, Frame *inside, const Op *scan, int carried, Value **next);

/* tile_split_axis.c: which part of the split axis share `c` has. */
void emit_take_share(Emitter *e, Frame *frame, Split *split, Value *c);
/* tile_cluster_split_k.c: all of the group's work, by clusters whose blocks have a share each. */
void tile_emit_together(Emitter *e, Op *group, Split *split);

/* tile_lookback.c: scans along a split axis, in one pass. False: they are not of that kind. */
bool tile_lookback(Func *func, Op *group, const TilePlan *plan, const Split *split);

/* tile_emit_regions.c */
void emit_regions(Emitter *e, Frame *frame, const Op *op);

#endif
