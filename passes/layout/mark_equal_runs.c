/* SPDX-License-Identifier: Apache-2.0 */
/* mark_equal_runs: marks elementwise values whose neighbours are equal because of their index, so
 * that a thread computes only one of them.
 *
 *     %place = index %N : i64[%N]@L0                 %place = index %N : i64[%N]@L0
 *     %group = shr %place, 2 : i64[%N]@L0      →     %group = shr %place, 2 equal=4 : i64[%N]@L0
 *     %bits = mul %group, …                          %bits = mul %group, … equal=4
 *
 * A thread owns neighbours in adjacent registers; in the example, a tile begins at a multiple of 4.
 * The computation that four neighbours share may be long, such as a random number generator or the
 * scale of a quantization group. LLVM finds equal elements only if it knows the divisors of the
 * index, which it does not for an index that depends on sizes.
 *
 * Requires layouts. Does nothing on targets whose tiles have no layouts (CPU). Changes no
 * values. */
#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/memo.h"
#include "passes/analysis/index_runs.h"
#include "passes/pass.h"

enum { MOST_EQUAL = 8 }; /* registers that code generation emits at a time */

typedef struct Marker {
    Func *func;
    Memo *memo;
} Marker;

/* The axis along which registers 0 and 1 are neighbours, or -1. */
static int register_axis(const Layout *layout)
{
    for (int axis = 0; layout && axis < layout->rank; axis++) {
        if (layout_contiguous(layout, axis) > 1) {
            return axis;
        }
    }
    return -1;
}

static void mark(Op *op, void *user)
{
    Marker *marker = user;
    if (op->n_results != 1 || !op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_REMAT) {
        return;
    }
    const Value *value = op->results[0];
    int axis = type_is_tile(value->type) ? register_axis(value->type->layout) : -1;
    if (axis < 0) {
        return;
    }
    int held = layout_contiguous(value->type->layout, axis);
    int64_t equal = an_equal_run(marker->memo, value, axis, held < MOST_EQUAL ? held : MOST_EQUAL);
    if (equal > 1) {
        op_set_int(marker->func, op, ATTR_EQUAL, equal);
    }
}

void pass_mark_equal_runs(Func *func)
{
    Marker marker = {func, memo_open(func)};
    func_walk(func, mark, &marker);
    memo_close(marker.memo);
}
