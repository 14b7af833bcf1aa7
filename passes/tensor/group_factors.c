/* SPDX-License-Identifier: Apache-2.0 */
/* group_factors: groups the factors of a summed product into two.
 *
 *   %p = mul %a, %b : f32[M, N, K]     (%a does not change along N, %b and %s not along M)
 *   %q = mul %p, %s : f32[M, N, K]           %t = mul %b, %s : f32[M, N, K]
 *   %r = reduce %q fn=sum axis=2      →      %q = mul %a, %t : f32[M, N, K]
 *                                            %r = reduce %q fn=sum axis=2
 *
 * `sum(k in K) a[m, k] * b[k, n] * s[n]` is a matrix product only to a reader that sees which of
 * its factors have rows and which have columns. Two factors are chosen that have axes of their own
 * and one in common, and each other factor, divisor and sign goes to one of them whose axes it has.
 * A divisor that does not vary along the summed axis divides the sum, and a factor of rows and
 * columns multiplies it; the reciprocal of a divisor that all terms share is a factor where the sum
 * has conditions or more axes. Nothing changes where the two operands of the last multiplication
 * are such factors.
 *
 * Where no two factors can take the others, `sum(i in I, j in J) x[b, i] * w[o, i, j] * y[b, j]`,
 * the two that make the cheapest matrix product are summed first, along the axes that no other
 * factor has: `sum(j in J) y[b, j] * (sum(i in I) x[b, i] * w[o, i, j])`.
 *
 * A number that divides each term divides the sum instead, also where this is no matrix product:
 * `sum(r in 3) x[p + r] / 3` has one division. Requires the tensor level. Reassociates the products
 * of a term, and takes factors out of sums. */
#include "ir/build.h"
#include "ir/drop_axis.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/computations.h"
#include "passes/pass.h"

#include <math.h>

typedef struct Factor {
    Value *value;
    unsigned axes;
    bool divides;
} Factor;

typedef struct Factors {
    Func *func;
    Op *sum;
    Memo *varies;
    const Value *product; /* of them */
    struct {
        Factor *items;
        size_t n, cap;
    } list;
    bool negative;
    bool whole; /* the sum has no conditions, and is not summed further */
} Factors;

static void add_factor(Factors *f, Value *value, bool divides)
{
    Factor factor = {value, an_varies(f->varies, value), divides};
    ARENA_PUSH(f->func->arena, &f->list, factor);
}

static void collect(Factors *f, Value *value, bool divides)
{
    const Op *op = value->def;
    bool own = op && (value == f->product || value_only_user(f->func, value));
    if (own && op->kind == OP_MUL) {
        collect(f, op->operands[0], divides);
        collect(f, op->operands[1], divides);
    } else if (own && op->kind == OP_DIV && !divides && dtype_is_float(value->type->dtype)) {
        collect(f, op->operands[0], false);
        collect(f, op->operands[1], true);
    } else if (own && op->kind == OP_NEG) {
        f->negative = !f->negative;
        collect(f, op->operands[0], divides);
    } else {
        add_factor(f, value, divides);
    }
}

/* True if the sum is of this product without conditions, and not summed further. */
static bool is_whole(const Factors *f)
{
    Value *sum = f->sum->results[0];
    Op *user = value_only_user(f->func, sum);
    while (user && op_moves_axes(user)) {
        user = value_only_user(f->func, user->results[0]);
    }
    return f->sum->operands[0] == f->product && !(user && op_is_sum(user));
}

/* True if factors with these axes can be those of a matrix product. */
static bool are_sides(unsigned left, unsigned right)
{
    return (left & ~right) && (right & ~left) && (left & right);
}

/* True if the factor is one of the whole sum. */
static bool leaves_sum(const Factors *f, const Factor *factor)
{
    return f->whole && !(factor->axes >> op_int(f->sum, ATTR_AXIS, 0) & 1);
}

/* True if each factor has axes of one of these two alone, or is one of the whole sum. */
static bool cover(const Factors *f, unsigned left, unsigned right)
{
    for (size_t i = 0; i < f->list.n; i++) {
        unsigned axes = f->list.items[i].axes;
        if ((axes & ~left) && (axes & ~right) && !leaves_sum(f, &f->list.items[i])) {
            return false;
        }
    }
    return true;
}

/* Two factors to which the others can go. */
static bool find_sides(const Factors *f, size_t sides[2])
{
    for (size_t i = 0; i < f->list.n; i++) {
        for (size_t j = i + 1; j < f->list.n; j++) {
            const Factor *a = &f->list.items[i], *b = &f->list.items[j];
            if (!a->divides && !b->divides && are_sides(a->axes, b->axes) &&
                cover(f, a->axes, b->axes)) {
                sides[0] = i;
                sides[1] = j;
                return true;
            }
        }
    }
    return false;
}

/* Multiplies or divides the sum by a factor that does not vary along its axis. */
static void scale_sum(const Factors *f, const Factor *factor)
{
    Value *sum = f->sum->results[0];
    int axis = (int)op_int(f->sum, ATTR_AXIS, 0);
    Builder b = build_after(f->func, f->sum);
    Value *by = build_expand(&b, axis_dropped(&b, factor->value, axis), axis);
    Value *scaled = build_binary(&b, factor->divides ? OP_DIV : OP_MUL, sum, by);
    func_replace_uses(f->func, sum, scaled);
    op_set_operand(scaled->def, 0, sum);
}

/* ---- sums of two factors first ---- */

enum {
    MIN_EDGE = 4,   /* rows and columns that are worth a matrix product, where they are known … */
    MIN_DEPTH = 16, /* … and its depth: each sum goes through memory */
};

/* Two factors that are multiplied and summed along `first` before the others are multiplied. */
typedef struct InnerSum {
    size_t sides[2];
    unsigned axes, first;    /* of both; those that are summed */
    double operations, size; /* of the whole, and of what goes through memory */
} InnerSum;

/* The number of elements along the axes, as far as the facts limit them. */
static double elements(Type type, unsigned axes)
{
    double n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= axes >> i & 1 ? (double)poly_nominal(type->dims[i]) : 1;
    }
    return n;
}

/* Looks at two factors; false: they make no product of matrices that is worth it. */
static bool is_inner_sum(const Factors *f, unsigned summed, InnerSum *s)
{
    const Factor *a = &f->list.items[s->sides[0]], *b = &f->list.items[s->sides[1]];
    Type type = f->product->type;
    s->axes = a->axes | b->axes;
    s->first = summed & s->axes;
    for (size_t i = 0; i < f->list.n; i++) {
        bool side = i == s->sides[0] || i == s->sides[1];
        s->first &= side ? ~0u : ~f->list.items[i].axes;
    }
    unsigned rows = a->axes & ~b->axes & ~s->first, columns = b->axes & ~a->axes & ~s->first;
    unsigned depth = a->axes & b->axes & s->first;
    s->size = elements(type, s->axes & ~s->first);
    s->operations = elements(type, s->axes) + elements(type, an_all_axes(type) & ~s->first);
    return !a->divides && !b->divides && s->first != summed && elements(type, rows) >= MIN_EDGE &&
           elements(type, columns) >= MIN_EDGE && elements(type, depth) >= MIN_DEPTH;
}

/* The two with the fewest operations, then with the smallest sum. */
static bool find_inner_sum(const Factors *f, unsigned summed, InnerSum *best)
{
    bool found = false;
    for (size_t i = 0; i < f->list.n; i++) {
        for (size_t j = i + 1; j < f->list.n; j++) {
            InnerSum s = {.sides = {i, j}};
            if (is_inner_sum(f, summed, &s) &&
                (!found || s.operations < best->operations ||
                 (s.operations <= best->operations && s.size < best->size))) {
                *best = s;
                found = true;
            }
        }
    }
    return found;
}

/* The value without these axes, along which it does not vary. */
static Value *dropped(Builder *b, Value *value, unsigned axes)
{
    for (int i = value->type->rank; i-- > 0;) {
        value = axes >> i & 1 ? axis_dropped(b, value, i) : value;
    }
    return value;
}

/* The value over `axes` of the product, summed along `summed`, without these axes. */
static Value *summed_along(Builder *b, Value *value, unsigned axes, unsigned summed)
{
    for (int i = MAX_RANK; i-- > 0;) {
        if (axes & summed & 1u << i) {
            int at = __builtin_popcount(axes & ((1u << i) - 1));
            value = build_squeeze(b, build_reduce(b, "sum", value, at), at);
        }
    }
    return value;
}

/* The value over `from` of the product's axes, over more of them. */
static Value *spread(Builder *b, Value *value, Type type, unsigned from, unsigned to)
{
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        if (to >> i & 1) {
            value = from >> i & 1 ? value : build_expand(b, value, rank);
            dims[rank++] = type->dims[i];
        }
    }
    return build_broadcast(b, value, rank, dims);
}

/* Sums two factors first, if there are sums along axes that the others do not have. */
static void sum_inner(const Factors *f)
{
    Type type = f->product->type;
    SumNest nest = sum_nest(f->func, f->sum);
    InnerSum s = {0};
    if (f->sum->operands[0] != f->product || !find_inner_sum(f, nest.summed, &s)) {
        return;
    }
    unsigned all = an_all_axes(type), left = all & ~s.first;
    Builder b = build_before(f->func, nest.outermost);
    Value *sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = dropped(&b, f->list.items[s.sides[i]].value, all & ~s.axes);
    }
    Value *value = build_binary(&b, OP_MUL, sides[0], sides[1]);
    value = summed_along(&b, value, s.axes, s.first);
    value = spread(&b, value, type, s.axes & ~s.first, left);
    for (size_t i = 0; i < f->list.n; i++) {
        const Factor *factor = &f->list.items[i];
        if (i != s.sides[0] && i != s.sides[1]) {
            Value *by = dropped(&b, factor->value, s.first);
            value = build_binary(&b, factor->divides ? OP_DIV : OP_MUL, value, by);
        }
    }
    value = f->negative ? build_unary(&b, OP_NEG, value) : value;
    value = summed_along(&b, value, left, nest.summed);
    Value *old = nest.outermost->results[0];
    value = build_expand(&b, value, (int)op_int(nest.outermost, ATTR_AXIS, 0));
    value->name = old->name;
    func_replace_uses(f->func, old, value);
}

static void group(Factors *f, Op *last)
{
    size_t sides[2];
    f->whole = is_whole(f);
    collect(f, last->results[0], false);
    bool done = last->kind == OP_MUL && are_sides(an_varies(f->varies, last->operands[0]),
                                                  an_varies(f->varies, last->operands[1]));
    if (done) {
        return;
    }
    if (!find_sides(f, sides)) {
        sum_inner(f);
        return;
    }
    Builder b = build_before(f->func, last);
    Value *made[2];
    for (int side = 0; side < 2; side++) {
        made[side] = f->list.items[sides[side]].value;
    }
    unsigned left = f->list.items[sides[0]].axes, right = f->list.items[sides[1]].axes;
    for (size_t i = 0; i < f->list.n; i++) {
        const Factor *factor = &f->list.items[i];
        if (i == sides[0] || i == sides[1]) {
            continue;
        }
        bool both = (factor->axes & ~right) && (factor->axes & ~left);
        if (leaves_sum(f, factor) && (factor->divides || both)) {
            scale_sum(f, factor);
        } else {
            Value **to = &made[!(factor->axes & ~right)], *by = factor->value;
            bool divides = factor->divides;
            if (divides && factor->axes == 0) { /* one divisor of all: its reciprocal is a scale */
                by = build_binary(&b, OP_DIV, build_float(&b, by->type, 1), by);
                divides = false;
            }
            *to = build_binary(&b, divides ? OP_DIV : OP_MUL, *to, by);
        }
    }
    made[0] = f->negative ? build_unary(&b, OP_NEG, made[0]) : made[0];
    Value *product = build_binary(&b, OP_MUL, made[0], made[1]);
    product->name = last->results[0]->name;
    func_replace_uses(f->func, last->results[0], product);
}

/* The last op of the product that is summed, behind conditions; NULL: something else is summed. */
static Op *summed_product(Func *func, const Op *sum)
{
    Value *term = sum->operands[0];
    while (term->def && term->def->kind == OP_SELECT && value_only_user(func, term) &&
           value_is_const(term->def->operands[2], 0)) {
        term = term->def->operands[1];
    }
    OpKind kind = term->def && value_only_user(func, term) ? term->def->kind : OP_COUNT;
    return kind == OP_MUL || kind == OP_DIV || kind == OP_NEG ? term->def : NULL;
}

/* Divides the sum, of several axes the outermost one, by the number that divides each term. The
 * terms that conditions leave out are 0 either way. */
static void divide_sum(Func *func, Op *sum)
{
    const Op *term = summed_product(func, sum);
    bool divides = term && term->kind == OP_DIV && dtype_is_float(term->results[0]->type->dtype);
    const Attr *number = divides ? value_const(term->operands[1]) : NULL;
    if (!number || number->f == 0 || !isfinite(number->f)) {
        return;
    }
    Value *total = sum_nest(func, sum).outermost->results[0];
    Builder b = build_after(func, total->def);
    Value *quotient = build_binary(&b, OP_DIV, total, build_float(&b, total->type, number->f));
    func_replace_uses(func, total, quotient);
    op_set_operand(quotient->def, 0, total);
    func_replace_uses(func, term->results[0], term->operands[0]);
}

void pass_group_factors(Func *func)
{
    Memo *varies = an_varies_all(func);
    for (Op *op = func->body->first; op; op = op->next) {
        Op *last = op_is_sum(op) ? summed_product(func, op) : NULL;
        if (last && last->results[0]->type->rank > 2) {
            Factors f = {.func = func, .varies = varies, .sum = op, .product = last->results[0]};
            group(&f, last);
        }
        if (last) {
            divide_sum(func, op);
        }
    }
    memo_close(varies);
    func_remove_dead(func);
}
