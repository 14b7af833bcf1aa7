/* SPDX-License-Identifier: Apache-2.0 */
/* One builder function per op: it checks the operands and infers the result type. */
#include "ir/build.h"

#include <math.h>
#include <string.h>

Builder build_at_end(Func *func, Block *block)
{
    return (Builder){func, block, NULL, SPAN_NONE};
}

Builder build_before(Func *func, Op *op)
{
    return (Builder){func, op->parent, op, op->span};
}

Builder build_after(Func *func, Op *op)
{
    return (Builder){func, op->parent, op->next, op->span};
}

static Value *build_one(Builder *b, OpKind kind, int n, Value *const *operands, Type type)
{
    return build_op(b, kind, n, operands, 1, &type, 0)->results[0];
}

static void expect(Builder *b, bool holds, OpKind kind, const char *what)
{
    if (!holds) {
        diag_bug(b->func->diags, "building %s: %s", op_info(kind)->name, what);
    }
}

/* ---- values ---- */

Value *build_float(Builder *b, Type type, double value)
{
    Value *result = build_one(b, OP_CONST, 0, NULL, type);
    op_set_num(b->func, result->def, ATTR_VALUE, value, 0);
    return result;
}

Value *build_int(Builder *b, Type type, int64_t value)
{
    Value *result = build_one(b, OP_CONST, 0, NULL, type);
    op_set_num(b->func, result->def, ATTR_VALUE, (double)value, value);
    return result;
}

void build_bare(Builder *b, OpKind kind)
{
    build_op(b, kind, 0, NULL, 0, NULL, 0);
}

Value *build_previous(Builder *b, Value *position)
{
    return build_binary(b, OP_SUB, position, build_int(b, position->type, 1));
}

Value *build_i64(Builder *b, int64_t value)
{
    return build_int(b, type_scalar(b->func, DT_I64), value);
}

Value *build_size(Builder *b, Dim dim)
{
    int64_t value;
    if (poly_is_const(dim, &value)) {
        return build_i64(b, value);
    }
    Value *result = build_one(b, OP_SIZE, 0, NULL, type_scalar(b->func, DT_I64));
    op_set_dims(b->func, result->def, ATTR_DIM, 1, &dim);
    return result;
}

Value *build_index(Builder *b, Value *range, DType dtype)
{
    expect(b, range->type->kind == TYPE_RANGE, OP_INDEX, "the operand is no range");
    return build_one(b, OP_INDEX, 1, &range, type_array(b->func, dtype, 1, range->type->dims));
}

Value *build_range_fact(Builder *b, OpKind kind, Value *range)
{
    expect(b, range->type->kind == TYPE_RANGE, kind, "the operand is no range");
    return build_one(b, kind, 1, &range, type_scalar(b->func, DT_I64));
}

/* ---- elementwise ---- */

Value *build_unary(Builder *b, OpKind kind, Value *a)
{
    Type type = kind == OP_ISNAN ? type_with_dtype(b->func, a->type, DT_BOOL) : a->type;
    return build_one(b, kind, 1, &a, type);
}

Value *build_binary(Builder *b, OpKind kind, Value *a, Value *c)
{
    expect(b, a->type == c->type, kind, "operand types differ");
    return build_one(b, kind, 2, (Value *[]){a, c}, a->type);
}

Value *build_cmp(Builder *b, const char *pred, Value *a, Value *c)
{
    expect(b, a->type == c->type, OP_CMP, "operand types differ");
    Value *result =
        build_one(b, OP_CMP, 2, (Value *[]){a, c}, type_with_dtype(b->func, a->type, DT_BOOL));
    op_set_word(b->func, result->def, ATTR_PRED, pred);
    return result;
}

Value *build_fma(Builder *b, Value *a, Value *c, Value *d)
{
    expect(b, a->type == c->type && a->type == d->type, OP_FMA, "operand types differ");
    return build_one(b, OP_FMA, 3, (Value *[]){a, c, d}, a->type);
}

Value *build_select(Builder *b, Value *condition, Value *a, Value *c)
{
    expect(b, a->type == c->type, OP_SELECT, "the choices' types differ");
    expect(b, condition->type == type_with_dtype(b->func, a->type, DT_BOOL), OP_SELECT,
           "the condition's shape differs");
    return build_one(b, OP_SELECT, 3, (Value *[]){condition, a, c}, a->type);
}

Value *build_cast(Builder *b, Value *a, DType dtype)
{
    if (a->type->dtype == dtype) {
        return a;
    }
    return build_one(b, OP_CAST, 1, &a, type_with_dtype(b->func, a->type, dtype));
}

Value *build_bitcast(Builder *b, Value *a, DType dtype)
{
    expect(b, dtype_bits(dtype) == dtype_bits(a->type->dtype), OP_BITCAST, "widths differ");
    return build_one(b, OP_BITCAST, 1, &a, type_with_dtype(b->func, a->type, dtype));
}

/* ---- shapes ---- */

Value *build_broadcast(Builder *b, Value *a, int rank, const Dim *dims)
{
    Type type = type_with_dims(b->func, a->type, rank, dims);
    if (type == type_with_layout(b->func, a->type, NULL)) {
        return a;
    }
    expect(b, a->type->rank <= rank, OP_BROADCAST, "the operand has more axes than the result");
    for (int i = 0; i < a->type->rank; i++) {
        Dim from = a->type->dims[i], to = dims[rank - a->type->rank + i];
        expect(b, from == to || poly_is_number(from, 1), OP_BROADCAST,
               "an axis other than 1 would be stretched");
    }
    return build_one(b, OP_BROADCAST, 1, &a, type);
}

Value *build_expand(Builder *b, Value *a, int axis)
{
    Dim dims[MAX_RANK + 1];
    int rank = a->type->rank;
    expect(b, axis >= 0 && axis <= rank && rank < MAX_RANK, OP_EXPAND, "no such axis");
    for (int i = 0; i <= rank; i++) {
        if (i == axis) {
            dims[i] = poly_const(b->func, 1);
        } else {
            dims[i] = a->type->dims[i < axis ? i : i - 1];
        }
    }
    Value *result =
        build_one(b, OP_EXPAND, 1, &a, type_with_dims(b->func, a->type, rank + 1, dims));
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    return result;
}

Value *build_squeeze(Builder *b, Value *a, int axis)
{
    Dim dims[MAX_RANK];
    int rank = a->type->rank;
    expect(b, axis >= 0 && axis < rank, OP_SQUEEZE, "no such axis");
    expect(b, poly_is_number(a->type->dims[axis], 1), OP_SQUEEZE, "the axis is not of extent 1");
    for (int i = 0, n = 0; i < rank; i++) {
        if (i != axis) {
            dims[n++] = a->type->dims[i];
        }
    }
    Value *result =
        build_one(b, OP_SQUEEZE, 1, &a, type_with_dims(b->func, a->type, rank - 1, dims));
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    return result;
}

Value *build_permute(Builder *b, Value *a, const int64_t *perm)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < a->type->rank; i++) {
        dims[i] = a->type->dims[perm[i]];
    }
    Value *result =
        build_one(b, OP_PERMUTE, 1, &a, type_with_dims(b->func, a->type, a->type->rank, dims));
    op_set_ints(b->func, result->def, ATTR_PERM, a->type->rank, perm);
    return result;
}

Value *build_mask(Builder *b, Value *a, int axis, double value)
{
    expect(b, axis < a->type->rank && poly_as_range(a->type->dims[axis]), OP_MASK,
           "the axis is no range");
    Value *result = build_one(b, OP_MASK, 1, &a, a->type);
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    op_set_num(b->func, result->def, ATTR_VALUE, value, isfinite(value) ? (int64_t)value : 0);
    return result;
}

static Value *along_parts(Builder *b, OpKind kind, Value *a, int axis, int64_t by, Dim extent)
{
    Dim dims[MAX_RANK];
    expect(b, axis >= 0 && axis < a->type->rank, kind, "no such axis");
    for (int i = 0; i < a->type->rank; i++) {
        dims[i] = i == axis ? extent : a->type->dims[i];
    }
    Value *result =
        build_one(b, kind, 1, &a, type_with_dims(b->func, a->type, a->type->rank, dims));
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    op_set_int(b->func, result->def, ATTR_BY, by);
    return result;
}

Value *build_reduce_parts(Builder *b, const char *fn, Value *a, int axis, int64_t by, Dim parts)
{
    Value *result = along_parts(b, OP_REDUCE_PARTS, a, axis, by, parts);
    op_set_word(b->func, result->def, ATTR_FN, fn);
    return result;
}

Value *build_repeat_parts(Builder *b, Value *a, int axis, int64_t by, Dim extent)
{
    return along_parts(b, OP_REPEAT_PARTS, a, axis, by, extent);
}

Value *build_reduce(Builder *b, const char *fn, Value *a, int axis)
{
    Dim dims[MAX_RANK];
    expect(b, axis >= 0 && axis < a->type->rank, OP_REDUCE, "no such axis");
    for (int i = 0; i < a->type->rank; i++) {
        dims[i] = i == axis ? poly_const(b->func, 1) : a->type->dims[i];
    }
    Value *result =
        build_one(b, OP_REDUCE, 1, &a, type_with_dims(b->func, a->type, a->type->rank, dims));
    op_set_word(b->func, result->def, ATTR_FN, fn);
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    return result;
}

Value *build_cluster_reduce(Builder *b, const char *fn, Value *a)
{
    Value *result = build_op(b, OP_CLUSTER_REDUCE, 1, &a, 1, &a->type, 0)->results[0];
    op_set_word(b->func, result->def, ATTR_FN, fn);
    return result;
}

Value *build_cluster_scatter(Builder *b, const char *fn, Value *a, int axis, Dim part)
{
    Dim dims[MAX_RANK];
    expect(b, axis >= 0 && axis < a->type->rank, OP_CLUSTER_REDUCE_SCATTER, "no such axis");
    for (int i = 0; i < a->type->rank; i++) {
        dims[i] = i == axis ? part : a->type->dims[i];
    }
    Type type = type_with_dims(b->func, a->type, a->type->rank, dims);
    Value *result = build_op(b, OP_CLUSTER_REDUCE_SCATTER, 1, &a, 1, &type, 0)->results[0];
    op_set_word(b->func, result->def, ATTR_FN, fn);
    op_set_int(b->func, result->def, ATTR_AXIS, axis);
    return result;
}

Value *build_dot(Builder *b, Value *a, Value *c, Value *acc, DType dtype)
{
    int rank = a->type->rank;
    Dim dims[MAX_RANK];
    expect(b, rank >= 2 && c->type->rank == rank, OP_DOT, "the operands are not matrices");
    expect(b, a->type->dims[rank - 1] == c->type->dims[rank - 2], OP_DOT,
           "the inner extents differ");
    for (int i = 0; i < rank; i++) {
        dims[i] = (i < rank - 1 ? a : c)->type->dims[i];
        expect(b, i >= rank - 2 || dims[i] == c->type->dims[i], OP_DOT, "the batches differ");
    }
    Type type = acc ? acc->type : type_array(b->func, dtype, rank, dims);
    expect(b, type_with_dims(b->func, type, rank, dims) == type_with_layout(b->func, type, NULL),
           OP_DOT, "the accumulator's shape differs");
    return build_one(b, OP_DOT, acc ? 3 : 2, (Value *[]){a, c, acc}, type);
}

/* ---- memory ---- */

static int with_indices(Value **operands, Value *memory, Value *const *indices)
{
    operands[0] = memory;
    for (int i = 0; i < memory->type->rank; i++) {
        operands[i + 1] = indices[i];
    }
    return memory->type->rank + 1;
}

/* The axes that remain: whole axes, and ranges. */
static Type accessed_type(Builder *b, Value *memory, Value *const *indices)
{
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < memory->type->rank; i++) {
        if (!indices[i]) {
            dims[rank++] = memory->type->dims[i];
        } else if (indices[i]->type->kind == TYPE_RANGE) {
            dims[rank++] = indices[i]->type->dims[0];
        }
    }
    return type_array(b->func, memory->type->dtype, rank, dims);
}

Value *build_load(Builder *b, Value *tensor, Value *const *indices)
{
    Value *operands[MAX_RANK + 1];
    expect(b, tensor->type->kind == TYPE_TENSOR, OP_LOAD, "the operand is no tensor");
    int n = with_indices(operands, tensor, indices);
    return build_one(b, OP_LOAD, n, operands, accessed_type(b, tensor, indices));
}

Op *build_store(Builder *b, Value *tensor, Value *const *indices, Value *value)
{
    Value *operands[MAX_RANK + 2];
    expect(b, tensor->type->kind == TYPE_TENSOR, OP_STORE, "the operand is no tensor");
    Type slot = accessed_type(b, tensor, indices);
    expect(b, slot == type_with_layout(b->func, value->type, NULL), OP_STORE,
           "the value's type is not that of the place");
    int n = with_indices(operands, tensor, indices);
    operands[n++] = value;
    return build_op(b, OP_STORE, n, operands, 0, NULL, 0);
}

/* ---- structure ---- */

static void iterator_arg(Func *func, Block *block, Dim dim, int64_t step, const char *name)
{
    if (step == 0) {
        block_arg(func, block, type_scalar(func, DT_I64), name);
        return;
    }
    DimVar *var = func_range(func, name, dim, step > 0 ? step : 0);
    block_arg(func, block, type_range(func, var), name);
}

Op *build_parallel(Builder *b, OpKind kind, int n, const Dim *dims, const int64_t *steps,
                   const char *const *names)
{
    Op *op = build_op(b, kind, 0, NULL, 0, NULL, 1);
    op_set_dims(b->func, op, ATTR_DIMS, n, dims);
    op_set_ints(b->func, op, ATTR_STEPS, n, steps);
    for (int i = 0; i < n; i++) {
        iterator_arg(b->func, op->regions[0], dims[i], steps[i], names ? names[i] : NULL);
    }
    return op;
}

Op *build_for(Builder *b, Dim dim, int64_t step, const char *name, Value *lo, Value *hi, int n,
              Value *const *inits)
{
    Value **operands = ARENA_ARRAY(b->func->arena, Value *, n + 2);
    Type *types = ARENA_ARRAY(b->func->arena, Type, n);
    operands[0] = lo;
    operands[1] = hi;
    for (int i = 0; i < n; i++) {
        operands[i + 2] = inits[i];
        types[i] = inits[i]->type;
    }
    Op *op = build_op(b, OP_FOR, n + 2, operands, n, types, 1);
    op_set_dims(b->func, op, ATTR_DIMS, 1, &dim);
    op_set_ints(b->func, op, ATTR_STEPS, 1, &step);
    iterator_arg(b->func, op->regions[0], dim, step, name);
    for (int i = 0; i < n; i++) {
        block_arg(b->func, op->regions[0], types[i], inits[i]->name);
    }
    return op;
}

Op *build_yield(Builder *b, int n, Value *const *values)
{
    return build_op(b, OP_YIELD, n, values, 0, NULL, 0);
}
