/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how tiles are assigned to blocks: one tile per block, or persistent blocks that process
 * several tiles, in a fixed order or from a counter. If the cost of a tile depends on data, or
 * grows along one axis and falls along another, no fixed order gives all blocks the same work. Then
 * a block takes its next tile from a counter in memory after copying the previous one (the dynamic
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
 * The producer takes the next number after it has issued the copies of a tile: the latency of the
 * counter is hidden while the consumer works on the data in the ring buffer, and a block with a
 * long tile does not take another tile early. A preceding launch clears the counter. */
#include "ir/ir_errors.h"
#include "ir/memo.h"
#include "passes/stage/stage.h"

enum { NUMBERS = 2 }; /* that may wait for the consumer: a block does not collect more */

/* ---- which ---- */

static bool is_index_of(const Op *load, const Value *arg)
{
    bool found = false;
    for (int i = 1; i < load->n_operands; i++) {
        found = found || load->operands[i] == arg;
    }
    return found;
}

/* Is it an axis that is only there to be rounded up (tile_pad_axes.c)? */
static bool is_padded(const Value *arg)
{
    const DimVar *range = arg->type->kind == TYPE_RANGE ? poly_as_range(arg->type->dims[0]) : NULL;
    return range && range->holds_all;
}

/* Do steps bring what no other tile reads? Memory is not equally near to all multiprocessors: with
 * as many tiles each, the farthest end last. dq of what was kept, 4×32×4096 of 128: 1435 us, and
 * 108 more of the next launch's wait for the last block; dealt out 1249. */
static bool reads_own(const StageContext *s)
{
    bool own = false;
    for (int i = 0; i < s->n && !own; i++) {
        const Op *load = s->items[i].load, *loop = load->parent->parent;
        own = loop && loop->kind == OP_FOR && is_index_of(load, loop->regions[0]->args[0]);
        for (int j = 0; j < s->body->n_args; j++) {
            own = own && (is_padded(s->body->args[j]) || is_index_of(load, s->body->args[j]));
        }
    }
    return own;
}

/* Why blocks take several tiles, `even`, or one. */
static const char *persistent_reason(const StageContext *s, bool even, bool own)
{
    if (s->paired) {
        return "a long tile and a short one in turn: copies for the next run under this one's end";
    }
    if (s->counted) {
        return "a long tile and a short one in turn would leave blocks idle in the last round: "
               "they take tiles from a counter as they end";
    }
    if (own) {
        return "each tile reads its own of memory, which is not equally near: the device hands "
               "them out as blocks end";
    }
    if (even) {
        return "all tiles cost the same: copies for the next run under this one's end";
    }
    if (s->unordered) {
        return "no order of tiles is one of their cost: blocks take them from a counter as they "
               "end";
    }
    return s->short_steps
               ? "tiles are short compared to the filling of a ring: copies for the next run "
                 "under this one's end"
               : "tiles differ in cost: the device hands them out as blocks end";
}

bool stage_choose_persistent(StageContext *s, bool *counted)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "persistent", "");
    if (block_contains(s->body, OP_CLUSTER_REDUCE_SCATTER)) {
        if (line && !text_equal(line->symbol, "off")) {
            Diag *d = diag_error(s->func->diags, ERR_NOT_HERE, line->span,
                                 "`persistent %s` is not possible where a cluster adds shares",
                                 line->symbol);
            diag_help(s->func->diags, d, "leave the line out, or `cluster 1`");
        }
        schedule_decide_symbol(s->func, "persistent", "", "off", "a cluster has one tile");
        return false;
    }
    bool even = s->even || s->paired, own = s->even && reads_own(s);
    const char *how = (even ? !own : s->short_steps) ? "on" : "off";
    how = s->unordered || s->counted ? "dynamic" : how;
    how = schedule_decide_symbol(s->func, "persistent", "", how, "%s",
                                 persistent_reason(s, even, own));
    *counted = text_equal(how, "dynamic");
    return !text_equal(how, "off");
}

/* ---- from a counter ---- */

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
