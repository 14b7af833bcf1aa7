/* SPDX-License-Identifier: Apache-2.0 */
/* mask_factors: moves the conditions of a sum of products onto a factor.
 *
 *   %p = mul %a, %b : f32[M, N, K]              %m = select %c', %a', 0.0 : f32[M, K]
 *   %s = select %c, %p, 0.0               →     %p = mul %m, %b : f32[M, N, K]
 *   %r = reduce %s fn=sum axis=2                %r = reduce %p fn=sum axis=2
 *
 * A condition behind the product, `sum(k in K if k <= i)`, hides that it is a matrix product. A
 * condition that relates places (a triangle, a band) goes to the factor that has its axes: a
 * term that does not count may be 0 times a number of the other factor. A range that comes from
 * data and is the same for all rows and columns (`k < length[b]`) excludes terms whatever they
 * are: both factors become 0 where it does not hold. Its kept axes, as the segments of `at[s] <=
 * k`, are then batch axes, so rows and columns must be left in addition to them. Data of each row
 * and term (`s[i, k]`) goes to the factor that has these axes. Of ranges that differ by row
 * (`first[i] <= k`) the other factor, too, becomes 0 where no row takes it: what lies behind the
 * last range does not count. A condition without a summed axis leaves the sum, and the result is 0
 * where it does not hold: `if on[i]`, and `k <= i` in the gradient by the factor of i and k. One
 * that stands on a factor without its axes, as `k <= i` on the gradient of the result, goes to the
 * other one. Comparisons of places become `a >= b` with the sums of the positive terms on either
 * side, as `peel` and `bound_loops` read them. Requires the tensor level. */
#include "ir/op_axes.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "passes/analysis/axis_dependence.h"

typedef struct Masker {
    Func *func;
    Computations *all;
    Memo *varies, *places; /* of an_varies and an_is_of_places */
    const Compute *sum;
    TermAxes axes; /* of it; of the factors without their conditions */
    Memo *placed;  /* products whose conditions are where they belong in the outermost sum */
} Masker;

/* of >= 0 as a comparison of what is added with what is subtracted. */
static Spread compared(Reindex *r, const Affine *of)
{
    AxisSpace *space = &r->all->space;
    const Affine *sides[2] = {map_number(space, 0), map_dim(space, of->base)};
    sides[1] = map_scale(space, sides[1], poly_const(r->b.func, -1));
    for (int i = 0; i < of->n; i++) {
        bool less = poly_most(of->terms[i].coef) < 0;
        Dim coef = less ? poly_mul(r->b.func, of->terms[i].coef, poly_const(r->b.func, -1))
                        : of->terms[i].coef;
        const Affine *place = map_axis(space, of->terms[i].axis);
        sides[less] = map_add(space, sides[less], map_scale(space, place, coef));
    }
    Spread more = reindex_map(r, sides[0]), less = reindex_map(r, sides[1]);
    unsigned axes = more.axes | less.axes;
    if (!more.value || !less.value || !axes) {
        return (Spread){NULL, 0};
    }
    Value *right = reindex_spread(r, less, axes);
    return (Spread){build_cmp(&r->b, "ge", reindex_spread(r, more, axes), right), axes};
}

/* ---- comparisons ---- */

static const char *const ORDERS[] = {"lt", "le", "gt", "ge"};

/* The number of an instance's own axes on which the map depends. */
static int depends_on(const Affine *map, const Instance *own)
{
    int n = 0;
    for (int i = 0; i < own->value->type->rank; i++) {
        const Axis *axis = map_as_axis(own->at[i]);
        n += axis && map_depends_on(map, axis);
    }
    return n;
}

/* A difference of places that is compared with a number: as a comparison of places. */
static bool rewrite_comparison(Masker *s, Op *cmp)
{
    Func *func = s->func;
    const char *pred = op_word(cmp, ATTR_PRED);
    bool ordered = false;
    for (int i = 0; i < 4; i++) {
        ordered = ordered || text_equal(pred, ORDERS[i]);
    }
    AxisSpace *space = &s->all->space;
    Instance own = computations_own(s->all, cmp->results[0]);
    const Affine *a = computations_map(s->all, cmp->operands[0], own.at);
    const Affine *b = computations_map(s->all, cmp->operands[1], own.at);
    const Affine *of = map_subtract(space, a, b);
    if (!ordered || !of || (map_as_axis(a) && map_as_axis(b)) || depends_on(of, &own) < 2) {
        return false;
    }
    of = pred[0] == 'l' ? map_scale(space, of, poly_const(func, -1)) : of;
    of = map_subtract(space, of, map_number(space, pred[1] == 't'));
    Type type = own.value->type;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = build_before(func, cmp), .all = s->all, .rank = type->rank};
    for (int i = 0; i < type->rank; i++) {
        r->axes[i] = map_as_axis(own.at[i]);
        r->dims[i] = type->dims[i];
    }
    Spread by = of ? compared(r, of) : (Spread){NULL, 0};
    if (!by.value) {
        return false;
    }
    func_replace_uses(func, own.value, reindex_spread(r, by, an_all_axes(type)));
    return true;
}

/* ---- conditions of products ---- */

/* The axes of the products along which the value varies. */
static unsigned axes_of(const Masker *s, const Instance *of)
{
    unsigned axes = 0, own = an_varies(s->varies, of->value);
    for (int i = 0; i < of->value->type->rank; i++) {
        axes |= own >> i & 1 ? compute_axes_of(s->sum, of->at[i]) : 0;
    }
    return axes;
}

static unsigned axes_of_condition(const Masker *s, const Constraint *where)
{
    bool of_places = where->of && !where->data.value;
    return of_places ? compute_axes_of(s->sum, where->of) : axes_of(s, &where->holds);
}

/* True if the condition relates a place of the result to one that is summed. */
static bool relates_places(const Masker *s, const Constraint *where)
{
    bool of_places =
        (where->of && !where->data.value) || an_is_of_places(s->places, where->holds.value);
    unsigned axes = of_places ? axes_of_condition(s, where) : 0;
    return (axes & s->axes.summed) && (axes & s->axes.kept);
}

/* True if the condition is not where it belongs: behind the product, on a factor that does not
 * have its axes, or in the sum though it has no summed axis. */
static bool is_misplaced(const Masker *s, const Constraint *where)
{
    unsigned axes = axes_of_condition(s, where), factor = 0;
    for (int side = 0; side < 2; side++) {
        factor |= where->factors >> side & 1 ? s->axes.factors[side] : 0;
    }
    return !where->factors || (axes & ~factor) || !(axes & s->axes.summed);
}

/* True if factors with these axes make a matrix product: rows, columns and a depth. */
static bool is_product(const Masker *s, unsigned left, unsigned right)
{
    unsigned kept = s->axes.kept;
    return (kept & left & ~right) && (kept & right & ~left) && (s->axes.summed & left & right);
}

/* What is summed: the products behind the conditions that stand directly behind them; NULL: no
 * condition is to be moved, or something else reads it. */
static Value *masked_term(const Masker *s)
{
    Value *term = s->sum->term.value;
    bool moves = false;
    for (size_t i = 0; i < s->sum->where.n; i++) {
        moves = moves || is_misplaced(s, &s->sum->where.items[i]);
    }
    Op *user = moves ? value_only_user(s->func, term) : NULL;
    for (; user && compute_has_select(s->sum, user); user = value_only_user(s->func, term)) {
        term = user->results[0];
    }
    return user ? term : NULL;
}

/* True if the condition bounds the summed indices by data alone. */
static bool is_range(const Masker *s, const Constraint *where)
{
    return where->kind == WHERE_AT_LEAST && where->data.value &&
           !(compute_axes_of(s->sum, where->of) & s->axes.kept);
}

/* Where a range holds for any row: `axes` are those of the result. */
static Spread holds_for_any(const Masker *s, Reindex *r, const Constraint *where, unsigned axes)
{
    bool upper = where->sign > 0; /* data >= -of, or of >= data */
    const Affine *of = where->of;
    of = upper ? map_scale(&s->all->space, of, poly_const(s->func, -1)) : of;
    Spread data = reindex_instance(r, &where->data), place = reindex_map(r, of);
    if (!data.value || !place.value || !(place.axes & axes)) {
        return (Spread){NULL, 0};
    }
    for (int axis = r->rank; axis-- > 0;) {
        if ((data.axes & ~axes) >> axis & 1) {
            int at = __builtin_popcount(data.axes & ((1u << axis) - 1));
            const char *fn = upper ? "max" : "min";
            data.value = build_squeeze(&r->b, build_reduce(&r->b, fn, data.value, at), at);
            data.axes &= ~(1u << axis);
        }
    }
    data.value = build_cast(&r->b, data.value, DT_I64);
    unsigned both = data.axes | place.axes;
    Value *ends[] = {reindex_spread(r, place, both), reindex_spread(r, data, both)};
    return (Spread){build_cmp(&r->b, "ge", ends[upper], ends[!upper]), both};
}

/* Adds a condition to the factors: to the one that it is on, if that has its axes; to one that has
 * its axes if it relates places, or if a product does not have them for both; else to both. */
static bool mask(const Masker *s, Reindex *r, const Constraint *where, Spread holds,
                 Spread *factors)
{
    for (int side = 0; side < 2; side++) {
        if (where->factors == 1u << side && !(holds.axes & ~factors[side].axes)) {
            factors[side] = reindex_masked(r, factors[side], holds);
            return true;
        }
    }
    unsigned left = factors[0].axes, right = factors[1].axes;
    bool fits[2] = {!(holds.axes & ~left), !(holds.axes & ~right)};
    bool both = is_product(s, left | holds.axes, right | holds.axes);
    bool one = (relates_places(s, where) || !both) && !(holds.axes & ~(left | right));
    if (one ? !fits[0] && !fits[1] : !both) {
        return false;
    }
    for (int side = 0; side < 2; side++) {
        if (!one || side == !fits[0]) {
            factors[side] = reindex_masked(r, factors[side], holds);
        } else if (is_range(s, where)) {
            Spread some = holds_for_any(s, r, where, factors[side].axes);
            factors[side] = some.value ? reindex_masked(r, factors[side], some) : factors[side];
        }
    }
    return true;
}

/* Moves the conditions to the factors, those without a summed axis to the result: `outer`. */
static bool place_conditions(const Masker *s, Reindex *r, Spread *factors, Spread *outer)
{
    for (size_t i = 0; i < s->sum->where.n; i++) {
        const Constraint *where = &s->sum->where.items[i];
        Spread holds = where->kind == WHERE_AT_LEAST && !where->data.value
                           ? compared(r, where->of)
                           : reindex_condition(r, where, &where->holds);
        bool leaves = !(holds.axes & s->axes.summed);
        if (!holds.value || (!leaves && !mask(s, r, where, holds, factors))) {
            return false;
        }
        if (leaves) {
            *outer = outer->value ? reindex_binary(r, OP_AND, *outer, holds) : holds;
        }
    }
    return true;
}

/* The result where the condition holds, and 0 elsewhere. */
static void mask_result(const Masker *s, Reindex *r, Op *op, Spread holds)
{
    const Axis *axes[MAX_RANK];
    int n = 0;
    for (int i = 0; i < r->rank; i++) {
        if (s->axes.kept >> i & 1) {
            axes[n++] = r->axes[i];
        }
    }
    Value *condition = reindex_spread(r, holds, s->axes.kept);
    condition = reindex_restored(&r->b, s->sum, condition, axes);
    Builder b = build_after(s->func, op);
    Value *sum = op->results[0];
    Value *masked = build_select(&b, condition, sum, build_int(&b, sum->type, 0));
    masked->name = sum->name;
    func_replace_uses(s->func, sum, masked);
    op_set_operand(masked->def, 1, sum);
}

static bool mask_sum(Masker *s, Op *op)
{
    Func *func = s->func;
    s->sum = computations_product(s->all, op);
    int64_t is_placed = 0;
    if (!s->sum || s->sum->where.n == 0 || !compute_term_axes(s->sum, &s->axes) ||
        memo_known(s->placed, s->sum->term.value, 0, &is_placed)) {
        return false;
    }
    for (int side = 0; side < 2; side++) { /* without what conditions vary along */
        s->axes.factors[side] = axes_of(s, &s->sum->factors[side]);
    }
    if (!is_product(s, s->axes.factors[0], s->axes.factors[1])) {
        return false;
    }
    Value *term = masked_term(s);
    if (!term) {
        memo_keep(s->placed, s->sum->term.value, 0, 1);
        return false;
    }
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){
        .b = build_before(func, term->def), .all = s->all, .varies = s->varies, .sum = s->sum};
    reindex_over_term(r, s->sum);
    Spread factors[2];
    for (int side = 0; side < 2; side++) {
        Instance factor = s->sum->term;
        factor.value = factor.value->def->operands[side];
        factors[side] = reindex_instance(r, &factor);
        if (!factors[side].value) {
            return false;
        }
    }
    Spread outer = {NULL, 0};
    if (!place_conditions(s, r, factors, &outer)) {
        return false;
    }
    unsigned all = an_all_axes(term->type);
    Value *right = reindex_spread(r, factors[1], all);
    Value *product = build_binary(&r->b, OP_MUL, reindex_spread(r, factors[0], all), right);
    func_replace_uses(func, term, product);
    memo_keep(s->placed, product, 0, 1);
    if (outer.value) {
        mask_result(s, r, op, outer);
    }
    return true;
}

/* ---- axes that the condition alone has ---- */

/* The value, its axes moved as the ops from `move` down to it move those of another. */
static Value *moved_alike(Builder *b, const Op *move, const Value *from, Value *value)
{
    if (move->operands[0] != from) {
        value = moved_alike(b, move->operands[0]->def, from, value);
    }
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, move->operands[0], value);
    return clone_op(b, &map, move)->results[0];
}

/* A product to which only its condition adds axes, `sum(k in K if at[s] <= k) a[m, k] * b[k, n]`
 * over s, m and n, has them itself: the conditions of a domain are behind the product. */
static void widen_product(Func *func, Op *select)
{
    const Value *term = select->operands[1];
    const Op *move = term->def;
    while (term->def && op_moves_axes(term->def) && value_only_user(func, term)) {
        term = term->def->operands[0];
    }
    const Op *mul = term->def;
    if (term == select->operands[1] || !mul || mul->kind != OP_MUL ||
        !value_only_user(func, term) || !value_is_const(select->operands[2], 0)) {
        return;
    }
    unsigned all = an_all_axes(term->type);
    if (an_varies(NULL, mul->operands[0]) == all || an_varies(NULL, mul->operands[1]) == all) {
        return; /* no product of matrices */
    }
    Builder b = build_before(func, select);
    Value *left = moved_alike(&b, move, term, mul->operands[0]);
    Value *right = moved_alike(&b, move, term, mul->operands[1]);
    op_set_operand(select, 1, build_binary(&b, OP_MUL, left, right));
}

void pass_mask_factors(Func *func)
{
    if (!block_contains(func->body, OP_SELECT)) {
        return;
    }
    for (Op *op = func->body->first; op; op = op->next) {
        Op *user = op->kind == OP_SELECT ? value_only_user(func, op->results[0]) : NULL;
        if (user && op_is_sum(user)) {
            widen_product(func, op);
        }
    }
    Masker s = {.func = func,
                .all = computations_open(func),
                .varies = an_varies_all(func),
                .places = memo_open(func),
                .placed = memo_open(func)};
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        if (op->kind == OP_REDUCE) {
            mask_sum(&s, op);
        } else if (op->kind == OP_CMP && op->operands[0]->type->rank > 1) {
            rewrite_comparison(&s, op);
        }
    }
    computations_close(s.all);
    memo_close(s.varies);
    memo_close(s.places);
    memo_close(s.placed);
    func_remove_dead(func);
}
