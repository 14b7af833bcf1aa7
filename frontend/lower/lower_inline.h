/* SPDX-License-Identifier: Apache-2.0 */
/* Function parameters with shapes, such as `x: T[M, N]`. Private to the component. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_INLINE_H
#define TESSERA_FRONTEND_LOWER_LOWER_INLINE_H

#include "frontend/lower/lower.h"

/* The value as this element type; the conversion has been checked. */
Val converted_val(Lower *l, Val val, DType dtype);
/* Before the call: the argument as the element type that the parameter names, of any shape. */
Val shaped_argument(Lower *l, const Expr *arg, const ParamDecl *param, Val val);
/* Inside of the function: names of extents and element types that are new take the arguments'; all
 * others have to be equal. False after an error. */
bool bind_shapes(Lower *l, const Expr *call, const FnDecl *fn, const Val *vals);

/* ---- results that are written (lower_fn_results.c) ---- */
/* Inside of the function, when its sizes are bound; false after an error. */
bool define_results(Lower *l, const FnDecl *fn);
/* `y = …`, y such a result. */
void local_whole(Lower *l, const Stmt *stmt, Symbol *symbol, Val value);
/* `y[i, j] = …` over all of y: the lanes from `lanes` on are its axes. False: it is not that. */
bool local_by_index(Lower *l, const Stmt *stmt, Symbol *symbol, const Val *value, int lanes);
/* May a part be written? Not where the call has no memory: an error. */
bool local_part(Lower *l, Span span, const Val *base);
/* What the call gives; `returned`: what the body gave back instead, or NULL. */
Val local_results(Lower *l, const Expr *call, const FnDecl *fn, const Val *returned);

/* ---- where (lower_where.c) ---- */
/* The clause `T: class`; NULL: the function has none. */
const GenericDecl *generic_called(const FnDecl *fn, const char *name);
/* Is it the type of `x: T`, T of the function's `where`? `type` may be NULL. */
bool is_generic(const FnDecl *fn, const Expr *type);
/* Inside of the function, after its parameters: false after an error. */
bool bind_where(Lower *l, const Expr *call, const FnDecl *fn);
/* Does a comparison of sizes hold whatever they are? *never: it is known that it does not. */
bool rule_holds(Lower *l, const Expr *rule, bool *never);

#endif
