/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which values get a launch of their own, because one launch cannot compute them together
 * with the rest or should not.
 *
 * The blocks of a launch cannot exchange results. A value that many blocks need and that takes long
 * to compute (a reduction, a scan, a dot) is computed once by an earlier launch. So is the operand
 * of a dot if computing it costs more than reading it back from memory. A reduction along a stored
 * axis (softmax) stays in the launch if a block can iterate over the whole row and there are enough
 * rows for the device. */
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
static const struct {
    SplitRule *rule;
    FuseReason reason;
} RULES[] = {
    {one_too_many, FUSE_TOO_MANY},
    {split_folded_product, FUSE_FOLDED_PRODUCT},
    {split_contracted_axis, FUSE_CONTRACTED_AXIS},
    {split_costly_operand, FUSE_COSTLY_OPERAND},
    {split_other_grid, FUSE_OTHER_PRODUCT},
    {split_repeated, FUSE_REPEATED},
    {split_before_scatter, FUSE_BEFORE_SCATTER},
    {split_both_ways, FUSE_BOTH_WAYS},
    {split_scanned_across, FUSE_SCANNED_ACROSS},
    {split_long_chain, FUSE_LONG_CHAIN},
    {split_row_inside, FUSE_ROW_INSIDE},
    {split_windows_across, FUSE_WINDOWS_ACROSS},
    {split_fold_across, FUSE_FOLD_ACROSS},
    {split_nested_fold, FUSE_NESTED_FOLD},
    {split_scan_of_rows, FUSE_SCAN_OF_ROWS},
    {split_under_occupied, FUSE_UNDER_OCCUPIED},
};

const char *fuse_reason_text(FuseReason reason)
{
    static const char *const texts[] = {
        [FUSE_FITS] = NULL,
#define FUSE_REASON(id, text) [FUSE_##id] = text,
#include "passes/fuse/fuse_reasons.def"
#undef FUSE_REASON
    };
    return texts[reason];
}

/* The first op that breaks a rule, and its value that `may_cut` takes; NULL: none. */
static const Value *first_broken(Splitter *s, bool (*may_cut)(const Splitter *, const Value *),
                                 FuseReason *reason)
{
    for (const Op *op = s->block->first; op; op = op->next) {
        const Value *value = NULL;
        for (size_t i = 0; i < sizeof RULES / sizeof *RULES && !value; i++) {
            value = RULES[i].rule(s, op);
            *reason = RULES[i].reason;
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

/* Do statements that write less than others leave out rows alone, which a block walks whole? */
static bool shares_grid(Splitter *s)
{
    const Value *first = NULL;
    uint64_t rows = walked_rows(s);
    bool shares = true;
    for (const Op *op = s->block->first; op && shares; op = op->next) {
        const Value *written = axes_written(op);
        first = first ? first : written;
        shares = !written || (!(s->stored & ~split_classes_of(s, written) & ~rows) &&
                              ((s->stored & s->folded) || same_order(s, first, written)));
    }
    return shares;
}

bool fuse_shares_grid(Func *func, const FusionGroup *group)
{
    Splitter s = split_begin(func, group);
    bool shares = shares_grid(&s);
    split_end(&s);
    return shares;
}

/* A group has axes for this many loops at most: it is cut where about half of them are. */
static bool is_crowded(const Splitter *s)
{
    return s->n_classes > MAX_AXES;
}

static bool is_any(const Splitter *s, const Value *value)
{
    (void)s, (void)value;
    return true;
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

/* The statements share a launch, or the first condition that they break. */
static FuseReason check_together(Splitter *s)
{
    FuseReason reason;
    if (is_crowded(s)) {
        return FUSE_CROWDED;
    }
    if (s->separate_sweeps) {
        return FUSE_SEPARATE_SWEEPS;
    }
    if (first_broken(s, is_any, &reason)) {
        return reason;
    }
    if (split_parts_conflict(s)) {
        return FUSE_PARTS;
    }
    return shares_grid(s) ? FUSE_FITS : FUSE_OTHER_GRID;
}

/* What the statement alone should find in memory. */
static FuseReason check_alone(Splitter *s, Value **value)
{
    FuseReason reason = FUSE_CROWDED;
    if (is_crowded(s)) {
        *value = cut(s, s->body);
    } else {
        const Value *broken = first_broken(s, may_materialize, &reason);
        *value = broken ? fuse_original(s->group, broken) : NULL;
    }
    return *value ? reason : FUSE_FITS;
}

FuseReason fuse_nest_check(Func *func, FusionGroup *group, const Block *body, Value **value)
{
    Value *costly = NULL, *found = NULL;
    FuseReason reason = FUSE_AXIS_CONFLICT;
    if (fuse_resolve_axis_conflicts(func, group, &costly)) {
        Splitter s = split_begin(func, group);
        s.body = body;
        reason = body ? check_alone(&s, &found) : check_together(&s);
        split_end(&s);
        costly = found;
    }
    if (value) {
        *value = costly;
    }
    return reason;
}
