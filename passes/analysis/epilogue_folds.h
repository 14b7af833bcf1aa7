/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in the epilogue of a dot: which axes of its result one tile can hold completely. */
#ifndef TESSERA_PASSES_ANALYSIS_EPILOGUE_FOLDS_H
#define TESSERA_PASSES_ANALYSIS_EPILOGUE_FOLDS_H

#include "ir/ir.h"

/* Elements of a tile that holds all of axis `axis` of the dot's result, which is one of its last
 * two; 0: no tile does. `n_dots`: of the launch, whose accumulators share the registers. */
int64_t an_whole_axis(Func *func, const Op *dot, int axis, int n_dots);

/* Elements of the parts of a longer axis, each of which is a tile's; 0: the axis is not known.
 * `instructions`: on an element. */
int64_t an_parts_of_axis(Func *func, const Op *dot, int axis, int instructions);
/* Instructions of an op on an element, as far as they matter; 0: it is no element-wise op. */
int an_epilogue_instructions(const Op *op);
/* This many on each element of a tile at most, for a step that holds all of an axis: for each
 * element of a thread there is code, which is to fit the instruction cache, and what is kept across
 * reductions is to fit the registers. */
int an_most_epilogue_instructions(int64_t whole);

#endif
