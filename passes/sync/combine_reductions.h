/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H
#define TESSERA_PASSES_SYNC_COMBINE_REDUCTIONS_H

#include "ir/ir.h"

/* Puts reductions that need nothing of one another together, within blocks and across clusters. */
void combine_reductions(Func *func, const Block *block);

#endif
