/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients by value, and what all rules build. */
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

void derive_add(Derive *d, Value *of, Value *gradient)
{
    if (!derive_is_active(d, of) || !gradient) {
        return;
    }
    Value **sum = &d->gradients[of->id];
    Value *wide = build_cast(&d->b, gradient, derive_dtype(of->type->dtype));
    *sum = *sum ? build_binary(&d->b, OP_ADD, *sum, wide) : wide;
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
