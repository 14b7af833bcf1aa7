/* SPDX-License-Identifier: Apache-2.0 */
/* simplify: folds constants and removes identities, common subexpressions and dead ops.
 *
 *     %1 = const value=2 : f32[M, N]
 *     %2 = const value=0.5 : f32[M, N]
 *     %3 = mul %1, %2 : f32[M, N]            →   %3 dropped: x itself
 *     %4 = mul %x, %3 : f32[M, N]
 *
 * Works at any level before layouts. Only exact rules: none changes a bit of a number, the sign of
 * a zero, or which operand of min and max wins. Folding uses the interpreter's arithmetic, which
 * defines the meaning of the ops. A value that folds to NaN is left alone, because the text form
 * has only one NaN. */
#include "ir/build.h"
#include "ir/narrow_moved.h"
#include "ir/op_axes.h"
#include "ir/scalar_eval.h"
#include "passes/pass.h"
#include "passes/tensor/loop_maximum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Simplifier {
    Func *func;
    bool changed;
} Simplifier;

static Scalar scalar_of(const Value *value)
{
    const Attr *attr = value_const(value);
    Scalar scalar;
    if (dtype_is_float(value->type->dtype)) {
        scalar.f = attr->f;
    } else {
        scalar.i = attr->i;
    }
    return scalar;
}

static Value *make_constant(Simplifier *s, Op *op, Type type, Scalar scalar)
{
    Builder b = build_before(s->func, op);
    bool is_float = dtype_is_float(type->dtype);
    return is_float ? build_float(&b, type, scalar.f) : build_int(&b, type, scalar.i);
}

static void replace(Simplifier *s, Op *op, Value *by)
{
    func_replace_uses(s->func, op->results[0], by);
    op_remove(op);
    s->changed = true;
}

static void replace_all(Simplifier *s, Op *op, Value *const *by)
{
    for (int i = 1; i < op->n_results; i++) {
        func_replace_uses(s->func, op->results[i], by[i]);
    }
    replace(s, op, by[0]);
}

/* ---- constants ---- */

static bool all_constant(const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (!value_const(op->operands[i])) {
            return false;
        }
    }
    return op->n_operands > 0;
}

static bool fold_elementwise(Simplifier *s, Op *op)
{
    Scalar operands[3];
    DType in = op->operands[op->kind == OP_SELECT ? 1 : 0]->type->dtype;
    Type type = op->results[0]->type;
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = scalar_of(op->operands[i]);
    }
    Scalar result = scalar_op(op->kind, op_word(op, ATTR_PRED), in, type->dtype, operands);
    if (dtype_is_float(type->dtype) && isnan(result.f)) {
        return false;
    }
    replace(s, op, make_constant(s, op, type, result));
    return true;
}

static bool is_number(const Value *value, double number);

/* True if each element is a place along an axis that has at most `by` elements. */
static bool is_place_below(const Value *value, const Attr *by)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && by && op->kind == OP_IOTA && poly_most(op_attr(op, ATTR_DIM)->dims[0]) <= by->i;
}

/* Quotients and remainders of places by numbers that no place reaches. */
static bool fold_place(Simplifier *s, Op *op)
{
    bool divides = op->kind == OP_DIV || op->kind == OP_MOD;
    if (!divides || dtype_is_float(op->results[0]->type->dtype) ||
        !is_place_below(op->operands[0], value_const(op->operands[1]))) {
        return false;
    }
    Type type = op->results[0]->type;
    replace(s, op,
            op->kind == OP_MOD ? op->operands[0] : make_constant(s, op, type, (Scalar){.i = 0}));
    return true;
}

static bool fold(Simplifier *s, Op *op)
{
    if (fold_place(s, op)) {
        return true;
    }
    bool same = op->kind == OP_SUB && op->operands[0] == op->operands[1];
    same = same || (op->kind == OP_MOD && is_number(op->operands[1], 1));
    if (same && !dtype_is_float(op->results[0]->type->dtype)) {
        replace(s, op, make_constant(s, op, op->results[0]->type, (Scalar){.i = 0}));
        return true;
    }
    if (!all_constant(op)) {
        return false;
    }
    if (op_moves_axes(op)) {
        replace(s, op, make_constant(s, op, op->results[0]->type, scalar_of(op->operands[0])));
        return true;
    }
    bool exact = op_has(op, TRAIT_ELEMENTWISE) && !op_has(op, TRAIT_APPROX) && op->n_operands <= 3;
    return exact && fold_elementwise(s, op);
}

/* ---- identities ---- */

/* True if the value is a constant with this number, of either kind; the sign of a zero counts. */
static bool is_number(const Value *value, double number)
{
    const Attr *attr = value_const(value);
    if (!attr) {
        return false;
    }
    if (dtype_is_float(value->type->dtype)) {
        return attr->f == number && signbit(attr->f) == signbit(number);
    }
    return (double)attr->i == number;
}

/* The value before broadcasts stretched its axes, with the same rank. */
static const Value *unspread(const Value *value)
{
    while (value->def && value->def->kind == OP_BROADCAST &&
           value->def->operands[0]->type->rank == value->type->rank) {
        value = value->def->operands[0];
    }
    return value;
}

/* Less the greatest of its row, as in a softmax, or -|x|, or the smaller one of something and a
 * number: zero at most, or NaN. Also the greater of that and a number below zero. */
static bool is_never_positive(const Value *value)
{
    const Op *op = value->def;
    if (op && op->kind == OP_MAX) {
        const Attr *least = value_const(op->operands[1]);
        return least && least->f < 0 && is_never_positive(op->operands[0]);
    }
    if (op && op->kind == OP_NEG && value_def_of_kind(op->operands[0], OP_ABS)) {
        return dtype_is_float(value->type->dtype);
    }
    if (op && op->kind == OP_MIN && dtype_is_float(value->type->dtype)) {
        const Attr *most = value_const(op->operands[1]);
        return most && most->f <= 0;
    }
    if (!op || op->kind != OP_SUB || !dtype_is_float(value->type->dtype)) {
        return false;
    }
    const Value *maximum = unspread(op->operands[1]);
    const Op *most = maximum->def;
    return most && ((most->kind == OP_REDUCE && text_equal(op_word(most, ATTR_FN), "max") &&
                     most->operands[0] == op->operands[0]) ||
                    is_loop_maximum(maximum, op->operands[0]));
}

/* What is never positive, times a positive number, is added to `bound`. */
static bool is_at_most(const Value *value, const Attr *bound)
{
    const Op *op = value->def;
    const Attr *factor = op && op->kind == OP_FMA ? value_const(op->operands[1]) : NULL;
    const Attr *from = factor ? value_const(op->operands[2]) : NULL;
    return from && factor->f > 0 && from->f == bound->f && is_never_positive(op->operands[0]);
}

/* The smaller one of a number above zero and one that never is more. NaN wins over both. */
static Value *least_identity(const Op *op)
{
    const Attr *bound = value_const(op->operands[1]);
    Value *value = op->operands[0];
    bool above = bound && dtype_is_float(op->results[0]->type->dtype) && bound->f > 0;
    return above && (is_never_positive(value) || is_at_most(value, bound)) ? value : NULL;
}

/* x where the op is x whatever x is; else NULL. */
static Value *arithmetic_identity(const Op *op)
{
    Value *a = op->operands[0], *b = op->operands[1];
    bool is_float = dtype_is_float(a->type->dtype);
    switch (op->kind) {
    case OP_MUL:
        if (is_number(b, 1)) {
            return a;
        }
        return is_number(a, 1) ? b : NULL;
    case OP_DIV: return is_number(b, 1) ? a : NULL;
    case OP_SUB: return is_number(b, 0) ? a : NULL;
    case OP_ADD: {
        double zero = is_float ? -0.0 : 0.0;
        if (is_number(b, zero)) {
            return a;
        }
        return is_number(a, zero) ? b : NULL;
    }
    default: return NULL;
    }
}

static Value *select_identity(const Op *op)
{
    if (op->operands[1] == op->operands[2]) {
        return op->operands[1];
    }
    const Attr *condition = value_const(op->operands[0]);
    bool itself = op->results[0]->type->dtype == DT_BOOL && is_number(op->operands[1], 1) &&
                  is_number(op->operands[2], 0);
    if (condition) {
        return op->operands[condition->i ? 1 : 2];
    }
    return itself ? op->operands[0] : NULL;
}

/* The bool whose number is compared with 0; NULL: something else is. */
static Value *bool_compared(const Op *op)
{
    const Op *cast = op->kind == OP_CMP ? value_def_of_kind(op->operands[0], OP_CAST) : NULL;
    bool of_bool =
        cast && cast->operands[0]->type->dtype == DT_BOOL && is_number(op->operands[1], 0);
    return of_bool ? cast->operands[0] : NULL;
}

/* The operand of the operand, when both ops are of these kinds. */
static Value *undone(const Op *op, OpKind inner)
{
    const Op *from = op->operands[0]->def;
    return from && from->kind == inner ? from->operands[0] : NULL;
}

static Value *axis_undone(const Op *op, OpKind inner)
{
    Value *value = undone(op, inner);
    bool same = value && op_int(op, ATTR_AXIS, 0) == op_int(op->operands[0]->def, ATTR_AXIS, 0);
    return same ? value : NULL;
}

static Value *identity(const Op *op)
{
    switch (op->kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV: return arithmetic_identity(op);
    case OP_MIN: return least_identity(op);
    case OP_SELECT: return select_identity(op);
    case OP_CAST:
    case OP_BITCAST:
    case OP_BROADCAST:
        return op->operands[0]->type == op->results[0]->type ? op->operands[0] : NULL;
    case OP_PERMUTE: return op_permutes_axes(op) ? NULL : op->operands[0];
    case OP_NEG:
    case OP_NOT: return undone(op, op->kind);
    case OP_SQUEEZE: return axis_undone(op, OP_EXPAND);
    default: return NULL;
    }
}

/* ---- negations ---- */

/* Compares the number of a bool with 0 by the bool itself. */
static bool compare_bool(Simplifier *s, Op *op)
{
    Value *value = bool_compared(op);
    const char *pred = value ? op_word(op, ATTR_PRED) : "";
    Builder b = build_before(s->func, op);
    if (text_equal(pred, "ne") || text_equal(pred, "gt")) {
        replace(s, op, value);
    } else if (text_equal(pred, "eq") || text_equal(pred, "le")) {
        replace(s, op, build_unary(&b, OP_NOT, value));
    } else {
        return false;
    }
    return true;
}

/* The bool that the value is the negation of, moved as the value is; NULL: it is none. */
static Value *negated(Builder *b, Value *value)
{
    const Op *op = value->def;
    if (op && op->kind == OP_NOT) {
        return op->operands[0];
    }
    Value *below = op && op->kind == OP_BROADCAST ? negated(b, op->operands[0]) : NULL;
    return below ? build_broadcast(b, below, value->type->rank, value->type->dims) : NULL;
}

/* Chooses by the condition itself, so that other passes see what it compares. */
static bool choose_other_way(Simplifier *s, Op *op)
{
    Builder b = build_before(s->func, op);
    Value *condition = negated(&b, op->operands[0]);
    if (!condition) {
        return false;
    }
    Value *chosen = op->operands[2], *other = op->operands[1];
    op_set_operand(op, 0, condition);
    op_set_operand(op, 1, chosen);
    op_set_operand(op, 2, other);
    s->changed = true;
    return true;
}

/* ---- two shape ops in one ---- */

static bool merge_permutes(Simplifier *s, Op *op)
{
    Value *from = undone(op, OP_PERMUTE);
    if (!from) {
        return false;
    }
    const Attr *outer = op_attr(op, ATTR_PERM);
    const Attr *inner = op_attr(op->operands[0]->def, ATTR_PERM);
    int64_t perm[MAX_RANK];
    for (int i = 0; i < outer->n; i++) {
        perm[i] = inner->ints[outer->ints[i]];
    }
    Builder b = build_before(s->func, op);
    replace(s, op, build_permute(&b, from, perm));
    return true;
}

static bool merge_broadcasts(Simplifier *s, Op *op)
{
    Value *from = undone(op, OP_BROADCAST);
    if (!from) {
        return false;
    }
    Type type = op->results[0]->type;
    Builder b = build_before(s->func, op);
    replace(s, op, build_broadcast(&b, from, type->rank, type->dims));
    return true;
}

/* ---- exact divisions ---- */

enum { MAX_EXPONENT = 14 }; /* both powers of two are normal numbers of 16 bits, too */

/* A quotient by a power of two is the product with its reciprocal, to the bit: a factor that passes
 * fold into others. */
static void multiply_exactly(Simplifier *s, Op *op)
{
    Type type = op->results[0]->type;
    const Attr *by = value_const(op->operands[1]);
    int exponent;
    bool exact = by && dtype_is_float(type->dtype) && dtype_bits(type->dtype) >= 16 &&
                 fabs(frexp(by->f, &exponent)) == 0.5 && abs(exponent - 1) <= MAX_EXPONENT;
    if (exact) {
        Builder b = build_before(s->func, op);
        Value *factor = build_float(&b, op->operands[1]->type, 1 / by->f);
        replace(s, op, build_binary(&b, OP_MUL, op->operands[0], factor));
    }
}

static void simplify_op(Op *op, void *user)
{
    Simplifier *s = user;
    if (op->n_results != 1 || !op_has(op, TRAIT_PURE) || fold(s, op)) {
        return;
    }
    Value *same = identity(op);
    if (same) {
        replace(s, op, same);
    } else if (op->kind == OP_DIV) {
        multiply_exactly(s, op);
    } else if (op->kind == OP_PERMUTE) {
        merge_permutes(s, op);
    } else if (op->kind == OP_BROADCAST) {
        merge_broadcasts(s, op);
    } else if (op->kind == OP_SELECT) {
        choose_other_way(s, op);
    } else if (op->kind == OP_CMP) {
        compare_bool(s, op);
    } else if (op->kind == OP_CAST) {
        s->changed = narrow_moved(s->func, op) || s->changed;
    }
}

/* ---- common subexpressions ---- */

static bool same_op(const void *item, const void *key)
{
    return op_is_same(item, key);
}

/* Attributes have no order. */
static uint64_t op_hash(const Op *op)
{
    uint64_t hash = hash_word((uint64_t)op->kind, (uintptr_t)op->results[0]->type);
    for (int i = 0; i < op->n_operands; i++) {
        hash = hash_word(hash, op->operands[i] ? op->operands[i]->id + 1 : 0);
    }
    for (int i = 0; i < op->n_attrs; i++) {
        const Attr *attr = &op->attrs[i];
        uint64_t bits;
        memcpy(&bits, &attr->f, sizeof bits);
        hash += hash_word(hash_word((uint64_t)attr->key, (uint64_t)attr->i), bits);
    }
    return hash;
}

/* Memory that only this kernel reads stays as it is; other memory may change between two reads. */
static bool is_repeatable(const Simplifier *s, const Op *op)
{
    if (op->n_results < 1 || op->n_regions > 0 || !op_has(op, TRAIT_PURE)) {
        return false;
    }
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *memory = op_access(op, at).memory;
        if (!type_is_memory(memory->type)) {
            continue;
        }
        if (memory->type->kind != TYPE_TENSOR ||
            s->func->params.items[memory->index].io != PARAM_IN) {
            return false;
        }
    }
    return true;
}

/* An equal load of a tensor that the kernel writes, with no write of it in between; NULL: none. Two
 * loads of a row would be two rows for fuse: one that is reduced, one that is overwritten. */
static const Op *load_before(const Op *load)
{
    const Value *memory = load->operands[0];
    const Op *op = load->kind == OP_LOAD && memory->type->kind == TYPE_TENSOR ? load->prev : NULL;
    while (op && !op_is_same(op, load)) {
        op = op_writes(op, memory) ? NULL : op->prev;
    }
    return op;
}

/* Ops that come earlier in the same block. An op comes after its operands, so replacing one
 * changes no op that is in the table. */
static void share_in(Simplifier *s, Block *block)
{
    HashTable earlier = {0};
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->n_regions; i++) {
            share_in(s, op->regions[i]);
        }
        if (!is_repeatable(s, op)) {
            const Op *before = op->n_operands ? load_before(op) : NULL;
            if (before) {
                replace_all(s, op, before->results);
            }
            continue;
        }
        uint64_t hash = op_hash(op);
        const Op *same = table_find(&earlier, hash, same_op, op);
        if (same) {
            replace_all(s, op, same->results);
        } else {
            table_add(s->func->arena, &earlier, hash, op);
        }
    }
}

void pass_simplify(Func *func)
{
    Simplifier s = {.func = func, .changed = true};
    while (s.changed) {
        s.changed = false;
        func_walk(func, simplify_op, &s);
        share_in(&s, func->body);
        func_remove_dead(func);
    }
}
