/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a loop whose number of steps is known by that many copies of its body. The derivatives
 * need it, because they must see what a loop carries at each step, and so does the pass
 * unroll_loops. */
#include "ir/unroll.h"

int64_t loop_known_steps(const Op *loop, int64_t *lo)
{
    const Attr *from = loop->kind == OP_FOR ? value_const(for_lo(loop)) : NULL;
    const Attr *upto = loop->kind == OP_FOR ? value_const(for_hi(loop)) : NULL;
    const Attr *steps = op_attr(loop, ATTR_STEPS);
    if (!from || !upto || !steps || steps->ints[0] != 0 || op_int(loop, ATTR_DESCENDING, 0)) {
        return -1;
    }
    *lo = from->i;
    return upto->i > from->i ? upto->i - from->i : 0;
}

void loop_unroll(Func *func, Op *loop, UnrollFn *copied, void *user)
{
    Builder b = build_before(func, loop);
    const Block *body = loop->regions[0];
    CloneMap after = clone_map_new(func);
    int carried = for_carried(loop);
    int64_t lo = 0, n = loop_known_steps(loop, &lo);
    Value **values = ARENA_ARRAY(func->arena, Value *, (size_t)carried + 1);
    for (int i = 0; i < carried; i++) {
        values[i] = loop->operands[2 + i];
    }
    for (int64_t k = 0; k < n; k++) {
        CloneMap map = clone_map_new(func);
        clone_map_value(&map, body->args[0], build_i64(&b, lo + k));
        for (int i = 0; i < carried; i++) {
            clone_map_value(&map, body->args[1 + i], values[i]);
        }
        for (const Op *at = body->first; at && at->kind != OP_YIELD; at = at->next) {
            clone_op(&b, &map, at);
        }
        if (copied) {
            copied(user, &map, body);
        }
        for (int i = 0; i < carried; i++) {
            values[i] = clone_get(&map, body->last->operands[i]);
        }
    }
    for (int i = 0; i < carried; i++) {
        func_replace_uses(func, loop->results[i], values[i]);
        clone_map_value(&after, loop->results[i], values[i]);
    }
    if (copied) {
        copied(user, &after, body);
    }
    op_remove(loop);
}
