/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of a grid for given sizes: their number, and their order, as codegen/gpu/gpu_control.c
 * assigns them to blocks. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_GRID_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_GRID_H

#include "runtime/explain/explain_point.h"

typedef struct Grid {
    const Op *op;
    int n;
    int64_t extents[MAX_RANK], steps[MAX_RANK];
    int64_t tiles[MAX_RANK]; /* of a cluster's axis: the cluster's, some of which may be empty */
} Grid;

/* Of a walk over this many elements; step 0: element by element. */
int64_t steps_over(int64_t extent, int64_t step);

/* False: its sizes are not known. */
bool grid_make(const EvalPoint *context, const Op *op, Grid *grid);
double grid_tiles(const Grid *grid);
/* The op's arguments are those of this tile along `axis`. */
void grid_bind(EvalPoint *context, const Grid *grid, int axis, int64_t tile);
/* After all axes are bound: the last range begins at a multiple of `aligned` elements in memory,
 * before its row. */
void grid_align(EvalPoint *context, const Grid *grid);

/* A block's `nth` tile of `tile_loop`, all of them together walk each once; of a launch the block's
 * own, with nth 0. False: there are no more. */
bool grid_bind_nth(EvalPoint *context, const Grid *grid, int64_t block, int64_t blocks,
                   int64_t nth);

#endif
