/* SPDX-License-Identifier: Apache-2.0 */
/* The identity element of each reduction for each element type, and the op that combines two
 * elements. */
#include "passes/analysis/reduce_identity.h"

#include <math.h>

static int64_t least_of(DType dtype)
{
    if (!dtype_is_signed(dtype)) {
        return 0;
    }
    return dtype_bits(dtype) == 64 ? INT64_MIN : -((int64_t)1 << (dtype_bits(dtype) - 1));
}

static int64_t most_of(DType dtype)
{
    int bits = dtype_bits(dtype) - (dtype_is_signed(dtype) ? 1 : 0);
    if (bits >= 63) {
        return dtype_is_signed(dtype) ? INT64_MAX : -1;
    }
    return ((int64_t)1 << bits) - 1;
}

double reduce_neutral(const char *fn, DType dtype, int64_t *integer)
{
    bool is_float = dtype_is_float(dtype);
    switch (fn[1]) {
    case 'u': /* sum */ *integer = 0; return 0;
    case 'r': /* prod */ *integer = 1; return 1;
    case 'a': /* max */
        *integer = is_float ? 0 : least_of(dtype);
        return is_float ? -INFINITY : (double)*integer;
    default: /* min */
        *integer = is_float ? 0 : most_of(dtype);
        return is_float ? INFINITY : (double)*integer;
    }
}

Value *reduce_neutral_tile(Builder *b, const char *fn, Type type)
{
    int64_t integer = 0;
    double neutral = reduce_neutral(fn, type->dtype, &integer);
    return dtype_is_float(type->dtype) ? build_float(b, type, neutral)
                                       : build_int(b, type, integer);
}

OpKind reduce_combiner(const char *fn)
{
    static const struct {
        const char *fn;
        OpKind combiner;
    } rows[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"min", OP_MIN}, {"max", OP_MAX}};
    size_t i = 0;
    while (i + 1 < sizeof rows / sizeof *rows && !text_equal(rows[i].fn, fn)) {
        i++;
    }
    return rows[i].combiner;
}
