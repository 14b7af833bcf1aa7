/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which fold or scan gets a launch of its own, because the loops of one block cannot
 * compute it once and in the order that it needs. */
#include "passes/fuse/fuse_split.h"

#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "support/int_math.h"

enum {
    MAX_ELEMENTS = 64,    /* of a reduction that each block may as well do itself */
    MAX_FOLDS = 4,        /* each of which reads what the one before it leaves */
    MAX_COORDINATES = 16, /* of a point: a reduction over them is made again */
    MIN_TAPS = 8,         /* of a window: fewer take less in short runs than in an intermediate */
    MIN_ROW = 64,         /* elements of a row, for which a block has few of other axes */
    STEP_ELEMENTS = 4096, /* of a block, at one step along what is folded */
    MIN_RUN_BYTES = 32,   /* a sector: of shorter runs the rest is read for nothing */
    MAX_STEPS = 32        /* ops between a fold and what is stored before it */
};

/* ---- folds that a grid would repeat ---- */

/* Made again by every tile of a stored axis that it does not walk. */
const Value *split_repeated(Splitter *s, const Op *op)
{
    const Value *result = split_is_work(op) ? split_used_result(s, op) : NULL;
    if (!result) {
        return NULL;
    }
    uint64_t own = split_seen(s, result);
    uint64_t kept = 0;
    for (int i = 0; i < op->n_operands; i++) {
        kept |= op->operands[i] ? split_seen(s, op->operands[i]) : 0;
    }
    bool few_elements = split_most(s, kept & ~s->stored) <= MAX_ELEMENTS && op->kind != OP_DOT;
    /* A block that has whole rows for one fold would walk all rows for another: a count of rows. */
    bool across = split_is_fold(op) && (s->stored & s->folded & ~own) &&
                  (s->stored & split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0)));
    return (s->stored & ~own) && (!few_elements || across) ? result : NULL;
}

/* Scatters whose old elements are used are in no loop of a row. */
const Value *split_before_scatter(Splitter *s, const Op *op)
{
    uint64_t rows = s->stored & s->folded;
    bool own = split_is_fold(op) && (split_seen(s, op->operands[0]) & rows);
    return s->takes_old && own ? split_used_result(s, op) : NULL;
}

/* ---- scans ---- */

static bool is_forward_scan(const Op *op)
{
    return split_is_scan(op) && !op_int(op, ATTR_REVERSE, 0);
}

static bool is_backward_scan(const Op *op)
{
    return split_is_scan(op) && op_int(op, ATTR_REVERSE, 0);
}

/* A loop along a row goes one way: scans of the other direction are there before. */
const Value *split_both_ways(Splitter *s, const Op *op)
{
    const Value *value = op->kind == OP_STORE ? op->operands[op->n_operands - 1] : NULL;
    const Op *forward = split_find_below(s, value, is_forward_scan);
    const Op *backward = split_find_below(s, value, is_backward_scan);
    if (!forward || !backward) {
        return NULL;
    }
    return split_used_result(s, backward == value->def ? forward : backward);
}

/* A loop along a scanned axis carries what came before: an array over the other axes, which none of
 * them may walk inside of it. */
const Value *split_scanned_across(Splitter *s, const Op *op)
{
    const Op *scan = split_is_fold(op) ? split_find_below(s, op->operands[0], split_is_scan) : NULL;
    for (int i = 1; !scan && split_is_fold(op) && op->kind == OP_FOLD && i < op->n_results; i++) {
        scan = split_find_below(s, op->operands[i], split_is_scan);
    }
    if (!scan) {
        return NULL;
    }
    int own = axes_class(&s->axes, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    int other = axes_class(&s->axes, scan->operands[0], (int)op_int(scan, ATTR_AXIS, 0));
    uint64_t along = split_class(s, scan->operands[0], (int)op_int(scan, ATTR_AXIS, 0));
    uint64_t state = split_classes_of(s, scan->operands[0]) & s->folded & ~along;
    bool held = split_most(s, state) <= MAX_STATE; /* a tile has all of it, and no loop walks it */
    return own == other || other < 0 || held ? NULL : split_used_result(s, scan);
}

/* Nor may the loop over another row, if that is inside: the scan is there before; where it is made
 * of that row's fold, that is. */
const Value *split_scan_of_rows(Splitter *s, const Op *op)
{
    if (!split_is_scan(op)) {
        return NULL;
    }
    uint64_t own = split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    uint64_t rows = split_classes_of(s, op->operands[0]) & s->stored & s->folded & ~own;
    for (const Op *other = s->block->first; rows && other; other = other->next) {
        uint64_t row = split_is_fold(other)
                           ? split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0))
                           : 0;
        if (row & rows) {
            return split_is_made_of(s, op, other) ? split_used_result(s, other)
                                                  : split_used_result(s, op);
        }
    }
    return NULL;
}

/* ---- chains of folds ---- */

static bool reads_intermediate(const Splitter *s, const Op *op)
{
    return op->kind == OP_LOAD && op->operands[0]->type->kind == TYPE_TENSOR &&
           s->func->params.items[op->operands[0]->index].io == PARAM_SCRATCH;
}

static int count_below(const Splitter *s, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->block || !memo_visit(s->met, value)) {
        return 0;
    }
    int n = reads_intermediate(s, op);
    for (int i = 0; i < op->n_operands; i++) {
        n += count_below(s, op->operands[i]);
    }
    return n;
}

/* Reads of intermediates that the value is made of. */
static int reads_below(const Splitter *s, const Value *value)
{
    memo_clear(s->met);
    return count_below(s, value);
}

static void mark_below(const Block *block, Memo *below, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (op && op->parent == block && memo_visit(below, value)) {
        for (int i = 0; i < op->n_operands; i++) {
            mark_below(block, below, op->operands[i]);
        }
    }
}

/* Is a fold below `value` that is among those marked, where nothing was met yet? */
static bool reaches_fold(const Splitter *s, const Memo *below, const Value *value)
{
    int64_t marked;
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->body || !memo_visit(s->met, value)) {
        return false;
    }
    if (split_is_fold(op) && memo_known(below, value, 0, &marked)) {
        return true;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (reaches_fold(s, below, op->operands[i])) {
            return true;
        }
    }
    return false;
}

/* Does all that the program makes of the folds below the value go through it? */
static bool is_bottleneck(const Splitter *s, const Value *value)
{
    const Value *own = fuse_original(s->group, value);
    if (!s->body || !own) {
        return false;
    }
    bool passed = false;
    Memo *below = memo_open(s->func);
    mark_below(s->body, below, own);
    memo_clear(s->met);
    memo_visit(s->met, own);
    for (const Op *op = s->body->first; op && !passed; op = op->next) {
        for (int i = 0; fuse_has_effect(op) && i < op->n_operands && !passed; i++) {
            passed = reaches_fold(s, below, op->operands[i]);
        }
    }
    memo_close(below);
    return !passed;
}

/* The operand of the same extents that most folds are below, but for what has one element a row;
 * NULL: none. */
static const Value *deepest_operand(const Splitter *s, const Op *op)
{
    const Value *deepest = NULL;
    for (int i = 0; op && op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        Type type = value->type;
        bool same = type == type_with_dtype(s->func, op->results[0]->type, type->dtype) &&
                    value->def && value->def->kind != OP_BROADCAST && split_folds_of(s, value) > 0;
        bool more = same && (!deepest || split_folds_of(s, value) > split_folds_of(s, deepest));
        deepest = more ? value : deepest;
    }
    return deepest;
}

/* What to store where a fold of `value` ends a chain: the last value that all which is made of the
 * chain goes through. If the square went through memory, because a norm sums squares, all that
 * comes behind would make the chain again. */
static const Value *chain_end(const Splitter *s, const Value *value)
{
    const Value *end = value;
    for (int steps = 0; end && steps < MAX_STEPS; steps++) {
        if (is_bottleneck(s, end)) {
            return end;
        }
        end = deepest_operand(s, end->def);
    }
    return value;
}

/* Folds of which each reads what the one before it leaves: every one makes again what lies between
 * them, in a loop of the same launch or in one of its own. The work would grow with the square of
 * the chain's length. What a tile of a product holds is folded where it is, and not made again. */
const Value *split_long_chain(Splitter *s, const Op *op)
{
    bool refolded = split_is_fold(op) && !split_folds_in_epilogue(s, op);
    for (int i = 0; refolded && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (split_folds_of(s, value) >= MAX_FOLDS || reads_below(s, value) > MAX_FOLDS) {
            return s->body ? chain_end(s, value) : value;
        }
    }
    return NULL;
}

/* ---- rows inside of folds ---- */

/* A reduction along an axis that is stored, too, of which two others along a further axis are made,
 * one after the other: the scores of a query, of a softmax and of the sum of values, which have as
 * many elements as keys. Blocks have tiles of the stored axis, and each would make the inner
 * reduction, and all that lies between them, again. */
const Value *split_row_inside(Splitter *s, const Op *op)
{
    uint64_t row = split_is_fold(op) && !split_is_scan(op)
                       ? split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0))
                       : 0;
    const Value *result = (row & s->stored) ? split_used_result(s, op) : NULL;
    if (!result || split_most(s, row) <= MAX_COORDINATES ||
        split_is_continued(s, op, op->results[0])) {
        return NULL;
    }
    uint64_t inner = split_classes_of(s, result);
    uint64_t before = 0; /* reduced already: one sweep does not compute both */
    for (const Op *other = op->next; inner && other; other = other->next) {
        bool reduces = split_is_fold(other) && !split_is_scan(other);
        uint64_t along =
            reduces ? split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0)) : 0;
        bool reads = (along & inner) && split_is_made_of(s, other, op);
        bool makes = reads && (split_classes_of(s, other->operands[0]) & row);
        if (makes && (along & before)) {
            return result;
        }
        before |= reads ? along : 0;
    }
    return NULL;
}

/* ---- windows across rows ---- */

/* Elements of a window that one element of the reduction's result is made of: those of axes of few
 * elements, which are reduced one after the other. */
static int64_t taps_of(const Op *op)
{
    int64_t taps = 1, extent;
    while (op && (op->kind == OP_REDUCE || op->kind == OP_SQUEEZE)) {
        bool few = op->kind == OP_REDUCE &&
                   poly_is_const(op->operands[0]->type->dims[op_int(op, ATTR_AXIS, 0)], &extent) &&
                   extent <= MAX_ELEMENTS;
        if (op->kind == OP_REDUCE && !few) {
            return 1;
        }
        taps *= few ? extent : 1;
        op = op->operands[0]->def;
    }
    return taps;
}

/* Windows of which a block would make whole rows, for a reduction along these, though they lie
 * along another axis: of the channels of an image that lies channels first. It has few places of
 * each channel, so that each tap reads short runs. */
const Value *split_windows_across(Splitter *s, const Op *op)
{
    bool gpu = s->func->target && s->func->target->family != FAMILY_CPU;
    if (!gpu || op->kind != OP_REDUCE || taps_of(op) < MIN_TAPS) {
        return NULL;
    }
    int axis = fuse_contiguous_axis(op->results[0]);
    uint64_t contiguous = axis >= 0 ? split_class(s, op->results[0], axis) : 0;
    uint64_t rows = split_classes_of(s, op->results[0]) & s->stored & s->folded & ~contiguous;
    bool across =
        contiguous && (contiguous & s->stored & ~s->folded) && split_nominal(s, rows) >= MIN_ROW;
    for (const Op *other = op->next; across && other; other = other->next) {
        uint64_t row = split_is_fold(other)
                           ? split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0))
                           : 0;
        if ((row & rows) && split_is_made_of(s, other, op)) {
            return split_used_result(s, op);
        }
    }
    return NULL;
}

/* ---- folds that lie across the rows of their results ---- */

/* Bytes of an element of the array that has most axes of those that the terms read; 0: none. */
static int bytes_read(const Splitter *s, const Value *value, int *rank)
{
    const Op *op = value->def;
    if (!op || op->parent != s->block || !memo_visit(s->met, value)) {
        return 0;
    }
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    if (reads && type_is_memory(op->operands[0]->type)) {
        bool more = value->type->rank > *rank;
        *rank = more ? value->type->rank : *rank;
        return more ? (int)dtype_bytes(value->type->dtype) : 0;
    }
    int bytes = 0;
    for (int i = 0; (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE)) && i < op->n_operands;
         i++) {
        int below = bytes_read(s, op->operands[i], rank);
        bytes = below ? below : bytes;
    }
    return bytes;
}

/* The rows that the first fold of what the op leaves folds. A later fold of other rows takes what
 * that one leaves, as the sum over points of those that are nearest to a centre does. */
static uint64_t rows_of_results(Splitter *s, const Op *op, const Value *result)
{
    uint64_t left = split_classes_of(s, result);
    for (const Op *other = op->next; other; other = other->next) {
        uint64_t along =
            split_is_fold(other) && !split_is_scan(other)
                ? split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0)) & left
                : 0;
        if (along && split_is_made_of(s, other, op)) {
            return along;
        }
    }
    return 0;
}

/* A fold along the axis on which its terms lie side by side, of which a block would hold whole rows
 * of results, to store something along them: the scores of a query and a long row of keys, of which
 * the softmax is taken. The longer the row, the fewer elements of a key a step reads, less than a
 * sector of memory. Their results are few compared to what is read. */
const Value *split_fold_across(Splitter *s, const Op *op)
{
    const Target *target = s->func->target;
    bool folds = target && target->family != FAMILY_CPU && op->kind == OP_REDUCE;
    const Value *result = folds ? split_used_result(s, op) : NULL;
    int axis = (int)op_int(op, ATTR_AXIS, 0), rank = 1;
    uint64_t along = result ? split_class(s, op->operands[0], axis) : 0;
    if (!along || (along & s->stored) || split_is_continued(s, op, result) ||
        fuse_contiguous_axis(op->operands[0]) != axis) {
        return NULL;
    }
    memo_clear(s->met);
    int64_t bytes = bytes_read(s, op->operands[0], &rank);
    uint64_t rows = bytes ? rows_of_results(s, op, result) & s->stored : 0;
    int64_t run = rows ? STEP_ELEMENTS / max_i64(1, split_nominal(s, rows)) : STEP_ELEMENTS;
    bool few_elements = split_nominal(s, along) * bytes >= MIN_RUN_BYTES * 2;
    return rows && few_elements && run * bytes * 2 <= MIN_RUN_BYTES ? result : NULL;
}

/* ---- folds in regions ---- */

/* The loop of a fold in a region has in it all that the folded value is made of. Where that is a
 * region with a fold, too, nothing of it is shared with what is outside of the loop: each of them
 * would double the code and the work. */
const Value *split_nested_fold(Splitter *s, const Op *op)
{
    SplitRegions inside = {0};
    if (op->n_regions && op->parent == s->block && !fuse_has_effect(op)) {
        inside = split_look_inside(s, op);
    }
    return inside.folds ? inside.deepest : NULL;
}
