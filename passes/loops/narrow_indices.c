/* SPDX-License-Identifier: Apache-2.0 */
/* narrow_indices: computes and compares indices in 32 bits where the sizes allow.
 *
 *   %i = index %r : i64[%r]                 %i = index %r : i32[%r]
 *   %c = cmp %i, %k pred=ge            →    %c = cmp %i, %k pred=ge
 *
 * Indices are i64 in the language, and a GPU compares i64 in two instructions per element of a
 * mask. If both sides of a comparison are indices, sizes or ends of ranges, and the known sizes
 * bound them below 2^31, i32 gives the same answer. The same holds for arithmetic on indices, if no
 * intermediate result can leave 32 bits, and for a float that is converted to an index: where the
 * conversion saturates, either type is outside. What is repeated along an axis, a scalar or one
 * element a row, of which nothing is known, compares with such an index as the nearest number of 32
 * bits does. Divisions of indices that are never negative are marked, since others round toward
 * -inf, which takes instructions.
 *
 *   %d = sub %i, %j : i64[%r, %c]           %d = sub %fi, %fj : f32[%r, %c]
 *   %f = cast %d : f32[%r, %c]         →    (%fi, %fj: index : f32[%r], f32[%c])
 *
 * Sums and differences of indices that are wanted as f32, as for a bias by distance, are computed
 * so where f32 has all of them: a GPU converts an integer in the time of four additions. Requires:
 * tile. Changes no bits. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/index_bounds.h"
#include "passes/pass.h"

#include <string.h>

enum { MAX_DEPTH = 32 };

static bool fits(Dim dim)
{
    return poly_most(dim) < INT32_MAX && poly_least(dim) > INT32_MIN;
}

static bool is_narrow(const Value *value)
{
    const Op *op = value->def;
    if (!op || value->type->dtype != DT_I64) {
        return false;
    }
    switch (op->kind) {
    case OP_INDEX:
    case OP_START:
    case OP_END: return fits(poly_as_range(op->operands[0]->type->dims[0])->axis_extent);
    case OP_SIZE: return fits(op_attr(op, ATTR_DIM)->dims[0]);
    case OP_CONST:
        return op_attr(op, ATTR_VALUE)->i < INT32_MAX && op_attr(op, ATTR_VALUE)->i > INT32_MIN;
    case OP_CAST: return op->operands[0]->type->dtype == DT_I32;
    default: return op_moves_axes(op) && is_narrow(op->operands[0]);
    }
}

/* The same value as i32, computed next to the old one. */
static Value *narrowed(Func *func, Value *value)
{
    Op *op = value->def;
    Builder b = build_after(func, op);
    if (op->kind == OP_CAST && op->operands[0]->type->dtype == DT_I32) {
        return op->operands[0];
    }
    if (op->kind != OP_INDEX && op->kind != OP_CONST && !op_moves_axes(op)) {
        return build_cast(&b, value, DT_I32);
    }
    Value *operand = op->n_operands ? op->operands[0] : NULL;
    if (op_moves_axes(op)) {
        operand = narrowed(func, operand);
    }
    Type type = type_with_dtype(func, value->type, DT_I32);
    Op *copy = build_op(&b, op->kind, op->n_operands, &operand, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = arena_copy(func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
    return copy->results[0];
}

/* ---- indices of gathers ---- */

static bool is_index_arithmetic(OpKind kind)
{
    return kind == OP_ADD || kind == OP_SUB || kind == OP_MUL || kind == OP_DIV || kind == OP_MOD ||
           kind == OP_MIN || kind == OP_MAX;
}

/* Made of nothing but indices, sizes and arithmetic, of which no result leaves 32 bits. */
static bool keeps_narrow(Func *func, Memo *seen, const Value *value, int depth)
{
    Dim lo, hi;
    int64_t known;
    const Op *op = value->def;
    if (memo_known(seen, value, depth, &known)) {
        return true; /* or the answer would have been found */
    }
    memo_keep(seen, value, depth, 1);
    if (!op || depth > MAX_DEPTH || value->type->dtype != DT_I64 ||
        !an_index_range(func, value, &lo, &hi) || !fits(lo) || !fits(hi)) {
        return false;
    }
    bool narrow = op->kind == OP_INDEX || op->kind == OP_CONST || op->kind == OP_IOTA ||
                  op->kind == OP_SIZE || op->kind == OP_START || op->kind == OP_END;
    if (!op_moves_axes(op) && !is_index_arithmetic(op->kind)) {
        return narrow;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        bool scalar = type_is_scalar(operand->type); /* cast as a whole */
        if (scalar ? !an_index_range(func, operand, &lo, &hi) || !fits(lo) || !fits(hi)
                   : !keeps_narrow(func, seen, operand, depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool stays_narrow(Func *func, const Value *value)
{
    Memo *seen = memo_open(func);
    bool narrow = keeps_narrow(func, seen, value, 0);
    memo_close(seen);
    return narrow;
}

/* An element, perhaps with bounds. The integer of 32 bits that is nearest to it is inside of an
 * axis where it is, and the same there: casts saturate, and minima and maxima keep the order. */
static bool keeps_alike(Func *func, Memo *seen, const Value *value, int depth)
{
    int64_t known;
    const Op *op = value->def;
    if (memo_known(seen, value, depth, &known)) {
        return known != 0;
    }
    memo_keep(seen, value, depth, 0);
    if (!op || depth > MAX_DEPTH || value->type->dtype != DT_I64) {
        return false;
    }
    if (op->kind == OP_CAST) {
        DType from = op->operands[0]->type->dtype;
        bool alike = dtype_is_float(from) || dtype_bits(from) + !dtype_is_signed(from) <= 32;
        return memo_keep(seen, value, depth, alike) != 0;
    }
    bool bounds = !type_is_scalar(value->type) && (op->kind == OP_MIN || op->kind == OP_MAX);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        if ((!bounds && !op_moves_axes(op)) ||
            (!keeps_alike(func, seen, operand, depth + 1) && !stays_narrow(func, operand))) {
            return false;
        }
    }
    return memo_keep(seen, value, depth, op->n_operands > 0) != 0;
}

static bool saturates_alike(Func *func, const Value *value)
{
    Memo *seen = memo_open(func);
    bool alike = keeps_alike(func, seen, value, 0);
    memo_close(seen);
    return alike;
}

/* A value as i32: of one that may not fit, the nearest number, which compares the same with all
 * that fit. */
static Value *clamped(Builder *b, Value *value)
{
    Dim lo, hi;
    if (value->type->dtype == DT_I64 &&
        !(an_index_range(b->func, value, &lo, &hi) && fits(lo) && fits(hi))) {
        value = build_binary(b, OP_MIN, value, build_int(b, value->type, INT32_MAX));
        value = build_binary(b, OP_MAX, value, build_int(b, value->type, INT32_MIN));
    }
    return build_cast(b, value, DT_I32);
}

/* The same number in another type that has it: i32 or f32. */
static Value *in_type(Func *func, CloneMap *made, Value *value, DType dtype)
{
    Value *known = clone_get(made, value);
    if (known != value) {
        return known;
    }
    Op *op = value->def;
    bool scalar = type_is_scalar(value->type);
    Builder b = op ? build_after(func, op) : (Builder){0};
    if (op && op->kind == OP_CAST && op->operands[0]->type->dtype != DT_I64) {
        known = build_cast(&b, op->operands[0], dtype);
    } else if (op && op->kind == OP_CONST && dtype_is_float(dtype)) {
        Type type = type_with_dtype(func, value->type, dtype);
        known = build_float(&b, type, (double)op_attr(op, ATTR_VALUE)->i);
    } else if (scalar && (!op || op->kind != OP_CONST)) {
        if (!op) { /* a variable of a loop or of a grid */
            Block *block = value->block;
            b = block->first ? build_before(func, block->first) : build_at_end(func, block);
        }
        known = dtype == DT_I32 ? clamped(&b, value) : build_cast(&b, value, dtype);
    } else {
        Value *operands[3] = {NULL, NULL, NULL};
        for (int i = 0; i < op->n_operands; i++) {
            Type type = op->operands[i]->type;
            bool same = type->kind == TYPE_RANGE || type->dtype != DT_I64;
            operands[i] = same ? op->operands[i] : in_type(func, made, op->operands[i], dtype);
        }
        Type type = type_with_dtype(func, value->type, dtype);
        Op *copy = build_op(&b, op->kind, op->n_operands, operands, 1, &type, 0);
        copy->n_attrs = op->n_attrs;
        copy->attrs = arena_copy(func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
        known = copy->results[0];
    }
    clone_map_value(made, value, known);
    return known;
}

static void narrow_indices(Func *func, CloneMap *made, Op *op)
{
    Access access = op_access(op, 0);
    for (int i = 0; i < access.n && func->target && func->target->warp > 1; i++) {
        Value *index = access.indices[i];
        if (index->type->rank > 0 &&
            (stays_narrow(func, index) ||
             (fits(access.memory->type->dims[i]) && saturates_alike(func, index)))) {
            op_set_operand(op, access.at + 1 + i, in_type(func, made, index, DT_I32));
        }
    }
}

/* A computed index that something else needs as i64 would be computed twice. */
static bool is_only_compared(const Value *value)
{
    bool computed = value->def && is_index_arithmetic(value->def->kind);
    for (const ValueUse *use = value->uses; computed && use; use = use->next) {
        if (use->op->kind != OP_CMP && use->op->kind != OP_GATHER) {
            return false;
        }
    }
    return true;
}

static bool is_stretched_scalar(const Value *value)
{
    return type_is_scalar(value_unstretched(value)->type);
}

/* Is the value made of elements of memory, and not of indices and sizes alone? */
static bool is_of_data(const Value *value, int depth)
{
    enum { MOST = 4 };
    const Op *op = value->def;
    bool found = op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
    bool follows = op && depth < MOST && (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE));
    for (int i = 0; follows && !found && i < op->n_operands; i++) {
        found = is_of_data(op->operands[i], depth + 1);
    }
    return found;
}

/* The scalar, or the fewer elements of memory, that the value repeats; NULL: it repeats none. */
static Value *repeated(Value *value)
{
    bool repeats = false;
    while (value->def && op_moves_axes(value->def)) {
        repeats = repeats || value->def->kind == OP_BROADCAST;
        value = value->def->operands[0];
    }
    return type_is_scalar(value->type) || (repeats && is_of_data(value, 0)) ? value : NULL;
}

/* What is repeated is made narrow where it is made; a parameter, which has no op or block of its
 * own, where the launch begins. */
static void narrow_repeated(Func *func, CloneMap *made, const Op *cmp, Value *value)
{
    Value *from = repeated(value);
    const Op *launch = op_enclosing(cmp, OP_LAUNCH);
    if (!from || clone_get(made, from) != from) {
        return;
    }
    Builder b = {0};
    if (!from->def && !from->block && launch) {
        b = build_before(func, launch->regions[0]->first);
    } else if (from->def && !type_is_scalar(from->type)) {
        b = build_after(func, from->def);
    }
    if (b.func) {
        clone_map_value(made, from, clamped(&b, from));
    }
}

/* Of indices and of what is computed from them, with one another and with scalars. */
static void narrow_comparison(Func *func, CloneMap *made, Op *cmp)
{
    Value *left = cmp->operands[0], *right = cmp->operands[1];
    bool threads = func->target && func->target->warp > 1 && left->type->rank > 0;
    if (is_narrow(left) && is_narrow(right)) {
        op_set_operand(cmp, 0, narrowed(func, left));
        op_set_operand(cmp, 1, narrowed(func, right));
    } else if (threads && left->type->dtype == DT_I64) {
        bool narrow[2], repeats[2];
        for (int side = 0; side < 2; side++) {
            Value *value = cmp->operands[side];
            narrow[side] = !is_stretched_scalar(value) && stays_narrow(func, value) &&
                           is_only_compared(value);
            repeats[side] = !narrow[side] && repeated(value);
        }
        if ((narrow[0] && (narrow[1] || repeats[1])) || (repeats[0] && narrow[1])) {
            for (int side = 0; side < 2; side++) {
                Value *value = cmp->operands[side];
                if (repeats[side]) {
                    narrow_repeated(func, made, cmp, value);
                }
                op_set_operand(cmp, side, in_type(func, made, value, DT_I32));
            }
        }
    }
}

/* A quotient or a remainder that needs no rounding toward -inf. */
static void mark_nonnegative(Func *func, Op *op)
{
    Dim lo, hi;
    const Attr *by = value_const(value_unstretched(op->operands[1]));
    if (op->operands[0]->type->dtype == DT_I64 && by && by->i > 0 &&
        an_index_range(func, op->operands[0], &lo, &hi) && poly_least(lo) >= 0) {
        op_set_int(func, op, ATTR_NONNEGATIVE, 1);
    }
}

/* One of two indices, perhaps of another shape. */
static bool chooses_narrow(Func *func, const Value *value)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_SELECT && stays_narrow(func, op->operands[1]) &&
           stays_narrow(func, op->operands[2]);
}

/* The least or the greatest of indices is one of them. */
static void narrow_extreme(Func *func, Op *op)
{
    const char *fn = op_word(op, ATTR_FN);
    if ((!text_equal(fn, "min") && !text_equal(fn, "max")) || func->target->warp == 1 ||
        op->operands[0]->type->dtype != DT_I64 || !chooses_narrow(func, op->operands[0])) {
        return;
    }
    CloneMap made = clone_map_new(func);
    Value *narrow = in_type(func, &made, op->operands[0], DT_I32);
    Builder b = build_after(func, op);
    Value *least = build_reduce(&b, fn, narrow, (int)op_int(op, ATTR_AXIS, 0));
    op_inherit_over(func, least->def, op);
    func_replace_uses(func, op->results[0], build_cast(&b, least, DT_I64));
}

/* ---- indices as floats ---- */

/* f32 has all integers up to this one. */
static bool is_exact(Func *func, const Value *value)
{
    enum { MOST = 1 << 24 };
    Dim lo, hi;
    return an_index_range(func, value, &lo, &hi) && poly_least(lo) >= -MOST &&
           poly_most(hi) <= MOST;
}

/* Made of indices and scalars by sums, of which f32 has each. */
static bool is_exact_sum(Func *func, Memo *seen, const Value *value, int depth)
{
    int64_t known;
    const Op *op = value->def;
    if (memo_known(seen, value, 0, &known)) {
        return known != 0;
    }
    bool integer = value->type->dtype == DT_I64 || value->type->dtype == DT_I32;
    if (!integer || depth > MAX_DEPTH || !is_exact(func, value)) {
        return false;
    }
    bool exact = type_is_scalar(value->type) || (op && op->kind == OP_INDEX);
    if (op && !exact && (op->kind == OP_ADD || op->kind == OP_SUB || op_moves_axes(op))) {
        exact = true;
        for (int i = 0; i < op->n_operands && exact; i++) {
            exact = is_exact_sum(func, seen, op->operands[i], depth + 1);
        }
    }
    return memo_keep(seen, value, 0, exact) != 0;
}

static void sum_in_floats(Func *func, Op *cast)
{
    Value *value = cast->operands[0];
    Memo *seen = memo_open(func);
    bool exact = is_exact_sum(func, seen, value, 0);
    memo_close(seen);
    if (exact) {
        CloneMap made = clone_map_new(func);
        func_replace_uses(func, cast->results[0], in_type(func, &made, value, DT_F32));
    }
}

typedef struct Narrow {
    Func *func;
    CloneMap made; /* of one launch, by i64 indices: the same as i32 */
} Narrow;

static void narrow_op(Op *op, void *user)
{
    Narrow *narrow = user;
    Func *func = narrow->func;
    switch (op->kind) {
    case OP_LAUNCH: narrow->made = clone_map_new(func); break;
    case OP_DIV:
    case OP_MOD: mark_nonnegative(func, op); break;
    case OP_CMP: narrow_comparison(func, &narrow->made, op); break;
    case OP_GATHER:
    case OP_SCATTER: narrow_indices(func, &narrow->made, op); break;
    case OP_REDUCE:
        if (func->target) {
            narrow_extreme(func, op);
        }
        break;
    case OP_CAST:
        if (op->results[0]->type->dtype == DT_F32 && op->results[0]->type->rank > 0 &&
            func->target && func->target->warp > 1) {
            sum_in_floats(func, op);
        }
        break;
    default: break;
    }
}

void pass_narrow_indices(Func *func)
{
    Narrow narrow = {.func = func, .made = clone_map_new(func)};
    func_walk(func, narrow_op, &narrow);
    func_remove_dead(func);
}
