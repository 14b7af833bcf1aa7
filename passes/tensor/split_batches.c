/* SPDX-License-Identifier: Apache-2.0 */
/* split_batches: computes batched dots over the batch axes that a reshape of their result has.
 *
 *   in %q: tensor<f32[B * H, S, D]>              in %split2: tensor<f32[B, H, S, D]> alias %q
 *   %s = dot %q, %k : f32[B * H, S, L]           %s = dot %q, %k : f32[B, H, S, L]
 *   %t = mul %s, %c                       →      %t = mul %s, %c
 *   %v = gather %t[H * %b + %h, %i, %j]          … %t
 *   … %v
 *
 * Library calls multiply with a single batch axis, while the ops between two dots, such as the mask
 * and the softmax of attention, have separate axes for batches and heads. Each reshape in between
 * is a gather, which hides the dot and its axes from other passes, so every dot would become a
 * launch of its own. This pass rebuilds the dot over the axes of the gather, also through the
 * reshapes of its operands, if nothing else needs it; inputs are read through aliases with these
 * axes. Requires the tensor level, dots, and inputs that are contiguous. Changes no bits. */
#include "passes/tensor/split_reads.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/index_bounds.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

/* The product of batches that the value is made of element by element; nothing else needs it.
 * NULL: there is none. */
static const Op *product_of(const Func *func, const Value *value)
{
    const Op *op = value->def;
    while (op && value_count_uses(func, value) == 1 && op->kind != OP_DOT) {
        bool follows = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
        const Value *next = NULL;
        for (int i = 0; follows && i < op->n_operands; i++) {
            bool number = value_const(value_unstretched(op->operands[i])) != NULL;
            follows = number || !next;
            next = number ? next : op->operands[i];
        }
        value = follows && next ? next : value;
        op = follows && next ? next->def : NULL;
    }
    bool found = op && op->kind == OP_DOT && op->n_operands == 2 &&
                 op->results[0]->type->rank > 2 && value_count_uses(func, op->results[0]) == 1;
    return found ? op : NULL;
}

/* Can inputs that the value is made of be read along other axes? */
static bool reads_plainly(const Func *func, Memo *seen, const Value *value)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return true;
    }
    if (op->kind == OP_LOAD) {
        return split_can_alias(func, op->operands[0]);
    }
    bool plain = true;
    bool follows = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; follows && i < op->n_operands && plain; i++) {
        plain = reads_plainly(func, seen, op->operands[i]);
    }
    return plain;
}

static bool reads_operands_plainly(Func *func, const Op *dot)
{
    Memo *seen = memo_open(func);
    bool plain = reads_plainly(func, seen, dot->operands[0]) &&
                 reads_plainly(func, seen, dot->operands[1]);
    memo_close(seen);
    return plain;
}

/* An axis of the gather, and what the space has for it: one axis, or, where the indices need its
 * quotient and its remainder alone, two. */
typedef struct GatherAxis {
    int first, second; /* of the space; -1: there is no second one */
    int64_t by;        /* of the quotient */
} GatherAxis;

/* The number by which the indices divide the places along an axis of which they need nothing else;
 * 0: there is none. */
static int64_t divisor_of(int n, const Affine *const *maps, const Axis *place, Dim extent)
{
    int64_t by = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; maps[i] && k < maps[i]->n; k++) {
            const Axis *axis = maps[i]->terms[k].axis;
            bool derived = axis->of && map_as_axis(axis->of) == place;
            int64_t here;
            if (axis == place || (axis->of && !derived && map_depends_on(axis->of, place)) ||
                (derived && (!poly_is_const(axis->by, &here) || (by && here != by)))) {
                return 0;
            }
            by = derived ? here : by;
        }
    }
    return by > 1 && poly_divisor(extent) % by == 0 ? by : 0;
}

/* The maps of the gather's indices at these places. */
static void index_maps(Reindex *r, const Op *gather, const Affine *const *places,
                       const Affine **maps)
{
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        maps[i] = computations_map(r->all, gather->operands[1 + i], places);
    }
}

static int add_axis(Reindex *r, Dim extent)
{
    r->dims[r->rank] = extent;
    r->axes[r->rank] = axis_new(&r->all->space, extent, NULL);
    return r->rank++;
}

/* The place along the gather's axis over the space, to which its axes are added. */
static const Affine *split_place(Reindex *r, Dim extent, GatherAxis *axis)
{
    AxisSpace *space = &r->all->space;
    Dim by = poly_const(r->b.func, axis->by);
    Dim outer = axis->by ? an_exact_quotient(r->b.func, extent, by) : NULL;
    axis->first = add_axis(r, outer ? outer : extent);
    axis->second = outer ? add_axis(r, by) : -1;
    const Affine *place = map_axis(space, r->axes[axis->first]);
    return outer ? map_add(space, map_scale(space, place, by),
                           map_axis(space, r->axes[axis->second]))
                 : place;
}

/* Orders the axes of the space as the elements have them, so that the product's operands and its
 * result are not permuted. */
static void order_space(Reindex *r, const Instance *elements, int n_axes, GatherAxis *axes)
{
    int at[MAX_RANK], n = 0;
    const Axis *old[MAX_RANK];
    Dim dims[MAX_RANK];
    for (int i = 0; i < r->rank; i++) {
        old[i] = r->axes[i];
        dims[i] = r->dims[i];
        at[i] = -1;
    }
    for (int i = 0; i <= elements->value->type->rank; i++) { /* what has no place comes last */
        const Affine *map = i < elements->value->type->rank ? elements->at[i] : NULL;
        for (int k = 0; k < r->rank; k++) {
            bool here = i == elements->value->type->rank || (map && map_term(map, old[k]));
            if (here && at[k] < 0) {
                r->axes[n] = old[k];
                r->dims[n] = dims[k];
                at[k] = n++;
            }
        }
    }
    for (int i = 0; i < n_axes; i++) {
        axes[i].first = at[axes[i].first];
        axes[i].second = axes[i].second < 0 ? -1 : at[axes[i].second];
    }
}

/* The elements of the gathered array over the axes of the gather's result. */
static Instance gathered_elements(Reindex *r, const Op *gather, GatherAxis *axes)
{
    Type type = gather->results[0]->type;
    Instance at = {.value = gather->operands[0]};
    const Axis *whole[MAX_RANK];
    const Affine *places[MAX_RANK] = {NULL}, *maps[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        whole[i] = axis_new(&r->all->space, type->dims[i], NULL);
        places[i] = map_axis(&r->all->space, whole[i]);
    }
    index_maps(r, gather, places, maps);
    for (int i = 0; i < type->rank; i++) {
        axes[i].by = divisor_of(at.value->type->rank, maps, whole[i], type->dims[i]);
        places[i] = split_place(r, type->dims[i], &axes[i]);
    }
    index_maps(r, gather, places, at.at);
    order_space(r, &at, type->rank, axes);
    return at;
}

/* Are the elements' axes other than places along axes of the gather: is one of them split? */
static bool splits_axis(const Instance *of)
{
    bool splits = false;
    for (int i = 0; i < of->value->type->rank; i++) {
        if (!of->at[i]) {
            return false;
        }
        splits = splits || (of->at[i]->n > 1 && map_is_sum(of->at[i]));
    }
    return splits;
}

/* The value over the space's axes as one over the gather's. */
static Value *merged(Builder *b, Value *value, Type type, const GatherAxis *axes)
{
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK] = {0}, perm[MAX_RANK];
    bool merges = false;
    for (int i = 0; i < type->rank; i++) {
        Value *place = build_places(b, i, type);
        indices[axes[i].first] = place;
        perm[i] = axes[i].first;
        if (axes[i].second >= 0) {
            Value *by = build_int(b, place->type, axes[i].by);
            indices[axes[i].first] = build_binary(b, OP_DIV, place, by);
            indices[axes[i].second] = build_binary(b, OP_MOD, place, by);
            merges = true;
        }
    }
    if (!merges) {
        return build_permute(b, value, perm);
    }
    Value *made = build_gather(b, value, indices);
    op_set_ints(b->func, made->def, ATTR_GUARD, value->type->rank, guards);
    return made;
}

static bool split_gather(Func *func, Op *gather)
{
    const Op *dot = gather->operands[0]->type->kind == TYPE_ARRAY && gather_stays_inside(gather)
                        ? product_of(func, gather->operands[0])
                        : NULL;
    Type type = gather->results[0]->type;
    if (!dot || 2 * type->rank + 1 > MAX_RANK || !reads_operands_plainly(func, dot)) {
        return false;
    }
    Reindex r = {.b = build_before(func, gather),
                 .all = computations_open(func),
                 .varies = an_varies_all(func),
                 .products = true};
    GatherAxis axes[MAX_RANK];
    r.b.span = gather->span;
    Instance elements = gathered_elements(&r, gather, axes);
    int rank = r.rank;
    Spread split = splits_axis(&elements) ? reindex_instance(&r, &elements) : (Spread){NULL, 0};
    computations_close(r.all);
    memo_close(r.varies);
    if (!split.value || split.axes >> rank) {
        return false;
    }
    Value *value = merged(&r.b, reindex_spread(&r, split, (1u << rank) - 1), type, axes);
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
    return true;
}

void pass_split_batches(Func *func)
{
    bool any = false;
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        any = (op->kind == OP_GATHER && split_gather(func, op)) || any;
    }
    func_remove_dead(func);
    if (any) {
        split_reads(func);
        pass_gather_to_load(func);
        pass_simplify(func);
    }
}
