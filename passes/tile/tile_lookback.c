/* SPDX-License-Identifier: Apache-2.0 */
/* Single-pass scans by decoupled look-back, for long scans of few rows: each element is read once.
 *
 *   store %y[:], scan %x fn=sum   →   launch dims=[tiles] {           ; after one that clears
 *                                       %t = scatter %ticket[0], 1 fn=add
 *                                       for %n: tile %t of x {
 *                                         scatter %sums[%t + 1], total of %x[%n] fn=xchg
 *                                         %b = reduce (spin_load %sums[…up to %t])
 *                                         store %y[%n], %b + scan %x[%n] } }
 *
 * Tiles are numbered in the order in which blocks begin, so every tile that a block waits for is
 * already being processed. The tiles of a group (GROUP of them) read each other's totals. Word s
 * has the total of tile s - 1; the first word of a group has the total of all tiles before the
 * group, which the last tile of the preceding group stores there. Which values are combined in
 * which order depends on the sizes alone, so the result has the same bits on every run. Only one
 * tile in GROUP waits for a tile that itself waits.
 *
 * A tile stays in registers between its load and its store. Full tiles need no guards; the partial
 * tile is processed in small steps and read twice. */
#include "passes/tile/tile_emit.h"
#include "support/int_math.h"

#include "passes/tile/tile_steps.h"

enum {
    GROUP = 256,    /* a power of two: about as many tiles as threads look at them */
    CLEARED = 1024, /* words, by a block of this many warps: */
    CLEARING_WARPS = 8,
    WORD_BITS = 32,  /* of a value: the other half of a word says that it is there */
    MAX_WORDS = 8,   /* of all values of an element */
    WIDE_ACCESS = 4, /* elements */
    MAX_STEPS = 8,   /* of a tile that is walked */
    WIDE_THREAD = 8, /* elements of more than one register that a thread scans */
    UNIT_REGISTERS = 65536,
    UNIT_THREADS = 2048,
};

typedef struct Lookback {
    TileEmitter e;
    TilePlan plan;
    AxisSplit split;
    int n_axes; /* of the grid */
    Dim tiles;
    bool reverse;
    Value *ticket;
    Value **words[MAX_SCANS]; /* by scan: two a result, the second NULL where one will do */
    Value *tile, *last;       /* i64, in the order of the scan; bool: of its group */
    Value *place, *there;     /* i64, bool [GROUP]: whose words it looks at, and which of them */
} Lookback;

/* ---- when ---- */

static int words_of(DType dtype)
{
    return dtype_bits(dtype) > WORD_BITS ? 2 : 1;
}

/* Scans from one side along rows, of which a block has one. */
static bool is_scanned(const Lookback *l, const Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Type type = op->operands[0]->type;
    bool good = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
    good = good && axis == type->rank - 1;
    good = good && (op_int(op, ATTR_REVERSE, 0) != 0) == l->reverse;
    for (int i = 0; i < op->n_results; i++) {
        good = good && dtype_bits(op->operands[i]->type->dtype) != 4;
    }
    for (int i = 0; i < type->rank && good; i++) {
        good = i == axis || emit_item(&l->e, op->operands[0], i) >= 0 ||
               poly_is_number(type->dims[i], 1);
    }
    return good;
}

/* Registers that the values of an element take. */
static int64_t words_scanned(const Lookback *l)
{
    int64_t words = 0;
    for (int k = 0; k < l->split.n; k++) {
        for (int i = 0; i < l->split.ops[k]->n_results; i++) {
            words += words_of(l->split.ops[k]->operands[i]->type->dtype);
        }
    }
    return words;
}

static bool is_possible(Lookback *l)
{
    l->n_axes = 1;
    for (int i = 0; i < l->plan.n_stored; i++) {
        AxisPlan *axis = &l->plan.items[i];
        if (axis->how != AXIS_LOOP) {
            if (axis->step > 1) {
                return false;
            }
            axis->how = AXIS_SCALAR;
            axis->step = 0;
            l->n_axes++;
        }
    }
    for (int k = 0; k < l->split.n; k++) {
        if (!is_scanned(l, l->split.ops[k])) {
            return false;
        }
    }
    return words_scanned(l) <= MAX_WORDS && l->n_axes <= TENSOR_RANK;
}

/* Is there a tile that is not full? */
static bool is_ragged(const Lookback *l)
{
    const AxisPlan *axis = &l->plan.items[l->split.item];
    return poly_divisor(axis->dim) % axis->step != 0;
}

static bool is_wanted(Func *func)
{
    const char *how =
        schedule_decide_symbol(func, "scan", "", "lookback",
                               "each element is read once: blocks wait for the totals of "
                               "the tiles before theirs");
    return text_equal(how, "lookback");
}

static bool is_loaded(const Value *value)
{
    const Op *op = value->def;
    while (op && op->kind == OP_CAST) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_LOAD;
}

/* Registers of a thread: for elements, and in addition to them. */
static int64_t registers_held(const Lookback *l, const Op *group, int64_t elements)
{
    enum { FEW = 8 };
    Dim row = l->plan.items[l->split.item].dim;
    bool anywhere = l->n_axes > 1 && poly_divisor(row) % WIDE_ACCESS != 0; /* rows begin */
    int64_t words = 0, beside = FEW * (2 * l->n_axes - 1) * (anywhere ? 2 : 1);
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        words += op->kind == OP_LOAD ? words_of(op->results[0]->type->dtype) : 0;
    }
    for (int k = 0; k < l->split.n; k++) {
        for (int i = 0; i < l->split.ops[k]->n_results; i++) {
            const Value *value = l->split.ops[k]->operands[i];
            int own = words_of(value->type->dtype);
            words += is_loaded(value) ? 0 : own;
            beside += 2 * FEW * own;
        }
    }
    return (elements * words + beside + FEW - 1) / FEW * FEW;
}

/* A block waits for the totals before its own while others load: as many as registers allow. */
static void choose_tile(Lookback *l, const Op *group)
{
    Func *func = l->e.func;
    AxisPlan *axis = &l->plan.items[l->split.item];
    int64_t threads = l->plan.warps * func->target->warp, words = words_scanned(l);
    if (words > 1 && axis->step > WIDE_THREAD * threads) {
        tile_set_step(func, axis, AXIS_LOOP, WIDE_THREAD * threads,
                      "8 elements a thread of a scan: each takes several registers");
    }
    int64_t elements = ceil_div(axis->step, threads);
    int64_t each = registers_held(l, group, elements);
    int64_t busy = min_i64(UNIT_REGISTERS / each, UNIT_THREADS);
    l->plan.occupancy = schedule_decide_int(func, "occupancy", "", max_i64(1, busy / threads),
                                            "tiles of a scan wait for those before: as many as %d "
                                            "registers a thread allow",
                                            (int)each);
}

/* ---- memory ---- */

/* The axes of the grid behind `first`, and where this block is on them. */
static int grid_dims(const Lookback *l, Dim first, Dim *dims)
{
    int n = 0;
    dims[n++] = first;
    for (int i = 0; i < l->plan.n_stored; i++) {
        if (l->plan.items[i].how == AXIS_SCALAR) {
            dims[n++] = l->plan.items[i].dim;
        }
    }
    return n;
}

static Value **grid_places(const Lookback *l, const EmitFrame *frame, Value *first)
{
    Value **places = ARENA_ARRAY(l->e.func->arena, Value *, MAX_RANK);
    int n = 0;
    places[n++] = first;
    for (int i = 0; i < l->plan.n_stored; i++) {
        if (l->plan.items[i].how == AXIS_SCALAR) {
            places[n++] = frame->ranges[i];
        }
    }
    return places;
}

static Value *new_memory(const Lookback *l, const char *what, DType dtype, Dim first)
{
    Func *func = l->e.func;
    Dim dims[MAX_RANK];
    int n = grid_dims(l, first, dims);
    const char *name = arena_printf(func->arena, "%s%zu", what, func->params.n);
    return func_param(func, name, type_tensor(func, dtype, n, dims), PARAM_SCRATCH);
}

static Dim count_tiles(Func *func, const AxisPlan *axis)
{
    int64_t extent;
    if (poly_is_const(axis->dim, &extent)) {
        return poly_const(func, ceil_div(extent, axis->step));
    }
    Dim more = poly_add(func, axis->dim, poly_const(func, axis->step - 1));
    const char *name = arena_printf(func->arena, "%s_tiles%zu", axis->name, func->params.n);
    return poly_var(func, func_own_quotient(func, name, more, axis->step));
}

static Dim slots_of(const Lookback *l)
{
    return poly_add(l->e.func, l->tiles, poly_const(l->e.func, 1));
}

static void make_memory(Lookback *l)
{
    Func *func = l->e.func;
    l->ticket = new_memory(l, "ticket", DT_I64, poly_const(func, 1));
    for (int k = 0; k < l->split.n; k++) {
        const Op *op = l->split.ops[k];
        l->words[k] = ARENA_ARRAY(func->arena, Value *, 2 * op->n_results);
        for (int i = 0; i < 2 * op->n_results; i++) {
            if (i % 2 < words_of(op->operands[i / 2]->type->dtype)) {
                l->words[k][i] = new_memory(l, "sums", DT_U64, slots_of(l));
            }
        }
    }
}

/* A launch before: no word says anything yet, and the first block takes the first tile. */
static void emit_clearing(Lookback *l, Op *group)
{
    Func *func = l->e.func;
    Dim dims[MAX_RANK];
    int64_t steps[MAX_RANK] = {CLEARED}, warps = CLEARING_WARPS;
    const char *names[MAX_RANK] = {"slot"};
    int n = grid_dims(l, slots_of(l), dims);
    Builder before = build_before(func, group);
    Op *launch = build_parallel(&before, OP_LAUNCH, n, dims, steps, names);
    op_set_ints(func, launch, ATTR_WARPS, 1, &warps);
    Builder b = build_at_end(func, launch->regions[0]);
    Value *indices[MAX_RANK], *slots = launch->regions[0]->args[0];
    for (int i = 0; i < n; i++) {
        indices[i] = launch->regions[0]->args[i];
    }
    Value *none = build_int(&b, type_array(func, DT_U64, 1, slots->type->dims), 0);
    for (int k = 0; k < l->split.n; k++) {
        for (int i = 0; i < 2 * l->split.ops[k]->n_results; i++) {
            if (l->words[k][i]) {
                build_store(&b, l->words[k][i], indices, none);
            }
        }
    }
    Value *zero = build_i64(&b, 0);
    Value *first = build_cmp(&b, "eq", build_range_fact(&b, OP_START, slots), zero);
    indices[0] = zero;
    build_scatter(&b, "set", l->ticket, indices, zero, NULL, first, false);
}

/* ---- values as words ---- */

static Value *bits_of(Builder *b, Value *value)
{
    DType dtype = value->type->dtype, wanted = dtype_unsigned(dtype);
    if (dtype == DT_BOOL) {
        return build_cast(b, value, wanted);
    }
    return dtype == wanted ? value : build_bitcast(b, value, wanted);
}

static Value *of_bits(Builder *b, Value *bits, DType dtype)
{
    if (dtype == DT_BOOL) {
        return build_cmp(b, "ne", bits, build_int(b, bits->type, 0));
    }
    return dtype == bits->type->dtype ? bits : build_bitcast(b, bits, dtype);
}

static Value *with_number(Builder *b, OpKind kind, Value *word, int64_t number)
{
    return build_binary(b, kind, word, build_int(b, word->type, number));
}

static const int64_t LOW_HALF = ((int64_t)1 << WORD_BITS) - 1, IS_THERE = (int64_t)1 << WORD_BITS;

static Value *to_word(Builder *b, Value *value, int nth)
{
    Value *bits = build_cast(b, bits_of(b, value), DT_U64);
    if (words_of(value->type->dtype) == 2) {
        bits =
            nth ? with_number(b, OP_SHR, bits, WORD_BITS) : with_number(b, OP_AND, bits, LOW_HALF);
    }
    return with_number(b, OP_OR, bits, IS_THERE);
}

static Value *of_words(Builder *b, Value *const *words, DType dtype)
{
    Value *low = with_number(b, OP_AND, words[0], LOW_HALF);
    if (words_of(dtype) == 2) {
        low = build_binary(b, OP_OR, low, with_number(b, OP_SHL, words[1], WORD_BITS));
    }
    return of_bits(b, build_cast(b, low, dtype_unsigned(dtype)), dtype);
}

/* ---- looking back ---- */

/* This block's tile, and its part of the axis. */
static void take_tile(Lookback *l, EmitFrame *frame)
{
    const AxisPlan *axis = &l->plan.items[l->split.item];
    Builder *b = &frame->at;
    Value *one = build_i64(b, 1), *step = build_i64(b, axis->step);
    Value **place = grid_places(l, frame, build_i64(b, 0));
    l->tile = build_scatter(b, "add", l->ticket, place, one, NULL, NULL, true)->results[0];
    Value *nth = l->tile;
    if (l->reverse) {
        nth = build_binary(b, OP_SUB, build_size(b, l->tiles), one);
        nth = build_binary(b, OP_SUB, nth, l->tile);
    }
    l->split.lo = build_binary(b, OP_MUL, nth, step);
    Value *end = build_binary(b, OP_ADD, l->split.lo, step);
    l->split.hi = build_binary(b, OP_MIN, end, build_size(b, axis->dim));
}

/* Which words of the group: in the axis' own order, for functions that want it. */
static void find_group(Lookback *l, EmitFrame *frame)
{
    Builder *b = &frame->at;
    Dim group = poly_const(b->func, GROUP);
    Value *nth = with_number(b, OP_AND, l->tile, GROUP - 1);
    Value *first = build_binary(b, OP_SUB, l->tile, nth);
    Value *places = build_iota(b, group, DT_I64);
    if (l->reverse) {
        places = build_binary(b, OP_SUB, build_int(b, places->type, GROUP - 1), places);
    }
    l->last = build_cmp(b, "eq", nth, build_i64(b, GROUP - 1));
    l->place = build_binary(b, OP_ADD, places, build_broadcast(b, first, 1, &group));
    Value *own = build_broadcast(b, l->tile, 1, &group);
    Value *some = build_cmp(b, "gt", l->place, build_int(b, l->place->type, 0));
    l->there = build_binary(b, OP_AND, some, build_cmp(b, "le", l->place, own));
}

/* Into the word after this tile's, where `when` holds. */
static void leave(const Lookback *l, EmitFrame *frame, int k, Value *const *values, Value *when)
{
    Builder *b = &frame->at;
    Value **place = grid_places(l, frame, with_number(b, OP_ADD, l->tile, 1));
    for (int i = 0; i < 2 * l->split.ops[k]->n_results; i++) {
        if (l->words[k][i]) {
            Value *word = to_word(b, values[i / 2], i % 2);
            build_scatter(b, "xchg", l->words[k][i], place, word, NULL, when, false);
        }
    }
}

/* What all tiles before this one come to, as scalars. */
static void look_back(Lookback *l, EmitFrame *frame, int k, Value **before)
{
    Builder *b = &frame->at;
    const Op *op = l->split.ops[k];
    Value **place = grid_places(l, frame, l->place);
    for (int i = 0; i < op->n_results; i++) {
        Value *words[2] = {NULL, NULL};
        for (int half = 0; half < 2; half++) {
            Value *memory = l->words[k][2 * i + half];
            words[half] = memory ? build_await(b, memory, place, l->there) : NULL;
        }
        Value *left = of_words(b, words, op->operands[i]->type->dtype);
        before[i] = build_select(b, l->there, left, emit_nothing(&l->e, frame, op, i, left->type));
    }
    emit_fold_arrays(&l->e, frame, op, before);
    for (int i = 0; i < op->n_results; i++) {
        before[i] = build_squeeze(b, before[i], 0);
    }
}

/* `walked`: the tile is, in steps; else it is here. */
static Value **scalars_of(Lookback *l, EmitFrame *frame, const Op *op, bool walked)
{
    Value **totals = ARENA_ARRAY(l->e.func->arena, Value *, op->n_results);
    if (!walked) {
        emit_totals(&l->e, frame, op, totals);
    }
    Value **shares = walked ? emit_share_totals(&l->e, frame, op) : totals;
    for (int i = 0; i < op->n_results; i++) {
        totals[i] = shares[i];
        while (totals[i]->type->rank) {
            totals[i] = build_squeeze(&frame->at, totals[i], totals[i]->type->rank - 1);
        }
    }
    return totals;
}

static void begin_scans(Lookback *l, EmitFrame *frame, bool walked)
{
    Builder *b = &frame->at;
    Value **totals[MAX_SCANS];
    Value *early = build_unary(b, OP_NOT, l->last);
    for (int k = 0; k < l->split.n; k++) {
        l->split.inits[k] = NULL;
        totals[k] = scalars_of(l, frame, l->split.ops[k], walked);
        leave(l, frame, k, totals[k], early);
    }
    for (int k = 0; k < l->split.n; k++) {
        const Op *op = l->split.ops[k];
        int n = op->n_results, rank = op->operands[0]->type->rank;
        Value **before = ARENA_ARRAY(b->func->arena, Value *, n);
        Value **all = ARENA_ARRAY(b->func->arena, Value *, n);
        look_back(l, frame, k, before);
        emit_joined(&l->e, frame, op, before, totals[k], all);
        leave(l, frame, k, all, l->last);
        for (int i = 0; i < n; i++) {
            while (before[i]->type->rank < rank) {
                before[i] = build_expand(b, before[i], 0);
            }
        }
        l->split.inits[k] = before;
    }
}

/* ---- tiles ---- */

/* All of the tile at once, in registers. */
static void emit_tile(Lookback *l, Op *group, EmitFrame *frame, bool full)
{
    EmitFrame inside;
    Op *tile = emit_loop(&l->e, frame, l->split.item, 0, NULL, 0, NULL, &inside);
    op_set_int(l->e.func, tile, ATTR_SINGLE_TRIP, 1);
    if (full) {
        op_set_int(l->e.func, tile, ATTR_FULL_TILES, 1);
    }
    begin_scans(l, &inside, false);
    emit_effects(&l->e, group, &inside);
    emit_end(&l->e, &inside, 0, NULL);
}

/* A few elements a thread at a time, twice: of the one tile with elements that are not there. */
static void emit_walked(Lookback *l, Op *group, EmitFrame *frame)
{
    AxisPlan *axis = &l->plan.items[l->split.item];
    int64_t step = axis->step;
    axis->step = max_i64(1, step / MAX_STEPS);
    begin_scans(l, frame, true);
    emit_effects(&l->e, group, frame);
    axis->step = step;
}

static EmitFrame frame_in(const Lookback *l, const EmitFrame *outer, Block *region)
{
    EmitFrame frame = emit_frame(&l->e);
    for (int i = 0; i < l->plan.n; i++) {
        frame.dims[i] = outer->dims[i];
        frame.ranges[i] = outer->ranges[i];
    }
    frame.at = build_at_end(l->e.func, region);
    return frame;
}

/* Full tiles need no guards, which take registers, and single accesses, for each element. */
static void emit_both(Lookback *l, Op *group, EmitFrame *frame)
{
    Builder *b = &frame->at;
    Value *step = build_i64(b, l->plan.items[l->split.item].step);
    Value *end = build_binary(b, OP_ADD, l->split.lo, step);
    Op *choice = build_if(b, build_cmp(b, "eq", l->split.hi, end), 0, NULL);
    for (int side = 0; side < 2; side++) {
        EmitFrame inside = frame_in(l, frame, choice->regions[side]);
        if (side == 0) {
            emit_tile(l, group, &inside, true);
        } else {
            emit_walked(l, group, &inside);
        }
        build_yield(&inside.at, 0, NULL);
    }
}

bool tile_lookback(Func *func, Op *group, const TilePlan *plan, const AxisSplit *split)
{
    Lookback l = {.plan = *plan, .split = *split};
    l.e = (TileEmitter){.func = func, .plan = &l.plan, .split = &l.split};
    l.reverse = op_int(split->ops[0], ATTR_REVERSE, 0) != 0;
    if (!is_possible(&l) || !is_wanted(func)) {
        return false;
    }
    choose_tile(&l, group);
    l.tiles = count_tiles(func, &l.plan.items[split->item]);
    make_memory(&l);
    emit_clearing(&l, group);
    EmitFrame frame = emit_frame(&l.e);
    emit_launch(&l.e, group, &frame, l.tiles, "turn");
    take_tile(&l, &frame);
    find_group(&l, &frame);
    if (is_ragged(&l)) {
        emit_both(&l, group, &frame);
    } else {
        emit_tile(&l, group, &frame, false);
    }
    return true;
}
