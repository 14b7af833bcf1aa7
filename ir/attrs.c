/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of ops: their kinds, and the functions that set and read them. */
#include "ir/build.h"
#include "ir/ir.h"

#include <string.h>

static const struct {
    const char *name;
    AttrKind kind;
} attr_table[ATTR_COUNT] = {
#define ATTR(id, name, kind) {name, ATTR_KIND_##kind},
#include "ir/attrs.def"
#undef ATTR
};

const char *attr_name(AttrKey key)
{
    return attr_table[key].name;
}

AttrKind attr_kind(AttrKey key)
{
    return attr_table[key].kind;
}

static Attr *attr_slot(Func *func, Op *op, AttrKey key)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key) {
            op->attrs[i] = (Attr){.key = key};
            return &op->attrs[i];
        }
    }
    Attr *attrs = ARENA_ARRAY(func->arena, Attr, op->n_attrs + 1);
    if (op->n_attrs) {
        memcpy(attrs, op->attrs, sizeof(Attr) * op->n_attrs);
    }
    op->attrs = attrs;
    op->attrs[op->n_attrs].key = key;
    return &op->attrs[op->n_attrs++];
}

void op_set_int(Func *func, Op *op, AttrKey key, int64_t value)
{
    attr_slot(func, op, key)->i = value;
}

void op_set_num(Func *func, Op *op, AttrKey key, double f, int64_t i)
{
    Attr *attr = attr_slot(func, op, key);
    attr->f = f;
    attr->i = i;
}

void op_set_word(Func *func, Op *op, AttrKey key, const char *word)
{
    attr_slot(func, op, key)->word = arena_strdup(func->arena, word);
}

void op_set_ints(Func *func, Op *op, AttrKey key, int n, const int64_t *ints)
{
    Attr *attr = attr_slot(func, op, key);
    attr->n = n;
    attr->ints = arena_copy(func->arena, ints, sizeof(int64_t) * (size_t)n);
}

void op_set_dims(Func *func, Op *op, AttrKey key, int n, const Dim *dims)
{
    Attr *attr = attr_slot(func, op, key);
    attr->n = n;
    attr->dims = arena_copy(func->arena, dims, sizeof(Dim) * (size_t)n);
}

void op_drop_attr(Op *op, AttrKey key)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key) {
            op->attrs[i] = op->attrs[--op->n_attrs];
            return;
        }
    }
}

const Attr *op_attr(const Op *op, AttrKey key)
{
    op_visited(op);
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key) {
            return &op->attrs[i];
        }
    }
    return NULL;
}

int64_t op_int(const Op *op, AttrKey key, int64_t otherwise)
{
    const Attr *attr = op_attr(op, key);
    return attr ? attr->i : otherwise;
}

const char *op_word(const Op *op, AttrKey key)
{
    const Attr *attr = op_attr(op, key);
    return attr ? attr->word : NULL;
}

bool gather_reads_zeros(const Op *gather)
{
    const Attr *value = op_attr(gather, ATTR_VALUE);
    return !value || (value->f == 0 && value->i == 0);
}

bool op_permutes_axes(const Op *op)
{
    const Attr *perm = op->kind == OP_PERMUTE ? op_attr(op, ATTR_PERM) : NULL;
    for (int i = 0; perm && i < perm->n; i++) {
        if (perm->ints[i] != i) {
            return true;
        }
    }
    return false;
}

bool op_is_guarded(const Op *op, int axis)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    return guard && axis < guard->n && guard->ints[axis];
}

bool gather_stays_inside(const Op *gather)
{
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    bool inside = guard != NULL;
    for (int i = 0; inside && i < guard->n; i++) {
        inside = !guard->ints[i];
    }
    return inside;
}
