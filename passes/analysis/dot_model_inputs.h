/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of operands that the cost model of dots (wave_model.h) needs. */
#ifndef TESSERA_PASSES_ANALYSIS_DOT_MODEL_INPUTS_H
#define TESSERA_PASSES_ANALYSIS_DOT_MODEL_INPUTS_H

#include "ir/ir.h"
#include "passes/analysis/wave_model.h"

enum { PRODUCT_MAX = 1 << 24 /* elements of an axis: more is as if it were not known */ };

/* Cache lines that 128 bytes of a row take: 2 where rows begin between lines. */
int product_lines(const Access *access);
/* The number that the columns of a tile are a multiple of. `contiguous`: the columns are contiguous
 * in the right operand. */
int64_t product_columns(bool contiguous, int bytes);

#endif
