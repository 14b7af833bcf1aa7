/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in the epilogue of a dot: which axes of its result a block's tile can hold whole. */
#ifndef TESSERA_PASSES_ANALYSIS_EPILOGUE_FOLDS_H
#define TESSERA_PASSES_ANALYSIS_EPILOGUE_FOLDS_H

#include "ir/ir.h"

/* Elements of a tile that holds all of axis `axis` of the dot's result, which is one of its last
 * two; 0: no tile does. `n_dots`: of the launch, whose accumulators share the registers. */
int64_t an_whole_axis(Func *func, const Op *dot, int axis, int n_dots);

#endif
