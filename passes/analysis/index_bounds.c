/* SPDX-License-Identifier: Apache-2.0 */
/* Proves bounds of indices. A value of integer type becomes a sum of coordinates, sizes and
 * constants as far as possible; its least and greatest element are then size expressions, which are
 * compared for all sizes at once. */
#include "passes/analysis/index_bounds.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/range_facts.h"
#include "support/int_math.h"

enum { MAX_DEPTH = 48 };

/* From `lo` to `hi`, both included; NULL: not known. */
typedef struct Interval {
    Dim lo, hi;
} Interval;

/* A question, and what was found out on the way to its answer. */
typedef struct Asked {
    Func *func;
    Memo *memo;
} Asked;

static Interval interval(const Asked *asked, const Value *value, int depth);

static bool is_const(Dim dim, int64_t *value)
{
    return dim && poly_is_const(dim, value);
}

static Dim plus(Func *func, Dim a, int64_t n)
{
    return poly_add(func, a, poly_const(func, n));
}

static Dim times(Func *func, Dim a, int64_t n)
{
    return poly_mul(func, a, poly_const(func, n));
}

static bool never_below(Dim a, int64_t least)
{
    return a && poly_least(a) >= least;
}

/* A size of which there is an exact quotient is its multiple. */
bool dim_is_ordered(Func *func, Dim a, Dim b)
{
    Dim difference = poly_add(func, b, times(func, a, -1));
    for (size_t i = 0; difference && poly_least(difference) < 0 && i < func->dimvars.n; i++) {
        DimVar *quotient = func->dimvars.items[i];
        const DimVar *size = quotient->by > 0 ? poly_as_var(quotient->of) : NULL;
        if (size && size->multiple % quotient->by == 0 && poly_mentions(difference, size)) {
            Dim whole = times(func, poly_var(func, quotient), quotient->by);
            difference = poly_substitute(func, difference, size, whole);
        }
    }
    return never_below(difference, 0);
}

/* ---- exact quotients of size expressions ---- */

static bool drop_factor(PolyTerm *term, const DimVar *var)
{
    for (int i = 0; i < term->n; i++) {
        if (term->vars[i] == var) {
            for (int k = i; k + 1 < term->n; k++) {
                term->vars[k] = term->vars[k + 1];
            }
            term->n--;
            return true;
        }
    }
    return false;
}

Dim an_exact_quotient(Func *func, Dim a, Dim b)
{
    Dim result = poly_const(func, 0);
    if (b->n_terms != 1) {
        return a == b ? poly_const(func, 1) : NULL;
    }
    for (int i = 0; i < a->n_terms; i++) {
        PolyTerm term = a->terms[i];
        bool divides = term.coef % b->terms[0].coef == 0;
        for (int k = 0; k < b->terms[0].n && divides; k++) {
            divides = drop_factor(&term, b->terms[0].vars[k]);
        }
        if (!divides) {
            return NULL;
        }
        Dim part = poly_const(func, term.coef / b->terms[0].coef);
        for (int k = 0; k < term.n; k++) {
            part = poly_mul(func, part, poly_var(func, term.vars[k]));
        }
        result = poly_add(func, result, part);
    }
    return result;
}

Dim dim_exact_steps(Func *func, Dim a, Dim b)
{
    Dim steps = an_exact_quotient(func, a, b);
    int64_t by;
    for (size_t i = 0; !steps && poly_is_const(b, &by) && i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        bool same = var->by > 0 && var->by == by && var->of == a && poly_divisor(a) % by == 0;
        steps = same ? poly_var(func, var) : NULL;
    }
    return steps;
}

Dim dim_steps(Func *func, Dim a, Dim b)
{
    Dim exact = dim_exact_steps(func, a, b);
    int64_t by;
    if (exact || a->n_terms == 0 || a->terms[0].n > 0 || !poly_is_const(b, &by) || by < 1) {
        return exact;
    }
    int64_t number = a->terms[0].coef;
    return plus(func, dim_exact_steps(func, plus(func, a, -number), b), ceil_div(number, by));
}

/* An upper bound of x // by: what `by` divides, and of the rest the greatest value. NULL: it has
 * none. */
static Dim most_steps(Func *func, Dim x, int64_t by)
{
    Dim whole = poly_const(func, 0), rest = whole, d = poly_const(func, by);
    for (int i = 0; i < x->n_terms && whole && rest; i++) {
        Dim own = poly_const(func, x->terms[i].coef);
        for (int k = 0; k < x->terms[i].n; k++) {
            own = poly_mul(func, own, poly_var(func, x->terms[i].vars[k]));
        }
        Dim exact = own ? an_exact_quotient(func, own, d) : NULL;
        if (exact) {
            whole = poly_add(func, whole, exact);
        } else {
            rest = poly_add(func, rest, own);
        }
    }
    int64_t most = rest ? poly_most(rest) : INT64_MAX;
    return most < INT64_MAX ? plus(func, whole, floor_div(most, by)) : NULL;
}

/* floor(x / d) for x in an interval, d > 0. */
static Interval divided(Func *func, Interval x, Dim d)
{
    Interval result = {NULL, NULL};
    int64_t by, value;
    if (is_const(d, &by) && is_const(x.lo, &value)) {
        result.lo = poly_const(func, floor_div(value, by));
    } else if (never_below(x.lo, 0)) {
        result.lo = poly_const(func, 0);
    }
    if (is_const(d, &by) && is_const(x.hi, &value)) {
        result.hi = poly_const(func, floor_div(value, by));
    } else if (x.hi) {
        Dim whole = plus(func, x.hi, 1);
        Dim parts = whole ? an_exact_quotient(func, whole, d) : NULL;
        result.hi = parts ? plus(func, parts, -1) : NULL;
        if (!result.hi && is_const(d, &by)) {
            result.hi = most_steps(func, x.hi, by);
        }
        if (!result.hi && never_below(x.lo, 0)) {
            result.hi = x.hi;
        }
    }
    return result;
}

/* ---- ops ---- */

/* An array of an axis has an element only where the axis is not empty: then is its divisor at least
 * one? */
static bool divisor_is_positive(const Value *value, Dim d)
{
    if (never_below(d, 1)) {
        return true;
    }
    const Op *op = value->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND || op->kind == OP_CAST)) {
        op = op->operands[0]->def;
    }
    Dim whole = NULL;
    if (op && op->kind == OP_IOTA) {
        whole = op_attr(op, ATTR_DIM)->dims[0];
    } else if (op && op->kind == OP_INDEX) {
        whole = poly_as_range(op->operands[0]->type->dims[0])->axis_extent;
    }
    DimVar *size = poly_as_var(d);
    for (int i = 0; size && whole && i < whole->n_terms; i++) {
        PolyTerm term = whole->terms[i];
        if (!drop_factor(&term, size)) {
            return false;
        }
    }
    return size && whole;
}

static Interval of_range(Func *func, const Op *op)
{
    const DimVar *range = poly_as_range(op->operands[0]->type->dims[0]);
    Dim zero = poly_const(func, 0);
    /* CPUs walk the elements that there are; threads of a GPU have others too. */
    bool walked = func->target && func->target->family == FAMILY_CPU;
    int64_t past = walked ? 0 : range_overrun(range);
    int64_t outside = past < range->capacity ? 0 : past; /* of a part that no element is in */
    switch (op->kind) {
    case OP_INDEX: return (Interval){zero, plus(func, range->axis_extent, past - 1)};
    case OP_START: return (Interval){zero, plus(func, range->axis_extent, outside - 1)};
    case OP_END: return (Interval){zero, plus(func, range->axis_extent, outside)};
    default: return (Interval){zero, poly_const(func, range->capacity)};
    }
}

static Interval multiplied(Func *func, Interval a, Interval b)
{
    if (a.lo && a.lo == a.hi) {
        Interval swap = a;
        a = b;
        b = swap;
    }
    int64_t factor;
    if (!b.lo || b.lo != b.hi) {
        bool positive = never_below(a.lo, 0) && never_below(b.lo, 0);
        return positive ? (Interval){poly_mul(func, a.lo, b.lo), poly_mul(func, a.hi, b.hi)}
                        : (Interval){NULL, NULL};
    }
    if (is_const(b.lo, &factor) && factor < 0) {
        return (Interval){times(func, a.hi, factor), times(func, a.lo, factor)};
    }
    return never_below(b.lo, 0) ? (Interval){poly_mul(func, a.lo, b.lo), poly_mul(func, a.hi, b.hi)}
                                : (Interval){NULL, NULL};
}

/* The lesser (or the greater) of two bounds; NULL: not known, which is one bound alone with
 * `need_both`, or two that the sizes do not order. */
static Dim extreme_of(Func *func, Dim a, Dim b, bool greater, bool need_both)
{
    if (!a || !b) {
        if (need_both) {
            return NULL;
        }
        return a ? a : b;
    }
    if (dim_is_ordered(func, a, b)) {
        return greater ? b : a;
    }
    if (dim_is_ordered(func, b, a)) {
        return greater ? a : b;
    }
    return need_both ? NULL : a;
}

static Interval of_divided(Func *func, const Op *op, Interval a, Interval b)
{
    bool positive = b.lo && b.lo == b.hi && divisor_is_positive(op->operands[0], b.lo);
    if (!positive) {
        return (Interval){NULL, NULL};
    }
    return op->kind == OP_DIV ? divided(func, a, b.lo)
                              : (Interval){poly_const(func, 0), plus(func, b.lo, -1)};
}

static Interval of_binary(const Asked *asked, const Op *op, int depth)
{
    Func *func = asked->func;
    Interval a = interval(asked, op->operands[0], depth);
    Interval b = interval(asked, op->operands[1], depth);
    switch (op->kind) {
    case OP_ADD: return (Interval){poly_add(func, a.lo, b.lo), poly_add(func, a.hi, b.hi)};
    case OP_SUB:
        return (Interval){poly_add(func, a.lo, times(func, b.hi, -1)),
                          poly_add(func, a.hi, times(func, b.lo, -1))};
    case OP_MUL: return multiplied(func, a, b);
    case OP_DIV:
    case OP_MOD: return of_divided(func, op, a, b);
    case OP_MIN:
        return (Interval){extreme_of(func, a.lo, b.lo, false, true),
                          extreme_of(func, a.hi, b.hi, false, false)};
    default: /* max */
        return (Interval){extreme_of(func, a.lo, b.lo, true, false),
                          extreme_of(func, a.hi, b.hi, true, true)};
    }
}

/* A variable of a loop or of a grid. */
static Interval of_argument(const Asked *asked, const Value *value, int depth)
{
    Func *func = asked->func;
    const Op *binder = value->block ? value->block->parent : NULL;
    const Attr *dims = binder ? op_attr(binder, ATTR_DIMS) : NULL;
    if (!dims || value->index >= (uint32_t)dims->n) {
        return (Interval){NULL, NULL};
    }
    Interval first = {poly_const(func, 0), NULL};
    if (binder->kind == OP_FOR) {
        first = interval(asked, for_lo(binder), depth);
    }
    return (Interval){first.lo, plus(func, dims->dims[value->index], -1)};
}

static Interval of_op(const Asked *asked, const Op *op, int depth)
{
    Func *func = asked->func;
    switch (op->kind) {
    case OP_CONST: {
        Dim value = poly_const(func, op_attr(op, ATTR_VALUE)->i);
        return (Interval){value, value};
    }
    case OP_SIZE: {
        Dim dim = op_attr(op, ATTR_DIM)->dims[0];
        return (Interval){dim, dim};
    }
    case OP_IOTA:
        return (Interval){poly_const(func, 0), plus(func, op_attr(op, ATTR_DIM)->dims[0], -1)};
    case OP_INDEX:
    case OP_START:
    case OP_END:
    case OP_LEN: return of_range(func, op);
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_TO_STATIC:
    case OP_CONVERT:
    case OP_CAST: return interval(asked, op->operands[0], depth);
    case OP_SELECT: {
        Interval a = interval(asked, op->operands[1], depth);
        Interval b = interval(asked, op->operands[2], depth);
        return (Interval){extreme_of(func, a.lo, b.lo, false, true),
                          extreme_of(func, a.hi, b.hi, true, true)};
    }
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX: return of_binary(asked, op, depth);
    default: return (Interval){NULL, NULL};
    }
}

/* True if the bound fits an i64: what a program multiplies of sizes is the number of elements of a
 * tensor, which is below 2^40, as each size is. */
static bool fits_64_bits(Dim bound)
{
    const int64_t limit = (int64_t)1 << 61, elements = (int64_t)1 << 40;
    bool fits = true;
    for (int i = 0; bound && fits && i < bound->n_terms; i++) {
        const PolyTerm *term = &bound->terms[i];
        int64_t most = 1;
        for (int k = 0; k < term->n; k++) {
            most = min_i64(mul_sat(most, min_i64(term->vars[k]->most, elements)), elements);
        }
        fits = term->coef <= limit / max_i64(most, 1) && term->coef >= -limit / max_i64(most, 1);
    }
    return fits;
}

/* What wraps is not where it seems to be. */
static Interval unwrapped(const Asked *asked, const Value *value, int depth)
{
    Interval none = {NULL, NULL};
    Interval result =
        value->def ? of_op(asked, value->def, depth + 1) : of_argument(asked, value, depth + 1);
    if (value->type->dtype == DT_I32 &&
        (!result.lo || !result.hi || poly_least(result.lo) < INT32_MIN ||
         poly_most(result.hi) > INT32_MAX)) {
        return none;
    }
    return fits_64_bits(result.lo) && fits_64_bits(result.hi) ? result : none;
}

static Interval interval(const Asked *asked, const Value *value, int depth)
{
    DType dtype = value->type->dtype;
    int64_t found;
    if (depth > MAX_DEPTH || (dtype != DT_I64 && dtype != DT_I32)) {
        return (Interval){NULL, NULL};
    }
    if (!memo_known(asked->memo, value, depth, &found)) {
        Interval result = unwrapped(asked, value, depth);
        const Interval *kept = arena_copy(asked->func->arena, &result, sizeof result);
        found = memo_keep(asked->memo, value, depth, (intptr_t)kept);
    }
    return *(const Interval *)(intptr_t)found;
}

static bool is_below(const Asked *asked, const Value *value, Dim extent, int depth)
{
    enum { BELOW = MAX_DEPTH + 1 }; /* of the keys, behind those of `interval` */
    int64_t found;
    if (memo_known(asked->memo, value, BELOW + depth, &found)) {
        return found != 0;
    }
    Interval all = interval(asked, value, 0);
    const Op *op = value->def;
    bool min = op && op->kind == OP_MIN && depth < MAX_DEPTH;
    bool below = (all.hi && dim_is_ordered(asked->func, plus(asked->func, all.hi, 1), extent)) ||
                 (min && (is_below(asked, op->operands[0], extent, depth + 1) ||
                          is_below(asked, op->operands[1], extent, depth + 1)));
    return memo_keep(asked->memo, value, BELOW + depth, below) != 0;
}

bool an_index_inside(Func *func, const Value *index, Dim extent)
{
    Asked asked = {func, memo_open(func)};
    bool inside =
        never_below(interval(&asked, index, 0).lo, 0) && is_below(&asked, index, extent, 0);
    memo_close(asked.memo);
    return inside;
}

bool an_gather_inside(Func *func, const Op *gather, int axis)
{
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    return guard ? !guard->ints[axis]
                 : an_index_inside(func, gather->operands[1 + axis],
                                   gather->operands[0]->type->dims[axis]);
}

bool an_index_range(Func *func, const Value *index, Dim *lo, Dim *hi)
{
    Asked asked = {func, memo_open(func)};
    Interval all = interval(&asked, index, 0);
    memo_close(asked.memo);
    *lo = all.lo;
    *hi = all.hi;
    return all.lo && all.hi;
}

/* ---- strides ---- */

static bool stride_of(Memo *memo, const Value *value, int axis, int depth, int64_t *stride);

static bool stride_moved(Memo *memo, const Op *op, int axis, int depth, int64_t *stride)
{
    int inner = op_operand_axis(op, 0, axis);
    *stride = 0;
    return inner < 0 || stride_of(memo, op->operands[0], inner, depth, stride);
}

static bool integer_constant(const Value *value, int64_t *number)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND || op->kind == OP_CAST)) {
        op = op->operands[0]->def;
    }
    const Attr *constant = op ? value_const(op->results[0]) : NULL;
    *number = constant ? constant->i : 0;
    return constant != NULL;
}

static bool stride_computed(Memo *memo, const Op *op, int axis, int depth, int64_t *stride)
{
    int64_t own[4] = {0}, factor;
    bool still = true;
    for (int i = 0; i < op->n_operands && i < 4; i++) {
        if (!stride_of(memo, op->operands[i], axis, depth, &own[i])) {
            return false;
        }
        still = still && own[i] == 0;
    }
    *stride = 0;
    if (still) {
        return true;
    }
    switch (op->kind) {
    case OP_ADD: *stride = own[0] + own[1]; return true;
    case OP_SUB: *stride = own[0] - own[1]; return true;
    case OP_NEG: *stride = -own[0]; return true;
    case OP_CAST: *stride = own[0]; return dtype_is_int(op->results[0]->type->dtype);
    case OP_MUL:
        for (int i = 0; i < 2; i++) {
            if (own[i] == 0 && integer_constant(op->operands[i], &factor)) {
                *stride = own[1 - i] * factor;
                return true;
            }
        }
        return false;
    default: return false;
    }
}

static bool stride_made(Memo *memo, const Value *value, int axis, int depth, int64_t *stride)
{
    const Op *op = value->def;
    *stride = 0;
    if (type_is_scalar(value->type)) {
        return true;
    }
    if (!op || depth > MAX_DEPTH) {
        return false;
    }
    switch (op->kind) {
    case OP_CONST: return true;
    case OP_IOTA:
    case OP_INDEX: *stride = 1; return true;
    case OP_CONVERT:
    case OP_TO_STATIC: return stride_of(memo, op->operands[0], axis, depth + 1, stride);
    default:
        if (op_moves_axes(op)) {
            return stride_moved(memo, op, axis, depth + 1, stride);
        }
        return op_has(op, TRAIT_ELEMENTWISE) && stride_computed(memo, op, axis, depth + 1, stride);
    }
}

static bool stride_of(Memo *memo, const Value *value, int axis, int depth, int64_t *stride)
{
    int key = 2 * (depth * MAX_RANK + axis); /* the stride; and behind it: is it known? */
    int64_t known;
    if (memo_known(memo, value, key + 1, &known)) {
        memo_known(memo, value, key, stride);
        return known != 0;
    }
    known = stride_made(memo, value, axis, depth, stride);
    memo_keep(memo, value, key, *stride);
    return memo_keep(memo, value, key + 1, known) != 0;
}

bool an_index_stride(const Value *index, int axis, int64_t *stride)
{
    Memo *memo = memo_about(index);
    bool known = stride_of(memo, index, axis, 0, stride);
    memo_close(memo);
    return known;
}
