/* SPDX-License-Identifier: Apache-2.0 */
/* Inverts index maps whose indices are sums of digits of coordinates. Each digit of a coordinate of
 * the result is looked for in the indices; if all are found, each coordinate of the result is a sum
 * of digits of the array's coordinates. */
#include "passes/analysis/inverse_map.h"

#include "ir/op_axes.h"
#include "passes/analysis/computations.h"
#include "passes/analysis/index_bounds.h"

/* weight * digit, where the digit of the result's coordinate p along `axis` is (p + add) // low %
 * count. */
typedef struct Digit {
    int axis;
    Dim add, low, weight;
    Dim count; /* NULL: without % count */
} Digit;

/* An index: the sum of its digits and `base`. */
typedef struct DigitSum {
    int n;
    Digit digits[MAX_DIGITS];
    Dim base;
} DigitSum;

/* a - b; NULL: overflow, or one of them is not known. */
static Dim minus(Func *func, Dim a, Dim b)
{
    return poly_add(func, a, poly_mul(func, b, poly_const(func, -1)));
}

/* ---- digits ---- */

/* What the axis of a map is of one of the result's; its weight stays. False: it is no digit. */
static bool read_digit(Func *func, const Instance *result, const Axis *axis, Digit *digit)
{
    if (axis->make == AXIS_BASE) {
        Dim one = poly_const(func, 1);
        *digit = (Digit){.axis = -1, .add = poly_const(func, 0), .low = one, .weight = one};
        for (int i = 0; i < result->value->type->rank; i++) {
            digit->axis = map_as_axis(result->at[i]) == axis ? i : digit->axis;
        }
        return digit->axis >= 0;
    }
    const Affine *of = axis->of;
    if (of->n != 1 || !poly_is_number(of->terms[0].coef, 1) ||
        !read_digit(func, result, of->terms[0].axis, digit)) {
        return false;
    }
    bool coordinate = poly_is_number(digit->low, 1) && !digit->count;
    Dim count = digit->count ? an_exact_quotient(func, digit->count, axis->by) : NULL;
    if ((!coordinate && !poly_is_number(of->base, 0)) || (digit->count && !count)) {
        return false;
    }
    digit->add = poly_add(func, digit->add, of->base);
    digit->low = axis->make == AXIS_OUTER ? poly_mul(func, digit->low, axis->by) : digit->low;
    digit->count = axis->make == AXIS_OUTER ? count : axis->by;
    return digit->add && digit->low;
}

static bool read_digits(Func *func, const Instance *result, const Affine *map, DigitSum *sum)
{
    if (!map || map->n > MAX_DIGITS) {
        return false;
    }
    *sum = (DigitSum){.n = map->n, .base = map->base};
    bool digits = true;
    for (int i = 0; digits && i < map->n; i++) {
        digits = read_digit(func, result, map->terms[i].axis, &sum->digits[i]);
        sum->digits[i].weight = map->terms[i].coef;
    }
    return digits;
}

/* The number of values of a digit of which the least is 0; NULL: not known. */
static Dim digit_count(Func *func, Type result, const Digit *digit)
{
    if (digit->count || !poly_is_number(digit->add, 0)) {
        return digit->count;
    }
    return dim_exact_steps(func, result->dims[digit->axis], digit->low);
}

/* ---- the inverse ---- */

/* A digit of a coordinate p as a term of u, with what else is known of it. */
typedef struct Found {
    Digit digit;
    InverseTerm term;
} Found;

typedef struct Inversion {
    Func *func;
    Type result; /* of the gather */
    Found found[MAX_RANK * MAX_DIGITS];
    int n;
} Inversion;

/* True if the digit that u gives has only values that it may have. A coordinate's highest digit may
 * have any: the coordinate is outside then. */
static bool is_digit(Func *func, const Digit *digit, const InverseTerm *term, Dim extent)
{
    Dim one = poly_const(func, 1);
    if (!digit->count || term->count) {
        return true;
    }
    if (term->reversed) {
        return dim_is_ordered(func, minus(func, extent, one), term->base) &&
               dim_is_ordered(func, poly_add(func, term->base, one), digit->count);
    }
    Dim end = poly_mul(func, digit->count, term->weight);
    return poly_is_number(term->base, 0) && dim_is_ordered(func, extent, end);
}

/* Inverts the digits of index `axis`, the one with the least weight first: each has the weight
 * 1, or that of the one before times the number of its values. */
static bool invert_index(Inversion *inversion, const DigitSum *sum, int axis, Dim extent)
{
    Func *func = inversion->func;
    bool reversed = sum->n == 1 && poly_is_number(sum->digits[0].weight, -1);
    Dim weight = poly_const(func, reversed ? -1 : 1);
    if (sum->n == 0) {
        return poly_is_number(extent, 1) && poly_is_number(sum->base, 0);
    }
    if (sum->n > 1 && !poly_is_number(sum->base, 0)) {
        return false;
    }
    for (int i = 0; i < sum->n; i++) {
        const Digit *digit = NULL;
        for (int k = 0; k < sum->n && weight; k++) {
            digit = sum->digits[k].weight == weight ? &sum->digits[k] : digit;
        }
        if (!digit || inversion->n == MAX_RANK * MAX_DIGITS) {
            return false;
        }
        Dim count = i + 1 < sum->n ? digit_count(func, inversion->result, digit) : NULL;
        InverseTerm term = {
            axis, reversed, sum->base, reversed ? poly_const(func, 1) : weight, digit->low, count};
        if (!is_digit(func, digit, &term, extent)) {
            return false;
        }
        inversion->found[inversion->n++] = (Found){*digit, term};
        weight = poly_mul(func, weight, count);
    }
    return true;
}

/* Makes a coordinate of the result of its digits, which must be all of them. */
static bool invert_coord(const Inversion *inversion, int axis, InverseCoord *coord)
{
    Func *func = inversion->func;
    Dim low = poly_const(func, 1), extent = inversion->result->dims[axis];
    int n = 0;
    coord->add = poly_const(func, 0);
    for (int i = 0; i < inversion->n; i++) {
        n += inversion->found[i].digit.axis == axis;
    }
    if (n > MAX_DIGITS || (n == 0 && !poly_is_number(extent, 1))) {
        return false;
    }
    for (coord->n = 0; coord->n < n; coord->n++) {
        const Found *next = NULL;
        for (int i = 0; i < inversion->n && low; i++) {
            const Found *found = &inversion->found[i];
            bool fits = found->digit.axis == axis && found->digit.low == low;
            next = fits ? found : next;
        }
        if (!next || (coord->n && next->digit.add != coord->add)) {
            return false;
        }
        coord->add = next->digit.add;
        coord->terms[coord->n] = next->term;
        low = next->digit.count ? poly_mul(func, low, next->digit.count) : NULL;
        if (!low && coord->n + 1 < n) {
            return false;
        }
    }
    bool open = n == 0 || !low; /* the highest digit has all the rest */
    return open || (poly_least(coord->add) >= 0 &&
                    dim_is_ordered(func, poly_add(func, extent, coord->add), low));
}

bool an_inverse_map(Func *func, const Op *gather, InverseMap *inverse)
{
    Type from = gather->operands[0]->type;
    Inversion inversion = {.func = func, .result = gather->results[0]->type};
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    Computations *all = computations_open(func);
    Instance result = computations_own(all, gather->results[0]);
    bool good = true;
    *inverse = (InverseMap){0};
    for (int i = 0; good && i < from->rank; i++) {
        const Value *index = gather->operands[1 + i];
        const Affine *map = computations_map(all, index, result.at);
        DigitSum sum;
        good = read_digits(func, &result, map, &sum) &&
               invert_index(&inversion, &sum, i, from->dims[i]);
        inverse->inside[i] = (guard && !guard->ints[i]) ||
                             map_is_inside(&all->space, map, from->dims[i]) ||
                             an_index_inside(func, index, from->dims[i]);
    }
    computations_close(all);
    for (int i = 0; i < gather->results[0]->type->rank && good; i++) {
        good = invert_coord(&inversion, i, &inverse->coords[i]);
    }
    return good;
}

bool an_is_shift(const InverseCoord *coord)
{
    const InverseTerm *term = &coord->terms[0];
    return coord->n == 1 && !term->reversed && !term->count && poly_is_number(term->weight, 1) &&
           poly_is_number(term->low, 1) && poly_is_number(coord->add, 0);
}

bool an_index_bound(Func *func, const Value *condition, int axis, IndexBound *bound)
{
    const Op *op = condition->def;
    for (; op && op_moves_axes(op) && axis >= 0; op = op->operands[0]->def) {
        axis = op_operand_axis(op, 0, axis);
    }
    if (!op || op->kind != OP_CMP || axis < 0) {
        return false;
    }
    const char *pred = op_word(op, ATTR_PRED);
    bool less = pred[0] == 'l', greater = pred[0] == 'g', strict = pred[1] == 't';
    Computations *all = computations_open(func);
    Instance own = computations_own(all, op->results[0]);
    const Affine *left = computations_map(all, op->operands[0], own.at);
    const Affine *right = computations_map(all, op->operands[1], own.at);
    const Affine *at = map_subtract(&all->space, left, own.at[axis]);
    bool bounds =
        (less || greater) && map_as_axis(own.at[axis]) && map_is_dim(at) && map_is_dim(right);
    computations_close(all);
    Dim end = bounds ? minus(func, right->base, at->base) : NULL;
    *bound = (IndexBound){less, less != strict ? poly_add(func, end, poly_const(func, 1)) : end};
    return bound->at != NULL;
}

bool an_same_index(Func *func, const Value *a, const Value *b)
{
    Computations *all = computations_open(func);
    Instance own = computations_own(all, (Value *)a);
    const Affine *one = computations_map(all, a, own.at), *other = NULL;
    if (a->type->rank == b->type->rank) {
        other = computations_map(all, b, own.at);
    }
    bool same = one && other && map_equal(one, other);
    computations_close(all);
    return same;
}
