/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in functions for views and for arrays made of indices. Private to the component. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_VIEWS_H
#define TESSERA_FRONTEND_LOWER_LOWER_VIEWS_H

#include "frontend/lower/lower_index.h"

/* ---- lower_views.c ---- */
/* Arguments by position or by name, in the order of `names` (ends with NULL); the first `needed`
 * must be there. False after an error that shows `usage`. */
bool view_arguments(Lower *l, const Expr *expr, const char *const *names, size_t needed,
                    const char *usage, const Expr **out);
/* Lowers an array, or a tensor without loading it. */
Val view_operand(Lower *l, const Expr *expr);
bool view_axis(Lower *l, const Expr *expr, int rank, int otherwise, int *axis);
/* a op b, on indices. */
Val view_compute(Lower *l, OpKind kind, const char *pred, Val a, Val b);
/* A view that changes a single axis. `proven`: the index is in bounds. */
Val view_along(Lower *l, const Val *from, int axis, Dim extent, Val index, bool proven);

#endif
