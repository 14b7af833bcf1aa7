/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what is known of a range: whether every tile is full, where the last one ends, how far a
 * tile may reach past the axis, and whether two ranges end together. */
#include "passes/analysis/range_facts.h"

#include "ir/memo.h"
#include "support/int_math.h"

enum { MAX_DEPTH = 16 };

static const Op *binding(const DimVar *range)
{
    return range->binder && range->binder->block ? range->binder->block->parent : NULL;
}

/* 0 is divided by everything: gcd(0, n) = n. */
static int64_t divisor_at(Memo *memo, const Value *value, int depth);

static int64_t divisor_made(Memo *memo, const Value *value, int depth)
{
    const Op *op = value->def;
    if (!op || depth > MAX_DEPTH) {
        return 1;
    }
    const DimVar *range;
    switch (op->kind) {
    case OP_CONST: return op_attr(op, ATTR_VALUE)->i;
    case OP_SIZE: return poly_divisor(op_attr(op, ATTR_DIM)->dims[0]);
    case OP_START:
    case OP_END:
        range = poly_as_range(op->operands[0]->type->dims[0]);
        return range && range_aligned(range) == 1 && range->capacity &&
                       (op->kind == OP_START || range_is_full(range))
                   ? range->capacity
                   : 1;
    case OP_MIN:
    case OP_MAX:
    case OP_ADD:
    case OP_SUB:
        return gcd(divisor_at(memo, op->operands[0], depth + 1),
                   divisor_at(memo, op->operands[1], depth + 1));
    case OP_MUL: {
        int64_t a = divisor_at(memo, op->operands[0], depth + 1);
        int64_t b = divisor_at(memo, op->operands[1], depth + 1), both;
        return __builtin_mul_overflow(a, b, &both) ? 1 : both;
    }
    case OP_SELECT:
        return gcd(divisor_at(memo, op->operands[1], depth + 1),
                   divisor_at(memo, op->operands[2], depth + 1));
    default: return 1;
    }
}

static int64_t divisor_at(Memo *memo, const Value *value, int depth)
{
    int64_t found;
    return memo_known(memo, value, depth, &found)
               ? found
               : memo_keep(memo, value, depth, divisor_made(memo, value, depth));
}

/* A number that divides an integer scalar whatever the sizes are; 1 when nothing is known. */
static int64_t value_divisor(const Value *value)
{
    Memo *memo = memo_about(value);
    int64_t divisor = divisor_at(memo, value, 0);
    memo_close(memo);
    return divisor;
}

static bool multiplies(const Op *loop)
{
    const Op *op = loop->regions[0]->first;
    while (op && op->kind != OP_DOT && op->kind != OP_DOT_ASYNC) {
        op = op->next;
    }
    return op != NULL;
}

/* Does the loop begin at `from`, or whole steps behind it, as one that was peeled does? */
static bool begins_behind(const Value *lo, const Value *from, int64_t step, int depth)
{
    const Op *op = lo->def;
    if (lo == from || !op || depth > MAX_DEPTH) {
        return lo == from;
    }
    switch (op->kind) {
    case OP_MIN:
    case OP_MAX:
        return begins_behind(op->operands[0], from, step, depth + 1) &&
               begins_behind(op->operands[1], from, step, depth + 1);
    case OP_ADD: return op->operands[0] == from && value_divisor(op->operands[1]) % step == 0;
    default: return false;
    }
}

/* Is the value the axis' end, or some whole steps behind the loop's begin? The lesser of both ends
 * a share: what that multiplies would be mended in shared memory while products wait; what it scans
 * is masked in registers, of which that takes fewer. */
static bool ends_whole(Memo *memo, const Op *loop, const DimVar *range, const Value *value,
                       int depth)
{
    const Op *op = value->def;
    int64_t extent, found;
    if (memo_known(memo, value, depth, &found)) {
        return true; /* or the question would have been answered */
    }
    memo_keep(memo, value, depth, 1);
    if (value == for_lo(loop) || !op || depth > MAX_DEPTH) {
        return value == for_lo(loop);
    }
    switch (op->kind) {
    case OP_SIZE: return op_attr(op, ATTR_DIM)->dims[0] == range->axis_extent;
    case OP_CONST:
        return poly_is_const(range->axis_extent, &extent) && op_attr(op, ATTR_VALUE)->i >= extent;
    case OP_MIN: /* one of both */
    case OP_MAX:
        return (op->kind == OP_MAX || multiplies(loop)) &&
               ends_whole(memo, loop, range, op->operands[0], depth + 1) &&
               ends_whole(memo, loop, range, op->operands[1], depth + 1);
    case OP_ADD:
        return range->capacity > 0 && value_divisor(op->operands[1]) % range->capacity == 0 &&
               begins_behind(for_lo(loop), op->operands[0], range->capacity, 0);
    default: return false;
    }
}

/* A grid that ends within the axis may do so within a tile. */
static bool may_be_cut(const DimVar *range)
{
    const Op *op = binding(range);
    int64_t upto = op ? axis_end(op, (int)range->binder->index) : INT64_MAX;
    return upto < INT64_MAX && upto % range->capacity != 0;
}

bool range_walks_whole(const DimVar *range)
{
    const Op *op = binding(range);
    if (!op || may_be_cut(range) || op->kind != OP_FOR) {
        return op && !may_be_cut(range);
    }
    Memo *memo = memo_open(op->parent->func);
    bool whole = ends_whole(memo, op, range, for_hi(op), 0);
    memo_close(memo);
    return whole;
}

int64_t range_aligned(const DimVar *range)
{
    const Op *op = binding(range);
    bool last = op && range->binder->index + 1 == (uint32_t)op->regions[0]->n_args;
    return last ? op_int(op, ATTR_ALIGNED, 1) : 1;
}

static int64_t blocks_of(const Op *op)
{
    const Op *launch = op_enclosing(op, OP_LAUNCH);
    return launch ? op_int(launch, ATTR_CLUSTER, 1) : 1;
}

/* Tiles side by side that run together: the last of them may lie past the end. */
static bool may_be_nobodys(const DimVar *range)
{
    const Op *op = binding(range);
    if (op && op->kind == OP_FOR &&
        op_int(op, ATTR_SINGLE_TRIP, 0) > 1) { /* its blocks' parts of one */
        return poly_divisor(range->axis_extent) % (blocks_of(op) * range->capacity) != 0;
    }
    const Attr *multicast = op ? op_attr(op, ATTR_MULTICAST) : NULL;
    int64_t n = multicast && range->binder->index < (uint32_t)multicast->n
                    ? multicast->ints[range->binder->index]
                    : 1;
    return n > 1 && poly_divisor(range->axis_extent) % (n * range->capacity) != 0;
}

/* Of a cluster's tiles some may lie past the end of the axis, if that may be so short. */
static bool may_be_outside(const DimVar *range)
{
    const Op *op = binding(range);
    bool last = op && range->binder->index + 1 == (uint32_t)op->regions[0]->n_args;
    int64_t blocks = last ? op_int(op, ATTR_CLUSTER, 1) : 1;
    int64_t divisor = poly_divisor(range->axis_extent), least = poly_least(range->axis_extent);
    if (blocks < 2) {
        return false;
    }
    least = divisor > 1 && least > 0 ? round_up(least, divisor) : least;
    return least / blocks < range->capacity;
}

int64_t range_overrun(const DimVar *range)
{
    const Op *op = binding(range);
    bool part = op && op->kind == OP_FOR && op_int(op, ATTR_SINGLE_TRIP, 0) > 1;
    if (range_is_full(range)) {
        return 0;
    }
    return (part ? blocks_of(op) : 1) * range->capacity - 1;
}

bool range_is_full(const DimVar *range)
{
    const Op *op = binding(range);
    if (may_be_cut(range) || range_aligned(range) > 1 || may_be_outside(range) ||
        may_be_nobodys(range)) {
        return false;
    }
    if (op && op_int(op, ATTR_FULL_TILES, 0)) {
        return true;
    }
    if (!op || range->capacity <= 0 || poly_divisor(range->axis_extent) % range->capacity != 0) {
        return false;
    }
    if (op->kind != OP_FOR) {
        return true;
    }
    return value_divisor(for_lo(op)) % range->capacity == 0 &&
           value_divisor(for_hi(op)) % range->capacity == 0;
}

/* The whole axis must not end before the other range does. */
bool range_ends_with(const DimVar *range, const DimVar *other)
{
    const Op *loop = binding(range);
    const Op *end = loop && loop->kind == OP_FOR ? value_def_of_kind(for_hi(loop), OP_END) : NULL;
    bool behind = range->axis_extent == other->axis_extent ||
                  poly_most(other->axis_extent) <= poly_least(range->axis_extent);
    return end && behind && poly_as_range(end->operands[0]->type->dims[0]) == other;
}

const DimVar *range_of_index(const Value *value)
{
    const Op *op = value_unstretched(value)->def;
    return op && op->kind == OP_INDEX ? poly_as_range(op->operands[0]->type->dims[0]) : NULL;
}

/* ---- parts from data ---- */

static const Value *chooser(const Value *value, bool data, int depth)
{
    enum { DEPTH = 8 }; /* operations between the begin of a loop and the data it comes from */
    const Op *op = value ? value->def : NULL;
    const Op *binder = value && value->block ? value->block->parent : NULL;
    const Attr *dims = binder && data ? op_attr(binder, ATTR_DIMS) : NULL;
    if (dims && (int)value->index < dims->n) {
        return value;
    }
    bool reads = op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
    const Value *found = NULL;
    for (int i = 0; op && depth < DEPTH && i < op->n_operands && !found; i++) {
        found = chooser(op->operands[i], data || reads, depth + 1);
    }
    return found;
}

const Value *range_part_chooser(const Op *loop)
{
    return chooser(for_lo(loop), false, 0);
}
