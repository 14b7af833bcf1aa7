/* SPDX-License-Identifier: Apache-2.0 */
/* sort: sorting becomes passes over the digits of the elements, 8 bits at a time, the lowest first.
 *
 *   %y, %p = sort %x      for each digit:
 *                         parallel dims=[M, N] steps=[0, 8192] { (%m, %n)       ; counts
 *                           %h = histogram (digits of %from[%m, %n]) : i32[256]
 *                           scatter %counts[%m, each digit * chunks + own], %h }
 *                  →      store %first, scan %counts fn=sum exclusive=1
 *                         parallel dims=[M, N] steps=[0, 8192] { (%m, %n)       ; deals
 *                           %r = rank (digits of %from[%m, %n]), %first[%m, …] : i64[%n]
 *                           scatter %to[%m, %r], %from[%m, %n] }
 *
 * Elements keep their bits: what is compared is made of them again in each pass, so that no index
 * travels where only elements are wanted. Elements of a digit stay in their order, so the whole is
 * stable. Rows of few elements, and what is sorted inside of loops, compare each with each
 * (sort_few.c). Requires the tensor stage. Changes no bits. */
#include "passes/sort.h"

#include "ir/target.h"
#include "passes/pass.h"

enum {
    FEW = 64,           /* elements of a row that are compared with each other */
    CHUNK = 4096,       /* elements that are counted together: they fit a core's cache, */
    CHUNK_BLOCK = 8192, /* or a GPU's block, */
    LEAST_CHUNK = 1024, /* whose threads all have some */
    MOST_RANK = TENSOR_RANK,
};

typedef struct Sort {
    Func *func;
    Op *op;
    Builder b;
    Type type; /* of the elements */
    int rank;
    bool descending;
    int64_t chunk;
    Dim chunks;  /* of a row */
    DType place; /* of an index in a row */
    Value *counts, *first;
    Value *room[2], *places_room[2]; /* what passes write, in turns */
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

static bool is_whole(const Op *op)
{
    Access access = op_access(op, 0);
    for (int i = 0; i < access.n; i++) {
        if (access.indices[i]) {
            return false;
        }
    }
    return true;
}

/* The tensor that the operand is, or a new one that holds it. */
static Value *in_memory(Sort *s)
{
    static Value *const WHOLE[MAX_RANK];
    Value *value = s->op->operands[0];
    const Op *load = value->def;
    bool input = load && load->kind == OP_LOAD && load->parent == s->func->body &&
                 load->operands[0]->type->kind == TYPE_TENSOR && is_whole(load) &&
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
                is_whole(store) &&
                s->func->params.items[store->operands[0]->index].io == PARAM_OUT &&
                value_count_uses(s->func, store->operands[0]) == 1;
    if (!good) {
        return NULL;
    }
    Value *memory = store->operands[0];
    op_remove(uses.only);
    return memory;
}

/* Where the last pass leaves a result; NULL: nobody wants it. */
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
    static Value *const WHOLE[MAX_RANK];
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
    op_set_int(s->func, walk, ATTR_BLOCKS, 2);
    chunk.b = build_at_end(s->func, walk->regions[0]);
    chunk.b.span = s->b.span;
    for (int i = 0; i < s->rank; i++) {
        chunk.at[i] = walk->regions[0]->args[i];
    }
    return chunk;
}

static Value *digits_of(Sort *s, Chunk *chunk, Value *elements, int nth)
{
    return sort_digits(&chunk->b, sort_keys(&chunk->b, elements, s->descending), nth);
}

/* i64[DIGITS]: where the chunk has its counts in the row's. */
static Value *own_counts(Sort *s, Chunk *chunk)
{
    Builder *b = &chunk->b;
    int shift = __builtin_ctzll((unsigned long long)s->chunk);
    Value *start = build_range_fact(b, OP_START, chunk->at[s->rank - 1]);
    Value *own = build_binary(b, OP_SHR, start, build_i64(b, shift));
    Value *digit = build_iota(b, poly_const(s->func, DIGITS), DT_I64);
    Value *chunks = build_broadcast(b, build_size(b, s->chunks), 1, digit->type->dims);
    return build_binary(b, OP_ADD, build_binary(b, OP_MUL, digit, chunks),
                        build_broadcast(b, own, 1, digit->type->dims));
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
    Chunk chunk = each_chunk(s);
    Value *elements = build_load(&chunk.b, from, chunk.at);
    Value *counts = build_histogram(&chunk.b, digits_of(s, &chunk, elements, nth), DIGITS);
    put(s, &chunk, s->counts, own_counts(s, &chunk), counts);
}

static void sum(Sort *s)
{
    static Value *const WHOLE[MAX_RANK];
    Value *counts = build_cast(&s->b, build_load(&s->b, s->counts, WHOLE), s->place);
    Value *first = build_scan(&s->b, "sum", counts, s->rank - 1, false, true);
    build_store(&s->b, s->first, WHOLE, first);
}

/* `places`: of the elements in the row as it was given; NULL: they are still there. */
static void deal(Sort *s, Value *from, Value *places, Value *to, Value *places_to, int nth)
{
    Chunk chunk = each_chunk(s);
    Builder *b = &chunk.b;
    Value *indices[MAX_RANK];
    Value *elements = build_load(b, from, chunk.at);
    in_row(s, &chunk, own_counts(s, &chunk), indices);
    Value *first = build_gather(b, s->first, indices);
    unguarded(s, first->def);
    Value *rank = build_rank(b, digits_of(s, &chunk, elements, nth), first);
    if (to) {
        put(s, &chunk, to, rank, elements);
    }
    if (places_to) {
        Value *own = places ? build_load(b, places, chunk.at)
                            : build_index(b, chunk.at[s->rank - 1], DT_I64);
        put(s, &chunk, places_to, rank, build_cast(b, own, places_to->type->dtype));
    }
}

/* ---- the op ---- */

/* What pass `nth` of `n` writes. */
static Value *written_by(Sort *s, Value **room, Value *last, int nth, int n, const char *what,
                         DType dtype)
{
    if (nth == n - 1) {
        return last;
    }
    if (!room[nth % 2]) {
        room[nth % 2] = scratch(s, what, dtype, s->type->dims[s->rank - 1]);
    }
    return room[nth % 2];
}

static void sort_by_digits(Sort *s)
{
    int n = dtype_bits(s->type->dtype) / DIGIT_BITS;
    Value *from = in_memory(s), *places = NULL;
    s->to = target_of(s, s->op->results[0], "to", s->type->dtype);
    s->places_to = target_of(s, s->op->results[1], "places", s->place);
    for (int nth = 0; nth < n; nth++) {
        Value *to = written_by(s, s->room, s->to, nth, n, "to", s->type->dtype);
        Value *places_to =
            s->places_to ? written_by(s, s->places_room, s->places_to, nth, n, "places", s->place)
                         : NULL;
        count(s, from, nth);
        sum(s);
        deal(s, from, places, to, places_to, nth);
        from = to;
        places = places_to;
    }
    hand_out(s, s->op->results[0], s->to);
    hand_out(s, s->op->results[1], s->places_to);
    op_remove(s->op);
}

static int64_t chunk_for(const Func *func, Dim row)
{
    bool gpu = func->target && func->target->family != FAMILY_CPU;
    int64_t chunk = gpu ? CHUNK_BLOCK : CHUNK;
    while (chunk / 2 >= poly_most(row) && chunk > LEAST_CHUNK) {
        chunk /= 2;
    }
    return chunk;
}

static Dim count_chunks(Func *func, Dim row, int64_t chunk)
{
    int64_t extent;
    if (poly_is_const(row, &extent)) {
        return poly_const(func, (extent + chunk - 1) / chunk);
    }
    const char *name = arena_printf(func->arena, "sort_chunks%zu", func->dimvars.n);
    Dim more = poly_add(func, row, poly_const(func, chunk - 1));
    return poly_var(func, func_quotient(func, name, more, chunk));
}

static void lower_sort(Func *func, Op *op)
{
    Type type = op->operands[0]->type;
    Dim row = type->dims[type->rank - 1];
    if (op->parent != func->body || type->rank > MOST_RANK || poly_most(row) <= FEW) {
        sort_by_pairs(func, op);
        return;
    }
    Sort s = {.func = func, .op = op, .b = build_before(func, op), .type = type};
    s.b.span = op->span;
    s.rank = type->rank;
    s.descending = op_int(op, ATTR_DESCENDING, 0) != 0;
    s.chunk = chunk_for(func, row);
    s.chunks = count_chunks(func, row, s.chunk);
    s.place = poly_most(row) <= INT32_MAX ? DT_I32 : DT_I64;
    Dim counts = poly_mul(func, s.chunks, poly_const(func, DIGITS));
    s.counts = scratch(&s, "counts", DT_I32, counts);
    s.first = scratch(&s, "first", s.place, counts);
    sort_by_digits(&s);
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

void pass_sort(Func *func)
{
    Sorts sorts = {.func = func};
    func_walk(func, collect, &sorts);
    for (size_t i = 0; i < sorts.ops.n; i++) {
        lower_sort(func, sorts.ops.items[i]);
    }
    func_remove_dead(func);
}
