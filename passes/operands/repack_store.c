/* SPDX-License-Identifier: Apache-2.0 */
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
