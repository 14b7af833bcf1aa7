/* SPDX-License-Identifier: Apache-2.0 */
/* narrow_operands: casts dot operands to 16 or 8 bits where that changes no element.
 *
 *   %a = cast %x : f32                     %a = cast %x : f32
 *   %q = cast (load %w) : f32              %q = cast (load %w) : f32
 *   %z = cast (gather %zero) : f32         %z = cast (gather %zero) : f32
 *   %d = sub %q, %z : f32             →    %d = sub %q, %z : f32
 *                                          %h = cast (cast %d : bf16) : f32
 *   %p = dot %a, (mul %d, %s)              %p = dot %a, (mul %h, %s)
 *
 * A matrix instruction does not multiply f32 exactly. Many operands are f32 only because the source
 * computes them so, and have no element that 16 bits lack (analysis/exact_values.h): `relu(x)`,
 * `abs(x)`, `-x`, `where(c, x, 0)` and `clamp(x, a, b)` give elements of x or the bounds, or
 * their magnitudes. Weights of four bits with zero points are differences from -15 to 15, whose
 * scale sink_dequant_scale applies to the accumulator; quantized activations,
 * `clamp(rint(x / s), -127, 127)`, and fields of packed words are integers as small. Operands of
 * an i32 dot that are integers of 8 bits, as differences of weights of four, become i8 or u8. This
 * pass looks for such operands, or factors of them. It changes a dot only if a matrix instruction
 * then multiplies it. Requires the tensor level. Changes no bits by itself, except those of NaN. */
#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/exact_values.h"
#include "passes/analysis/integer_values.h"
#include "passes/pass.h"

/* A part of an operand: all of it, or a factor. */
typedef struct Part {
    Value *value;  /* NULL: none is rounded */
    DType rounded; /* to this type, and back */
} Part;

/* All of it, one factor, or the other, each as one of two types; or nothing. */
enum { MAX_PARTS = 7 };

typedef struct Parts {
    Part items[MAX_PARTS];
    int n;
} Parts;

/* ---- parts ---- */

static bool is_half(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

static Value *below_permutes(Value *value)
{
    while (value->def && value->def->kind == OP_PERMUTE) {
        value = value->def->operands[0];
    }
    return value;
}

/* As the other operand's 16-bit type, if that has its elements, or as the types that have. */
static void add_part(Parts *parts, Value *value, DType other)
{
    static const DType types[] = {DT_BF16, DT_F16};
    for (int i = 0; i < 2 && !an_is_widened(value); i++) {
        if ((types[i] == other || !is_half(other)) && an_exact_in(value, types[i])) {
            parts->items[parts->n++] = (Part){value, types[i]};
        }
    }
}

/* What may be rounded of an operand: that of the first type has the fewest bits to move. */
static Parts parts_of(const Op *dot, int side)
{
    Parts parts = {.n = 0};
    Value *value = below_permutes(dot->operands[side]);
    DType other = an_narrow_type(dot, 1 - side);
    const Op *op = value->def;
    add_part(&parts, value, other);
    for (int i = 0; op && op->kind == OP_MUL && i < 2; i++) {
        add_part(&parts, op->operands[i], other);
    }
    parts.items[parts.n++] = (Part){NULL, DT_F32};
    return parts;
}

/* ---- a dot of parts ---- */

/* The operand, made anew with a part of it rounded. */
static Value *rounded(Builder *b, Value *value, const Part *part)
{
    const Op *op = value->def;
    if (!part->value) {
        return value;
    }
    if (value == part->value) {
        return build_cast(b, build_cast(b, value, part->rounded), value->type->dtype);
    }
    if (op->kind == OP_PERMUTE) {
        Value *inner = rounded(b, op->operands[0], part);
        return build_permute(b, inner, op_attr(op, ATTR_PERM)->ints);
    }
    int side = op->operands[0] == part->value ? 0 : 1;
    Value *factors[2] = {op->operands[0], op->operands[1]};
    factors[side] = rounded(b, factors[side], part);
    Value *product = build_binary(b, OP_MUL, factors[0], factors[1]);
    product->name = value->name;
    return product;
}

/* Rounds these parts; false: no matrix instruction multiplies the rounded operands, and the dot is
 * as it was. */
static bool try_parts(Func *func, Op *dot, const Part *left, const Part *right)
{
    Value *old[2] = {dot->operands[0], dot->operands[1]};
    ScaledDot found;
    if (!left->value && !right->value) {
        return false;
    }
    Builder b = build_before(func, dot);
    op_set_operand(dot, 0, rounded(&b, old[0], left));
    op_set_operand(dot, 1, rounded(&b, old[1], right));
    if (an_scaled_dot(func, dot, &found)) {
        return true;
    }
    op_set_operand(dot, 0, old[0]);
    op_set_operand(dot, 1, old[1]);
    return false;
}

static void narrow_parts(Func *func, Op *dot)
{
    Parts left = parts_of(dot, 0), right = parts_of(dot, 1);
    for (int i = 0; i < left.n; i++) {
        for (int k = 0; k < right.n; k++) {
            if (try_parts(func, dot, &left.items[i], &right.items[k])) {
                return;
            }
        }
    }
}

/* ---- both operands as a whole ---- */

static bool moves_elements(const Op *op)
{
    return op_moves_axes(op) ||
           (op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_ARRAY);
}

static const Value *below_moves(const Value *value)
{
    while (value->def && moves_elements(value->def)) {
        value = value->def->operands[0];
    }
    return value;
}

/* The value in a type that has its elements. It is cast before its axes move and before elements
 * are gathered from it, so that what looks for views and copies sees no casts between. */
static Value *narrowed(Builder *b, Value *value, DType dtype)
{
    const Op *op = value->def;
    if (op && op->kind == OP_CAST && op->operands[0]->type->dtype == dtype) {
        return op->operands[0];
    }
    if (!op || !moves_elements(op)) {
        return build_cast(b, value, dtype);
    }
    CloneMap map = clone_map_new(b->func);
    Op *copy = clone_op(b, &map, op);
    Builder before = build_before(b->func, copy);
    before.span = b->span;
    op_set_operand(copy, 0, narrowed(&before, op->operands[0], dtype));
    copy->results[0]->type = type_with_dtype(b->func, value->type, dtype);
    return copy->results[0];
}

/* Elements narrower than 16 bits are widened on their way to the instruction instead. */
static bool is_narrower(const Value *value)
{
    const Value *below = below_moves(value);
    return an_is_widened(below) && !is_half(below->def->operands[0]->type->dtype);
}

static bool has_unit(const Func *func, DType dtype, DType sum)
{
    const ScheduleEntry *given = schedule_user_entry((Func *)func, "instruction", "");
    const MatrixInstr *unit =
        mma_find(func->target, given ? given->symbol : NULL, dtype, dtype, sum);
    return unit && unit->operands == dtype;
}

/* True if all elements of the operand are in the type. */
static bool has_all(const Value *value, DType dtype)
{
    return dtype_is_float(dtype) ? an_exact_in(value, dtype) : an_integers_of(value, dtype);
}

/* Makes it a dot of narrow operands where both have all their elements in one type. */
static bool narrow_both(Func *func, Op *dot)
{
    static const DType floats[] = {DT_BF16, DT_F16}, integers[] = {DT_I8, DT_U8};
    Value *left = dot->operands[0], *right = dot->operands[1];
    DType sum = dot->results[0]->type->dtype;
    const DType *types = dtype_is_float(sum) ? floats : integers;
    if (dot->n_operands != 2 || dtype_bits(sum) != 32 || is_narrower(left) || is_narrower(right)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (has_unit(func, types[i], sum) && has_all(left, types[i]) && has_all(right, types[i])) {
            Builder b = build_before(func, dot);
            op_set_operand(dot, 0, narrowed(&b, left, types[i]));
            op_set_operand(dot, 1, narrowed(&b, right, types[i]));
            return true;
        }
    }
    return false;
}

static void narrow(Op *dot, void *user)
{
    Func *func = user;
    ScaledDot found;
    if (dot->kind != OP_DOT || dtype_bits(dot->operands[0]->type->dtype) != 32) {
        return;
    }
    if (!dtype_is_float(dot->operands[0]->type->dtype)) {
        narrow_both(func, dot);
    } else if (!an_rounded(dot) && !an_scaled_dot(func, dot, &found) && !narrow_both(func, dot)) {
        narrow_parts(func, dot);
    }
}

void pass_narrow_operands(Func *func)
{
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, narrow, func);
        func_remove_dead(func);
    }
}
