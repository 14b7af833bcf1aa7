/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings about a kernel that has no errors, from its AST alone: unused names, names that hide
 * others, sums in narrow float types, products of sizes that may overflow the integer type they
 * are cast to, products that wrap before they are summed, exact comparisons of floats. The kernel
 * is not changed. */
#ifndef TESSERA_FRONTEND_LOWER_LINT_H
#define TESSERA_FRONTEND_LOWER_LINT_H

#include "frontend/lower/lower.h"

/* The kernel of `l`, and the functions of its file. */
void lint_kernel(Lower *l);
/* Results of `l`'s function, as lowered, that the kernel may leave unwritten (lint_results.c). */
void lint_results(Lower *l);
/* A comparison for equality of two values of this type. */
void lint_equality(Lower *l, const Expr *expr, DType dtype);
/* What is summed, of this type. */
void lint_terms(Lower *l, const Expr *terms, DType dtype);

#endif
