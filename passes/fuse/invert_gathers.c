/* SPDX-License-Identifier: Apache-2.0 */
/* invert_gathers: replaces a gather from a costly array by a scatter. The ops behind the gather are
 * computed over the array's own axes, once per element, and their result is scattered to the
 * inverse index.
 *
 *   %z = dot %x, %w                               %z = dot %x, %w
 *   %g = gather %z[%i // 64, %i % 64]     →       %v = max %z, 0
 *   %v = max %g, 0                                scatter %y[64 * %j + %k], %v
 *   store %y[:], %v
 *
 * A reshape, a permutation, a shift or the phases of a transposed convolution behind a dot then
 * only change the address of its store, and need no launch that reads an intermediate. The ops
 * behind the gather may reduce along those axes of the gather that are whole axes of the array,
 * such as the channels of a convolution. If the gather reads outside of the array, a second scatter
 * writes the results for the value that is read there.
 *
 * Phases of a transposed convolution that a norm or a pooling reads are scattered to scratch memory
 * in the order of the result. Each reduction would otherwise gather them from several arrays.
 *
 * The pass does so for results of products, before their axes are collapsed; fuse calls the same
 * function for all other costly arrays and for pieces of a tensor, after the axes of the products
 * are final. Requires the tensor level. Changes no bits. */
#include "passes/fuse/invert_gathers.h"

#include "passes/fuse/fuse_stores.h"
#include "passes/pass.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/index_bounds.h"
#include "passes/analysis/inverse_map.h"

#include <string.h>

bool fuse_stores_own_elements(const Func *func, const Op *op)
{
    bool stores = op->kind == OP_STORE || (op->kind == OP_SCATTER && op->n_results == 0 &&
                                           text_equal(op_word(op, ATTR_FN), "set"));
    const Value *tensor = stores ? op->operands[0] : NULL;
    if (!stores || tensor->type->kind != TYPE_TENSOR || dtype_is_packed(tensor->type->dtype) ||
        func->params.items[tensor->index].io == PARAM_SCRATCH) {
        return false;
    }
    if (op->kind == OP_SCATTER) {
        const Value *value = scatter_parts(op).value;
        return value->type->rank == tensor->type->rank &&
               fuse_is_at_own_indices(value, op->operands + 1, value->type);
    }
    return op_accesses_whole(op);
}

bool fuse_is_costly_gather(Func *func, const Op *gather)
{
    const Value *array = gather->operands[0];
    return array->type->kind == TYPE_ARRAY && value_count_uses(func, array) == 1 &&
           !fuse_is_cheap_gather(func, gather);
}

/* ---- the order of the array's axes ---- */

/* For each axis of the array, how far inside of the stored tensor its elements are neighbours: the
 * innermost of the axes that it gives a coordinate of, and of these the lowest digit. */
static void axis_depths(const InvertCandidate *c, int *depths)
{
    for (int i = 0; i < MAX_RANK; i++) {
        depths[i] = -1;
    }
    for (int i = 0; i < c->gather->results[0]->type->rank; i++) {
        const InverseCoord *coord = &c->inverse.coords[i];
        for (int k = 0; k < coord->n; k++) {
            int depth = c->axes[i] * MAX_DIGITS + MAX_DIGITS - 1 - k, axis = coord->terms[k].axis;
            depths[axis] = depth > depths[axis] ? depth : depths[axis];
        }
    }
}

/* The array with its axes in the order in which they lie in the stored tensor. A launch goes along
 * them in this order: blocks that run together then write neighbours, and L2 joins the parts of a
 * sector that different ones write. Changes the inverse map accordingly. */
static Value *in_stored_order(InvertCandidate *c, Builder *b)
{
    Value *array = c->gather->operands[0];
    int rank = array->type->rank, depths[MAX_RANK], placed[MAX_RANK];
    int64_t perm[MAX_RANK];
    axis_depths(c, depths);
    for (int i = 0; i < rank; i++) {
        int at = i;
        for (; at > 0 && depths[perm[at - 1]] > depths[i]; at--) {
            perm[at] = perm[at - 1];
        }
        perm[at] = i;
    }
    bool same = true;
    for (int i = 0; i < rank; i++) {
        placed[perm[i]] = i;
        same = same && perm[i] == i;
    }
    for (int i = 0; i < c->gather->results[0]->type->rank; i++) {
        InverseCoord *coord = &c->inverse.coords[i];
        for (int k = 0; k < coord->n; k++) {
            coord->terms[k].axis = placed[coord->terms[k].axis];
        }
    }
    return same ? array : build_permute(b, array, perm);
}

/* ---- the inverse indices ---- */

/* a op c, or a if that is the same. */
static Value *build_by_size(Builder *b, OpKind op, Value *a, Dim c)
{
    if (poly_is_number(c, op == OP_ADD || op == OP_SUB ? 0 : 1)) {
        return a;
    }
    Value *size = build_broadcast(b, build_size(b, c), a->type->rank, a->type->dims);
    return build_binary(b, op, a, size);
}

/* A vector over the array's axis with one of the terms of a coordinate. */
static Value *build_term(Builder *b, const InverseTerm *term, Dim extent)
{
    Value *u = build_iota(b, extent, DT_I64);
    if (term->reversed) {
        Value *base = build_broadcast(b, build_size(b, term->base), 1, &extent);
        u = build_binary(b, OP_SUB, base, u);
    } else {
        u = build_by_size(b, OP_SUB, u, term->base);
    }
    u = build_by_size(b, OP_DIV, u, term->weight);
    if (term->count) {
        Value *count = build_broadcast(b, build_size(b, term->count), 1, &extent);
        u = build_binary(b, OP_MOD, u, count);
    }
    return build_by_size(b, OP_MUL, u, term->low);
}

/* A coordinate of the gather's result for each element of the array. */
static Value *build_coord(Builder *b, const InverseCoord *coord, Type shape)
{
    Value *sum = NULL;
    for (int i = 0; i < coord->n; i++) {
        const InverseTerm *term = &coord->terms[i];
        Value *vector = build_term(b, term, shape->dims[term->axis]);
        Value *all = build_along(b, vector, term->axis, shape);
        sum = sum ? build_binary(b, OP_ADD, sum, all) : all;
    }
    return build_by_size(b, OP_SUB, sum, coord->add);
}

/* Indices into the stored tensor for each element of the array, or, if it is the gather's result,
 * for each of these. False if the tensor has an axis that the gather has not. */
static bool build_indices(const InvertCandidate *c, Builder *b, const Value *array, Value **indices)
{
    Type tensor = c->store->operands[0]->type, result = c->gather->results[0]->type;
    bool own = array == c->gather->results[0];
    for (int i = 0; i < tensor->rank; i++) {
        indices[i] = poly_is_number(tensor->dims[i], 1) ? build_i64(b, 0) : NULL;
    }
    for (int i = 0; i < result->rank; i++) {
        if (!poly_is_number(result->dims[i], 1) && c->axes[i] >= 0 && !c->reduced.bit[i]) {
            Value *place = reduced_left(&c->reduced)->coords[i];
            indices[c->axes[i]] = own ? build_places(b, i, result) : place;
        }
    }
    bool good = true;
    for (int i = 0; i < tensor->rank; i++) {
        good = good && indices[i];
    }
    return good;
}

/* ---- the scatters ---- */

static void build_scatters(const InvertCandidate *c, ValueAt *p, Value **indices, Value *mask)
{
    Func *func = c->func;
    Value *tensor = c->store->operands[0];
    int64_t guard[MAX_RANK];
    Value *own = c->mask;
    own = own ? fuse_value_at(p, own, indices) : NULL;
    if (mask && own) {
        mask = build_binary(&p->at, OP_AND, mask, own);
    } else if (own) {
        mask = own;
    }
    Value *value = fuse_value_at(p, op_moved_value(c->store), indices);
    Op *scatter = build_scatter(&p->at, "set", tensor, indices, value, NULL, mask, false);
    for (int i = 0; i < tensor->type->rank; i++) {
        guard[i] = !an_index_inside(func, indices[i], tensor->type->dims[i]);
    }
    op_set_ints(func, scatter, ATTR_GUARD, tensor->type->rank, guard);
    const Attr *piece = op_attr(c->store, ATTR_PIECE);
    if (piece) {
        op_set_int(func, scatter, ATTR_PIECE, piece->i);
    }
}

/* What the elements of the tensor that the gather reads nothing for are computed from. */
static void scatter_outside(const InvertCandidate *c)
{
    Func *func = c->func;
    Value *indices[MAX_RANK], *gathered = c->gather->results[0];
    ValueAt p = fuse_value_at_begin(build_before(func, c->store), gathered->type, false);
    p.at.span = c->store->span;
    Value *inside = fuse_inside(&p, c->gather);
    build_indices(c, &p.at, gathered, indices);
    /* Everything that is made of the gather's elements stands behind it. */
    ValueAt before = p;
    before.at = build_before(func, c->gather);
    before.at.span = p.at.span;
    Value *outside = fuse_outside_value(&before, c->gather);
    clone_map_value(&p.known, gathered, outside);
    func_replace_uses(func, gathered, outside);
    build_scatters(c, &p, indices, build_unary(&p.at, OP_NOT, inside));
}

/* The least and the first not wanted coordinate along an axis of the stored tensor where the mask
 * holds, as far as it compares them with sizes. */
static void narrow(Func *func, const Value *mask, bool holds, int axis, Dim *lo, Dim *hi)
{
    const Op *op = mask->def;
    IndexBound bound;
    if (op && op->kind == OP_NOT) {
        narrow(func, op->operands[0], !holds, axis, lo, hi);
    } else if (op && op->kind == OP_AND && holds) {
        narrow(func, op->operands[0], true, axis, lo, hi);
        narrow(func, op->operands[1], true, axis, lo, hi);
    } else if (an_index_bound(func, mask, axis, &bound)) {
        Dim *end = bound.is_upper == holds ? hi : lo;
        *end = bound.at;
    }
}

/* True if index `i` of the gather is inside where the store's mask holds. */
static bool is_inside_piece(const InvertCandidate *c, int i)
{
    Func *func = c->func;
    Value *mask = c->store->kind == OP_SCATTER ? scatter_parts(c->store).mask : NULL;
    for (int axis = 0; mask && axis < c->gather->results[0]->type->rank; axis++) {
        const InverseCoord *coord = &c->inverse.coords[axis];
        if (coord->n != 1 || coord->terms[0].axis != i || c->axes[axis] < 0 ||
            !an_is_shift(coord)) {
            continue;
        }
        Dim lo = poly_const(func, 0), hi = c->gather->results[0]->type->dims[axis];
        narrow(func, mask, true, c->axes[axis], &lo, &hi);
        lo = poly_add(func, lo, coord->terms[0].base);
        hi = poly_add(func, hi, coord->terms[0].base);
        Dim minus = hi ? poly_mul(func, hi, poly_const(func, -1)) : NULL;
        Dim rest = poly_add(func, c->gather->operands[0]->type->dims[i], minus);
        return lo && rest && poly_least(lo) >= 0 && poly_least(rest) >= 0;
    }
    return false;
}

/* True if the mask holds (or does not) at the inverse index of each of the array's elements. */
static bool holds_for_all(const InvertCandidate *c, const Value *mask, bool holds)
{
    Func *func = c->func;
    const Op *op = mask->def;
    bool found = false;
    if (op && op->kind == OP_NOT) {
        return holds_for_all(c, op->operands[0], !holds);
    }
    if (op && op->kind == OP_AND && holds) {
        return holds_for_all(c, op->operands[0], true) && holds_for_all(c, op->operands[1], true);
    }
    for (int i = 0; i < c->gather->results[0]->type->rank && !found; i++) {
        const InverseCoord *coord = &c->inverse.coords[i];
        IndexBound bound;
        if (c->axes[i] < 0 || !an_is_shift(coord) ||
            !an_index_bound(func, mask, c->axes[i], &bound)) {
            continue;
        }
        const InverseTerm *term = &coord->terms[0]; /* the coordinate is u - base */
        Dim at = poly_add(func, bound.at, term->base), minus = poly_const(func, -1);
        Dim end = c->gather->operands[0]->type->dims[term->axis];
        bool upper = bound.is_upper == holds;
        Dim rest =
            upper ? poly_add(func, at, poly_mul(func, end, minus)) : poly_mul(func, at, minus);
        found = rest && poly_least(rest) >= 0;
    }
    return found;
}

/* The coordinates of the gather's result for each element of the array, and for each element of the
 * shapes that reductions of it leave. False if the gather's elements are reduced along an axis that
 * is not one of the array's as a whole, or along too many of which nothing is left. */
static bool build_coords(InvertCandidate *c, Builder *b, Type full)
{
    ReducedAxes *reduced = &c->reduced;
    Type result = c->gather->results[0]->type, tensor = c->store->operands[0]->type;
    int along[MAX_RANK] = {0};         /* coordinates that an axis of the array takes part in */
    unsigned ended_by[MAX_RANK] = {0}; /* the bits of the ended axes that it takes part in */
    *reduced = (ReducedAxes){.axes = c->axis_of, .rank = result->rank};
    for (int i = 0; i < result->rank; i++) {
        const InverseCoord *coord = &c->inverse.coords[i];
        int axis = c->axes[i];
        if (c->reduces[i] && (axis < 0 || poly_is_number(tensor->dims[axis], 1))) {
            if (reduced->n_ended == MAX_ENDED_AXES) {
                return false;
            }
            reduced->bit[i] = 1u << reduced->n_ended++;
        }
        for (int k = 0; k < coord->n; k++) {
            along[coord->terms[k].axis]++;
            ended_by[coord->terms[k].axis] |= reduced->bit[i];
        }
    }
    for (unsigned set = 0; set < 1u << reduced->n_ended; set++) {
        ReducedLevel *level = &reduced->levels[set];
        Dim dims[MAX_RANK];
        for (int i = 0; i < full->rank; i++) {
            dims[i] = ended_by[i] & ~set ? poly_const(c->func, 1) : full->dims[i];
        }
        level->shape = type_with_dims(c->func, full, full->rank, dims);
        for (int i = 0; i < result->rank; i++) {
            const InverseCoord *coord = &c->inverse.coords[i];
            bool has = coord->n && !(reduced->bit[i] & ~set);
            level->coords[i] = has ? build_coord(b, coord, level->shape) : NULL;
        }
    }
    bool good = true;
    for (int i = 0; i < result->rank; i++) {
        Value *own = reduced_full(reduced)->coords[i];
        int axis = c->reduces[i] && own ? fuse_own_axis(own, full) : -1;
        bool whole = axis >= 0 && along[axis] == 1 && full->dims[axis] == result->dims[i];
        bool stays = c->axes[i] >= 0 && tensor->dims[c->axes[i]] == result->dims[i];
        good = good && (!c->reduces[i] || (whole && (stays || reduced->bit[i])));
    }
    return good;
}

static bool is_covered(const InvertCandidate *c)
{
    bool covered = true;
    for (int i = 0; i < c->gather->operands[0]->type->rank && covered; i++) {
        covered = c->inverse.inside[i] || is_inside_piece(c, i);
    }
    return covered;
}

static bool invert_one(InvertCandidate *c)
{
    Func *func = c->func;
    Op *gather = c->gather;
    Value *indices[MAX_RANK];
    if (!invert_find_store(c) || !an_inverse_map(func, gather, &c->inverse) ||
        !(op_attr(c->store, ATTR_PIECE) || fuse_is_costly_gather(func, gather))) {
        return false;
    }
    Builder b = build_before(func, c->store);
    b.span = c->store->span;
    bool covered = is_covered(c);
    c->mask = c->store->kind == OP_SCATTER ? scatter_parts(c->store).mask : NULL;
    Value *outside_mask = c->mask;
    c->mask = c->mask && holds_for_all(c, c->mask, true) ? NULL : c->mask;
    Value *array = in_stored_order(c, &b);
    bool may = build_coords(c, &b, array->type);
    Type left = reduced_left(&c->reduced)->shape;
    may = may && (covered || left == array->type) && build_indices(c, &b, array, indices);
    may = may && invert_may_compute(c, indices);
    ValueAt p = fuse_value_at_begin(b, left, !covered);
    p.home = gather;
    p.found = array;
    p.reduced = &c->reduced;
    if (may) {
        build_scatters(c, &p, indices, NULL);
        c->mask = outside_mask;
        if (!covered) {
            scatter_outside(c);
        }
        op_remove(c->store);
    }
    return may;
}

/* `cut`: a store to scratch that may take the gather's elements; NULL: only one of results may. */
static bool invert(Func *func, Block *block, Op *gather, const Op *cut)
{
    const Value *array = gather->operands[0];
    bool inverted = false;
    if (array->type->kind == TYPE_ARRAY && value_count_uses(func, array) == 1) {
        Memo *axis_of = memo_open(func);
        InvertCandidate c = {
            .func = func, .block = block, .gather = gather, .axis_of = axis_of, .cut = cut};
        inverted = invert_one(&c);
        memo_close(axis_of);
    }
    return inverted;
}

/* ---- what pieces overwrite ---- */

/* Gathers from the memory itself what is gathered from a load of a whole `inout` tensor that the
 * scatter overwrites, so that both may be in one launch (fuse_in_place.c). */
static void gather_from_memory(const Op *scatter)
{
    const Value *memory = scatter->operands[0];
    for (const Op *op = scatter->parent->first, *load; op && op != scatter; op = op->next) {
        load = op->kind == OP_GATHER ? op->operands[0]->def : NULL;
        bool whole = load && load->kind == OP_LOAD && load->operands[0] == memory &&
                     load->parent == op->parent && op_accesses_whole(load);
        for (const Op *between = load; whole && between != op; between = between->next) {
            whole = !op_writes(between, memory);
        }
        if (whole) {
            op_set_operand((Op *)op, 0, load->operands[0]);
        }
    }
}

/* ---- results of products ---- */

/* What is below a value, through element-wise ops, moved axes and reductions. */
typedef struct Below {
    const Block *block;
    Memo *seen;
    int gathers; /* from arrays */
    bool sums;
} Below;

static void look_below(Below *below, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != below->block || !memo_visit(below->seen, value)) {
        return;
    }
    below->gathers += op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_ARRAY;
    below->sums = below->sums || (op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum"));
    for (int i = 0; i < op->n_operands; i++) {
        if (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_REDUCE) {
            look_below(below, op->operands[i]);
        }
    }
}

/* Is the value, but for the order of its axes, computed element by element from a sum of as many
 * elements? */
static bool is_sum(Memo *seen, const Block *block, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != block || value->type->kind != TYPE_ARRAY || !memo_visit(seen, value)) {
        return false;
    }
    bool sum = op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum");
    bool follows = op->kind == OP_PERMUTE || op->kind == OP_SQUEEZE || op->kind == OP_EXPAND ||
                   op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; follows && i < op->n_operands && !sum; i++) {
        sum = is_sum(seen, block, op->operands[i]);
    }
    return sum;
}

/* Is the gather's array computed of a sum of products? */
static bool is_of_product(Func *func, Block *block, const Op *gather)
{
    Memo *seen = memo_open(func);
    bool sum = is_sum(seen, block, gather->operands[0]);
    memo_close(seen);
    return sum;
}

/* True if the gather reads a sum, or what is computed element by element from one, and the only
 * store of its elements holds those of no other gather: it is no concatenation of pieces. */
static bool reads_product(Func *func, Block *block, Op *gather)
{
    InvertCandidate c = {
        .func = func, .block = block, .gather = gather, .axis_of = memo_open(func)};
    bool found = gather->operands[0]->type->kind == TYPE_ARRAY && invert_find_store(&c) &&
                 c.store->kind == OP_STORE;
    memo_close(c.axis_of);
    if (!found) {
        return false;
    }
    Below array = {block, memo_open(func), 0, false}, stored = {block, memo_open(func), 0, false};
    look_below(&array, gather->operands[0]);
    look_below(&stored, c.store->operands[c.store->n_operands - 1]);
    memo_close(array.seen);
    memo_close(stored.seen);
    return array.sums && stored.gathers == 1;
}

/* ---- results that several ops read ---- */

/* Are neighbours of the gather's result far from each other in the array, since an axis of the
 * result joins several of the array's, as the phases of a transposed convolution? */
static bool interleaves(Func *func, const Op *gather)
{
    InverseMap inverse;
    bool found = false;
    if (an_inverse_map(func, gather, &inverse)) {
        for (int i = 0; i < gather->results[0]->type->rank; i++) {
            found = found || inverse.coords[i].n > 1;
        }
    }
    return found;
}

/* The last value that is made element by element of the gather's alone, with the same axes. */
static Value *last_of_chain(const Func *func, const Block *block, Value *value)
{
    for (;;) {
        const ValueUse *use = use_first(value, func->body);
        Op *user = use && !use_next(use, func->body) ? use->op : NULL;
        bool goes_on = user && user->parent == block && user->n_results == 1 &&
                       (user->kind == OP_PERMUTE || op_has(user, TRAIT_ELEMENTWISE));
        if (!goes_on) {
            return value;
        }
        value = user->results[0];
    }
}

/* Lets the launch of the product scatter the gather's elements to scratch memory, in the order of
 * the result. For gathers that are not inverted otherwise: reductions and other ops that read them
 * would gather them once each. */
static void cut_behind(Func *func, Block *block, Op *gather)
{
    bool gpu = func->target && func->target->family != FAMILY_CPU;
    if (!gpu || !is_of_product(func, block, gather) || !interleaves(func, gather)) {
        return;
    }
    func_remove_dead(func); /* what was made for an attempt without it */
    Value *value = last_of_chain(func, block, gather->results[0]);
    size_t n_params = func->params.n;
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    Value *scratch = func_scratch(
        func, type_array(func, value->type->dtype, value->type->rank, value->type->dims));
    Value *loaded = build_load(&b, func_alias(func, scratch), WHOLE);
    loaded->name = value->name;
    func_replace_uses(func, value, loaded);
    b = build_after(func, value->def);
    b.span = value->def->span;
    Op *store = build_store(&b, scratch, WHOLE, value);
    if (!invert(func, block, gather, store)) {
        func_replace_uses(func, loaded, value);
        op_remove(store);
        func_remove_dead(func);
        func->params.n = n_params;
    }
}

/* ---- the block ---- */

void fuse_invert_gathers(Func *func, Block *block, InvertScope scope)
{
    func_remove_dead(func);
    if (scope == INVERT_ALL) {
        fuse_split_pieces(func, block);
    }
    for (Op *op = block->first; op; op = op->next) {
        bool gathers = op->kind == OP_GATHER;
        bool all = scope == INVERT_ALL;
        bool may = gathers && (all || reads_product(func, block, op));
        bool inverted = may && invert(func, block, op, NULL);
        if (gathers && !inverted && !all) {
            cut_behind(func, block, op);
        }
    }
    for (Op *op = block->first; op; op = op->next) {
        bool piece = op->kind == OP_SCATTER && op_attr(op, ATTR_PIECE);
        if (piece && func->params.items[op->operands[0]->index].io == PARAM_INOUT) {
            gather_from_memory(op);
        }
    }
    func_remove_dead(func);
}

void pass_invert_gathers(Func *func)
{
    fuse_invert_gathers(func, func->body, INVERT_PRODUCTS);
}
