/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of element-wise ops. At kinks: |x| has 0 at 0; of max and min of two values that are
 * both differentiated each has half where they are equal, and of a value and a constant it is 0
 * there (so relu has 0 at 0). Roundings have 0 everywhere. */
#include "passes/derive/derive_sweep.h"

static Value *mul(Derive *d, Value *a, Value *c)
{
    return build_binary(&d->b, OP_MUL, a, c);
}

static Value *divide(Derive *d, Value *a, Value *c)
{
    return build_binary(&d->b, OP_DIV, a, c);
}

static Value *negated(Derive *d, Value *a)
{
    return build_unary(&d->b, OP_NEG, a);
}

static Value *scaled(Derive *d, Value *a, double by)
{
    return mul(d, a, derive_number(d, a, by));
}

/* g where a `pred` c, else 0. */
static Value *where(Derive *d, const char *pred, Value *a, Value *c, Value *g)
{
    Value *condition = build_cmp(&d->b, pred, a, c);
    return build_select(&d->b, condition, g, derive_number(d, g, 0));
}

/* g where a is the chosen one of max(a, c) (or min), half of it where both are equal and have a
 * derivative. */
static Value *chosen(Derive *d, const Op *op, Value *a, Value *c, Value *g)
{
    const char *wins = op->kind == OP_MAX ? "gt" : "lt", *loses = op->kind == OP_MAX ? "le" : "ge";
    if (!derive_is_active(d, c)) {
        Value *lost = build_cmp(&d->b, loses, a, c); /* so NaN passes the gradient on */
        return build_select(&d->b, lost, derive_number(d, g, 0), g);
    }
    Value *half = where(d, "eq", a, c, scaled(d, g, 0.5));
    return build_select(&d->b, build_cmp(&d->b, wins, a, c), g, half);
}

static void derive_binary(Derive *d, const Op *op, Value *g)
{
    Value *a = op->operands[0], *c = op->operands[1], *y = op->results[0];
    bool left = derive_is_active(d, a), right = derive_is_active(d, c);
    switch (op->kind) {
    case OP_ADD:
        derive_add(d, a, g);
        derive_add(d, c, g);
        return;
    case OP_SUB:
        derive_add(d, a, g);
        derive_add(d, c, right ? negated(d, g) : NULL);
        return;
    case OP_MUL:
        derive_add(d, a, left ? mul(d, g, c) : NULL);
        derive_add(d, c, right ? mul(d, g, a) : NULL);
        return;
    case OP_DIV: {
        Value *quotient = divide(d, g, c);
        derive_add(d, a, quotient);
        derive_add(d, c, right ? negated(d, mul(d, quotient, y)) : NULL);
        return;
    }
    case OP_MOD:
        derive_add(d, a, g);
        if (right) {
            Value *times = build_unary(&d->b, OP_FLOOR, divide(d, a, c));
            derive_add(d, c, negated(d, mul(d, g, times)));
        }
        return;
    default:
        derive_add(d, a, left ? chosen(d, op, a, c, g) : NULL);
        derive_add(d, c, right ? chosen(d, op, c, a, g) : NULL);
        return;
    }
}

static void derive_abs(Derive *d, const Op *op, Value *g)
{
    Value *a = op->operands[0], *zero = derive_number(d, a, 0);
    Value *below = where(d, "lt", a, zero, negated(d, g));
    derive_add(d, a, build_select(&d->b, build_cmp(&d->b, "gt", a, zero), g, below));
}

static void derive_choice(Derive *d, const Op *op, Value *g)
{
    Value *condition = op->operands[0], *zero = derive_number(d, g, 0);
    derive_add(d, op->operands[1], build_select(&d->b, condition, g, zero));
    derive_add(d, op->operands[2], build_select(&d->b, condition, zero, g));
}

/* A float that is made of another one's bits: the front end knows the derivatives of the library's
 * functions that do so, and asks for them there. */
static void refuse_bits(Derive *d, const Op *op)
{
    Diag *diag = derive_refuse(d, op, "arithmetic on the bits of a float has no derivative");
    diag_help(d->func->diags, diag,
              "make it a function, and declare its derivative: `derivative of f(x, y, g) = …`");
}

static void derive_unary(Derive *d, const Op *op, Value *g)
{
    Value *a = op->operands[0], *y = op->results[0], *by;
    switch (op->kind) {
    case OP_NEG: derive_add(d, a, negated(d, g)); return;
    case OP_ABS: derive_abs(d, op, g); return;
    case OP_SQRT:
    case OP_FAST_SQRT: derive_add(d, a, divide(d, scaled(d, g, 0.5), y)); return;
    case OP_TF32:
    case OP_CAST:
        if (dtype_is_float(a->type->dtype)) {
            derive_add(d, a, g);
        } else {
            refuse_bits(d, op);
        }
        return;
    case OP_FAST_EXP2: derive_add(d, a, mul(d, g, scaled(d, y, 0.6931471805599453))); return;
    case OP_FAST_LOG2: derive_add(d, a, divide(d, scaled(d, g, 1.4426950408889634), a)); return;
    case OP_FAST_TANH:
        by = derive_number(d, y, 1);
        derive_add(d, a, mul(d, g, build_fma(&d->b, negated(d, y), y, by)));
        return;
    case OP_FAST_RSQRT:
        by = mul(d, y, y);
        derive_add(d, a, mul(d, mul(d, scaled(d, g, -0.5), y), by));
        return;
    case OP_FAST_RECIPROCAL: derive_add(d, a, negated(d, mul(d, mul(d, g, y), y))); return;
    default: refuse_bits(d, op); return;
    }
}

bool derive_elementwise(Derive *d, const Op *op, Value *g)
{
    switch (op->kind) {
    case OP_FLOOR:
    case OP_CEIL:
    case OP_TRUNC:
    case OP_RINT: return true; /* 0 */
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX: derive_binary(d, op, g); return true;
    case OP_FMA:
        derive_add(d, op->operands[0],
                   derive_is_active(d, op->operands[0]) ? mul(d, g, op->operands[1]) : NULL);
        derive_add(d, op->operands[1],
                   derive_is_active(d, op->operands[1]) ? mul(d, g, op->operands[0]) : NULL);
        derive_add(d, op->operands[2], g);
        return true;
    case OP_SELECT: derive_choice(d, op, g); return true;
    case OP_NEG:
    case OP_ABS:
    case OP_SQRT:
    case OP_TF32:
    case OP_CAST:
    case OP_BITCAST:
    case OP_FAST_EXP2:
    case OP_FAST_LOG2:
    case OP_FAST_TANH:
    case OP_FAST_SQRT:
    case OP_FAST_RSQRT:
    case OP_FAST_RECIPROCAL: derive_unary(d, op, g); return true;
    default: return false;
    }
}
