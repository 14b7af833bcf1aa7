/* SPDX-License-Identifier: Apache-2.0 */
/* Finds reductions that a launch would leave to few blocks. Each gets a launch of its own, in which
 * all blocks of the device share the reduced axis (tile/tile_split_axis.c). */
#include "passes/fuse/fuse_split.h"

#include "ir/target/target.h"
#include "support/int_math.h"

enum {
    MAX_ROWS = 64,       /* blocks, too few to walk long rows alone */
    ROW_OF_BLOCK = 1024, /* elements that occupy a block: shorter rows are held side by side */
    LONG_ROW = 32768,    /* elements: of longer ones a block holds none */
    LONG_WALK_BYTES = 1 << 19, /* of a block: twice, it takes as long as two launches more */
    MAX_WALKS_CPU = 16,        /* blocks, of a CPU */
    RUN_BYTES = 64,            /* of neighbouring columns, that a block takes at least */
    NOMINAL_FEW = 4,           /* times fewer than that are few, if sizes may be larger */
    MAX_STEPS = 256,           /* from a fold back to what it reads */
};

/* Bits of the narrowest element in memory that the value is made of, element by element; `most`
 * where none is found within this many steps. */
static int bits_in_memory(const Value *value, int most, int *steps)
{
    const Op *op = value->def;
    int least = op && op->kind == OP_LOAD ? dtype_bits(op->operands[0]->type->dtype) : most;
    bool follows = op && op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; follows && i < op->n_operands && (*steps)-- > 0; i++) {
        least = bits_in_memory(op->operands[i], least, steps);
    }
    return least < most ? least : most;
}

static int bits_read(const Op *fold)
{
    int steps = MAX_STEPS;
    return bits_in_memory(fold->operands[0], dtype_bits(fold->operands[0]->type->dtype), &steps);
}

/* Would too few blocks walk the rows of what `op` folds, which are too long to be held? Of rows
 * that lie across memory each takes a run of neighbours. A fold by itself is shared by all
 * (`split_k`), and no more is read: what is not held is read again for each fold anyway. */
static bool few_would_walk(Splitter *s, const Op *op, uint64_t rows, int64_t held)
{
    const Target *target = s->func->target;
    Type type = op->operands[0]->type;
    bool gpu = target && target->family != FAMILY_CPU;
    uint64_t last = split_class(s, op->operands[0], type->rank - 1) & s->stored & ~rows;
    int64_t run = last ? RUN_BYTES * 8 / bits_read(op) : 1;
    int64_t blocks =
        mul_sat(split_nominal(s, s->stored & ~rows & ~last), ceil_div(split_nominal(s, last), run));
    bool nominal = split_most(s, s->stored & ~rows) == INT64_MAX;
    int64_t wanted = gpu ? target->machine->num_sms : MAX_WALKS_CPU;
    return split_most(s, rows) > held / run && blocks < (nominal ? wanted / NOMINAL_FEW : wanted);
}

/* The reduction that the operand is the result of, but for axes of one element; NULL: none. */
static const Op *reduction_below(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_SQUEEZE || op->kind == OP_EXPAND)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_REDUCE && op->n_operands == 1 ? op : NULL;
}

/* A reduction over several axes is one over each in turn: the classes of all of them. `first`: what
 * reads the elements. */
static uint64_t reduced_set(Splitter *s, const Op *op, const Op **first)
{
    uint64_t set = 0;
    const Op *below = op;
    do {
        *first = below;
        set |= split_class(s, below->operands[0], (int)op_int(below, ATTR_AXIS, 0));
        below = reduction_below(below->operands[0]);
    } while (split_continues(op, below));
    return set;
}

/* Does another fold along the same axes need it? */
static bool is_refolded(Splitter *s, const Op *op, uint64_t rows)
{
    for (const Op *other = op->next; other; other = other->next) {
        const Op *first;
        if (split_is_fold(other) && split_is_made_of(s, other, op) &&
            (reduced_set(s, other, &first) & rows)) {
            return true;
        }
    }
    return false;
}

/* The classes that folds of the fold's result reduce and that it has itself, but for `rows`: as the
 * channels of pixels that are normalized, each channel by itself, of which the greatest is taken.
 * A block that holds rows would walk them one row after the other. 0: another fold of the same rows
 * needs this one, and is asked about first. */
static uint64_t walked_between(Splitter *s, const Op *op, uint64_t rows)
{
    const Value *result = split_used_result(s, op);
    uint64_t own = result ? split_classes_of(s, result) & ~(s->stored | s->walked) : 0, found = 0;
    for (const Op *other = op->next; own && other; other = other->next) {
        const Op *first;
        if (split_is_fold(other) && !split_is_scan(other) && split_is_made_of(s, other, op)) {
            uint64_t set = reduced_set(s, other, &first);
            if (set & rows) {
                return 0;
            }
            found |= set & own;
        }
    }
    return found;
}

/* Is the fold made of what is read along the rows and along what it folds? Of a histogram each
 * place would read all elements by itself. */
static bool reads_rows(Splitter *s, const Op *fold, uint64_t rows, uint64_t set)
{
    for (const Op *op = s->block->first; op && op != fold; op = op->next) {
        bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
        uint64_t classes = reads ? split_classes_of(s, op->results[0]) : 0;
        if ((classes & rows) && (classes & set) && split_is_made_of(s, fold, op)) {
            return true;
        }
    }
    return false;
}

/* Is it a fold of which no other one is made? */
static bool is_last_fold(const Splitter *s, const Op *op)
{
    bool last = split_is_fold(op) && !split_is_scan(op);
    for (const Op *other = op->next; last && other; other = other->next) {
        last = !split_is_fold(other) || !split_is_made_of(s, other, op);
    }
    return last;
}

/* Elements that a block may walk of what the fold reads, with all that is folded for it. */
static bool is_long_walk(Splitter *s, const Op *op, const Op *first)
{
    uint64_t below = split_seen(s, op->operands[0]) & ~s->stored;
    return few_would_walk(s, first, below, LONG_WALK_BYTES * 8 / bits_read(first));
}

/* Blocks share out one axis of a launch: of `sum(a) + sum(b)` one block would walk all of b. Is the
 * fold of other axes than another one is, which no other is made of either? One of those that are
 * long stays, unless there is a short one. */
static bool has_other_axes(Splitter *s, const Op *op, uint64_t set)
{
    bool before = true, found = false;
    for (const Op *other = s->block->first; other && !found; other = other->next) {
        const Op *first;
        before = before && other != op;
        found = other != op && is_last_fold(s, other) && !(reduced_set(s, other, &first) & set) &&
                (before || !is_long_walk(s, other, first));
    }
    return found;
}

/* Would a fold of the fold's results be shared by few blocks, of which each walks a long way for
 * one of them? By itself all blocks share what is folded first: of the mean of a few samples'
 * sums, say. `held`: elements that are no long way. */
static bool few_are_refolded(Splitter *s, const Op *op, int64_t held)
{
    const Target *target = s->func->target;
    bool gpu = target && target->family != FAMILY_CPU;
    const Value *result = split_used_result(s, op);
    uint64_t outside = result ? s->stored | split_classes_of(s, result) : 0;
    uint64_t walked = split_seen(s, op->operands[0]) & ~outside;
    bool nominal = split_most(s, outside) == INT64_MAX;
    int64_t wanted = gpu ? target->machine->num_sms : MAX_WALKS_CPU;
    return result && split_most(s, walked) > held &&
           split_nominal(s, outside) < (nominal ? wanted / NOMINAL_FEW : wanted) &&
           !is_last_fold(s, op);
}

/* Are all statements of the launch such folds along the same axes, of which none needs another, as
 * the sums of a loss over the places of each class? Then all blocks share the axes for all of them
 * at once, and what they are made of, a softmax say, is made once. */
static bool stores_folds_alike(Splitter *s)
{
    uint64_t folded = 0, left = 0;
    bool alike = s->folds_alike >= 0;
    if (s->folds_alike) {
        return alike;
    }
    for (const Op *op = s->block->first; op && alike; op = op->next) {
        const Value *written = axes_written(op);
        const Op *fold = op->kind == OP_STORE ? reduction_below(written) : NULL, *first;
        uint64_t set = fold && is_last_fold(s, fold) ? reduced_set(s, fold, &first) : 0;
        uint64_t own = fold ? split_classes_of(s, written) : 0;
        alike = !fuse_has_effect(op) || (set && (!folded || (set == folded && own == left)));
        folded = set ? set : folded;
        left = set ? own : left;
    }
    alike = alike && folded && !(folded & (s->stored | s->walked));
    s->folds_alike = alike ? 1 : -1;
    return alike;
}

/* A few long rows would be walked by as few blocks, as would those that are folded twice. */
const Value *split_under_occupied(Splitter *s, const Op *op)
{
    const Op *first;
    if (!split_is_fold(op) || split_is_scan(op) || split_is_continued(s, op, op->results[0])) {
        return NULL;
    }
    uint64_t rows = s->stored & s->folded & ~s->walked;
    uint64_t set = reduced_set(s, op, &first);
    int64_t walk = LONG_WALK_BYTES * 8 / bits_read(first);
    bool own = rows & split_seen(s, op->operands[0]);
    bool gpu = s->func->target && s->func->target->family != FAMILY_CPU;
    int64_t cluster = gpu && s->func->target->cluster > 1 ? s->func->target->cluster : 1;
    /* What a block holds or walks for its rows: along axes of which nothing is stored too, as in a
     * norm over channels and pixels, of which the greatest channel is stored. */
    uint64_t span = rows & set ? rows | set : rows;
    bool starves =
        own &&
        ((split_most(s, span) > LONG_ROW && split_nominal(s, s->stored & ~span) < MAX_ROWS) ||
         few_would_walk(s, first, span, cluster * LONG_ROW));
    bool refolded = set && !(set & (s->stored | s->walked)) &&
                    few_would_walk(s, first, set, walk) && is_refolded(s, op, set);
    /* Each element of a row that few blocks hold would be a long reduction: of a matrix times a
     * vector that is normalized, say. By itself all blocks share the elements. */
    bool inner = set && own && !(set & (s->stored | s->walked)) && reads_rows(s, op, rows, set) &&
                 few_would_walk(s, first, rows | set, walk);
    bool fill = split_most(s, span) >= ROW_OF_BLOCK;
    uint64_t between = set & rows && fill ? walked_between(s, op, rows) : 0;
    /* By itself the fold reads its rows once more: twice the blocks must make up for that. Where
     * one block would be left, all share the rows instead (row_column_sweep.h). */
    int64_t turns = between ? split_nominal(s, s->stored & ~(span | between)) : 0;
    bool in_turn = between && gpu && turns > 1 && 2 * turns <= s->func->target->machine->num_sms &&
                   few_would_walk(s, first, span | between, walk);
    bool other_axes = set && !(set & (s->stored | s->walked)) && is_last_fold(s, op) &&
                      is_long_walk(s, op, first) && has_other_axes(s, op, set);
    bool few = set && !(set & (s->stored | s->walked)) && few_are_refolded(s, op, walk);
    /* Another fold may be repeated, across rows: without it there are rows enough, perhaps. */
    starves = starves || refolded || inner || in_turn || other_axes || few;
    starves = starves && (s->body || !stores_folds_alike(s));
    for (const Op *other = s->block->first; starves && other; other = other->next) {
        const Value *repeated = split_is_fold(other) ? split_repeated(s, other) : NULL;
        if (repeated) {
            return repeated;
        }
    }
    return starves ? split_used_result(s, op) : NULL;
}
