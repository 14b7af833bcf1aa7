/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a `parallel` of the source while they are chosen, and what their tiles need. Private to
 * tile_hand_tiled.c, tile_block_footprint.c and tile_attention.c. */
#ifndef TESSERA_PASSES_TILE_TILE_HAND_TILED_H
#define TESSERA_PASSES_TILE_TILE_HAND_TILED_H

#include "passes/tile/tile_steps.h"

enum { MAX_LOADS = 32 /* that are distinguished */ };

/* Other warp groups than the source's steps make, where those are two groups'
 * (tile_attention.c). */
typedef struct WarpGroupPlan {
    int64_t groups;  /* of 64 rows; 0: as the source says */
    int64_t blocks;  /* of a multiprocessor, that share its registers and memory; 0: as given */
    int64_t columns; /* of the widest loop's step, at most of others'; 0: as the source says */
    int64_t reserved; /* bytes of a thread's registers that are not for accumulators */
    int64_t widest;  /* the widest loop's step in the source */
} WarpGroupPlan;

/* Loops of a block come one after another: what the products of one hold, and its steps bring, is
 * in addition to what the others leave alone. */
typedef struct LoopPhase {
    const Op *loop; /* a statement of the block, with all that is in it; NULL: of no loop */
    int64_t held, walked;
    int n_dots;
} LoopPhase;

typedef struct BlockFootprint {
    Func *func;
    const Block *block; /* what is measured */
    int64_t shrink; /* divides the source's steps of loops, and beyond LOOPS_ALONE of grids too */
    int64_t shared; /* bytes of products' operands */
    int64_t loaded_once, walked, stored; /* of it: loaded once, by a loop's step; results' tiles */
    LoopPhase phase, no_loop;            /* whose products are being measured; of no loop */
    int64_t plain;         /* operands that are computed, of products by fused multiply-adds */
    int64_t in_turn;       /* the largest of those by a step: in addition to it the others take
                              none */
    int64_t lent;          /* of the results' tiles: fit into what is loaded once */
    Type loaded;           /* that is loaded once */
    int64_t held, operand; /* bytes in registers: accumulators, the largest of their operands */
    const Op *loads[MAX_LOADS]; /* that are measured: several products may read one tile */
    int n_loads;
    int64_t rows, accumulators, elements; /* largest of the products and of all values */
    bool wgmma, any_dot, loops_first, ranks, looks_up;
    bool even; /* loops of few steps take such as leave little of the last one unused */
    WarpGroupPlan plan;
    int n_dots;              /* of the loop with the most */
    int64_t depth;           /* of products whose left operand is loaded */
    const MatrixInstr *unit; /* of single warps, of some product; NULL: none */
    unsigned narrowed;       /* bits of the grid's axes whose steps are less than the source's */
} BlockFootprint;

/* The source's own steps, to start again from when they are halved. */
typedef struct SavedSteps {
    struct {
        Attr *attr;
        int64_t step;
        int at;
    } items[64];
    int n;
} SavedSteps;

/* Does the `parallel` or `for` take its axis in steps that are chosen here? */
bool source_steps_along(const Op *op, int axis);
/* tile_block_footprint.c: measures what the tiles need with the steps that the source has now. */
void source_measure(Op *parallel, BlockFootprint *steps);
/* Gives the source its steps again, or these, and measures what their tiles need. */
void source_try(Func *func, Op *parallel, const SavedSteps *saved, WarpGroupPlan plan,
                BlockFootprint *steps);
bool source_fits(Func *func, const BlockFootprint *steps);
/* Blocks of a multiprocessor that the user wants around products of warp groups; 1: says nothing.
 */
int64_t source_blocks(Func *func);
/* The warp groups, and blocks of them, that take the least time for scores: products whose left
 * operand is made of another one's result. `steps`: as the source has them. False: nothing is
 * known to be better. */
bool tile_choose_groups(Func *func, Op *parallel, const SavedSteps *saved, BlockFootprint *steps);

/* The reason of a derived line that keeps what the source says; known by its address. */
extern const char tile_as_source[];

#endif
