/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the elements of a value at the places that index maps give. It follows the value's
 * defining ops: elementwise ops are rebuilt over the new axes, ops that move axes only change the
 * maps, and loads become gathers at the maps' indices. */
#include "passes/tensor/reindex.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"

static const Spread NONE = {NULL, 0};

/* ---- values over some of the axes ---- */

Value *reindex_spread(Reindex *r, Spread of, unsigned axes)
{
    Dim dims[MAX_RANK];
    Value *value = of.value;
    int rank = 0;
    for (int i = 0; i < r->rank; i++) {
        if (axes >> i & 1) {
            bool own = of.axes >> i & 1;
            value = own || !of.axes ? value : build_expand(&r->b, value, rank);
            dims[rank++] = r->dims[i];
        }
    }
    return build_broadcast(&r->b, value, rank, dims);
}

/* A number of the value's type, over its axes. */
static Value *number_like(Reindex *r, const Value *like, int64_t number)
{
    return build_int(&r->b, like->type, number);
}

Spread reindex_binary(Reindex *r, OpKind kind, Spread a, Spread c)
{
    if (!a.value || !c.value) {
        return NONE;
    }
    unsigned axes = a.axes | c.axes;
    Value *left = reindex_spread(r, a, axes), *right = reindex_spread(r, c, axes);
    return (Spread){build_binary(&r->b, kind, left, right), axes};
}

static Spread with_number(Reindex *r, OpKind kind, Spread a, int64_t number)
{
    Value *value = a.value;
    return (Spread){build_binary(&r->b, kind, value, number_like(r, value, number)), a.axes};
}

Spread reindex_masked(Reindex *r, Spread factor, Spread condition)
{
    unsigned axes = factor.axes | condition.axes;
    Op *cast = factor.value->def;
    Spread inner = factor;
    bool widened =
        cast && cast->kind == OP_CAST && cast->operands[0]->type->rank > 0 &&
        dtype_is_float(cast->operands[0]->type->dtype) == dtype_is_float(factor.value->type->dtype);
    if (widened) { /* the mask before it, so that the factor stays narrow */
        inner.value = cast->operands[0];
    }
    Value *value = reindex_spread(r, inner, axes);
    Value *zero = build_int(&r->b, value->type, 0);
    value = build_select(&r->b, reindex_spread(r, condition, axes), value, zero);
    return (Spread){widened ? build_cast(&r->b, value, factor.value->type->dtype) : value, axes};
}

/* ---- maps ---- */

/* What was made of an instance, or of an axis. */
typedef struct Reindexed {
    Instance of;
    const Axis *axis;
    Spread by;
} Reindexed;

static Spread with_size(Reindex *r, OpKind kind, Spread a, Dim size)
{
    int64_t number;
    return poly_is_const(size, &number)
               ? with_number(r, kind, a, number)
               : reindex_binary(r, kind, a, (Spread){build_size(&r->b, size), 0});
}

static int new_axis(const Reindex *r, const Axis *axis)
{
    for (int i = 0; axis && i < r->rank; i++) {
        if (r->axes[i] == axis) {
            return i;
        }
    }
    return -1;
}

/* The places along an axis of the space, or what a division makes of them. */
static Spread place_along(Reindex *r, const Axis *axis)
{
    for (size_t i = 0; i < r->places.n; i++) {
        if (r->places.items[i]->axis == axis) {
            return r->places.items[i]->by;
        }
    }
    Spread place = NONE;
    int at = new_axis(r, axis);
    if (axis->of) {
        Spread of = reindex_map(r, axis->of);
        OpKind kind = axis->make == AXIS_OUTER ? OP_DIV : OP_MOD;
        place = of.value ? with_size(r, kind, of, axis->by) : NONE;
    } else if (at >= 0) {
        place = (Spread){build_iota(&r->b, r->dims[at], DT_I64), 1u << at};
    }
    Reindexed *made = ARENA_NEW(r->b.func->arena, Reindexed);
    *made = (Reindexed){.axis = axis, .by = place};
    ARENA_PUSH(r->b.func->arena, &r->places, made);
    return place;
}

/* sum + coef * place; a sum without a value is nothing yet. */
static Spread add_term(Reindex *r, Spread sum, Spread place, Dim coef)
{
    bool subtracts = sum.value && poly_most(coef) < 0;
    coef = subtracts ? poly_mul(r->b.func, coef, poly_const(r->b.func, -1)) : coef;
    bool plain = poly_is_number(coef, 1);
    Spread term = plain ? place : with_size(r, OP_MUL, place, coef);
    if (!sum.value) {
        return term;
    }
    return reindex_binary(r, subtracts ? OP_SUB : OP_ADD, sum, term);
}

static Spread add_base(Reindex *r, Spread sum, Dim base)
{
    int64_t number;
    if (!sum.value) {
        bool is_number = poly_is_const(base, &number);
        return (Spread){is_number ? build_i64(&r->b, number) : build_size(&r->b, base), 0};
    }
    if (!poly_is_const(base, &number) || number > 0) {
        return with_size(r, OP_ADD, sum, base);
    }
    return number == 0 ? sum : with_number(r, OP_SUB, sum, -number);
}

/* Terms are added in the order of the space's axes, what is subtracted after that, and quotients
 * and remainders at the end. */
Spread reindex_map(Reindex *r, const Affine *map)
{
    Spread sum = NONE;
    int used = 0;
    for (int negative = 0; map && negative < 2; negative++) {
        for (int k = 0; k < r->rank; k++) {
            const Term *term = r->axes[k] ? map_term(map, r->axes[k]) : NULL;
            if (term && (poly_most(term->coef) < 0) == negative) {
                sum = add_term(r, sum, place_along(r, term->axis), term->coef);
                used++;
            }
        }
    }
    for (int i = 0; map && i < map->n; i++) {
        const Term *term = &map->terms[i];
        Spread place = term->axis->of ? place_along(r, term->axis) : NONE;
        sum = place.value ? add_term(r, sum, place, term->coef) : sum;
        used += place.value != NULL;
    }
    return map && used == map->n ? add_base(r, sum, map->base) : NONE;
}

/* ---- values ---- */

/* The axis of the space that these places are, all of them; -1: other places. */
static int renamed_axis(const Reindex *r, const Instance *of, int i)
{
    int axis = new_axis(r, map_as_axis(of->at[i]));
    return axis >= 0 && r->dims[axis] == of->value->type->dims[i] ? axis : -1;
}

static bool is_unit(const Instance *of, int i)
{
    return poly_is_number(of->value->type->dims[i], 1);
}

/* The value varies along no axis that is not renamed. */
static bool is_kept(const Reindex *r, const Instance *of)
{
    unsigned varies = an_varies(r->varies, of->value);
    for (int i = 0; i < of->value->type->rank; i++) {
        if ((varies >> i & 1) && !is_unit(of, i) && renamed_axis(r, of, i) < 0) {
            return false;
        }
    }
    return true;
}

/* The value itself, its axes in the order of the new ones, without those of one element. */
static Spread renamed(Reindex *r, const Instance *of)
{
    Value *value = of->value;
    int64_t perm[MAX_RANK];
    int n = 0, axes[MAX_RANK], rank = 0;
    unsigned found = 0;
    bool ordered = true;
    for (int i = 0; i < value->type->rank; i++) {
        int axis = renamed_axis(r, of, i);
        if (axis < 0 && !is_unit(of, i)) {
            return NONE;
        }
        axes[rank] = axis;
        rank += axis >= 0;
        found |= axis >= 0 ? 1u << axis : 0;
    }
    for (int i = value->type->rank; i-- > 0;) {
        value = renamed_axis(r, of, i) < 0 ? build_squeeze(&r->b, value, i) : value;
    }
    for (int axis = 0; axis < r->rank; axis++) {
        for (int i = 0; i < rank; i++) {
            if (axes[i] == axis) {
                ordered = ordered && i == n;
                perm[n++] = i;
            }
        }
    }
    return (Spread){ordered ? value : build_permute(&r->b, value, perm), found};
}

/* True for an intermediate that one statement stores: it is stored before whatever reads it. */
static bool is_stored_once(const Func *func, const Value *from)
{
    const Value *memory = func_memory_of(func, from);
    int writers = 0;
    for (const Op *op = func->body->first; op; op = op->next) {
        bool plain = op->kind == OP_STORE || op->kind == OP_SCATTER;
        bool own = plain && op->operands[0]->type->kind == TYPE_TENSOR &&
                   func_memory_of(func, op->operands[0]) == memory;
        writers += own || (op->n_regions > 0 && op_writes(op, memory));
    }
    return writers == 1;
}

/* Nothing writes it between the old read and the new one. */
static bool is_constant(const Func *func, const Value *from)
{
    ParamIo io = from->type->kind == TYPE_TENSOR ? func->params.items[from->index].io : PARAM_IN;
    return io == PARAM_IN || (io == PARAM_SCRATCH && is_stored_once(func, from));
}

/* Elements of memory, or of an array, at these places. */
static Spread gathered(Reindex *r, Value *from, Spread *at, const int64_t *guards,
                       const Attr *value)
{
    Value *indices[MAX_RANK];
    unsigned axes = 0;
    bool checked = false;
    for (int i = 0; i < from->type->rank; i++) {
        if (!at[i].value) {
            return NONE;
        }
        axes |= at[i].axes;
        checked = checked || guards[i];
    }
    if (!axes || !is_constant(r->b.func, from)) {
        return NONE;
    }
    for (int i = 0; i < from->type->rank; i++) {
        indices[i] = at[i].axes ? reindex_spread(r, at[i], axes) : at[i].value;
    }
    Value *result = build_gather(&r->b, from, indices);
    op_set_num(r->b.func, result->def, ATTR_VALUE, value ? value->f : 0, value ? value->i : 0);
    op_set_ints(r->b.func, result->def, ATTR_GUARD, from->type->rank, guards);
    return (Spread){result, axes};
}

/* A whole array or tensor, or a slice of it, read at the places of its axes. */
static Spread read_at(Reindex *r, const Instance *of)
{
    const Op *op = of->value->def;
    bool load = op && op->kind == OP_LOAD;
    Value *from = load ? op->operands[0] : of->value;
    const Attr *guard = load ? op_attr(op, ATTR_GUARD) : NULL;
    Spread at[MAX_RANK];
    int64_t guards[MAX_RANK];
    for (int i = 0, k = 0; i < from->type->rank; i++) {
        Value *index = load ? op->operands[1 + i] : NULL;
        bool scalar = index && index->type->rank == 0 && index->type->kind == TYPE_ARRAY;
        if (index && !scalar) {
            return NONE; /* a range */
        }
        if (scalar) {
            at[i] = (Spread){index, 0};
            guards[i] = guard ? guard->ints[i] : 0;
            continue;
        }
        at[i] = reindex_map(r, of->at[k]);
        guards[i] = renamed_axis(r, of, k) < 0 &&
                    !map_is_inside(&r->all->space, of->at[k], from->type->dims[i]);
        k++;
    }
    return gathered(r, from, at, guards, load ? op_attr(op, ATTR_VALUE) : NULL);
}

static Instance at_same_places(const Instance *of, Value *value)
{
    Instance other = *of;
    other.value = value;
    return other;
}

static Spread rebuild_gather(Reindex *r, const Instance *of)
{
    const Op *op = of->value->def;
    Spread at[MAX_RANK];
    int64_t guards[MAX_RANK];
    Value *from = op->operands[0];
    const Attr *guard = op_attr(op, ATTR_GUARD);
    for (int i = 0; i < from->type->rank; i++) {
        Instance index = at_same_places(of, op->operands[1 + i]);
        bool kept = index.value->type->rank == 0 || is_kept(r, &index);
        at[i] = reindex_instance(r, &index);
        guards[i] = !kept || !guard || guard->ints[i];
    }
    return gathered(r, from, at, guards, op_attr(op, ATTR_VALUE));
}

static Spread rebuild_elementwise(Reindex *r, const Instance *of)
{
    const Op *op = of->value->def;
    Spread operands[4];
    Value *values[4];
    unsigned all = 0;
    if (op->n_operands > 4 || op->n_results != 1) {
        return NONE;
    }
    for (int i = 0; i < op->n_operands; i++) {
        Instance operand = at_same_places(of, op->operands[i]);
        operands[i] = reindex_instance(r, &operand);
        if (!operands[i].value) {
            return NONE;
        }
        all |= operands[i].axes;
    }
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < op->n_operands; i++) {
        values[i] = reindex_spread(r, operands[i], all);
    }
    for (int i = 0; i < r->rank; i++) {
        if (all >> i & 1) {
            dims[rank++] = r->dims[i];
        }
    }
    Type type = type_array(r->b.func, op->results[0]->type->dtype, rank, dims);
    Op *copy = build_op(&r->b, op->kind, op->n_operands, values, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return (Spread){copy->results[0], all};
}

/* The reduction over the same elements, where they depend on the new axes. */
static Spread rebuild_reduce(Reindex *r, const Instance *of)
{
    const Op *op = of->value->def;
    int axis = (int)op_int(op, ATTR_AXIS, 0), own = r->rank;
    if (is_kept(r, of)) {
        return renamed(r, of);
    }
    if (op->n_operands != 1 || own == MAX_RANK) {
        return NONE;
    }
    Instance terms = at_same_places(of, op->operands[0]);
    r->dims[own] = terms.value->type->dims[axis];
    r->axes[own] = axis_new(&r->all->space, r->dims[own], NULL);
    terms.at[axis] = map_axis(&r->all->space, r->axes[own]);
    r->rank++;
    Spread made = reindex_instance(r, &terms);
    if (!made.value) {
        return NONE;
    }
    unsigned all = made.axes | 1u << own;
    int at = __builtin_popcount(all & ((1u << own) - 1));
    Value *all_values = reindex_spread(r, made, all);
    Value *value = build_reduce(&r->b, op_word(op, ATTR_FN), all_values, at);
    return (Spread){build_squeeze(&r->b, value, at), all & ~(1u << own)};
}

/* An axis of its own for what a product contracts; -1: there is no space. */
static int contracted_axis(Reindex *r, Dim extent)
{
    if (r->rank == MAX_RANK) {
        return -1;
    }
    r->dims[r->rank] = extent;
    r->axes[r->rank] = axis_new(&r->all->space, extent, NULL);
    return r->rank++;
}

/* A value over these axes in the order of the space: with the axis `row` before `column`, and both
 * behind the others. */
static Value *as_matrices(Reindex *r, Value *value, unsigned axes, int row, int column)
{
    int64_t perm[MAX_RANK];
    int n = 0, rank = __builtin_popcount(axes);
    for (int i = 0, at = 0; i < r->rank; i++) {
        if (axes >> i & 1) {
            int place = 0;
            if (i == row) {
                place = rank - 2;
            } else if (i == column) {
                place = rank - 1;
            } else {
                place = n++;
            }
            perm[place] = at++;
        }
    }
    return build_permute(&r->b, value, perm);
}

/* A product of batches as one of the batches at these places. */
static Spread rebuild_dot(Reindex *r, const Instance *of)
{
    const Op *op = of->value->def;
    int rank = of->value->type->rank;
    int row = renamed_axis(r, of, rank - 2), column = renamed_axis(r, of, rank - 1);
    bool plain = op->n_operands == 2 && !op_int(op, ATTR_TA, 0) && !op_int(op, ATTR_TB, 0);
    int k = plain && row >= 0 && column >= 0 && row != column
                ? contracted_axis(r, op->operands[0]->type->dims[rank - 1])
                : -1;
    if (k < 0) {
        return NONE;
    }
    Instance left = at_same_places(of, op->operands[0]);
    Instance right = at_same_places(of, op->operands[1]);
    left.at[rank - 1] = right.at[rank - 2] = map_axis(&r->all->space, r->axes[k]);
    Spread factors[2] = {reindex_instance(r, &left), reindex_instance(r, &right)};
    if (!factors[0].value || !factors[1].value) {
        return NONE;
    }
    unsigned own = 1u << row | 1u << column | 1u << k;
    unsigned batches = (factors[0].axes | factors[1].axes) & ~own;
    unsigned axes[2] = {batches | 1u << row | 1u << k, batches | 1u << column | 1u << k};
    Value *a = as_matrices(r, reindex_spread(r, factors[0], axes[0]), axes[0], row, k);
    Value *b = as_matrices(r, reindex_spread(r, factors[1], axes[1]), axes[1], k, column);
    Value *made = build_dot(&r->b, a, b, NULL, of->value->type->dtype);
    made->def->attrs = op->attrs;
    made->def->n_attrs = op->n_attrs;
    /* Back to the order of the space. */
    unsigned all = batches | 1u << row | 1u << column;
    int64_t perm[MAX_RANK];
    int n = 0, at = 0, whole = __builtin_popcount(all);
    for (int i = 0; i < r->rank; i++) {
        if (all >> i & 1) {
            if (i == row) {
                perm[n] = whole - 2;
            } else if (i == column) {
                perm[n] = whole - 1;
            } else {
                perm[n] = at++;
            }
            n++;
        }
    }
    return (Spread){build_permute(&r->b, made, perm), all};
}

/* What the gather reads, where that is an array, no index leaves it and all of them have maps. */
static bool gathered_instance(Reindex *r, const Instance *of, Instance *inner)
{
    const Op *op = of->value->def;
    bool known = op->operands[0]->type->kind == TYPE_ARRAY && gather_stays_inside(op);
    *inner = (Instance){.value = op->operands[0]};
    for (int i = 0; known && i < inner->value->type->rank; i++) {
        inner->at[i] = computations_map(r->all, op->operands[1 + i], of->at);
        known = inner->at[i] != NULL;
    }
    return known;
}

static Spread made_of(Reindex *r, const Instance *of)
{
    Value *value = of->value;
    const Op *op = value->def;
    bool index = value->type->dtype == DT_I64;
    const Affine *map = index ? computations_map(r->all, value, of->at) : NULL;
    if (map) {
        return reindex_map(r, map);
    }
    if (r->products) {
        Spread same = is_kept(r, of) ? renamed(r, of) : NONE;
        Instance inner;
        if (same.value) {
            return same;
        }
        if (op && op->kind == OP_GATHER && gathered_instance(r, of, &inner)) {
            return reindex_instance(r, &inner);
        }
        if (op && op->kind == OP_DOT) {
            return rebuild_dot(r, of);
        }
    }
    if (op && op->kind == OP_CONST) {
        Type type = type_scalar(r->b.func, value->type->dtype);
        const Attr *number = op_attr(op, ATTR_VALUE);
        bool is_float = dtype_is_float(type->dtype);
        return (Spread){
            is_float ? build_float(&r->b, type, number->f) : build_int(&r->b, type, number->i), 0};
    }
    if (op && op_moves_axes(op)) {
        Instance inner = instance_moved(&r->all->space, op, of->at);
        return reindex_instance(r, &inner);
    }
    if (op && r->sum && compute_has_select(r->sum, op)) {
        int counts = value_is_const(op->operands[2], 0) ? 1 : 2;
        Instance inner = at_same_places(of, op->operands[counts]);
        return reindex_instance(r, &inner);
    }
    if (op && op_has(op, TRAIT_ELEMENTWISE)) {
        return rebuild_elementwise(r, of);
    }
    if (op && op->kind == OP_GATHER) {
        return rebuild_gather(r, of);
    }
    if (r->reduces && op && op->kind == OP_REDUCE) {
        return rebuild_reduce(r, of);
    }
    Spread same = is_kept(r, of) ? renamed(r, of) : NONE;
    return same.value ? same : read_at(r, of);
}

static bool is_made_of(const void *item, const void *key)
{
    return instance_same(&((const Reindexed *)item)->of, key);
}

void reindex_define(Reindex *r, const Instance *of, Spread by)
{
    Reindexed *made = ARENA_NEW(r->b.func->arena, Reindexed);
    *made = (Reindexed){.of = *of, .by = by};
    table_add(r->b.func->arena, &r->made, instance_hash(of), made);
}

Spread reindex_instance(Reindex *r, const Instance *of)
{
    if (of->value->type->kind != TYPE_ARRAY) {
        return NONE;
    }
    if (of->value->type->rank == 0) {
        return (Spread){of->value, 0};
    }
    const Reindexed *known = table_find(&r->made, instance_hash(of), is_made_of, of);
    if (known) {
        return known->by;
    }
    Spread by = made_of(r, of);
    reindex_define(r, of, by);
    return by;
}

Spread reindex_condition(Reindex *r, const Constraint *constraint, const Instance *holds)
{
    Spread made = reindex_instance(r, holds);
    if (made.value && constraint->negated) {
        made.value = build_unary(&r->b, OP_NOT, made.value);
    }
    return made;
}

/* ---- sums of products ---- */

void reindex_over_term(Reindex *r, const Compute *sum)
{
    r->rank = sum->term.value->type->rank;
    for (int i = 0; i < r->rank; i++) {
        r->axes[i] = map_as_axis(sum->term.at[i]);
        r->dims[i] = sum->term.value->type->dims[i];
    }
}

Value *reindex_restored(Builder *b, const Compute *compute, Value *value, const Axis *const *axes)
{
    const Instance *result = &compute->result;
    int64_t perm[MAX_RANK];
    int n = 0;
    bool ordered = true;
    for (int i = 0; i < result->value->type->rank; i++) {
        const Axis *axis = map_as_axis(result->at[i]);
        for (int k = 0; axis && k < value->type->rank; k++) {
            if (axes[k] == axis) {
                ordered = ordered && k == n;
                perm[n++] = k;
            }
        }
    }
    value = ordered ? value : build_permute(b, value, perm);
    for (int i = 0; i < result->value->type->rank; i++) {
        value = map_as_axis(result->at[i]) ? value : build_expand(b, value, i);
    }
    return value;
}
