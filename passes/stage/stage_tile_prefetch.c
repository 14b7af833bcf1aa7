/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches register-resident tiles: while the blocks of a cluster compute on one tile and wait
 * for each other, TMA loads the next one into shared memory.
 *
 *   launch cluster=16 { (%n, %m)        launch cluster=16 persistent=1 max_tiles=8 {
 *     %a = load %x[%m, %n]                roles { tile_loop %n, %m, %p { wait %empty[%p]; bulk_load
 * } }
 *     … reduce, cluster_reduce …    →           { tile_loop %n, %m, %p { wait %full[%p]
 *     store %y[%m, %n], %r                        %a = shared_load %s[%p]; arrive %empty[%p]
 *                                                 … store %y[%m, %n], %r } } }
 *
 * The blocks of a cluster keep as much as the registers hold, so only one or two share a
 * multiprocessor; without the prefetch no loads would be in flight while they synchronize. A
 * cluster processes a few tiles instead of a fixed fraction of all tiles, because the number of
 * clusters that run at once depends on the device, and clusters that end early make room for
 * others. */
#include "passes/stage/stage.h"
#include "support/int_math.h"

#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "passes/tile/tile.h"

enum {
    MAX_SLOTS = 2,
    MAX_WALKED = 8, /* tiles: the first one's way is an eighth of what is waited for */
    MIN_ROUNDS = 3,
    LEFT_BYTES = 4096,    /* for reductions and barriers */
    THREAD_RESERVED = 40, /* registers */
    RUN_BYTES = 128,      /* a line: tiles of half a line come slower than threads load them */
};

/* Ops that roles may do: they synchronize by the role's own barriers alone. */
static bool is_usual(const Op *op)
{
    bool moves = op->kind == OP_LOAD || op->kind == OP_STORE || op->kind == OP_CLUSTER_REDUCE;
    return !op->n_regions && (moves || op_has(op, TRAIT_PURE)) && op->kind != OP_GATHER;
}

/* What lies outside of the tensor is 0 when it comes, and masked: along ranges that is possible. */
static bool guards_ranges(const Op *load)
{
    const Attr *guard = op_attr(load, ATTR_GUARD);
    Access access = op_access(load, 0);
    for (int i = 0; guard && i < guard->n; i++) {
        const Value *index = access.indices[i];
        if (guard->ints[i] && (!index || index->type->kind != TYPE_RANGE)) {
            return false;
        }
    }
    return true;
}

static bool is_held(const StageContext *s, const Op *load)
{
    if (load->kind != OP_LOAD || load->results[0]->type->rank != 2) {
        return false;
    }
    Access access = op_access(load, 0);
    for (int i = 1; i < load->n_operands; i++) {
        if (!stage_is_plain(s, load->operands[i])) {
            return false;
        }
    }
    return !func_im2col_of(s->func, access.memory) &&
           bulk_describes_parts(s->func->target, &access) &&
           !dtype_is_packed(access.memory->type->dtype) &&
           stage_may_bulk(s->func, s->launch, access.memory) && guards_ranges(load);
}

static bool find_held(StageContext *s)
{
    for (const Op *op = s->body->first; op; op = op->next) {
        if (!is_usual(op)) {
            return false;
        }
    }
    for (Op *op = s->body->first; op; op = op->next) {
        if (is_held(s, op) && s->n < MAX_STAGED) {
            Type type = op->results[0]->type;
            s->items[s->n++] = (StagedOperand){.load = op,
                                               .side = SIDE_REGISTER,
                                               .bulk = true,
                                               .rows = poly_capacity(type->dims[0]),
                                               .cols = poly_capacity(type->dims[1])};
        }
    }
    return s->n > 0;
}

/* Registers that a thread wants: what it holds, and what it works with in addition. */
static int64_t wanted_registers(const StageContext *s)
{
    int64_t threads = op_attr(s->launch, ATTR_WARPS)->ints[0] * s->func->target->warp, held = 0;
    for (int i = 0; i < s->n; i++) {
        held += (s->items[i].rows * s->items[i].cols + threads - 1) / threads;
    }
    return held + THREAD_RESERVED;
}

/* Warps that copy have registers, too: fewer blocks, where not enough would be left. */
static void fit_blocks(StageContext *s)
{
    Func *func = s->func;
    int64_t blocks = op_int(s->launch, ATTR_OCCUPANCY, 1), fit = blocks;
    int64_t warps = op_attr(s->launch, ATTR_WARPS)->ints[0], wanted = wanted_registers(s);
    while (fit > 1 && stage_registers(s, warps, fit) < wanted) {
        fit--;
    }
    if (fit < blocks && !schedule_user_entry(func, "occupancy", "")) {
        fit = schedule_decide_int(func, "occupancy", "", fit,
                                  "a thread wants %lld registers next to warps that copy",
                                  (long long)wanted);
        op_set_int(func, s->launch, ATTR_OCCUPANCY, fit);
    }
}

/* Bytes that each of a multiprocessor's blocks may have in addition to what it has in any case. */
static int64_t prefetch_capacity(const StageContext *s)
{
    return stage_shared_capacity(s) - LEFT_BYTES;
}

/* Tiles of the grid for each cluster that the device holds at once; sizes that are not known may be
 * large. */
static int64_t iterations(const StageContext *s)
{
    const Attr *dims = op_attr(s->launch, ATTR_DIMS), *steps = op_attr(s->launch, ATTR_STEPS);
    int64_t held = s->func->target->machine->num_sms * op_int(s->launch, ATTR_OCCUPANCY, 1) /
                   op_int(s->launch, ATTR_CLUSTER, 1);
    int64_t tiles = 1;
    for (int i = 0; i + 1 < dims->n; i++) {
        int64_t step = steps->ints[i] ? steps->ints[i] : 1;
        tiles = mul_sat(tiles, ceil_div(poly_nominal(dims->dims[i]), step));
    }
    return tiles / (held ? held : 1);
}

/* 0: as many as there are for the clusters that a device holds at once. */
static int64_t checked_walk(StageContext *s, int64_t derived, const char *why)
{
    int64_t walked = schedule_decide_int(s->func, "tiles_per_cluster", "", derived, "%s", why);
    if (walked < 0) {
        diag_error(
            s->func->diags, ERR_PIPELINE,
            schedule_user_entry(s->func, "tiles_per_cluster", "")->span,
            "`tiles_per_cluster %lld`: a cluster processes at least one tile, or (0) its part of "
            "all tiles",
            (long long)walked);
        return 1;
    }
    return walked;
}

/* Bytes that lie side by side in a tile. */
static int64_t least_run(const StageContext *s)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->n; i++) {
        int64_t run = s->items[i].cols * dtype_bytes(s->items[i].load->results[0]->type->dtype);
        least = run < least ? run : least;
    }
    return least;
}

/* Why blocks have one tile each; NULL: they prefetch the next one. */
static const char *reason_against(const StageContext *s, int64_t most)
{
    if (most < 1) {
        return "shared memory has no space for the next tile";
    }
    if (iterations(s) < MIN_ROUNDS) {
        return "there are few tiles for each cluster";
    }
    if (least_run(s) < RUN_BYTES) {
        return "the copy engine is slow where rows of a tile are short";
    }
    bool smaller = op_int(s->launch, ATTR_CLUSTER, 1) < s->func->target->cluster;
    return smaller ? "blocks of a smaller cluster wait less than the engine costs" : NULL;
}

bool stage_tile_prefetch(StageContext *s)
{
    Func *func = s->func;
    bool able = func->target->has_bulk_copy && op_int(s->launch, ATTR_CLUSTER, 1) > 1 &&
                !op_int(s->launch, ATTR_PERSISTENT, 0) && op_int(s->launch, ATTR_ALIGNED, 1) <= 1;
    int64_t bytes = 0;
    if (!able || !find_held(s)) {
        s->n = 0;
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        bytes += stage_item_bytes(&s->items[i]);
    }
    int64_t most = prefetch_capacity(s) / bytes;
    const char *against = reason_against(s, most);
    int64_t walked =
        checked_walk(s, against ? 1 : MAX_WALKED,
                     against ? against : "the next tile comes while blocks wait for one another");
    if (walked == 1) {
        s->n = 0;
        return false;
    }
    int64_t slots = clamp_i64(most, 1, MAX_SLOTS);
    s->held_slots =
        schedule_decide_int(func, "pipeline", "", slots,
                            "%lld pipeline stages of %lld bytes fit in addition to the resident "
                            "tile",
                            (long long)most, (long long)bytes);
    if (s->held_slots < 1) {
        diag_error(func->diags, ERR_PIPELINE, schedule_user_entry(func, "pipeline", "")->span,
                   "`pipeline %lld`: a ring buffer has at least one pipeline stage",
                   (long long)s->held_slots);
        s->held_slots = 1;
    }
    s->roles = true;
    fit_blocks(s);
    if (walked) {
        op_set_int(func, s->launch, ATTR_MAX_TILES, walked);
    }
    return true;
}

/* ---- the consumer ---- */

/* As the load has it: its value past the ends. */
static Value *masked(Func *func, Builder *b, const Op *load, Value *tile)
{
    const Attr *guard = op_attr(load, ATTR_GUARD), *value = op_attr(load, ATTR_VALUE);
    Access access = op_access(load, 0);
    for (int i = 0, axis = 0; value && guard && i < access.n; i++) {
        const Value *index = access.indices[i];
        bool kept = !index || index->type->kind == TYPE_RANGE;
        if (guard->ints[i] && (value->f != 0 || value->i != 0)) {
            tile = build_mask(b, tile, axis, value->f);
            op_set_num(func, tile->def, ATTR_VALUE, value->f, value->i);
        }
        axis += kept;
    }
    return tile;
}

void stage_consume_held(StageContext *s, OperandStream *stream)
{
    Op *first = NULL, *last = NULL;
    for (Op *op = stream->home->first, *next; op; op = next) {
        next = op->next;
        const StagedOperand *item = NULL;
        for (int i = 0; i < s->n; i++) {
            item = s->items[i].load == op ? &s->items[i] : item;
        }
        if (!item) {
            continue;
        }
        Builder b = build_before(s->func, op);
        b.span = op->span;
        if (!first) {
            stage_wait(s, &b, stream->full, stream->position, false);
        }
        first = op;
        Value *place[] = {item->shared, stream->position, NULL, NULL};
        Type type = op->results[0]->type;
        last = build_op(&b, OP_SHARED_LOAD, 4, place, 1, &type, 0);
        func_replace_uses(s->func, op->results[0], masked(s->func, &b, op, last->results[0]));
        op_remove(op);
    }
    Builder after = build_after(s->func, last);
    stage_arrive(&after, stream->empty, stream->position);
}
