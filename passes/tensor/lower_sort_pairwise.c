/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts short rows by comparing all pairs: the number of elements that come before an element is
 * its position. It consists of plain sums, so it may be inside of any loop. */
#include "passes/tensor/lower_sort.h"

typedef struct Pairs {
    Builder *b;
    Dim dims[MAX_RANK]; /* the rows, their elements, and those once more */
    int rank;           /* of the sorted */
} Pairs;

/* Varies along the last axis but one of the pairs, or along the last. */
static Value *as_first(const Pairs *p, Value *value)
{
    Value *column = build_expand(p->b, value, value->type->rank);
    return build_broadcast(p->b, column, p->rank + 1, p->dims);
}

static Value *as_second(const Pairs *p, Value *value)
{
    Value *row = value->type->rank > 1 ? build_expand(p->b, value, value->type->rank - 1) : value;
    return build_broadcast(p->b, row, p->rank + 1, p->dims);
}

static Value *sum_first(const Pairs *p, Value *value)
{
    return build_squeeze(p->b, build_reduce(p->b, "sum", value, p->rank - 1), p->rank - 1);
}

/* i64: where each element is in its row. */
static Value *row_index(const Pairs *p)
{
    Dim dim = p->dims[p->rank];
    DimVar *range = poly_as_range(dim);
    if (!range) {
        return build_iota(p->b, dim, DT_I64);
    }
    Value *index = build_index(p->b, range->binder, DT_I64);
    Value *start = build_range_fact(p->b, OP_START, range->binder);
    return build_binary(p->b, OP_SUB, index, build_broadcast(p->b, start, 1, index->type->dims));
}

/* How many elements come before each: summed along the last axis, so that it varies along the one
 * that `fetch` sums along, and both are done by one launch. */
static Value *count_before(const Pairs *p, Value *keys, Value *index)
{
    Value *one = as_first(p, keys), *other = as_second(p, keys);
    Value *mine = as_first(p, index);
    Value *earlier = build_cmp(p->b, "lt", as_second(p, index), mine);
    Value *less = build_cmp(p->b, "lt", other, one), *same = build_cmp(p->b, "eq", other, one);
    Value *before = build_binary(p->b, OP_OR, less, build_binary(p->b, OP_AND, same, earlier));
    Value *count = build_reduce(p->b, "sum", build_cast(p->b, before, DT_I32), p->rank);
    return build_cast(p->b, build_squeeze(p->b, count, p->rank), DT_I64);
}

/* At each place the value of the element whose place it is: all others add 0. */
static Value *fetch(const Pairs *p, Value *here, Value *values)
{
    Value *spread = as_first(p, values);
    Value *none = build_int(p->b, spread->type, 0);
    return sum_first(p, build_select(p->b, here, spread, none));
}

static Value *fetch_elements(const Pairs *p, Value *here, Value *elements)
{
    int bits = dtype_bits(elements->type->dtype);
    DType own = dtype_unsigned(elements->type->dtype);
    DType sum = bits < 32 ? DT_U32 : own;
    bool plain = elements->type->dtype == own;
    Value *from = plain ? elements : build_bitcast(p->b, elements, own);
    Value *brought = build_cast(p->b, fetch(p, here, build_cast(p->b, from, sum)), own);
    return plain ? brought : build_bitcast(p->b, brought, elements->type->dtype);
}

void sort_by_pairs(Func *func, Op *op)
{
    Value *elements = op->operands[0];
    Builder b = build_before(func, op);
    b.span = op->span;
    Pairs p = {.b = &b, .rank = elements->type->rank};
    for (int i = 0; i <= p.rank; i++) {
        p.dims[i] = elements->type->dims[i < p.rank ? i : p.rank - 1];
    }
    Value *index = row_index(&p);
    Value *keys = sort_keys(&b, elements, op_int(op, ATTR_DESCENDING, 0) != 0);
    Value *place = count_before(&p, keys, index);
    Value *second = as_second(&p, index);
    Value *here = build_cmp(&b, "eq", as_first(&p, place), second);
    func_replace_uses(func, op->results[0], fetch_elements(&p, here, elements));
    Value *whole = build_broadcast(&b, index, p.rank, elements->type->dims);
    func_replace_uses(func, op->results[1], fetch(&p, here, whole));
    op_remove(op);
}
