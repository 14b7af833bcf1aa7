/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts the conditions under which the terms of a reduction exist, as inequalities between axes,
 * sizes and data. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"
#include "passes/analysis/reduce_identity.h"

static void add_constraint(ComputeBuild *b, const Constraint *constraint)
{
    if (constraint->kind == WHERE_HOLDS) {
        compute_visit(b, &constraint->holds, NULL, constraint->factors);
    } else if (constraint->data.value) {
        compute_visit(b, &constraint->data, NULL, constraint->factors);
    }
    compute_keep_axes(b, constraint->of);
    compute_note_axes(b, constraint->of, constraint->factors);
    ARENA_PUSH(b->func->arena, &b->now->where, *constraint);
}

/* f % by = r, or f = by * (f // by): the map that is a multiple of `by`. */
static const Affine *congruent(ComputeBuild *b, const Affine *difference, Dim *by)
{
    AxisSpace *space = &b->all->space;
    for (int i = 0; i < difference->n; i++) {
        const Axis *axis = difference->terms[i].axis;
        int64_t sign, rest;
        if (axis->make == AXIS_BASE) {
            continue;
        }
        *by = axis->by;
        const Affine *own = map_scale(space, map_axis(space, axis), difference->terms[i].coef);
        const Affine *others = map_subtract(space, difference, own);
        if (axis->make == AXIS_INNER && map_is_dim(others) &&
            poly_is_const(difference->terms[i].coef, &sign) && (sign == 1 || sign == -1) &&
            poly_is_const(others->base, &rest)) {
            rest *= -sign; /* of % by is that */
            bool has_solution = rest == 0 || (rest > 0 && rest < poly_least(*by));
            return has_solution ? map_subtract(space, axis->of, map_number(space, rest)) : NULL;
        }
        Dim minus = poly_mul(b->func, *by, poly_const(b->func, -1));
        bool removes = difference->terms[i].coef == minus && map_equal(others, axis->of);
        const Affine *negated = map_scale(space, axis->of, poly_const(b->func, -1));
        bool adds = difference->terms[i].coef == *by && map_equal(others, negated);
        if (axis->make == AXIS_OUTER && (removes || adds)) {
            return axis->of;
        }
    }
    return NULL;
}

/* a - c, where one of the two may be data. */
typedef struct Difference {
    const Affine *of; /* NULL: neither has a map */
    Instance data;    /* `value` NULL: none */
    int sign;
} Difference;

static Difference difference_of(ComputeBuild *b, const Op *cmp, const Affine *const *at)
{
    AxisSpace *space = &b->all->space;
    Difference result = {.sign = 1};
    const Affine *sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = compute_map(b, cmp->operands[i], at);
    }
    if (sides[0] && sides[1]) {
        result.of = map_subtract(space, sides[0], sides[1]);
    } else if (sides[0] || sides[1]) {
        int data = sides[0] ? 1 : 0;
        result.sign = data ? -1 : 1;
        result.of = data ? sides[0] : map_scale(space, sides[1], poly_const(b->func, -1));
        result.data.value = cmp->operands[data];
        for (int i = 0; i < result.data.value->type->rank; i++) {
            result.data.at[i] = at[i];
        }
        for (const Op *op = result.data.value->def; op && op_moves_axes(op);
             op = result.data.value->def) {
            result.data = instance_moved(&b->all->space, op, result.data.at);
        }
    }
    return result;
}

/* What the comparison, or its opposite, says of maps; the kind stays WHERE_HOLDS if it says
 * nothing. */
static void read_comparison(ComputeBuild *b, const Op *cmp, Constraint *constraint)
{
    static const char *const PREDS[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    static const char *const OPPOSITES[] = {"ge", "gt", "le", "lt", "ne", "eq"};
    AxisSpace *space = &b->all->space;
    const char *pred = op_word(cmp, ATTR_PRED);
    for (int i = 0; i < 6 && constraint->negated; i++) {
        if (text_equal(pred, PREDS[i])) {
            pred = OPPOSITES[i];
            break;
        }
    }
    DType dtype = cmp->operands[0]->type->dtype;
    bool integers = dtype == DT_I64 || dtype == DT_I32, less = pred[0] == 'l';
    Difference d = integers ? difference_of(b, cmp, constraint->holds.at) : (Difference){0};
    if (!d.of || pred[0] == 'n' || (pred[0] == 'e' && d.data.value)) {
        return;
    }
    if (pred[0] == 'e') {
        const Affine *multiple = congruent(b, d.of, &constraint->mod);
        constraint->kind = multiple ? WHERE_CONGRUENT : WHERE_ZERO;
        constraint->of = multiple ? multiple : d.of;
        return;
    }
    const Affine *of = less ? map_scale(space, d.of, poly_const(b->func, -1)) : d.of;
    of = map_subtract(space, of, map_number(space, pred[1] == 't'));
    if (of) {
        constraint->kind = WHERE_AT_LEAST;
        constraint->of = of;
        constraint->data = d.data;
        constraint->sign = less ? -d.sign : d.sign;
    }
}

/* Adds what `condition` says, whose `holds` and `negated` are set. */
static void take_all(ComputeBuild *b, Constraint condition)
{
    Instance *holds = &condition.holds;
    const Op *op = holds->value->def;
    while (op && op_moves_axes(op)) {
        *holds = instance_moved(&b->all->space, op, holds->at);
        op = holds->value->def;
    }
    if (op && op->kind == OP_NOT) {
        holds->value = op->operands[0];
        condition.negated = !condition.negated;
        take_all(b, condition);
    } else if (op && op->kind == (condition.negated ? OP_OR : OP_AND)) {
        for (int i = 0; i < 2; i++) {
            holds->value = op->operands[i];
            take_all(b, condition);
        }
    } else {
        if (op && op->kind == OP_CMP) {
            read_comparison(b, op, &condition);
        }
        add_constraint(b, &condition);
    }
}

/* The identity that ignores what else it is added to or compared with. */
static bool is_identity(const Value *value, const char *fn)
{
    const Value *number = value_unstretched(value);
    DType dtype = value->type->dtype;
    int64_t integer;
    double wanted = reduce_neutral(fn, dtype, &integer);
    const Attr *attr = value_const(number);
    return attr && (dtype_is_float(dtype) ? attr->f == wanted : attr->i == integer);
}

bool compute_take_condition(ComputeBuild *b, Instance *term, const char *fn, unsigned factors)
{
    const Op *op = term->value->def;
    if (!op || op->kind != OP_SELECT) {
        return false;
    }
    bool otherwise = is_identity(op->operands[2], fn);
    if (!otherwise && !is_identity(op->operands[1], fn)) {
        return false;
    }
    Constraint condition = {.kind = WHERE_HOLDS,
                            .holds = *term,
                            .negated = !otherwise,
                            .select = op,
                            .factors = factors};
    condition.holds.value = op->operands[0];
    take_all(b, condition);
    term->value = op->operands[otherwise ? 1 : 2];
    return true;
}
