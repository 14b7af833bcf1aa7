/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk-copied tiles that have more rows than their tensor. The rows that no copy fills are cleared
 * once, before the first copy. */
#ifndef TESSERA_IR_BULK_TILE_H
#define TESSERA_IR_BULK_TILE_H

#include "ir/ir.h"

/* Elements along the tensor's axis that one copy takes. */
int64_t bulk_extent(const Access *tensor, int axis);
/* The axis of the tensor that is the tile's rows: the first with an extent above 1 before the last
 * (-1: none). Only that one and the last may be cut. */
int bulk_rows_axis(const Access *tensor);
/* Rows of all tensors that go to this memory, when one tile has them all and may have more; NULL:
 * that is not so. */
Dim bulk_short_tile(const Func *func, const Value *shared);

#endif
