/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensors with more axes than TMA can describe through aliases with fewer axes.
 *
 *                                      in %m: tensor<[4, N, 4, C]> collapsed [2, 1, 2, 1] alias %w
 *   %a = load %w[%f, %g, %n, %u, %v, :]  →  %a = load %m[2 * %f + %g, %n, 2 * %u + %v, :]
 *
 * The weights of a transposed convolution in three dimensions have axes of phases and taps in
 * addition to those of the dot's tile. A tile has extent 1 along each of them, and adjacent ones
 * are contiguous in memory, so they can be read as one axis. The outermost ones are merged
 * first. */
#include "passes/stage/stage.h"

typedef struct Merged {
    const Value *of;
    Value *alias;
    unsigned joins; /* bit i: axis i is one with the axis before it */
} Merged;

typedef struct Merges {
    Func *func;
    const Op *launch;
    Merged *items;
    size_t n, cap;
} Merges;

/* Is axis `at` of the tensor followed in memory by the next one, as rows by their elements? */
static bool is_contiguous(Func *func, Type type, int at)
{
    return !type->strides ||
           type->strides[at] == poly_mul(func, type->dims[at + 1], type->strides[at + 1]);
}

static bool takes_one(const Access *access, const Attr *guard, int axis)
{
    const Value *index = access->indices[axis];
    return index && type_is_scalar(index->type) && (!guard || !guard->ints[axis]);
}

/* Which axes are one with those before them, so that `most` are left; 0: so few cannot be. */
static unsigned joined_axes(Func *func, const Op *load, int most)
{
    Access access = op_access(load, 0);
    Type type = access.memory->type;
    const Attr *guard = op_attr(load, ATTR_GUARD);
    unsigned joins = 0;
    int left = access.n;
    Dim dim = type->dims[0];
    for (int i = 1; i + 1 < access.n && left > most; i++) {
        Dim both = poly_mul(func, dim, type->dims[i]);
        bool joined = both && takes_one(&access, guard, i - 1) && takes_one(&access, guard, i) &&
                      is_contiguous(func, type, i - 1);
        joins |= (unsigned)joined << i;
        left -= joined;
        dim = joined ? both : type->dims[i];
    }
    return left > most ? 0 : joins;
}

static Value *new_alias(Func *func, const Value *memory, unsigned joins)
{
    Type type = memory->type;
    Type caller = param_given(&func->params.items[memory->index]);
    Dim dims[MAX_RANK], strides[MAX_RANK];
    int64_t *counts = ARENA_ARRAY(func->arena, int64_t, type->rank);
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        bool joined = joins >> i & 1;
        int to = joined ? rank - 1 : rank++;
        counts[to]++;
        dims[to] = joined ? poly_mul(func, dims[to], type->dims[i]) : type->dims[i];
        strides[to] = type->strides ? type->strides[i] : NULL;
    }
    Type merged = type_with_strides(func, type_tensor(func, type->dtype, rank, dims),
                                    type->strides ? strides : NULL, type->align);
    bool scratch = func->params.items[memory->index].io == PARAM_SCRATCH;
    Value *alias = scratch ? func_alias(func, memory) : func_split_alias(func, memory, merged);
    Param *param = &func->params.items[alias->index];
    param->caller_type = caller;
    param->collapsed = counts;
    alias->type = merged;
    return alias;
}

static Value *merged_alias(Merges *m, const Value *memory, unsigned joins)
{
    for (size_t i = 0; i < m->n; i++) {
        if (m->items[i].of == memory && m->items[i].joins == joins) {
            return m->items[i].alias;
        }
    }
    Merged merged = {memory, new_alias(m->func, memory, joins), joins};
    ARENA_PUSH(m->func->arena, m, merged);
    return merged.alias;
}

static void merge_axes(Merges *m, Op *load, unsigned joins)
{
    Func *func = m->func;
    Access access = op_access(load, 0);
    Builder b = build_before(func, load);
    b.span = load->span;
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK];
    const Attr *guard = op_attr(load, ATTR_GUARD);
    int rank = 0;
    for (int i = 0; i < access.n; i++) {
        if (joins >> i & 1) {
            Value *outer = build_cast(&b, indices[rank - 1], DT_I64);
            Value *extent = build_size(&b, access.memory->type->dims[i]);
            Value *base = build_binary(&b, OP_MUL, outer, extent);
            Value *inner = build_cast(&b, access.indices[i], DT_I64);
            indices[rank - 1] = build_binary(&b, OP_ADD, base, inner);
        } else {
            guards[rank] = guard ? guard->ints[i] : 0;
            indices[rank++] = access.indices[i];
        }
    }
    Value *result = build_load(&b, merged_alias(m, access.memory, joins), indices);
    result->def->attrs = load->attrs;
    result->def->n_attrs = load->n_attrs;
    if (guard) {
        op_set_ints(func, result->def, ATTR_GUARD, rank, guards);
    }
    result->name = load->results[0]->name;
    func_replace_uses(func, load->results[0], result);
    op_remove(load);
}

static void merge_load(Op *op, void *user)
{
    Merges *m = user;
    int most = m->func->target->bulk_rank;
    const Value *memory = op->kind == OP_LOAD ? op->operands[0] : NULL;
    bool wide = memory && memory->type->kind == TYPE_TENSOR && memory->type->rank > most &&
                op->results[0]->type->rank == 2 && stage_may_bulk(m->func, m->launch, memory);
    const Param *param = wide ? &m->func->params.items[memory->index] : NULL;
    bool plain = param && !param->im2col && !param->alias && !param->collapsed && !param->axis_perm;
    unsigned joins = plain ? joined_axes(m->func, op, most) : 0;
    if (joins) {
        merge_axes(m, op, joins);
    }
}

void stage_merge_axes(Func *func, Op *launch)
{
    Merges merges = {.func = func, .launch = launch};
    if (func->target->has_bulk_copy) {
        block_walk(launch->regions[0], merge_load, &merges);
    }
}
