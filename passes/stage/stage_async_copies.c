/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers that the threads of a block fill by asynchronous copies (cp.async, LDS DMA) some
 * iterations ahead, on targets without TMA and for tensors that TMA cannot describe.
 *
 *   %r = for lo, hi, %z                  barrier
 *     %a = load %x[%m, %k]          →    %j = for lo, min(lo + 2 * 64, hi), 0     %p, %i
 *     %b = load %w[%k, %n]                 copy_load %x[%m, %p], %sa[%i]; copy_load …; copy_commit
 *     yield dot %a, %b, %c                 yield %i + 1
 *                                        if lo + 2 * 64 > hi { copy_wait pending=0 }
 *                                        %r = for lo, hi, %z, 0                   %k, %c, %i
 *                                          copy_wait pending=1; barrier
 *                                          if %k + 2 * 64 < hi { the same for it, %sa[%i + 2] }
 *                                          copy_commit
 *                                          yield dot %sa[%i], %sb[%i], %c, %i + 1
 *
 * (With three pipeline stages.) There is one barrier per iteration, which each thread reaches after
 * waiting for its own copies for that iteration. After it, the stage is complete, and all threads
 * have read the stage of the previous iteration, which is filled next. Each iteration commits a
 * group of copies, possibly an empty one, so that the number of groups newer than the needed one is
 * constant; a loop with fewer iterations than stages waits for all copies before it begins. */
#include "passes/stage/stage.h"

#include "ir/memo.h"
#include "ir/ir_errors.h"
#include "support/int_math.h"
#include "passes/analysis/access_width.h"
#include "passes/tile/tile.h"

enum {
    MIN_SLOTS = 2,
    MAX_SLOTS = 8,
    LEFT_BYTES = 4096,    /* for reductions across warps */
    COPY_LATENCY = 800,   /* cycles, of memory under load, */
    COPY_RATE = 64,       /* bytes a cycle, of the second-level cache to a multiprocessor */
    OTHER_REGISTERS = 80, /* a thread's, in addition to its sums */
};

/* One loop, and the loads of it that are copied ahead. */
typedef struct Copies {
    StageContext *s;
    Func *func;
    Op *loop;
    Block *body;
    StagedOperand *items[MAX_STAGED]; /* one a load */
    int n;
    int64_t bytes; /* of a slot of all of them */
    int stream;
    int64_t slots;
} Copies;

/* ---- which loads ---- */

/* Can threads copy it ahead, past their registers? Elements that they take at once; 0: they
 * cannot. */
static int64_t stage_copy_width(const StageContext *s, const Op *load)
{
    DType dtype = load->results[0]->type->dtype;
    const ScheduleEntry *line = schedule_user_entry(s->func, "vector", "");
    int64_t each = dtype_bytes(dtype), most = an_width(s->func, load) * each;
    most = line && line->number * each < most ? line->number * each : most;
    int64_t row = poly_capacity(load->results[0]->type->dims[1]) * each;
    for (int64_t bytes = 16; bytes >= 4 && !dtype_is_packed(dtype); bytes /= 2) {
        if ((s->func->target->async_copy_bytes & bytes) && bytes <= most && bytes >= each &&
            row % bytes == 0) {
            return bytes / each;
        }
    }
    return 0;
}

/* Can its place in a later step be worked out now? */
static bool is_ahead(const StageContext *s, const Op *load)
{
    for (int i = 1; i < load->n_operands; i++) {
        if (!stage_is_plain(s, load->operands[i])) {
            return false;
        }
    }
    return stage_may_bulk(s->func, s->launch, load->operands[0]);
}

/* Is what the mask hides zeros in any case, because the load checks the end of that range? */
static bool is_masked_so(const StagedOperand *item)
{
    const Op *mask = item->mask;
    if (!mask) {
        return true;
    }
    Access access = op_access(item->load, 0);
    const Attr *guard = op_attr(item->load, ATTR_GUARD);
    int64_t axis = op_int(mask, ATTR_AXIS, 0);
    const Value *hidden = mask->operands[0];
    if (hidden->def && hidden->def->kind == OP_PERMUTE) {
        axis = op_attr(hidden->def, ATTR_PERM)->ints[axis];
        hidden = hidden->def->operands[0];
    }
    for (int i = 0, kept = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        bool range = index && index->type->kind == TYPE_RANGE;
        if ((range || !index) && kept++ == axis) {
            return hidden == item->load->results[0] && range && guard &&
                   guard->ints[i] && op_attr(mask, ATTR_VALUE)->f == 0;
        }
    }
    return false;
}

static bool is_copied(const StageContext *s, const StagedOperand *item)
{
    const Op *loop = item->load->parent->parent;
    const Attr *value = op_attr(item->load, ATTR_VALUE);
    return loop->kind == OP_FOR && op_attr(loop, ATTR_STEPS)->ints[0] > 0 &&
           !op_int(loop, ATTR_DESCENDING, 0) && !op_int(loop, ATTR_SINGLE_TRIP, 0) &&
           is_masked_so(item) && !item->rounded && item->side != SIDE_AUXILIARY &&
           (!value || (value->f == 0 && value->i == 0)) &&
           !func_im2col_of(s->func, item->load->operands[0]) && is_ahead(s, item->load) &&
           stage_copy_width(s, item->load) > 0;
}

/* Is something of it that is loaded in this block, and not as an operand by itself, on its way to
 * an operand? */
static bool find_registers(Memo *seen, const Value *value, const Block *body, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!op || op->parent != body || op->kind == OP_DOT || depth > 32 ||
        memo_known(seen, value, depth, &known)) {
        return false; /* where it was seen: or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    bool found = op->results[0]->type->rank > 1 && (op->kind == OP_LOAD || op->kind == OP_GATHER);
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = find_registers(seen, op->operands[i], body, depth + 1);
    }
    return found;
}

static bool needs_registers(const Value *value, const Block *body)
{
    Memo *seen = memo_open(body->func);
    bool found = find_registers(seen, value, body, 0);
    memo_close(seen);
    return found;
}

typedef struct Whole {
    const StageContext *s;
    const Block *body;
    bool good;
} Whole;

static void look_at_product(Op *op, void *user)
{
    Whole *whole = user;
    for (int side = 0; op->kind == OP_DOT && side < 2; side++) {
        const StagedOperand *item = stage_item(whole->s, op, side);
        bool copied = item && item->load->parent == whole->body && is_copied(whole->s, item);
        whole->good = whole->good && (copied || !needs_registers(op->operands[side], whole->body));
    }
}

/* A loop of which a part passes through registers synchronizes for that in any case, and gains by
 * loading all of it a step ahead (stage_register_prefetch.c). */
bool stage_can_copy(const StageContext *s, const StagedOperand *item)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "copy", "");
    if (!is_copied(s, item)) {
        return false;
    }
    Whole whole = {s, item->load->parent, true};
    if (!line || !text_equal(line->symbol, "async")) {
        block_walk(item->load->parent, look_at_product, &whole);
    }
    return whole.good;
}

static StagedOperand *same_load(Copies *c, const StagedOperand *item)
{
    for (int i = 0; i < c->n; i++) {
        if (c->items[i]->load == item->load) {
            return c->items[i];
        }
    }
    return NULL;
}

static void find_items(Copies *c)
{
    for (int i = 0; i < c->s->n; i++) {
        StagedOperand *item = &c->s->items[i];
        if (item->load->parent == c->body && stage_can_copy(c->s, item) && !same_load(c, item)) {
            c->items[c->n++] = item;
            c->bytes += stage_item_bytes(item);
        }
    }
}

/* ---- how many slots ---- */

/* Blocks that a multiprocessor holds, by the registers that a product's sums take. */
static int64_t blocks_held(const Copies *c)
{
    const Target *target = c->func->target;
    int64_t threads = op_attr(c->s->launch, ATTR_WARPS)->ints[0] * target->warp, sums = 0;
    for (int i = 0; i < c->n; i++) {
        Type type = c->items[i]->dot->results[0]->type;
        int64_t all = poly_capacity(type->dims[0]) * poly_capacity(type->dims[1]) *
                      dtype_bytes(type->dtype) / 4;
        sums = all > sums ? all : sums;
    }
    int64_t held = target->registers / (threads * OTHER_REGISTERS + sums);
    return held > 1 ? held : 1;
}

typedef struct Scratch {
    Type types[MAX_STAGED]; /* each with a buffer */
    int n;
    int64_t bytes;
} Scratch;

/* Operands of fused multiply-adds that are computed: threads read them from shared memory. */
static void measure_scratch(Op *op, void *user)
{
    Scratch *scratch = user;
    bool plain = op->kind == OP_DOT && !dot_instruction(op->parent->func, op);
    for (int side = 0; plain && side < 2; side++) {
        Type type = op->operands[side]->type;
        const Op *def = op->operands[side]->def;
        while (def && (def->kind == OP_MASK || op_moves_axes(def))) {
            def = def->operands[0]->def;
        }
        bool known = def && def->kind == OP_LOAD;
        for (int i = 0; i < scratch->n; i++) {
            known = known || scratch->types[i] == type;
        }
        if (!known && type->rank == 2 && scratch->n < MAX_STAGED) {
            scratch->types[scratch->n++] = type;
            scratch->bytes += poly_capacity(type->dims[0]) * poly_capacity(type->dims[1]) *
                              dtype_bytes(type->dtype);
        }
    }
}

/* What must be on its way for copies to come as fast as a multiprocessor can take them, of all its
 * blocks: latency times rate. */
static int64_t choose_slots(const Copies *c)
{
    Func *func = c->func;
    int64_t held = blocks_held(c), flight = (int64_t)COPY_LATENCY * COPY_RATE;
    Scratch scratch = {.n = 0};
    block_walk(c->s->launch->regions[0], measure_scratch, &scratch);
    int64_t available =
        func->target->shared_bytes - LEFT_BYTES - c->s->shared_bytes - scratch.bytes;
    int64_t fit = available / c->bytes, share = available / held / c->bytes;
    int64_t wanted = 1 + (flight + held * c->bytes - 1) / (held * c->bytes);
    wanted = clamp_i64(min_i64(wanted, share), MIN_SLOTS, MAX_SLOTS);
    int64_t slots = schedule_decide_int(
        func, "pipeline", "", max_i64(1, min_i64(wanted, fit)),
        "%lld bytes per iteration; the bytes that arrive in %d cycles, %lld, should be in flight "
        "to a multiprocessor%s; %lld pipeline stages fit",
        (long long)c->bytes, COPY_LATENCY, (long long)flight,
        held > 1 ? arena_printf(func->arena, ", which holds %lld blocks", (long long)held) : "",
        (long long)fit);
    if (slots < 1) {
        diag_error(func->diags, ERR_PIPELINE, schedule_user_entry(func, "pipeline", "")->span,
                   "`pipeline %lld`: a ring buffer has at least one pipeline stage",
                   (long long)slots);
    }
    return slots;
}

/* ---- the ring ---- */

static Value *position_of(Builder *b, int64_t value)
{
    return build_int(b, type_scalar(b->func, DT_I32), value);
}

static void make_buffers(Copies *c)
{
    Builder top = build_before(c->func, c->s->launch->regions[0]->first);
    for (int i = 0; i < c->n; i++) {
        StagedOperand *item = c->items[i];
        Value *tile = shared_tile(c->s, &top, item->load->results[0]->type->dtype, c->slots,
                                  item->rows, item->cols);
        tile->name = item->load->operands[0]->name;
        item->shared = tile;
    }
    for (int i = 0; i < c->s->n; i++) {
        StagedOperand *item = &c->s->items[i], *first = same_load(c, item);
        if (first) {
            item->shared = first->shared;
            item->stream = c->stream;
            item->bulk = true;
            item->mask = NULL;
        }
    }
}

/* Scalars of the step that tell where loads are, for another step. */
static void clone_scalars(Copies *c, Builder *b, CloneMap *map)
{
    for (Op *op = c->body->first; op; op = op->next) {
        if (op->n_results == 1 && type_is_scalar(op->results[0]->type) &&
            stage_is_plain(c->s, op->results[0])) {
            clone_op(b, map, op); /* dead ones go with the others */
        }
    }
}

/* The copies of the step that `range` is, and the loop's own range stands for. */
static void build_copies(Copies *c, Builder *b, Value *range, Value *position)
{
    CloneMap map = clone_map_new(c->func);
    Value *own = c->body->args[0];
    clone_map_value(&map, own, range);
    clone_map_dim(&map, poly_as_range(own->type->dims[0]), range->type->dims[0]);
    clone_scalars(c, b, &map);
    for (int i = 0; i < c->n; i++) {
        const Op *load = c->items[i]->load;
        Value *operands[MAX_RANK + 8];
        int n = 0;
        for (int k = 0; k < load->n_operands; k++) {
            operands[n++] = load->operands[k] ? clone_get(&map, load->operands[k]) : NULL;
        }
        operands[n++] = c->items[i]->shared;
        operands[n++] = position;
        operands[n++] = NULL;
        operands[n++] = NULL;
        b->span = load->span;
        Op *copy = build_op(b, OP_COPY_LOAD, n, operands, 0, NULL, 0);
        const Attr *guard = op_attr(load, ATTR_GUARD);
        if (guard) {
            op_set_ints(c->func, copy, ATTR_GUARD, guard->n, guard->ints);
        }
        op_set_int(c->func, copy, ATTR_VECTOR, stage_copy_width(c->s, load));
    }
}

static Op *build_loop(const Copies *c, Builder *b, Value *lo, Value *hi, int n, Value **inits)
{
    const Value *range = c->body->args[0];
    Op *loop = build_for(b, op_attr(c->loop, ATTR_DIMS)->dims[0],
                         op_attr(c->loop, ATTR_STEPS)->ints[0], range->name, lo, hi, n, inits);
    if (op_int(c->loop, ATTR_FULL_TILES, 0)) {
        op_set_int(c->func, loop, ATTR_FULL_TILES, 1);
    }
    return loop;
}

/* All steps but one of a ring, before the first. */
static void build_start(Copies *c, Builder *b, Value *lo, Value *hi)
{
    int64_t step = op_attr(c->loop, ATTR_STEPS)->ints[0];
    Value *end = build_binary(b, OP_ADD, lo, build_i64(b, step * (c->slots - 1)));
    Value *first = position_of(b, 0);
    Op *loop = build_loop(c, b, lo, build_binary(b, OP_MIN, end, hi), 1, &first);
    Block *body = loop->regions[0];
    Builder in = build_at_end(c->func, body);
    build_copies(c, &in, body->args[0], body->args[1]);
    build_bare(&in, OP_COPY_COMMIT);
    Value *next = build_binary(&in, OP_ADD, body->args[1], position_of(&in, 1));
    build_yield(&in, 1, &next);
    if (c->slots > 2) { /* fewer groups than steps count on */
        Op *branch = build_if(b, build_cmp(b, "gt", end, hi), 0, NULL);
        Builder yes = build_at_end(c->func, branch->regions[0]),
                no = build_at_end(c->func, branch->regions[1]);
        build_op(&yes, OP_COPY_WAIT, 0, NULL, 0, NULL, 0);
        build_yield(&yes, 0, NULL);
        build_yield(&no, 0, NULL);
    }
}

/* i1: is there a step this many later? */
static Value *is_step(Copies *c, Builder *b, int64_t later, Value *hi, Value **start)
{
    int64_t step = op_attr(c->loop, ATTR_STEPS)->ints[0];
    Value *own = build_range_fact(b, OP_START, c->body->args[0]);
    *start = build_binary(b, OP_ADD, own, build_i64(b, step * later));
    return build_cmp(b, "lt", *start, hi);
}

/* At the begin of a step: its tiles are there for all, and the copies of a later one start. */
static void build_turn(Copies *c, Value *position, Value *hi)
{
    Builder b = build_before(c->func, c->body->first);
    Value *start, *full = c->slots > 2 ? is_step(c, &b, c->slots - 2, hi, &start) : NULL;
    Op *wait = build_op(&b, OP_COPY_WAIT, full ? 1 : 0, &full, 0, NULL, 0);
    op_set_int(c->func, wait, ATTR_PENDING, c->slots - 2);
    for (int i = 0; i < c->n; i++) {
        if (stage_is_wgmma(c->s, c->items[i]->dot)) {
            build_bare(&b, OP_FENCE_ASYNC);
            break;
        }
    }
    build_bare(&b, OP_BARRIER);
    Value *more = is_step(c, &b, c->slots - 1, hi, &start);
    Value *slot = build_binary(&b, OP_ADD, position, position_of(&b, c->slots - 1));
    Op *branch = build_if(&b, more, 0, NULL);
    Builder yes = build_at_end(c->func, branch->regions[0]),
            no = build_at_end(c->func, branch->regions[1]);
    Value *past =
        build_binary(&yes, OP_ADD, start, build_i64(&yes, op_attr(c->loop, ATTR_STEPS)->ints[0]));
    Op *later = build_loop(c, &yes, start, build_binary(&yes, OP_MIN, past, hi), 0, NULL);
    op_set_int(c->func, later, ATTR_SINGLE_TRIP, 1);
    Builder in = build_at_end(c->func, later->regions[0]);
    build_copies(c, &in, later->regions[0]->args[0], slot);
    build_yield(&in, 0, NULL);
    build_yield(&yes, 0, NULL);
    build_yield(&no, 0, NULL);
    build_bare(&b, OP_COPY_COMMIT);
}

static void run_ahead(Copies *c)
{
    Func *func = c->func;
    Builder b = build_before(func, c->loop);
    c->stream = c->s->n_streams++;
    make_buffers(c);
    Value *lo = for_lo(c->loop);
    Value *whole = build_size(&b, op_attr(c->loop, ATTR_DIMS)->dims[0]);
    Value *hi = build_binary(&b, OP_MIN, for_hi(c->loop), whole);
    build_bare(&b, OP_BARRIER); /* who still reads tiles of a loop before */
    build_start(c, &b, lo, hi);
    Value *last, *position = stage_carry(func, c->loop, position_of(&b, 0), &last);
    c->s->streams[c->stream] = (OperandStream){
        .home = c->body, .dot = c->items[0]->dot, .slots = c->slots, .position = position};
    Builder end = build_before(func, c->body->last);
    stage_yield_more(func, c->body->last,
                     build_binary(&end, OP_ADD, position, position_of(&end, 1)));
    build_turn(c, position, hi);
}

static void try_loop(Op *op, void *user)
{
    StageContext *s = user;
    if (op->kind != OP_FOR || s->n_streams == MAX_STAGED) {
        return;
    }
    Copies *c = ARENA_NEW(s->func->arena, Copies);
    *c = (Copies){.s = s, .func = s->func, .loop = op, .body = op->regions[0]};
    find_items(c);
    c->slots = c->n > 0 ? choose_slots(c) : 0;
    if (c->slots >= MIN_SLOTS) {
        run_ahead(c);
    }
}

void stage_copies(StageContext *s)
{
    block_walk(s->body, try_loop, s);
}
