/* SPDX-License-Identifier: Apache-2.0 */
/* Emission of a group over ranges, in parts: tile_emit.c (frames, values, stores),
 * tile_emit_launch.c (the launch, or loops in place of its grid), tile_emit_reductions.c
 * (reductions, products), tile_emit_scans.c (scans, folds), tile_emit_regions.c (loops and choices
 * of the source). Private to tile. */
#ifndef TESSERA_PASSES_TILE_TILE_EMIT_H
#define TESSERA_PASSES_TILE_TILE_EMIT_H

#include "passes/tile/tile.h"

enum { MAX_SCANS = 16 }; /* that one loop carries */

/* Where values are put: the launch is the outer frame, each loop opens one, and so does each region
 * of the source. */
typedef struct EmitFrame {
    struct EmitFrame *outer;
    Op *op;              /* the loop, or the op with the region; NULL in the launch's frame, and
                            where a window is written out */
    int class;           /* that the loop walks; -1: none */
    const Block *source; /* the region of the source that is emitted here, or NULL */
    Builder at;
    CloneMap values;             /* what has been emitted here; ranges of the source's loops */
    Dim *dims;                   /* by plan item: what stands for its extent here; NULL: none yet */
    Value **ranges;              /* the range, or of a scalar axis the i64 */
    const Op *scans[MAX_SCANS];  /* along the loop's axis: each carries what came before */
    int n_scans, first_scan;     /* carried value of the first */
} EmitFrame;

/* An axis that is shared out over the grid (tile_split_axis.c, tile_lookback.c). */
typedef struct AxisSplit {
    int item;
    int64_t shares;
    Value *share, *lo, *hi;    /* of this block: its number, its part of the axis */
    Op *ops[MAX_SCANS];        /* along the axis */
    Value **parts[MAX_SCANS];  /* by result: the tensor of what the shares come to */
    Value **inits[MAX_SCANS];  /* by result: what this block's share begins with */
    int n;
    bool scans;
} AxisSplit;

typedef struct TileEmitter {
    Func *func;
    const TilePlan *plan;
    const AxisSplit *split; /* NULL: none */
} TileEmitter;

/* The plan's item of an axis; -1: one element, or a range of the source's. */
int emit_item(const TileEmitter *e, const Value *value, int axis);
/* Is the axis walked one element at a time: what is read is without it, and expanded? */
bool emit_is_scalar(const TileEmitter *e, int item);
/* Is the axis walked by a loop inside of the block? */
bool emit_is_looped(const TileEmitter *e, int item);
Type emit_type(const TileEmitter *e, const EmitFrame *frame, const Value *value);
/* The value over this frame's ranges, made there or outside where it does not depend on them. */
Value *emit_value(TileEmitter *e, EmitFrame *frame, Value *value);
/* The same op on operands from here; a value made without an op of its own is mapped. */
Op *emit_copy(TileEmitter *e, EmitFrame *frame, const Op *op);

/* A loop over a whole axis for what `roots` need; `inside` is its frame. Ended by emit_end. */
Op *emit_loop(TileEmitter *e, EmitFrame *frame, int item, int n, Value *const *inits, int n_roots,
              Value *const *roots, EmitFrame *inside);
void emit_end(TileEmitter *e, EmitFrame *inside, int n, Value *const *next);
/* The value without an axis of one element, as if that had never been there where it was
 * expanded. */
Value *emit_without(Builder *b, Value *value, int axis);
/* The same place with element `k` of a window's axis. */
EmitFrame emit_element(TileEmitter *e, EmitFrame *frame, int item, int64_t k);
bool emit_is_unrolled(const TileEmitter *e, int item);
/* Stores, scatters, and what has them in its regions. */
bool emit_has_effect(const Op *op);
void emit_effect(TileEmitter *e, EmitFrame *frame, const Op *op);
void emit_effects(TileEmitter *e, const Op *group, EmitFrame *frame);
/* What is in the region of `op`, inside of `outer`. */
EmitFrame emit_frame_in(TileEmitter *e, EmitFrame *outer, Op *op, Builder at);

/* tile_emit_launch.c */
/* A launch's frame, and a launch by the plan. `slices`: the extent of an additional axis, which is
 * the first one, or the last one if the blocks of a cluster take one slice each; NULL: none. */
EmitFrame emit_frame(const TileEmitter *e);
Op *emit_launch(TileEmitter *e, Op *group, EmitFrame *frame, Dim slices, const char *name);

/* tile_emit_reductions.c: results are mapped in the frame. */
void emit_reduce(TileEmitter *e, EmitFrame *frame, const Op *op);
/* The tile is the part. */
void emit_reduce_part(TileEmitter *e, EmitFrame *frame, const Op *op);
void emit_repeat_part(TileEmitter *e, EmitFrame *frame, const Op *op);
void emit_dot(TileEmitter *e, EmitFrame *frame, const Op *op);
/* The product's tile as a matrix, and one as what the source has there: with the axes before. */
Value *emit_matrix(TileEmitter *e, EmitFrame *frame, const Op *dot);
void emit_map_matrix(EmitFrame *frame, const Op *op, Value *matrix);
/* Returns `made`, which is emitted for `op`, and notes that it covers the whole axis of `op`. */
Value *emit_runs_over(TileEmitter *e, Value *made, const Op *op);
/* Elements of a window's axis, each of which is emitted for itself. */
int64_t emit_window_elements(const TileEmitter *e, int item);

/* tile_emit_scans.c: results are mapped in the frame, too. */
void emit_scan(TileEmitter *e, EmitFrame *frame, const Op *op);
void emit_fold(TileEmitter *e, EmitFrame *frame, const Op *op);
/* A reduction, fold or scan in parts. What the tile here comes to, an array a result: */
void emit_totals(TileEmitter *e, EmitFrame *frame, const Op *op, Value **out);
/* what arrays of parts come to along their first axis, in their place; */
void emit_fold_arrays(TileEmitter *e, EmitFrame *frame, const Op *op, Value **parts);
/* what a scan has come to, and what it walks next, as one; */
void emit_joined(TileEmitter *e, EmitFrame *frame, const Op *scan, Value *const *before,
                 Value *const *next, Value **out);
/* and what changes nothing of result i. */
Value *emit_nothing(TileEmitter *e, EmitFrame *frame, const Op *op, int i, Type type);
/* What it comes to in this block's part of the split axis, a value a result: the part is walked. */
Value **emit_share_totals(TileEmitter *e, EmitFrame *frame, const Op *op);
/* One walk along an axis for all that is folded along it, and for stores; folds are mapped. */
void emit_walk(TileEmitter *e, EmitFrame *frame, int item, int n_folds, Op *const *folds,
               int n_stores, Op *const *stores);
/* What a scan carries into a loop's first step, and out of each. */
int emit_scan_inits(TileEmitter *e, EmitFrame *frame, const Op *scan, Value **inits);
int emit_scan_next(TileEmitter *e, EmitFrame *inside, const Op *scan, int carried, Value **next);

/* tile_split_axis.c: which part of the split axis share `c` has. */
void emit_enter_slice(TileEmitter *e, EmitFrame *frame, AxisSplit *split, Value *c);
/* tile_cluster_split_k.c: all of the group's work, by clusters whose blocks have a share each. */
void tile_emit_cluster_split_k(TileEmitter *e, Op *group, AxisSplit *split);

/* tile_lookback.c: scans along a split axis, in one pass. False: they are not of that kind. */
bool tile_lookback(Func *func, Op *group, const TilePlan *plan, const AxisSplit *split);

/* tile_emit_regions.c */
void emit_regions(TileEmitter *e, EmitFrame *frame, const Op *op);

#endif
