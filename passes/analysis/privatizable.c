/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the small tensors that a launch changes by order-independent atomics only, so that each
 * block can accumulate its changes in shared memory. */
#include "passes/analysis/privatizable.h"

#include "ir/memo.h"
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_classes.h"

enum {
    MAX_BYTES = 16384, /* of one copy: it is cleared and merged once per block */
    MIN_TILES = 1024,  /* tiles that a 32-bit copy must be able to count without overflow */
    MAX_DEPTH = 16,    /* of the search for the magnitude of what is added */
};

typedef struct Search {
    PrivatizableTensor *found;
    int n;
    const Value *spoilt[64]; /* tensors that other ops access */
    int n_spoilt;
    bool other; /* the launch has roles, tiles or dots, which fix its form */
} Search;

/* ---- which tensors ---- */

/* True if atomics on copies and a merge give the bits of atomics on the tensor, up to the order of
 * float additions. 16-bit floats are rounded at each step, and bools are too few to matter. */
static bool copies_are_exact(DType dtype, const char *fn)
{
    bool real = dtype == DT_F32 || dtype == DT_F64;
    bool bits = text_equal(fn, "and") || text_equal(fn, "or") || text_equal(fn, "xor");
    bool free = bits || text_equal(fn, "add") || text_equal(fn, "min") || text_equal(fn, "max");
    return free && ((dtype_is_int(dtype) && dtype_bits(dtype) >= 8) || (real && !bits));
}

/* 0: unknown, or too many for a copy. */
static int64_t element_count(Type tensor)
{
    int64_t n = 1, extent;
    for (int i = 0; i < tensor->rank; i++) {
        if (!poly_is_const(tensor->dims[i], &extent) || extent < 1 || extent > MAX_BYTES) {
            return 0;
        }
        n *= extent;
        if (n > MAX_BYTES) {
            return 0;
        }
    }
    return tensor->rank && tensor->rank <= TENSOR_RANK ? n : 0;
}

static void spoil(Search *search, const Value *tensor)
{
    search->other = search->other || search->n_spoilt == 64;
    if (!search->other) {
        search->spoilt[search->n_spoilt++] = tensor;
    }
}

static void add_scatter(Search *search, const Op *op)
{
    Value *tensor = op->operands[0];
    const char *fn = op_word(op, ATTR_FN);
    int64_t elements = tensor->type->kind == TYPE_TENSOR ? element_count(tensor->type) : 0;
    if (!elements || op->n_results || !copies_are_exact(tensor->type->dtype, fn)) {
        spoil(search, tensor);
        return;
    }
    for (int i = 0; i < search->n; i++) {
        if (search->found[i].tensor == tensor) {
            if (!text_equal(search->found[i].fn, fn)) {
                spoil(search, tensor);
            }
            return;
        }
    }
    if (search->n == MAX_GATHERED) {
        return;
    }
    search->found[search->n++] =
        (PrivatizableTensor){.tensor = tensor, .fn = fn, .elements = elements};
}

static void look(Op *op, void *user)
{
    Search *search = user;
    search->other = search->other || op->kind == OP_ROLES || op->kind == OP_TILE_LOOP ||
                    op->kind == OP_DOT || op->kind == OP_DOT_ASYNC;
    if (op->kind == OP_SCATTER) {
        add_scatter(search, op);
        return;
    }
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *value = op_access(op, at).memory;
        if (value && value->type->kind == TYPE_TENSOR) {
            spoil(search, value);
        }
    }
}

/* ---- counts ---- */

/* The greatest magnitude of an integer array's elements; -1: unknown. */
static int64_t magnitude(Memo *memo, const Value *value, int depth);

static int64_t magnitude_made(Memo *memo, const Value *value, int depth)
{
    const Op *op = value->def;
    int bits = dtype_bits(value->type->dtype);
    int64_t own = bits <= 16 ? (int64_t)1 << bits : -1, a, b;
    if (!op || depth > MAX_DEPTH) {
        return own;
    }
    switch (op->kind) {
    case OP_CONST:
        a = op_attr(op, ATTR_VALUE)->i;
        b = dtype_is_signed(value->type->dtype) && a > INT32_MIN ? -a : -1;
        return a >= 0 ? a : b;
    case OP_CAST:
        if (dtype_is_float(op->operands[0]->type->dtype)) {
            return own;
        }
        a = magnitude(memo, op->operands[0], depth + 1);
        return a >= 0 && dtype_is_signed(op->operands[0]->type->dtype) &&
                       !dtype_is_signed(value->type->dtype)
                   ? own
                   : a;
    case OP_SELECT:
        a = magnitude(memo, op->operands[1], depth + 1);
        b = magnitude(memo, op->operands[2], depth + 1);
        if (a < 0 || b < 0) {
            return own;
        }
        return a > b ? a : b;
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE: return magnitude(memo, op->operands[0], depth + 1);
    default: return own;
    }
}

static int64_t magnitude(Memo *memo, const Value *value, int depth)
{
    int64_t found;
    return memo_known(memo, value, depth, &found)
               ? found
               : memo_keep(memo, value, depth, magnitude_made(memo, value, depth));
}

static int64_t max_magnitude(Func *func, const Value *value)
{
    Memo *memo = memo_open(func);
    int64_t most = magnitude(memo, value, 0);
    memo_close(memo);
    return most;
}

typedef struct Count {
    const Op *launch;
    const Value *tensor;
    int64_t sum; /* most that a tile adds to one element; -1: not known */
} Count;

/* How often the op runs in a tile is known: there are no loops around it. */
static bool runs_once(const Op *op, const Op *launch)
{
    const Op *up = op->parent->parent;
    while (up && up != launch && up->kind == OP_IF) {
        up = up->parent->parent;
    }
    return up == launch;
}

static void count_scatter(Op *op, void *user)
{
    Count *count = user;
    if (op->kind != OP_SCATTER || op->operands[0] != count->tensor || count->sum < 0) {
        return;
    }
    const Value *value = axes_written(op);
    int64_t most =
        runs_once(op, count->launch) ? max_magnitude(count->launch->parent->func, value) : -1;
    for (int i = 0; i < value->type->rank && most > 0; i++) {
        int64_t extent = poly_capacity(value->type->dims[i]);
        most = extent > 0 && most < INT32_MAX / extent ? most * extent : -1;
    }
    count->sum = most < 0 || most > INT32_MAX - count->sum ? -1 : count->sum + most;
}

/* Shared memory counts in words at its best. */
static void choose_dtype(PrivatizableTensor *gathered, const Op *launch)
{
    DType dtype = gathered->tensor->type->dtype;
    bool with_sign = dtype_is_signed(dtype);
    gathered->dtype = dtype;
    if (dtype_is_float(dtype)) {
        return;
    }
    if (dtype_bits(dtype) < 32) {
        gathered->dtype = with_sign ? DT_I32 : DT_U32;
    } else if (dtype_bits(dtype) == 64 && text_equal(gathered->fn, "add")) {
        Count count = {launch, gathered->tensor, 0};
        block_walk(launch->regions[0], count_scatter, &count);
        int64_t tiles = count.sum > 0 ? INT32_MAX / count.sum : 0;
        if (tiles >= MIN_TILES) {
            gathered->dtype = with_sign ? DT_I32 : DT_U32;
            gathered->most_tiles = tiles;
        }
    }
}

/* ---- all ---- */

static bool is_spoilt(const Search *search, const Value *tensor)
{
    for (int i = 0; i < search->n_spoilt; i++) {
        if (search->spoilt[i] == tensor) {
            return true;
        }
    }
    return false;
}

int an_privatizable(Func *func, const Op *launch, PrivatizableTensor *found)
{
    Search search = {.found = found};
    if (!func->target || func->target->warp == 1 || op_int(launch, ATTR_PERSISTENT, 0) ||
        op_int(launch, ATTR_ALIGNED, 1) > 1) {
        return 0;
    }
    block_walk(launch->regions[0], look, &search);
    int n = 0;
    for (int i = 0; i < search.n && !search.other; i++) {
        if (!is_spoilt(&search, found[i].tensor)) {
            found[n] = found[i];
            choose_dtype(&found[n], launch);
            n += found[n].elements * dtype_bytes(found[n].dtype) <= MAX_BYTES;
        }
    }
    if (n == 0) {
        return 0;
    }
    const char *where = schedule_decide_symbol(
        func, "atomics", "", "shared",
        "small tensors: each block gathers its changes, and hands them on at its end");
    return text_equal(where, "shared") ? n : 0;
}
