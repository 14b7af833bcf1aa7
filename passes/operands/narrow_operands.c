/* SPDX-License-Identifier: Apache-2.0 */
/* narrow_operands: rounds dot operands that are small integers to 16 bits, which changes none.
 *
 *   %a = cast %x : f32                     %a = cast %x : f32
 *   %q = cast (load %w) : f32              %q = cast (load %w) : f32
 *   %z = cast (gather %zero) : f32         %z = cast (gather %zero) : f32
 *   %d = sub %q, %z : f32             →    %d = sub %q, %z : f32
 *                                          %h = cast (cast %d : bf16) : f32
 *   %p = dot %a, (mul %d, %s)              %p = dot %a, (mul %h, %s)
 *
 * Weights of four bits with zero points are differences from -15 to 15, and f32 only because the
 * source computes them so. A matrix instruction does not multiply f32 exactly; as 16-bit numbers it
 * does, and sink_dequant_scale applies the scale to the accumulator. This pass looks for operands,
 * or factors of them, whose elements are integers that bf16 (or the other operand's f16) represents
 * (analysis/integer_values.h): also quantized activations, `clamp(rint(x / s), -127, 127)`, and
 * fields of packed words. It changes a dot only if a matrix instruction then multiplies it.
 * Requires the tensor level. Changes no bits by itself. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/integer_values.h"
#include "passes/pass.h"

/* A part of an operand: all of it, or a factor. */
typedef struct Part {
    Value *value;  /* NULL: none is rounded */
    DType rounded; /* to this type, and back */
} Part;

enum { MAX_PARTS = 4 };

typedef struct Parts {
    Part items[MAX_PARTS];
    int n;
} Parts;

static bool is_half(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

/* ---- parts ---- */

static Value *below_permutes(Value *value)
{
    while (value->def && value->def->kind == OP_PERMUTE) {
        value = value->def->operands[0];
    }
    return value;
}

/* The other operand's 16-bit type if it has these integers, else the one that has. */
static void add_part(Parts *parts, Value *value, DType other)
{
    static const DType types[] = {DT_BF16, DT_F16};
    bool done = false;
    for (int i = 0; i < 2 && !done && !an_is_widened(value); i++) {
        done = (types[i] == other || !is_half(other)) && an_exact_in(value, types[i]);
        if (done) {
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

/* ---- the dot ---- */

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

static void narrow(Op *dot, void *user)
{
    Func *func = user;
    ScaledDot found;
    if (dot->kind != OP_DOT || dot->operands[0]->type->dtype != DT_F32 || an_rounded(dot) ||
        an_scaled_dot(func, dot, &found)) {
        return;
    }
    Parts left = parts_of(dot, 0), right = parts_of(dot, 1);
    bool done = false;
    for (int i = 0; i < left.n && !done; i++) {
        for (int k = 0; k < right.n && !done; k++) {
            done = try_parts(func, dot, &left.items[i], &right.items[k]);
        }
    }
}

void pass_narrow_operands(Func *func)
{
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, narrow, func);
        func_remove_dead(func);
    }
}
