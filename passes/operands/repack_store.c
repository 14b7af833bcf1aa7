/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the store of a repacked operand: an intermediate whose rows are padded to whole cache
 * lines, written by a launch of its own. */
#include "passes/operands/repack_store.h"

/* TMA wants multiples of 16; what it loads of a row is then whole lines of the cache. */
enum { ROW_BYTES = 128 };

Value *repack_store(Builder *b, Value *value)
{
    int64_t multiple = ROW_BYTES / dtype_bytes(value->type->dtype);
    Value *scratch = func_pitched_scratch(b->func, value->type, multiple);
    Op *store = build_store(b, scratch, WHOLE, value);
    op_set_int(b->func, store, ATTR_REPACKED, 1);
    return scratch;
}
