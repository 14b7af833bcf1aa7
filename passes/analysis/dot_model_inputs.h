/* SPDX-License-Identifier: Apache-2.0 */
/* What the model of a product's tiles (wave_model.h) gets of its operands. */
#ifndef TESSERA_PASSES_ANALYSIS_DOT_MODEL_INPUTS_H
#define TESSERA_PASSES_ANALYSIS_DOT_MODEL_INPUTS_H

#include "ir/ir.h"
#include "passes/analysis/wave_model.h"

enum { PRODUCT_MAX = 1 << 24 /* elements of an axis: more is as if it were not known */ };

/* Cache lines that 128 bytes of a row take: 2 where rows begin between lines. */
int product_lines(const Access *access);
/* What a tile's columns are a multiple of. `lie`: they lie side by side in the right operand. */
int64_t product_columns(bool contiguous, int bytes);

#endif
