/* SPDX-License-Identifier: Apache-2.0 */
/* bounds: proves or guards each access and masks the padding of ragged axes.
 *
 *   %a = load %x[%m, %n] : f32[%m, %n]       %a = load %x[%m, %n] guard=[1, 1] : f32[%m, %n]
 *   %s = reduce %a fn=sum axis=1        →    %b = mask %a axis=1 value=0
 *                                            %s = reduce %b fn=sum axis=1
 *
 * An index of a gather or scatter is guarded unless it is proven to be inside, also for padding.
 * Padding is not scattered, not printed and does not keep a loop running: masks are false there.
 *
 * A range is full if its tile size divides its extent by the known divisors of the sizes. Otherwise
 * accesses along it are guarded, and reductions and dots over it read a `mask` with the identity
 * element, unless the guarded load already fills in that value. Establishes `padded`. Changes no
 * bits. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/index_bounds.h"
#include "passes/analysis/padding_value.h"
#include "passes/analysis/range_facts.h"
#include "passes/analysis/reduce_identity.h"
#include "passes/pass.h"
#include "support/hash_table.h"

static bool index_needs_guard(Func *func, const Value *memory, int axis, const Value *index)
{
    if (!index) {
        return false;
    }
    if (index->type->kind == TYPE_RANGE) {
        const DimVar *range = poly_as_range(index->type->dims[0]);
        return !range_is_full(range) || range->axis_extent != memory->type->dims[axis];
    }
    return !an_index_inside(func, index, memory->type->dims[axis]);
}

/* A scalar index of which the access says that it is inside was proven to be when it was made. */
static void guard_access(Func *func, Op *op)
{
    int64_t guard[MAX_RANK];
    const Attr *given = op_attr(op, ATTR_GUARD);
    bool any = false;
    Access access = op_access(op, 0);
    for (int i = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        bool inside = given && !given->ints[i] && index && type_is_scalar(index->type);
        guard[i] = !inside && index_needs_guard(func, access.memory, i, index);
        any = any || guard[i];
    }
    if (any) {
        op_set_ints(func, op, ATTR_GUARD, access.n, guard);
    } else if (given) {
        op_drop_attr(op, ATTR_GUARD);
    }
}

static bool is_ragged(const Value *value)
{
    bool ragged = false;
    for (int i = 0; i < value->type->rank; i++) {
        const DimVar *range = poly_as_range(value->type->dims[i]);
        ragged = ragged || (range && !range_is_full(range));
    }
    return ragged;
}

/* An index that the program computes. A proof that it is inside covers elements that exist; the
 * padding of a GPU tile needs a mask as well, which a scatter has. */
static void guard_indices(Func *func, Op *op)
{
    int64_t guard[MAX_RANK];
    Access access = op_access(op, 0);
    const Attr *given = op_attr(op, ATTR_GUARD);
    bool any = false, cpu = func->target && func->target->family == FAMILY_CPU;
    for (int i = 0; i < access.n; i++) {
        bool whole = cpu || op->kind == OP_SCATTER || !is_ragged(access.indices[i]);
        bool inside = given && !given->ints[i] && whole;
        guard[i] =
            !inside && !an_index_inside(func, access.indices[i], access.memory->type->dims[i]);
        any = any || guard[i];
    }
    if (any) {
        op_set_ints(func, op, ATTR_GUARD, access.n, guard);
    } else if (given) {
        op_drop_attr(op, ATTR_GUARD);
    }
}

static bool axis_is_ragged(const Value *value, int axis)
{
    const DimVar *range = poly_as_range(value->type->dims[axis]);
    return range && !range_is_full(range);
}

static bool same_value(const void *item, const void *key)
{
    return item == key;
}

/* What is reduced counts on the zeros that guarded loads below it put past the ends: no other
 * reduction of the same tile may choose otherwise. `shared`: true if an op that is no part of this
 * reduction reads what is made of the value, such as a second reduction of the same cast. */
static void settle_loads(Func *func, Value *value, bool shared, HashTable *seen)
{
    Op *op = value ? value->def : NULL;
    uint64_t hash = value ? hash_word(0, value->id) : 0;
    if (!op || op->n_regions > 0 || table_find(seen, hash, same_value, value)) {
        return;
    }
    table_add(func->arena, seen, hash, value);
    shared = shared || value_count_uses(func, value) > 1;
    if (op->kind == OP_LOAD) {
        if (shared && op_attr(op, ATTR_GUARD) && !op_attr(op, ATTR_VALUE)) {
            op_set_num(func, op, ATTR_VALUE, 0, 0);
        }
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        settle_loads(func, op->operands[i], shared, seen);
    }
}

static bool padding_is(Func *func, Value *value, int axis, double f, int64_t i)
{
    Scalar held;
    if (!padding_value(func, value, axis, &held)) {
        return false;
    }
    bool is = dtype_is_float(value->type->dtype) ? held.f == f : held.i == i;
    if (is) {
        settle_loads(func, value, false, &(HashTable){0});
    }
    return is;
}

/* Ops after the mask read the masked value too: the value of their padding is then known, and
 * they need no mask of their own. */
static void mask_operand(Func *func, Op *op, int n, int axis, double f, int64_t i)
{
    Value *value = op->operands[n];
    Builder before = build_before(func, op);
    Value *masked = build_mask(&before, value, axis, f);
    op_set_num(func, masked->def, ATTR_VALUE, f, i);
    for (const ValueUse *use = use_first(value, op->parent), *next; use; use = next) {
        next = use_next(use, op->parent);
        if (use->op->parent == op->parent && !op_is_before(use->op, op)) {
            op_set_operand(use->op, (int)(use - use->op->uses), masked);
        }
    }
}

/* The guarded load that the value is, or that it is an upcast of, if its padding has no value
 * yet. */
static Op *open_load(const Value *value)
{
    const Value *from = value;
    if (from->def && from->def->kind == OP_CAST && dtype_is_float(from->type->dtype)) {
        from = from->def->operands[0];
    }
    Op *load = from->def;
    bool open = load && load->kind == OP_LOAD && op_attr(load, ATTR_GUARD) &&
                !op_attr(load, ATTR_VALUE) && dtype_is_float(from->type->dtype);
    return open ? load : NULL;
}

/* The load itself fills in the identity element past the ends, which costs nothing. */
static bool pad_load(Func *func, Value *value, int axis, double f)
{
    Op *load = open_load(value);
    if (!load) {
        return false;
    }
    op_set_num(func, load, ATTR_VALUE, f, 0);
    if (padding_is(func, value, axis, f, 0)) {
        return true;
    }
    op_drop_attr(load, ATTR_VALUE);
    return false;
}

static void mask_reduce(Func *func, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t i = 0;
    double f = reduce_neutral(op_word(op, ATTR_FN), op->results[0]->type->dtype, &i);
    Value *value = op->operands[0];
    if (!axis_is_ragged(value, axis)) {
        return;
    }
    if (!padding_is(func, value, axis, f, i) && !pad_load(func, value, axis, f)) {
        mask_operand(func, op, 0, axis, f, i);
    }
}

static void mask_dot(Func *func, Op *op)
{
    for (int n = 0; n < 2; n++) {
        int axis = 1 - n; /* the inner axis of a[m, k] and of b[k, n] */
        if (axis_is_ragged(op->operands[n], axis) &&
            !padding_is(func, op->operands[n], axis, 0, 0)) {
            mask_operand(func, op, n, axis, 0, 0);
        }
    }
}

/* ---- scans and folds ---- */

/* A scan toward the end has padding behind it, one from the end before it. */
static void mask_scan(Func *func, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t i = 0;
    double f = reduce_neutral(op_word(op, ATTR_FN), op->results[0]->type->dtype, &i);
    if (op_int(op, ATTR_REVERSE, 0) && axis_is_ragged(op->operands[0], axis) &&
        !padding_is(func, op->operands[0], axis, f, i)) {
        mask_operand(func, op, 0, axis, f, i);
    }
}

/* Which elements along `axis` are there. */
static Value *elements_there(Builder *b, Type type, int axis)
{
    Value *range = poly_as_range(type->dims[axis])->binder;
    Value *index = build_index(b, range, DT_I64), *end = build_range_fact(b, OP_END, range);
    Value *there = build_cmp(b, "lt", index, build_broadcast(b, end, 1, index->type->dims));
    for (int i = axis + 1; i < type->rank; i++) {
        there = build_expand(b, there, there->type->rank);
    }
    return build_broadcast(b, there, type->rank, type->dims);
}

static void mask_fold(Func *func, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0), n = fold_count(op);
    Type type = op->operands[0]->type;
    bool whole = op_int(op, ATTR_SCAN, 0) && !op_int(op, ATTR_REVERSE, 0);
    if (!axis_is_ragged(op->operands[0], axis) || whole) {
        return;
    }
    Builder b = build_before(func, op);
    Value *there = elements_there(&b, type, axis);
    for (int i = 0; i < n; i++) {
        Value *neutral = build_broadcast(&b, op->operands[n + i], type->rank, type->dims);
        op_set_operand(op, i, build_select(&b, there, op->operands[i], neutral));
    }
}

/* ---- effects of padding ---- */

/* The bool with `neutral` where the index is past the end of any of its axes. */
static Value *masked_bool(Builder *b, Value *value, int neutral)
{
    for (int i = 0; i < value->type->rank; i++) {
        if (axis_is_ragged(value, i)) {
            value = build_mask(b, value, i, neutral);
            op_set_num(b->func, value->def, ATTR_VALUE, neutral, neutral);
        }
    }
    return value;
}

static void mask_scatter(Func *func, Op *op)
{
    ScatterParts parts = scatter_parts(op);
    Builder b = build_before(func, op);
    bool ragged = false;
    for (int i = 0; i < parts.value->type->rank; i++) {
        ragged = ragged || axis_is_ragged(parts.value, i);
    }
    if (!ragged) {
        return;
    }
    Type type = type_with_dtype(func, parts.value->type, DT_BOOL);
    int n = op->n_operands - (parts.mask ? 1 : 0);
    Value **operands = ARENA_ARRAY(func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        operands[i] = op->operands[i];
    }
    operands[n] = masked_bool(&b, parts.mask ? parts.mask : build_int(&b, type, 1), 0);
    op_set_operands(func, op, n + 1, operands);
}

static void mask_condition(Func *func, Op *op, int operand, int neutral)
{
    Builder b = build_before(func, op);
    op_set_operand(op, operand, masked_bool(&b, op->operands[operand], neutral));
}

/* What is no digit counts nowhere. */
static void mask_histogram(Func *func, Op *op)
{
    int64_t groups = poly_capacity(op->results[0]->type->dims[0]);
    if (axis_is_ragged(op->operands[0], 0)) {
        mask_operand(func, op, 0, 0, (double)groups, groups);
    }
}

/* An element of padding gets index -1, which stores it nowhere. */
static void mask_places(Func *func, Op *op)
{
    if (axis_is_ragged(op->operands[1], 0)) {
        mask_operand(func, op, 1, 0, -1, -1);
    }
}

static void bound_op(Op *op, void *user)
{
    Func *func = user;
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE: guard_access(func, op); break;
    case OP_GATHER: guard_indices(func, op); break;
    case OP_SCATTER:
        guard_indices(func, op);
        mask_scatter(func, op);
        break;
    case OP_REDUCE: mask_reduce(func, op); break;
    case OP_SCAN: mask_scan(func, op); break;
    case OP_FOLD: mask_fold(func, op); break;
    case OP_HISTOGRAM: mask_histogram(func, op); break;
    case OP_TILE_SCATTER: mask_places(func, op); break;
    case OP_WHILE: mask_condition(func, op->regions[0]->last, 0, 0); break;
    case OP_PRINT: mask_condition(func, op, 0, 0); break;
    case OP_ASSERT: mask_condition(func, op, 0, 1); break;
    case OP_DOT: mask_dot(func, op); break;
    default: break;
    }
}

/* ---- windows that are written out ---- */

/* True if both gathers read elements at the same distances from each other. */
static bool move_alike(const Op *a, const Op *b)
{
    for (int i = 1; i < a->n_operands; i++) {
        for (int axis = 0; axis < a->operands[i]->type->rank; axis++) {
            int64_t step, other;
            if (b->operands[i]->type != a->operands[i]->type ||
                !an_index_stride(a->operands[i], axis, &step) ||
                !an_index_stride(b->operands[i], axis, &other) || step != other) {
                return false;
            }
        }
    }
    return true;
}

static Op *gather_before(const Op *op)
{
    Op *other = op->prev;
    while (other && !(other->kind == OP_GATHER && other->operands[0] == op->operands[0] &&
                      other->results[0]->type == op->results[0]->type)) {
        other = other->prev;
    }
    return other && move_alike(op, other) ? other : NULL;
}

/* What neighbours in a window read in common is one access where all guard it alike, though the
 * middle one needs no guard. */
static void guard_alike(Op *op, void *user)
{
    Func *func = user;
    Op *other = op->kind == OP_GATHER ? gather_before(op) : NULL;
    int rank = other ? op->operands[0]->type->rank : 0;
    const Attr *a = other ? op_attr(op, ATTR_GUARD) : NULL;
    const Attr *b = other ? op_attr(other, ATTR_GUARD) : NULL;
    int64_t guard[MAX_RANK];
    if (!other || (!a && !b)) {
        return;
    }
    for (int i = 0; i < rank; i++) {
        guard[i] = (a && a->ints[i]) || (b && b->ints[i]);
    }
    op_set_ints(func, op, ATTR_GUARD, rank, guard);
    op_set_ints(func, other, ATTR_GUARD, rank, guard);
}

static void guard_block(Block *block, Func *func)
{
    for (Op *op = block->first; op; op = op->next) {
        guard_alike(op, func);
        for (int i = 0; i < op->n_regions; i++) {
            guard_block(op->regions[i], func);
        }
    }
    for (Op *op = block->last; op; op = op->prev) {
        guard_alike(op, func);
    }
}

void pass_bounds(Func *func)
{
    func_walk(func, bound_op, func);
    if (func->target && func->target->family != FAMILY_CPU) {
        guard_block(func->body, func);
    }
    func->padded = true;
}
