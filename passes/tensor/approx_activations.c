/* SPDX-License-Identifier: Apache-2.0 */
/* approx_activations: computes activations of dot results with the hardware exponential if the
 * result is rounded to 16 bits.
 *
 *   %t = approx16_tanh %u, %exact          %e = fast_exp2 (%u * -2 / ln 2)
 *   %s = add 1, %t                →    %r = fast_reciprocal (1 + %e)       (2 r = 1 + tanh u)
 *   %y = mul (mul 0.5, %x), %s         %y = mul %x, %r
 *
 *                                      %e = fast_exp2 (%x * -1 / ln 2)
 *   %y = approx16_silu %x, %exact     →    %y = mul %x, fast_reciprocal (1 + %e)
 *
 * The result of a dot has an error bound, and so has a function of it: no promised bits are lost.
 * The formula has no cancellation, so its error is that of two hardware instructions, a hundredth
 * of half a unit in the last place of bf16. tanh on its own keeps its exact form, because the
 * formula cancels near 0. All other uses keep the library's value, also those whose result is wider
 * than 16 bits: such a launch is bound by memory, which hides the longer form. Only NVIDIA targets
 * have both instructions. Requires the tensor level. Changes bits within the bound that the
 * interpreter computes. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/pass.h"

#define PER_LN2 1.4426950408889634

typedef struct Near {
    Func *func;
    struct {
        Op **items;
        size_t n, cap;
    } ops;
    bool *summed; /* by value: made of a product's sums */
    bool *wide;   /* by value: more than 16 bits of it are asked for */
} Near;

static void collect(Op *op, void *user)
{
    Near *n = user;
    ARENA_PUSH(n->func->arena, &n->ops, op);
}

/* Each element of the result is made of one of each operand. */
static bool is_plain(const Op *op)
{
    return op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
}

static bool is_f32(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->dtype == DT_F32;
}

static void mark_summed(const Near *n, const Op *op)
{
    bool sums = op->kind == OP_DOT;
    for (int i = 0; is_plain(op) && i < op->n_operands; i++) {
        sums = sums || n->summed[op->operands[i]->id];
    }
    if (op->n_results == 1) {
        n->summed[op->results[0]->id] = sums && is_f32(op->results[0]);
    }
}

static void mark_wide(const Near *n, const Op *op)
{
    bool narrows = op->kind == OP_CAST && dtype_is_narrow(op->results[0]->type->dtype);
    bool carried = is_plain(op) && is_f32(op->results[0]) && !n->wide[op->results[0]->id];
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !narrows && !carried) {
            n->wide[op->operands[i]->id] = true;
        }
    }
}

static bool is_const(const Value *value, double *out)
{
    const Attr *number = is_f32(value) ? value_const(value) : NULL;
    *out = number ? number->f : *out;
    return number != NULL;
}

/* The other factor of a product with a constant; NULL: it is none. */
static Value *times_const(const Value *value, double *factor)
{
    const Op *mul = value->def && value->def->kind == OP_MUL ? value->def : NULL;
    for (int i = 0; mul && i < 2; i++) {
        if (is_const(mul->operands[i], factor)) {
            return mul->operands[1 - i];
        }
    }
    return NULL;
}

/* c x x + 1 times x, as it is written: fma (c x) x, x, x. */
static Value *cubic(const Value *value, double *c)
{
    const Op *fma = value->def && value->def->kind == OP_FMA ? value->def : NULL;
    Value *x = fma ? fma->operands[2] : NULL;
    if (!fma || fma->operands[1] != x || !fma->operands[0]->def) {
        return NULL;
    }
    const Op *square = fma->operands[0]->def;
    bool twice = square->kind == OP_MUL && square->operands[1] == x;
    return twice && times_const(square->operands[0], c) == x ? x : NULL;
}

/* value * k: constants are multiplied before anything else is. */
static Value *scaled(Builder *b, Value *value, double k)
{
    double c;
    Value *other = times_const(value, &c);
    if (other) {
        return scaled(b, other, c * k);
    }
    Value *x = cubic(value, &c);
    Value *factor = build_float(b, value->type, k);
    if (!x) {
        return build_binary(b, OP_MUL, value, factor);
    }
    Value *inner = build_binary(b, OP_MUL, x, build_float(b, x->type, c * k));
    return build_binary(b, OP_MUL, x, build_fma(b, inner, x, factor));
}

/* 1 / (1 + 2^power) */
static Value *logistic_of(Builder *b, Value *power)
{
    Value *one = build_float(b, power->type, 1);
    Value *e = build_unary(b, OP_FAST_EXP2, power);
    Value *sum = build_binary(b, OP_ADD, one, e);
    return build_binary(b, OP_FAST_RECIPROCAL, sum, build_binary(b, OP_DIV, one, sum));
}

/* 1 / (1 + 2^(-k value)) */
static Value *logistic(Builder *b, Value *value, double k)
{
    return logistic_of(b, scaled(b, value, -k));
}

static bool is_one_more(const Op *op, const Value *value)
{
    double c;
    return op->kind == OP_ADD &&
           ((op->operands[0] == value && is_const(op->operands[1], &c) && c == 1) ||
            (op->operands[1] == value && is_const(op->operands[0], &c) && c == 1));
}

/* m (2 r), or x r where m is half of x: in a product that is what most say. */
static void use_twice(Near *n, Value *sum, Value *r)
{
    for (size_t i = 0; i < n->ops.n; i++) {
        Op *op = n->ops.items[i];
        int at = op->kind == OP_MUL && op->operands[1] == sum;
        double half;
        if (op->kind != OP_MUL || op->operands[at] != sum || op->operands[1 - at] == sum) {
            continue;
        }
        Value *x = times_const(op->operands[1 - at], &half);
        if (x && half == 0.5) {
            op_set_operand(op, 0, x);
            op_set_operand(op, 1, r);
        }
    }
    Builder b = build_after(n->func, r->def);
    Value *both = build_binary(&b, OP_ADD, r, r);
    func_replace_uses(n->func, sum, both);
}

static bool is_only_one_more(const Near *n, const Value *value)
{
    bool any = false;
    for (size_t i = 0; i < n->ops.n; i++) {
        for (int k = 0; k < n->ops.items[i]->n_operands; k++) {
            if (n->ops.items[i]->operands[k] == value) {
                any = true;
                if (!is_one_more(n->ops.items[i], value)) {
                    return false;
                }
            }
        }
    }
    return any;
}

static void take_tanh(Near *n, const Op *near)
{
    Value *value = near->results[0], *u = near->operands[0];
    for (size_t i = 0; i < n->ops.n; i++) {
        if (is_one_more(n->ops.items[i], value)) {
            Builder b = build_before(n->func, n->ops.items[i]);
            use_twice(n, n->ops.items[i]->results[0], logistic(&b, u, 2 * PER_LN2));
        }
    }
}

/* Below, the library's result is 0 or nearly: x times a sigmoid of 0 were NaN of -inf. */
static Value *at_least(Builder *b, Value *x, double least)
{
    return build_binary(b, OP_MAX, x, build_float(b, x->type, least));
}

static Value *near_value(Builder *b, const Op *op)
{
    Value *x = op->operands[0], *y;
    Type type = x->type;
    switch (op->kind) {
    case OP_APPROX16_SIGMOID: return logistic(b, x, PER_LN2);
    case OP_APPROX16_SILU:
        x = at_least(b, x, -110);
        return build_binary(b, OP_MUL, x, logistic(b, x, PER_LN2));
    default: /* 2 sqrt(2 / pi) (x + 0.044715 x^3) */
        x = at_least(b, x, -15);
        y = build_binary(b, OP_MUL, x, build_float(b, type, -0.071354816272600249 * PER_LN2));
        y = build_fma(b, y, x, build_float(b, type, -1.5957691216057308 * PER_LN2));
        return build_binary(b, OP_MUL, x, logistic_of(b, build_binary(b, OP_MUL, x, y)));
    }
}

static bool wants(const Near *n, const Op *op)
{
    return n->func->target && n->func->target->family == FAMILY_NVPTX &&
           n->summed[op->operands[0]->id] && !n->wide[op->results[0]->id];
}

static void take(Near *n, Op *op, bool wanted)
{
    Value *by = op->operands[1];
    if (wanted && op->kind == OP_APPROX16_TANH && is_only_one_more(n, op->results[0])) {
        take_tanh(n, op);
    } else if (wanted && op->kind != OP_APPROX16_TANH) {
        Builder b = build_before(n->func, op);
        by = near_value(&b, op);
    }
    func_replace_uses(n->func, op->results[0], by);
    op_remove(op);
}

static void look(Op *op, void *user)
{
    *(bool *)user = *(bool *)user || op_is_approx16(op->kind);
}

void pass_approx_activations(Func *func)
{
    bool any = false;
    func_walk(func, look, &any);
    if (!any) {
        return;
    }
    Near n = {.func = func};
    n.summed = ARENA_ARRAY(func->arena, bool, func->n_values);
    n.wide = ARENA_ARRAY(func->arena, bool, func->n_values);
    func_walk(func, collect, &n);
    for (size_t i = 0; i < n.ops.n; i++) {
        mark_summed(&n, n.ops.items[i]);
    }
    for (size_t i = n.ops.n; i-- > 0;) {
        mark_wide(&n, n.ops.items[i]);
    }
    bool *wanted = ARENA_ARRAY(func->arena, bool, n.ops.n);
    for (size_t i = 0; i < n.ops.n; i++) {
        wanted[i] = op_is_approx16(n.ops.items[i]->kind) && wants(&n, n.ops.items[i]);
    }
    for (size_t i = 0; i < n.ops.n; i++) {
        if (op_is_approx16(n.ops.items[i]->kind)) {
            take(&n, n.ops.items[i], wanted[i]);
        }
    }
    func_remove_dead(func);
}
