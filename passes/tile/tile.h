/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the pass tile, private to the component:
 *
 *   tile.c                    the pass
 *   tile_heuristics.c         tile sizes of memory-bound groups
 *   tile_thread_budget.c      elements that a thread may process at once
 *   tile_registers.c          registers of a resident row
 *   tile_coalescing.c         minimum tile sizes for coalesced accesses
 *   tile_row_cluster.c        rows that a cluster shares
 *   tile_instruction.c        the matrix instruction of a dot
 *   tile_dot.c                tile sizes of dots
 *   tile_dot_model.c          the input of the cost model of dots
 *   tile_hand_tiled.c         parallels of the source; also tile_batches.c (batched dots),
 *                             tile_whole_axes.c, tile_pad_axes.c and tile_source_entries.c
 *   tile_attention.c          dot chains
 *   tile_stencil.c            windows and stencils
 *   tile_segments.c           ranges that data gives rows
 *   tile_steps.c              functions that all choices share
 *   tile_emit.c               emits a group over ranges; its parts are listed in tile_emit.h
 *   tile_split_axis.c         long axes that few blocks would process
 *   tile_lookback.c           single-pass scans
 *   tile_sequential.c         loops with a cross-element dependence */
#ifndef TESSERA_PASSES_TILE_TILE_H
#define TESSERA_PASSES_TILE_TILE_H

#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/row_column_sweep.h"

typedef enum AxisMapping {
    AXIS_GRID,    /* blocks of the grid each take a tile of it */
    AXIS_ROW,     /* one tile holds all of it: a grid axis with a single tile */
    AXIS_CLUSTER, /* a grid axis whose tiles are those of one row, in blocks that run together */
    AXIS_LOOP,    /* a loop inside the block walks it */
    AXIS_UNROLL,  /* a window's: each of its elements is written out */
    AXIS_SCALAR,  /* a grid axis, one element at a time: an i64 */
    AXIS_PART,    /* the tiles of another axis: one element, its tile's number */
} AxisMapping;

typedef struct AxisPlan {
    int class;
    Dim dim;
    const char *name; /* M, as in `tile M 128` */
    unsigned flags;   /* analysis/axis_classes.h */
    AxisMapping how;
    int64_t step;       /* 0: one element at a time, an i64 */
    int64_t multicast;  /* blocks next to each other that bring what they have in common once */
    int64_t whole;      /* step of a dot's axis of which its tile holds all; 0: any other */
    int part_of;        /* of an axis of parts: the class of the axis whose tiles they are */
    bool held;          /* the steps of a loop mix it: a block holds all of it */
    bool walked;        /* stored and folded in one walk (row_column_sweep.h): no row */
    int64_t from, upto; /* the grid's elements of it; upto 0: to its end */
    int64_t min_step;   /* a grid axis' least step, for coalesced accesses (tile_coalescing.c) */
} AxisPlan;

typedef struct TilePlan {
    const Axes *axes;
    AxisPlan items[64];
    int n;
    int n_stored; /* the first ones, in the order of the stored value's axes */
    RowColumnSweep tiles_per_cluster; /* of the group, whose axis is `walked` */
    Op *dot;      /* a product that contracts a loop, or NULL */
    int n_dots;
    const MatrixInstr *instruction; /* of it; NULL: fused multiply-adds, or not chosen yet */
    int64_t raster_group;           /* raster group; 0: rows */
    int64_t split_k;                /* of what the product contracts; 0, 1: none; */
    int64_t
        cluster_split_k; /* blocks with a share each that are a cluster and add them; 0, 1: none */
    AxisPlan
        *split_k_tail; /* of it only the first elements have shares, `tail_upto`; NULL: all have */
    int64_t tail_upto;
    int64_t warps;
    int64_t teams;    /* of this many warps, each on tiles of its own; 0, 1: none */
    int64_t elements; /* of a block's tile */
    int64_t
        row_align;    /* elements in memory to whose multiples rows' tiles begin; 0, 1: with them */
    int64_t cluster;  /* blocks that share a row; 0, 1: none */
    const char *first_row; /* `reduction` of the row axis that is decided first; NULL: none yet */
    int64_t occupancy;   /* that a multiprocessor should hold at once */
    int64_t most_cached; /* elements of a row that a CPU should hold */
    int64_t most_thread; /* elements of a row that a thread should hold */
    int turned;          /* bytes of an element, where runs go along several axes; else 0 */
    AxisPlan *outer;     /* of the items, one that the launch walks around all groups; NULL: none */
    Value *outer_range;
    bool is_timed; /* a product whose tiles the model of waves chose: */
    bool single_wave; /* are they one wave that waits for what they have in common? */
    bool persistent;
    bool by_ranges; /* what is folded are ranges that data gives rows (tile_segments.c) */
    bool is_rest; /* of a group whose long part has a launch of its own */
} TilePlan;

/* Puts the group's axes into `plan`, those of its grid first. */
void tile_collect(Func *func, TilePlan *plan, const Op *group);

/* Elements of a row that the registers of a GPU's block hold at most. */
int64_t tile_longest_row(const Func *func);

/* Does it hold groups of its own? */
bool tile_is_serial(const Op *op);
/* Puts a launch in the place of such a group. */
void tile_serial(Func *func, Op *group);

/* Decides every axis of `plan` (class, dim, name and flags are filled in). */
void tile_choose(Func *func, Op *group, TilePlan *plan);

/* Is the extent known, by what is known of sizes? */
bool tile_exact(Dim dim, int64_t *extent);

/* For a `parallel` of the source: steps of its ranges and of loops inside, warps. */
void tile_choose_source(Func *func, Op *parallel);
/* Its other attributes of which the user's entries say something (tile_source_entries.c). */
void tile_source_entries(Func *func, Op *parallel);

/* Axes of unknown extent that are stored whole become loops over ranges. */
void tile_whole_axes(Func *func, Op *parallel);

/* Whole axes of products that the matrix instruction does not divide become ranges of the grid, of
 * one tile, that it does (tile_pad_axes.c). */
void tile_pad_axes(Func *func, Op *parallel);

/* Products with batches become loops over matrices. */
void tile_batches(Func *func, Op *parallel);

/* Puts a launch before the group that does the group's work by the plan. */
void tile_emit(Func *func, Op *group, const TilePlan *plan);

/* Puts loops in the group's place that do its work by the plan. */
void tile_emit_here(Func *func, Op *group, const TilePlan *plan);

typedef enum SplitResult {
    SPLIT_NOT,  /* it is no such group */
    SPLIT_DONE, /* all of its work is done by launches before it */
    SPLIT_REST, /* a launch before it did the long part; the group is what is left */
} SplitResult;

/* Where few blocks would walk a long axis: a launch that has the axis shared out. */
SplitResult tile_split(Func *func, Op *group, TilePlan *plan);

/* What does this product of tiles here; NULL: fused multiply-adds. Records the schedule line. */
const MatrixInstr *dot_instruction(Func *func, const Op *dot);
/* What could do it if whole axes were rounded up to what it takes, where that costs little; NULL:
 * nothing better than what does it as they are. */
const MatrixInstr *tile_rounded_instruction(Func *func, const Op *dot);
/* Can the copy engine bring both operands of the product? */
bool tile_operands_stay_out(const Func *func, const Op *dot);

#endif
