/* SPDX-License-Identifier: Apache-2.0 */
/* reduce(f, x, init=…) and scan(f, x, init=…): folds by an associative function of the program. x
 * and init are arrays, or tuples of arrays of one shape with their identity elements; f takes two
 * such elements, the earlier one first. */
#include "frontend/lower/lower_reduce.h"

enum { MAX_PARTS = 8 };

typedef struct Fold {
    const Expr *expr;
    const char *name;
    const Expr *axis, *init, *reverse, *exclusive;
    bool backward, excludes, scans, tuple;
    Val x[MAX_PARTS], identity[MAX_PARTS];
    DType dtypes[MAX_PARTS];
    int n;
    Shape shape; /* of the arrays, lanes of all of them */
} Fold;

/* ---- arguments ---- */

static bool parts_of(Lower *l, const Expr *expr, Val *out, int *n, bool *tuple)
{
    Val val = lower_any(l, expr);
    *tuple = val.kind == VAL_TUPLE;
    if (is_poison(&val)) {
        return false;
    }
    if (*tuple && val.n_items > MAX_PARTS) {
        lower_error(l, ERR_TUPLE, expr->span, "a tuple that is folded has at most %d parts",
                    MAX_PARTS);
        return false;
    }
    *n = *tuple ? val.n_items : 1;
    for (int i = 0; i < *n; i++) {
        out[i] = *tuple ? val.items[i] : val;
    }
    return true;
}

static bool fold_arrays(Lower *l, Fold *f)
{
    const Expr *arg = f->expr->args.items[1];
    if (!parts_of(l, arg, f->x, &f->n, &f->tuple)) {
        return false;
    }
    for (int i = 0; i < f->n; i++) {
        Shape shape = shape_of(&f->x[i]);
        f->dtypes[i] = compute_dtype(dtype_of(&f->x[i]));
        if (i == 0) {
            f->shape = shape;
        } else if (!broadcast_shapes(l, arg->span, NULL, &f->x[0], NULL, &f->x[i], &f->shape,
                                     &shape, &f->shape)) {
            return false;
        }
    }
    return true;
}

static bool fold_identities(Lower *l, Fold *f)
{
    int n;
    bool tuple;
    if (!f->init) {
        Diag *diag = lower_error(l, ERR_ARGUMENTS, f->expr->span,
                                 "`%s` was passed no `init`, which it needs", f->name);
        diag_help(l->diags, diag, "give the function's identity element: `init=0` for a sum");
        return false;
    }
    if (!parts_of(l, f->init, f->identity, &n, &tuple)) {
        return false;
    }
    if (n != f->n || tuple != f->tuple) {
        lower_error(l, ERR_TUPLE, f->init->span, "`init` has not the parts of what is folded: %d",
                    f->n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (shape_of(&f->identity[i]).rank || f->identity[i].lanes) {
            lower_error(l, ERR_ARGUMENTS, f->init->span,
                        "%s was passed as the identity element, where a scalar is expected",
                        val_text(l, &f->identity[i]));
            return false;
        }
        if (!check_fits(l, ERR_ARGUMENTS, f->init->span, &f->identity[i], f->dtypes[i], true)) {
            return false;
        }
    }
    return true;
}

/* ---- the region: a call of the function with two elements ---- */

static Val element(Lower *l, const Fold *f, Value *const *args)
{
    if (!f->tuple) {
        return array_val(args[0]);
    }
    Val tuple = {.kind = VAL_TUPLE, .n_items = f->n};
    tuple.items = ARENA_ARRAY(l->arena, Val, f->n);
    for (int i = 0; i < f->n; i++) {
        tuple.items[i] = array_val(args[i]);
    }
    return tuple;
}

static Expr *operand(Lower *l, const Fold *f, const char *name, Val val)
{
    Expr *expr = ARENA_NEW(l->arena, Expr);
    *expr =
        (Expr){.kind = EXPR_NAME, .span = f->expr->args.items[1]->span, .name = name, .height = 1};
    define(l, name, SPAN_NONE, val);
    return expr;
}

static Val call_with(Lower *l, const Fold *f, Value *const *args)
{
    Symbol *symbols = l->symbols;
    Expr call = {.kind = EXPR_CALL, .span = f->expr->span, .a = f->expr->args.items[0]};
    ARENA_PUSH(l->arena, &call.args, operand(l, f, "fold.earlier", element(l, f, args)));
    ARENA_PUSH(l->arena, &call.args, operand(l, f, "fold.later", element(l, f, args + f->n)));
    Val out = lower_any(l, &call);
    l->symbols = symbols;
    return out;
}

static bool yield_folded(Lower *l, const Fold *f, const Val *out)
{
    const Expr *fn = f->expr->args.items[0];
    Value *values[MAX_PARTS];
    Shape scalar = {.rank = 0};
    if ((out->kind == VAL_TUPLE) != f->tuple || (f->tuple && out->n_items != f->n)) {
        Diag *diag = lower_error(l, ERR_TUPLE, fn->span, "the function gives %s, not %s",
                                 val_text(l, out), f->tuple ? "such a tuple" : "one value");
        diag_help(l->diags, diag, "it takes two elements of what is folded, and gives one");
        return false;
    }
    for (int i = 0; i < f->n; i++) {
        const Val *part = f->tuple ? &out->items[i] : out;
        if (shape_of(part).rank) {
            lower_error(l, ERR_FOLD, fn->span, "the function gives %s, not a scalar",
                        val_text(l, part));
            return false;
        }
        if (!check_fits(l, ERR_FOLD, fn->span, part, f->dtypes[i], false)) {
            return false;
        }
        values[i] = materialize(l, part, f->dtypes[i], &scalar);
    }
    build_yield(&l->b, f->n, values);
    return true;
}

static bool lower_function(Lower *l, const Fold *f, Op *op)
{
    Builder outside = l->b;
    Val mask = l->mask;
    bool nested = l->nested;
    l->nested = true;
    l->b = build_at_end(l->func, op->regions[0]);
    l->b.span = outside.span;
    l->mask = bool_val(true);
    Val out = call_with(l, f, op->regions[0]->args);
    bool good = !is_poison(&out) && yield_folded(l, f, &out);
    l->b = outside;
    l->mask = mask;
    l->nested = nested;
    if (good && !block_is_scalar(op->regions[0])) {
        Diag *diag = lower_error(l, ERR_FOLD, f->expr->args.items[0]->span,
                                 "the function does more than arithmetic on its two elements");
        diag_help(l->diags, diag, "what it reads can be a part of the tuple that is folded");
        return false;
    }
    return good;
}

/* ---- folding ---- */

static bool fold_axis(Lower *l, const Fold *f, Value **arrays, Value *const *identities, int axis)
{
    Op *op = build_fold(&l->b, f->n, arrays, identities, axis, f->scans, f->backward, f->excludes);
    if (!lower_function(l, f, op)) {
        return false;
    }
    for (int i = 0; i < f->n; i++) {
        arrays[i] = op->results[i];
    }
    return true;
}

static bool fold_axes(Lower *l, const Fold *f, Axes *axes)
{
    int one;
    if (!f->scans) {
        return choose_axes(l, f->axis, f->shape.rank, axes);
    }
    *axes = (Axes){.all = false};
    if (!choose_one(l, f->expr, f->axis, f->shape.rank, &one)) {
        return false;
    }
    axes->chosen[one] = true;
    return true;
}

Val lower_fold(Lower *l, const Expr *expr, Builtin builtin)
{
    Fold f = {.expr = expr, .name = builtin_name(builtin), .scans = builtin == BUILTIN_SCAN};
    const Option options[] = {
        {"init", &f.init}, {"axis", &f.axis}, {"reverse", &f.reverse}, {"exclusive", &f.exclusive}};
    const char *usage = f.scans ? "scan(f, x, init=0, axis=-1, reverse=false, exclusive=false)"
                                : "reduce(f, x, init=0, axis=-1)";
    if (!take_options(l, expr, 2, options, f.scans ? 4 : 2, usage) || !fold_arrays(l, &f) ||
        !fold_identities(l, &f) || !choose_bool(l, f.reverse, &f.backward) ||
        !choose_bool(l, f.exclusive, &f.excludes)) {
        return poison_val();
    }
    if (l->lane_loop) {
        mixes_lanes(l, expr->span, f.name);
        return poison_val();
    }
    Value *arrays[MAX_PARTS], *identities[MAX_PARTS];
    Shape scalar = {.rank = 0};
    Axes axes;
    if (!fold_axes(l, &f, &axes)) {
        return poison_val();
    }
    for (int i = 0; i < f.n; i++) {
        arrays[i] = materialize(l, &f.x[i], f.dtypes[i], &f.shape);
        identities[i] = materialize(l, &f.identity[i], f.dtypes[i], &scalar);
    }
    for (int i = f.shape.rank - 1; i >= 0; i--) {
        int axis = lane_count(f.shape.lanes) + i;
        if (axes.chosen[i] && !fold_axis(l, &f, arrays, identities, axis)) {
            return poison_val();
        }
    }
    Val tuple = {.kind = VAL_TUPLE, .n_items = f.n};
    tuple.items = ARENA_ARRAY(l->arena, Val, f.n);
    for (int i = 0; i < f.n; i++) {
        Value *value = squeeze_all(l, arrays[i], &axes, lane_count(f.shape.lanes));
        tuple.items[i] = shaped_val(value, &f.shape);
    }
    return f.tuple ? tuple : tuple.items[0];
}
