/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tile sizes of a dot by its cost, in waves of tiles over the multiprocessors
 * (dot_cost.h). It applies to dots whose operands TMA loads and whose sizes are known. */
#ifndef TESSERA_PASSES_ANALYSIS_WAVE_MODEL_H
#define TESSERA_PASSES_ANALYSIS_WAVE_MODEL_H

#include "passes/analysis/dot_cost.h"

/* A tile that three warp groups share. */
enum { THREE_GROUP_ROWS = 192, THREE_GROUP_WARPS = 12 };

/* Tiles of m × n with their cost, if k is split into this many slices. */
DotTiling wave_model_tiling(const Target *target, const Machine *machine, const DotProblem *size,
                            int64_t m, int64_t n, int64_t slices);
/* The tiles that cost least. */
DotTiling wave_model_choose(const Target *target, const Machine *machine, const DotProblem *size);
/* True if the tiles should be dealt out evenly rather than begin early: they are one wave that
 * waits longer for L2 than for the matrix units, by much, or by anything if some tiles load less.
 */
bool wave_model_is_single_wave(const Target *target, const Machine *machine, const DotProblem *size,
                               const DotTiling *tiles);
/* Tiles per multiprocessor; 1.5: half of the multiprocessors idle in the last wave. */
double wave_model_waves(const Target *target, const DotTiling *tiles);

#endif
