/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of reductions, scans and dots. Only interp*.c include this. */
#ifndef TESSERA_IR_INTERP_INTERP_REDUCE_H
#define TESSERA_IR_INTERP_INTERP_REDUCE_H

#include "ir/interp/interp_internal.h"

typedef enum Fold { FOLD_SUM, FOLD_PROD, FOLD_MAX, FOLD_MIN } Fold;

/* The axis that is folded, between those outside and inside of it. */
typedef struct Axes {
    int64_t outer, len, inner;
    Fold fold;
    OpKind kind;
    DType dtype;
    int products; /* multiplications and divisions of an element of a sum whose order may differ */
} Axes;

static inline double *doubles(Buffer *buffer)
{
    return buffer ? (double *)(void *)buffer->bytes : NULL;
}

static inline int64_t *ints(Buffer *buffer)
{
    return buffer ? (int64_t *)(void *)buffer->bytes : NULL;
}

Axes reduce_axes(InterpRun *run, const Op *op,
                 const Array *from);   /* by its `axis` and, if any, its `fn` */
Scalar axes_neutral(const Axes *axes); /* what an empty axis gives */
double axes_fold(const Axes *axes, double a, double b);
int64_t axes_fold_int(const Axes *axes, int64_t a, int64_t b);

/* The fold of `from` along the axes, into `to`, with its bound. */
void reduce_into(InterpRun *run, const Op *op, const Axes *axes, const Array *from, Array *to);

double unit_of(DType dtype);
double greatest_of(DType dtype);
/* Rounding of at most n operations whose partial results stay under `size`. Where the parts leave
 * the type's range, so may another order's result. */
double rounding(double n, double unit, double size, double greatest);
/* The bound of an op that adds products which are summed; of another op it is none. */
void interp_spread_addends(InterpRun *run, const Op *op, Array *const *from, Array *result);

/* Elements of the base plane from doubles or i64. */
void put_plane(Array *to, const Buffer *from, bool is_float);
/* Samples at ± bounds (NULL: none), by the signs of the op's source; drops the bounds. */
void spread_all(InterpRun *run, const Op *op, int result, Array *array, Buffer *bounds);

#endif
