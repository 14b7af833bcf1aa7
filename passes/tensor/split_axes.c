/* SPDX-License-Identifier: Apache-2.0 */
/* split_axes: splits an axis of a result that is computed by groups into groups and their elements.
 *
 *   in %x: tensor<f32[M, 128*G]>             in %x: tensor<f32[M, 128*G]>
 *   out %y: tensor<f32[M, 128*G]>            out %y: tensor<f32[M, 128*G]>
 *   %g = gather %x[%m, %g * 128 + %j]        in %split2: tensor<f32[M, G, 128]> alias %x
 *   %s = reduce %g axis=2             →      out %split3: tensor<f32[M, G, 128]> alias %y
 *   %t = gather %s[%m, %k // 128]            %g = load %split2[:, :, :]
 *   %v = div %x, %t                          %s = reduce %g axis=2
 *   store %y[:, :], %v                       %v = div %g, %s
 *                                            store %split3[:, :, :], %v
 *
 * A reshape and the index arithmetic of groups are quotients and remainders of the places along an
 * axis. Such a result and what its groups come to have different axes, so that each would be a
 * launch of its own that reads the input again. The result is computed over the groups and the
 * places in a group instead, and stored through an alias of the tensor that has these axes; inputs
 * that are read by groups are read through such aliases, too. An axis is split where it holds whole
 * groups for all sizes and no quotient or remainder of it is left then. Requires the tensor level,
 * tensors that are contiguous, and a program without products, whose axes `raise_to_dot` and
 * `collapse_axes` look for in the order of the source. Changes no bits. */
#include "passes/tensor/split_reads.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/index_bounds.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include <string.h>

/* ---- what is split ---- */

/* How the elements of a value depend on the places along one axis of it. */
typedef struct Search {
    Func *func;
    Computations *all;
    Memo *seen;
    int64_t by;  /* a quotient or a remainder of the place by this; 0: there is none */
    Dim groups;  /* the extent of an array that is read at such a quotient; NULL: none is */
    bool varies; /* a quotient or a remainder depends on the place */
    bool reduces;
} Search;

static void search(Search *s, const Value *value, int at);

/* An index of a gather whose map depends on the places along an axis. */
static void search_index(Search *s, const Affine *map, Dim extent, const Axis *place)
{
    for (int i = 0; i < map->n; i++) {
        const Axis *axis = map->terms[i].axis;
        int64_t by;
        s->varies = s->varies || (axis->of && map_depends_on(axis->of, place));
        if (axis->of && map_as_axis(axis->of) == place && poly_is_const(axis->by, &by) &&
            (!s->by || s->by == by)) {
            s->by = by;
            s->groups = axis->make == AXIS_OUTER && map_as_axis(map) ? extent : s->groups;
        }
    }
}

static void search_gather(Search *s, const Op *op, int at)
{
    Value *from = op->operands[0];
    Instance own = computations_own(s->all, op->results[0]);
    const Axis *place = at < MAX_RANK ? map_as_axis(own.at[at]) : NULL;
    for (int i = 0; i < from->type->rank; i++) {
        const Value *index = op->operands[1 + i];
        const Affine *map = computations_map(s->all, index, own.at);
        if (!map && index->type->rank) {
            search(s, index, at);
        } else if (map && place) {
            search_index(s, map, from->type->dims[i], place);
            if (from->type->kind == TYPE_ARRAY && map_as_axis(map) == place) {
                search(s, from, i);
            }
        }
    }
    if (from->type->kind == TYPE_ARRAY) {
        search(s, from, MAX_RANK);
    }
}

/* `at`: the axis of the value; MAX_RANK: none of its axes. */
static void search(Search *s, const Value *value, int at)
{
    const Op *op = value->def;
    int64_t known;
    if (!op || memo_known(s->seen, value, at, &known)) {
        return;
    }
    memo_keep(s->seen, value, at, 1);
    s->reduces = s->reduces || op->kind == OP_REDUCE;
    if (op->kind == OP_GATHER) {
        search_gather(s, op, at);
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        if (!operand || operand->type->kind != TYPE_ARRAY) {
            continue;
        }
        int below = at;
        if (op_moves_axes(op) && at < MAX_RANK) {
            below = op_operand_axis(op, i, at);
        } else if (op->kind == OP_REDUCE) {
            below = op_int(op, ATTR_AXIS, 0) == at ? -1 : at;
        }
        search(s, operand, below >= 0 ? below : MAX_RANK);
    }
}

static Search search_all(Func *func, const Value *value, int at)
{
    Search s = {.func = func, .all = computations_open(func), .seen = memo_open(func)};
    search(&s, value, at);
    memo_close(s.seen);
    computations_close(s.all);
    return s;
}

/* The number of groups of `by` elements along an axis; NULL: the last one may be a part. `hint`: an
 * extent that may be it, or NULL. */
static Dim groups_of(Func *func, Dim whole, int64_t by, Dim hint)
{
    if (hint && dim_is_split(func, whole, hint, by)) {
        return hint;
    }
    Dim exact = an_exact_quotient(func, whole, poly_const(func, by));
    if (exact) {
        return exact;
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        Dim size = poly_var(func, func->dimvars.items[i]);
        if (dim_is_split(func, whole, size, by)) {
            return size;
        }
    }
    return poly_divisor(whole) % by == 0 ? poly_var(func, func_own_quotient(func, NULL, whole, by))
                                         : NULL;
}

/* ---- results ---- */

/* The value with the axis as `groups` times `by`; NULL: it cannot be said so. */
static Value *split_value(Func *func, Op *store, Value *value, int axis, Dim groups, int64_t by)
{
    Reindex r = {.b = build_before(func, store),
                 .all = computations_open(func),
                 .varies = an_varies_all(func),
                 .reduces = true,
                 .rank = value->type->rank + 1};
    AxisSpace *space = &r.all->space;
    Instance all = {.value = value};
    r.b.span = store->span;
    for (int i = 0; i < r.rank; i++) {
        Dim dim = value->type->dims[i - (i > axis)];
        r.dims[i] = i == axis ? groups : i == axis + 1 ? poly_const(func, by) : dim;
        r.axes[i] = axis_new(space, r.dims[i], NULL);
        all.at[i - (i > axis)] = map_axis(space, r.axes[i]);
    }
    const Affine *group = map_axis(space, r.axes[axis]);
    all.at[axis] = map_add(space, map_scale(space, group, r.dims[axis + 1]), all.at[axis]);
    Spread split = all.at[axis] ? reindex_instance(&r, &all) : (Spread){NULL, 0};
    computations_close(r.all);
    memo_close(r.varies);
    r.rank = value->type->rank + 1;
    return split.value ? reindex_spread(&r, split, (1u << r.rank) - 1) : NULL;
}

/* The value with one more axis, where one of its axes is walked by groups; NULL: none is. */
static Value *split_once(Func *func, Op *store, Value *value)
{
    for (int axis = 0; axis < value->type->rank && value->type->rank < MAX_RANK - 1; axis++) {
        Search found = search_all(func, value, axis);
        if (found.by < 2 || !found.reduces) {
            continue;
        }
        Dim groups = groups_of(func, value->type->dims[axis], found.by, found.groups);
        Value *split = groups ? split_value(func, store, value, axis, groups, found.by) : NULL;
        if (split && !search_all(func, split, axis).varies &&
            !search_all(func, split, axis + 1).varies) {
            return split;
        }
    }
    return NULL;
}

static bool split_store(Func *func, Op *store)
{
    Value *tensor = store->operands[0], *value = store->operands[store->n_operands - 1];
    Value *split = value, *more;
    while ((more = split_once(func, store, split))) {
        split = more;
    }
    if (split == value) {
        return false;
    }
    split->name = value->name;
    Type type = split->type;
    Builder b = build_before(func, store);
    b.span = store->span;
    type = split_type(func, tensor, type->rank, type->dims);
    build_store(&b, func_split_alias(func, tensor, type), WHOLE, split);
    op_remove(store);
    return true;
}

/* The only access of a result, to all of it. */
static bool stores_result(Func *func, const Op *op)
{
    bool whole = op->kind == OP_STORE && op->operands[0]->type->kind == TYPE_TENSOR &&
                 func->params.items[op->operands[0]->index].io == PARAM_OUT &&
                 split_can_alias(func, op->operands[0]) && op->n_attrs == 0 &&
                 op_accesses_whole(op);
    if (!whole) {
        return false;
    }
    const ValueUse *use = use_first(op->operands[0], func->body);
    return use->op == op && !use_next(use, func->body);
}

/* ---- the program ---- */

typedef struct Products {
    Memo *varies;
    bool any;
} Products;

/* A dot, or a sum of products of factors of which each varies along an axis that the other does not
 * vary along. */
static void find_product(Op *op, void *user)
{
    Products *products = user;
    products->any = products->any || op->kind == OP_DOT;
    const Op *mul = op->kind == OP_REDUCE ? op->operands[0]->def : NULL;
    while (mul && (mul->kind == OP_CAST || mul->kind == OP_SELECT || op_moves_axes(mul) ||
                   mul->kind == OP_REDUCE)) {
        mul = mul->operands[mul->kind == OP_SELECT]->def;
    }
    if (mul && mul->kind == OP_MUL) {
        unsigned left = an_varies(products->varies, mul->operands[0]);
        unsigned right = an_varies(products->varies, mul->operands[1]);
        products->any = products->any || ((left & ~right) && (right & ~left));
    }
}

static void find_quotient(Op *op, void *user)
{
    bool quotient =
        (op->kind == OP_DIV || op->kind == OP_MOD) && !dtype_is_float(op->results[0]->type->dtype);
    *(bool *)user = *(bool *)user || quotient;
}

static bool may_have_groups(Func *func)
{
    bool quotients = false;
    func_walk(func, find_quotient, &quotients);
    if (!quotients) {
        return false;
    }
    Products products = {an_varies_all(func), false};
    func_walk(func, find_product, &products);
    memo_close(products.varies);
    return !products.any;
}

void pass_split_axes(Func *func)
{
    if (!may_have_groups(func)) {
        return;
    }
    bool any = false;
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        any = (stores_result(func, op) && split_store(func, op)) || any;
    }
    func_remove_dead(func);
    if (any) { /* what is the same by now is computed once */
        split_reads(func);
        pass_gather_to_load(func);
        pass_simplify(func);
    }
}
