/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of ops that move axes, reduce, multiply matrices, scan and sort. All of them are
 * linear except max, min and prod: elements that share a maximum or minimum get equal parts of the
 * gradient, and each factor of a prod gets the product of the others, also where one factor is
 * 0. */
#include "ir/op_axes.h"
#include "passes/analysis/computations.h"
#include "passes/derive/derive_sweep.h"

static Value *stretched(Derive *d, Value *value, Type type)
{
    return build_broadcast(&d->b, value, type->rank, type->dims);
}

bool derive_axes(Derive *d, const Op *op, Value *g)
{
    int64_t inverse[MAX_RANK];
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    switch (op->kind) {
    case OP_BROADCAST: g = derive_sum_to(&d->b, g, op->operands[0]->type); break;
    case OP_EXPAND: g = build_squeeze(&d->b, g, axis); break;
    case OP_SQUEEZE: g = build_expand(&d->b, g, axis); break;
    case OP_PERMUTE:
        for (int i = 0; i < g->type->rank; i++) {
            inverse[op_attr(op, ATTR_PERM)->ints[i]] = i;
        }
        g = build_permute(&d->b, g, inverse);
        break;
    default: return false;
    }
    derive_add(d, op->operands[0], g);
    return true;
}

/* ---- reductions ---- */

/* The elements that equal the extreme share its gradient. */
static Value *shared_by_ties(Derive *d, const Op *op, Value *g)
{
    Value *x = op->operands[0];
    Value *is_extreme = build_cmp(&d->b, "eq", x, stretched(d, op->results[0], x->type));
    Value *one = build_float(&d->b, type_with_dtype(d->func, x->type, g->type->dtype), 1);
    Value *ties = build_select(&d->b, is_extreme, one, derive_number(d, one, 0));
    Value *count = build_reduce(&d->b, "sum", ties, (int)op_int(op, ATTR_AXIS, 0));
    Value *share = stretched(d, build_binary(&d->b, OP_DIV, g, count), x->type);
    return build_select(&d->b, is_extreme, share, derive_number(d, share, 0));
}

/* The product of all others: of those before it, and of those after it. */
static Value *product_of_others(Derive *d, const Op *op, Value *g)
{
    Value *x = op->operands[0];
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Value *before = build_scan(&d->b, "prod", x, axis, false, true);
    Value *after = build_scan(&d->b, "prod", x, axis, true, true);
    Value *others = build_binary(&d->b, OP_MUL, before, after);
    return build_binary(&d->b, OP_MUL, stretched(d, g, x->type), others);
}

/* The type that a value was widened from, whatever moves or masks its elements; or its own. */
static DType widened_from(const Value *value)
{
    const Op *op = value->def;
    while (op && (op_moves_axes(op) ||
                  (op->kind == OP_SELECT && value_is_const(op->operands[2], 0)))) {
        op = op->operands[op->kind == OP_SELECT]->def;
    }
    return op && op->kind == OP_CAST ? op->operands[0]->type->dtype : value->type->dtype;
}

/* The 16 bits in which both factors of a product of matrices are, which the op sums; else f32. */
static DType matrix_dtype(Derive *d, const Op *op)
{
    Computations *all = computations_open(d->func);
    const Compute *sum = computations_product(all, op);
    DType dtype = DT_F32;
    TermAxes axes;
    if (sum && compute_term_axes(sum, &axes)) {
        unsigned left = axes.factors[0], right = axes.factors[1];
        const Op *mul = sum->term.value->def;
        DType of_left = widened_from(mul->operands[0]);
        bool narrow = dtype_bits(of_left) == 16 && of_left == widened_from(mul->operands[1]);
        bool matrices = (axes.kept & left & ~right) && (axes.kept & right & ~left) &&
                        (axes.summed & left & right);
        dtype = narrow && matrices ? of_left : DT_F32;
    }
    computations_close(all);
    return dtype;
}

/* The gradient of a sum, rounded where the sum is a product of matrices of 16 bits: as that of a
 * dot it is multiplied in the type of the factors. */
static Value *gradient_of_sum(Derive *d, const Op *op, Value *g)
{
    DType dtype = g->type->dtype == DT_F32 ? matrix_dtype(d, op) : DT_F32;
    if (dtype == DT_F32 || widened_from(g) == dtype) {
        return g;
    }
    return build_cast(&d->b, build_cast(&d->b, g, dtype), DT_F32);
}

static void derive_reduce(Derive *d, const Op *op, Value *g)
{
    Value *x = op->operands[0];
    const char *fn = op_word(op, ATTR_FN);
    Value *share;
    if (text_equal(fn, "sum")) {
        share = stretched(d, gradient_of_sum(d, op, g), x->type);
    } else if (text_equal(fn, "prod")) {
        share = product_of_others(d, op, g);
    } else {
        share = shared_by_ties(d, op, g);
    }
    derive_add(d, x, share);
}

static bool derive_scan(Derive *d, const Op *op, Value *g)
{
    bool reverse = op_int(op, ATTR_REVERSE, 0) != 0;
    if (!text_equal(op_word(op, ATTR_FN), "sum")) {
        return false;
    }
    derive_add(d, op->operands[0],
               build_scan(&d->b, "sum", g, (int)op_int(op, ATTR_AXIS, 0), !reverse,
                          op_int(op, ATTR_EXCLUSIVE, 0) != 0));
    return true;
}

/* ---- products ---- */

static Value *transposed(Derive *d, Value *value)
{
    int64_t perm[MAX_RANK];
    int rank = value->type->rank;
    for (int i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    return build_permute(&d->b, value, perm);
}

/* The type in which the gradient is multiplied with a factor: that of the factor, so that the same
 * matrix instruction does it; 8 bits are too few for a gradient. */
static DType factor_dtype(DType dtype)
{
    return dtype_bits(dtype) == 8 ? DT_BF16 : dtype;
}

/* In this type; what was widened from it is taken as it was. */
static Value *rounded(Derive *d, Value *value, DType dtype)
{
    const Op *def = value->def;
    if (def && def->kind == OP_CAST && def->operands[0]->type->dtype == dtype) {
        return def->operands[0];
    }
    return build_cast(&d->b, value, dtype);
}

/* a @ c of a gradient and a factor, rounded as `like`, the factor of the product, was. */
static Value *product(Derive *d, Value *a, Value *c, const Value *like)
{
    DType dtype = factor_dtype(like->type->dtype);
    bool tf32 = like->def && like->def->kind == OP_TF32;
    Value *left = rounded(d, a, dtype), *right = rounded(d, c, dtype);
    if (tf32) {
        left = build_unary(&d->b, OP_TF32, left);
        right = build_unary(&d->b, OP_TF32, right);
    }
    return build_dot(&d->b, left, right, NULL, derive_dtype(dtype));
}

static void derive_dot(Derive *d, const Op *op, Value *g)
{
    Value *a = op->operands[0], *c = op->operands[1];
    if (derive_is_active(d, a)) {
        derive_add(d, a, product(d, g, transposed(d, c), c));
    }
    if (derive_is_active(d, c)) {
        derive_add(d, c, product(d, transposed(d, a), g, a));
    }
    if (dot_accumulator(op)) {
        derive_add(d, dot_accumulator(op), g);
    }
}

/* ---- sorts and extremes with their index ---- */

/* Element i went to where the sort of the indices finds it. */
static void derive_sort(Derive *d, const Op *op)
{
    Value *g = derive_gradient(d, op->results[0]);
    Value *places = build_sort(&d->b, op->results[1], false)->results[1];
    Value *indices[MAX_RANK];
    Type type = op->results[0]->type;
    for (int i = 0; i < type->rank; i++) {
        indices[i] = i == type->rank - 1 ? places : derive_iota_along(d, places->type, i);
    }
    derive_add(d, op->operands[0], build_gather(&d->b, g, indices));
}

/* The extreme value's gradient goes to the element of its index. */
static bool derive_fold(Derive *d, const Op *op)
{
    Value *x = op->operands[0], *g = derive_gradient(d, op->results[0]);
    if (!op_word(op, ATTR_ARG) || op_int(op, ATTR_SCAN, 0)) {
        return derive_function_fold(d, op);
    }
    Value *here = build_cmp(&d->b, "eq", op->operands[1], stretched(d, op->results[1], x->type));
    Value *all = stretched(d, g, x->type);
    derive_add(d, x, build_select(&d->b, here, all, derive_number(d, all, 0)));
    return true;
}

bool derive_reduction(Derive *d, const Op *op, Value *g)
{
    switch (op->kind) {
    case OP_REDUCE: derive_reduce(d, op, g); return true;
    case OP_SCAN: return derive_scan(d, op, g);
    case OP_DOT: derive_dot(d, op, g); return true;
    case OP_SORT: derive_sort(d, op); return true;
    case OP_FOLD: return derive_fold(d, op);
    default: return false;
    }
}
