/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H
#define TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H

#include "passes/analysis/narrow_rows.h"

/* Puts reductions that need nothing of one another together, within blocks and across clusters.
 * `rows`: those of which one reduces what is made of the other's operand stay apart, if that is
 * computed again from 16-bit elements; NULL: none do. */
void combine_reductions(Func *func, const Block *block, const RowDims *rows);

#endif
