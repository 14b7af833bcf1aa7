/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the facts about a group of statements that the rules of fuse_split.c read: the classes
 * of its axes, which of them are stored and reduced, and what each value is computed from. */
#include "passes/fuse/fuse_split.h"

#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "support/int_math.h"

/* ---- classes of axes ---- */

int split_axes_class(const Splitter *s, const Value *value, int axis)
{
    int class = axes_class(&s->axes, value, axis);
    for (int i = 0; i < s->n_parts; i++) {
        class = class == s->parts[i].part ? s->parts[i].whole : class;
    }
    return class;
}

static void note_parts(Op *op, void *user)
{
    Splitter *s = user;
    size_t most = sizeof s->parts / sizeof *s->parts;
    bool reduces = op->kind == OP_REDUCE_PARTS;
    if ((reduces || op->kind == OP_REPEAT_PARTS) && s->n_parts < (int)most) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        const Value *whole = reduces ? op->operands[0] : op->results[0];
        const Value *parts = reduces ? op->results[0] : op->operands[0];
        s->parts[s->n_parts].part = axes_class(&s->axes, parts, axis);
        s->parts[s->n_parts].whole = axes_class(&s->axes, whole, axis);
        s->parts[s->n_parts].by = op_int(op, ATTR_BY, 0);
        s->n_parts += s->parts[s->n_parts].part >= 0;
    }
}

bool split_parts_conflict(Splitter *s)
{
    bool conflict = s->n_parts == (int)(sizeof s->parts / sizeof *s->parts);
    for (int i = 0; i < s->n_parts && !conflict; i++) {
        for (int k = 0; k < i && !conflict; k++) {
            conflict = s->parts[i].whole == s->parts[k].whole && s->parts[i].by != s->parts[k].by;
        }
        for (int k = 0; k < s->n_classes; k++) {
            bool folded = s->folded >> k & 1;
            conflict = conflict || (folded && s->classes[k] == s->parts[i].whole);
        }
    }
    return conflict;
}

uint64_t split_class(Splitter *s, const Value *value, int axis)
{
    int class = split_axes_class(s, value, axis), i = 0;
    if (class < 0) {
        return 0;
    }
    while (i < s->n_classes && s->classes[i] != class) {
        i++;
    }
    if (i == 64) {
        return 0; /* is_crowded: what is known of this group does not count */
    }
    if (i == s->n_classes) {
        s->classes[s->n_classes] = class;
        s->nominal[s->n_classes] = poly_nominal(value->type->dims[axis]);
        s->most[s->n_classes++] = poly_most(value->type->dims[axis]);
    }
    return (uint64_t)1 << i;
}

uint64_t split_classes_of(Splitter *s, const Value *value)
{
    uint64_t bits = 0;
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        bits |= split_class(s, value, i);
    }
    return bits;
}

static int64_t product_of(const int64_t *extents, int n, uint64_t bits)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++) {
        product = bits >> i & 1 ? mul_sat(product, max_i64(1, extents[i])) : product;
    }
    return product;
}

int64_t split_most(const Splitter *s, uint64_t bits)
{
    return product_of(s->most, s->n_classes, bits);
}

int64_t split_nominal(const Splitter *s, uint64_t bits)
{
    return product_of(s->nominal, s->n_classes, bits);
}

/* ---- kinds of ops ---- */

bool split_is_fold(const Op *op)
{
    return op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD;
}

bool split_is_scan(const Op *op)
{
    return op->kind == OP_SCAN || (op->kind == OP_FOLD && op_int(op, ATTR_SCAN, 0));
}

bool split_is_work(const Op *op)
{
    return split_is_fold(op) || op->kind == OP_DOT || (op->n_regions && !fuse_has_effect(op));
}

/* What is read of an op: a fold may have results that nothing does. */
const Value *split_used_result(const Splitter *s, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        if (value_has_uses(s->func, op->results[i])) {
            return op->results[i];
        }
    }
    return NULL;
}

/* ---- searching what a value is computed from ---- */

/* What many read is looked at once. `wanted`: that op alone. */
const Op *split_search_below(const Splitter *s, const Value *value, OpPredicate *matches,
                             const Op *wanted)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->block || !memo_visit(s->met, value)) {
        return NULL;
    }
    if (wanted ? op == wanted : matches(op)) {
        return op;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Op *found = split_search_below(s, op->operands[i], matches, wanted);
        if (found) {
            return found;
        }
    }
    return NULL;
}

/* An op below `value` in the group for which it holds. */
const Op *split_find_below(const Splitter *s, const Value *value, OpPredicate *matches)
{
    memo_clear(s->met);
    return split_search_below(s, value, matches, NULL);
}

bool split_is_made_of(const Splitter *s, const Op *op, const Op *wanted)
{
    bool found = false;
    memo_clear(s->met);
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = split_search_below(s, op->operands[i], NULL, wanted) != NULL;
    }
    return found;
}

/* ---- folds below a value ---- */

/* Values that are made in the group are numbered behind all others. */
uint64_t split_seen(const Splitter *s, const Value *value)
{
    return value->id < s->first ? 0 : s->seen[value->id - s->first];
}

int split_folds_of(const Splitter *s, const Value *value)
{
    return value->id < s->first ? 0 : s->folds[value->id - s->first];
}

static int folds_below(const Splitter *s, const Op *op)
{
    int most = 0;
    for (int i = 0; i < op->n_operands; i++) {
        int below = op->operands[i] ? split_folds_of(s, op->operands[i]) : 0;
        most = below > most ? below : most;
    }
    return most < UINT16_MAX - 1 ? most : UINT16_MAX - 1;
}

/* ---- folds in regions ---- */

static int nests_of(const Splitter *s, const Value *value)
{
    bool own = value && value->id >= s->first && value->def && value->def->parent == s->block;
    return own ? s->nests[value->id - s->first] : 0;
}

static void see_inside(Op *op, void *user)
{
    SplitRegions *inside = user;
    inside->folds = inside->folds || split_is_fold(op) || op->kind == OP_DOT;
    for (int i = 0; i < op->n_operands; i++) {
        bool more = nests_of(inside->s, op->operands[i]) > nests_of(inside->s, inside->deepest);
        inside->deepest = more ? op->operands[i] : inside->deepest;
    }
}

SplitRegions split_look_inside(const Splitter *s, const Op *op)
{
    SplitRegions inside = {.s = s};
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], see_inside, &inside);
    }
    return inside;
}

/* How many ops with folds in their regions the op's results are made of, one of the other. */
static int count_nests(const Splitter *s, const Op *op)
{
    SplitRegions inside = split_look_inside(s, op);
    int most = nests_of(s, inside.deepest);
    for (int i = 0; i < op->n_operands; i++) {
        int below = nests_of(s, op->operands[i]);
        most = below > most ? below : most;
    }
    return most + inside.folds < UINT16_MAX ? most + inside.folds : UINT16_MAX;
}

/* ---- gathering ---- */

/* Does the op reduce further what another one left: one reduction over several axes? */
static bool continues_fold(const Op *op)
{
    const Op *below = op->kind == OP_REDUCE ? op->operands[0]->def : NULL;
    while (below && (below->kind == OP_SQUEEZE || below->kind == OP_EXPAND)) {
        below = below->operands[0]->def;
    }
    return split_continues(op, below);
}

static void gather_facts(Op *op, void *user)
{
    Splitter *s = user;
    const Value *written = axes_written(op);
    for (int i = 0; i < op->n_results; i++) {
        uint64_t bits = split_classes_of(s, op->results[i]);
        for (int k = 0; k < op->n_operands; k++) {
            bits |= op->operands[k] ? split_seen(s, op->operands[k]) : 0;
        }
        s->seen[op->results[i]->id - s->first] = bits;
        bool folds = split_is_fold(op) && !split_sums_products(op) && !continues_fold(op);
        s->folds[op->results[i]->id - s->first] = (uint16_t)(folds_below(s, op) + folds);
    }
    int nests = op->n_results && op->parent == s->block ? count_nests(s, op) : 0;
    for (int i = 0; i < op->n_results; i++) {
        s->nests[op->results[i]->id - s->first] = (uint16_t)nests;
    }
    if (written) {
        s->stored |= split_classes_of(s, written);
    }
    if (split_is_fold(op)) {
        s->folded |= split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    }
    if (op->kind == OP_DOT && !s->dot) {
        s->dot = op;
    }
    s->n_dots += op->kind == OP_DOT;
    s->n_scans += split_is_scan(op);
}

static void note_walk(Splitter *s)
{
    RowColumnSweep walk = an_row_column_sweep(&s->axes, s->block);
    bool any = walk.class >= 0,
         fused = any && fuse_keeps_column_reductions(s->func, &s->axes, s->block, &walk);
    for (int i = 0; fused && i < s->n_classes; i++) {
        s->walked |= s->classes[i] == walk.class ? (uint64_t)1 << i : 0;
    }
    s->separate_sweeps = any && !fused;
}

/* The least number of a value that the group makes. */
static void note_number(Op *op, void *user)
{
    uint32_t *first = user;
    for (int i = 0; i < op->n_results; i++) {
        *first = op->results[i]->id < *first ? op->results[i]->id : *first;
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            uint32_t id = op->regions[r]->args[i]->id;
            *first = id < *first ? id : *first;
        }
    }
}

bool split_continues(const Op *op, const Op *below)
{
    return op->kind == OP_REDUCE && below &&
           text_equal(op_word(op, ATTR_FN), op_word(below, ATTR_FN));
}

bool split_is_continued(const Splitter *s, const Op *op, const Value *result)
{
    const ValueUse *use = op->kind == OP_REDUCE ? use_first(result, s->block) : NULL;
    bool any = use != NULL;
    for (; use && any; use = use_next(use, s->block)) {
        const Op *reader = use->op;
        bool unit = reader->kind == OP_SQUEEZE || reader->kind == OP_EXPAND;
        any = unit ? split_is_continued(s, op, reader->results[0]) : split_continues(reader, op);
    }
    return any;
}

Splitter split_begin(Func *func, const FusionGroup *group)
{
    Block *block = group->parallel->regions[0];
    Splitter s = {.func = func, .group = group, .block = block, .axes = an_axes(func, block)};
    s.first = func->n_values;
    block_walk(block, note_number, &s.first);
    s.seen = ARENA_ARRAY(func->arena, uint64_t, func->n_values - s.first);
    s.folds = ARENA_ARRAY(func->arena, uint16_t, func->n_values - s.first);
    s.nests = ARENA_ARRAY(func->arena, uint16_t, func->n_values - s.first);
    s.met = memo_open(func);
    block_walk(block, note_parts, &s);
    block_walk(block, gather_facts, &s);
    for (const Op *op = block->first; op && !s.takes_old; op = op->next) {
        s.takes_old = op->n_results && fuse_has_effect(op);
    }
    note_walk(&s);
    return s;
}

void split_end(Splitter *s)
{
    axes_done(&s->axes);
    memo_close(s->met);
}
