/* SPDX-License-Identifier: Apache-2.0 */
/* fold_exp2_scale: folds the scale and the maximum of attention scores into one FMA before exp2.
 *
 *   %s = mul %d, %c                         %w = if (0 < c < inf) { mul (reduce %d fn=max), c }
 *   %w = reduce %s fn=max axis=1     →           else { reduce (mul %d, c) fn=max }
 *   %y = mul (sub %s, %v), k                %y = fma %d, c * k, -(%v * k)
 *   %p = fast_exp2 %y                       %p = fast_exp2 %y
 *
 *   %y = mul (fma %d, %c, %v), k            %y = fma %d, c * k, %v * k
 *   %y = mul (sub (mul %d, %c), %v), k      %y = fma %d, c * k, -(%v * k)
 *
 * %d is the result of a dot, %c is one number, %v a value of the row that is at least %w. The
 * maximum of scaled scores is the scaled maximum of the scores: rounding is monotonic, so %w has
 * the same bits. Scores may also be shifted by a finite number, fma %d, %c, %e: %w is shifted
 * likewise, and %y is fma %d, c * k, (%e - %v) * k. %y gets the rounding errors of %v * k and of
 * c * k, 2^-24 relative: less than the error bound of the scores, 2^-24 times the terms of their
 * sums, which the bound of the result already contains. If the scores are not scaled, or another
 * op reads them, only the difference becomes an FMA. Requires: tile. Changes the low bits of an
 * approximate op's argument, within the bound that the interpreter computes. */
#include "ir/build.h"
#include "ir/memo.h"
#include "passes/pass.h"

#include <math.h>

static bool find_product(Memo *seen, const Value *value, int depth)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || depth > 12 || memo_known(seen, value, depth, &found)) {
        return false; /* where it was seen: or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    if (op->kind == OP_DOT) {
        return true;
    }
    for (int i = 0; i < op->n_operands && op->kind != OP_LOAD && op->n_regions == 0; i++) {
        if (find_product(seen, op->operands[i], depth + 1)) {
            return true;
        }
    }
    return false;
}

static bool from_product(const Value *value)
{
    Memo *seen = memo_about(value);
    bool found = find_product(seen, value, 0);
    memo_close(seen);
    return found;
}

/* -(row * k), or (shift - row) * k, spread over the tile. k is a constant: 1 / ln 2, mostly. */
static Value *row_shift(Builder *b, Value *row, Value *shift, double k, Type tile)
{
    Value *by = build_float(b, row->type, k);
    Value *less = shift ? build_broadcast(b, shift, row->type->rank, row->type->dims) : NULL;
    Value *sum = less ? build_binary(b, OP_MUL, build_binary(b, OP_SUB, less, row), by)
                      : build_unary(b, OP_NEG, build_binary(b, OP_MUL, row, by));
    return build_broadcast(b, sum, tile->rank, tile->dims);
}

static Value *build_scaled(Builder *b, Value *value, double k, Type tile)
{
    value = build_binary(b, OP_MUL, value, build_float(b, value->type, k));
    return build_broadcast(b, value, tile->rank, tile->dims);
}

/* Scores times one number, and a number more. */
typedef struct Scale {
    Value *plain;
    Value *factor; /* the number, or the constant array of it */
    Value *shift;  /* NULL: none */
} Scale;

static Value *scalar_of(const Value *value)
{
    const Op *spread = value_def_of_kind(value, OP_BROADCAST);
    return spread && type_is_scalar(spread->operands[0]->type) ? spread->operands[0] : NULL;
}

/* False: it is something else. */
static bool find_scale(const Value *scores, Scale *scale)
{
    const Op *op = scores->def;
    bool fused = op && op->kind == OP_FMA;
    if (!op || (op->kind != OP_MUL && !fused) || !from_product(op->operands[0])) {
        return false;
    }
    Value *scalar = scalar_of(op->operands[1]), *factor = scalar;
    if (!scalar && value_const(op->operands[1])) {
        factor = op->operands[1];
    }
    *scale = (Scale){op->operands[0], factor, fused ? scalar_of(op->operands[2]) : NULL};
    return scale->factor && (!fused || (scalar && scale->shift));
}

static Op *row_maximum(const Value *scores)
{
    for (Op *op = scores->def->next; op; op = op->next) {
        if (op->kind == OP_REDUCE && op->operands[0] == scores &&
            text_equal(op_word(op, ATTR_FN), "max")) {
            return op;
        }
    }
    return NULL;
}

static Value *build_between(Builder *b, Value *c, double lo)
{
    Value *low = build_float(b, c->type, lo), *inf = build_float(b, c->type, INFINITY);
    Value *finite = build_cmp(b, "lt", c, inf);
    return build_binary(b, OP_AND, build_cmp(b, "gt", c, low), finite);
}

/* Constants are known to be in range or not. */
static void unscale_by_const(Func *func, Op *reduce, Value *plain, double c)
{
    Builder b = build_before(func, reduce);
    Value *greatest = build_reduce(&b, "max", plain, (int)op_int(reduce, ATTR_AXIS, 0));
    op_inherit_over(func, greatest->def, reduce);
    greatest = build_binary(&b, OP_MUL, greatest, build_float(&b, greatest->type, c));
    greatest->name = reduce->results[0]->name;
    func_replace_uses(func, reduce->results[0], greatest);
    op_remove(reduce);
}

static Value *build_scores(Builder *b, Value *plain, const Scale *scale)
{
    Type type = plain->type;
    Value *factor = build_broadcast(b, scale->factor, type->rank, type->dims);
    return scale->shift ? build_fma(b, plain, factor,
                                    build_broadcast(b, scale->shift, type->rank, type->dims))
                        : build_binary(b, OP_MUL, plain, factor);
}

/* The maximum of scaled scores, without scaling each where the factor allows. */
static void unscale_maximum(Func *func, Op *reduce, const Scale *scale)
{
    Builder b = build_before(func, reduce);
    Type row = reduce->results[0]->type;
    int axis = (int)op_int(reduce, ATTR_AXIS, 0);
    Value *good = build_between(&b, scale->factor, 0);
    if (scale->shift) {
        good = build_binary(&b, OP_AND, good, build_between(&b, scale->shift, -INFINITY));
    }
    Op *branch = build_op(&b, OP_IF, 1, &good, 1, &row, 2);
    Builder yes = build_at_end(func, branch->regions[0]),
            no = build_at_end(func, branch->regions[1]);
    Value *greatest = build_reduce(&yes, "max", scale->plain, axis);
    op_inherit_over(func, greatest->def, reduce);
    greatest = build_scores(&yes, greatest, scale);
    build_yield(&yes, 1, &greatest);
    Value *other = build_reduce(&no, "max", build_scores(&no, scale->plain, scale), axis);
    op_inherit_over(func, other->def, reduce);
    build_yield(&no, 1, &other);
    branch->results[0]->name = reduce->results[0]->name;
    func_replace_uses(func, reduce->results[0], branch->results[0]);
    op_remove(reduce);
}

/* Scores that only their row's maximum and one difference read need not be scaled by themselves. */
static bool unscale(Func *func, Op *op, const Op *shifted, double k, Value *row)
{
    Value *scores = shifted->operands[0];
    Scale scale;
    Op *reduce = find_scale(scores, &scale) ? row_maximum(scores) : NULL;
    const Attr *number = reduce ? value_const(scale.factor) : NULL;
    if (!reduce || value_count_uses(func, scores) != 2 ||
        (number && !(number->f > 0 && number->f < INFINITY))) {
        return false;
    }
    Builder b = build_before(func, op);
    Type tile = op->results[0]->type;
    Value *factor =
        number ? build_float(&b, tile, number->f * k) : build_scaled(&b, scale.factor, k, tile);
    op_set_operand(op, 0,
                   build_fma(&b, scale.plain, factor, row_shift(&b, row, scale.shift, k, tile)));
    if (number) {
        unscale_by_const(func, reduce, scale.plain, number->f);
    } else {
        unscale_maximum(func, reduce, &scale);
    }
    return true;
}

/* What `%c` or `%v` is before it is spread over the tile; NULL: each element has its own. */
static Value *spread_from(const Value *value)
{
    const Op *spread = value_def_of_kind(value, OP_BROADCAST);
    return spread ? spread->operands[0] : NULL;
}

/* Scores that are scaled and then shifted by what is known beforehand (the logarithm of a row's
 * sum), in one step (`fma`) or in two (`sub`): the constant goes into both. Where they cancel, the
 * scores are as large as the shift, and their bound covers the rounding of it, too. */
static bool contract_known(Func *func, Op *op, const Op *shifted, double k)
{
    bool fused = shifted->kind == OP_FMA;
    Value *shift = spread_from(shifted->operands[fused ? 2 : 1]);
    Scale scale = {0};
    if (fused) {
        Value *c = spread_from(shifted->operands[1]);
        scale = (Scale){shifted->operands[0], c && type_is_scalar(c->type) ? c : NULL, NULL};
    } else if (!find_scale(shifted->operands[0], &scale) || scale.shift ||
               value_count_uses(func, shifted->operands[0]) != 1) {
        return false;
    }
    if (!scale.factor || !shift || !from_product(scale.plain) ||
        value_count_uses(func, shifted->results[0]) != 1) {
        return false;
    }
    Builder b = build_before(func, op);
    Type tile = op->results[0]->type;
    const Attr *number = value_const(scale.factor);
    Value *factor =
        number ? build_float(&b, tile, number->f * k) : build_scaled(&b, scale.factor, k, tile);
    Value *by = fused ? build_scaled(&b, shift, k, tile) : row_shift(&b, shift, NULL, k, tile);
    op_set_operand(op, 0, build_fma(&b, scale.plain, factor, by));
    return true;
}

static void contract(Op *op, void *user)
{
    Func *func = user;
    const Op *scaled = op->kind == OP_FAST_EXP2 ? value_def_of_kind(op->operands[0], OP_MUL) : NULL;
    const Op *factor = scaled ? value_def_of_kind(scaled->operands[1], OP_CONST) : NULL;
    const Op *fused = factor ? value_def_of_kind(scaled->operands[0], OP_FMA) : NULL;
    if (fused && contract_known(func, op, fused, op_attr(factor, ATTR_VALUE)->f)) {
        return;
    }
    const Op *shifted = factor ? value_def_of_kind(scaled->operands[0], OP_SUB) : NULL;
    const Op *spread = shifted ? value_def_of_kind(shifted->operands[1], OP_BROADCAST) : NULL;
    Type tile = op->n_results ? op->results[0]->type : NULL;
    if (!spread || spread->operands[0]->type->rank != tile->rank) {
        return;
    }
    double k = op_attr(factor, ATTR_VALUE)->f;
    if (!from_product(spread->operands[0])) {
        contract_known(func, op, shifted, k);
    } else if (!unscale(func, op, shifted, k, spread->operands[0])) {
        Builder b = build_before(func, op);
        Value *shift = row_shift(&b, spread->operands[0], NULL, k, tile);
        op_set_operand(op, 0, build_fma(&b, shifted->operands[0], scaled->operands[1], shift));
    }
}

void pass_fold_exp2_scale(Func *func)
{
    func_walk(func, contract, func);
    func_remove_dead(func);
}
