/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/inverse_map.h"

#include "ir/op_axes.h"
#include "passes/analysis/index_bounds.h"

enum { MAX_DEPTH = 48 };

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

/* A question about the gather with this result. */
typedef struct Asked {
    Func *func;
    Type result;
} Asked;

/* ---- size expressions; NULL: overflow, or not known ---- */

static Dim number(const Asked *asked, int64_t value)
{
    return poly_const(asked->func, value);
}

static Dim plus(const Asked *asked, Dim a, Dim b)
{
    return a && b ? poly_add(asked->func, a, b) : NULL;
}

static Dim times(const Asked *asked, Dim a, Dim b)
{
    return a && b ? poly_mul(asked->func, a, b) : NULL;
}

static Dim minus(const Asked *asked, Dim a, Dim b)
{
    return plus(asked, a, times(asked, b, number(asked, -1)));
}

/* True if a <= b for all sizes. A size of which there is an exact quotient is its multiple. */
static bool ordered(const Asked *asked, Dim a, Dim b)
{
    Func *func = asked->func;
    Dim difference = minus(asked, b, a);
    for (size_t i = 0; difference && i < func->dimvars.n; i++) {
        DimVar *quotient = func->dimvars.items[i];
        const DimVar *size = quotient->by > 0 ? poly_as_var(quotient->of) : NULL;
        if (size && size->multiple % quotient->by == 0 && poly_mentions(difference, size)) {
            Dim whole = times(asked, number(asked, quotient->by), poly_var(func, quotient));
            difference = poly_substitute(func, difference, size, whole);
        }
    }
    return difference && poly_least(difference) >= 0;
}

static bool is_number(Dim dim, int64_t value)
{
    int64_t is;
    return dim && poly_is_const(dim, &is) && is == value;
}

/* ---- digits ---- */

/* A digit that is the coordinate itself. */
static bool is_coordinate(const Digit *digit)
{
    return is_number(digit->low, 1) && !digit->count;
}

/* extent / low, where that has no remainder: a size that is defined so, too; NULL: not known. */
static Dim exact_steps(const Asked *asked, Dim extent, Dim low)
{
    Dim steps = an_exact_quotient(asked->func, extent, low);
    for (size_t i = 0; !steps && i < asked->func->dimvars.n; i++) {
        DimVar *var = asked->func->dimvars.items[i];
        bool same = var->by > 0 && var->of == extent && is_number(low, var->by);
        steps = same && poly_divisor(extent) % var->by == 0 ? poly_var(asked->func, var) : NULL;
    }
    return steps;
}

/* The number of values of a digit, of which the least is 0; NULL: not known. */
static Dim digit_count(const Asked *asked, const Digit *digit)
{
    if (digit->count || !is_number(digit->add, 0)) {
        return digit->count;
    }
    return exact_steps(asked, asked->result->dims[digit->axis], digit->low);
}

/* True if digit * weight + `others` < `end` for all coordinates. */
static bool stays_below(const Asked *asked, const Digit *digit, Dim others, Dim end)
{
    Dim count = digit_count(asked, digit), one = number(asked, 1);
    Dim room = minus(asked, end, others); /* digit * weight < room */
    if (count) {
        Dim most = times(asked, digit->weight, minus(asked, count, one));
        return ordered(asked, plus(asked, most, one), room);
    }
    /* (p + add) // low * weight < room if (p + add) * weight < room * low - others % weight… */
    Dim most = plus(asked, asked->result->dims[digit->axis], digit->add);
    Dim steps = room ? an_exact_quotient(asked->func, room, digit->weight) : NULL;
    if (!steps && room) { /* room rounded up to a multiple of the weight */
        Dim up = minus(asked, plus(asked, room, digit->weight), one);
        steps = an_exact_quotient(asked->func, up, digit->weight);
    }
    return ordered(asked, most, times(asked, digit->low, steps));
}

/* True if the sum, of digits with positive weights or of one with weight -1, is at least 0 and less
 * than `end`. */
static bool is_inside(const Asked *asked, const DigitSum *sum, Dim end)
{
    Dim others = sum->base, one = number(asked, 1);
    const Digit *open = NULL; /* whose count is not known */
    if (sum->n == 0) {
        return sum->base && poly_least(sum->base) >= 0 &&
               ordered(asked, plus(asked, sum->base, one), end);
    }
    if (sum->n == 1 && is_number(sum->digits[0].weight, -1)) {
        Dim count = digit_count(asked, &sum->digits[0]);
        return ordered(asked, count, plus(asked, sum->base, one)) &&
               ordered(asked, plus(asked, sum->base, one), end);
    }
    for (int i = 0; i < sum->n; i++) {
        const Digit *digit = &sum->digits[i];
        Dim count = digit_count(asked, digit);
        if (poly_least(digit->weight) < 0 || (!count && poly_least(digit->add) < 0) ||
            (!count && open)) {
            return false;
        }
        if (!count || (i + 1 == sum->n && !open)) {
            open = digit;
        } else {
            others = plus(asked, others, times(asked, digit->weight, minus(asked, count, one)));
        }
    }
    return sum->base && poly_least(sum->base) >= 0 && stays_below(asked, open, others, end);
}

/* ---- indices as sums of digits ---- */

/* Adjacent digits of a coordinate, in the proportion that they have in it, are one digit. */
static bool join_digits(const Asked *asked, DigitSum *sum, int a, int b)
{
    Digit *low = &sum->digits[a], *high = &sum->digits[b];
    bool same = low->axis == high->axis && low->add == high->add;
    if (same && low->low == high->low && low->count == high->count) {
        low->weight = plus(asked, low->weight, high->weight);
    } else if (same && low->count && high->low == times(asked, low->low, low->count) &&
               high->weight == times(asked, low->weight, low->count)) {
        low->count = high->count ? times(asked, low->count, high->count) : NULL;
        if (is_coordinate(low)) {
            sum->base = plus(asked, sum->base, times(asked, low->weight, low->add));
            low->add = number(asked, 0);
        }
    } else {
        return false;
    }
    sum->digits[b] = sum->digits[--sum->n];
    return true;
}

static bool is_whole(const DigitSum *sum)
{
    bool whole = sum->base != NULL;
    for (int i = 0; i < sum->n; i++) {
        whole = whole && sum->digits[i].weight && sum->digits[i].low && sum->digits[i].add;
    }
    return whole;
}

static void simplify(const Asked *asked, DigitSum *sum)
{
    for (int a = 0; a < sum->n; a++) {
        for (int b = 0; b < sum->n; b++) {
            if (a != b && join_digits(asked, sum, a, b)) {
                a = -1;
                break;
            }
        }
    }
    for (int i = sum->n; i-- > 0;) {
        if (is_number(sum->digits[i].weight, 0)) {
            sum->digits[i] = sum->digits[--sum->n];
        }
    }
}

static bool add_sums(const Asked *asked, DigitSum *sum, const DigitSum *other)
{
    if (sum->n + other->n > MAX_DIGITS) {
        return false;
    }
    sum->base = plus(asked, sum->base, other->base);
    for (int i = 0; i < other->n; i++) {
        sum->digits[sum->n++] = other->digits[i];
    }
    simplify(asked, sum);
    return is_whole(sum);
}

static bool scale(const Asked *asked, DigitSum *sum, Dim by)
{
    sum->base = times(asked, sum->base, by);
    for (int i = 0; i < sum->n; i++) {
        sum->digits[i].weight = times(asked, sum->digits[i].weight, by);
    }
    simplify(asked, sum);
    return is_whole(sum);
}

/* Splits the sum into multiples of `by`, divided by it, and the rest. */
static void split(const Asked *asked, const DigitSum *sum, Dim by, DigitSum *multiples,
                  DigitSum *rest)
{
    *multiples = (DigitSum){.base = number(asked, 0)};
    *rest = (DigitSum){.base = number(asked, 0)};
    Dim base = an_exact_quotient(asked->func, sum->base, by);
    *(base ? &multiples->base : &rest->base) = base ? base : sum->base;
    for (int i = 0; i < sum->n; i++) {
        Digit digit = sum->digits[i];
        Dim weight = an_exact_quotient(asked->func, digit.weight, by);
        DigitSum *to = weight ? multiples : rest;
        digit.weight = weight ? weight : digit.weight;
        to->digits[to->n++] = digit;
    }
}

/* sum // by, or sum % by. */
static bool divide(const Asked *asked, DigitSum *sum, Dim by, bool remainder)
{
    DigitSum multiples, rest;
    if (!by || by->n_terms == 0 || poly_least(by) < 0) {
        return false;
    }
    split(asked, sum, by, &multiples, &rest);
    if (is_inside(asked, &rest, by)) {
        *sum = remainder ? rest : multiples;
        return true;
    }
    Digit digit = rest.digits[0];
    if (rest.n != 1 || !is_number(digit.weight, 1)) {
        return false;
    }
    Dim count = digit.count ? an_exact_quotient(asked->func, digit.count, by) : NULL;
    if (is_coordinate(&digit)) {
        digit.add = plus(asked, digit.add, rest.base);
    } else if (!is_number(rest.base, 0) || (digit.count && !count)) {
        return false;
    }
    digit.low = remainder ? digit.low : times(asked, digit.low, by);
    digit.count = remainder ? by : count;
    if (!remainder && count && is_number(count, 1)) {
        return false; /* is_inside would have said so */
    }
    DigitSum result = {.n = 1, .digits = {digit}, .base = number(asked, 0)};
    *sum = result;
    return remainder ? is_whole(sum) : add_sums(asked, sum, &multiples);
}

static bool sum_of(const Asked *asked, const Value *value, const int *axes, int depth,
                   DigitSum *sum);

static bool sum_of_binary(const Asked *asked, const Op *op, const int *axes, int depth,
                          DigitSum *sum)
{
    DigitSum other;
    if (!sum_of(asked, op->operands[0], axes, depth + 1, sum) ||
        !sum_of(asked, op->operands[1], axes, depth + 1, &other)) {
        return false;
    }
    switch (op->kind) {
    case OP_ADD: return add_sums(asked, sum, &other);
    case OP_SUB: return scale(asked, &other, number(asked, -1)) && add_sums(asked, sum, &other);
    case OP_MUL:
        if (sum->n == 0) {
            Dim by = sum->base;
            *sum = other;
            return scale(asked, sum, by);
        }
        return other.n == 0 && scale(asked, sum, other.base);
    default: return other.n == 0 && divide(asked, sum, other.base, op->kind == OP_MOD);
    }
}

/* The index as a sum of digits. `axes`: for each axis of the value, the result's; -1: none, it has
 * one element. */
static bool sum_of(const Asked *asked, const Value *value, const int *axes, int depth,
                   DigitSum *sum)
{
    const Op *op = value->def;
    const Attr *constant = value_const(value);
    *sum = (DigitSum){.base = number(asked, 0)};
    if (!op || depth > MAX_DEPTH ||
        (value->type->dtype != DT_I64 && value->type->dtype != DT_I32)) {
        return false;
    }
    if (constant) {
        sum->base = number(asked, constant->i);
        return true;
    }
    if (op_moves_axes(op)) {
        int inner[MAX_RANK];
        for (int i = 0; i < op->operands[0]->type->rank; i++) {
            OpAxis axis = op_axis(op, 0, i);
            inner[i] = axis.role == AXIS_TIED ? axes[axis.result] : -1;
        }
        return sum_of(asked, op->operands[0], inner, depth + 1, sum);
    }
    switch (op->kind) {
    case OP_SIZE: sum->base = op_attr(op, ATTR_DIM)->dims[0]; return true;
    case OP_CAST: return sum_of(asked, op->operands[0], axes, depth + 1, sum);
    case OP_IOTA:
        if (axes[0] >= 0 && !is_number(op_attr(op, ATTR_DIM)->dims[0], 1)) {
            Dim one = number(asked, 1);
            sum->digits[sum->n++] = (Digit){axes[0], sum->base, one, one, NULL};
        }
        return true;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD: return sum_of_binary(asked, op, axes, depth, sum);
    default: return false;
    }
}

/* ---- the inverse ---- */

/* A digit of a coordinate p as a term of u, with what else is known of it. */
typedef struct Found {
    Digit digit;
    InverseTerm term;
} Found;

typedef struct Inversion {
    Asked asked;
    Found found[MAX_RANK * MAX_DIGITS];
    int n;
} Inversion;

/* True if the digit that u gives has only values that it may have. A coordinate's highest digit may
 * have any: the coordinate is outside then. */
static bool is_digit(const Asked *asked, const Digit *digit, const InverseTerm *term, Dim extent)
{
    Dim one = number(asked, 1);
    if (!digit->count || term->count) {
        return true;
    }
    if (term->reversed) {
        return ordered(asked, minus(asked, extent, one), term->base) &&
               ordered(asked, plus(asked, term->base, one), digit->count);
    }
    Dim end = times(asked, digit->count, term->weight);
    return is_number(term->base, 0) && ordered(asked, extent, end);
}

/* Takes the digits of index `axis` apart, the one with the least weight first: each has the weight
 * 1, or that of the one before times the number of its values. */
static bool take_apart(Inversion *inversion, const DigitSum *sum, int axis, Dim extent)
{
    const Asked *asked = &inversion->asked;
    bool reversed = sum->n == 1 && is_number(sum->digits[0].weight, -1);
    Dim weight = number(asked, reversed ? -1 : 1);
    if (sum->n == 0) {
        return is_number(extent, 1) && is_number(sum->base, 0);
    }
    if (sum->n > 1 && !is_number(sum->base, 0)) {
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
        Dim count = i + 1 < sum->n ? digit_count(asked, digit) : NULL;
        InverseTerm term = {axis,       reversed, sum->base, reversed ? number(asked, 1) : weight,
                            digit->low, count};
        if (!is_digit(asked, digit, &term, extent)) {
            return false;
        }
        inversion->found[inversion->n++] = (Found){*digit, term};
        weight = times(asked, weight, count);
    }
    return true;
}

/* Puts a coordinate of the result together from its digits, which must be all of them. */
static bool put_together(const Inversion *inversion, int axis, InverseCoord *coord)
{
    const Asked *asked = &inversion->asked;
    Dim low = number(asked, 1), extent = asked->result->dims[axis];
    int n = 0;
    coord->add = number(asked, 0);
    for (int i = 0; i < inversion->n; i++) {
        n += inversion->found[i].digit.axis == axis;
    }
    if (n > MAX_DIGITS || (n == 0 && !is_number(extent, 1))) {
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
        low = next->digit.count ? times(asked, low, next->digit.count) : NULL;
        if (!low && coord->n + 1 < n) {
            return false;
        }
    }
    bool open = n == 0 || !low; /* the highest digit has all the rest */
    return open ||
           (poly_least(coord->add) >= 0 && ordered(asked, plus(asked, extent, coord->add), low));
}

bool an_inverse_map(Func *func, const Op *gather, InverseMap *inverse)
{
    Type from = gather->operands[0]->type;
    Inversion inversion = {.asked = {func, gather->results[0]->type}};
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    int axes[MAX_RANK];
    *inverse = (InverseMap){0};
    for (int i = 0; i < MAX_RANK; i++) {
        axes[i] = i;
    }
    for (int i = 0; i < from->rank; i++) {
        DigitSum sum;
        if (!sum_of(&inversion.asked, gather->operands[i + 1], axes, 0, &sum) ||
            !take_apart(&inversion, &sum, i, from->dims[i])) {
            return false;
        }
        inverse->inside[i] = (guard && !guard->ints[i]) ||
                             is_inside(&inversion.asked, &sum, from->dims[i]) ||
                             an_index_inside(func, gather->operands[i + 1], from->dims[i]);
    }
    bool good = true;
    for (int i = 0; i < gather->results[0]->type->rank && good; i++) {
        good = put_together(&inversion, i, &inverse->coords[i]);
    }
    return good;
}

bool an_is_shift(const InverseCoord *coord)
{
    const InverseTerm *term = &coord->terms[0];
    return coord->n == 1 && !term->reversed && !term->count && is_number(term->weight, 1) &&
           is_number(term->low, 1) && is_number(coord->add, 0);
}

bool an_index_bound(Func *func, const Value *condition, int axis, IndexBound *bound)
{
    const Op *op = condition->def;
    DigitSum left, right;
    int axes[MAX_RANK];
    for (; op && op_moves_axes(op) && axis >= 0; op = op->operands[0]->def) {
        axis = op_operand_axis(op, 0, axis);
    }
    if (!op || op->kind != OP_CMP || axis < 0) {
        return false;
    }
    for (int i = 0; i < MAX_RANK; i++) {
        axes[i] = i;
    }
    const Asked asked = {func, op->operands[0]->type};
    const char *pred = op_word(op, ATTR_PRED);
    bool less = text_equal(pred, "lt"), most = text_equal(pred, "le");
    bool least = text_equal(pred, "ge"), greater = text_equal(pred, "gt");
    if (!(less || most || least || greater) || !sum_of(&asked, op->operands[0], axes, 0, &left) ||
        !sum_of(&asked, op->operands[1], axes, 0, &right) || left.n != 1 || right.n != 0 ||
        left.digits[0].axis != axis || !is_coordinate(&left.digits[0]) ||
        !is_number(left.digits[0].weight, 1)) {
        return false;
    }
    Dim at = minus(&asked, right.base, left.base);
    *bound = (IndexBound){less || most, most || greater ? plus(&asked, at, number(&asked, 1)) : at};
    return bound->at != NULL;
}

bool an_same_index(Func *func, const Value *a, const Value *b)
{
    const Asked asked = {func, a->type};
    DigitSum left, right;
    int axes[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) {
        axes[i] = i;
    }
    return sum_of(&asked, a, axes, 0, &left) && sum_of(&asked, b, axes, 0, &right) &&
           scale(&asked, &right, number(&asked, -1)) && add_sums(&asked, &left, &right) &&
           left.n == 0 && is_number(left.base, 0);
}
