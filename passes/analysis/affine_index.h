/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arrays as forms of the places of their elements: an affine sum, and quotients and
 * remainders of such sums by constants. Passes that ask how an index or a condition depends on the
 * axes of an array ask here; the arithmetic on forms is exact as long as no index overflows, which
 * the limits of coefficients guarantee for all tensors that fit into memory. */
#ifndef TESSERA_PASSES_ANALYSIS_AFFINE_INDEX_H
#define TESSERA_PASSES_ANALYSIS_AFFINE_INDEX_H

#include "ir/memo.h"

enum {
    FORM_AXES = MAX_RANK + 4, /* axes of an array, and further ones that a caller defines */
    FORM_PARTS = 3,
};

typedef struct IndexForm IndexForm;

/* times * (of // by), or times * (of % by). */
typedef struct IndexPart {
    const IndexForm *of;
    int64_t by; /* at least 2 */
    int64_t times;
    bool is_remainder;
} IndexPart;

/* base + the sum over axes of coef[i] * (the place along axis i) + the parts. */
struct IndexForm {
    Dim base;
    int64_t coef[FORM_AXES];
    int n_parts;
    IndexPart parts[FORM_PARTS];
};

/* The form of an i64 array over its own axes, along which ranges count absolute indices; NULL: it
 * has none. `memo`: of this question alone. */
const IndexForm *an_index_form(Func *func, Memo *memo, const Value *value);
/* A memo that knows the answer for all values that there are. */
Memo *an_index_forms_all(Func *func);

/* Arithmetic. The result is NULL if an operand is, and if the form would exceed a limit. */
const IndexForm *form_dim(Func *func, Dim base);
const IndexForm *form_axis(Func *func, int axis);
const IndexForm *form_sum(Func *func, const IndexForm *a, const IndexForm *b, int64_t times);
const IndexForm *form_scaled(Func *func, const IndexForm *a, int64_t times);
const IndexForm *form_quotient(Func *func, const IndexForm *a, int64_t by);
const IndexForm *form_remainder(Func *func, const IndexForm *a, int64_t by);
/* The form with by[i] for the place along each axis i that it depends on. */
const IndexForm *form_substitute(Func *func, const IndexForm *a, const IndexForm *const *by);

/* The axes on which the form depends, as bits. */
unsigned form_axes(const IndexForm *a);
/* True if the form is a number. */
bool form_is_const(const IndexForm *a, int64_t *number);
/* The axis of which the form is the place; -1: it is another form. */
int form_as_axis(const IndexForm *a);
bool form_equal(const IndexForm *a, const IndexForm *b);

#endif
