/* SPDX-License-Identifier: Apache-2.0 */
/* Partial reductions of a dot's result in the dot's epilogue (rfactor of Halide and TVM).
 *
 *   %z = dot …, + bias : f32[B, O, P, Q]      z is stored, and for each of its rows of Q
 *   %a = mean of %z over P, Q            →      %s = the sum, %c = %s / Q
 *   %d = sub %z, %a                             %v = the sum of (z - c)^2, %r = that of z - c
 *   %v = sum of %d * %d over P, Q             in one launch; then, of these alone,
 *                                               %a = sum of %s over P / (P * Q), %e = %c - %a
 *                                               %v = sum of %v + %e * (2 * %r + Q * %e) over P
 *
 * Otherwise a row that no block holds would be read again for each reduction that needs the
 * preceding one. Here the epilogue reduces the part of a row that a tile of the dot holds
 * (analysis/epilogue_folds.h), which is all of an axis or a part of it, and a later launch combines
 * the parts. Squares of differences are taken from the part's own mean and moved to the mean of the
 * row afterwards (Chan, Golub and LeVeque 1983), so that nothing cancels. The sum of an affine
 * function of the elements is computed from their sum. Views between the result and the reduction
 * (a reshape into groups) move behind the reduction. Reassociates sums. */
#include "passes/fuse/fuse_moments.h"

#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/epilogue_folds.h"
#include "passes/pass.h"
#include "support/int_math.h"

enum {
    MAX_DEPTH = 256,       /* ops from a reduction back to its dot */
    MAX_STEPS = 16,        /* from what is reduced to the base */
    MOMENT_OPS = 6,        /* on each element, for its moments */
    HELD_ROW = 16384,      /* elements that a block holds (tile_longest_row) */
    RUN = 8,               /* neighbours of 4 bytes: a sector of memory */
};

/* ---- where a value comes from ---- */

/* Is it the sum over a batch axis of products, which continues in their accumulator? */
static bool sums_batches(const Op *op)
{
    const Op *from = op;
    while (from && from->kind == OP_REDUCE && text_equal(op_word(from, ATTR_FN), "sum") &&
           op_int(from, ATTR_AXIS, 0) < from->operands[0]->type->rank - 2) {
        from = from->operands[0]->def;
    }
    return from && from != op && from->kind == OP_DOT;
}

/* The dot whose result's axis `place`, of rows or columns, the value has as `axis`; NULL: none.
 * `without`: values that were found to have none. */
static Op *dot_below(const Value *value, int axis, Memo *without, int *place)
{
    Op *op = value->def, *found = NULL;
    int64_t known;
    if (!op || value->type->kind != TYPE_ARRAY || memo_known(without, value, axis, &known)) {
        return NULL;
    }
    if (op->kind == OP_DOT) {
        *place = axis;
        return axis >= value->type->rank - 2 ? op : NULL;
    }
    bool sums = sums_batches(op) && op_int(op, ATTR_AXIS, 0) != axis;
    bool passes = op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) || sums;
    for (int i = 0; passes && i < op->n_operands && !found; i++) {
        int inner = op_has(op, TRAIT_ELEMENTWISE) || sums ? axis : op_operand_axis(op, i, axis);
        found = inner >= 0 ? dot_below(op->operands[i], inner, without, place) : NULL;
    }
    if (!found) {
        memo_keep(without, value, axis, 0);
    }
    return found;
}

/* Can the dot's epilogue compute the value? It is made of the dot, of its batches' sums, and of
 * what lies in memory, element by element. Adds up the instructions. */
static bool is_of_epilogue(const Func *func, const Op *dot, const Value *value, Memo *memo,
                           int depth, int *instructions)
{
    const Op *op = value->def;
    if (type_is_scalar(value->type) || op == dot || !memo_visit(memo, value)) {
        return true;
    }
    if (!op || depth == 0) {
        return false;
    }
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA: return true;
    case OP_LOAD: return fuse_is_unchanging(func, op->operands[0]);
    case OP_REDUCE:
        return sums_batches(op) &&
               is_of_epilogue(func, dot, op->operands[0], memo, depth - 1, instructions);
    default: break;
    }
    bool good = op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
    *instructions += an_epilogue_instructions(op);
    for (int i = 0; good && i < op->n_operands; i++) {
        good = is_of_epilogue(func, dot, op->operands[i], memo, depth - 1, instructions);
    }
    return good;
}

/* What the value is a view of along the axis, if a dot's epilogue can make that, and this many
 * instructions more on each element. */
static bool find_base(EpilogueFolds *f, Value *value, int axis, int more, Base *base)
{
    int inner = value->def ? fuse_viewed_axis(value->def, axis) : -1;
    while (inner >= 0) {
        value = value->def->operands[0];
        axis = inner;
        inner = value->def ? fuse_viewed_axis(value->def, axis) : -1;
    }
    Memo *memo = memo_open(f->func);
    int instructions = MOMENT_OPS + more, place = 0;
    *base = (Base){.value = value, .axis = axis};
    base->dot = dot_below(value, axis, f->without, &place);
    bool good = base->dot && (!f->dot || base->dot == f->dot) &&
                is_of_epilogue(f->func, base->dot, value, memo, MAX_DEPTH, &instructions);
    int64_t step = good ? an_whole_axis(f->func, base->dot, place, 1) : 0;
    if (good && (!step || instructions > an_most_epilogue_instructions(step))) {
        step = an_parts_of_axis(f->func, base->dot, place, instructions);
        base->by = step;
    }
    base->place = place;
    base->step = step;
    good = step > 0 && instructions <= an_most_epilogue_instructions(step);
    memo_close(memo);
    return good;
}

/* ---- which reductions ---- */

/* Is the value affine in a view of a base? */
static bool find_affine(EpilogueFolds *f, Builder *b, Value *value, int axis, int depth, Base *base,
                        AffineView *of)
{
    if (find_base(f, value, axis, 0, base)) {
        *of = (AffineView){.view = value};
        return true;
    }
    const Op *op = value->def;
    for (int i = 0; op && depth > 0 && op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands; i++) {
        if (type_is_scalar(op->operands[i]->type) ||
            fuse_is_constant_along(op->operands[i], axis)) {
            continue;
        }
        return find_affine(f, b, op->operands[i], axis, depth - 1, base, of) &&
               fuse_step_affine(b, op, i, axis, of);
    }
    return false;
}

/* The reductions that follow one another from `fold` on, of which nothing else is used. */
static int chain_of(Op *fold, Op **chain)
{
    const Block *block = fold->parent;
    int n = 0;
    for (Op *op = fold; op && n < MAX_RANK;) {
        if (op->kind == OP_REDUCE) {
            chain[n++] = op;
        }
        const ValueUse *use = use_first(op->results[0], block);
        Op *next = use && !use_next(use, block) ? use->op : NULL;
        bool passes = next && (next->kind == OP_REDUCE || op_moves_axes(next));
        op = passes ? next : NULL;
    }
    return n;
}

/* Elements that a block would hold to have a row in its registers: all that is reduced together,
 * and, where the base does not lie contiguous along it, a run of neighbours of each. */
static int64_t row_elements(const PartialFold *partial)
{
    Op *chain[MAX_RANK];
    int64_t n = partial->base.axis == partial->base.value->type->rank - 1 ? 1 : RUN;
    for (int i = chain_of(partial->fold, chain); i-- > 0;) {
        int axis = (int)op_int(chain[i], ATTR_AXIS, 0);
        n = mul_sat(n, poly_most(chain[i]->operands[0]->type->dims[axis]));
    }
    return n;
}

/* The square of what is summed; NULL: it is none. */
static Value *squared(const Value *value)
{
    const Op *op = value->def;
    return op && op->kind == OP_MUL && op->operands[0] == op->operands[1] ? op->operands[0] : NULL;
}

/* Sums of exponentials of the difference from the maximum, where both are of the base itself. */
static bool find_exponentials(EpilogueFolds *f, const Op *fold, int axis, PartialFold *partial)
{
    int instructions = 0;
    Op *difference = fuse_find_difference(f->func, fold, axis, &instructions);
    Value *of = difference ? difference->operands[0] : NULL;
    if (!of || !find_base(f, of, axis, instructions, &partial->base) ||
        partial->base.value != of) {
        return false;
    }
    partial->of.view = of;
    partial->difference = difference;
    return true;
}

static bool find_along(EpilogueFolds *f, Op *fold, int axis, PartialFold *partial)
{
    Value *from = fold->operands[0];
    *partial = (PartialFold){.fold = fold};
    if (!dtype_is_float(from->type->dtype) || dtype_bits(from->type->dtype) < 32) {
        return false;
    }
    if (find_base(f, from, axis, 0, &partial->base)) {
        partial->of.view = from;
        return true;
    }
    if (!text_equal(op_word(fold, ATTR_FN), "sum")) {
        return false;
    }
    if (fuse_is_exponential(from)) {
        return find_exponentials(f, fold, axis, partial);
    }
    Builder b = build_before(f->func, fold);
    b.span = fold->span;
    Value *root = squared(from);
    partial->squares = root != NULL;
    return find_affine(f, &b, root ? root : from, axis, MAX_STEPS, &partial->base, &partial->of) &&
           !(root && partial->of.shift) &&
           (partial->base.by || poly_least(from->type->dims[axis]) > 0); /* the mean of a part */
}

/* Reductions along several axes are as good in another order: the `k`-th of the chain first. */
static void reduce_first(Func *func, Op *fold, int k)
{
    Op *chain[MAX_RANK];
    chain_of(fold, chain);
    int64_t first = op_int(chain[k], ATTR_AXIS, 0);
    for (int i = k; i > 0; i--) {
        op_set_int(func, chain[i], ATTR_AXIS, op_int(chain[i - 1], ATTR_AXIS, 0));
    }
    op_set_int(func, chain[0], ATTR_AXIS, first);
    for (int i = 0; i < k; i++) {
        Value *from = chain[i]->operands[0];
        chain[i]->results[0]->type = fuse_with_extent(
            func, from->type, (int)op_int(chain[i], ATTR_AXIS, 0), poly_const(func, 1));
    }
}

static bool find_partial(EpilogueFolds *f, Op *fold, PartialFold *partial)
{
    Op *chain[MAX_RANK];
    int n = sums_batches(fold) ? 0 : chain_of(fold, chain);
    for (int i = 0; i < n; i++) {
        bool next = i == 0 || (chain[i]->operands[0] == chain[i - 1]->results[0] &&
                               text_equal(op_word(chain[i], ATTR_FN), op_word(fold, ATTR_FN)));
        if (!next) {
            return false;
        }
        if (find_along(f, fold, (int)op_int(chain[i], ATTR_AXIS, 0), partial)) {
            partial->place = i;
            partial->n_chained = n;
            return true;
        }
    }
    return false;
}

/* Is nothing made of the value but what the reductions make? */
static bool is_only_reduced(const EpilogueFolds *f, const Value *value, Memo *seen)
{
    bool only = true;
    for (const ValueUse *use = use_first(value, f->block); use && only;
         use = use_next(use, f->block)) {
        const Op *op = use->op;
        bool found = false;
        for (int i = 0; i < f->n && !found; i++) {
            found = f->partials[i].fold == op;
        }
        for (int i = 0; i < f->n_picks && !found; i++) {
            found = f->picks[i] == op;
        }
        bool passes = op->parent == f->block && op->n_results == 1 &&
                      (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) ||
                       (op->kind == OP_GATHER && op->operands[0] == value));
        only = found || (passes && (!memo_visit(seen, op->results[0]) ||
                                    is_only_reduced(f, op->results[0], seen)));
    }
    return only;
}

/* A row that a block holds it reduces in any way: then parts of rows gain nothing, unless all that
 * is needed of the dot is reduced, along several axes. */
static bool are_worth_it(const EpilogueFolds *f)
{
    bool all = true, several = false;
    Memo *seen = memo_open(f->func);
    for (int i = 0; i < f->n; i++) {
        if (row_elements(&f->partials[i]) > HELD_ROW) {
            memo_close(seen);
            return true;
        }
        all = all && is_only_reduced(f, f->partials[i].base.value, seen);
        several = several || f->partials[i].n_chained > 1 || f->partials[i].base.by;
    }
    memo_close(seen);
    return all && several;
}

/* ---- what goes through memory ---- */

enum { SEEN = 1 }; /* key of a memo */

/* Does the value depend on the dot, element by element or by sums of batches? Marks those that do
 * in `path`. */
static bool mark_path(const EpilogueFolds *f, Value *value, Memo *path)
{
    Op *op = value->def;
    int64_t known;
    if (!op || type_is_scalar(value->type)) {
        return false;
    }
    if (memo_known(path, value, 0, &known)) {
        return known != 0;
    }
    bool on = op == f->dot;
    for (int i = 0; op != f->dot && op->kind != OP_LOAD && i < op->n_operands; i++) {
        on = mark_path(f, op->operands[i], path) || on;
    }
    return memo_keep(path, value, 0, on) != 0;
}

/* Is all that the program makes of the dot made of this value? */
static bool is_bottleneck(EpilogueFolds *f, Value *value, Value *from, Memo *path)
{
    int64_t on, seen;
    if (!memo_known(path, from, 0, &on) || !on || memo_known(path, from, SEEN, &seen)) {
        return true;
    }
    memo_keep(path, from, SEEN, 1);
    for (const ValueUse *use = use_first(from, f->block); use && from != value;
         use = use_next(use, f->block)) {
        const Op *op = use->op;
        if (op->n_results == 0 || !memo_known(path, op->results[0], 0, &on) || !on) {
            return false;
        }
    }
    bool good = true;
    for (int i = 0; from->def != f->dot && i < from->def->n_operands && good; i++) {
        Value *operand = from->def->operands[i];
        good = operand->type->kind != TYPE_ARRAY || is_bottleneck(f, value, operand, path);
    }
    return good;
}

/* The first value behind the dot that is used by several ops, or by another than an element-wise
 * one. */
static Value *behind_dot(const EpilogueFolds *f)
{
    Value *value = f->dot->results[0];
    for (;;) {
        const ValueUse *use = use_first(value, f->block);
        Op *user = use ? use->op : NULL;
        for (; use; use = use_next(use, f->block)) {
            user = use->op == user ? user : NULL;
        }
        bool batch = user && sums_batches(user);
        if (!user || !(batch || op_has(user, TRAIT_ELEMENTWISE) || op_moves_axes(user))) {
            return value;
        }
        value = user->results[0];
    }
}

/* The value after the moves of axes that only it goes through: what the program means by it. */
static Value *moved_on(const EpilogueFolds *f, Value *value)
{
    for (;;) {
        const ValueUse *use = use_first(value, f->block);
        Op *user = use && !use_next(use, f->block) ? use->op : NULL;
        bool moves = user && (user->kind == OP_EXPAND || user->kind == OP_SQUEEZE ||
                              user->kind == OP_PERMUTE);
        if (!moves) {
            return value;
        }
        value = user->results[0];
    }
}

/* What of the dot lies in memory: the base, if all is made of it, in the narrower type in which it
 * was made. */
static Value *stored_value(EpilogueFolds *f)
{
    Value *value = f->partials[0].base.value;
    for (int i = 1; i < f->n && value; i++) {
        value = f->partials[i].base.value == value ? value : NULL;
    }
    Memo *path = memo_open(f->func);
    if (value) {
        mark_path(f, value, path);
    }
    if (!value || !is_bottleneck(f, value, value, path)) {
        value = behind_dot(f);
    }
    memo_close(path);
    value = moved_on(f, value);
    const Op *op = value->def;
    bool widens = op->kind == OP_CAST && op->operands[0]->def &&
                  dtype_bits(op->operands[0]->type->dtype) < dtype_bits(value->type->dtype);
    return widens ? op->operands[0] : value;
}

static int64_t elements_of(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n = mul_sat(n, poly_nominal(type->dims[i]));
    }
    return n;
}

/* Is it made by a reduction of what lies in memory? */
static bool is_reduced(const Value *value, Memo *seen)
{
    const Op *op = value->def;
    bool found = op && op->kind == OP_REDUCE;
    bool looks =
        op && (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op)) && memo_visit(seen, value);
    for (int i = 0; looks && i < op->n_operands && !found; i++) {
        found = is_reduced(op->operands[i], seen);
    }
    return found;
}

/* What is left of rows lies in memory, too, where all of their elements need it. */
static void store_statistics(EpilogueFolds *f, Type whole)
{
    Memo *seen = memo_open(f->func);
    for (Op *op = f->block->first; op; op = op->next) {
        if (op->kind != OP_BROADCAST || elements_of(op->results[0]->type) < elements_of(whole)) {
            continue;
        }
        Value *value = op->operands[0];
        while (value->def && op_moves_axes(value->def)) {
            value = value->def->operands[0];
        }
        bool few = elements_of(value->type) <= elements_of(whole) / HELD_ROW * 2;
        memo_clear(seen);
        if (few && is_reduced(value, seen) && fuse_may_materialize(f->func, f->block, value)) {
            fuse_materialize(f->func, value, FUSE_EPILOGUE_FOLD);
        }
    }
    memo_close(seen);
}

static void store_parts(EpilogueFolds *f)
{
    Value *stored = stored_value(f);
    Type whole = stored->type;
    fuse_materialize(f->func, stored, FUSE_EPILOGUE_FOLD);
    for (int i = 0; i < f->n_moments; i++) {
        Value *made[] = {f->moments[i].sum, f->moments[i].square, f->moments[i].rest};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++) {
            if (made[k] && value_has_uses(f->func, made[k])) {
                fuse_materialize(f->func, made[k], FUSE_EPILOGUE_FOLD);
            }
        }
    }
    for (int i = 0; i < f->n_others; i++) {
        if (value_has_uses(f->func, f->others[i])) {
            fuse_materialize(f->func, f->others[i], FUSE_EPILOGUE_FOLD);
        }
    }
    store_statistics(f, whole);
}

/* ---- all dots ---- */

static void find_partials(EpilogueFolds *f)
{
    for (Op *op = f->block->first; op && f->n < MAX_FOLDS; op = op->next) {
        PartialFold partial;
        if (op->kind == OP_REDUCE && find_partial(f, op, &partial)) {
            f->partials[f->n++] = partial;
        }
    }
}

/* All reductions along one axis are of the same parts: the smallest ones. */
static void agree_on_parts(EpilogueFolds *f)
{
    for (int i = 0; i < f->n; i++) {
        Base *base = &f->partials[i].base;
        int64_t least = base->step;
        for (int k = 0; k < f->n; k++) {
            const Base *other = &f->partials[k].base;
            least = other->place == base->place ? min_i64(least, other->step) : least;
        }
        base->by = poly_most(base->value->type->dims[base->axis]) > least ? least : 0;
    }
}

/* Makes sums of the elements that are read of rows in parts one by one, if then all that is needed
 * of the dot is reduced. */
static bool pick_elements(EpilogueFolds *f)
{
    const Base *base = fuse_find_picks(f);
    Memo *seen = memo_open(f->func);
    bool picks = base && is_only_reduced(f, f->dot->results[0], seen);
    memo_close(seen);
    for (int i = 0; i < f->n_picks && picks; i++) {
        fuse_pick(f->func, f->picks[i], base);
    }
    f->n_picks = 0;
    return picks;
}

/* Makes the number of parts a size. */
static bool count_parts(Func *func, Base *base)
{
    Dim extent = base->value->type->dims[base->axis];
    int64_t known;
    if (!base->by) {
        base->parts = poly_const(func, 1);
    } else if (poly_is_const(extent, &known)) {
        base->parts = poly_const(func, ceil_div(known, base->by));
    } else {
        Dim last = poly_add(func, extent, poly_const(func, base->by - 1));
        base->parts = last ? poly_var(func, func_own_quotient(func, NULL, last, base->by)) : NULL;
    }
    return base->parts;
}

/* True if sums of exponentials were among them. */
static bool reduce_in_epilogue(Func *func, Block *block, const Op *dot, Memo *without)
{
    EpilogueFolds f = {.func = func, .block = block, .dot = dot, .without = without};
    bool any = false, exponentials = false;
    find_partials(&f);
    if (pick_elements(&f)) {
        f.n = 0;
        find_partials(&f);
    }
    if (!are_worth_it(&f)) {
        return false;
    }
    agree_on_parts(&f);
    for (int i = 0; i < f.n; i++) {
        if (!count_parts(func, &f.partials[i].base)) {
            continue;
        }
        reduce_first(func, f.partials[i].fold, f.partials[i].place);
        bool made = fuse_reduce_in_epilogue(&f, &f.partials[i]);
        exponentials = exponentials || (made && f.partials[i].difference);
        any = any || made;
    }
    func_remove_dead(func);
    if (any) {
        store_parts(&f);
    }
    return exponentials;
}

/* A dot of whose result the epilogue can reduce something; NULL: none that was not met before. */
static const Op *next_dot(Func *func, Block *block, Memo *met, Memo *without)
{
    for (Op *op = block->first; op; op = op->next) {
        EpilogueFolds f = {.func = func, .block = block, .without = without};
        PartialFold partial;
        if (op->kind == OP_REDUCE && memo_visit(met, op->results[0]) &&
            find_partial(&f, op, &partial) && partial.base.dot->parent == block &&
            memo_visit(met, partial.base.dot->results[0])) {
            return partial.base.dot;
        }
    }
    return NULL;
}

void fuse_epilogue_folds(Func *func, Block *block)
{
    bool gpu = func->target && func->target->family != FAMILY_CPU;
    Memo *met = memo_open(func), *without = memo_open(func);
    const Op *dot = gpu ? next_dot(func, block, met, without) : NULL;
    bool exponentials = false;
    for (; dot; dot = next_dot(func, block, met, without)) {
        exponentials = reduce_in_epilogue(func, block, dot, without) || exponentials;
    }
    memo_close(without);
    memo_close(met);
    func_remove_dead(func);
    if (exponentials) { /* of what is never positive */
        pass_simplify(func);
    }
}
