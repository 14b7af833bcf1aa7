/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles from a counter. Where the cost of a tile depends on data, or grows along one axis and falls
 * along another, no fixed order gives all blocks of a persistent launch the same work. There a block
 * takes its next tile from a counter in memory when it has copied the one before (the dynamic
 * persistent schedule of FlashAttention-3, Shah et al. 2024):
 *
 *   roles {                                        } {
 *     tile_loop deal=counter {                       tile_loop deal=counter {
 *       (%M: range, %q: i32, %number: i32)             (%M: range, %q: i32, %number: i32)
 *       …                                              …
 *       wait %taken[%q] previous_phase=1               wait %posted[%q]
 *       %n = take_tile %counter, %next, %posted        %n = read_tile %next[%q]
 *       yield %q + 1, %n                               arrive %taken[%q]
 *     }                                                yield %q + 1, %n
 *   }                                                }
 *
 * The producer takes the number behind the copies of a tile: the counter's latency passes while the
 * consumer works on what is in the ring, and a block with a long tile does not take another one
 * before others are done. A launch before clears the counter. */
#include "ir/memo.h"
#include "passes/stage/stage.h"

enum { NUMBERS = 2 }; /* that may wait for the consumer: a block does not collect more */

static bool find_load(Memo *seen, const Value *value, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!op || memo_known(seen, value, depth, &known)) {
        return false;
    }
    memo_keep(seen, value, depth, 1);
    bool found = op->kind == OP_LOAD || op->kind == OP_GATHER;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = find_load(seen, op->operands[i], depth + 1);
    }
    return found;
}

bool stage_is_data(const Value *value)
{
    Memo *seen = value ? memo_about(value) : NULL;
    bool found = find_load(seen, value, 0);
    memo_close(seen);
    return found;
}

static void clear_counter(StageContext *s)
{
    int64_t steps[] = {0}, warps = 1;
    Dim dims[] = {poly_const(s->func, 1)};
    const char *names[] = {"counter"};
    Builder before = build_before(s->func, s->launch);
    Op *launch = build_parallel(&before, OP_LAUNCH, 1, dims, steps, names);
    op_set_ints(s->func, launch, ATTR_WARPS, 1, &warps);
    op_set_int(s->func, launch, ATTR_PREPARES, 1);
    Builder b = build_at_end(s->func, launch->regions[0]);
    Value *zero = build_int(&b, type_scalar(s->func, DT_I32), 0);
    build_store(&b, s->counter, launch->regions[0]->args, zero);
}

void stage_tile_counter(StageContext *s, Builder *b)
{
    Func *func = s->func;
    Type memory = type_tensor(func, DT_I32, 1, (Dim[]){poly_const(func, 1)});
    Type ring = type_shared(func, DT_I32, 1, (int64_t[]){NUMBERS});
    const char *name = arena_printf(func->arena, "tiles_taken%zu", func->params.n);
    s->counter = func_param(func, name, memory, PARAM_SCRATCH);
    clear_counter(s);
    s->next = build_op(b, OP_SHARED, 0, NULL, 1, &ring, 0)->results[0];
    s->posted = stage_barriers(s, b, NUMBERS, 1);
    s->taken = stage_barriers(s, b, NUMBERS, 1);
    s->next->name = "next";
    s->posted->name = "posted";
    s->taken->name = "taken";
    s->shared_bytes += NUMBERS * dtype_bytes(DT_I32);
}

Value *stage_take_tile(StageContext *s, Builder *b, Value *position)
{
    stage_wait(s, b, s->taken, position, true);
    Value *operands[] = {s->counter, build_i64(b, 0), s->next, position, s->posted, position};
    Type type = type_scalar(s->func, DT_I32);
    return build_op(b, OP_TAKE_TILE, 6, operands, 1, &type, 0)->results[0];
}

Value *stage_read_tile(StageContext *s, Builder *b, Value *position)
{
    stage_wait(s, b, s->posted, position, false);
    Type type = type_scalar(s->func, DT_I32);
    Value *number =
        build_op(b, OP_READ_TILE, 2, (Value *[]){s->next, position}, 1, &type, 0)->results[0];
    stage_arrive(b, s->taken, position);
    return number;
}
