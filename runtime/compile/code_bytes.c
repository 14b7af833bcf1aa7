/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code and its launch plan as one value, for the cache and for the answer of a worker: the
 * plan's length, the plan, the code. */
#include "runtime/compile/compilation.h"

#include "runtime/device/plan_bytes.h"
#include "support/shared_object.h"

#include <string.h>

bool build_id(Text *out)
{
    static const char here;
    return object_build(&here, out);
}

bool code_unpack(Arena *arena, const Text *value, Code *code, Plan *plan)
{
    uint64_t n;
    if (value->n < sizeof n) {
        return false;
    }
    memcpy(&n, value->data, sizeof n);
    if (n > value->n - sizeof n ||
        !plan_from_bytes(arena, value->data + sizeof n, (size_t)n, plan)) {
        return false;
    }
    size_t before = sizeof n + (size_t)n;
    *code = (Code){value->data + before, value->n - before};
    return true;
}

Text code_pack(Arena *arena, const Code *code, const Plan *plan)
{
    Text bytes = text_new(arena), value = text_new(arena);
    plan_to_bytes(plan, &bytes);
    uint64_t n = bytes.n;
    text_add_n(&value, (const char *)&n, sizeof n);
    text_add_n(&value, bytes.data, bytes.n);
    text_add_n(&value, code->bytes, code->n);
    return value;
}
