/* SPDX-License-Identifier: Apache-2.0 */
/* Removes intermediates that are also stored as a result: later launches read the result instead.
 *
 *   store %scratch[:, :], %n               store %y[:, :], %n
 *   store %y[:, :], %n                →    …
 *   … load %scratch[:, :]                  … load %y[:, :]
 *
 * The result's tensor must be contiguous and written by this one store, and both tensors must have
 * the same extents and element type. Changes no values. */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"

/* The only op of the function that writes the memory, if it stores all of it in a launch's own
 * block; NULL: there is none. */
static Op *only_store(const Func *func, const Value *memory)
{
    Op *store = NULL;
    const Block *all = func->body;
    for (const ValueUse *use = use_first(memory, all); use; use = use_next(use, all)) {
        if (!op_writes(use->op, memory)) {
            continue;
        }
        const Op *launch = use->op->parent->parent;
        bool whole = use->op->kind == OP_STORE && op_accesses_whole(use->op) && launch &&
                     launch->kind == OP_PARALLEL && launch->parent == func->body;
        if (store || !whole) {
            return NULL;
        }
        store = use->op;
    }
    return store;
}

static bool has_views(const Func *func, const Value *memory)
{
    bool found = false;
    for (size_t i = 0; i < func->params.n && !found; i++) {
        const Value *other = func->params.items[i].value;
        found = other != memory && func_memory_of(func, other) == memory;
    }
    return found;
}

/* True if nothing else shows the tensor's elements, and its axes lie in their order. */
static bool is_plain(const Func *func, const Value *memory)
{
    const Param *param = &func->params.items[memory->index];
    return memory->type->kind == TYPE_TENSOR && !param->axis_perm && !param->alias &&
           !param->im2col && !has_views(func, memory);
}

/* True if the copy engine can walk rows that lie side by side: then the rows of an intermediate
 * that were to begin at such places (func_pitched_scratch) can be those of a result. */
static bool has_aligned_rows(Type tensor)
{
    enum { ROW_BYTES = 16 };
    int64_t elements = tensor->rank ? poly_divisor(tensor->dims[tensor->rank - 1]) : 0;
    return elements * dtype_bytes(tensor->dtype) % ROW_BYTES == 0;
}

static bool same_extents(Type a, Type b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->align == b->align;
    for (int i = 0; same && i < a->rank; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

/* The result that the intermediate's store stores, too, in the same launch; NULL: there is none. */
static Value *result_with(const Func *func, const Op *store)
{
    const Value *scratch = store->operands[0], *value = store->operands[store->n_operands - 1];
    const Block *own = store->parent;
    for (const ValueUse *use = use_first(value, own); use; use = use_next(use, own)) {
        const Op *other = use->op;
        if (other->kind != OP_STORE || other->parent != own ||
            other->operands[other->n_operands - 1] != value) {
            continue;
        }
        Value *result = other->operands[0];
        bool plain = func->params.items[result->index].io == PARAM_OUT && is_plain(func, result) &&
                     !result->type->strides && same_extents(result->type, scratch->type);
        if (plain && only_store(func, result) == other &&
            (!scratch->type->strides || has_aligned_rows(result->type))) {
            return result;
        }
    }
    return NULL;
}

void fuse_read_results(Func *func)
{
    for (size_t i = 0; i < func->params.n; i++) {
        Value *scratch = func->params.items[i].value;
        bool own = func->params.items[i].io == PARAM_SCRATCH && is_plain(func, scratch);
        Op *store = own ? only_store(func, scratch) : NULL;
        Value *result = store ? result_with(func, store) : NULL;
        if (result) {
            func->params.items[result->index].separate_reason =
                func->params.items[i].separate_reason;
            op_remove(store);
            func_replace_uses(func, scratch, result);
        }
    }
}
