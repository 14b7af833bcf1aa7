/* SPDX-License-Identifier: Apache-2.0 */
/* Lets gathers that read an axis by groups, H * g + h, read an alias of the input whose axes are
 * the groups and the elements of a group. Such gathers iterate over whole axes, so gather_to_load
 * turns them into loads. */
#include "passes/tensor/split_reads.h"

#include "ir/nominal_sizes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/computations.h"
#include "passes/tensor/reindex.h"

bool split_can_alias(const Func *func, const Value *tensor)
{
    const Param *param = &func->params.items[tensor->index];
    bool whole = param->alias && param->alias->type == tensor->type; /* and its axes */
    return (param_has_memory(param) || whole) && !param->axis_perm && !param->collapsed &&
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
    int64_t base;
    if (!map_is_sum(map) || map->n != 2 || !poly_is_const(map->base, &base) || base) {
        return false;
    }
    bool last = poly_is_number(map->terms[1].coef, 1);
    *inner = axis_of(result, map->terms[last].axis);
    *outer = axis_of(result, map->terms[!last].axis);
    Dim width = map->terms[!last].coef;
    return *inner >= 0 && *outer >= 0 && poly_is_number(map->terms[last].coef, 1) &&
           !poly_is_number(width, 1) && dims[*inner] == width &&
           dim_is_product(reads->func, whole, dims[*outer], width);
}

static Value *alias_of(Reads *reads, const Value *tensor, Type type)
{
    for (int i = 0; i < reads->aliases.n; i++) {
        Value *alias = reads->aliases.items[i];
        bool same = func_memory_of(reads->func, alias) == func_memory_of(reads->func, tensor);
        if (same && alias->type == type) {
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
        indices[rank] = gather->operands[1 + i];
        if (splits) {
            indices[rank] = build_places(&b, outer, to);
        } else if (whole) {
            indices[rank] = build_places(&b, own, to);
        }
        rank++;
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

/* The order of the value's axes in an alias of the result that the scatter writes by groups; its
 * rank; 0: it writes otherwise. */
static int groups_written(const Reads *reads, const Op *scatter, int64_t *order)
{
    const Value *tensor = scatter->operands[0];
    Instance value = computations_own(reads->all, op_moved_value(scatter));
    Type type = value.value->type;
    unsigned seen = 0;
    int rank = 0;
    for (int i = 0; i < tensor->type->rank && rank + 2 <= TENSOR_RANK; i++) {
        Dim extent = tensor->type->dims[i];
        const Affine *map = computations_map(reads->all, scatter->operands[1 + i], value.at);
        int outer, inner, own = axis_of(&value, map_as_axis(map));
        if (counts_groups(reads, &value, map, extent, &outer, &inner)) {
            order[rank++] = outer;
            order[rank++] = inner;
            seen |= 1u << outer | 1u << inner;
        } else if (own >= 0 && type->dims[own] == extent) {
            order[rank++] = own;
            seen |= 1u << own;
        } else {
            return 0;
        }
    }
    bool all = rank == type->rank && rank > tensor->type->rank && seen == (1u << rank) - 1;
    return all ? rank : 0;
}

/* Is it the only access of a result, and sets elements of it? */
static bool sets_result(const Func *func, const Op *op)
{
    const Value *tensor = op->kind == OP_SCATTER ? op->operands[0] : NULL;
    return tensor && tensor->type->kind == TYPE_TENSOR && op->n_results == 0 &&
           text_equal(op_word(op, ATTR_FN), "set") && op->n_operands == 2 + tensor->type->rank &&
           func->params.items[tensor->index].io == PARAM_OUT && split_can_alias(func, tensor) &&
           value_count_uses(func, tensor) == 1;
}

bool split_write(Func *func, Op *scatter)
{
    Reads reads = {.func = func, .all = computations_open(func)};
    int64_t order[MAX_RANK];
    int rank = sets_result(func, scatter) ? groups_written(&reads, scatter, order) : 0;
    computations_close(reads.all);
    if (!rank) {
        return false;
    }
    Value *value = op_moved_value(scatter), *tensor = scatter->operands[0];
    Builder b = build_before(func, scatter);
    b.span = scatter->span;
    value = build_permute(&b, value, order);
    Type type = split_type(func, tensor, rank, value->type->dims);
    build_store(&b, func_split_alias(func, tensor, type), WHOLE, value);
    op_remove(scatter);
    return true;
}

/* The gather's elements computed at its places, where nothing else reads the array that it reads
 * and where each element is asked for once; NULL: that cannot be said with gathers. */
static Value *computed_there(Func *func, Op *gather)
{
    Value *from = gather->operands[0], *all = gather->results[0];
    Type type = all->type;
    Reindex r = {.b = build_before(func, gather),
                 .all = computations_open(func),
                 .varies = an_varies_all(func),
                 .rank = type->rank};
    Instance places = {.value = all}, of = {.value = from};
    r.b.span = gather->span;
    for (int i = 0; i < r.rank; i++) {
        r.dims[i] = type->dims[i];
        r.axes[i] = axis_new(&r.all->space, r.dims[i], NULL);
        places.at[i] = map_axis(&r.all->space, r.axes[i]);
    }
    bool known = true;
    for (int i = 0; i < from->type->rank; i++) {
        of.at[i] = computations_map(r.all, gather->operands[1 + i], places.at);
        known = known && of.at[i];
    }
    Spread there = known ? reindex_instance(&r, &of) : (Spread){NULL, 0};
    computations_close(r.all);
    memo_close(r.varies);
    r.rank = type->rank; /* the axes of reductions are no more of it */
    return there.value ? reindex_spread(&r, there, (1u << r.rank) - 1) : NULL;
}

static double elements(Type type)
{
    double n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= (double)poly_nominal(type->dims[i]);
    }
    return n;
}

static bool checks_indices(const Op *gather)
{
    bool checks = false;
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        checks = checks || op_is_guarded(gather, i);
    }
    return checks;
}

static bool asks_once(const Func *func, const Op *op)
{
    const Value *from = op->kind == OP_GATHER ? op->operands[0] : NULL;
    return from && from->type->kind == TYPE_ARRAY && !checks_indices(op) &&
           value_count_uses(func, from) == 1 &&
           elements(op->results[0]->type) <= elements(from->type);
}

/* Arrays that only a view reads are computed at the places of the view. */
static void compute_views(Func *func)
{
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        Value *there = asks_once(func, op) ? computed_there(func, op) : NULL;
        if (there) {
            there->name = op->results[0]->name;
            func_replace_uses(func, op->results[0], there);
            op_remove(op);
        }
    }
    func_remove_dead(func);
}

/* True for inputs, and for what is stored whole before everything that reads it. */
static bool is_read_only(const Func *func, const Value *memory)
{
    ParamIo io = func->params.items[memory->index].io;
    return io == PARAM_IN || io == PARAM_SCRATCH;
}

void split_reads(Func *func)
{
    compute_views(func);
    Reads reads = {.func = func, .all = computations_open(func)};
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        const Value *memory = op->kind == OP_GATHER ? op->operands[0] : NULL;
        if (memory && memory->type->kind == TYPE_TENSOR && split_can_alias(func, memory) &&
            is_read_only(func, memory)) {
            read_groups(&reads, op);
        }
    }
    computations_close(reads.all);
}
