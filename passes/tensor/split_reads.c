/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of inputs by groups of an axis, H * g + h, through aliases whose axes are the groups and
 * the places in a group: gathers of whole axes then, which gather_to_load makes loads of. */
#include "passes/tensor/split_reads.h"

#include "passes/analysis/computations.h"

bool split_can_alias(const Func *func, const Value *tensor)
{
    const Param *param = &func->params.items[tensor->index];
    return param_is_callers(param) && !param->axis_perm && !param->collapsed &&
           !tensor->type->strides && !dtype_is_packed(tensor->type->dtype);
}

Type split_type(Func *func, const Value *tensor, int rank, const Dim *dims)
{
    Type type = type_tensor(func, tensor->type->dtype, rank, dims);
    return type_with_strides(func, type, NULL, tensor->type->align);
}

/* An input that is read by groups, and its alias. */
typedef struct Reads {
    Func *func;
    Computations *all;
    struct {
        Value *items[64];
        int n;
    } aliases;
} Reads;

/* The axis of these elements that the map is the place along; -1: it is another map. */
static int axis_of(const Instance *of, const Axis *axis)
{
    for (int i = 0; axis && i < of->value->type->rank; i++) {
        if (map_as_axis(of->at[i]) == axis) {
            return i;
        }
    }
    return -1;
}

/* The axes of the result along which an index counts groups and the places in a group. */
static bool counts_groups(const Reads *reads, const Instance *result, const Affine *map, Dim whole,
                          int *outer, int *inner)
{
    const Dim *dims = result->value->type->dims;
    int64_t base, width, extent;
    if (!map_is_sum(map) || map->n != 2 || !poly_is_const(map->base, &base) || base) {
        return false;
    }
    bool last = poly_is_number(map->terms[1].coef, 1);
    *inner = axis_of(result, map->terms[last].axis);
    *outer = axis_of(result, map->terms[!last].axis);
    return *inner >= 0 && *outer >= 0 && poly_is_number(map->terms[last].coef, 1) &&
           poly_is_const(map->terms[!last].coef, &width) && width > 1 &&
           poly_is_const(dims[*inner], &extent) && extent == width &&
           dim_is_split(reads->func, whole, dims[*outer], extent);
}

static Value *alias_of(Reads *reads, const Value *tensor, Type type)
{
    for (int i = 0; i < reads->aliases.n; i++) {
        Value *alias = reads->aliases.items[i];
        if (func_memory_of(reads->func, alias) == tensor && alias->type == type) {
            return alias;
        }
    }
    if (reads->aliases.n == 64) {
        return NULL;
    }
    return reads->aliases.items[reads->aliases.n++] = func_split_alias(reads->func, tensor, type);
}

/* Reads the groups of an input through an alias. */
static void read_groups(Reads *reads, Op *gather)
{
    Func *func = reads->func;
    Value *tensor = gather->operands[0], *indices[MAX_RANK];
    Type to = gather->results[0]->type;
    const Attr *guard = op_attr(gather, ATTR_GUARD), *other = op_attr(gather, ATTR_VALUE);
    int64_t guards[MAX_RANK];
    Dim dims[MAX_RANK];
    int rank = 0;
    Builder b = build_before(func, gather);
    b.span = gather->span;
    Instance result = computations_own(reads->all, gather->results[0]);
    for (int i = 0; i < tensor->type->rank; i++) {
        int outer, inner;
        if (rank + 2 > TENSOR_RANK) {
            return;
        }
        const Affine *map = computations_map(reads->all, gather->operands[1 + i], result.at);
        bool splits = counts_groups(reads, &result, map, tensor->type->dims[i], &outer, &inner);
        int own = axis_of(&result, map_as_axis(map));
        bool whole = own >= 0 && to->dims[own] == tensor->type->dims[i];
        guards[rank] = !splits && !whole && (!guard || guard->ints[i]);
        dims[rank] = splits ? to->dims[outer] : tensor->type->dims[i];
        indices[rank++] = splits  ? build_places(&b, outer, to)
                          : whole ? build_places(&b, own, to)
                                  : gather->operands[1 + i];
        if (splits) {
            guards[rank] = 0;
            dims[rank] = to->dims[inner];
            indices[rank++] = build_places(&b, inner, to);
        }
    }
    Value *alias = rank > tensor->type->rank
                       ? alias_of(reads, tensor, split_type(func, tensor, rank, dims))
                       : NULL;
    if (!alias) {
        return;
    }
    Value *value = build_gather(&b, alias, indices);
    value->name = gather->results[0]->name;
    op_set_num(func, value->def, ATTR_VALUE, other ? other->f : 0, other ? other->i : 0);
    op_set_ints(func, value->def, ATTR_GUARD, rank, guards);
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
}

void split_reads(Func *func)
{
    Reads reads = {.func = func, .all = computations_open(func)};
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        const Value *memory = op->kind == OP_GATHER ? op->operands[0] : NULL;
        if (memory && memory->type->kind == TYPE_TENSOR && split_can_alias(func, memory) &&
            func->params.items[memory->index].io == PARAM_IN) {
            read_groups(&reads, op);
        }
    }
    computations_close(reads.all);
}
