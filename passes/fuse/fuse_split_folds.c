/* SPDX-License-Identifier: Apache-2.0 */
/* Which fold or scan gets a launch of its own, because the loops along the axes of one block cannot
 * compute it once and in the order that it needs. */
#include "passes/fuse/fuse_split.h"

enum {
    MAX_ELEMENTS = 64, /* of a reduction that each block may as well do itself */
    MAX_FOLDS = 4,     /* each of which reads what the one before it leaves */
    MAX_STEPS = 32     /* ops between a fold and what is stored before it */
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
    bool little = split_elements(s, kept & ~s->stored) <= MAX_ELEMENTS && op->kind != OP_DOT;
    /* A block that has whole rows for one fold would walk all rows for another: a count of rows. */
    bool across = split_is_fold(op) && (s->stored & s->folded & ~own) &&
                  (s->stored & split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0)));
    return (s->stored & ~own) && (!little || across) ? result : NULL;
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
    return own == other || other < 0 ? NULL : split_used_result(s, scan);
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
 * the chain's length. */
const Value *split_long_chain(Splitter *s, const Op *op)
{
    for (int i = 0; split_is_fold(op) && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (split_folds_of(s, value) >= MAX_FOLDS || reads_below(s, value) > MAX_FOLDS) {
            return s->body ? chain_end(s, value) : value;
        }
    }
    return NULL;
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
