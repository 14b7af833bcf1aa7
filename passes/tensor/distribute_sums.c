/* SPDX-License-Identifier: Apache-2.0 */
/* distribute_sums: splits a sum whose terms add several products into one sum per product.
 *
 *   %p = mul %c, %d : f32[M, N, K]            %p = mul %a, %b : f32[M, N, K]
 *   %n = neg %p : f32[M, N, K]                %q = mul %c, %d : f32[M, N, K]
 *   %t = fma %a, %b, %n : f32[M, N, K]   →    %r = reduce %p fn=sum axis=2
 *   %s = reduce %t fn=sum axis=2              %t = reduce %q fn=sum axis=2
 *                                             %s = sub %r, %t : f32[M, N, 1]
 *
 * `sum(k in K) (a[i, k] * b[k, j] - c[i, k] * d[k, j])`, the real part of a product of complex
 * matrices, is the difference of two products of matrices, which fuse computes in one launch. Each
 * product keeps the conditions of the terms. Nothing changes unless every product is a matrix
 * product with axes m, n and k. A factor that is a sum, `(a + b) * w`, is not distributed: its
 * parts may cancel, and the difference would then have the rounding errors of the parts. Requires
 * the tensor level. Reassociates the sum. */
#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "ir/sum_terms.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/pass.h"

enum { MIN_EDGE = 4 }; /* rows, columns and depth that are worth a matrix product, where known */

/* True if the axes hold that many elements. */
static bool is_worth(Type type, unsigned axes)
{
    double n = axes ? 1 : 0;
    for (int i = 0; i < type->rank; i++) {
        n *= axes >> i & 1 ? (double)poly_nominal(type->dims[i]) : 1;
    }
    return n >= MIN_EDGE;
}

static bool is_matrix_product(Memo *varies, const Addend *product, unsigned summed)
{
    Type type = product->factors[0]->type;
    unsigned left = an_varies(varies, product->factors[0]);
    unsigned right = an_varies(varies, product->factors[1]);
    return is_worth(type, left & ~right & ~summed) && is_worth(type, right & ~left & ~summed) &&
           is_worth(type, left & right & summed);
}

/* The ops from the term to the outermost sum once more, of another term. */
static Value *sum_of_sums(Builder *b, const SumNest *nest, const Value *term, Value *product)
{
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, term, product);
    for (const Value *value = term; value != nest->outermost->results[0];) {
        const Op *user = value_only_user(b->func, value);
        clone_op(b, &map, user);
        value = user->results[0];
    }
    return clone_get(&map, nest->outermost->results[0]);
}

static void distribute(Func *func, const SumNest *nest, const Value *term, const Addends *products)
{
    Builder b = build_before(func, nest->outermost);
    Value *total = NULL;
    for (int i = 0; i < products->n; i++) {
        const Addend *product = &products->items[i];
        Value *value = build_binary(&b, OP_MUL, product->factors[0], product->factors[1]);
        value = sum_of_sums(&b, nest, term, value);
        if (!total) {
            total = product->negative ? build_unary(&b, OP_NEG, value) : value;
        } else {
            total = build_binary(&b, product->negative ? OP_SUB : OP_ADD, total, value);
        }
    }
    total->name = nest->outermost->results[0]->name;
    func_replace_uses(func, nest->outermost->results[0], total);
}

static void distribute_sum(Func *func, Memo *varies, Op *sum)
{
    const Value *term = sum->operands[0];
    while (term->def && term->def->kind == OP_SELECT && value_is_const(term->def->operands[2], 0) &&
           value_only_user(func, term)) {
        term = term->def->operands[1];
    }
    Addends products;
    if (!value_addends(func, term, &products)) {
        return;
    }
    SumNest nest = sum_nest(func, sum);
    for (int i = 0; i < products.n; i++) {
        if (!is_matrix_product(varies, &products.items[i], nest.summed)) {
            return;
        }
    }
    distribute(func, &nest, term, &products);
}

void pass_distribute_sums(Func *func)
{
    Memo *varies = an_varies_all(func);
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        if (op_is_sum(op)) {
            distribute_sum(func, varies, op);
        }
    }
    memo_close(varies);
    func_remove_dead(func);
}
