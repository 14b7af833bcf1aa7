/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a cast to a narrower float type changes any element of a value. A memoized walk
 * over the defining ops looks for values that had the narrow type before, small integers, and ops
 * that only select among such elements or change their sign. */
#include "passes/analysis/exact_values.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/scalar.h"
#include "passes/analysis/integer_values.h"
#include "support/text.h"

#include <math.h>

enum { MAX_DEPTH = 24 };

/* A question, and what was found out on the way to its answer. */
typedef struct Asked {
    DType dtype;
    Memo *memo;
} Asked;

static bool is_exact(const Asked *asked, const Value *value, int depth);

/* True if the float type `wide` has all numbers of the float type `narrow`. Of the types of eight
 * bits neither has those of the other, and of the types of 16 bits neither. */
static bool has_all_of(DType wide, DType narrow)
{
    return wide == narrow || (dtype_is_float(wide) && dtype_is_float(narrow) &&
                              dtype_bits(wide) > dtype_bits(narrow));
}

static bool is_exact_number(double number, DType dtype)
{
    uint64_t bytes;
    scalar_store(dtype, &bytes, (Scalar){.f = number});
    double back = scalar_load(dtype, &bytes).f;
    return isnan(number) || (back == number && signbit(back) == signbit(number));
}

/* ---- bits ---- */

static const Op *below_moves(const Value *value)
{
    while (value->def && op_moves_axes(value->def)) {
        value = value->def->operands[0];
    }
    return value->def;
}

static bool is_bits(const Value *value, uint64_t bits)
{
    const Op *op = below_moves(value);
    uint64_t all = UINT64_MAX >> (64 - dtype_bits(value->type->dtype));
    return op && op->kind == OP_CONST &&
           ((uint64_t)op_attr(op, ATTR_VALUE)->i & all) == bits;
}

static uint64_t sign_of(const Value *value)
{
    return UINT64_C(1) << (dtype_bits(value->type->dtype) - 1);
}

/* True if no bit is set but the sign. */
static bool is_sign(const Value *value)
{
    const Op *op = below_moves(value);
    bool sign = is_bits(value, 0) || is_bits(value, sign_of(value));
    for (int i = 0; op && op->kind == OP_AND && i < 2 && !sign; i++) {
        sign = is_bits(op->operands[i], sign_of(value));
    }
    return sign;
}

/* True if the integer's bits are those of an exact value but for the sign: the library takes
 * signs off and sets them so. */
static bool is_magnitude(const Asked *asked, const Value *value, int depth)
{
    const Op *op = below_moves(value);
    if (!op || depth > MAX_DEPTH) {
        return false;
    }
    if (op->kind == OP_BITCAST) {
        return is_exact(asked, op->operands[0], depth + 1);
    }
    if (op->kind != OP_AND && op->kind != OP_OR && op->kind != OP_XOR) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const Value *other = op->operands[1 - i];
        bool keeps = op->kind == OP_AND ? is_bits(other, sign_of(value) - 1) : is_sign(other);
        if (keeps && is_magnitude(asked, op->operands[i], depth + 1)) {
            return true;
        }
    }
    return false;
}

/* ---- ops ---- */

/* 1, 0 and -1 times a number is that number, 0, or NaN: a mask. */
static bool is_masked(const Asked *asked, const Op *op, int depth)
{
    for (int i = 0; i < 2; i++) {
        if (an_integers_up_to(op->operands[i], 1) &&
            is_exact(asked, op->operands[1 - i], depth)) {
            return true;
        }
    }
    return false;
}

static bool are_exact(const Asked *asked, const Op *op, int first, int depth)
{
    for (int i = first; i < op->n_operands; i++) {
        if (!is_exact(asked, op->operands[i], depth)) {
            return false;
        }
    }
    return true;
}

static bool picks(const Op *reduce)
{
    const char *fn = op_word(reduce, ATTR_FN);
    return text_equal(fn, "max") || text_equal(fn, "min");
}

/* Elements that an array has, and what stands for those outside. */
static bool is_gathered(const Asked *asked, const Op *op, int depth)
{
    const Attr *outside = op_attr(op, ATTR_VALUE);
    return op->operands[0]->type->kind == TYPE_ARRAY &&
           is_exact_number(outside ? outside->f : 0, asked->dtype) &&
           is_exact(asked, op->operands[0], depth);
}

/* A number of a type rounded to an integer is one of that type. */
static bool of_op(const Asked *asked, const Op *op, int depth)
{
    switch (op->kind) {
    case OP_CONST: return is_exact_number(op_attr(op, ATTR_VALUE)->f, asked->dtype);
    case OP_CAST:
        return has_all_of(op->results[0]->type->dtype, asked->dtype) &&
               is_exact(asked, op->operands[0], depth);
    case OP_NEG:
    case OP_ABS:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_TRUNC:
    case OP_RINT:
    case OP_MIN:
    case OP_MAX: return are_exact(asked, op, 0, depth);
    case OP_SELECT: return are_exact(asked, op, 1, depth);
    case OP_MUL: return is_masked(asked, op, depth);
    case OP_REDUCE:
    case OP_SCAN: return picks(op) && is_exact(asked, op->operands[0], depth);
    case OP_GATHER: return is_gathered(asked, op, depth);
    case OP_BITCAST: return is_magnitude(asked, op->operands[0], depth);
    default: return op_moves_axes(op) && is_exact(asked, op->operands[0], depth);
    }
}

static bool of_value(const Asked *asked, const Value *value, int depth)
{
    DType dtype = value->type->dtype;
    return has_all_of(asked->dtype, dtype) || an_integers_in(value, asked->dtype) ||
           (value->def && dtype_is_float(dtype) && of_op(asked, value->def, depth + 1));
}

static bool is_exact(const Asked *asked, const Value *value, int depth)
{
    int64_t found;
    if (depth > MAX_DEPTH) {
        return false;
    }
    if (!memo_known(asked->memo, value, 0, &found)) {
        found = memo_keep(asked->memo, value, 0, of_value(asked, value, depth));
    }
    return found != 0;
}

bool an_exact_in(const Value *value, DType dtype)
{
    Asked asked = {dtype, memo_about(value)};
    bool result = is_exact(&asked, value, 0);
    memo_close(asked.memo);
    return result;
}
