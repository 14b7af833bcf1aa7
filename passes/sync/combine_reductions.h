/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H
#define TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H

#include "passes/analysis/narrow_rows.h"

/* Puts reductions that need nothing of one another together, within blocks and across clusters.
 * `rows`: a reduction stays where it is if it takes what is made of another one's operand, and that
 * can be computed again from 16-bit elements of these rows; NULL: each may move. */
void combine_reductions(Func *func, const Block *block, const RowDims *rows);

#endif
