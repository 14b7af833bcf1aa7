/* SPDX-License-Identifier: Apache-2.0 */
/* What one launch cannot hold, or should not: which value gets a launch of its own.
 *
 * Blocks of a launch know nothing of one another. What many blocks need and what takes long to
 * make (a reduction, a scan, a product) is made once, before; so is what a product reads, where
 * making it costs more than reading it back. A reduction along a stored axis (softmax) stays when a
 * block can walk the whole row and there are rows enough. */
#include "passes/fuse/fuse_split.h"

enum {
    MAX_AXES = 48, /* of one group */
    MAX_DOTS = 16, /* of one launch: stage has places for the operands of more, not many */
    MAX_SCANS = 16 /* of one launch: MAX_SCANS of tile, which one loop carries */
};

/* One that is behind as many others as a launch may have. */
static const Value *one_too_many(Splitter *s, const Op *op)
{
    bool dot = op->kind == OP_DOT && s->n_dots > MAX_DOTS;
    bool scan = split_is_scan(op) && s->n_scans > MAX_SCANS;
    int before = 0;
    for (const Op *other = op->prev; (dot || scan) && other; other = other->prev) {
        before += dot ? other->kind == OP_DOT : split_is_scan(other);
    }
    return before >= (dot ? MAX_DOTS : MAX_SCANS) ? split_used_result(s, op) : NULL;
}

/* In the order in which they are asked: the first one that is broken counts. */
static SplitRule *const RULES[] = {
    one_too_many,         split_folded_product, split_contracted_axis, split_costly_operand,
    split_other_grid,     split_repeated,       split_before_scatter,  split_both_ways,
    split_scanned_across, split_long_chain,     split_nested_fold,     split_scan_of_rows,
    split_under_occupied,
};

/* The value of the first op that breaks a rule and that `may_cut` takes; NULL: none. */
static const Value *first_broken(Splitter *s, bool (*may_cut)(const Splitter *, const Value *))
{
    for (const Op *op = s->block->first; op; op = op->next) {
        const Value *value = NULL;
        for (size_t i = 0; i < sizeof RULES / sizeof *RULES && !value; i++) {
            value = RULES[i](s, op);
        }
        if (value && may_cut(s, value)) {
            return value;
        }
    }
    return NULL;
}

/* The stored value itself is already made by this launch alone. */
static bool is_root(const Splitter *s, const Value *value)
{
    for (const ValueUse *use = use_first(value, s->block); use; use = use_next(use, s->block)) {
        if (use->op->parent == s->block && use->op->kind == OP_STORE) {
            return true;
        }
    }
    return false;
}

bool fuse_goes_both_ways(Func *func, const FusionGroup *group)
{
    const Block *block = group->parallel->regions[0];
    Splitter s = {.func = func, .group = group, .block = block};
    bool both = false;
    s.met = memo_open(func);
    for (const Op *op = block->first; op && !both; op = op->next) {
        both = split_both_ways(&s, op) != NULL;
    }
    memo_close(s.met);
    return both;
}

/* Without rows there is little to share: what is written in another order has a grid of its own. */
static bool same_order(const Splitter *s, const Value *a, const Value *b)
{
    int i = 0, k = 0;
    for (;;) { /* past axes of one element */
        while (i < a->type->rank && split_axes_class(s, a, i) < 0) {
            i++;
        }
        while (k < b->type->rank && split_axes_class(s, b, k) < 0) {
            k++;
        }
        if (i == a->type->rank || k == b->type->rank) {
            return i == a->type->rank && k == b->type->rank;
        }
        if (split_axes_class(s, a, i++) != split_axes_class(s, b, k++)) {
            return false;
        }
    }
}

/* Rows that a block surely walks alone: a long scan may be shared out. */
static uint64_t walked_rows(Splitter *s)
{
    uint64_t rows = s->stored & s->folded;
    for (int i = 0; i < s->n_classes; i++) {
        bool scanned = axes_flags(&s->axes, s->classes[i]) & AXIS_SCANNED;
        rows &= scanned ? ~((uint64_t)1 << i) : ~(uint64_t)0;
    }
    return rows;
}

bool fuse_shares_grid(Func *func, const FusionGroup *group)
{
    Splitter s = split_begin(func, group);
    const Value *first = NULL;
    uint64_t rows = walked_rows(&s);
    bool shares = true;
    for (const Op *op = s.block->first; op && shares; op = op->next) {
        const Value *written = axes_written(op);
        first = first ? first : written;
        shares = !written || (!(s.stored & ~split_classes_of(&s, written) & ~rows) &&
                              ((s.stored & s.folded) || same_order(&s, first, written)));
    }
    split_end(&s);
    return shares;
}

/* A group has axes for so many loops at most: it is cut where about half of them are. */
static bool is_crowded(const Splitter *s)
{
    return s->n_classes > MAX_AXES;
}

static bool is_any(const Splitter *s, const Value *value)
{
    (void)s, (void)value;
    return true;
}

bool fuse_is_sound(Func *func, const FusionGroup *group)
{
    Splitter s = split_begin(func, group);
    bool sound = !is_crowded(&s) && !s.separate_sweeps && !first_broken(&s, is_any) &&
                 !split_parts_conflict(&s);
    split_end(&s);
    return sound;
}

static int count_bits(uint64_t bits)
{
    int n = 0;
    for (; bits; bits &= bits - 1) {
        n++;
    }
    return n;
}

static Value *cut(const Splitter *s, const Block *body)
{
    for (const Op *op = s->block->first; op; op = op->next) {
        const Value *value = op->n_results ? op->results[0] : NULL;
        Value *original = value ? fuse_original(s->group, value) : NULL;
        if (original && count_bits(split_seen(s, value)) > MAX_AXES / 2 && !is_root(s, value) &&
            fuse_may_materialize(s->func, body, original)) {
            return original;
        }
    }
    return NULL;
}

/* True if it can go through memory and does not yet. */
static bool may_materialize(const Splitter *s, const Value *value)
{
    Value *original = is_root(s, value) ? NULL : fuse_original(s->group, value);
    return original && fuse_may_materialize(s->func, s->body, original);
}

Value *fuse_split(Func *func, const Block *body, const FusionGroup *group)
{
    Splitter s = split_begin(func, group);
    s.body = body;
    const Value *broken = is_crowded(&s) ? NULL : first_broken(&s, may_materialize);
    Value *found = is_crowded(&s) ? cut(&s, body) : broken ? fuse_original(group, broken) : NULL;
    split_end(&s);
    return found;
}
