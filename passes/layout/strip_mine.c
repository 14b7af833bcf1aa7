/* SPDX-License-Identifier: Apache-2.0 */
/* strip_mine: turns the epilogue of a tile into a loop over strips of the tile if the code of the
 * launch would exceed the target's budget.
 *
 *   %c = for … { … dot … }                  %c = for … { … dot … }
 *   %b = load %bias[%N]                     %d = for %0 from start %N to end %N, %c, 0 dims=[N]
 *   %e = add %c, %b                              steps=[64] {
 *   …                                  →      (%N.2: range, %t: f32[%M, %N], %i: i32)
 *   barrier                                   %s = front %t : f32[%M, %N.2]
 *   shared_store %o[0, :, :], %e              %b = load %bias[%N.2]
 *   fence_async                               %e = add %s, %b
 *   barrier                                   …
 *   bulk_store %o[0, :, :], %out[%M, %N]      shared_store %o[%i, :, :], %e
 *                                             fence_async; barrier
 *                                             bulk_store %o[%i, :, :], %out[%M, %N.2]
 *                                             yield advance %t, %i + 1 }
 *
 * Code generation unrolls a tile over all registers of a thread. Where that exceeds the instruction
 * cache, each warp waits for its instructions (docs/lab/products.md). A strip has the leading
 * registers of the tile, in the same threads. `advance` moves the others: one move for each
 * register and iteration, so there are as few strips as fit the budget. A buffer through which the
 * tile is stored becomes a ring with one stage per strip, in the same bytes, so no strip waits for
 * another. Strips are derived only for launches with a dot.
 *
 * Requires layouts, vector widths, final barriers. Changes no bits. Does nothing where code fits
 * the budget, where a result of the tile is used behind its store, or where threads own no whole
 * strips. */
#include "passes/layout/strip_mine.h"

#include "ir/ir_errors.h"
#include "ir/layout/layout.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/code_size.h"
#include "passes/analysis/range_facts.h"
#include "passes/pass.h"

enum {
    LEAST_REGISTERS = 16, /* of a strip: enough independent work for a warp to issue */
    SWIZZLED_ROWS = 8,    /* the period of a swizzle */
};

/* ---- which ops ---- */

/* True if each element of the result depends only on the operands' elements at the same index. */
static bool goes_by_strips(const Op *op)
{
    switch (op->kind) {
    case OP_CONST:
    case OP_INDEX:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_CONVERT:
    case OP_MASK:
    case OP_LOAD:
    case OP_STORE:
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE:
    case OP_BULK_STORE: return true;
    default: return op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_TO_STATIC;
    }
}

/* True if every use of the op's results lies between the op and `last`. */
static bool is_used_until(const Op *op, const Op *last)
{
    for (int i = 0; i < op->n_results; i++) {
        const ValueUse *use = use_first(op->results[i], op->parent);
        for (; use; use = use_next(use, op->parent)) {
            const Op *user = op_ancestor_in(use->op, op->parent);
            if (user != last && !op_is_before(user, last)) {
                return false;
            }
        }
    }
    return true;
}

/* True if the op can be emitted in strips, or before them. */
static bool may_join(const StripMine *mine, const Op *op)
{
    if (op->n_regions > 0 || !is_used_until(op, mine->last)) {
        return op->n_regions == 0 && !strip_goes_along(op, mine->range) && op_has(op, TRAIT_PURE);
    }
    if (op->kind == OP_LOAD) { /* of memory that no thread writes meanwhile */
        return !op_writes(op_enclosing(op, OP_LAUNCH), op_access(op, 0).memory);
    }
    return strip_goes_along(op, mine->range) ? goes_by_strips(op)
                                             : op_has(op, TRAIT_PURE) || strip_is_barrier(op);
}

/* ---- how wide ---- */

/* The fewest elements along an axis for which the registers of a thread are whole strips: those
 * whose bits step over as many elements do nothing else. */
static int64_t least_width(const Layout *layout, int axis, int64_t extent)
{
    int64_t width = 1;
    while (width < extent) {
        width *= 2;
    }
    for (int64_t half = width / 2; half > 0; half /= 2) {
        int registers = 0, others = 0;
        for (int in = 0; in < IN_COUNT; in++) {
            for (int bit = 0; bit < layout->bits[in]; bit++) {
                const int32_t *basis = layout->basis[in][bit];
                bool alone = in == IN_REGISTER && basis[axis] == half;
                for (int i = 0; i < layout->rank && alone; i++) {
                    alone = i == axis || basis[i] == 0;
                }
                registers += alone;
                others += !alone && (basis[axis] & half);
            }
        }
        if (registers != 1 || others) {
            break;
        }
        width = half;
    }
    return width;
}

/* Of one value; 0: it has no strips. */
static int64_t value_width(const StripMine *mine, const Value *value)
{
    int64_t extent = mine->range->capacity, most = 0, registers;
    int axis = strip_axis(value->type, mine->range);
    if (!type_is_tile(value->type) || !strip_type_is_along(value->type, mine->range)) {
        return 1;
    }
    for (int i = 0; i < value->type->rank; i++) {
        most += poly_mentions(value->type->dims[i], mine->range);
    }
    if (axis < 0 || most > 1 || !value->type->layout) {
        return 0;
    }
    int64_t width = least_width(value->type->layout, axis, extent);
    registers = layout_registers(value->type->layout);
    while (value->type->rank > 1 && width < extent &&
           registers * width < LEAST_REGISTERS * extent) {
        width *= 2;
    }
    return width;
}

/* Of a buffer that the tile goes through: all that use it are among the ops, and strips are whole
 * chunks of its rows. */
static int64_t buffer_width(const StripMine *mine, const Op *op)
{
    const Value *buffer = op_access(op, 0).memory;
    bool stored = op->kind == OP_BULK_STORE;
    if (buffer->type->kind != TYPE_SHARED) {
        return 1;
    }
    const Value *tile = stored ? NULL : op_moved_value(op);
    int axis = tile ? strip_axis(tile->type, mine->range) : 0;
    const ValueUse *use = use_first(buffer, mine->func->body);
    for (; use; use = use_next(use, mine->func->body)) {
        bool within = use->op->parent == op->parent && !op_is_before(use->op, mine->first) &&
                      !op_is_before(mine->last, use->op);
        if (!within || !strip_is_along(use->op, mine->range)) {
            return 0;
        }
    }
    if (!tile) {
        return 1; /* as the store into it says */
    }
    if (axis < 0 || buffer->type->rank != tile->type->rank + 1) {
        return 0;
    }
    int64_t swizzle = op_int(buffer->def, ATTR_SWIZZLE, 0);
    bool last = axis == tile->type->rank - 1;
    if (!swizzle) {
        return 1;
    }
    return last ? swizzle / dtype_bytes(buffer->type->dtype) : SWIZZLED_ROWS;
}

static int64_t wider(int64_t a, int64_t b)
{
    if (!a || !b) {
        return 0;
    }
    return a > b ? a : b;
}

/* The fewest elements of a strip; 0: there are none. */
static int64_t find_least_width(const StripMine *mine)
{
    int64_t width = 1;
    for (const Op *op = mine->first;; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            width = wider(width, value_width(mine, op->results[i]));
        }
        for (int i = 0; i < op->n_operands; i++) {
            width = op->operands[i] ? wider(width, value_width(mine, op->operands[i])) : width;
        }
        width = strip_goes_through(op) ? wider(width, buffer_width(mine, op)) : width;
        if (op == mine->last) {
            return width;
        }
    }
}

/* ---- which tiles ---- */

static int64_t tile_bytes(const StripMine *mine, const CodeSize *size)
{
    int64_t bytes = 0;
    for (const Op *op = mine->first;; op = op->next) {
        bytes += strip_goes_along(op, mine->range) ? an_code_bytes(size, op) : 0;
        if (op == mine->last) {
            return bytes;
        }
    }
}

/* Collects the ops up to `last` that can be emitted in strips along the range. False: no strip is
 * possible. */
static bool find_ops(StripMine *mine, Op *last, const DimVar *range, int64_t *least)
{
    mine->range = range;
    mine->last = mine->first = last;
    if (range->capacity <= 1 || range_aligned(range) > 1) {
        return false;
    }
    while (mine->first->prev && may_join(mine, mine->first->prev)) {
        mine->first = mine->first->prev;
    }
    *least = find_least_width(mine);
    return *least > 0 && *least < range->capacity && range->capacity % *least == 0;
}

/* The widest strips that fit the budget, or the narrowest possible ones. */
static int64_t derive_width(const StripMine *mine, int64_t least, int64_t all, int64_t inside,
                            int64_t budget)
{
    int64_t extent = mine->range->capacity, width = least;
    while (2 * width < extent && extent % (2 * width) == 0) {
        width *= 2;
    }
    if (!budget || all <= budget) {
        return extent;
    }
    while (width > least && all - inside + inside * width / extent > budget) {
        width /= 2;
    }
    return width;
}

static void refuse(const StripMine *mine, int64_t strips)
{
    const ScheduleEntry *line = schedule_user_entry(mine->func, "strips", "");
    Diag *diag = diag_error(mine->func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                            "`strips %lld`: a tile has at least one strip", (long long)strips);
    diag_help(mine->func->diags, diag, "1 unrolls the code of the whole tile");
}

/* Code of the block that runs between two of its tiles: of loops in it the longest one alone, since
 * each has the cache to itself while it runs. */
static int64_t hot_bytes(const CodeSize *size, const Block *block)
{
    int64_t bytes = 0, longest = 0;
    for (const Op *op = block->first; op; op = op->next) {
        int64_t own = an_code_bytes(size, op);
        if (op->kind == OP_FOR || op->kind == OP_WHILE) {
            longest = own > longest ? own : longest;
        } else {
            bytes += own;
        }
    }
    return bytes + longest;
}

static void note_dot(Op *op, void *user)
{
    bool *found = user;
    *found = *found || op->kind == OP_DOT || op->kind == OP_DOT_ASYNC;
}

/* Bytes that the code may have, 0: any number. Only tiles of products were measured to be slower
 * beyond the budget; rows that blocks hold (softmax with 128 elements a thread) were not. */
static int64_t budget_of(const StripMine *mine)
{
    bool product = false;
    const Op *launch = op_enclosing(mine->last, OP_LAUNCH);
    if (launch) {
        block_walk(launch->regions[0], note_dot, &product);
    }
    return product ? mine->func->target->code_bytes : 0;
}

/* The elements of a strip; all of the tile: it stays whole. A user's number is a maximum, since the
 * launches of a kernel have different tiles. */
static int64_t choose_width(StripMine *mine, int64_t least)
{
    int64_t extent = mine->range->capacity, budget = budget_of(mine);
    CodeSize size = an_code_size(mine->func, op_enclosing(mine->last, OP_LAUNCH));
    int64_t all = hot_bytes(&size, mine->last->parent), inside = tile_bytes(mine, &size);
    int64_t width = derive_width(mine, least, all, inside, budget), strips = extent / width;
    if (strips > 1 || schedule_peek_entry(mine->func, "strips", "")) {
        strips = schedule_decide_int(
            mine->func, "strips", "", strips,
            "%lld KB of code, %lld KB of them for the tile: hot code should have at most %lld KB",
            (long long)all / 1024, (long long)inside / 1024, (long long)budget / 1024);
    }
    if (strips < 1) {
        refuse(mine, strips);
        return extent;
    }
    for (width = least; width < extent && extent / width > strips; width *= 2) {}
    return width < extent && extent % width == 0 ? width : extent;
}

static bool is_stored(const Op *op)
{
    return op->kind == OP_STORE || op->kind == OP_BULK_STORE;
}

static void try_block(Func *func, Block *block)
{
    Op *last = block->last;
    while (last && !is_stored(last)) {
        last = last->prev;
    }
    if (!last) {
        return;
    }
    Access place = op_access_nth(last, last->kind == OP_BULK_STORE ? 1 : 0);
    for (int i = place.n; i-- > 0;) {
        const Value *index = place.indices[i];
        StripMine mine = {.func = func};
        int64_t least;
        if (index && index->type->kind == TYPE_RANGE &&
            find_ops(&mine, last, poly_as_range(index->type->dims[0]), &least)) {
            mine.width = choose_width(&mine, least);
            if (mine.width < mine.range->capacity) {
                strip_build_loop(&mine);
            }
            return;
        }
    }
}

static void try_below(Func *func, Op *op)
{
    for (int i = 0; i < op->n_regions; i++) {
        for (Op *in = op->regions[i]->first; in; in = in->next) {
            try_below(func, in);
        }
        try_block(func, op->regions[i]);
    }
}

void pass_strip_mine(Func *func)
{
    for (Op *op = func->body->first; op && func->target && func->target->warp > 1; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            schedule_at_op(func, op);
            try_below(func, op);
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
}
