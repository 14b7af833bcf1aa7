/* SPDX-License-Identifier: Apache-2.0 */
/* The statement `parallel`. If it is over numbers only, each variable is a lane. With ranges the
 * program is hand-tiled: its body is lowered once, for one tile. */
#include "frontend/lower/lower_control.h"

enum { MAX_AXES = MAX_RANK };

/* ---- what is not supported ---- */

static bool refuse_parallel(Lower *l, const Stmt *stmt, const char *what, const char *help)
{
    Diag *diag = lower_unsupported(l, stmt->span, what);
    diag_help(l->diags, diag, "%s", help);
    return false;
}

static bool check_nested(Lower *l, const Stmt *stmt)
{
    return !l->nested || refuse_parallel(l, stmt,
                                         "`parallel` over ranges in a function that is called for "
                                         "each index, or inside of a loop or a branch, is",
                                         "call it before, and index what it returns");
}

static bool check_parallel(Lower *l, const Stmt *stmt)
{
    if (!check_nested(l, stmt)) {
        return false;
    }
    if (l->loops) {
        return refuse_parallel(l, stmt, "`parallel` over ranges inside of a loop is",
                               "put the loop inside of `parallel`, or run the kernel once a step");
    }
    if (l->branches) {
        return refuse_parallel(l, stmt,
                               "`parallel` over ranges next to other statements inside of `if` is",
                               "give it an `if` of its own, or put the condition inside");
    }
    if (stmt->axes.n > MAX_AXES) {
        return refuse_parallel(l, stmt, "more than 12 axes of `parallel` are",
                               "iterate over some of them with `for`, inside");
    }
    return true;
}

/* ---- the head ---- */

/* A part of an axis: whole tiles from its begin on, each of which is a part of the size. */
typedef struct Part {
    Dim first; /* NULL: the axis is walked from 0 */
    Dim end;   /* of what is walked by ranges; NULL: numbers */
} Part;

typedef struct Head {
    LoopBounds walks[MAX_AXES];
    Part parts[MAX_AXES];
    Dim dims[MAX_AXES];
    int64_t steps[MAX_AXES];
    const char *names[MAX_AXES];
    int n;
} Head;

static bool wrong_part(Lower *l, const Axis *axis, const char *what, const char *help)
{
    Diag *diag = lower_error(l, ERR_EXTENT, axis->extent->span, "%s", what);
    diag_help(l->diags, diag, "%s", help);
    return false;
}

/* `i in N[a: b]`, with a step or without */
static bool part_axis(Lower *l, const Axis *axis, Head *head, int i)
{
    LoopBounds *walk = &head->walks[i];
    Dim first = walk->lo ? walk->from : poly_const(l->func, 0);
    Dim end = walk->hi ? walk->to : walk->axis_extent;
    if (!first || !end) {
        return wrong_part(l, axis, "`parallel` walks a part whose ends are made of sizes",
                          "walk all of it, and choose inside with `if`");
    }
    if (walk->step < 0) {
        return wrong_part(l, axis, "a part of an axis is walked by a number",
                          "write how many elements at a time: `by 64`");
    }
    Dim extent = dim_sub(l->func, end, first), more = poly_const(l->func, walk->step - 1);
    Dim tiles = walk->step ? poly_add(l->func, extent, more) : extent;
    tiles = walk->step && tiles ? dim_quotient(l->func, tiles, walk->step) : tiles;
    if (!dim_is_natural(l->func, extent) || !dim_is_natural(l->func, first) || !tiles) {
        may_be_negative(l, axis->extent->span, dim_is_natural(l->func, extent) ? first : extent);
        return false;
    }
    head->parts[i] = (Part){first, walk->step ? end : NULL};
    head->dims[i] = tiles;
    return true;
}

static bool parallel_axis(Lower *l, const Axis *axis, Head *head, int i)
{
    LoopBounds *walk = &head->walks[i];
    head->parts[i] = (Part){NULL, NULL};
    head->names[i] = axis->name;
    head->steps[i] = 0;
    if (axis->to && axis->by == BY_NONE) {
        Dim first, extent;
        if (!axis_extent(l, axis, &first, &extent)) {
            return false;
        }
        Dim end = poly_add(l->func, first, extent);
        head->walks[i] = (LoopBounds){.axis_extent = extent};
        head->walks[i].var =
            index_var(l, first, end ? dim_sub(l->func, end, poly_const(l->func, 1)) : NULL);
        head->parts[i].first = poly_is_number(first, 0) ? NULL : first;
        head->dims[i] = extent;
        return true;
    }
    if (!lower_axis(l, axis, walk)) {
        return false;
    }
    if (walk->lo || walk->hi) {
        return part_axis(l, axis, head, i);
    }
    head->dims[i] = walk->axis_extent;
    head->steps[i] = walk->step;
    return true;
}

static bool same_name(Lower *l, const Stmt *stmt)
{
    for (size_t i = 0; i < stmt->axes.n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (text_equal(stmt->axes.items[i].name, stmt->axes.items[j].name)) {
                lower_error(l, ERR_DUPLICATE, stmt->axes.items[i].span, "`%s` is defined twice",
                            stmt->axes.items[i].name);
                return true;
            }
        }
    }
    return false;
}

static Op *build_head(Lower *l, const Stmt *stmt, const Head *head)
{
    Op *op = build_parallel(&l->b, OP_PARALLEL, head->n, head->dims, head->steps, head->names);
    for (int i = 0; i < head->n; i++) {
        if (stmt->axes.items[i].by == BY_EXACTLY && head->steps[i]) {
            op_set_int(l->func, op, ATTR_EXACT, 1);
        }
    }
    return op;
}

/* ---- the body ---- */

/* Is there a loop over ranges? Then the program is tiled by hand. */
static bool has_ranges(const StmtList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        for (size_t k = 0; k < stmt->axes.n; k++) {
            if (stmt->axes.items[k].by != BY_NONE) {
                return true;
            }
        }
        if (has_ranges(&stmt->body) || has_ranges(&stmt->otherwise)) {
            return true;
        }
    }
    return false;
}

/* ---- parallel in parallel ---- */

static bool mentions_one(const Axis *axis, const char *name)
{
    return expr_mentions(axis->extent, name) || (axis->to && expr_mentions(axis->to, name)) ||
           (axis->step && expr_mentions(axis->step, name));
}

/* Does an axis of the inner one depend on what the outer one or the statements before define? */
static bool depends(const Stmt *inner, const Stmt *outer, size_t lets)
{
    bool found = false;
    for (size_t i = 0; i < inner->axes.n; i++) {
        const Axis *axis = &inner->axes.items[i];
        for (size_t k = 0; k < outer->axes.n; k++) {
            found = found || mentions_one(axis, outer->axes.items[k].name);
        }
        for (size_t k = 0; k < lets; k++) {
            const Stmt *let = outer->body.items[k];
            found = found || let->names.n > 0 || mentions_one(axis, let->name);
        }
    }
    return found;
}

/* `parallel b in B { let …; parallel i in S by 16 { … } }` is one parallel over both. */
static Stmt joined(Lower *l, const Stmt *stmt)
{
    Stmt all = *stmt;
    const StmtList *body = &stmt->body;
    const Stmt *inner = body->n ? body->items[body->n - 1] : NULL;
    bool joins = inner && inner->kind == STMT_PARALLEL;
    for (size_t i = 0; joins && i + 1 < body->n; i++) {
        joins = body->items[i]->kind == STMT_LET;
    }
    if (!joins || depends(inner, stmt, body->n - 1)) {
        return all;
    }
    Stmt both = joined(l, inner);
    all.axes = (AxisList){0};
    all.body = (StmtList){0};
    for (size_t i = 0; i < stmt->axes.n + both.axes.n; i++) {
        Axis axis = i < stmt->axes.n ? stmt->axes.items[i] : both.axes.items[i - stmt->axes.n];
        ARENA_PUSH(l->arena, &all.axes, axis);
    }
    for (size_t i = 0; i + 1 < body->n; i++) {
        ARENA_PUSH(l->arena, &all.body, body->items[i]);
    }
    for (size_t i = 0; i < both.body.n; i++) {
        ARENA_PUSH(l->arena, &all.body, both.body.items[i]);
    }
    return all;
}

static void parallel_ranges(Lower *l, const Stmt *stmt)
{
    Head head = {.n = (int)stmt->axes.n};
    bool good = !same_name(l, stmt);
    for (int i = 0; i < head.n; i++) {
        good = parallel_axis(l, &stmt->axes.items[i], &head, i) && good;
    }
    if (!good) {
        lower_poisoned(l, stmt);
        return;
    }
    forget_known_values(l);
    Op *op = build_head(l, stmt, &head);
    Builder outside = l->b;
    l->b = build_at_end(l->func, op->regions[0]);
    l->parallel++;
    l->parallel_block = op->regions[0];
    for (int i = 0; i < head.n; i++) {
        enter_parallel(l, head.walks[i].var, op->regions[0]->args[i]);
    }
    Block *region = op->regions[0];
    Symbol *outer = l->symbols;
    Builder around[MAX_AXES];
    int n = 0;
    for (int i = 0; i < head.n; i++) {
        const Axis *axis = &stmt->axes.items[i];
        Value *arg = region->args[i];
        if (head.parts[i].end) {
            around[n++] = l->b;
            const LoopBounds *walk = &head.walks[i];
            const Part *part = &head.parts[i];
            Value *step = build_i64(&l->b, walk->step);
            Value *lo = build_binary(&l->b, OP_MUL, arg, step);
            lo = build_binary(&l->b, OP_ADD, lo, build_size(&l->b, part->first));
            Value *hi = build_binary(&l->b, OP_ADD, lo, step);
            hi = build_binary(&l->b, OP_MIN, hi, build_size(&l->b, part->end));
            Op *loop = build_for(&l->b, walk->axis_extent, walk->step, axis->name, lo, hi, 0, NULL);
            if (axis->by == BY_EXACTLY) {
                op_set_int(l->func, loop, ATTR_EXACT, 1);
            }
            l->b = build_at_end(l->func, loop->regions[0]);
            arg = loop->regions[0]->args[0];
        } else if (head.parts[i].first) {
            arg = build_binary(&l->b, OP_ADD, arg, build_size(&l->b, head.parts[i].first));
        }
        define_axis(l, axis, &head.walks[i], arg);
    }
    lower_block(l, &stmt->body);
    while (n > 0) {
        build_yield(&l->b, 0, NULL);
        l->b = around[--n];
    }
    l->symbols = outer;

    l->n_parallel = 0;
    l->parallel_block = NULL;
    l->parallel--;
    l->b = outside;
}

/* ---- parallel in parallel that is not joined: its axes may come from data ---- */

static bool check_inner(Lower *l, const Stmt *stmt)
{
    for (size_t i = 0; i < stmt->body.n; i++) {
        if (has_loop_exit(stmt->body.items[i])) {
            lower_error(l, ERR_BREAK, stmt->body.items[i]->span,
                        "`parallel` is no loop that `break` or `continue` could leave");
            return false;
        }
    }
    if (l->n_parallel + (int)stmt->axes.n > MAX_AXES) {
        return refuse_parallel(l, stmt, "more than 12 axes of `parallel` are",
                               "iterate over some of them with `for`, inside");
    }
    return check_nested(l, stmt) && !same_name(l, stmt);
}

/* Loops over one of the axes, with a `parallel` over the others inside. */
static void parallel_inside(Lower *l, const Stmt *stmt, size_t axis)
{
    Stmt *rest = ARENA_NEW(l->arena, Stmt);
    *rest = *stmt;
    rest->axes = (AxisList){0};
    for (size_t i = 0; i < stmt->axes.n; i++) {
        if (i != axis) {
            ARENA_PUSH(l->arena, &rest->axes, stmt->axes.items[i]);
        }
    }
    Stmt loop = *stmt;
    loop.axes = (AxisList){&stmt->axes.items[axis], 1, 1};
    if (rest->axes.n > 0) {
        loop.body = (StmtList){0};
        ARENA_PUSH(l->arena, &loop.body, rest);
    }
    const Symbol *outer = l->inner_symbols;
    l->inner_symbols = l->symbols;
    lower_loop(l, &loop);
    l->inner_symbols = outer;
}

void enter_parallel(Lower *l, const IndexVar *var, const Value *arg)
{
    l->parallel_vars[l->n_parallel].var = var;
    l->parallel_vars[l->n_parallel++].arg = arg;
}

/* `parallel e in E, i in R[at[e]: at[e + 1]] by 16` is a parallel over i in one over e: the axes
 * from the first one on that depends on one before it are those of an inner one. */
static Stmt split(Lower *l, const Stmt *stmt)
{
    Stmt all = *stmt;
    size_t n = 0;
    for (bool own = true; n < stmt->axes.n && own; n += own) {
        for (size_t k = 0; k < n; k++) {
            const Axis *axis = &stmt->axes.items[n], *before = &stmt->axes.items[k];
            own =
                own && (text_equal(axis->name, before->name) || !mentions_one(axis, before->name));
        }
    }
    if (n < stmt->axes.n) {
        Stmt *inner = ARENA_NEW(l->arena, Stmt);
        *inner = *stmt;
        inner->axes = all.axes = (AxisList){0};
        for (size_t i = 0; i < stmt->axes.n; i++) {
            ARENA_PUSH(l->arena, i < n ? &all.axes : &inner->axes, stmt->axes.items[i]);
        }
        all.body = (StmtList){0};
        ARENA_PUSH(l->arena, &all.body, inner);
    }
    return all;
}

/* The axis `a..b` of a `parallel` inside of another one whose ends are data; the number of axes if
 * there is none. */
static size_t data_axis(Lower *l, const Stmt *stmt)
{
    for (size_t i = 0; (l->n_lanes > 0 || l->parallel) && i < stmt->axes.n; i++) {
        const Axis *axis = &stmt->axes.items[i];
        const Expr *ends[] = {axis->extent, axis->to};
        for (int k = 0; axis->to && k < 2; k++) {
            Val end = lower_expr(l, ends[k]);
            if (is_scalar_int(&end) && !val_dim(l, &end)) {
                return i;
            }
        }
    }
    return stmt->axes.n;
}

static void parallel_lanes(Lower *l, const Stmt *stmt)
{
    size_t data = data_axis(l, stmt);
    if (data < stmt->axes.n) {
        parallel_inside(l, stmt, data);
        return;
    }
    Symbol *symbols = l->symbols;
    int lanes = l->n_lanes;
    open_axes(l, &stmt->axes);
    lower_block(l, &stmt->body);
    close_lanes(l, lanes);
    l->symbols = symbols;
}

void lower_parallel(Lower *l, const Stmt *stmt)
{
    Stmt self = split(l, stmt), *items[] = {&self};
    Span span = l->b.span;
    if (!has_ranges(&(StmtList){items, 1, 1})) {
        parallel_lanes(l, &self);
    } else if (l->parallel) {
        if (check_inner(l, &self)) {
            parallel_inside(l, &self, 0);
        }
    } else {
        Stmt all = joined(l, &self);
        l->b.span = stmt->span;
        if (check_parallel(l, &all)) {
            parallel_ranges(l, &all);
        }
        l->b.span = span;
    }
}

/* ---- parallel in if ---- */

static bool is_parallel(const Stmt *stmt)
{
    bool inner = stmt->kind == STMT_IF && has_parallels(&stmt->body) &&
                 (!stmt->otherwise.n || has_parallels(&stmt->otherwise));
    return stmt->kind == STMT_PARALLEL || inner;
}

bool has_parallels(const StmtList *list)
{
    bool all = list->n > 0;
    for (size_t i = 0; i < list->n; i++) {
        all = all && is_parallel(list->items[i]);
    }
    return all && has_ranges(list);
}

void lower_parallel_if(Lower *l, const Val *condition, const Stmt *stmt)
{
    static const char *const NAME = "if.condition"; /* no name of the program */
    Symbol *outer = l->symbols;
    Stmt whole = joined(l, stmt);
    Expr asked = {.kind = EXPR_NAME, .span = stmt->span, .name = NAME, .height = 1};
    Stmt inside = {.kind = STMT_IF, .span = stmt->span, .value = &asked, .body = whole.body};
    Stmt *items[] = {&inside};
    whole.body = (StmtList){items, 1, 1};
    define(l, NAME, stmt->span, *condition);
    lower_parallel(l, &whole);
    l->symbols = outer;
}
