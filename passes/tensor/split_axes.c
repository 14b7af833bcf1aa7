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
 * A reshape and the index arithmetic of groups are quotients and remainders of the indices along an
 * axis. Such a result and the reductions of its groups have different axes, so each would be a
 * launch of its own that reads the input again. The result is computed over the groups and the
 * places in a group instead, and stored through an alias of the tensor that has these axes; inputs
 * that are read by groups are read through such aliases, too. An axis is split where it holds whole
 * groups for all sizes and no quotient or remainder of it is left then. An array that only such a
 * read asks for is computed there. Reductions over groups begin with the axis that lies nearest in
 * memory, so that rows are reduced before what is left of them is.
 *
 * Results that are computed of a product are left alone, since `raise_to_dot` and `collapse_axes`
 * look for its axes in the order of the source. Once collapse_intermediates has stored products,
 * results that are scattered by groups are stored through aliases, and what is read for them is
 * read so, too. Requires the tensor level and tensors that are contiguous. May add up sums over
 * several axes in another order. */
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
    Dim by;      /* a quotient or a remainder of the place by this; NULL: there is none */
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
        s->varies = s->varies || (axis->of && map_depends_on(axis->of, place));
        if (axis->of && map_as_axis(axis->of) == place && (!s->by || s->by == axis->by)) {
            s->by = axis->by;
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
static Dim groups_of(Func *func, Dim whole, Dim by, Dim hint)
{
    if (hint && dim_is_product(func, whole, hint, by)) {
        return hint;
    }
    Dim exact = an_exact_quotient(func, whole, by);
    if (exact) {
        return exact;
    }
    const DimVar *quotient = poly_as_var(by);
    if (quotient && quotient->by > 0) { /* groups of whole // n elements: n */
        Dim groups = poly_const(func, quotient->by);
        return dim_is_product(func, whole, groups, by) ? groups : NULL;
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        Dim size = poly_var(func, func->dimvars.items[i]);
        if (dim_is_product(func, whole, size, by)) {
            return size;
        }
    }
    int64_t width;
    return poly_is_const(by, &width) && poly_divisor(whole) % width == 0
               ? poly_var(func, func_own_quotient(func, NULL, whole, width))
               : NULL;
}

/* ---- results ---- */

/* The value with the axis as `groups` times `by`; NULL: it cannot be said so. */
static Value *split_value(Func *func, Op *store, Value *value, int axis, Dim groups, Dim by)
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
        if (i == axis) {
            r.dims[i] = groups;
        } else if (i == axis + 1) {
            r.dims[i] = by;
        } else {
            r.dims[i] = dim;
        }
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

static bool is_of_groups(Func *func, const Value *value);

/* The value with one more axis, where one of its axes is walked by groups; NULL: none is. */
static Value *split_once(Func *func, Op *store, Value *value)
{
    for (int axis = 0; axis < value->type->rank && value->type->rank < MAX_RANK - 1; axis++) {
        Search found = search_all(func, value, axis);
        int64_t number;
        if (!found.by || poly_most(found.by) < 2 || !found.reduces ||
            (!poly_is_const(found.by, &number) && !is_of_groups(func, value))) {
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

/* ---- reductions over groups and places ---- */

/* The axis of memory that is this of the value's, through what is made of it element by element;
 * -1: it is not read from memory so. */
static int axis_in_memory(const Value *value, int axis)
{
    const Op *op = value->def;
    while (op && op->kind != OP_LOAD && axis >= 0) {
        int operand = 0;
        while (operand + 1 < op->n_operands &&
               (!op->operands[operand] || op->operands[operand]->type->kind != TYPE_ARRAY)) {
            operand++;
        }
        bool moves = op_moves_axes(op);
        bool keeps = op->kind == OP_REDUCE || op_has(op, TRAIT_ELEMENTWISE);
        if (op->n_operands == 0 || (!moves && !keeps)) {
            return -1;
        }
        axis = moves ? op_operand_axis(op, 0, axis) : axis;
        op = op->operands[operand]->def;
    }
    return op && op->kind == OP_LOAD && op_accesses_whole(op) ? axis : -1;
}

/* The reduction that the op reduces further, and that nothing else reads; NULL: there is none. */
static Op *reduced_before(const Func *func, const Op *op)
{
    Op *first = op->kind == OP_REDUCE && op->n_operands == 1 ? op->operands[0]->def : NULL;
    bool same = first && first->kind == OP_REDUCE && first->n_operands == 1 &&
                text_equal(op_word(first, ATTR_FN), op_word(op, ATTR_FN)) &&
                value_count_uses(func, first->results[0]) == 1;
    return same ? first : NULL;
}

/* Reduces axes that lie nearer in memory first: what is left of a run of neighbours is one element,
 * and what is left of places far apart a row. */
static void reduce_inner_first(Func *func)
{
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        Op *first = reduced_before(func, op);
        if (!first) {
            continue;
        }
        const Value *from = first->operands[0];
        int one = (int)op_int(first, ATTR_AXIS, 0), other = (int)op_int(op, ATTR_AXIS, 0);
        int far = axis_in_memory(from, one), near = axis_in_memory(from, other);
        if (far >= 0 && near > far) {
            Builder b = build_before(func, op);
            b.span = op->span;
            const char *fn = op_word(op, ATTR_FN);
            Value *value = build_reduce(&b, fn, (Value *)from, other);
            value = build_reduce(&b, fn, value, one);
            value->name = op->results[0]->name;
            func_replace_uses(func, op->results[0], value);
            op_remove(op);
            next = value->def->operands[0]->def; /* it may lie nearer than what was before */
        }
    }
}

/* ---- the program ---- */

typedef struct Products {
    Memo *varies, *seen;
} Products;

/* A dot, or a sum of products of factors of which each varies along an axis that the other does not
 * vary along. */
static bool is_product(const Products *products, const Op *op)
{
    if (op->kind == OP_DOT) {
        return true;
    }
    const Op *mul = op->kind == OP_REDUCE ? op->operands[0]->def : NULL;
    while (mul && (mul->kind == OP_CAST || mul->kind == OP_SELECT || op_moves_axes(mul) ||
                   mul->kind == OP_REDUCE)) {
        mul = mul->operands[mul->kind == OP_SELECT]->def;
    }
    if (!mul || mul->kind != OP_MUL) {
        return false;
    }
    unsigned left = an_varies(products->varies, mul->operands[0]);
    unsigned right = an_varies(products->varies, mul->operands[1]);
    return (left & ~right) && (right & ~left);
}

/* Is the value computed of a product, behind what is loaded? Values that were seen have none. */
static bool has_product(const Products *products, const Value *value)
{
    const Op *op = value->def;
    if (!op || type_is_memory(value->type) || !memo_visit(products->seen, value)) {
        return false;
    }
    bool found = is_product(products, op);
    for (int i = 0; !found && i < op->n_operands; i++) {
        found = op->operands[i] && has_product(products, op->operands[i]);
    }
    return found;
}

static void find_quotient(Op *op, void *user)
{
    bool quotient =
        (op->kind == OP_DIV || op->kind == OP_MOD) && !dtype_is_float(op->results[0]->type->dtype);
    *(bool *)user = *(bool *)user || quotient;
}

static bool is_of_product(Func *func, const Value *value)
{
    Products products = {an_varies_all(func), memo_open(func)};
    bool found = has_product(&products, value);
    memo_close(products.varies);
    memo_close(products.seen);
    return found;
}

/* Is the index a quotient or a remainder: are elements of groups put in one row? */
static bool divides(const Value *index)
{
    const Op *op = index ? index->def : NULL;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && (op->kind == OP_DIV || op->kind == OP_MOD);
}

enum { IS_READ = 1 }; /* key of a memo */

/* Is the value read from memory, but for what is made of it element by element? */
static bool is_read(Memo *memo, const Value *value)
{
    const Op *op = value->def;
    int64_t known;
    if (memo_known(memo, value, IS_READ, &known)) {
        return known != 0;
    }
    bool good = op && (op->kind == OP_LOAD || op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE) ||
                       op->kind == OP_CONST || op->kind == OP_SIZE);
    for (int i = 0; good && op->kind != OP_LOAD && i < op->n_operands; i++) {
        good = type_is_scalar(op->operands[i]->type) || is_read(memo, op->operands[i]);
    }
    return memo_keep(memo, value, IS_READ, good) != 0;
}

/* Does all that reads groups of an array read what is in memory? Of other arrays, as what pooling
 * leaves, each launch would compute the elements again. */
static bool reads_groups(Memo *seen, const Value *value)
{
    const Op *op = value->def;
    bool good = true;
    if (!op || type_is_memory(value->type) || !memo_visit(seen, value)) {
        return true;
    }
    if (op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_ARRAY) {
        bool puts = false;
        for (int i = 1; i < op->n_operands; i++) {
            puts = puts || divides(op->operands[i]);
        }
        good = puts || is_read(seen, op->operands[0]);
    }
    for (int i = 0; good && i < op->n_operands; i++) {
        good = !op->operands[i] || reads_groups(seen, op->operands[i]);
    }
    return good;
}

/* May the result be split where the groups' elements are no number? */
static bool is_of_groups(Func *func, const Value *value)
{
    Memo *seen = memo_open(func);
    bool good = reads_groups(seen, value);
    memo_close(seen);
    return good;
}

/* What is the same once axes are split is computed once. */
static void read_split(Func *func)
{
    func_remove_dead(func);
    split_reads(func);
    pass_gather_to_load(func);
    reduce_inner_first(func);
    pass_simplify(func);
}

/* Lets the gather of what is loaded whole from scratch memory, and perhaps permuted, read the
 * memory itself. */
static bool read_scratch(Func *func, Op *gather)
{
    const Op *from = gather->operands[0]->def;
    const Op *permute = from && from->kind == OP_PERMUTE ? from : NULL;
    const Op *load = permute ? permute->operands[0]->def : from;
    if (!load || load->kind != OP_LOAD || !op_accesses_whole(load) ||
        func->params.items[load->operands[0]->index].io != PARAM_SCRATCH ||
        !split_can_alias(func, load->operands[0])) {
        return false;
    }
    int rank = gather->operands[0]->type->rank;
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int64_t axis = permute ? op_attr(permute, ATTR_PERM)->ints[i] : i;
        indices[axis] = gather->operands[1 + i];
        guards[axis] = guard ? guard->ints[i] : 0;
    }
    op_set_operand(gather, 0, load->operands[0]);
    for (int i = 0; i < rank; i++) {
        op_set_operand(gather, 1 + i, indices[i]);
    }
    if (guard) {
        op_set_ints(func, gather, ATTR_GUARD, rank, guards);
    }
    return true;
}

bool split_scratch_reads(Func *func)
{
    bool any = false;
    for (Op *op = func->body->first; op; op = op->next) {
        any = (op->kind == OP_GATHER && read_scratch(func, op)) || any;
    }
    if (any) {
        read_split(func);
    }
    return any;
}

bool split_writes(Func *func)
{
    bool any = false;
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        any = (op->kind == OP_SCATTER && !is_of_product(func, op_moved_value(op)) &&
               is_of_groups(func, op_moved_value(op)) && split_write(func, op)) ||
              any;
    }
    if (any) {
        read_split(func);
    }
    return any;
}

void pass_split_axes(Func *func)
{
    bool quotients = false, any = false;
    func_walk(func, find_quotient, &quotients);
    for (Op *op = func->body->first, *next; quotients && op; op = next) {
        next = op->next;
        any = (stores_result(func, op) && !is_of_product(func, op_moved_value(op)) &&
               split_store(func, op)) ||
              any;
    }
    if (any) {
        read_split(func);
    }
    func_remove_dead(func);
}
