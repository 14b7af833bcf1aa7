/* SPDX-License-Identifier: Apache-2.0 */
/* The table from values to their gradients, and the ops that all derivative rules build. */
#include "passes/derive/derive_sweep.h"

#include "ir/ir_errors.h"

DType derive_dtype(DType dtype)
{
    return dtype_is_narrow(dtype) ? DT_F32 : dtype;
}

bool derive_is_active(const Derive *d, const Value *value)
{
    return value && value->id < d->n_before && d->activity[value->id] == ACTIVE_FLOAT;
}

Diag *derive_refuse(Derive *d, const Op *op, const char *why)
{
    Diag *diag = diag_error(d->func->diags, ERR_NO_DERIVATIVE, op->span, "%s", why);
    d->failed = true;
    return diag;
}

Value *derive_zero(Derive *d, Type type)
{
    Type wide = type_array(d->func, derive_dtype(type->dtype), type->rank, type->dims);
    return build_float(&d->b, wide, 0);
}

Value *derive_number(Derive *d, const Value *like, double number)
{
    return build_float(&d->b, like->type, number);
}

Value *derive_gradient(Derive *d, const Value *of)
{
    return of->id < d->n_before ? d->gradients[of->id] : NULL;
}

/* ---- parts ---- */

void derive_note_part(Derive *d, const Value *gradient, int axis, Dim lo, Dim hi)
{
    ARENA_PUSH(d->func->arena, &d->parts, ((GradientPart){gradient, axis, lo, hi}));
}

static const GradientPart *part_of(const Derive *d, const Value *gradient)
{
    for (size_t i = d->parts.n; i-- > 0;) {
        if (d->parts.items[i].value == gradient) {
            return &d->parts.items[i];
        }
    }
    return NULL;
}

/* One before the other, as a concatenation says it. */
static Value *joined(Derive *d, GradientPart first, GradientPart second)
{
    Value *left = (Value *)first.value, *right = (Value *)second.value;
    Type type = left->type;
    Dim extent = type->dims[first.axis];
    Value *place = build_iota(&d->b, extent, DT_I64);
    Value *middle = build_broadcast(&d->b, build_size(&d->b, first.hi), 1, &extent);
    Value *before = build_cmp(&d->b, "lt", place, middle);
    for (int i = 0; i < type->rank; i++) {
        before = i == first.axis ? before : build_expand(&d->b, before, i);
    }
    before = build_broadcast(&d->b, before, type->rank, type->dims);
    Value *both = build_select(&d->b, before, left, right);
    derive_note_part(d, both, first.axis, first.lo, second.hi);
    return both;
}

static Value *sum_of(Derive *d, Value *a, Value *c)
{
    const GradientPart *left = part_of(d, a), *right = part_of(d, c);
    if (left && right && left->axis == right->axis && left->hi == right->lo) {
        return joined(d, *left, *right);
    }
    if (left && right && left->axis == right->axis && right->hi == left->lo) {
        return joined(d, *right, *left);
    }
    return build_binary(&d->b, OP_ADD, a, c);
}

void derive_add(Derive *d, Value *of, Value *gradient)
{
    if (!derive_is_active(d, of) || !gradient) {
        return;
    }
    Value **sum = &d->gradients[of->id];
    Value *wide = build_cast(&d->b, gradient, derive_dtype(of->type->dtype));
    *sum = *sum ? sum_of(d, *sum, wide) : wide;
}

Value *derive_sum_to(Builder *b, Value *gradient, Type type)
{
    int more = gradient->type->rank - type->rank;
    for (int i = 0; i < more; i++) {
        gradient = build_squeeze(b, build_reduce(b, "sum", gradient, 0), 0);
    }
    for (int i = 0; i < type->rank; i++) {
        if (gradient->type->dims[i] != type->dims[i]) {
            gradient = build_reduce(b, "sum", gradient, i);
        }
    }
    return gradient;
}

Value *derive_iota_along(Derive *d, Type type, int axis)
{
    Value *iota = build_iota(&d->b, type->dims[axis], DT_I64);
    for (int i = 0; i < type->rank; i++) {
        iota = i == axis ? iota : build_expand(&d->b, iota, i);
    }
    return build_broadcast(&d->b, iota, type->rank, type->dims);
}
