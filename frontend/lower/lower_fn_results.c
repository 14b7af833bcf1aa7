/* SPDX-License-Identifier: Apache-2.0 */
/* Results that functions assign: `fn f(x: T[M, N]) -> y: f32[M] { … }`. A result that is assigned
 * as a whole, also by `y[i, j] = …` over all of it, is the assigned value. A result that is
 * assigned piecewise is an intermediate tensor, which the call reads after the body. */
#include "frontend/lower/lower_index.h"
#include "frontend/lower/lower_inline.h"

/* ---- before the body ---- */

/* Inside of a loop or of index notation there is no memory for it: the tensor is a name alone. */
static Value *local_memory(Lower *l, Type type)
{
    if (!l->nested) {
        return func_scratch(l->func, type);
    }
    Value *value = ARENA_NEW(l->arena, Value);
    value->type = type_tensor(l->func, type->dtype, type->rank, type->dims);
    return value;
}

static bool define_result(Lower *l, const ParamDecl *result)
{
    if (result->type->kind != EXPR_INDEX) {
        Diag *diag =
            lower_error(l, ERR_SIGNATURE, result->type->span, "what a function writes is an array");
        diag_help(l->diags, diag, "give a scalar back with `return`: `-> %s`",
                  source_text(l->diags, l->arena, result->type->span));
        return false;
    }
    Type type = lower_type(l, result->type);
    if (!type || find_symbol(l, result->name)) {
        if (type) {
            lower_error(l, ERR_DUPLICATE, result->span, "`%s` is defined twice", result->name);
        }
        return false;
    }
    Val val = {.kind = VAL_TENSOR, .is_result = true, .is_local = true};
    val.value = local_memory(l, type);
    define(l, result->name, result->span, val);
    return true;
}

bool define_results(Lower *l, const FnDecl *fn)
{
    bool good = true;
    for (size_t i = 0; i < fn->results.n && good; i++) {
        good = define_result(l, &fn->results.items[i]);
    }
    return good;
}

/* ---- writing ---- */

static bool in_region(const Lower *l)
{
    return l->branches > 0 || l->loops > 0;
}

static bool refuse_part(Lower *l, Span span)
{
    Diag *diag = lower_unsupported(l, span,
                                   "a function that writes parts of its result and is called "
                                   "for each index, or inside of a loop or a branch, is");
    diag_help(l->diags, diag,
              "call it before, and index what it gives; or write the result as a whole, "
              "`y[i, j] = …`");
    return false;
}

static void hold(Lower *l, Span span, Symbol *symbol, const Val *val)
{
    if (l->nested && in_region(l)) {
        refuse_part(l, span);
        return;
    }
    if (!l->nested) {
        build_store(&l->b, symbol->val.value, WHOLE, val->value);
        *written_flag(l, symbol->val.value) = true;
    }
    symbol->val.known_value = val->value;
    symbol->val.known_lanes = val->lanes;
}

void local_whole(Lower *l, const Stmt *stmt, Symbol *symbol, Val value)
{
    Type memory = symbol->val.value->type;
    Type type = type_array(l->func, memory->dtype, memory->rank, memory->dims);
    value = fit_to_type(l, stmt->value->span, as_operand(l, stmt->value, value), type, true);
    if (is_poison(&value)) {
        symbol->val = value; /* poison */
    } else if (l->n_lanes > l->calls->lanes || l->parallel > l->calls->parallel) {
        Diag *diag = lower_error(l, ERR_PARALLEL_WRITE, stmt->span,
                                 "all iterations of `parallel` write `%s`", symbol->name);
        diag_help(l->diags, diag, "index the result with every variable of `parallel`");
    } else {
        hold(l, stmt->span, symbol, &value);
    }
}

bool local_by_index(Lower *l, const Stmt *stmt, Symbol *symbol, const Val *value, int lanes)
{
    Type type = symbol->val.value->type;
    bool whole = l->n_lanes - lanes == type->rank && (int)stmt->target->args.n == type->rank &&
                 lanes == l->calls->lanes && l->parallel == l->calls->parallel &&
                 !(l->nested && in_region(l));
    Shape shape = shape_of(value), full;
    if (!whole || shape.rank > 0 || is_poison(value) || value->kind == VAL_TUPLE) {
        return false;
    }
    shape.lanes |= lanes_from(l, lanes);
    if (check_fits(l, ERR_RESULT, stmt->value->span, value, type->dtype, true) &&
        full_shape(l, stmt->span, &shape, &full)) {
        Lanes outer = shape.lanes & ~lanes_from(l, lanes);
        Val held = lanes_val(materialize(l, value, type->dtype, &shape), outer);
        hold(l, stmt->span, symbol, &held);
    }
    return true;
}

bool local_part(Lower *l, Span span, const Val *base)
{
    return !base->is_local || !l->nested || refuse_part(l, span);
}

/* ---- after the body ---- */

static Val written_result(Lower *l, const Expr *call, const FnDecl *fn, const ParamDecl *result)
{
    const Symbol *symbol = find_symbol(l, result->name);
    const Val *val = &symbol->val;
    if (is_poison(val) || val->known_value) {
        return is_poison(val) ? *val : lanes_val(val->known_value, val->known_lanes);
    }
    if (l->nested || !*written_flag(l, val->value)) {
        Diag *diag = lower_error(l, ERR_RESULT, call->span, "`%s` of `%s` never gets a value",
                                 result->name, fn->name);
        diag_label(l->diags, diag, result->span, "declared here");
        diag_help(l->diags, diag, "return it, or write `%s = …`", result->name);
        return poison_val();
    }
    return array_val(build_load(&l->b, val->value, WHOLE));
}

/* The returned value, converted to the types of the results. */
static Val returned_result(Lower *l, const ParamDecl *result, Val val)
{
    const Symbol *symbol = find_symbol(l, result->name);
    if (is_poison(&symbol->val) || is_poison(&val)) {
        return poison_val();
    }
    Type memory = symbol->val.value->type;
    Type type = type_array(l->func, memory->dtype, memory->rank, memory->dims);
    return fit_to_type(l, result->span, as_operand(l, result->type, val), type, true);
}

Val local_results(Lower *l, const Expr *call, const FnDecl *fn, const Val *returned)
{
    int n = (int)fn->results.n;
    Val tuple = {.kind = VAL_TUPLE, .n_items = n, .items = ARENA_ARRAY(l->arena, Val, n)};
    bool parts = returned && n > 1;
    if (parts && (returned->kind != VAL_TUPLE || returned->n_items != n)) {
        if (!is_poison(returned)) {
            lower_error(l, ERR_TUPLE, call->span, "`%s` has %d results, not %s", fn->name, n,
                        val_text(l, returned));
        }
        return poison_val();
    }
    for (int i = 0; i < n; i++) {
        const ParamDecl *result = &fn->results.items[i];
        if (returned) {
            tuple.items[i] = returned_result(l, result, parts ? returned->items[i] : *returned);
        } else {
            tuple.items[i] = written_result(l, call, fn, result);
        }
        if (is_poison(&tuple.items[i])) {
            return poison_val();
        }
    }
    return n == 1 ? tuple.items[0] : tuple;
}
