/* SPDX-License-Identifier: Apache-2.0 */
/* Computes sort keys: unsigned integers that order like the elements. For floats, all bits are
 * flipped if the sign is set, otherwise only the sign bit; -0 counts as +0, and every NaN sorts
 * above infinity. */
#include "passes/tensor/lower_sort.h"

/* The bits of the greatest number that is no NaN. */
static int64_t greatest_bits(DType dtype)
{
    switch (dtype) {
    case DT_F8E4M3: return 0x7e;
    case DT_F8E5M2: return 0x7c;
    case DT_F16: return 0x7c00;
    case DT_BF16: return 0x7f80;
    case DT_F32: return 0x7f800000;
    default: return 0x7ff0000000000000;
    }
}

static DType signed_of(DType dtype)
{
    switch (dtype_bits(dtype)) {
    case 8: return DT_I8;
    case 16: return DT_I16;
    case 32: return DT_I32;
    default: return DT_I64;
    }
}

/* Narrow floats are compared in a wider type, so their bits are. */
static Value *are_nan(Builder *b, Value *elements, Value *bits, int64_t sign)
{
    if (dtype_bits(elements->type->dtype) >= 32) {
        return build_cmp(b, "ne", elements, elements);
    }
    Type type = bits->type;
    Value *size = build_binary(b, OP_AND, bits, build_int(b, type, sign - 1));
    return build_cmp(b, "gt", size, build_int(b, type, greatest_bits(elements->type->dtype)));
}

/* The sign's own copies, the sign always among them, turn what is to be turned. */
static Value *float_keys(Builder *b, Value *elements, Value *bits, int64_t sign)
{
    Type type = bits->type;
    DType dtype = type->dtype;
    Value *sign_alone = build_int(b, type, sign);
    Value *all = build_int(b, type, (int64_t)(((uint64_t)sign - 1) << 1 | 1));
    Value *negative_zero = build_cmp(b, "eq", bits, sign_alone);
    Value *plain = build_select(b, negative_zero, build_int(b, type, 0), bits);
    Value *copies = build_bitcast(b, plain, signed_of(dtype));
    copies = build_binary(b, OP_SHR, copies, build_int(b, copies->type, dtype_bits(dtype) - 1));
    Value *turned = build_binary(b, OP_OR, build_bitcast(b, copies, dtype), sign_alone);
    Value *keys = build_binary(b, OP_XOR, plain, turned);
    return build_select(b, are_nan(b, elements, bits, sign), all, keys);
}

Value *sort_keys(Builder *b, Value *elements, bool descending)
{
    DType dtype = elements->type->dtype, key = dtype_unsigned(dtype);
    int64_t sign = (int64_t)((uint64_t)1 << (dtype_bits(dtype) - 1));
    Value *keys = dtype == key ? elements : build_bitcast(b, elements, key);
    if (dtype_is_float(dtype)) {
        keys = float_keys(b, elements, keys, sign);
    } else if (dtype_is_signed(dtype)) {
        keys = build_binary(b, OP_XOR, keys, build_int(b, keys->type, sign));
    }
    return descending ? build_unary(b, OP_NOT, keys) : keys;
}

Value *sort_digits(Builder *b, Value *keys, Value *shift)
{
    keys = shift ? build_binary(b, OP_SHR, keys, shift) : keys;
    Value *low = build_cast(b, keys, DT_I32);
    return build_binary(b, OP_AND, low, build_int(b, low->type, DIGITS - 1));
}
