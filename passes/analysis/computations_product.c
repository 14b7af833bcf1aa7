/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes sums of products: which ops compute the sum, and which axes are m, n and k. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

/* The types in which matrix instructions add. */
static bool is_summed_type(DType dtype)
{
    return dtype == DT_F32 || dtype == DT_I32 || dtype == DT_U32;
}

/* True if products may be below the sums: what else is summed is not looked into. */
static bool may_sum_products(const Func *func, const Op *op)
{
    bool sum = op_is_sum(op) && value_has_uses(func, op->results[0]);
    while (sum && op && op->kind != OP_MUL) {
        bool passed = op_is_sum(op) || op->kind == OP_SELECT || op_moves_axes(op);
        op = passed ? op->operands[op->kind == OP_SELECT]->def : NULL;
        sum = op && value_count_uses(func, op->results[0]) == 1;
    }
    return sum && op && is_summed_type(op->results[0]->type->dtype);
}

const Compute *computations_product(Computations *all, const Op *op)
{
    if (!may_sum_products(all->space.func, op)) {
        return NULL;
    }
    const Compute *compute = computations_of(all, op);
    return compute->is_product && compute->term.value->def->kind == OP_MUL ? compute : NULL;
}

int compute_term_axis(const Compute *compute, const Axis *axis)
{
    int found = -1;
    for (int i = 0; i < compute->term.value->type->rank; i++) {
        if (map_as_axis(compute->term.at[i]) == axis) {
            found = found < 0 ? i : -2;
        }
    }
    return found < 0 ? -1 : found;
}

unsigned compute_axes_of(const Compute *compute, const Affine *map)
{
    unsigned axes = 0;
    for (int i = 0; i < compute->term.value->type->rank; i++) {
        const Axis *axis = map_as_axis(compute->term.at[i]);
        axes |= axis && map_depends_on(map, axis) ? 1u << i : 0;
    }
    return axes;
}

bool compute_term_axes(const Compute *compute, TermAxes *axes)
{
    *axes = (TermAxes){0};
    for (size_t i = 0; i < compute->axes.n; i++) {
        const ComputeAxis *own = &compute->axes.items[i];
        int at = compute_term_axis(compute, own->axis);
        if (at < 0) {
            return false;
        }
        *(own->role == ROLE_REDUCED ? &axes->summed : &axes->kept) |= 1u << at;
        axes->factors[0] |= own->factors & 1 ? 1u << at : 0;
        axes->factors[1] |= own->factors & 2 ? 1u << at : 0;
    }
    return true;
}

bool compute_masks_products(const Compute *compute)
{
    for (size_t i = 0; i < compute->where.n; i++) {
        if (!compute->where.items[i].factors) {
            return true;
        }
    }
    return false;
}

bool compute_has_select(const Compute *compute, const Op *select)
{
    for (size_t i = 0; i < compute->where.n; i++) {
        if (compute->where.items[i].select == select) {
            return true;
        }
    }
    return false;
}

bool compute_product_axes(const Compute *compute, ProductAxes *axes)
{
    *axes = (ProductAxes){0};
    if (!compute->is_product || compute->axes.n > 64) {
        return false;
    }
    for (size_t i = 0; i < compute->axes.n; i++) {
        const ComputeAxis *own = &compute->axes.items[i];
        bool reduced = own->role == ROLE_REDUCED;
        uint64_t *set = &axes->none;
        switch (own->factors) {
        case 1: set = reduced ? &axes->summed[0] : &axes->m; break;
        case 2: set = reduced ? &axes->summed[1] : &axes->n; break;
        case 3: set = reduced ? &axes->k : &axes->batch; break;
        default: break;
        }
        *set |= (uint64_t)1 << i;
    }
    return true;
}
