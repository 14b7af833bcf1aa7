/* SPDX-License-Identifier: Apache-2.0 */
/* lower_sort: lowers sort to radix-sort launches over digits of 8 bits, the lowest first.
 *
 *   %y, %p = sort %x      for each digit:
 *                         parallel dims=[M, N] steps=[0, 4096] { (%m, %n)       ; counts
 *                           store %counts[%m, own, :], histogram (digits of %from[%m, %n]) }
 *                  →      store %before, scan of %counts over the chunks
 *                         store %smaller, scan of their sums over the digits
 *                         parallel dims=[M, N] steps=[0, 4096] { (%m, %n)       ; deals
 *                           %first = add %before[%m, own, :], %smaller[%m, :]
 *                           %r = rank (digits of %from[%m, %n]), %first : i64[%n]
 *                           scatter %to[%m, %r], %from[%m, %n] }
 *
 * On GPUs a block sorts its chunk by the digit before it writes it: adjacent elements then go to
 * adjacent addresses, and all elements of a digit move by the same distance, which a small table
 * holds. A row of one chunk is sorted by all digits in one launch. Elements keep their bits; each
 * pass computes the sort keys from them again, so that no index is moved if only the elements are
 * wanted. Elements with equal digits keep their order, so the sort is stable. Short rows, and sorts
 * inside loops, compare all pairs instead (lower_sort_pairwise.c). Requires the tensor level.
 * Changes no bits. */
#include "passes/tensor/lower_sort.h"

#include "ir/target/target.h"
#include "passes/pass.h"
#include "support/int_math.h"

enum {
    FEW = 64,        /* elements of a row that are compared with each other */
    CHUNK = 4096,    /* elements that are counted together: they fit a core's cache, a block */
    MIN_CHUNK = 256, /* all threads of a warp have some */
};

typedef struct Sort {
    Func *func;
    Op *op;
    Builder b;
    Type type; /* of the elements */
    int rank;
    bool descending;
    int64_t chunk;
    bool whole;                      /* a row is one chunk at most */
    bool arranges;                   /* chunks are ordered before they are written */
    Dim chunks;                      /* of a row */
    DType place;                     /* of an index in a row */
    Value *counts;                   /* of each chunk's digits */
    Value *before;                   /* of the same digit, in the chunks before */
    Value *smaller;                  /* in the row */
    Value *buffers[2], *place_buffers[2]; /* what passes write, in turns */
    Value *to, *places_to;           /* what the last one writes; NULL: is not wanted */
} Sort;

/* ---- memory ---- */

static Value *scratch(Sort *s, const char *what, DType dtype, Dim last)
{
    Func *func = s->func;
    Dim dims[MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        dims[i] = i < s->rank - 1 ? s->type->dims[i] : last;
    }
    const char *name = arena_printf(func->arena, "sort_%s%zu", what, func->params.n);
    return func_param(func, name, type_tensor(func, dtype, s->rank, dims), PARAM_SCRATCH);
}

/* The tensor that the operand is, or a new one that holds it. */
static Value *in_memory(Sort *s)
{
    Value *value = s->op->operands[0];
    const Op *load = value->def;
    bool input = load && load->kind == OP_LOAD && load->parent == s->func->body &&
                 load->operands[0]->type->kind == TYPE_TENSOR && op_accesses_whole(load) &&
                 s->func->params.items[load->operands[0]->index].io == PARAM_IN;
    if (input) {
        return load->operands[0];
    }
    Value *memory = scratch(s, "from", value->type->dtype, s->type->dims[s->rank - 1]);
    build_store(&s->b, memory, WHOLE, value);
    return memory;
}

typedef struct Uses {
    const Value *value;
    Op *only;
    int n;
} Uses;

static void count_use(Op *op, void *user)
{
    Uses *uses = user;
    for (int i = 0; i < op->n_operands; i++) {
        uses->n += op->operands[i] == uses->value;
        uses->only = op->operands[i] == uses->value ? op : uses->only;
    }
}

/* The result of the kernel that a value becomes as a whole, if nothing else reads the one or writes
 * the other: its store then has nothing to do any more. */
static Value *becomes(Sort *s, Value *value)
{
    Uses uses = {.value = value};
    func_walk(s->func, count_use, &uses);
    const Op *store = uses.only;
    bool good = uses.n == 1 && store->kind == OP_STORE && store->parent == s->func->body &&
                op_accesses_whole(store) &&
                s->func->params.items[store->operands[0]->index].io == PARAM_OUT &&
                value_count_uses(s->func, store->operands[0]) == 1;
    if (!good) {
        return NULL;
    }
    Value *memory = store->operands[0];
    op_remove(uses.only);
    return memory;
}

/* Where the last pass leaves a result; NULL: it is not wanted. */
static Value *target_of(Sort *s, Value *result, const char *what, DType dtype)
{
    if (!value_has_uses(s->func, result)) {
        return NULL;
    }
    Value *memory = becomes(s, result);
    return memory ? memory : scratch(s, what, dtype, s->type->dims[s->rank - 1]);
}

/* Other uses of the result read it from there. */
static void hand_out(Sort *s, Value *result, Value *memory)
{
    if (memory && value_has_uses(s->func, result)) {
        Value *read = build_load(&s->b, memory, WHOLE);
        func_replace_uses(s->func, result, build_cast(&s->b, read, result->type->dtype));
    }
}

/* ---- a chunk of a row ---- */

typedef struct Chunk {
    Builder b;
    Value *at[MAX_RANK]; /* scalars of the axes before, then the range */
} Chunk;

static Chunk each_chunk(Sort *s)
{
    const char *names[MAX_RANK] = {NULL};
    int64_t steps[MAX_RANK] = {0};
    Chunk chunk;
    steps[s->rank - 1] = s->chunk;
    Op *walk = build_parallel(&s->b, OP_PARALLEL, s->rank, s->type->dims, steps, names);
    op_set_int(s->func, walk, ATTR_EXACT, 1);
    if (s->arranges) {
        /* Of a whole row a thread knows its digits' bits from counting to ranking. Else it has
         * elements and where they go, each a register, or places next to them. */
        int blocks = 4;
        if (s->whole) {
            blocks = 1;
        } else if (s->places_to || dtype_bits(s->type->dtype) > 32) {
            blocks = 2;
        }
        op_set_int(s->func, walk, ATTR_OCCUPANCY, blocks * CHUNK / s->chunk);
    }
    chunk.b = build_at_end(s->func, walk->regions[0]);
    chunk.b.span = s->b.span;
    for (int i = 0; i < s->rank; i++) {
        chunk.at[i] = walk->regions[0]->args[i];
    }
    return chunk;
}

static Value *digits_of(Sort *s, Chunk *chunk, Value *elements, int nth)
{
    Value *keys = sort_keys(&chunk->b, elements, s->descending);
    int64_t bits = (int64_t)nth * DIGIT_BITS;
    return sort_digits(&chunk->b, keys, nth ? build_int(&chunk->b, keys->type, bits) : NULL);
}

/* Where a chunk has its row of digits: after those of all rows before, and of its own row's chunks
 * before. */
static void own_digits(Sort *s, Chunk *chunk, Value **indices)
{
    Builder *b = &chunk->b;
    int n = 0, shift = __builtin_ctzll((unsigned long long)s->chunk);
    Value *row = NULL;
    for (int i = 0; i < s->rank - 1; i++) {
        Value *before = row ? build_binary(b, OP_MUL, row, build_size(b, s->type->dims[i])) : NULL;
        row = before ? build_binary(b, OP_ADD, before, chunk->at[i]) : chunk->at[i];
    }
    if (row) {
        indices[n++] = row;
    }
    Value *start = build_range_fact(b, OP_START, chunk->at[s->rank - 1]);
    indices[n++] = build_binary(b, OP_SHR, start, build_i64(b, shift));
    indices[n] = NULL;
}

/* Indices: the chunk's row, and this one in it, which is inside. */
static void in_row(Sort *s, const Chunk *chunk, Value *index, Value **indices)
{
    for (int i = 0; i < s->rank; i++) {
        indices[i] = i < s->rank - 1 ? chunk->at[i] : index;
    }
}

static void unguarded(Sort *s, Op *op)
{
    static const int64_t none[MAX_RANK];
    op_set_ints(s->func, op, ATTR_GUARD, s->rank, none);
}

static void put(Sort *s, Chunk *chunk, Value *memory, Value *index, Value *value)
{
    Value *indices[MAX_RANK];
    in_row(s, chunk, index, indices);
    unguarded(s, build_scatter(&chunk->b, "set", memory, indices, value, NULL, NULL, false));
}

/* ---- one pass ---- */

static void count(Sort *s, Value *from, int nth)
{
    Value *indices[MAX_RANK];
    Chunk chunk = each_chunk(s);
    Value *elements = build_load(&chunk.b, from, chunk.at);
    Value *counts = build_histogram(&chunk.b, digits_of(s, &chunk, elements, nth), DIGITS);
    own_digits(s, &chunk, indices);
    build_store(&chunk.b, s->counts, indices, counts);
}

/* The last chunk's row of digits, of each row. */
static Value *last_of(Sort *s, Value *memory)
{
    Value *indices[MAX_RANK] = {NULL};
    Value *one = build_i64(&s->b, 1);
    Value *last = build_binary(&s->b, OP_SUB, build_size(&s->b, s->chunks), one);
    indices[memory->type->rank - 2] = last;
    return build_cast(&s->b, build_load(&s->b, memory, indices), s->place);
}

/* A digit of a chunk begins behind itself in the chunks before, and behind all smaller digits. */
static void sum(Sort *s)
{
    Builder *b = &s->b;
    Value *counts = build_cast(b, build_load(b, s->counts, WHOLE), s->place);
    Value *before = build_scan(b, "sum", counts, counts->type->rank - 2, false, true);
    build_store(b, s->before, WHOLE, before);
    Value *last = last_of(s, s->counts);
    Value *all = build_binary(b, OP_ADD, last_of(s, s->before), last);
    Value *smaller = build_scan(b, "sum", all, all->type->rank - 1, false, true);
    build_store(b, s->smaller, WHOLE, smaller);
}

/* Where each digit's elements begin, of this many. */
static Value *starts_of(Builder *b, Value *counts)
{
    return build_scan(b, "sum", counts, 0, false, true);
}

static Value *own_counts(Sort *s, Chunk *chunk)
{
    Value *indices[MAX_RANK];
    own_digits(s, chunk, indices);
    return build_load(&chunk->b, s->counts, indices);
}

/* Where the first element of each digit of the chunk goes in the row. */
static Value *own_first(Sort *s, Chunk *chunk)
{
    Value *indices[MAX_RANK];
    own_digits(s, chunk, indices);
    Value *before = build_load(&chunk->b, s->before, indices);
    indices[s->smaller->type->rank - 1] = NULL; /* of the row */
    return build_binary(&chunk->b, OP_ADD, before, build_load(&chunk->b, s->smaller, indices));
}

/* Where the elements of a chunk go in it, to be in order: neighbours then write to neighbours. */
static Value *order_of(Chunk *chunk, Value *digits, Value *starts)
{
    return build_rank(&chunk->b, digits, 1, &starts)->results[0];
}

static Value *arranged(Chunk *chunk, Value *values, Value *within)
{
    return within ? build_arrange(&chunk->b, values, within) : values;
}

/* Of a chunk in order: each digit's elements lie side by side there and in the row, so that all go
 * equally far. */
static Value *places_of(Sort *s, Chunk *chunk, Value *ordered, Value *starts, int nth)
{
    Builder *b = &chunk->b;
    Value *range = chunk->at[s->rank - 1], *first = own_first(s, chunk);
    Value *begin = build_range_fact(b, OP_START, range);
    begin = build_broadcast(b, begin, 1, starts->type->dims);
    Value *own = build_binary(b, OP_ADD, build_cast(b, starts, DT_I64), begin);
    Value *far = build_binary(b, OP_SUB, first, build_cast(b, own, s->place));
    Value *by = build_lookup(b, far, digits_of(s, chunk, ordered, nth));
    return build_binary(b, OP_ADD, by, build_cast(b, build_index(b, range, DT_I64), s->place));
}

/* `places`: of the elements in the row as it was given; NULL: they are still there. */
static void deal(Sort *s, Value *from, Value *places, Value *to, Value *places_to, int nth)
{
    Chunk chunk = each_chunk(s);
    Builder *b = &chunk.b;
    Value *goes, *within = NULL, *elements = build_load(b, from, chunk.at);
    Value *digits = digits_of(s, &chunk, elements, nth);
    if (s->arranges) {
        Value *starts = starts_of(b, own_counts(s, &chunk));
        within = order_of(&chunk, digits, starts);
        elements = arranged(&chunk, elements, within);
        goes = places_of(s, &chunk, elements, starts, nth);
    } else {
        goes = order_of(&chunk, digits, own_first(s, &chunk));
    }
    if (to) {
        put(s, &chunk, to, goes, elements);
    }
    if (places_to) {
        Value *own = places ? build_load(b, places, chunk.at)
                            : build_index(b, chunk.at[s->rank - 1], DT_I64);
        own = build_cast(b, own, s->place);
        own = build_cast(b, arranged(&chunk, own, within), places_to->type->dtype);
        put(s, &chunk, places_to, goes, own);
    }
}

/* ---- rows that one block holds ---- */

/* One digit after the other; `carried`: the elements, then where they come from, if wanted. */
static void sort_chunk(Sort *s, Chunk *chunk, int n, Value **carried)
{
    Builder outside = chunk->b;
    Value *lo = build_i64(&chunk->b, 0);
    Value *hi = build_i64(&chunk->b, dtype_bits(s->type->dtype) / DIGIT_BITS);
    Dim digits = poly_const(s->func, dtype_bits(s->type->dtype) / DIGIT_BITS);
    Op *loop = build_for(&chunk->b, digits, 0, NULL, lo, hi, n, carried);
    Value *const *args = loop->regions[0]->args;
    Builder *b = &chunk->b;
    outside.block = chunk->b.block;
    *b = build_at_end(s->func, loop->regions[0]);
    b->span = outside.span;
    Value *keys = sort_keys(b, args[1], s->descending);
    Value *shift = build_binary(b, OP_MUL, args[0], build_i64(b, DIGIT_BITS));
    shift = build_cast(b, shift, keys->type->dtype);
    shift = build_broadcast(b, shift, 1, keys->type->dims);
    Value *digit = sort_digits(b, keys, shift);
    Value *starts = starts_of(b, build_histogram(b, digit, DIGITS));
    Value *within = build_rank(b, digit, 1, &starts)->results[0];
    Value *next[2];
    for (int i = 0; i < n; i++) {
        next[i] = build_arrange(b, args[i + 1], within);
    }
    build_yield(b, n, next);
    *b = outside;
    for (int i = 0; i < n; i++) {
        carried[i] = loop->results[i];
    }
}

static void sort_rows(Sort *s, Value *from)
{
    Chunk chunk = each_chunk(s);
    Value *carried[2] = {build_load(&chunk.b, from, chunk.at), NULL};
    if (s->places_to) {
        Value *index = build_index(&chunk.b, chunk.at[s->rank - 1], DT_I64);
        carried[1] = build_cast(&chunk.b, index, DT_I32);
    }
    sort_chunk(s, &chunk, s->places_to ? 2 : 1, carried);
    if (s->to) {
        build_store(&chunk.b, s->to, chunk.at, carried[0]);
    }
    if (s->places_to) {
        Value *places = build_cast(&chunk.b, carried[1], s->places_to->type->dtype);
        build_store(&chunk.b, s->places_to, chunk.at, places);
    }
}

/* ---- the op ---- */

/* What pass `nth` of `n` writes. */
static Value *written_by(Sort *s, Value **buffers, Value *last, int nth, int n, const char *what,
                         DType dtype)
{
    if (nth == n - 1) {
        return last;
    }
    if (!buffers[nth % 2]) {
        buffers[nth % 2] = scratch(s, what, dtype, s->type->dims[s->rank - 1]);
    }
    return buffers[nth % 2];
}

/* A number for each digit, of each chunk or not, of all rows. */
static Value *digits_memory(Sort *s, const char *what, DType dtype, bool chunks)
{
    Func *func = s->func;
    Dim dims[3], rows = poly_const(func, 1);
    int n = 0;
    for (int i = 0; i < s->rank - 1; i++) {
        rows = poly_mul(func, rows, s->type->dims[i]);
    }
    if (s->rank > 1) {
        dims[n++] = rows;
    }
    if (chunks) {
        dims[n++] = s->chunks;
    }
    dims[n++] = poly_const(func, DIGITS);
    const char *name = arena_printf(func->arena, "sort_%s%zu", what, func->params.n);
    return func_param(func, name, type_tensor(func, dtype, n, dims), PARAM_SCRATCH);
}

static void make_counts(Sort *s)
{
    Dim row = s->type->dims[s->rank - 1], more = poly_const(s->func, s->chunk - 1);
    int64_t extent;
    if (poly_is_const(row, &extent)) {
        s->chunks = poly_const(s->func, ceil_div(extent, s->chunk));
    } else {
        const char *name = arena_printf(s->func->arena, "sort_chunks%zu", s->func->dimvars.n);
        more = poly_add(s->func, row, more);
        s->chunks = poly_var(s->func, func_own_quotient(s->func, name, more, s->chunk));
    }
    s->counts = digits_memory(s, "counts", DT_I32, true);
    s->before = digits_memory(s, "before", s->place, true);
    s->smaller = digits_memory(s, "smaller", s->place, false);
}

static void sort_by_digits(Sort *s, Value *from)
{
    int n = dtype_bits(s->type->dtype) / DIGIT_BITS;
    Value *places = NULL;
    make_counts(s);
    for (int nth = 0; nth < n; nth++) {
        Value *to = written_by(s, s->buffers, s->to, nth, n, "to", s->type->dtype);
        Value *places_to =
            s->places_to ? written_by(s, s->place_buffers, s->places_to, nth, n, "places", s->place)
                         : NULL;
        count(s, from, nth);
        sum(s);
        deal(s, from, places, to, places_to, nth);
        from = to;
        places = places_to;
    }
}

/* Of short rows a chunk is a whole one. */
static void choose_chunk(Sort *s)
{
    const Target *target = s->func->target;
    bool gpu = target && target->family != FAMILY_CPU;
    int64_t most = poly_most(s->type->dims[s->rank - 1]);
    s->chunk = CHUNK;
    while (s->chunk / 2 >= most && s->chunk > MIN_CHUNK) {
        s->chunk /= 2;
    }
    s->arranges = gpu;
    s->whole = most <= s->chunk;
}

static void lower_sort(Func *func, Op *op)
{
    Type type = op->operands[0]->type;
    Dim row = type->dims[type->rank - 1];
    if (op->parent != func->body || type->rank > TENSOR_RANK || poly_most(row) <= FEW) {
        sort_by_pairs(func, op);
        return;
    }
    Sort s = {.func = func, .op = op, .b = build_before(func, op), .type = type};
    s.b.span = op->span;
    s.rank = type->rank;
    s.descending = op_int(op, ATTR_DESCENDING, 0) != 0;
    s.place = poly_most(row) <= INT32_MAX ? DT_I32 : DT_I64;
    choose_chunk(&s);
    Value *from = in_memory(&s);
    s.to = target_of(&s, op->results[0], "to", type->dtype);
    s.places_to = target_of(&s, op->results[1], "places", s.place);
    if (s.whole) {
        sort_rows(&s, from);
    } else {
        sort_by_digits(&s, from);
    }
    hand_out(&s, op->results[0], s.to);
    hand_out(&s, op->results[1], s.places_to);
    op_remove(op);
}

typedef struct Sorts {
    Func *func;
    struct {
        Op **items;
        size_t n, cap;
    } ops;
} Sorts;

static void collect(Op *op, void *user)
{
    Sorts *sorts = user;
    if (op->kind == OP_SORT) {
        ARENA_PUSH(sorts->func->arena, &sorts->ops, op);
    }
}

void pass_lower_sort(Func *func)
{
    Sorts sorts = {.func = func};
    func_walk(func, collect, &sorts);
    for (size_t i = 0; i < sorts.ops.n; i++) {
        lower_sort(func, sorts.ops.items[i]);
    }
    func_remove_dead(func);
}
