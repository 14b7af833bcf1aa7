/* SPDX-License-Identifier: Apache-2.0 */
/* Walking, replacing and cloning of ops and blocks. */
#include "ir/build.h"

#include <string.h>

/* ---- walks ---- */

void block_walk(Block *block, WalkFn *fn, void *user)
{
    for (Op *op = block->first; op;) {
        Op *next = op->next;
        int n_regions = op->n_regions;
        op_visited(op);
        Block **regions = op->regions;
        fn(op, user);
        for (int i = 0; op->parent == block && i < n_regions; i++) {
            block_walk(regions[i], fn, user);
        }
        /* What fn inserted after op is walked only if op stayed. */
        op = op->parent == block ? op->next : next;
    }
}

bool block_contains(const Block *block, OpKind kind)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == kind) {
            return true;
        }
        for (int i = 0; i < op->n_regions; i++) {
            if (block_contains(op->regions[i], kind)) {
                return true;
            }
        }
    }
    return false;
}

bool op_reads(const Op *op, const Value *value)
{
    if (op->n_regions == 0 || op_has_operand(op, value)) {
        return op_has_operand(op, value);
    }
    for (const ValueUse *use = value->uses; use; use = use->next) {
        const Op *user = use->op;
        while (user && user != op) {
            user = user->parent ? user->parent->parent : NULL;
        }
        if (user) {
            return true;
        }
    }
    return false;
}

bool op_writes(const Op *op, const Value *memory)
{
    if (op->n_regions == 0) {
        return !op_has(op, TRAIT_PURE) && op->kind != OP_YIELD && op_has_operand(op, memory);
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *in = op->regions[r]->first; in; in = in->next) {
            if (op_writes(in, memory)) {
                return true;
            }
        }
    }
    return false;
}

void func_walk(Func *func, WalkFn *fn, void *user)
{
    block_walk(func->body, fn, user);
}

/* ---- uses ---- */

bool op_is_within(const Op *op, const Block *block)
{
    return op_ancestor_in(op, block) != NULL;
}

static const ValueUse *use_within(const ValueUse *use, const Block *within)
{
    while (use && !op_is_within(use->op, within)) {
        op_visited(use->op);
        use = use->next;
    }
    return use;
}

const ValueUse *use_first(const Value *value, const Block *within)
{
    return use_within(value->uses, within);
}

const ValueUse *use_next(const ValueUse *use, const Block *within)
{
    return use_within(use->next, within);
}

void block_replace_uses(Block *block, const Value *old, Value *by)
{
    for (const ValueUse *use = use_first(old, block), *next; use && by != old; use = next) {
        next = use_next(use, block);
        op_set_operand(use->op, (int)(use - use->op->uses), by);
    }
}

void func_replace_uses(Func *func, const Value *old, Value *by)
{
    block_replace_uses(func->body, old, by);
}

int block_count_uses(const Block *block, const Value *value)
{
    int n = 0;
    for (const ValueUse *use = use_first(value, block); use; use = use_next(use, block)) {
        n++;
    }
    return n;
}

int value_count_uses(const Func *func, const Value *value)
{
    return block_count_uses(func->body, value);
}

bool value_has_uses(const Func *func, const Value *value)
{
    return use_first(value, func->body) != NULL;
}

Op *value_only_user(const Func *func, const Value *value)
{
    const ValueUse *use = use_first(value, func->body);
    return use && !use_next(use, func->body) ? use->op : NULL;
}

/* ---- cloning ---- */

CloneMap clone_map_new(Func *func)
{
    return (CloneMap){.func = func};
}

typedef struct Mapped {
    const Value *old;
    Value *by;
} Mapped;

static bool is_mapped(const void *item, const void *key)
{
    return ((const Mapped *)item)->old == key;
}

static Mapped *mapped(const CloneMap *map, const Value *old)
{
    return table_find(&map->values, hash_word(0, old->id), is_mapped, old);
}

void clone_map_value(CloneMap *map, const Value *old, Value *by)
{
    Mapped *entry = mapped(map, old);
    if (!entry) {
        entry = ARENA_NEW(map->func->arena, Mapped);
        entry->old = old;
        table_add(map->func->arena, &map->values, hash_word(0, old->id), entry);
    }
    entry->by = by;
}

void clone_map_dim(CloneMap *map, const DimVar *old, Dim by)
{
    if (old->id >= map->n_dims) {
        size_t n = map->func->dimvars.n + 16;
        Dim *dims = ARENA_ARRAY(map->func->arena, Dim, n);
        if (map->n_dims) {
            memcpy(dims, map->dims, sizeof(Dim) * map->n_dims);
        }
        map->dims = dims;
        map->n_dims = n;
    }
    map->dims[old->id] = by;
}

Value *clone_get(const CloneMap *map, Value *old)
{
    const Mapped *entry = old ? mapped(map, old) : NULL;
    return entry ? entry->by : old;
}

static Dim clone_dim(const CloneMap *map, Dim dim)
{
    for (size_t i = 0; i < map->n_dims; i++) {
        if (map->dims[i]) {
            dim = poly_substitute(map->func, dim, map->func->dimvars.items[i], map->dims[i]);
        }
    }
    return dim;
}

Type clone_type(const CloneMap *map, Type type)
{
    Dim dims[MAX_RANK];
    bool changed = false;
    for (int i = 0; i < type->rank; i++) {
        dims[i] = clone_dim(map, type->dims[i]);
        changed = changed || dims[i] != type->dims[i];
    }
    if (!changed) {
        return type;
    }
    if (type->kind == TYPE_RANGE) {
        return type_range(map->func, poly_as_range(dims[0]));
    }
    return type_with_layout(map->func, type_with_dims(map->func, type, type->rank, dims),
                            type->layout);
}

static void clone_attrs(Func *func, const CloneMap *map, Op *to, const Op *from)
{
    to->n_attrs = from->n_attrs;
    to->attrs = arena_copy(func->arena, from->attrs, sizeof(Attr) * from->n_attrs);
    for (int i = 0; i < to->n_attrs; i++) {
        Attr *attr = &to->attrs[i];
        if (attr->ints) {
            attr->ints = arena_copy(func->arena, attr->ints, sizeof(int64_t) * (size_t)attr->n);
        }
        if (attr->dims) {
            attr->dims = arena_copy(func->arena, attr->dims, sizeof(Dim) * (size_t)attr->n);
            for (int k = 0; k < attr->n; k++) {
                attr->dims[k] = clone_dim(map, attr->dims[k]);
            }
        }
    }
}

static void clone_args(Func *func, CloneMap *map, Block *to, const Block *from)
{
    for (int i = 0; i < from->n_args; i++) {
        Value *arg = from->args[i];
        Type type;
        if (arg->type->kind == TYPE_RANGE) {
            DimVar *old = poly_as_range(arg->type->dims[0]);
            DimVar *var =
                func_range(func, old->name, clone_dim(map, old->axis_extent), old->capacity);
            var->holds_all = old->holds_all;
            clone_map_dim(map, old, poly_var(func, var));
            type = type_range(func, var);
        } else {
            type = clone_type(map, arg->type);
        }
        clone_map_value(map, arg, block_arg(func, to, type, arg->name));
    }
}

Op *clone_op(Builder *b, CloneMap *map, const Op *op)
{
    Func *func = b->func;
    Value **operands = ARENA_ARRAY(func->arena, Value *, op->n_operands);
    Type *types = ARENA_ARRAY(func->arena, Type, op->n_results);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = clone_get(map, op->operands[i]);
    }
    for (int i = 0; i < op->n_results; i++) {
        types[i] = clone_type(map, op->results[i]->type);
    }
    Builder at = *b;
    at.span = op->span;
    Op *copy =
        build_op(&at, op->kind, op->n_operands, operands, op->n_results, types, op->n_regions);
    clone_attrs(func, map, copy, op);
    for (int i = 0; i < op->n_results; i++) {
        copy->results[i]->name = op->results[i]->name;
        clone_map_value(map, op->results[i], copy->results[i]);
    }
    for (int i = 0; i < op->n_regions; i++) {
        clone_args(func, map, copy->regions[i], op->regions[i]);
        Builder inside = build_at_end(func, copy->regions[i]);
        clone_block_into(&inside, map, op->regions[i]);
    }
    return copy;
}

void clone_block_into(Builder *b, CloneMap *map, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        clone_op(b, map, op);
    }
}

Block *func_copy_block(Func *func, const Block *block)
{
    Block *copy = build_block(func, NULL);
    CloneMap map = clone_map_new(func);
    Builder b = build_at_end(func, copy);
    clone_block_into(&b, &map, block);
    return copy;
}
