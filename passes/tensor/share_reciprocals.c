/* SPDX-License-Identifier: Apache-2.0 */
/* share_reciprocals: replaces a division by a divisor that several elements share by a
 * multiplication with its reciprocal.
 *
 *   %l = reduce %e fn=sum axis=1 : f32[M, 1]     %r = div 1, %l : f32[M, 1]
 *   %d = broadcast %l : f32[M, N]            →   %d = broadcast %r : f32[M, N]
 *   %q = div %e, %d                              %q = mul %e, %d
 *   %y = cast %q : bf16[M, N]                    %y = cast %q : bf16[M, N]
 *
 * A correctly rounded division takes ten or more instructions per element, and further code for the
 * few operands that need the slow path: for a dot's tile with a softmax behind it, that code
 * exceeds the instruction cache. The replacement is made if the quotient is computed from sums,
 * whose error it has anyway, and rounded to 16 bits or fewer. The reciprocal of a divisor below
 * 2^-128 would be infinite, so both operands are multiplied by 2^64 first if the divisor is less
 * than 2^-100. The reciprocal of 2^128 still has 21 bits. The reciprocal of a constant is a
 * constant, which other passes fold into other factors; a dot is multiplied by it regardless of
 * what follows, as docs/language.md permits for sums. Requires the tensor level and a GPU. Changes
 * bits within the bound that the interpreter computes (2^-21 of the quotient). */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/rounded_sums.h"
#include "passes/pass.h"

#include <math.h>

typedef struct Divisions {
    Func *func;
    Op **items;
    size_t n, cap;
} Divisions;

/* What the divisors are a repetition of; NULL: each element has its own, or all have a number. */
static Value *shared_divisor(const Op *op)
{
    Value *divisor = op->kind == OP_DIV ? op->operands[1] : NULL;
    const Op *spread = divisor && divisor->type->kind == TYPE_ARRAY ? divisor->def : NULL;
    bool shares = spread && spread->kind == OP_BROADCAST && divisor->type->dtype == DT_F32 &&
                  !value_const(op->operands[0]) && !value_const(spread->operands[0]);
    return shares ? spread->operands[0] : NULL;
}

/* The number that all elements are divided by, if its reciprocal is a normal one; else 0. */
static double common_divisor(const Op *op)
{
    bool divides = op->kind == OP_DIV && op->results[0]->type->dtype == DT_F32;
    const Attr *by = divides ? value_const(value_unstretched(op->operands[1])) : NULL;
    double size = by && !value_const(value_unstretched(op->operands[0])) ? fabs(by->f) : 0;
    return size >= 0x1p-100 && size <= 0x1p100 ? by->f : 0;
}

/* True if the value is a product of matrices, moved, or times a number. */
static bool is_product(const Value *value)
{
    const Op *op = value->def;
    while (op && (op_moves_axes(op) || op->kind == OP_MUL)) {
        bool scaled = op->kind == OP_MUL;
        op = scaled && !value_const(value_unstretched(op->operands[1])) ? NULL
                                                                        : op->operands[0]->def;
    }
    return op && op->kind == OP_DOT;
}

static void collect(Op *op, void *user)
{
    Divisions *all = user;
    if (shared_divisor(op) || common_divisor(op) != 0) {
        ARENA_PUSH(all->func->arena, all, op);
    }
}

static void replace(Func *func, Op *op, Value *quotient)
{
    quotient->name = op->results[0]->name;
    func_replace_uses(func, op->results[0], quotient);
    op_remove(op);
}

static void multiply(Func *func, Op *op)
{
    Builder b = build_before(func, op);
    b.span = op->span;
    Value *reciprocal = build_float(&b, op->results[0]->type, (float)(1 / common_divisor(op)));
    replace(func, op, build_binary(&b, OP_MUL, op->operands[0], reciprocal));
}

static void share(Func *func, Op *op)
{
    Builder b = build_before(func, op);
    b.span = op->span;
    Value *divisor = shared_divisor(op);
    Type small = divisor->type, type = op->results[0]->type;
    Value *size = build_unary(&b, OP_ABS, divisor), *least = build_float(&b, small, 0x1p-100);
    Value *is_small = build_cmp(&b, "lt", size, least);
    Value *one = build_float(&b, small, 1), *large = build_float(&b, small, 0x1p64);
    Value *scale = build_select(&b, is_small, large, one);
    Value *moderate = build_binary(&b, OP_MUL, divisor, scale);
    Value *reciprocal = build_binary(&b, OP_DIV, one, moderate);
    Value *scales = build_broadcast(&b, scale, type->rank, type->dims);
    Value *scaled = build_binary(&b, OP_MUL, op->operands[0], scales);
    Value *reciprocals = build_broadcast(&b, reciprocal, type->rank, type->dims);
    replace(func, op, build_binary(&b, OP_MUL, scaled, reciprocals));
}

void pass_share_reciprocals(Func *func)
{
    Divisions all = {.func = func};
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, collect, &all);
    }
    if (all.n == 0) {
        return;
    }
    RoundedSums sums = an_rounded_sums(func);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        Op *op = all.items[i];
        all.items[n] = op;
        n += an_rounds_sums(&sums, op) || (common_divisor(op) != 0 && is_product(op->operands[0]));
    }
    for (size_t i = 0; i < n; i++) {
        if (common_divisor(all.items[i]) != 0) {
            multiply(func, all.items[i]);
        } else {
            share(func, all.items[i]);
        }
    }
}
