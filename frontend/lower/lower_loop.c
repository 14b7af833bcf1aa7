/* SPDX-License-Identifier: Apache-2.0 */
/* The statement `for` and the ranges that it iterates over. A variable from outside of a `for`
 * that its body assigns becomes a loop-carried value. */
#include "frontend/lower/lower_control.h"

enum { MAX_STEP = 1 << 20 };

/* ---- the axis ---- */

static bool lower_step(Lower *l, const Axis *axis, LoopBounds *walk)
{
    walk->step = axis->by == BY_AUTO ? -1 : 0;
    if (!axis->step) {
        return true;
    }
    if (!const_int(l, axis->step, &walk->step)) {
        return false;
    }
    if (walk->step < 1 || walk->step > MAX_STEP) {
        lower_error(l, ERR_EXTENT, axis->step->span, "a step is 1 to %d", MAX_STEP);
        return false;
    }
    return true;
}

/* Never below 0: a part that begins before its axis begins at 0. */
static Value *clamp_low(Lower *l, Value *lo)
{
    if (!lo || (lo->def && (lo->def->kind == OP_START || lo->def->kind == OP_END))) {
        return lo;
    }
    return build_binary(&l->b, OP_MAX, lo, build_i64(&l->b, 0));
}

static bool extent_error(Lower *l, const Expr *extent, const Val *val)
{
    if (!is_poison(val)) {
        Diag *diag = lower_error(l, ERR_EXTENT, extent->span, "a loop cannot iterate over %s",
                                 val_text(l, val));
        if (is_scalar_int(val)) {
            const char *end = source_text(l->diags, l->arena, extent->span);
            diag_help(l->diags, diag, "count up to the number: `0..%s`", end);
            lower_fix_around(l, diag, extent->span, "0..", "");
        } else {
            diag_help(l->diags, diag,
                      "it iterates over a size, a part of one, `N[lo: hi]`, or `a..b`");
        }
    }
    return false;
}

static bool walk_extent(Lower *l, const Expr *extent, LoopBounds *walk)
{
    Val val = lower_expr(l, extent);
    switch (val.kind) {
    case VAL_DIM: walk->axis_extent = val.dim; break;
    case VAL_PART:
        walk->axis_extent = val.dim;
        walk->lo = clamp_low(l, val.lo);
        walk->hi = val.hi;
        walk->from = val.from;
        walk->to = val.to;
        break;
    case VAL_CONST:
        if (!dtype_is_int(val.dtype)) {
            return extent_error(l, extent, &val);
        }
        if (val.scalar.i < 0) {
            negative_extent(l, extent->span, val.scalar.i);
            return false;
        }
        walk->axis_extent = poly_const(l->func, val.scalar.i);
        break;
    case VAL_RANGE:
        walk->axis_extent = poly_as_range(val.dim)->axis_extent;
        walk->lo = build_range_fact(&l->b, OP_START, val.value);
        walk->hi = build_range_fact(&l->b, OP_END, val.value);
        break;
    default: return extent_error(l, extent, &val);
    }
    /* The variable is an index inside the range. */
    IndexVar *var = ARENA_NEW(l->arena, IndexVar);
    Dim most = dim_sub(l->func, walk->axis_extent, poly_const(l->func, 1));
    *var = (IndexVar){.id = l->n_index_vars++,
                      .least = poly_const(l->func, 0),
                      .most = most,
                      .within = affine_as_var(val.affine)};
    walk->var = var;
    return true;
}

static bool scalar_end(Lower *l, const Expr *end, Val *out)
{
    *out = lower_expr(l, end);
    return is_scalar_int(out) || extent_error(l, end, out);
}

/* a..b: the extent is b where that is a size; else nothing is proven about the variable. */
static bool walk_between(Lower *l, const Axis *axis, LoopBounds *walk)
{
    Val lo, hi;
    if (!scalar_end(l, axis->extent, &lo) || !scalar_end(l, axis->to, &hi)) {
        return false;
    }
    if (axis->by != BY_NONE) {
        Diag *diag = lower_error(l, ERR_EXTENT, axis->span, "`a..b` is iterated over one by one");
        diag_help(l->diags, diag, "ranges iterate over a part of a size: `N[a: b] by n`");
        return false;
    }
    if (lo.lanes || hi.lanes) {
        walk->in_lanes = true;
        walk->first = lo;
        walk->end = hi;
        return true;
    }
    walk->lo = as_index(l, &lo);
    walk->hi = as_index(l, &hi);
    walk->axis_extent = poly_const(l->func, INT64_MAX);
    if (hi.kind == VAL_DIM) {
        walk->axis_extent = hi.dim;
    } else if (hi.kind == VAL_CONST && hi.scalar.i >= 0) {
        walk->axis_extent = poly_const(l->func, hi.scalar.i);
    }
    Dim least = affine_least(l->func, affine_of(l, &lo));
    Dim end = affine_most(l->func, affine_of(l, &hi));
    Dim most = end ? dim_sub(l->func, end, poly_const(l->func, 1)) : NULL;
    walk->var = index_var(l, least, most);
    return true;
}

bool lower_axis(Lower *l, const Axis *axis, LoopBounds *walk)
{
    *walk = (LoopBounds){.step = 0};
    bool walks = axis->to ? walk_between(l, axis, walk) : walk_extent(l, axis->extent, walk);
    return walks && lower_step(l, axis, walk);
}

void define_axis(Lower *l, const Axis *axis, const LoopBounds *walk, Value *arg)
{
    Val val = array_val(arg);
    if (arg->type->kind == TYPE_RANGE) {
        val = (Val){.kind = VAL_RANGE, .value = arg, .dim = arg->type->dims[0]};
    }
    val.affine = affine_var(l->func, walk->var);
    define(l, axis->name, axis->span, val);
}

/* ---- for ---- */

void lower_poisoned(Lower *l, const Stmt *stmt)
{
    Symbol *outer = l->symbols;
    for (size_t i = 0; i < stmt->axes.n; i++) {
        define(l, stmt->axes.items[i].name, stmt->axes.items[i].span, poison_val());
    }
    LoopExitFlags leaving = begin_leaving(l, &stmt->body);
    l->loops++;
    begin_iteration(l, &stmt->body);
    lower_block(l, &stmt->body);
    l->loops--;
    end_leaving(l, leaving);
    l->symbols = outer;
}

/* False when values got more lanes than are carried: the loop is gone then. */
static bool try_loop(Lower *l, const Stmt *stmt, const LoopBounds *walk, const LoopCarried *carried)
{
    int errors = l->diags->errors, n = (int)carried->symbols.n;
    const Axis *axis = &stmt->axes.items[0];
    Value *lo = walk->lo ? walk->lo : build_i64(&l->b, 0);
    Value *hi = walk->hi ? walk->hi : build_size(&l->b, walk->axis_extent);
    Op *loop = build_for(&l->b, walk->axis_extent, walk->step, axis->name, lo, hi, n,
                         carried_inits(l, carried));
    if (axis->by == BY_EXACTLY) {
        op_set_int(l->func, loop, ATTR_EXACT, 1);
    }
    Builder outside = l->b;
    l->b = build_at_end(l->func, loop->regions[0]);
    l->loops++;
    carried_enter(carried, loop->regions[0]->args + 1);
    Symbol *outer = l->symbols;
    define_axis(l, &stmt->axes.items[0], walk, loop->regions[0]->args[0]);
    int n_parallel = l->n_parallel;
    if (stmt->kind == STMT_PARALLEL) {
        enter_parallel(l, walk->var, loop->regions[0]->args[0]);
    }
    begin_iteration(l, &stmt->body);
    if (l->leaving.active) {
        Val goes_on = l->leaving.active->val;
        lower_branches(l, stmt->span, &goes_on, &stmt->body, NULL);
    } else {
        lower_block(l, &stmt->body);
    }
    l->symbols = outer;
    l->n_parallel = n_parallel;
    l->loops--;
    bool wider = carried_widen(l, carried);
    if (!wider) {
        l->b.span = stmt->span;
        build_yield(&l->b, n, carried_values(l, carried));
    }
    l->b = outside;
    if (!wider) {
        carried_leave(carried, loop);
        return true;
    }
    op_remove(loop);
    if (l->diags->errors > errors) {
        carried_reset(l, carried);
        return true;
    }
    return false;
}

void lower_loop(Lower *l, const Stmt *stmt)
{
    LoopBounds walk;
    Span span = l->b.span;
    l->b.span = stmt->span;
    if (!lower_axis(l, &stmt->axes.items[0], &walk)) {
        lower_poisoned(l, stmt);
    } else if (walk.in_lanes) {
        lower_for_lanes(l, stmt, &walk.first, &walk.end);
    } else {
        LoopExitFlags outer = begin_leaving(l, &stmt->body);
        LoopCarried carried = carried_by(l, &stmt->body, NULL);
        do {
            carried_reset(l, &carried);
        } while (!try_loop(l, stmt, &walk, &carried));
        forget_known_values(l);
        end_leaving(l, outer);
    }
    l->b.span = span;
}
