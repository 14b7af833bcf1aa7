/* SPDX-License-Identifier: Apache-2.0 */
/* Types. They are interned: two are equal exactly if their pointers are. */
#include "ir/interns.h"
#include "ir/ir.h"

#include <string.h>

typedef struct TypeKey {
    TypeKind kind;
    DType dtype;
    int rank, align;
    const Dim *dims, *strides;
    const Layout *layout;
} TypeKey;

static bool dims_are_same(int rank, const Dim *a, const Dim *b)
{
    for (int i = 0; a && b && i < rank; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return !a == !b;
}

static bool type_is_same(const void *item, const void *key)
{
    const TypeData *a = item;
    const TypeKey *b = key;
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           a->layout == b->layout && a->align == b->align &&
           (b->rank == 0 || dims_are_same(b->rank, a->dims, b->dims)) &&
           dims_are_same(b->rank, a->strides, b->strides);
}

static uint64_t type_hash(const TypeKey *key)
{
    uint64_t hash = hash_word((uint64_t)key->kind, (uint64_t)key->dtype);
    hash = hash_word(hash_word(hash, (uint64_t)key->rank), (uintptr_t)key->layout);
    hash = hash_word(hash, (uint64_t)key->align);
    for (int i = 0; i < key->rank; i++) {
        hash = hash_word(hash, (uintptr_t)key->dims[i]);
        hash = key->strides ? hash_word(hash, (uintptr_t)key->strides[i]) : hash;
    }
    return hash;
}

static Type type_intern(Func *func, TypeKey key)
{
    if (key.rank < 0 || key.rank > MAX_RANK) {
        diag_bug(func->diags, "a type of rank %d", key.rank);
    }
    uint64_t hash = type_hash(&key);
    TypeData *type = table_find(&func->interns->types, hash, type_is_same, &key);
    if (type) {
        return type;
    }
    size_t n = (size_t)key.rank;
    type = arena_alloc(func->arena, sizeof(TypeData) + sizeof(Dim) * n);
    type->kind = key.kind;
    type->dtype = key.dtype;
    type->rank = (uint8_t)key.rank;
    type->align = (uint8_t)key.align;
    type->strides = key.strides ? arena_copy(func->arena, key.strides, n * sizeof(Dim)) : NULL;
    type->layout = key.layout;
    for (size_t i = 0; i < n; i++) {
        type->dims[i] = key.dims[i];
    }
    table_add(func->arena, &func->interns->types, hash, type);
    return type;
}

static TypeKey type_key(Type type)
{
    return (TypeKey){type->kind, type->dtype,   type->rank,  type->align,
                     type->dims, type->strides, type->layout};
}

Type type_array(Func *func, DType dtype, int rank, const Dim *dims)
{
    return type_intern(func, (TypeKey){TYPE_ARRAY, dtype, rank, .dims = dims});
}

Type type_scalar(Func *func, DType dtype)
{
    return type_array(func, dtype, 0, NULL);
}

Type type_tensor(Func *func, DType dtype, int rank, const Dim *dims)
{
    return type_intern(func, (TypeKey){TYPE_TENSOR, dtype, rank, .dims = dims});
}

Type type_with_strides(Func *func, Type tensor, const Dim *strides, int align)
{
    TypeKey key = type_key(tensor);
    key.strides = strides;
    key.align = align;
    return type_intern(func, key);
}

bool type_stride_is(Type tensor, int axis, int64_t stride)
{
    int64_t is;
    if (!tensor->strides) {
        return axis == tensor->rank - 1 && stride == 1;
    }
    return poly_is_const(tensor->strides[axis], &is) && is == stride;
}

Type type_range(Func *func, DimVar *var)
{
    Dim dim = poly_var(func, var);
    return type_intern(func, (TypeKey){TYPE_RANGE, DT_I64, 1, .dims = &dim});
}

static Type type_fixed(Func *func, TypeKind kind, DType dtype, int rank, const int64_t *extents)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < rank && i < MAX_RANK; i++) {
        dims[i] = poly_const(func, extents[i]);
    }
    return type_intern(func, (TypeKey){kind, dtype, rank, .dims = dims});
}

Type type_shared(Func *func, DType dtype, int rank, const int64_t *dims)
{
    return type_fixed(func, TYPE_SHARED, dtype, rank, dims);
}

Type type_mbarrier(Func *func, int64_t count)
{
    return type_fixed(func, TYPE_MBARRIER, DT_I64, 1, &count);
}

Type type_with_dtype(Func *func, Type type, DType dtype)
{
    TypeKey key = type_key(type);
    key.dtype = dtype;
    return type_intern(func, key);
}

Type type_with_dims(Func *func, Type type, int rank, const Dim *dims)
{
    return type_intern(func, (TypeKey){type->kind, type->dtype, rank, .dims = dims});
}

Type type_with_layout(Func *func, Type type, const Layout *layout)
{
    TypeKey key = type_key(type);
    key.layout = layout;
    return type_intern(func, key);
}

bool type_is_memory(Type type)
{
    return type->kind == TYPE_TENSOR || type->kind == TYPE_SHARED || type->kind == TYPE_MBARRIER;
}

bool type_is_scalar(Type type)
{
    return type->kind == TYPE_ARRAY && type->rank == 0;
}

bool type_is_tile(Type type)
{
    return type->kind == TYPE_ARRAY && type->rank > 0;
}
