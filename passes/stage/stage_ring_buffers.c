/* SPDX-License-Identifier: Apache-2.0 */
/* Creates ring buffers: for each set of tiles that a dot waits for, pipeline stages in shared
 * memory and two mbarriers per stage, `full` (the copies have arrived) and `empty` (the dot has
 * read them). */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"
#include "passes/tile/tile.h"

enum {
    /* Beyond these, copies run further ahead than latency asks for: at 4.8 TB/s a multiprocessor of
     * 132 gets 36 KB in a microsecond, of which a small operand takes its part without cost. */
    MAX_SLOTS = 4,
    MAX_AHEAD = 160 * 1024, /* bytes, of smaller slots */
    SCRATCH_BYTES = 4096,   /* left for reductions across warps and barriers */
    BARRIER_BYTES = 1024,   /* of it, where nothing crosses warps */
    MIN_RUN = 3,            /* slots that rings keep in addition to a second slot of what is loaded
                               once */
};

/* The first item of the same load: several products may read one tile. */
static StagedOperand *first_of_load(StageContext *s, const StagedOperand *item)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk && s->items[i].load == item->load) {
            return &s->items[i];
        }
    }
    return NULL;
}

int64_t stage_item_bytes(const StagedOperand *item)
{
    return item->rows * item->cols * dtype_bits(item->load->results[0]->type->dtype) / 8;
}

static int stream_of(StageContext *s, const StagedOperand *item)
{
    Op *dot = item->with ? (Op *)(uintptr_t)item->with : item->dot;
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].home == item->load->parent && s->streams[i].dot == dot) {
            return i;
        }
    }
    s->streams[s->n_streams] = (OperandStream){.home = item->load->parent, .dot = dot, .slots = 1};
    return s->n_streams++;
}

static void group_items(StageContext *s)
{
    for (int i = 0; i < s->n; i++) {
        StagedOperand *item = &s->items[i];
        if (!item->bulk) {
            continue;
        }
        const StagedOperand *first = first_of_load(s, item);
        if (first != item) {
            item->stream = first->stream;
            s->streams[item->stream].many = true;
            continue;
        }
        item->stream = stream_of(s, item);
        OperandStream *stream = &s->streams[item->stream];
        stream->loads++;
        stream->bytes += stage_item_bytes(item);
    }
}

static const StagedOperand *item_of(const StageContext *s, int stream, int side, int part)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk && s->items[i].stream == stream && s->items[i].side == side &&
            s->items[i].part == part) {
            return &s->items[i];
        }
    }
    return NULL;
}

static bool same_tiles(const StagedOperand *a, const StagedOperand *b)
{
    return a == b ||
           (a && b && a->parts == b->parts && a->load->operands[0] == b->load->operands[0] &&
            a->rows == b->rows && a->cols == b->cols);
}

/* The n-th row of the stream next to its product; NULL: it has fewer. */
static const StagedOperand *row_of(const StageContext *s, int stream, int n)
{
    for (int i = 0; i < s->n; i++) {
        bool row = s->items[i].bulk && s->items[i].side == SIDE_AUXILIARY;
        if (row && s->items[i].stream == stream && n-- == 0) {
            return &s->items[i];
        }
    }
    return NULL;
}

static bool same_rows(const StageContext *s, int a, int b)
{
    int n = 0;
    while (row_of(s, a, n) && same_tiles(row_of(s, a, n), row_of(s, b, n))) {
        n++;
    }
    return !row_of(s, a, n) && !row_of(s, b, n);
}

/* The same tiles of the same tensors, in two loops of the launch's own block: the ring runs on. (In
 * a loop around both each would carry a position of its own.) */
static bool can_share(const StageContext *s, int a, int b)
{
    const Block *first = s->streams[a].home, *second = s->streams[b].home;
    return first != second && first->parent && second->parent && first != s->body &&
           second != s->body && first->parent->parent == s->body &&
           second->parent->parent == s->body &&
           same_tiles(item_of(s, a, 0, 0), item_of(s, b, 0, 0)) &&
           same_tiles(item_of(s, a, 1, 0), item_of(s, b, 1, 0)) &&
           same_tiles(item_of(s, a, 1, 1), item_of(s, b, 1, 1)) && same_rows(s, a, b);
}

static bool leads_in(const StageContext *s, int leader, const Block *home)
{
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == leader && s->streams[i].home == home) {
            return true;
        }
    }
    return false;
}

static void choose_leaders(StageContext *s)
{
    for (int i = 0; i < s->n_streams; i++) {
        s->streams[i].leader = i;
        for (int k = 0; k < i && s->streams[i].leader == i; k++) {
            if (s->streams[k].leader == k && can_share(s, k, i) &&
                !leads_in(s, k, s->streams[i].home)) {
                s->streams[i].leader = k;
            }
        }
    }
}

/* An operand that goes to shared memory through registers (stage_dot.c), in addition to the
 * rings. */
static int64_t plain_operand(const StageContext *s, const Op *dot, int side)
{
    const StagedOperand *item = stage_item(s, dot, side);
    Type type = dot->operands[side]->type;
    if ((item && item->bulk) || stage_stays(s, dot, side)) {
        return 0;
    }
    return poly_capacity(type->dims[0]) * poly_capacity(type->dims[1]) * dtype_bytes(type->dtype);
}

typedef struct Plain {
    const StageContext *s;
    int64_t bytes;
} Plain;

static void add_plain(Op *op, void *user)
{
    Plain *plain = user;
    if (op->kind == OP_DOT) {
        plain->bytes += plain_operand(plain->s, op, 0) + plain_operand(plain->s, op, 1);
    } else if (op->kind == OP_CLUSTER_REDUCE_SCATTER) { /* what the others send */
        Type type = op->operands[0]->type;
        plain->bytes +=
            poly_capacity(type->dims[0]) * poly_capacity(type->dims[1]) * dtype_bytes(type->dtype);
    }
}

static int64_t plain_bytes(const StageContext *s)
{
    Plain plain = {s, 0};
    block_walk(s->body, add_plain, &plain);
    return plain.bytes;
}

/* Bytes that must exist once, and bytes a slot of all rings inside loops takes. */
static void measure(const StageContext *s, int64_t *fixed_bytes, int64_t *slot_bytes)
{
    *fixed_bytes = s->shared_bytes + plain_bytes(s);
    *slot_bytes = 0;
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader != i) {
            continue;
        }
        if (s->streams[i].home == s->body) {
            *fixed_bytes += s->streams[i].bytes;
        } else {
            *slot_bytes += s->streams[i].bytes;
        }
    }
}

/* Of a multiprocessor's blocks, each has its share. */
int64_t stage_shared_capacity(const StageContext *s)
{
    const Target *target = s->func->target;
    int64_t all = target->shared_bytes + target->shared_reserved;
    return all / op_int(s->launch, ATTR_OCCUPANCY, 1) - target->shared_reserved;
}

/* Elements that other threads ask for, whatever the layouts. */
static void see_crossing(Op *op, void *user)
{
    bool stays = op_has(op, TRAIT_ELEMENTWISE);
    switch (op->kind) {
    case OP_CONST:
    case OP_SIZE:
    case OP_INDEX:
    case OP_LOAD:
    case OP_STORE:
    case OP_DOT:
    case OP_PERMUTE:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_FOR:
    case OP_YIELD:
    case OP_SHARED_STORE: /* of a result on its way to the copy engine */
    case OP_BARRIER:
    case OP_FENCE_ASYNC:
    case OP_BULK_STORE:
    case OP_BULK_WAIT: stays = true; break;
    default: break;
    }
    *(bool *)user |= !stays;
}

/* What layouts add to the buffers of `stage`: little where each element is made of those of its own
 * place, so that a slot more may fit. If layouts ask for more than that, it is noticed then, and
 * tried again with what they asked for (retry_smaller_tiles.c). */
static int64_t scratch_bytes(const StageContext *s)
{
    bool crosses = false;
    block_walk(s->body, see_crossing, &crosses);
    if (s->func->retry.reserved_bytes) {
        return s->func->retry.reserved_bytes;
    }
    return crosses ? SCRATCH_BYTES : BARRIER_BYTES;
}

int64_t stage_slots_that_fit(const StageContext *s, int64_t more)
{
    int64_t fixed_bytes, slot_bytes;
    measure(s, &fixed_bytes, &slot_bytes);
    int64_t reserved = scratch_bytes(s);
    int64_t available = stage_shared_capacity(s) - reserved - fixed_bytes - more;
    if (available < 0) {
        return 0;
    }
    return slot_bytes ? available / slot_bytes : 1;
}

/* Slots for what is loaded once a tile: a second one lets the next tile's come under this one's
 * work, where the rings keep what lets copies run ahead. What does not fit in addition to scratch
 * memory is noticed when layouts are known, and tried again (retry_smaller_tiles.c). */
static int64_t slots_of_tiles(const StageContext *s, int64_t slots)
{
    int64_t fixed_bytes, slot_bytes, tiles = 0;
    measure(s, &fixed_bytes, &slot_bytes);
    for (int i = 0; i < s->n_streams; i++) {
        bool first = s->streams[i].leader == i && s->streams[i].home == s->body;
        tiles += first ? s->streams[i].bytes : 0;
    }
    int64_t reserved =
        s->func->retry.reserved_bytes ? s->func->retry.reserved_bytes : BARRIER_BYTES;
    bool fits = fixed_bytes + tiles + slots * slot_bytes + reserved <= stage_shared_capacity(s);
    return s->persistent && s->teams <= 1 && slot_bytes && tiles && fits ? 2 : 1;
}

static void choose_slots(StageContext *s)
{
    for (int i = 0; s->held_slots && i < s->n_streams; i++) {
        s->streams[i].slots = s->held_slots;
    }
    if (s->held_slots) {
        return;
    }
    int64_t fixed_bytes, slot_bytes, most = stage_slots_that_fit(s, 0);
    measure(s, &fixed_bytes, &slot_bytes);
    int64_t enough =
        slot_bytes * MAX_SLOTS < MAX_AHEAD && slot_bytes ? MAX_AHEAD / slot_bytes : MAX_SLOTS;
    int64_t derived = most > enough ? enough : most;
    while (derived > MIN_RUN && slots_of_tiles(s, derived) < 2 && slots_of_tiles(s, MIN_RUN) > 1) {
        derived--;
    }
    int64_t slots = schedule_decide_int(
        s->func, "pipeline", "", derived < 1 ? 1 : derived,
        "%lld pipeline stages of %lld bytes fit in addition to %lld bytes of other buffers%s",
        (long long)most, (long long)slot_bytes, (long long)fixed_bytes,
        slots_of_tiles(s, derived) > 1 ? "; the operands of the next tile are loaded meanwhile"
                                       : "");
    if (slots < 1) {
        diag_error(s->func->diags, ERR_PIPELINE, schedule_user_entry(s->func, "pipeline", "")->span,
                   "`pipeline %lld`: a ring buffer has at least one pipeline stage",
                   (long long)slots);
        slots = 1;
    }
    int64_t tiles = slots_of_tiles(s, slots);
    for (int i = 0; i < s->n_streams; i++) {
        s->streams[i].slots = s->streams[i].home == s->body ? tiles : slots;
    }
}

Value *stage_barriers(StageContext *s, Builder *at, int64_t slots, int64_t arrivals)
{
    Type type = type_mbarrier(s->func, slots);
    Op *op = build_op(at, OP_MBARRIER, 0, NULL, 1, &type, 0);
    op_set_int(s->func, op, ATTR_ARRIVALS, arrivals);
    return op->results[0];
}

static void make_ring(StageContext *s, Builder *at, int n)
{
    OperandStream *stream = &s->streams[n];
    stream->full = stage_barriers(s, at, stream->slots, stream->loads);
    stream->empty = stage_barriers(s, at, stream->slots, 1);
    if (s->together > 1) { /* others write to this block's slots, too */
        op_set_int(s->func, stream->empty->def, ATTR_CLUSTER, s->together);
    }
    stream->full->name = "full";
    stream->empty->name = "empty";
}

static Value *shared_row(StageContext *s, Builder *at, const StagedOperand *item, int64_t slots)
{
    DType dtype = item->load->results[0]->type->dtype;
    Type type = type_shared(s->func, dtype, 2, (int64_t[]){slots, item->cols});
    s->shared_bytes += slots * stage_item_bytes(item);
    return build_op(at, OP_SHARED, 0, NULL, 1, &type, 0)->results[0];
}

/* As elements lie in the tensor: those of four bits two a byte. */
static Value *bulk_tile(StageContext *s, Builder *at, const StagedOperand *item, int64_t slots)
{
    DType dtype = item->load->results[0]->type->dtype;
    int64_t before = s->shared_bytes;
    Value *tile = shared_tile(s, at, dtype, slots, item->rows, item->cols);
    if (dtype_is_packed(dtype)) {
        op_set_int(s->func, tile->def, ATTR_PACKED, 1);
        op_set_int(s->func, tile->def, ATTR_SWIZZLE, swizzle_for(item->cols / 2));
        s->shared_bytes = before + slots * stage_item_bytes(item);
    }
    return tile;
}

/* What the ring's first stream has in the item's place. */
static const StagedOperand *led_by(const StageContext *s, const StagedOperand *item)
{
    int leader = s->streams[item->stream].leader, nth = 0;
    while (item->side == SIDE_AUXILIARY && row_of(s, item->stream, nth) != item) {
        nth++;
    }
    return item->side == SIDE_AUXILIARY ? row_of(s, leader, nth)
                                        : item_of(s, leader, item->side, 0);
}

static void make_buffer(StageContext *s, Builder *at, StagedOperand *item)
{
    const OperandStream *stream = &s->streams[item->stream];
    const StagedOperand *first = first_of_load(s, item);
    if (first != item) {
        item->shared = first->shared;
        return;
    }
    if (stream->leader != item->stream) {
        item->shared = led_by(s, item)->shared;
        return;
    }
    if (item->part) {
        item->shared = item_of(s, item->stream, item->side, 0)->shared;
        return;
    }
    if (item->side == SIDE_AUXILIARY) {
        item->shared = shared_row(s, at, item, stream->slots);
    } else {
        item->shared = bulk_tile(s, at, item, stream->slots * (item->parts ? item->parts : 1));
    }
    item->shared->name = item->load->operands[0]->name;
}

void stage_streams(StageContext *s)
{
    stage_join(s);
    group_items(s);
    choose_leaders(s);
}

void stage_rings(StageContext *s, Builder *at)
{
    choose_slots(s);
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk) {
            make_buffer(s, at, &s->items[i]);
        }
    }
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == i) {
            make_ring(s, at, i);
        } else {
            s->streams[i].full = s->streams[s->streams[i].leader].full;
            s->streams[i].empty = s->streams[s->streams[i].leader].empty;
        }
    }
}
