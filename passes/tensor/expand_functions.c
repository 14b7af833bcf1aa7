/* SPDX-License-Identifier: Apache-2.0 */
/* expand_functions: replaces named functions by ops that compute them, either exactly as the
 * library does or by hardware approximations where the error bound of the result allows it.
 *
 *   %y = named %x fn=silu         →    the ops of function silu's body, of whole tensors; or, of a
 *                                      sum that is rounded to 16 bits, by NVIDIA's hardware:
 *                                      %e = fast_exp2 (%x * -1 / ln 2)
 *                                      %y = mul %x, fast_reciprocal (1 + %e)
 *
 *   %t = named %u fn=tanh              %e = fast_exp2 (%u * -2 / ln 2)
 *   %s = add 1, %t                →    %r = fast_reciprocal (1 + %e)       (2 r = 1 + tanh u)
 *   %y = mul (mul 0.5, %x), %s         %y = mul %x, %r
 *
 * The sums of a product or of a reduction have an error bound, and so has a function of them: no
 * promised bits are lost. No formula of the table below cancels: where a difference would, near 0,
 * a polynomial is taken; but not of a tanh of which only exponentials are taken, as of scores with
 * a soft cap: f tanh(u) is then 2 f r - f. Their errors are those of one or two hardware
 * instructions, a hundredth of half a unit in the last place of bf16 (ir/named_functions.def has
 * the bounds). An exponential of which sums are taken, or that such a sum scales, and that is
 * otherwise rounded to 16 bits, is hardware's, too: a loop over a row takes it many times for one
 * result. If its argument is exact, a factor corrects it to within 2^-20. All other uses get the
 * library's value: those whose result is wider than 16 bits (such a launch is bound by memory,
 * which hides the longer form), and those from which the argument is subtracted, as in x - tanh(x).
 * Only NVIDIA targets have both instructions. The new ops are simplified with their surroundings:
 * the exponential of what is never positive needs no upper limit. Requires the tensor level;
 * establishes that no op is named. Changes bits within the bound that the interpreter computes. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/exponential_uses.h"
#include "passes/analysis/rounded_sums.h"
#include "passes/pass.h"

#define PER_LN2 1.4426950408889634

typedef struct Approx {
    Func *func;
    struct {
        Op **items;
        size_t n, cap;
    } ops;
    Value **made; /* by value of a function's body: what stands for it now */
    int marked;   /* functions (Func.marks_functions) */
} Approx;

static void collect(Op *op, void *user)
{
    Approx *n = user;
    ARENA_PUSH(n->func->arena, &n->ops, op);
}

static bool is_f32(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->dtype == DT_F32;
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

/* The scalar that all elements of the value are. */
static Value *scalar_of(const Value *value)
{
    const Op *spread = value_def_of_kind(value, OP_BROADCAST);
    return spread && type_is_scalar(spread->operands[0]->type) ? spread->operands[0] : NULL;
}

/* The other factor of a product with a scalar; NULL: it is none. */
static Value *times_scalar(const Value *value, Value **scalar)
{
    const Op *mul = value_def_of_kind(value, OP_MUL);
    for (int i = 0; mul && i < 2; i++) {
        *scalar = scalar_of(mul->operands[i]);
        if (*scalar) {
            return mul->operands[1 - i];
        }
    }
    return NULL;
}

static Value *spread_like(Builder *b, Value *scalar, const Value *like)
{
    return build_broadcast(b, scalar, like->type->rank, like->type->dims);
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

/* value * k: constants are multiplied before anything else is, and scalars before arrays. */
static Value *scaled(Builder *b, Value *value, double k)
{
    double c;
    Value *scalar, *other = times_const(value, &c);
    if (other) {
        return scaled(b, other, c * k);
    }
    other = times_scalar(value, &scalar);
    if (other) {
        Value *below = times_const(other, &c);
        k *= below ? c : 1;
        scalar = build_binary(b, OP_MUL, scalar, build_float(b, scalar->type, k));
        return build_binary(b, OP_MUL, below ? below : other, spread_like(b, scalar, value));
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
static void use_twice(Approx *n, Value *sum, Value *r)
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

static bool is_only_one_more(const Approx *n, const Value *value)
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

static void take_tanh(Approx *n, const Op *near)
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

static Value *at_most(Builder *b, Value *x, double most)
{
    return build_binary(b, OP_MIN, x, build_float(b, x->type, most));
}

static Value *times(Builder *b, Value *x, double k)
{
    return build_binary(b, OP_MUL, x, build_float(b, x->type, k));
}

static Value *plus(Builder *b, Value *x, double k)
{
    return build_binary(b, OP_ADD, x, build_float(b, x->type, k));
}

static Value *reciprocal(Builder *b, Value *x)
{
    Value *exact = build_binary(b, OP_DIV, build_float(b, x->type, 1), x);
    return build_binary(b, OP_FAST_RECIPROCAL, x, exact);
}

/* c[0] + x (c[1] + x (…)) */
static Value *polynomial(Builder *b, Value *x, int n, const double *c)
{
    Value *sum = build_float(b, x->type, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) {
        sum = build_fma(b, sum, x, build_float(b, x->type, c[i]));
    }
    return sum;
}

/* `near` where |x| < limit: what else would cancel. */
static Value *near_zero(Builder *b, Value *x, double limit, Value *near, Value *far)
{
    Value *a = build_unary(b, OP_ABS, x);
    return build_select(b, build_cmp(b, "lt", a, build_float(b, x->type, limit)), near, far);
}

static Value *exponential(Builder *b, Value *x)
{
    return build_unary(b, OP_FAST_EXP2, times(b, x, PER_LN2));
}

/* 2^h (1 + r ln 2), with h rounded from x / ln 2 and r what the rounding left: the hardware's error
 * and twice that of a rounding. Its limits make no difference to the value, but keep what is
 * infinite from a difference that is no number. */
static Value *summed_exponential(Builder *b, Value *x)
{
    const double per_ln2 = (float)PER_LN2;
    x = at_least(b, at_most(b, x, 89), -104);
    Value *h = times(b, x, per_ln2);
    Value *rest = build_fma(b, x, build_float(b, x->type, per_ln2), build_unary(b, OP_NEG, h));
    rest = build_fma(b, x, build_float(b, x->type, PER_LN2 - per_ln2), rest);
    Value *factor = build_fma(b, rest, build_float(b, x->type, 1 / PER_LN2),
                              build_float(b, x->type, 1));
    return build_binary(b, OP_MUL, build_unary(b, OP_FAST_EXP2, h), factor);
}

static Value *expm1_value(Builder *b, Value *x)
{
    static const double c[] = {0.99999976, 0.50000024, 0.16679686, 0.041666664};
    Value *near = build_binary(b, OP_MUL, x, polynomial(b, x, 4, c));
    return near_zero(b, x, 0.125, near, plus(b, exponential(b, x), -1));
}

static Value *tanh_value(Builder *b, Value *x)
{
    static const double c[] = {-0.33324572, 0.12876421};
    Value *square = build_binary(b, OP_MUL, x, x), *one = build_float(b, x->type, 1);
    Value *near = build_fma(b, polynomial(b, square, 2, c), square, one);
    Value *minus = build_float(b, x->type, -1), *two = build_float(b, x->type, 2);
    Value *far = build_fma(b, logistic(b, x, 2 * PER_LN2), two, minus);
    return near_zero(b, x, 0.25, build_binary(b, OP_MUL, x, near), far);
}

/* ---- what only exponentials are taken of ---- */

/* 2 r - 1, or times a scalar where that is all that is needed. */
static void take_capped(Approx *n, Op *near)
{
    Value *result = near->results[0], *factor = NULL;
    Op *user = value_only_user(n->func, result);
    Builder b = build_before(n->func, near);
    Value *r = logistic(&b, near->operands[0], 2 * PER_LN2);
    if (user && times_scalar(user->results[0], &factor) == result) {
        b = build_before(n->func, user);
        Value *twice = spread_like(&b, build_binary(&b, OP_ADD, factor, factor), result);
        Value *less = spread_like(&b, build_unary(&b, OP_NEG, factor), result);
        Value *by = build_fma(&b, r, twice, less);
        by->name = user->results[0]->name;
        func_replace_uses(n->func, user->results[0], by);
        return;
    }
    Value *minus = build_float(&b, result->type, -1);
    Value *by = build_fma(&b, r, build_float(&b, result->type, 2), minus);
    func_replace_uses(n->func, result, by);
}

/* ---- other functions ---- */

/* max(x, 0) + log(1 + e^-|x|) */
static Value *softplus_value(Builder *b, Value *x)
{
    static const double c[] = {0.99999875, -0.49986964, 0.33109447, -0.23503859,
                               0.14922385, -0.06640178, 0.014141017};
    Value *e = build_unary(b, OP_FAST_EXP2, times(b, build_unary(b, OP_ABS, x), -PER_LN2));
    Value *positive = at_least(b, x, 0);
    return build_fma(b, polynomial(b, e, 7, c), e, positive);
}

static Value *silu_value(Builder *b, Value *x)
{
    x = at_least(b, x, -110);
    return build_binary(b, OP_MUL, x, logistic(b, x, PER_LN2));
}

/* x n / (n + 2) for n = e^2x + 2 e^x */
static Value *mish_value(Builder *b, Value *x)
{
    x = at_least(b, x, -110);
    Value *e = exponential(b, at_most(b, x, 20));
    Value *n = build_binary(b, OP_MUL, e, plus(b, e, 2));
    n = build_binary(b, OP_MUL, n, reciprocal(b, plus(b, n, 2)));
    return build_binary(b, OP_MUL, x, n);
}

/* max(x, 0) - y g(y) e^(-a^2 / 2) for a = |x| and y = a / (1 + 0.35 a), as the library has it. */
static Value *gelu_value(Builder *b, Value *x)
{
    static const double c[] = {0.4999993,      -0.2239279,     0.031948216,  0.0043414575,
                               -0.00070415257, -0.00041257945, 7.9025034e-05};
    Value *a = at_most(b, build_unary(b, OP_ABS, x), 14);
    Value *one = build_float(b, x->type, 1);
    Value *y = build_fma(b, a, build_float(b, x->type, 0.35), one);
    y = build_binary(b, OP_MUL, a, reciprocal(b, y));
    y = build_binary(b, OP_MUL, y, polynomial(b, y, 7, c));
    Value *e = build_binary(b, OP_MUL, a, times(b, a, -0.5 * PER_LN2));
    e = build_unary(b, OP_FAST_EXP2, e);
    Value *positive = at_least(b, x, 0);
    return build_fma(b, build_unary(b, OP_NEG, y), e, positive);
}

/* 2 sqrt(2 / pi) (x + 0.044715 x^3) is what the logistic function is of. */
static Value *gelu_tanh_value(Builder *b, Value *x)
{
    x = at_least(b, x, -15);
    Value *y = times(b, x, -0.071354816272600249 * PER_LN2);
    y = build_fma(b, y, x, build_float(b, x->type, -1.5957691216057308 * PER_LN2));
    return build_binary(b, OP_MUL, x, logistic_of(b, build_binary(b, OP_MUL, x, y)));
}

/* 1 - 2^q(a) for a = |x| of 1 or more. */
static Value *erf_value(Builder *b, Value *x)
{
    static const double small[] = {1.1283779, -0.37606415, 0.11234174, -0.02544781, 0.00349407};
    static const double q[] = {-0.0038544764, -1.6121229,  -0.94422811,
                               -0.12787199,   0.021320289, -0.0016597041};
    Value *a = at_most(b, build_unary(b, OP_ABS, x), 4);
    Value *e = build_unary(b, OP_FAST_EXP2, polynomial(b, a, 6, q));
    Value *far = build_binary(b, OP_SUB, build_float(b, x->type, 1), e);
    Value *negative = build_cmp(b, "lt", x, build_float(b, x->type, 0));
    far = build_select(b, negative, build_unary(b, OP_NEG, far), far);
    Value *near = polynomial(b, build_binary(b, OP_MUL, x, x), 5, small);
    return near_zero(b, x, 1, build_binary(b, OP_MUL, x, near), far);
}

static Value *sigmoid_value(Builder *b, Value *x)
{
    return logistic(b, x, PER_LN2);
}

/* What is taken instead of a function, by its name: its bound is in named_functions.def. NULL: the
 * function is always exact. */
static Value *near_value(Builder *b, const Op *op)
{
    static const struct {
        const char *name;
        Value *(*build)(Builder *b, Value *x);
    } rows[] = {
        {"exp", exponential},         {"expm1", expm1_value},         {"erf", erf_value},
        {"tanh", tanh_value},         {"sigmoid", sigmoid_value},     {"silu", silu_value},
        {"gelu", gelu_value},         {"gelu_tanh", gelu_tanh_value}, {"mish", mish_value},
        {"softplus", softplus_value},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (text_equal(rows[i].name, op_word(op, ATTR_FN))) {
            return rows[i].build(b, op->operands[0]);
        }
    }
    return NULL;
}

/* ---- the exact functions ---- */

/* The function's body, of all elements of x at once. `made`: what stands for its values, by their
 * numbers. */
static Value *exact_value(Approx *n, Builder *b, const char *name, Value *x)
{
    const Block *body = func_function(n->func, name);
    Value **made = n->made;
    made[body->args[0]->id] = x;
    for (const Op *op = body->first; op != body->last; op = op->next) {
        Value *operands[3];
        for (int i = 0; i < op->n_operands; i++) {
            operands[i] = made[op->operands[i]->id];
        }
        Type type = type_with_dtype(n->func, x->type, op->results[0]->type->dtype);
        if (op->kind == OP_NAMED) {
            made[op->results[0]->id] = exact_value(n, b, op_word(op, ATTR_FN), operands[0]);
            continue;
        }
        Op *copy = build_op(b, op->kind, op->n_operands, operands, 1, &type, 0);
        copy->attrs = op->attrs;
        copy->n_attrs = op->n_attrs;
        made[op->results[0]->id] = copy->results[0];
    }
    Value *result = made[body->last->operands[0]->id];
    if (text_equal(name, "exp")) {
        op_set_word(n->func, result->def, ATTR_ENDS, name); /* fuse sums them in parts */
    }
    return result;
}

/* How a function is computed. */
typedef enum Form {
    FORM_EXACT,
    FORM_SUMMED, /* by hardware, corrected to 2^-20: an exponential of an exact argument */
    FORM_NEAR,   /* by hardware, within the bound of ir/named_functions.def */
} Form;

static bool is_exponential(const Op *op)
{
    return op->kind == OP_NAMED && text_equal(op_word(op, ATTR_FN), "exp");
}

/* `sums_any`: some exponentials are summed. The others may be those that are divided by the sum, in
 * a loop of their own. */
static Form form_of(const Approx *n, const RoundedSums *sums, const Op *op, bool sums_any)
{
    if (op->kind != OP_NAMED || !n->func->target || n->func->target->family != FAMILY_NVPTX) {
        return FORM_EXACT;
    }
    const Value *result = op->results[0];
    bool summed = sums_any && is_exponential(op) &&
                  (an_only_summed(sums, result) || an_only_meets_sums(sums, result));
    if (op_int(op, ATTR_NEAR, 0) || an_rounds_sums(sums, op) ||
        (summed && an_made_of_sums(sums, op))) {
        return FORM_NEAR;
    }
    return summed ? FORM_SUMMED : FORM_EXACT;
}

enum { IS_PART, IS_PLACED }; /* keys of a memo */

static void place(Memo *memo, Op *op, const Value *value)
{
    int64_t known;
    if (!memo_known(memo, value, IS_PART, &known) || memo_known(memo, value, IS_PLACED, &known)) {
        return;
    }
    memo_keep(memo, value, IS_PLACED, 1);
    for (int i = 0; i < value->def->n_operands; i++) {
        place(memo, op, value->def->operands[i]);
    }
    op_move_before(value->def, op);
}

/* Moves the ops between `before` and `op` that the value needs into the order in which it needs
 * them, as tile has it: a tiled source computes them in the same order as a derived nest. */
static void order(Approx *n, const Op *before, Op *op, const Value *value)
{
    Memo *memo = memo_open(n->func);
    for (const Op *part = op->prev; part && part != before; part = part->prev) {
        memo_keep(memo, part->results[0], IS_PART, 1);
    }
    place(memo, op, value);
    memo_close(memo);
}

/* Marks the ops between `before` and `op`, which became of it. */
static void mark(Approx *n, const Op *before, Op *op, const char *name)
{
    if (!n->func->marks_functions) {
        return;
    }
    n->marked++;
    const char *word = arena_printf(n->func->arena, "%s#%d", name, n->marked);
    for (Op *part = op->prev; part && part != before; part = part->prev) {
        if (part->kind != OP_CONST) {
            op_set_word(n->func, part, ATTR_EXPANDED, word);
        }
    }
}

static Value *value_in_form(Approx *n, Builder *b, const Op *op, Form form)
{
    const char *name = op_word(op, ATTR_FN);
    Value *value = form == FORM_NEAR ? near_value(b, op) : NULL;
    if (form == FORM_SUMMED) {
        value = summed_exponential(b, op->operands[0]);
        op_set_word(n->func, value->def, ATTR_ENDS, name);
    }
    return value ? value : exact_value(n, b, name, op->operands[0]);
}

static void take(Approx *n, Op *op, Form form)
{
    const char *name = op_word(op, ATTR_FN);
    Builder b = build_before(n->func, op);
    bool tanh = form == FORM_NEAR && text_equal(name, "tanh");
    if (tanh && is_only_one_more(n, op->results[0])) {
        take_tanh(n, op);
    } else if (tanh && an_only_exponentiated(n->func, op->results[0])) {
        take_capped(n, op);
    }
    if (value_has_uses(n->func, op->results[0])) {
        const Op *before = op->prev;
        Value *by = value_in_form(n, &b, op, form);
        order(n, before, op, by);
        /* What asks for an approximation is no part of a source. */
        if (form == FORM_EXACT || !op_int(op, ATTR_NEAR, 0)) {
            mark(n, before, op, name);
        }
        func_replace_uses(n->func, op->results[0], by);
    }
    op_remove(op);
}

static void look(Op *op, void *user)
{
    *(bool *)user = *(bool *)user || op->kind == OP_NAMED;
}

void pass_expand_functions(Func *func)
{
    bool any = false;
    func_walk(func, look, &any);
    if (!any) {
        func->functions.n = 0;
        return;
    }
    Approx n = {.func = func};
    n.made = ARENA_ARRAY(func->arena, Value *, func->n_values);
    func_walk(func, collect, &n);
    RoundedSums sums = an_rounded_sums(func);
    Form *forms = ARENA_ARRAY(func->arena, Form, n.ops.n);
    bool sums_any = false;
    for (size_t i = 0; i < n.ops.n && !sums_any; i++) {
        const Op *op = n.ops.items[i];
        sums_any = is_exponential(op) && an_only_summed(&sums, op->results[0]);
    }
    for (size_t i = 0; i < n.ops.n; i++) {
        forms[i] = form_of(&n, &sums, n.ops.items[i], sums_any);
    }
    for (size_t i = 0; i < n.ops.n; i++) {
        if (n.ops.items[i]->kind == OP_NAMED) {
            take(&n, n.ops.items[i], forms[i]);
        }
    }
    func->functions.n = 0;
    pass_simplify(func);
}
