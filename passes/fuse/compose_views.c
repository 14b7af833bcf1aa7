/* SPDX-License-Identifier: Apache-2.0 */
/* compose_views: lets gathers from views read the underlying tensor or array directly.
 *
 *   %x0 = load %x[:, :] : f32[M, 4 * K]
 *   %t  = permute %x0 perm=[1, 0]
 *   %v  = gather %t[%c, %m] : f32[4, K, M]             %c = K * (the place along 4) + that along K
 *   %g  = gather %v[%h, %i, %j] guard=[0, 0, 1]
 *                                              →    %g = gather %x[%j, K * %h + %i] guard=[1, 0]
 *
 *   %a = gather %x[%i] : f32[N, 1, 4]              →    %b = gather %x[%i'] : f32[N, 4]
 *                                                       %a = expand %b axis=1
 *
 * A view is a chain of ops that move axes and of gathers whose indices are computed from
 * coordinates alone: a reshape, a permutation, a slice. Its source is an input, or an array that
 * nothing else reads, such as the phases of a transposed convolution whose groups are merged. Later
 * passes look for windows and dots in reads of tensors, and for one gather from a dot's result;
 * after this pass they find them in whatever way the program reshapes its arrays. Of two gathers
 * only one may check its indices; if it is the first, each of its indices must be an index of the
 * second, along an axis of the same extent. Requires the tensor level. Changes no bits. */
#include "passes/fuse/fuse_value_at.h"

#include "ir/op_axes.h"
#include "passes/analysis/index_bounds.h"
#include "passes/pass.h"

/* Where elements are read: at these indices of a value, each an array of the gather's shape or a
 * scalar. */
typedef struct Place {
    Value *from;
    Value *indices[MAX_RANK];
    bool checked[MAX_RANK];
    const Attr *outside; /* what is read there; NULL: 0 */
    bool alone;          /* nothing else reads the views so far */
    bool composed;       /* a gather is among them */
} Place;

/* ---- what is a view ---- */

/* True if the index is computed from places and numbers: it may be computed again elsewhere. */
static bool is_of_places(const Value *index)
{
    const Op *op = index->def;
    if (type_is_scalar(index->type) || (op && (op->kind == OP_IOTA || op->kind == OP_CONST))) {
        return true;
    }
    bool good = op && (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE));
    for (int i = 0; good && i < op->n_operands; i++) {
        good = is_of_places(op->operands[i]);
    }
    return good;
}

static bool is_view(const Op *op)
{
    bool good = op->kind == OP_GATHER;
    for (int i = 1; good && i < op->n_operands; i++) {
        good = is_of_places(op->operands[i]);
    }
    return good;
}

/* True if the memory holds a parameter that no launch writes. */
static bool is_input(const Func *func, const Value *memory)
{
    return memory->type->kind == TYPE_TENSOR && func->params.items[memory->index].io == PARAM_IN;
}

/* ---- from a value to what it is a view of ---- */

/* The indices that the gather checks, and what it reads outside. */
static void take_checks(Func *func, const Op *gather, Place *place)
{
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        place->checked[i] = !an_gather_inside(func, gather, i);
    }
    place->outside = op_attr(gather, ATTR_VALUE);
}

static bool any_checked(const Place *place)
{
    bool any = false;
    for (int i = 0; i < place->from->type->rank; i++) {
        any = any || place->checked[i];
    }
    return any;
}

/* Each checked index must be one of the new place, along an axis of the same extent. */
static bool checks_stay(const Place *old, Place *place)
{
    bool all = true;
    for (int i = 0; i < old->from->type->rank && all; i++) {
        bool found = !old->checked[i];
        for (int k = 0; k < place->from->type->rank; k++) {
            bool same = old->checked[i] && place->indices[k] == old->indices[i] &&
                        place->from->type->dims[k] == old->from->type->dims[i];
            place->checked[k] = place->checked[k] || same;
            found = found || same;
        }
        all = found;
    }
    return all;
}

static Place below(const Func *func, const Place *place)
{
    const Op *op = place->from->def;
    bool alone = place->alone && value_count_uses(func, place->from) == 1;
    return (Place){.from = op->operands[0],
                   .outside = place->outside,
                   .alone = alone,
                   .composed = place->composed || op->kind == OP_GATHER};
}

static bool go_below_moved_axes(Builder *b, Place *place)
{
    Place next = below(b->func, place);
    fuse_indices_below(place->from->def, place->indices, next.indices);
    for (int i = 0; i < next.from->type->rank; i++) {
        next.indices[i] = next.indices[i] ? next.indices[i] : build_i64(b, 0);
    }
    bool good = checks_stay(place, &next);
    *place = next;
    return good;
}

static bool go_below_gather(Builder *b, Type shape, Place *place)
{
    const Op *op = place->from->def;
    Place next = below(b->func, place);
    ValueAt p = fuse_value_at_begin(*b, shape, false);
    for (int i = 0; i < next.from->type->rank; i++) {
        Value *index = op->operands[i + 1];
        bool scalar = type_is_scalar(index->type);
        next.indices[i] = scalar ? index : fuse_value_at(&p, index, place->indices);
    }
    bool good = true;
    if (any_checked(place)) {
        good = !fuse_strays(b->func, op) && checks_stay(place, &next);
    } else {
        take_checks(b->func, op, &next);
    }
    *place = next;
    return good;
}

/* Follows views as far down as they go; false: nothing is won. */
static bool find_origin(Builder *b, Type shape, Place *place)
{
    const Value *old = place->from;
    while (place->from->type->kind == TYPE_ARRAY) {
        const Op *op = place->from->def;
        if (op && op->kind == OP_LOAD && op_accesses_whole(op) &&
            is_input(b->func, op->operands[0])) {
            place->from = op->operands[0];
            break;
        }
        bool moves = op && op_moves_axes(op);
        if (!moves && !(op && is_view(op))) {
            break;
        }
        if (!(moves ? go_below_moved_axes(b, place) : go_below_gather(b, shape, place))) {
            return false;
        }
    }
    bool varies = false, array = place->from->type->kind == TYPE_ARRAY;
    for (int i = 0; i < place->from->type->rank; i++) {
        varies = varies || !type_is_scalar(place->indices[i]->type);
    }
    bool won = array ? place->alone && place->composed : place->from != old;
    return varies && won && (array || is_input(b->func, place->from));
}

/* ---- axes of one element ---- */

static bool is_unit(Type type, int axis)
{
    return type->rank > 1 && poly_is_number(type->dims[axis], 1);
}

/* Is another index than that of the axis an array? Of scalars alone the gather would be one. */
static bool others_vary(const Place *place, int axis)
{
    bool vary = false;
    for (int i = 0; i < place->from->type->rank; i++) {
        vary = vary || (i != axis && !type_is_scalar(place->indices[i]->type));
    }
    return vary;
}

/* An array without its axes of one element, along which there is no choice. */
static bool squeeze_array(Builder *b, Place *place)
{
    bool any = false;
    for (int axis = place->from->type->rank; axis-- > 0;) {
        if (place->from->type->kind != TYPE_ARRAY || !is_unit(place->from->type, axis) ||
            place->checked[axis] || !others_vary(place, axis)) {
            continue;
        }
        place->from = build_squeeze(b, place->from, axis);
        for (int i = axis; i < place->from->type->rank; i++) {
            place->indices[i] = place->indices[i + 1];
            place->checked[i] = place->checked[i + 1];
        }
        any = true;
    }
    return any;
}

/* The indices of a gather along other axes of its result than those of one element. */
static bool squeeze_indices(Builder *b, Place *place, Type type)
{
    bool any = false;
    int rank = type->rank;
    for (int axis = type->rank; axis-- > 0 && rank > 1;) {
        if (!is_unit(type, axis)) {
            continue;
        }
        for (int i = 0; i < place->from->type->rank; i++) {
            Value *index = place->indices[i];
            place->indices[i] = type_is_scalar(index->type) ? index : build_squeeze(b, index, axis);
        }
        any = true;
        rank--;
    }
    return any;
}

/* ---- gathers ---- */

/* A gather at the place, along all axes of the type. */
static Value *gather_from(Builder *b, const Place *place, Type type)
{
    Value *value = build_gather(b, place->from, (Value *const *)place->indices);
    int64_t guards[MAX_RANK];
    for (int i = 0; i < place->from->type->rank; i++) {
        guards[i] = place->checked[i];
    }
    if (place->outside) {
        op_set_num(b->func, value->def, ATTR_VALUE, place->outside->f, place->outside->i);
    }
    op_set_ints(b->func, value->def, ATTR_GUARD, place->from->type->rank, guards);
    for (int axis = 0; value->type->rank < type->rank; axis++) {
        value = is_unit(type, axis) ? build_expand(b, value, axis) : value;
    }
    return value;
}

static void compose(Op *gather, void *user)
{
    Func *func = user;
    if (gather->kind != OP_GATHER || type_is_scalar(gather->results[0]->type)) {
        return;
    }
    Type type = gather->results[0]->type;
    Place place = {.from = gather->operands[0], .alone = true};
    take_checks(func, gather, &place);
    for (int i = 0; i < place.from->type->rank; i++) {
        place.indices[i] = gather->operands[i + 1];
    }
    Builder b = build_before(func, gather);
    b.span = gather->span;
    Place origin = place;
    bool better = find_origin(&b, type, &origin);
    place = better ? origin : place;
    better = squeeze_array(&b, &place) || better;
    better = squeeze_indices(&b, &place, type) || better;
    if (better) {
        Value *value = gather_from(&b, &place, type);
        value->name = gather->results[0]->name;
        func_replace_uses(func, gather->results[0], value);
        op_remove(gather);
    }
}

void pass_compose_views(Func *func)
{
    func_walk(func, compose, func);
    func_remove_dead(func);
}
