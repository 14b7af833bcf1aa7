/* SPDX-License-Identifier: Apache-2.0 */
/* sort_terms: sorts terms that data assigns to rows of the result by their row, so that each row
 * sums a contiguous range.
 *
 *   %c = cmp %row, iota pred=eq : bool[N, E]    %sorted, %from = sort %row
 *   %t = select %c, %body, 0 : f32[N, D, E] →   %first = of n = 0 … N the terms of lesser rows, by
 *   %s = reduce %t fn=sum axis=2                         binary search in %sorted
 *                                               %c = %first[n] <= iota and iota < %first[n + 1]
 *                                               %t = select %c, %body at %from, 0 : f32[N, D, E]
 *                                               %s = reduce %t fn=sum axis=2
 *
 * As written, each row iterates over all terms. Afterwards the terms of a row are a range, to which
 * bound_loops bounds the loop, so there are only as many additions as terms. The sort is stable, so
 * the terms of a row keep their order. Reductions over the same data (a sum and a count, as for a
 * mean) share one sort. A count alone is not rewritten, because blocks count bins in shared memory.
 * Maxima and minima of the terms of a row are rewritten in the same way. The pass acts if the cost
 * model expects a gain for nominal sizes.
 *
 * Requires the tensor level; runs before lower_sort. Changes the association of sums of floats as
 * any schedule does. */
#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/reduce_identity.h"
#include "passes/pass.h"
#include "passes/tensor/lower_sort.h"
#include "support/int_math.h"

enum {
    MAX_ORDERS = 16,  /* of one function: each is some launches */
    SEARCH_BITS = 40, /* of a number of terms, if no fact bounds it */
    GAIN = 4,         /* times that the sorted sum must be faster */
};

/* Seconds, estimated and not fitted: to add a term to a row, which it may not belong to; for a pass
 * of the sort, which is four launches, and for each key that it reads and writes; to read a term at
 * a place that is not the next. */
typedef struct SortPrice {
    double add, pass, key, term;
} SortPrice;

static const SortPrice GPU_PRICE = {2e-12, 2e-5, 1e-11, 4e-12};
static const SortPrice CPU_PRICE = {1e-10, 1e-6, 4e-9, 4e-10};

/* The terms of one assignment, sorted. */
typedef struct Order {
    Value *row;   /* integer[E]: the row of each term */
    Dim rows;     /* N */
    Value *from;  /* i64[E]: where the terms come from */
    Value *first; /* i64[N + 1] */
} Order;

typedef struct Sorter {
    Func *func;
    Order orders[MAX_ORDERS];
    int n;
} Sorter;

/* A sum of terms that have rows. */
typedef struct Assigned {
    Op *reduce;
    const Op *select;
    Value *row;
    int terms, rows; /* axes of what is reduced */
} Assigned;

/* ---- recognizing ---- */

/* What the value is behind ops that move axes, unless it is a vector before; each axis is followed,
 * -1 where it is none there. */
static Value *behind_moves(Value *value, int n, int *axes)
{
    while (value->type->rank != 1 && value->def && op_moves_axes(value->def)) {
        for (int i = 0; i < n; i++) {
            axes[i] = axes[i] < 0 ? -1 : op_operand_axis(value->def, 0, axes[i]);
        }
        value = value->def->operands[0];
    }
    return value;
}

/* A place below `rows` without casts to types that have space for it. */
static Value *behind_casts_of_place(Value *value, Dim rows)
{
    const Op *op = value->def;
    while (op && op->kind == OP_CAST && dtype_is_int(value->type->dtype) &&
           dtype_bits(value->type->dtype) >= 8) {
        int bits = dtype_bits(value->type->dtype) - dtype_is_signed(value->type->dtype);
        if (bits < 63 && poly_most(rows) > (int64_t)1 << bits) {
            break;
        }
        value = op->operands[0];
        op = value->def;
    }
    return value;
}

/* Without casts of integers to wider ones. */
static Value *behind_widening(Value *value)
{
    const Op *op = value->def;
    while (op && op->kind == OP_CAST && dtype_is_int(op->operands[0]->type->dtype) &&
           dtype_bits(op->operands[0]->type->dtype) >= 8 &&
           dtype_bits(op->operands[0]->type->dtype) <= dtype_bits(value->type->dtype)) {
        value = op->operands[0];
        op = value->def;
    }
    return value;
}

/* Is it what a reduction of nothing comes to? */
static bool is_neutral(const Value *value, const char *fn)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    const Attr *attr = op && op->kind == OP_CONST ? op_attr(op, ATTR_VALUE) : NULL;
    DType dtype = value->type->dtype;
    int64_t integer = 0;
    double number = reduce_neutral(fn, dtype, &integer);
    return attr && (dtype_is_float(dtype) ? attr->f == number : attr->i == integer);
}

/* Is one side of the comparison the place along the rows, and the other the row of each term? */
static bool read_sides(const Op *cmp, int side, const int axes[2], Dim rows, Assigned *found)
{
    int at_place[2] = {axes[0], axes[1]}, at_row[2] = {axes[0], axes[1]};
    Value *place = behind_moves(cmp->operands[side], 2, at_place);
    Value *row = behind_moves(cmp->operands[1 - side], 2, at_row);
    place = behind_moves(behind_casts_of_place(place, rows), 2, at_place);
    bool counts = place->def && place->def->kind == OP_IOTA && at_place[1] == 0 &&
                  at_place[0] < 0 && op_attr(place->def, ATTR_DIM)->dims[0] == rows;
    if (!counts || row->type->rank != 1 || at_row[0] != 0 || at_row[1] >= 0 ||
        !dtype_is_int(row->type->dtype)) {
        return false;
    }
    found->row = behind_widening(row);
    return found->row->type->rank == 1;
}

/* Does the value change along the rows? */
static bool has_rows(Value *value, int rows)
{
    const Op *op = behind_moves(value, 1, &rows)->def;
    return rows >= 0 && !(op && op->kind == OP_CONST);
}

static bool find_assigned(const Sorter *s, Op *op, Assigned *found)
{
    const Op *select = op->kind == OP_REDUCE && op->n_operands == 1 ? op->operands[0]->def : NULL;
    if (!select || select->kind != OP_SELECT || op->parent != s->func->body ||
        !is_neutral(select->operands[2], op_word(op, ATTR_FN))) {
        return false;
    }
    *found = (Assigned){.reduce = op, .select = select, .terms = (int)op_int(op, ATTR_AXIS, 0)};
    Type type = select->results[0]->type;
    for (int rows = 0; rows < type->rank; rows++) {
        int axes[2] = {found->terms, rows};
        const Op *cmp = behind_moves(select->operands[0], 2, axes)->def;
        bool good = rows != found->terms && cmp && cmp->kind == OP_CMP && axes[0] >= 0 &&
                    axes[1] >= 0 && text_equal(op_word(cmp, ATTR_PRED), "eq") &&
                    !has_rows(select->operands[1], rows);
        for (int side = 0; good && side < 2; side++) {
            if (read_sides(cmp, side, axes, type->dims[rows], found)) {
                found->rows = rows;
                return true;
            }
        }
    }
    return false;
}

/* Is each term the same number? */
static const Op *constant_of(const Assigned *a)
{
    const Op *op = a->select->operands[1]->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_CONST ? op : NULL;
}

/* ---- whether it pays ---- */

/* The narrowest type of rows that keeps those of the result distinct from others. */
static DType key_type(const Assigned *a)
{
    int64_t most = poly_most(a->select->results[0]->type->dims[a->rows]);
    DType own = a->row->type->dtype;
    DType narrow = most < INT32_MAX ? DT_U32 : own;
    narrow = most < 1 << 16 ? DT_U16 : narrow;
    narrow = most < 1 << 8 ? DT_U8 : narrow;
    return dtype_bits(narrow) < dtype_bits(own) ? narrow : own;
}

static bool pays(const Sorter *s, const Assigned *a)
{
    const Target *target = s->func->target;
    bool gpu = target && target->family != FAMILY_CPU;
    Type type = a->select->results[0]->type;
    double terms = (double)poly_nominal(type->dims[a->terms]), elements = 1;
    double rows = (double)poly_nominal(type->dims[a->rows]);
    for (int i = 0; i < type->rank; i++) {
        elements *= i == a->terms || i == a->rows ? 1 : (double)poly_nominal(type->dims[i]);
    }
    double passes = dtype_bits(key_type(a)) / 8.0;
    const SortPrice *price = gpu ? &GPU_PRICE : &CPU_PRICE;
    double direct = rows * terms * elements * price->add;
    double sorted = passes * (price->pass + terms * price->key) + terms * elements * price->term;
    return direct > GAIN * sorted;
}

/* ---- the order ---- */

static Value *size_as(Builder *b, Dim dim, Type type)
{
    return build_broadcast(b, build_expand(b, build_size(b, dim), 0), 1, type->dims);
}

/* Rows that the result does not have are one more row, behind all others. */
static Value *narrow_key(Builder *b, const Assigned *a)
{
    DType to = key_type(a);
    Value *row = a->row;
    if (to == row->type->dtype) {
        return row;
    }
    Dim rows = a->select->results[0]->type->dims[a->rows];
    Value *wide = build_cast(b, row, DT_I64), *least = build_int(b, wide->type, 0);
    Value *all = size_as(b, rows, wide->type);
    Value *counted = build_cmp(b, "ge", wide, least), *below = build_cmp(b, "lt", wide, all);
    Value *inside = build_binary(b, OP_AND, counted, below);
    return build_cast(b, build_select(b, inside, wide, all), to);
}

/* Of each row, and of one behind the last, how many terms have lesser ones. */
static Value *find_first(Builder *b, Func *func, Value *sorted, Dim rows)
{
    Dim ends = poly_add(func, rows, poly_const(func, 1)), terms = sorted->type->dims[0];
    Value *row = build_iota(b, ends, DT_I64), *all = size_as(b, terms, row->type);
    Value *count = build_int(b, row->type, 0), *one = build_int(b, row->type, 1);
    int64_t most = poly_most(terms);
    int bits = most < INT64_C(1) << SEARCH_BITS ? 64 - __builtin_clzll((uint64_t)most | 1)
                                                : SEARCH_BITS;
    for (int i = bits; i-- > 0;) {
        Value *next = build_binary(b, OP_ADD, count, build_int(b, row->type, INT64_C(1) << i));
        Value *last = build_binary(b, OP_SUB, next, one);
        Value *key = build_cast(b, build_gather(b, sorted, &last), DT_I64);
        Value *inside = build_cmp(b, "le", next, all), *lesser = build_cmp(b, "lt", key, row);
        Value *less = build_binary(b, OP_AND, inside, lesser);
        count = build_select(b, less, next, count);
    }
    return count;
}

static Order *known_order(Sorter *s, const Assigned *a)
{
    Dim rows = a->select->results[0]->type->dims[a->rows];
    for (int i = 0; i < s->n; i++) {
        if (s->orders[i].row == a->row && s->orders[i].rows == rows) {
            return &s->orders[i];
        }
    }
    return NULL;
}

static Order *order_of(Sorter *s, const Assigned *a)
{
    Order *known = known_order(s, a);
    if (known || s->n == MAX_ORDERS) {
        return known;
    }
    Dim rows = a->select->results[0]->type->dims[a->rows];
    Builder b = build_after(s->func, a->row->def);
    b.span = a->reduce->span;
    Op *sort = build_sort(&b, narrow_key(&b, a), false);
    Order *order = &s->orders[s->n++];
    *order = (Order){.row = a->row, .rows = rows, .from = sort->results[1]};
    order->first = find_first(&b, s->func, sort->results[0], rows);
    return order;
}

/* ---- the sums ---- */

/* A gather whose indices are all inside. */
static Value *gather_inside(Builder *b, Value *memory, Value *const *indices)
{
    static const int64_t none[MAX_RANK] = {0};
    Value *value = build_gather(b, memory, indices);
    op_set_ints(b->func, value->def, ATTR_GUARD, memory->type->rank, none);
    return value;
}

/* The number of lesser rows' terms at row n + `more` for each n. */
static Value *ends_of(Builder *b, const Order *order, int64_t more)
{
    Value *row = build_iota(b, order->rows, DT_I64);
    row = more ? build_binary(b, OP_ADD, row, build_int(b, row->type, more)) : row;
    return gather_inside(b, order->first, &row);
}

/* The value with element from[z] at each place z along the axis of the terms. */
static Value *ordered(Sorter *s, Builder *b, Value *value, int terms, Value *from)
{
    const Op *moves[MAX_RANK * 4];
    int n = 0, axis = terms;
    Value *base = value, *indices[MAX_RANK];
    while (base->def && op_moves_axes(base->def) && n < MAX_RANK * 4) {
        axis = axis < 0 ? -1 : op_operand_axis(base->def, 0, axis);
        moves[n++] = base->def;
        base = base->def->operands[0];
    }
    if (axis < 0) {
        return value; /* the same for all terms */
    }
    for (int i = 0; i < base->type->rank; i++) {
        indices[i] = i == axis ? build_along(b, from, i, base->type)
                               : build_places(b, i, base->type);
    }
    CloneMap map = clone_map_new(s->func);
    clone_map_value(&map, base, gather_inside(b, base, indices));
    while (n-- > 0) {
        clone_op(b, &map, moves[n]);
    }
    return clone_get(&map, value);
}

/* bool: is the place of a term in the range of the row? Of the shape of what is reduced. */
static Value *is_own(Sorter *s, Builder *b, const Assigned *a, const Order *order)
{
    Type type = a->select->results[0]->type;
    bool before = a->rows < a->terms;
    Dim rows = type->dims[a->rows], terms = type->dims[a->terms];
    Type pairs = type_array(s->func, DT_I64, 2, (Dim[]){before ? rows : terms,
                                                        before ? terms : rows});
    Value *place = build_places(b, before, pairs);
    Value *first = build_along(b, ends_of(b, order, 0), !before, pairs);
    Value *end = build_along(b, ends_of(b, order, 1), !before, pairs);
    Value *begun = build_cmp(b, "le", first, place), *open = build_cmp(b, "lt", place, end);
    Value *own = build_binary(b, OP_AND, begun, open);
    for (int i = 0; i < type->rank; i++) {
        own = i == a->rows || i == a->terms ? own : build_expand(b, own, i);
    }
    return build_broadcast(b, own, type->rank, type->dims);
}

static Value *sorted_sum(Sorter *s, Builder *b, const Assigned *a, const Order *order)
{
    Value *own = is_own(s, b, a, order);
    Value *body = ordered(s, b, a->select->operands[1], a->terms, order->from);
    Value *term = build_select(b, own, body, a->select->operands[2]);
    return build_reduce(b, op_word(a->reduce, ATTR_FN), term, a->terms);
}

/* As often a number as the row has terms. */
static Value *counted_sum(Builder *b, const Assigned *a, const Order *order, const Op *number)
{
    Type type = a->reduce->results[0]->type;
    Value *first = ends_of(b, order, 0), *end = ends_of(b, order, 1);
    Value *count = build_binary(b, OP_SUB, end, first);
    count = build_cast(b, count, type->dtype);
    const Attr *value = op_attr(number, ATTR_VALUE);
    Value *each = dtype_is_float(type->dtype)
                      ? build_float(b, count->type, value->f)
                      : build_int(b, count->type, value->i);
    return build_along(b, build_binary(b, OP_MUL, count, each), a->rows, type);
}

static void rewrite(Sorter *s, Op *op, bool counts)
{
    Assigned a;
    if (!find_assigned(s, op, &a)) {
        return;
    }
    bool sums = text_equal(op_word(op, ATTR_FN), "sum");
    const Op *number = sums ? constant_of(&a) : NULL;
    bool fits = counts ? number && known_order(s, &a) : !number && pays(s, &a);
    const Order *order = fits ? order_of(s, &a) : NULL;
    if (!order) {
        return;
    }
    Builder b = build_before(s->func, op);
    b.span = op->span;
    Value *sum = counts ? counted_sum(&b, &a, order, number) : sorted_sum(s, &b, &a, order);
    sum->name = op->results[0]->name;
    func_replace_uses(s->func, op->results[0], sum);
}

void pass_sort_terms(Func *func)
{
    Sorter s = {.func = func};
    for (int counts = 0; counts < 2; counts++) {
        for (Op *op = func->body->first, *next; op; op = next) {
            next = op->next;
            rewrite(&s, op, counts);
        }
    }
    func_remove_dead(func);
}
