/* SPDX-License-Identifier: Apache-2.0 */
/* Builder functions for index notation (iota, gather, scatter), scans and folds, loops and
 * conditions over single elements, and kernel messages. */
#include "ir/build.h"

static void expect(Builder *b, bool holds, OpKind kind, const char *what)
{
    if (!holds) {
        diag_bug(b->func->diags, "building %s: %s", op_info(kind)->name, what);
    }
}

static bool is_index_type(Type type)
{
    return type->kind == TYPE_ARRAY && (type->dtype == DT_I64 || type->dtype == DT_I32);
}

Value *const WHOLE[MAX_RANK];

Value *build_iota(Builder *b, Dim dim, DType dtype)
{
    expect(b, dtype == DT_I64 || dtype == DT_I32, OP_IOTA, "an index is i64 or i32");
    Type type = type_array(b->func, dtype, 1, &dim);
    Op *op = build_op(b, OP_IOTA, 0, NULL, 1, &type, 0);
    op_set_dims(b->func, op, ATTR_DIM, 1, &dim);
    return op->results[0];
}

Value *build_along(Builder *b, Value *vector, int axis, Type shape)
{
    for (int i = 0; i < shape->rank; i++) {
        vector = i == axis ? vector : build_expand(b, vector, i);
    }
    return build_broadcast(b, vector, shape->rank, shape->dims);
}

Value *build_places(Builder *b, int axis, Type shape)
{
    return build_along(b, build_iota(b, shape->dims[axis], DT_I64), axis, shape);
}

/* ---- gather, scatter ---- */

/* The shape that the indices have: all the same, but for scalars. */
static Type indexed_type(Builder *b, OpKind kind, Type memory, Value *const *indices)
{
    Type shape = type_scalar(b->func, memory->dtype);
    for (int i = 0; i < memory->rank; i++) {
        if (!indices[i] && memory->kind == TYPE_SHARED) {
            continue;
        }
        expect(b, indices[i] && is_index_type(indices[i]->type), kind,
               "an index is no array of i64 or i32");
        Type type = type_with_layout(b->func, indices[i]->type, NULL);
        if (type->rank == 0) {
            continue;
        }
        type = type_with_dtype(b->func, type, memory->dtype);
        expect(b, shape->rank == 0 || shape == type, kind, "the indices' shapes differ");
        shape = type;
    }
    return shape;
}

Value *build_gather(Builder *b, Value *memory, Value *const *indices)
{
    Value *operands[MAX_RANK + 1] = {memory};
    Type from = memory->type;
    bool held =
        from->kind == TYPE_TENSOR || (from->kind == TYPE_ARRAY && b->func->level == LEVEL_TENSOR);
    expect(b, held && from->rank > 0, OP_GATHER, "the operand has no elements to choose from");
    Type type = indexed_type(b, OP_GATHER, from, indices);
    for (int i = 0; i < from->rank; i++) {
        operands[i + 1] = indices[i];
    }
    return build_op(b, OP_GATHER, from->rank + 1, operands, 1, &type, 0)->results[0];
}

Op *build_scatter(Builder *b, const char *fn, Value *tensor, Value *const *indices, Value *value,
                  Value *compare, Value *mask, bool old)
{
    Value *operands[MAX_RANK + 4] = {tensor};
    Type into = tensor->type;
    int n = 1;
    expect(b, into->kind == TYPE_TENSOR || into->kind == TYPE_SHARED, OP_SCATTER,
           "the operand is no tensor");
    expect(b, text_equal(fn, "cas") == (compare != NULL), OP_SCATTER, "cas alone compares");
    Type place = indexed_type(b, OP_SCATTER, into, indices);
    Type type = type_with_layout(b->func, value->type, NULL);
    expect(b, type->dtype == into->dtype && (place->rank == 0 || place == type), OP_SCATTER,
           "the value's type is not that of the places");
    expect(b, !compare || compare->type == value->type, OP_SCATTER, "compare is not as the value");
    expect(b, !mask || mask->type == type_with_dtype(b->func, value->type, DT_BOOL), OP_SCATTER,
           "the mask is not as the value");
    for (int i = 0; i < into->rank; i++) {
        operands[n++] = indices[i];
    }
    operands[n++] = value;
    if (compare) {
        operands[n++] = compare;
    }
    if (mask) {
        operands[n++] = mask;
    }
    Op *op = build_op(b, OP_SCATTER, n, operands, old ? 1 : 0, &value->type, 0);
    op_set_word(b->func, op, ATTR_FN, fn);
    return op;
}

Value *build_await(Builder *b, Value *tensor, Value *const *indices, Value *mask)
{
    Value *operands[MAX_RANK + 2] = {tensor};
    int n = 1;
    expect(b, tensor->type->kind == TYPE_TENSOR, OP_SPIN_LOAD, "the operand is no tensor");
    Type type = indexed_type(b, OP_SPIN_LOAD, tensor->type, indices);
    expect(b, mask->type == type_with_dtype(b->func, type, DT_BOOL), OP_SPIN_LOAD,
           "the mask is not as the places");
    for (int i = 0; i < tensor->type->rank; i++) {
        operands[n++] = indices[i];
    }
    operands[n++] = mask;
    return build_op(b, OP_SPIN_LOAD, n, operands, 1, &type, 0)->results[0];
}

/* ---- scan, fold ---- */

static void set_scan(Func *func, Op *op, bool reverse, bool exclusive)
{
    if (reverse) {
        op_set_int(func, op, ATTR_REVERSE, 1);
    }
    if (exclusive) {
        op_set_int(func, op, ATTR_EXCLUSIVE, 1);
    }
}

Value *build_scan(Builder *b, const char *fn, Value *a, int axis, bool reverse, bool exclusive)
{
    expect(b, axis >= 0 && axis < a->type->rank, OP_SCAN, "no such axis");
    Type type = type_with_layout(b->func, a->type, NULL);
    Op *op = build_op(b, OP_SCAN, 1, &a, 1, &type, 0);
    op_set_word(b->func, op, ATTR_FN, fn);
    op_set_int(b->func, op, ATTR_AXIS, axis);
    set_scan(b->func, op, reverse, exclusive);
    return op->results[0];
}

/* ---- sorting ---- */

Op *build_sort(Builder *b, Value *a, bool descending)
{
    expect(b, a->type->rank > 0, OP_SORT, "the operand has no axis");
    Type type = type_with_layout(b->func, a->type, NULL);
    Type results[2] = {type, type_with_dtype(b->func, type, DT_I64)};
    Op *op = build_op(b, OP_SORT, 1, &a, 2, results, 0);
    if (descending) {
        op_set_int(b->func, op, ATTR_DESCENDING, 1);
    }
    return op;
}

Value *build_histogram(Builder *b, Value *digits, int64_t groups)
{
    expect(b, digits->type->rank == 1 && digits->type->dtype == DT_I32, OP_HISTOGRAM,
           "the digits are no row of i32");
    Dim dim = poly_const(b->func, groups);
    Type type = type_array(b->func, DT_I32, 1, &dim);
    return build_op(b, OP_HISTOGRAM, 1, &digits, 1, &type, 0)->results[0];
}

Op *build_rank(Builder *b, Value *digits, int n, Value *const *tables)
{
    Value *operands[MAX_TABLES + 1] = {digits};
    Type types[MAX_TABLES], type = type_with_layout(b->func, digits->type, NULL);
    expect(b, type->rank == 1 && type->dtype == DT_I32 && n > 0 && n <= MAX_TABLES, OP_RANK,
           "the digits are no row of i32, or there are too many tables");
    for (int i = 0; i < n; i++) {
        operands[i + 1] = tables[i];
        types[i] = type_with_dtype(b->func, type, tables[i]->type->dtype);
    }
    return build_op(b, OP_RANK, n + 1, operands, n, types, 0);
}

Value *build_arrange(Builder *b, Value *values, Value *places)
{
    Value *operands[2] = {values, places};
    expect(b, values->type->rank == 1 && places->type->rank == 1, OP_TILE_SCATTER, "no rows");
    Type type = type_with_layout(b->func, values->type, NULL);
    return build_op(b, OP_TILE_SCATTER, 2, operands, 1, &type, 0)->results[0];
}

Value *build_lookup(Builder *b, Value *table, Value *indices)
{
    Value *operands[2] = {table, indices};
    expect(b, table->type->rank == 1 && indices->type->rank == 1, OP_LOOKUP, "no rows");
    Type type = type_with_dtype(b->func, indices->type, table->type->dtype);
    type = type_with_layout(b->func, type, NULL);
    return build_op(b, OP_LOOKUP, 2, operands, 1, &type, 0)->results[0];
}

Op *build_fold(Builder *b, int n, Value *const *arrays, Value *const *neutrals, int axis, bool scan,
               bool reverse, bool exclusive)
{
    Func *func = b->func;
    Value **operands = ARENA_ARRAY(func->arena, Value *, 2 * n);
    Type *types = ARENA_ARRAY(func->arena, Type, n);
    Dim dims[MAX_RANK];
    for (int i = 0; i < n; i++) {
        Type type = arrays[i]->type;
        expect(b, axis >= 0 && axis < type->rank, OP_FOLD, "no such axis");
        expect(b, neutrals[i]->type == type_scalar(func, type->dtype), OP_FOLD,
               "a neutral element is no scalar of its array's type");
        for (int k = 0; k < type->rank; k++) {
            dims[k] = k == axis && !scan ? poly_const(func, 1) : type->dims[k];
        }
        types[i] = type_with_dims(func, type, type->rank, dims);
        expect(b, types[i] == type_with_dtype(func, types[0], type->dtype), OP_FOLD,
               "the arrays' shapes differ");
        operands[i] = arrays[i];
        operands[n + i] = neutrals[i];
    }
    Op *op = build_op(b, OP_FOLD, 2 * n, operands, n, types, 1);
    for (int i = 0; i < 2 * n; i++) {
        block_arg(func, op->regions[0], neutrals[i % n]->type, NULL);
    }
    op_set_int(func, op, ATTR_AXIS, axis);
    if (scan) {
        op_set_int(func, op, ATTR_SCAN, 1);
        set_scan(func, op, reverse, exclusive);
    }
    return op;
}

/* ---- while, if ---- */

Op *build_while(Builder *b, int n, Value *const *inits)
{
    Type *types = ARENA_ARRAY(b->func->arena, Type, n);
    for (int i = 0; i < n; i++) {
        types[i] = inits[i]->type; /* of one shape, unless the condition is a scalar */
    }
    Op *op = build_op(b, OP_WHILE, n, inits, n, types, 2);
    for (int i = 0; i < 2 * n; i++) {
        block_arg(b->func, op->regions[i / n], types[i % n], inits[i % n]->name);
    }
    return op;
}

Op *build_if(Builder *b, Value *condition, int n, const Type *types)
{
    expect(b, condition->type == type_scalar(b->func, DT_BOOL), OP_IF,
           "the condition is no bool scalar");
    return build_op(b, OP_IF, 1, &condition, n, types, 2);
}

Op *build_say(Builder *b, OpKind kind, const char *text, Value *when, int n, Value *const *values)
{
    Value **operands = ARENA_ARRAY(b->func->arena, Value *, n + 1);
    expect(b, when->type->kind == TYPE_ARRAY && when->type->dtype == DT_BOOL, kind,
           "the condition is no bool");
    operands[0] = when;
    for (int i = 0; i < n; i++) {
        expect(b, type_with_dtype(b->func, values[i]->type, DT_BOOL) == when->type, kind,
               "a value is not of the condition's shape");
        operands[i + 1] = values[i];
    }
    Op *op = build_op(b, kind, n + 1, operands, 0, NULL, 0);
    op_set_word(b->func, op, ATTR_TEXT, text);
    return op;
}
