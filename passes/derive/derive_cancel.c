/* SPDX-License-Identifier: Apache-2.0 */
/* Values that cancel: softmax, its logarithm and the like subtract the maximum m of what they
 * exponentiate, and the results do not depend on m. So its gradient is 0, which the sweep would
 * compute as the sum of all gradients of a row and their negative sum. Here it is proven:
 *
 *   %d = sub %x, %m      m + x is shifted by -1 times m
 *   %e = exp %d          scaled by exp(-m)
 *   %l = reduce %e sum   scaled by exp(-m)
 *   %p = div %e, %l      independent of m
 *   %s = log %l          shifted by -1 times m, and s + m is independent of m */
#include "passes/derive/derive_sweep.h"

#include <math.h>

typedef enum MarkKind {
    MARK_NONE,    /* it does not depend on the root */
    MARK_SHIFT,   /* something + times * root */
    MARK_SCALE,   /* something * exp(times * root) */
    MARK_UNKNOWN, /* it may depend on it in any way */
} MarkKind;

typedef struct Mark {
    MarkKind kind;
    double times;
} Mark;

typedef struct Cancel {
    const Derive *d;
    Mark *marks; /* by Value.id, of the values before the sweep */
} Cancel;

static const double LN2 = 0.6931471805599453;

static Mark mark(MarkKind kind, double times)
{
    return fabs(times) < 1e-6 ? (Mark){MARK_NONE, 0} : (Mark){kind, times};
}

static const Mark UNKNOWN = {MARK_UNKNOWN, 0};

static Mark mark_of(const Cancel *c, const Value *value)
{
    return value && value->id < c->d->n_before ? c->marks[value->id] : (Mark){MARK_NONE, 0};
}

static bool is_marked(Mark a)
{
    return a.kind != MARK_NONE;
}

static bool is_or_none(Mark a, MarkKind kind)
{
    return a.kind == kind || !is_marked(a);
}

static bool same(Mark a, Mark b)
{
    return a.kind == b.kind && fabs(a.times - b.times) < 1e-6;
}

static bool constant(const Value *value, double *number)
{
    const Attr *attr = value_const(value_unstretched(value));
    *number = attr ? attr->f : 0;
    return attr != NULL;
}

/* a + sign * b */
static Mark sum(Mark a, Mark b, double sign)
{
    if (is_or_none(a, MARK_SHIFT) && is_or_none(b, MARK_SHIFT)) {
        return mark(MARK_SHIFT, a.times + sign * b.times);
    }
    return a.kind == MARK_SCALE && same(a, b) ? a : UNKNOWN;
}

/* a * b^sign */
static Mark scaled_by(const Value *va, Mark a, const Value *vb, Mark b, double sign)
{
    double number;
    if (is_or_none(a, MARK_SCALE) && is_or_none(b, MARK_SCALE)) {
        return mark(MARK_SCALE, a.times + sign * b.times);
    }
    if (a.kind == MARK_SHIFT && constant(vb, &number)) {
        return mark(MARK_SHIFT, sign > 0 ? a.times * number : a.times / number);
    }
    if (b.kind == MARK_SHIFT && sign > 0 && constant(va, &number)) {
        return mark(MARK_SHIFT, b.times * number);
    }
    return UNKNOWN;
}

/* One of both, or a value that is left out: 0 among what is scaled, an infinity among what is
 * shifted. */
static Mark either(const Value *va, Mark a, const Value *vb, Mark b)
{
    double number;
    if (same(a, b)) {
        return a;
    }
    const Value *other = is_marked(a) ? vb : va;
    Mark one = is_marked(a) ? a : b;
    bool neutral = !(is_marked(a) && is_marked(b)) && constant(other, &number) &&
                   (one.kind == MARK_SCALE ? number == 0 : isinf(number));
    return neutral && one.kind != MARK_UNKNOWN ? one : UNKNOWN;
}

static Mark of_function(const char *name, Mark a)
{
    bool shift = a.kind == MARK_SHIFT, scale = a.kind == MARK_SCALE;
    if (shift && text_equal(name, "exp")) {
        return mark(MARK_SCALE, a.times);
    }
    if (shift && text_equal(name, "exp2")) {
        return mark(MARK_SCALE, a.times * LN2);
    }
    if (scale && text_equal(name, "log")) {
        return mark(MARK_SHIFT, a.times);
    }
    if (scale && text_equal(name, "log2")) {
        return mark(MARK_SHIFT, a.times / LN2);
    }
    return is_marked(a) ? UNKNOWN : a;
}

static Mark of_reduction(const Op *op, Mark a)
{
    bool sums = text_equal(op_word(op, ATTR_FN), "sum");
    bool extreme = text_equal(op_word(op, ATTR_FN), "max") ||
                   text_equal(op_word(op, ATTR_FN), "min");
    return extreme || (sums && a.kind == MARK_SCALE) ? a : UNKNOWN;
}

static Mark of_op(const Cancel *c, const Op *op)
{
    Mark m[3] = {{MARK_NONE, 0}, {MARK_NONE, 0}, {MARK_NONE, 0}};
    Value *const *v = op->operands;
    bool any = false;
    for (int i = 0; i < op->n_operands; i++) {
        Mark at = mark_of(c, v[i]);
        any = any || is_marked(at);
        m[i < 3 ? i : 2] = i < 3 ? at : m[2];
    }
    if (!any) {
        return (Mark){MARK_NONE, 0};
    }
    switch (op->kind) {
    case OP_CMP:
    case OP_ISNAN: return (Mark){MARK_NONE, 0}; /* its derivative is 0 */
    case OP_ADD: return sum(m[0], m[1], 1);
    case OP_SUB: return sum(m[0], m[1], -1);
    case OP_NEG: return m[0].kind == MARK_SHIFT ? mark(MARK_SHIFT, -m[0].times) : m[0];
    case OP_MUL:
    case OP_DOT:
        return op->n_operands > 2 ? UNKNOWN : scaled_by(v[0], m[0], v[1], m[1], 1);
    case OP_DIV: return scaled_by(v[0], m[0], v[1], m[1], -1);
    case OP_FMA: return sum(scaled_by(v[0], m[0], v[1], m[1], 1), m[2], 1);
    case OP_FAST_EXP2: return of_function("exp2", m[0]);
    case OP_FAST_LOG2: return of_function("log2", m[0]);
    case OP_NAMED: return of_function(op_word(op, ATTR_FN), m[0]);
    case OP_MAX:
    case OP_MIN: return either(v[0], m[0], v[1], m[1]);
    case OP_SELECT: return is_marked(m[0]) ? UNKNOWN : either(v[1], m[1], v[2], m[2]);
    case OP_REDUCE: return of_reduction(op, m[0]);
    case OP_CAST:
        return dtype_is_float(op->results[0]->type->dtype) ? m[0] : (Mark){MARK_NONE, 0};
    case OP_TF32:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_GATHER: return m[0];
    default: return UNKNOWN;
    }
}

/* True if the op makes a marked value something that the marks do not follow. */
static bool escapes(const Cancel *c, const Op *op)
{
    if (op->n_results > 0 && op->n_regions == 0) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (is_marked(mark_of(c, op->operands[i]))) {
            return true;
        }
    }
    for (int i = 0; i < op->n_regions; i++) {
        for (const Op *at = op->regions[i]->first; at; at = at->next) {
            if (escapes(c, at) || is_marked(of_op(c, at))) {
                return true;
            }
        }
    }
    return false;
}

static void follow(Cancel *c, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        const Value *result = op->results[i];
        const DeriveCall *call = result->id < c->d->n_before ? c->d->calls[result->id] : NULL;
        bool by_call = call && call->name && call->n_args == 1 && call->args[0];
        if (result->id < c->d->n_before) {
            c->marks[result->id] = by_call ? of_function(call->name, mark_of(c, call->args[0]))
                                           : of_op(c, op);
        }
    }
}

/* True for the extreme of a reduction, perhaps chosen by a condition. */
static bool is_root(const Op *op)
{
    const char *fn = op->kind == OP_REDUCE ? op_word(op, ATTR_FN) : NULL;
    if (fn) {
        return text_equal(fn, "max") || text_equal(fn, "min");
    }
    for (int i = 1; i < 3 && op->kind == OP_SELECT; i++) {
        const Op *def = value_unstretched(op->operands[i])->def;
        if (def && def->kind == OP_REDUCE && is_root(def)) {
            return true;
        }
    }
    return false;
}

bool derive_cancels(const Derive *d, const Op *op)
{
    if (!is_root(op) || op->parent != d->block) {
        return false;
    }
    Cancel c = {d, ARENA_ARRAY(d->func->arena, Mark, d->n_before + 1)};
    for (size_t i = 0; i < d->n_before; i++) {
        c.marks[i] = (Mark){MARK_NONE, 0};
    }
    c.marks[op->results[0]->id] = (Mark){MARK_SHIFT, 1};
    for (const Op *at = op->next; at; at = at->next) {
        if (escapes(&c, at)) {
            return false;
        }
        follow(&c, at);
        if (at == d->last) {
            break;
        }
    }
    return true;
}
