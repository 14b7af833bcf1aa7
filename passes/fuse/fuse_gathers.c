/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers from arrays. `x[i - 1]` of a computed x is computed at i - 1 where that is cheap:
 *
 *   %d = sub %a, %b                          %p = gather %x[%i]
 *   %g = gather %d[%i]              →        %q = gather %y[%i]
 *                                            %e = sub %p, %q
 *                                            %g = select %inside, %e, 0
 *
 * What its rows come to (a sum of each) and is asked for at its own places is taken as it is.
 * Otherwise the array is stored, and the gather reads it from memory: in the narrower type, where
 * that is all that is asked for.
 *
 *   %g = gather %d[%i] : f32[N]              %e = cast %d : bf16[M]
 *   %h = cast %g : bf16[N]           →       %h = gather %e[%i] : bf16[N]
 */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"
#include "passes/analysis/index_bounds.h"

enum {
    MAX_OPS = 8,       /* that are computed again at each place of several */
    MAX_OPS_ONCE = 64, /* where each element is asked for about once */
};

/* ---- may it be computed at the place? ---- */

/* What is written later may have changed at the place of the gather. */
static bool is_unchanging(const Func *func, const Value *memory)
{
    ParamIo io = func->params.items[memory->index].io;
    return io == PARAM_IN || io == PARAM_SCRATCH;
}

/* The axis of `shape` whose coordinate the index is; -1: of none. */
static int own_axis(const Value *index, Type shape)
{
    const Op *op = index ? index->def : NULL;
    if (!index || type_is_scalar(index->type)) {
        return -1;
    }
    int axis = -1, rank = index->type->rank;
    const Op *chain[MAX_RANK];
    int n = 0;
    for (; op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND) && n < MAX_RANK;
         op = op->operands[0]->def) {
        chain[n++] = op;
    }
    if (!op || op->kind != OP_IOTA) {
        return -1;
    }
    for (axis = 0; n-- > 0;) {
        int grown = chain[n]->results[0]->type->rank - chain[n]->operands[0]->type->rank;
        bool before = chain[n]->kind == OP_BROADCAST || op_int(chain[n], ATTR_AXIS, 0) <= axis;
        axis += before ? grown : 0;
    }
    axis += shape->rank - rank;
    return axis >= 0 && shape->dims[axis] == op_attr(op, ATTR_DIM)->dims[0] ? axis : -1;
}

/* Is each element asked for at its own place: is the value, as a `shape`, what is read? */
static bool is_at_own_places(const Value *value, Value *const *indices, Type shape)
{
    int last = -1;
    for (int i = 0; i < value->type->rank; i++) {
        int64_t extent;
        int axis = own_axis(indices[i], shape);
        if (poly_is_const(value->type->dims[i], &extent) && extent == 1) {
            continue;
        }
        if (axis <= last || shape->dims[axis] != value->type->dims[i]) {
            return false;
        }
        last = axis;
    }
    return true;
}

/* The indices into the operand of an op that moves axes; NULL: its only element along that axis. */
static void indices_below(const Op *op, Value *const *indices, Value **inner)
{
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        inner[i] = axis.role == AXIS_TIED ? indices[axis.result] : NULL;
    }
}

typedef struct Asked {
    const Func *func;
    Type shape; /* of the gather's result */
} Asked;

static int weigh(const Asked *a, const Value *value, Value *const *indices, int most);

static int weigh_operands(const Asked *a, const Op *op, Value *const *indices, int first, int most)
{
    int sum = 0;
    for (int i = first; i < op->n_operands && sum <= most; i++) {
        sum += op->operands[i] ? weigh(a, op->operands[i], indices, most - sum) : 0;
    }
    return sum;
}

static int weigh(const Asked *a, const Value *value, Value *const *indices, int most)
{
    const Op *op = value->def;
    Value *inner[MAX_RANK];
    if (type_is_scalar(value->type)) {
        return 0;
    }
    if (!op) {
        return most + 1;
    }
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA: return 0;
    case OP_LOAD: return is_unchanging(a->func, op->operands[0]) ? 0 : most + 1;
    default: break;
    }
    if (op_moves_axes(op)) {
        indices_below(op, indices, inner);
        return weigh(a, op->operands[0], inner, most);
    }
    if (is_at_own_places(value, indices, a->shape)) {
        return 0;
    }
    if (op->kind == OP_GATHER) {
        return type_is_memory(op->operands[0]->type) && is_unchanging(a->func, op->operands[0])
                   ? 1 + weigh_operands(a, op, indices, 1, most - 1)
                   : most + 1;
    }
    return op_has(op, TRAIT_ELEMENTWISE) ? 1 + weigh_operands(a, op, indices, 0, most - 1)
                                         : most + 1;
}

/* As many elements are asked for as there are: a shift, a flip, a piece. */
static bool asks_once(const Op *gather)
{
    Type from = gather->operands[0]->type, to = gather->results[0]->type;
    return to->rank <= from->rank;
}

static bool is_cheap_there(const Func *func, const Op *gather)
{
    int most = asks_once(gather) ? MAX_OPS_ONCE : MAX_OPS;
    const Asked asked = {func, gather->results[0]->type};
    Value *indices[MAX_RANK];
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    return weigh(&asked, gather->operands[0], indices, most) <= most;
}

/* ---- computing it at the place ---- */

typedef struct Spot {
    Builder at;
    Type shape;     /* of the result; its element type does not count */
    bool strays;    /* some of the indices may lie outside: what is made there is not used */
    CloneMap known; /* what has been computed at these indices */
} Spot;

static Value *value_at(Spot *p, Value *value, Value *const *indices);

static Type shaped(const Spot *p, DType dtype)
{
    return type_with_dtype(p->at.func, p->shape, dtype);
}

static Value *spread(Spot *p, Value *scalar)
{
    return build_broadcast(&p->at, scalar, p->shape->rank, p->shape->dims);
}

/* An index as an array of the result's shape and of this type. */
static Value *index_as(Spot *p, Value *index, DType dtype)
{
    return build_cast(&p->at, spread(p, index), dtype);
}

static Value *load_at(Spot *p, const Op *load, Value *const *indices)
{
    Value *all[MAX_RANK];
    Access access = op_access(load, 0);
    for (int i = 0, axis = 0; i < access.n; i++) {
        all[i] = access.indices[i] ? access.indices[i] : indices[axis++];
    }
    Value *result = build_gather(&p->at, access.memory, all);
    return type_is_scalar(result->type) ? spread(p, result) : result;
}

static Value *gather_at(Spot *p, const Op *gather, Value *const *indices)
{
    Value *all[MAX_RANK];
    for (int i = 1; i < gather->n_operands; i++) {
        Value *index = gather->operands[i];
        all[i - 1] = type_is_scalar(index->type) ? index : value_at(p, index, indices);
    }
    Value *result = build_gather(&p->at, gather->operands[0], all);
    const Attr *value = op_attr(gather, ATTR_VALUE);
    if (!p->strays) {
        result->def->n_attrs = gather->n_attrs;
        result->def->attrs = gather->attrs;
    } else if (value) { /* no guard: what was proven of the array's own indices is not of these */
        op_set_num(p->at.func, result->def, ATTR_VALUE, value->f, value->i);
    }
    return type_is_scalar(result->type) ? spread(p, result) : result;
}

static Value *moved_at(Spot *p, const Op *op, Value *const *indices)
{
    Value *inner[MAX_RANK];
    indices_below(op, indices, inner);
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        inner[i] = inner[i] ? inner[i] : build_i64(&p->at, 0);
    }
    Spot there = {p->at, p->shape, p->strays, clone_map_new(p->at.func)};
    return value_at(&there, op->operands[0], inner);
}

static Value *computed_at(Spot *p, const Op *op, Value *const *indices)
{
    Value *operands[4];
    Type type = shaped(p, op->results[0]->type->dtype);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = value_at(p, op->operands[i], indices);
    }
    Op *copy = build_op(&p->at, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

/* The value as an array of the result's shape. */
static Value *taken_as_it_is(Spot *p, Value *value, Value *const *indices)
{
    bool has[MAX_RANK] = {false};
    for (int i = value->type->rank; i-- > 0;) {
        int64_t extent;
        if (poly_is_const(value->type->dims[i], &extent) && extent == 1) {
            value = build_squeeze(&p->at, value, i);
        } else {
            has[own_axis(indices[i], p->shape)] = true;
        }
    }
    if (type_is_scalar(value->type)) {
        return spread(p, value);
    }
    for (int k = 0; k < p->shape->rank; k++) {
        value = has[k] ? value : build_expand(&p->at, value, k);
    }
    return build_broadcast(&p->at, value, p->shape->rank, p->shape->dims);
}

static bool is_computed(const Op *op)
{
    return op->kind != OP_LOAD && op->kind != OP_IOTA && op->kind != OP_CONST && !op_moves_axes(op);
}

static Value *made_at(Spot *p, Value *value, Value *const *indices)
{
    const Op *op = value->def;
    if (is_computed(op) && is_at_own_places(value, indices, p->shape)) {
        return taken_as_it_is(p, value, indices);
    }
    switch (op->kind) {
    case OP_LOAD: return load_at(p, op, indices);
    case OP_GATHER: return gather_at(p, op, indices);
    case OP_IOTA: return index_as(p, indices[0], value->type->dtype);
    case OP_CONST: {
        Type type = shaped(p, value->type->dtype);
        Value *copy = build_op(&p->at, OP_CONST, 0, NULL, 1, &type, 0)->results[0];
        copy->def->n_attrs = op->n_attrs;
        copy->def->attrs = op->attrs;
        return copy;
    }
    default: return op_moves_axes(op) ? moved_at(p, op, indices) : computed_at(p, op, indices);
    }
}

static Value *value_at(Spot *p, Value *value, Value *const *indices)
{
    if (type_is_scalar(value->type)) {
        return spread(p, value);
    }
    Value *known = clone_get(&p->known, value);
    if (known == value) {
        known = made_at(p, value, indices);
        clone_map_value(&p->known, value, known);
    }
    return known;
}

/* ---- elements outside ---- */

static Value *both(Spot *p, Value *a, Value *b)
{
    return a ? build_binary(&p->at, OP_AND, a, b) : b;
}

static bool axis_stays_inside(Func *func, const Op *gather, int axis)
{
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    return guard ? !guard->ints[axis]
                 : an_index_inside(func, gather->operands[axis + 1],
                                   gather->operands[0]->type->dims[axis]);
}

static bool strays(Func *func, const Op *gather)
{
    bool found = false;
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        found = found || !axis_stays_inside(func, gather, i);
    }
    return found;
}

/* Where the indices lie inside of the array; NULL: everywhere. */
static Value *inside(Spot *p, const Op *gather)
{
    Type from = gather->operands[0]->type;
    Value *holds = NULL;
    for (int i = 0; i < from->rank; i++) {
        Value *index = gather->operands[i + 1];
        if (axis_stays_inside(p->at.func, gather, i)) {
            continue;
        }
        Value *wide = index_as(p, index, DT_I64);
        Value *zero = spread(p, build_i64(&p->at, 0));
        Value *extent = spread(p, build_size(&p->at, from->dims[i]));
        holds = both(p, holds, build_cmp(&p->at, "ge", wide, zero));
        holds = both(p, holds, build_cmp(&p->at, "lt", wide, extent));
    }
    return holds;
}

static Value *outside_value(Spot *p, const Op *gather)
{
    Type type = shaped(p, gather->results[0]->type->dtype);
    const Attr *value = op_attr(gather, ATTR_VALUE);
    return dtype_is_float(type->dtype) ? build_float(&p->at, type, value ? value->f : 0)
                                       : build_int(&p->at, type, value ? value->i : 0);
}

/* What is read straight from memory is guarded there: an array of the tensor's own extents. */
static bool is_plain_read(const Op *gather)
{
    const Op *load = gather->operands[0]->def;
    return load && load->kind == OP_LOAD && load->parent &&
           load->results[0]->type->rank == load->operands[0]->type->rank;
}

static void compute_there(Func *func, Op *gather)
{
    Value *indices[MAX_RANK];
    Spot p = {build_before(func, gather), gather->results[0]->type, strays(func, gather),
              clone_map_new(func)};
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    Value *value = value_at(&p, gather->operands[0], indices);
    if (is_plain_read(gather) && value->def->kind == OP_GATHER) {
        value->def->n_attrs = gather->n_attrs;
        value->def->attrs = gather->attrs;
    } else {
        Value *holds = inside(&p, gather);
        value = holds ? build_select(&p.at, holds, value, outside_value(&p, gather)) : value;
    }
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
}

/* ---- what is stored ---- */

/* The cast to fewer bytes that is all of the gather's uses; NULL: none, or what is outside is other
 * than 0. */
static Op *only_narrowed(const Func *func, const Op *gather)
{
    const Value *value = gather->results[0];
    const Attr *outside = op_attr(gather, ATTR_VALUE);
    Op *op = gather->next;
    while (op && !(op->kind == OP_CAST && op->operands[0] == value)) {
        op = op->next;
    }
    bool narrows = op && dtype_bytes(op->results[0]->type->dtype) < dtype_bytes(value->type->dtype);
    return narrows && (!outside || (outside->i == 0 && outside->f == 0)) &&
                   value_count_uses(func, value) == 1 &&
                   value_count_uses(func, gather->operands[0]) == 1
               ? op
               : NULL;
}

/* The gather of narrowed elements, in place of one whose elements are narrowed. */
static Op *narrowed_first(Func *func, Op *gather, Op *cast)
{
    Value *indices[MAX_RANK], *from = gather->operands[0];
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    Builder b = build_after(func, from->def);
    Value *narrow = build_cast(&b, from, cast->results[0]->type->dtype);
    b = build_before(func, gather);
    b.span = gather->span;
    Value *value = build_gather(&b, narrow, indices);
    value->def->n_attrs = gather->n_attrs;
    value->def->attrs = gather->attrs;
    value->name = gather->results[0]->name;
    func_replace_uses(func, cast->results[0], value);
    op_remove(cast);
    op_remove(gather);
    return value->def;
}

/* ---- all of them ---- */

static bool is_of_array(const Op *op)
{
    return op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_ARRAY;
}

static bool may_be_stored(const Func *func, const Op *gather)
{
    const Value *of = gather->operands[0];
    return of->def && fuse_may_materialize(func, of->def->parent, of);
}

static void place_gather(Op *op, void *user)
{
    Func *func = user;
    if (!is_of_array(op)) {
        return;
    }
    if (is_cheap_there(func, op)) {
        compute_there(func, op);
    } else if (may_be_stored(func, op)) {
        Op *store = fuse_materialize(func, op->operands[0]);
        if (is_cheap_there(func, op)) { /* it reads the intermediate now */
            compute_there(func, op);
        }
        (void)store;
    }
}

void fuse_gathers(Func *func, Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        bool stored = is_of_array(op) && may_be_stored(func, op) && !is_cheap_there(func, op);
        Op *cast = stored ? only_narrowed(func, op) : NULL;
        op = cast ? narrowed_first(func, op, cast) : op;
    }
    block_walk(block, place_gather, func);
}
