/* SPDX-License-Identifier: Apache-2.0 */
/* Function parameters with shapes, such as `x: T[M, N]`. Private to the component. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_INLINE_H
#define TESSERA_FRONTEND_LOWER_LOWER_INLINE_H

#include "frontend/lower/lower.h"

/* The value as this element type; the conversion has been checked. */
Val converted_val(Lower *l, Val val, DType dtype);
/* Before the call: converts the argument to the element type that the parameter names. */
Val shaped_argument(Lower *l, const Expr *arg, const ParamDecl *param, Val val);
/* Inside the function: new names of extents and element types are bound to those of the arguments;
 * all others must be equal. False after an error. */
bool bind_shapes(Lower *l, const Expr *call, const FnDecl *fn, const Val *vals);

/* ---- results that are written (lower_fn_results.c) ---- */
/* Inside of the function, when its sizes are bound; false after an error. */
bool define_results(Lower *l, const FnDecl *fn);
/* `y = …`, y such a result. */
void local_whole(Lower *l, const Stmt *stmt, Symbol *symbol, Val value);
/* `y[i, j] = …` over all of y: the lanes from `lanes` on are its axes. False: it is not that. */
bool local_by_index(Lower *l, const Stmt *stmt, Symbol *symbol, const Val *value, int lanes);
/* Reports a partial write where the call has no memory for the result; false then. */
bool local_part(Lower *l, Span span, const Val *base);
/* The results of the call; `returned` is the value that the body returned instead, or NULL. */
Val local_results(Lower *l, const Expr *call, const FnDecl *fn, const Val *returned);

/* ---- where (lower_where.c) ---- */
/* The clause `T: class`; NULL: the function has none. */
const GenericDecl *generic_called(const FnDecl *fn, const char *name);
/* True if the type is T of `x: T` with T in the function's `where`. `type` may be NULL. */
bool is_generic(const FnDecl *fn, const Expr *type);
/* Inside of the function, after its parameters: false after an error. */
bool bind_where(Lower *l, const Expr *call, const FnDecl *fn);
/* True if a comparison holds for all sizes; *never if it is known not to hold. */
bool rule_holds(Lower *l, const Expr *rule, bool *never);

#endif
