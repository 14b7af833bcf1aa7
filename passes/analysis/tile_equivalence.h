/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two tiles hold the same elements, apart from the names of the loops around them and the
 * order of their two axes. */
#ifndef TESSERA_PASSES_ANALYSIS_TILE_EQUIVALENCE_H
#define TESSERA_PASSES_ANALYSIS_TILE_EQUIVALENCE_H

#include "ir/ir.h"

enum { MAX_LOOP_VARS = 8 };

/* Axes of the grid and of loops, by which tiles are indexed, that stand for one another. */
typedef struct LoopVarMap {
    const Func *func;
    const Op *from, *to; /* nothing from here to there writes what may be compared */
    struct {
        Value *a, *b;
    } items[MAX_LOOP_VARS];
    int n;
    int compared; /* so far: what takes long is given up */
} LoopVarMap;

/* Of tiles a and b, or of a and the transpose of b; adds the pairs that it takes. */
bool an_tiles_equivalent(LoopVarMap *vars, const Value *a, const Value *b, bool turned);

/* The extent that a grid's or loop's variable walks; NULL: it is none. */
Dim an_walked(const Value *var);

/* Which of b's stands for a's; NULL: none. */
Value *an_paired(const LoopVarMap *vars, const Value *a);

#endif
