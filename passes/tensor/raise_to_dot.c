/* SPDX-License-Identifier: Apache-2.0 */
/* raise_to_dot: recognizes sums of products and rewrites them as dot.
 *
 *   %p = mul %a, %b : f32[M, N, K]           (%a does not change along N, %b not along M)
 *   %s = reduce %p fn=sum axis=2       →     %s = dot %a', %b' : f32[M, N]
 *
 * One axis of the left factor alone, one of the right factor alone and one summed axis of both
 * become the dot's m, n and k. Every other axis becomes a batch axis, and a batch axis that is
 * summed is reduced afterwards: a convolution becomes one dot over the channels for each offset of
 * its window, wherever the channels are. A summed axis along which only one factor varies is summed
 * in that factor before the dot, and so are many rows or columns of a dot that is summed along
 * them: `sum(x @ w + b, axis=1)` is the product of x and one column. 16-bit factors stay 16-bit,
 * since their products are exact in f32, and 8-bit integers stay 8-bit, since theirs are exact in
 * i32. Sums without such axes, or too small for a matrix instruction, are left alone. Requires the
 * tensor level. Reassociates the sum; products enter it unrounded. */
#include "ir/build.h"
#include "ir/drop_axis.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/sum_terms.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/computations.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

enum {
    MIN_EDGE = 4,   /* rows, columns, depth that are worth it, where they are known … */
    GOOD_EDGE = 16, /* … and that leave no matrix unit half empty */
    /* Multiply-adds of 16 bits that a matrix unit does while threads do one of f32 (H100: 989
     * and 67 TFLOP/s, both dense): a sum of one factor that is shorter costs less behind the
     * product. */
    NARROW_RATE = 16,
    /* Rows or columns of a product that are summed in its operand: those of fewer are summed where
     * the product's tile is, by the same launch. */
    MIN_SUMMED_EDGE = 512,
};

typedef struct Contract {
    Func *func;
    Computations *all;
} Contract;

/* ---- what is a product ---- */

/* A sum of products. Sets are bits of the axes of `mul`. */
typedef struct Contraction {
    const Compute *sum;
    Op *mul;
    TermAxes axes;
    unsigned unit;   /* axes of one element */
    unsigned window; /* axes that are read together with another one, by `x[p + r]`: of a
                          * window, and as short as it is, or of the places where it lies */
    unsigned taps;   /* axes of a view of windows that are neither images nor channels */
    unsigned rows;   /* axes along which a factor is contiguous in memory */
    int m, n, k;     /* axes */
} Contraction;

/* True if different places along the axes are different indices: `x[p + r]` is no such map, but
 * `x[n * g + i]` of groups of n. */
static bool is_injective(Func *func, const Affine *map)
{
    int nested = 0;
    for (int i = 0; map && i < map->n; i++) {
        for (int k = 0; k < map->n; k++) {
            const Term *inner = &map->terms[k];
            Dim width =
                inner->axis->extent ? poly_mul(func, inner->coef, inner->axis->extent) : NULL;
            nested += width && width == map->terms[i].coef;
        }
    }
    return !map || nested == map->n - 1;
}

/* What the reads of both factors say of the axes. */
static void look_at_reads(Func *func, Contraction *c)
{
    for (size_t i = 0; i < c->sum->uses.n; i++) {
        const Use *use = &c->sum->uses.items[i];
        bool views = use->factors && func_im2col_of(func, use->memory);
        for (int k = 0; use->factors && k < use->rank; k++) {
            unsigned axes = compute_axes_of(c->sum, use->at[k]);
            bool window = (axes & (axes - 1)) && !is_injective(func, use->at[k]);
            c->window |= window ? axes : 0;
            c->taps |= views && k > 0 && k < use->rank - 1 ? axes : 0;
            c->rows |= k == use->rank - 1 && map_as_axis(use->at[k]) ? axes : 0;
        }
    }
}

/* A sum of products that no condition is between: each of its axes is one of the products. */
static bool find_product(Contract *pass, const Op *op, Contraction *c)
{
    const Compute *sum = computations_product(pass->all, op);
    *c = (Contraction){.sum = sum};
    if (!sum || compute_masks_products(sum) || !compute_term_axes(sum, &c->axes)) {
        return false;
    }
    c->mul = sum->term.value->def;
    c->unit = an_all_axes(sum->term.value->type) & ~(c->axes.kept | c->axes.summed);
    look_at_reads(pass->func, c);
    return c->mul->operands[0] != c->mul->operands[1];
}

static bool is_worth(Type type, int axis, int64_t least)
{
    int64_t extent;
    return !poly_is_const(type->dims[axis], &extent) || extent >= least;
}

/* The last such axis; one that is long enough first, then one of `better`. */
static int last_axis(unsigned axes, unsigned better, Type type)
{
    static const int64_t least[] = {GOOD_EDGE, GOOD_EDGE, MIN_EDGE, MIN_EDGE};
    for (int pass = 0; pass < 4; pass++) {
        unsigned wanted = pass % 2 ? axes : axes & better;
        for (int i = type->rank; i-- > 0;) {
            if ((wanted >> i & 1) && is_worth(type, i, least[pass])) {
                return i;
            }
        }
    }
    return -1;
}

/* The axis to contract along: no window's if there is another, and one that is contiguous in
 * memory, whatever the order of the names is in which the program sums. */
static int depth_axis(const Contraction *c, Type type)
{
    unsigned inner = c->axes.summed & c->axes.factors[0] & c->axes.factors[1];
    unsigned plain = inner & ~c->window & ~c->taps;
    int k = last_axis(plain, c->rows, type);
    return k < 0 ? last_axis(inner, c->rows, type) : k;
}

/* Factors in the other order: `w[o, k] * x[m, k]` for y[m, o]. */
static void swap_factors(Contraction *c)
{
    Value *first = c->mul->operands[0];
    int rows = c->m;
    op_set_operand(c->mul, 0, c->mul->operands[1]);
    op_set_operand(c->mul, 1, first);
    c->m = c->n;
    c->n = rows;
}

/* A product may be held either way; the columns are what the result has last, but what is
 * gathered stays where the source has it: only the left factor may pass through registers. */
static bool choose_axes(Contraction *c)
{
    Type type = c->mul->results[0]->type;
    c->m = last_axis(c->axes.kept & c->axes.factors[0] & ~c->axes.factors[1], 0, type);
    c->n = last_axis(c->axes.kept & c->axes.factors[1] & ~c->axes.factors[0], 0, type);
    c->k = depth_axis(c, type);
    bool found = c->m >= 0 && c->n >= 0 && c->k >= 0;
    if (found && c->m > c->n && !c->window) {
        swap_factors(c);
    }
    return found;
}

/* ---- the product ---- */

/* The type that a factor was widened from, if a matrix instruction multiplies it and adds in the
 * factor's type; or the factor's type. */
static DType narrow_type(const Value *value)
{
    static const DType floats[] = {DT_F16, DT_BF16}, integers[] = {DT_I8, DT_U8};
    DType own = value->type->dtype;
    const DType *narrow = dtype_is_float(own) ? floats : integers;
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    DType from = op && op->kind == OP_CAST ? op->operands[0]->type->dtype : own;
    return from == narrow[0] || from == narrow[1] ? from : own;
}

/* True if both factors were widened from one such type. */
static bool is_narrow(const Contraction *c)
{
    const Value *left = c->mul->operands[0];
    DType narrow = narrow_type(left);
    return narrow != left->type->dtype && narrow == narrow_type(c->mul->operands[1]);
}

/* The factor before it was widened. */
static Value *narrowed(Builder *b, Value *value)
{
    const Op *op = value->def;
    if (op->kind == OP_CAST) {
        return op->operands[0];
    }
    Value *operand = narrowed(b, op->operands[0]);
    Type type = type_with_dtype(b->func, value->type, operand->type->dtype);
    Op *copy = build_op(b, op->kind, 1, &operand, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

/* A factor without an axis along which it is constant: in how it is computed, or by the facts
 * alone, as `k[h * G // H]` where G is 1. */
static Value *without_axis(Builder *b, Value *value, int axis)
{
    bool varies = an_varies(NULL, value) >> axis & 1;
    return varies ? axis_taken(b, value, axis, build_i64(b, 0)) : axis_dropped(b, value, axis);
}

/* A factor over batches, then two axes; `other`: the axis that it does not have. */
static Value *factor(Builder *b, const Contraction *c, int which, const int *batches, int n)
{
    Value *value = c->mul->operands[which];
    int other = which ? c->m : c->n;
    int first = which ? c->k : c->m, second = which ? c->n : c->k;
    int64_t perm[MAX_RANK];
    value = is_narrow(c) ? narrowed(b, value) : value;
    value = without_axis(b, value, other);
    bool ordered = true;
    for (int i = 0; i < n + 2; i++) {
        int axis = second;
        if (i < n) {
            axis = batches[i];
        } else if (i == n) {
            axis = first;
        }
        perm[i] = axis - (axis > other);
        ordered = ordered && perm[i] == i;
    }
    return ordered ? value : build_permute(b, value, perm);
}

/* A value over these axes of the products as the sum has it: one element along axes that are
 * summed, unless they were dropped. */
static Value *restored(Builder *b, const Contraction *c, Value *value, const int *axes, int n)
{
    const Axis *kept[MAX_RANK];
    int n_kept = 0;
    for (int i = n; i-- > 0;) {
        bool is_kept = c->axes.kept >> axes[i] & 1;
        value = is_kept ? value : build_squeeze(b, value, i);
    }
    for (int i = 0; i < n; i++) {
        if (c->axes.kept >> axes[i] & 1) {
            kept[n_kept++] = map_as_axis(c->sum->term.at[axes[i]]);
        }
    }
    return reindex_restored(b, c->sum, value, kept);
}

/* ---- sums of one factor ---- */

/* The summed axes along which one factor alone varies, where that factor is to be summed first:
 * sum(k, p) a[m, k, p] * w[k, n] is sum(k) (sum(p) a[m, k, p]) * w[k, n]. Not where nothing is left
 * to contract, where the factor is a view that only the copy engine can read, where narrow factors
 * would become factors of 32 bits for a short axis, and where few rows or columns are summed that
 * the product's tile has anyway. */
static unsigned summed_first(const Contraction *c)
{
    Type type = c->mul->results[0]->type;
    unsigned left = c->axes.factors[0], right = c->axes.factors[1], kept = c->axes.kept;
    unsigned of_one = c->axes.summed & (left ^ right);
    unsigned rows = kept & left & ~right, columns = kept & right & ~left;
    bool multiplies = (left & ~right) && (right & ~left) && (c->axes.summed & left & right);
    if (!multiplies || c->taps) {
        return 0;
    }
    int64_t most = 1;
    for (int i = 0; i < type->rank; i++) {
        bool counts = of_one >> i & 1;
        if (counts && __builtin_mul_overflow(most, poly_most(type->dims[i]), &most)) {
            most = INT64_MAX;
        }
    }
    bool is_short = rows && columns ? is_narrow(c) && most < NARROW_RATE : most < MIN_SUMMED_EDGE;
    return is_short ? 0 : of_one;
}

/* A factor, summed along those of the axes along which it varies, over all axes but these. */
static Value *factor_summed(Builder *b, Value *factor, unsigned varies, unsigned first)
{
    Type type = factor->type;
    Value *value = factor;
    for (int i = type->rank; i-- > 0;) {
        value = varies >> i & 1 ? value : without_axis(b, value, i);
    }
    for (int i = type->rank; i-- > 0;) {
        if (varies & first & 1u << i) {
            int at = __builtin_popcount(varies & ((1u << i) - 1));
            value = build_squeeze(b, build_reduce(b, "sum", value, at), at);
        }
    }
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        if (!(first >> i & 1)) {
            value = varies >> i & 1 ? value : build_expand(b, value, rank);
            dims[rank++] = type->dims[i];
        }
    }
    return build_broadcast(b, value, rank, dims);
}

/* Sums each such axis in the factor that has it. Returns the last sum of the product that is
 * left. */
static Op *sum_factors(Contract *pass, Op *op, const Contraction *c, unsigned first)
{
    Builder b = build_before(pass->func, op);
    Value *factors[2];
    int axes[MAX_RANK], n = 0;
    for (int i = 0; i < 2; i++) {
        Value *factor = c->mul->operands[i];
        factors[i] = factor_summed(&b, factor, c->axes.factors[i] | c->unit, first);
    }
    Value *value = build_binary(&b, OP_MUL, factors[0], factors[1]);
    for (int i = c->mul->results[0]->type->rank; i-- > 0;) {
        if ((c->axes.summed & ~first) >> i & 1) {
            int gone = __builtin_popcount(first & ((1u << i) - 1));
            value = build_reduce(&b, "sum", value, i - gone);
        }
    }
    Op *last = value->def;
    for (int i = 0; i < c->mul->results[0]->type->rank; i++) {
        if (!(first >> i & 1)) {
            axes[n++] = i;
        }
    }
    value = restored(&b, c, value, axes, n);
    value->name = op->results[0]->name;
    func_replace_uses(pass->func, op->results[0], value);
    return last;
}

/* ---- sums of a product's rows or columns ---- */

/* True if the op is a product that the sum alone reads, and sums along its rows or columns. */
static bool sums_edge(Func *func, const Op *sum, const Value *term)
{
    const Op *dot = term->def;
    int rank = term->type->rank, axis = (int)op_int(sum, ATTR_AXIS, 0);
    return dot && dot->kind == OP_DOT && dot->n_operands == 2 && dot->n_attrs == 0 &&
           dtype_is_float(term->type->dtype) && value_only_user(func, term) && axis >= rank - 2 &&
           poly_nominal(term->type->dims[axis]) >= MIN_SUMMED_EDGE &&
           dot->operands[0]->type->rank == rank && dot->operands[1]->type->rank == rank;
}

/* The product of one operand with the other one, of which the rows or columns have been summed. */
static Value *dot_of_sum(Builder *b, const Op *dot, int axis)
{
    DType dtype = dot->results[0]->type->dtype;
    int side = axis == dot->results[0]->type->rank - 1;
    Value *operands[2];
    for (int i = 0; i < 2; i++) {
        operands[i] = build_cast(b, dot->operands[i], dtype);
    }
    operands[side] = build_reduce(b, "sum", operands[side], axis);
    return build_dot(b, operands[0], operands[1], NULL, dtype);
}

/* The number by which a value is multiplied that nothing else reads, and the value; or NULL. */
static const Attr *take_number(Func *func, const Value **value)
{
    const Op *op = (*value)->def;
    const Attr *number = op && op->kind == OP_MUL ? value_const(op->operands[1]) : NULL;
    if (!number || !value_only_user(func, *value)) {
        return NULL;
    }
    *value = op->operands[0];
    return number;
}

static bool is_summed_further(Func *func, const Op *sum)
{
    const Op *user = value_only_user(func, sum->results[0]);
    while (user && op_moves_axes(user)) {
        user = value_only_user(func, user->results[0]);
    }
    return user && op_is_sum(user);
}

/* Sums the operand that has the summed axis of a product, and what is added to the product by
 * itself: sum(n) (a[m, k] @ b[k, n] + c[n]) is a[m, k] @ sum(n) b[k, n] + sum(n) c[n]. */
static void sum_operand(Contract *pass, Op *sum)
{
    Func *func = pass->func;
    const Value *term = sum->operands[0];
    const Attr *number = take_number(func, &term);
    const Op *add = term->def && term->def->kind == OP_ADD ? term->def : NULL;
    int axis = (int)op_int(sum, ATTR_AXIS, 0);
    Value *other = NULL;
    if (add && value_only_user(func, term)) {
        int side = sums_edge(func, sum, add->operands[1]);
        term = add->operands[side];
        other = add->operands[1 - side];
    }
    unsigned varies = other ? an_varies(NULL, other) : 1u << axis;
    if (is_summed_further(func, sum) || !sums_edge(func, sum, term) || !(varies >> axis & 1)) {
        return;
    }
    Builder b = build_before(func, sum);
    Value *total = dot_of_sum(&b, term->def, axis);
    if (other) {
        Value *rest = build_expand(&b, factor_summed(&b, other, varies, 1u << axis), axis);
        total = build_binary(&b, OP_ADD, total, rest);
    }
    total = number ? build_binary(&b, OP_MUL, total, build_float(&b, total->type, number->f))
                   : total;
    total->name = sum->results[0]->name;
    func_replace_uses(func, sum->results[0], total);
}

static void contract_op(Contract *pass, Op *op)
{
    Func *func = pass->func;
    Contraction c;
    int axes[MAX_RANK], n = 0;
    if (!find_product(pass, op, &c)) {
        return;
    }
    unsigned first = summed_first(&c);
    if (first) {
        contract_op(pass, sum_factors(pass, op, &c, first));
        return;
    }
    if (!choose_axes(&c)) {
        return;
    }
    for (int summed = 0; summed < 2; summed++) { /* the summed ones last */
        for (int i = 0; i < c.mul->results[0]->type->rank; i++) {
            if (i != c.m && i != c.n && i != c.k && (int)(c.axes.summed >> i & 1) == summed) {
                axes[n++] = i;
            }
        }
    }
    Builder b = build_before(func, op);
    Value *left = factor(&b, &c, 0, axes, n), *right = factor(&b, &c, 1, axes, n);
    Value *sum = build_dot(&b, left, right, NULL, c.mul->results[0]->type->dtype);
    for (int i = n; i-- > 0;) {
        sum = c.axes.summed >> axes[i] & 1 ? build_reduce(&b, "sum", sum, i) : sum;
    }
    axes[n] = c.m;
    axes[n + 1] = c.n;
    sum = restored(&b, &c, sum, axes, n + 2);
    sum->name = op->results[0]->name;
    func_replace_uses(func, op->results[0], sum);
}

void pass_raise_to_dot(Func *func)
{
    Contract pass = {func, computations_open(func)};
    /* The outermost sum of several comes last, and takes the others with it. */
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        contract_op(&pass, op);
        if (op_is_sum(op)) {
            sum_operand(&pass, op);
        }
    }
    computations_close(pass.all);
    func_remove_dead(func);
}
