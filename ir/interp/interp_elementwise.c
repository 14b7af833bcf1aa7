/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops over flat arrays: specialized loops for the common types, scalar_op for the
 * rest. Both give the same bits; the tests compare them. */
#include "ir/interp/interp_internal.h"
#include "ir/scalar_eval.h"
#include "support/target_clones.h"

#include <math.h>
#include <string.h>

/* Each loop names its operands x, y, z and one expression. */
#define EACH(T_IN, T_OUT, expression)                                                              \
    do {                                                                                           \
        const T_IN *restrict a = flat->from[0];                                                    \
        T_OUT *restrict to = flat->to;                                                             \
        for (int64_t i = 0; i < flat->n; i++) {                                                    \
            T_IN x = a[i];                                                                         \
            to[i] = (T_OUT)(expression);                                                           \
        }                                                                                          \
        return true;                                                                               \
    } while (0)

#define EACH2(T_IN, T_OUT, expression)                                                             \
    do {                                                                                           \
        const T_IN *a = flat->from[0], *b = flat->from[1];                                         \
        T_OUT *restrict to = flat->to;                                                             \
        for (int64_t i = 0; i < flat->n; i++) {                                                    \
            T_IN x = a[i], y = b[i];                                                               \
            to[i] = (T_OUT)(expression);                                                           \
        }                                                                                          \
        return true;                                                                               \
    } while (0)

/* With the machine's instruction where it has one, which rounds once as fmaf does. */
TARGET_CLONES("arch=x86-64-v3")
static bool f32_fma(const Flat *flat)
{
    const float *a = flat->from[0], *b = flat->from[1], *c = flat->from[2];
    float *restrict to = flat->to;
    for (int64_t i = 0; i < flat->n; i++) {
        to[i] = fmaf(a[i], b[i], c[i]);
    }
    return true;
}

/* NaN wins; of equal values (zeros of two signs) the one with, or without, the sign. */
static float f32_max(float x, float y)
{
    if (isnan(x) || isnan(y)) {
        return isnan(x) ? x : y;
    }
    if (x == y) {
        return signbit(x) ? y : x;
    }
    return x > y ? x : y;
}

static float f32_min(float x, float y)
{
    if (isnan(x) || isnan(y)) {
        return isnan(x) ? x : y;
    }
    if (x == y) {
        return signbit(x) ? x : y;
    }
    return x < y ? x : y;
}

static bool f32_ops(const Flat *flat)
{
    switch (flat->kind) {
    case OP_NEG: EACH(float, float, -x);
    case OP_ABS: EACH(float, float, fabsf(x));
    case OP_SQRT: EACH(float, float, sqrtf(x));
    case OP_FLOOR: EACH(float, float, floorf(x));
    case OP_CEIL: EACH(float, float, ceilf(x));
    case OP_TRUNC: EACH(float, float, truncf(x));
    case OP_RINT: EACH(float, float, rintf(x));
    case OP_FAST_EXP2: EACH(float, float, exp2((double)x));
    case OP_ADD: EACH2(float, float, x + y);
    case OP_SUB: EACH2(float, float, x - y);
    case OP_MUL: EACH2(float, float, x *y);
    case OP_DIV: EACH2(float, float, x / y);
    case OP_MIN: EACH2(float, float, f32_min(x, y));
    case OP_MAX: EACH2(float, float, f32_max(x, y));
    case OP_FMA: return f32_fma(flat);
    default: return false;
    }
}

static bool i32_ops(const Flat *flat)
{
    switch (flat->kind) {
    case OP_ADD: EACH2(uint32_t, uint32_t, x + y);
    case OP_SUB: EACH2(uint32_t, uint32_t, x - y);
    case OP_MUL: EACH2(uint32_t, uint32_t, x * y);
    case OP_AND: EACH2(uint32_t, uint32_t, x & y);
    case OP_OR: EACH2(uint32_t, uint32_t, x | y);
    case OP_XOR: EACH2(uint32_t, uint32_t, x ^ y);
    case OP_SHL: EACH2(uint32_t, uint32_t, y < 32 ? x << y : 0);
    default: return false;
    }
}

static bool i64_ops(const Flat *flat)
{
    switch (flat->kind) {
    case OP_ADD: EACH2(uint64_t, uint64_t, x + y);
    case OP_SUB: EACH2(uint64_t, uint64_t, x - y);
    case OP_MUL: EACH2(uint64_t, uint64_t, x * y);
    default: return false;
    }
}

#define COMPARE(T)                                                                                 \
    switch (pred[0] == 'l' || pred[0] == 'g' ? pred[0] + pred[1] : pred[0]) {                      \
    case 'e': EACH2(T, uint8_t, x == y);                                                           \
    case 'n': EACH2(T, uint8_t, x != y);                                                           \
    case 'l' + 't': EACH2(T, uint8_t, x < y);                                                      \
    case 'l' + 'e': EACH2(T, uint8_t, x <= y);                                                     \
    case 'g' + 't': EACH2(T, uint8_t, x > y);                                                      \
    case 'g' + 'e': EACH2(T, uint8_t, x >= y);                                                     \
    default: return false;                                                                         \
    }

static bool compare(const Flat *flat)
{
    const char *pred = flat->pred;
    if (!pred || !pred[0]) {
        return false;
    }
    if (flat->in == DT_F32) {
        COMPARE(float)
    }
    if (flat->in == DT_I32) {
        COMPARE(int32_t)
    }
    if (flat->in == DT_I64) {
        COMPARE(int64_t)
    }
    return false;
}

#define SELECT(T)                                                                                  \
    do {                                                                                           \
        const uint8_t *which = flat->from[0];                                                      \
        const T *a = flat->from[1], *b = flat->from[2];                                            \
        T *restrict to = flat->to;                                                                 \
        for (int64_t i = 0; i < flat->n; i++) {                                                    \
            to[i] = which[i] ? a[i] : b[i];                                                        \
        }                                                                                          \
        return true;                                                                               \
    } while (0)

static bool choose(const Flat *flat)
{
    switch (dtype_bytes(flat->out)) {
    case 1: SELECT(uint8_t);
    case 2: SELECT(uint16_t);
    case 4: SELECT(uint32_t);
    default: SELECT(uint64_t);
    }
}

static bool cast(const Flat *flat)
{
    if (flat->in == DT_F32 && flat->out == DT_BF16) {
        EACH(float, uint16_t, f32_to_bf16(x));
    }
    if (flat->in == DT_F32 && flat->out == DT_F16) {
        EACH(float, uint16_t, f32_to_f16(x));
    }
    if (flat->in == DT_BF16 && flat->out == DT_F32) {
        EACH(uint16_t, float, bf16_to_f32(x));
    }
    if (flat->in == DT_F16 && flat->out == DT_F32) {
        EACH(uint16_t, float, f16_to_f32(x));
    }
    if (flat->in == DT_I32 && flat->out == DT_F32) {
        EACH(int32_t, float, x);
    }
    return false;
}

static bool in_loop(const Flat *flat)
{
    switch (flat->kind) {
    case OP_CMP: return compare(flat);
    case OP_SELECT: return choose(flat);
    case OP_CAST: return cast(flat);
    case OP_REMAT:
    case OP_TO_STATIC:
    case OP_BITCAST:
        memcpy(flat->to, flat->from[0], (size_t)flat->n * (size_t)dtype_bytes(flat->in));
        return true;
    default: break;
    }
    if (flat->in != flat->out) {
        return false;
    }
    switch (flat->in) {
    case DT_F32: return f32_ops(flat);
    case DT_I32:
    case DT_U32: return i32_ops(flat);
    case DT_I64:
    case DT_U64: return i64_ops(flat);
    default: return false;
    }
}

/* Of f32 what has no loop of its own. */
static void each_f32(const Flat *flat)
{
    int n_operands = op_info(flat->kind)->operands;
    const float *const *from = (const float *const *)(const void *)flat->from;
    float *to = flat->to;
    for (int64_t i = 0; i < flat->n; i++) {
        Scalar operands[3];
        for (int k = 0; k < n_operands; k++) {
            operands[k].f = (double)from[k][i];
        }
        to[i] = (float)scalar_op(flat->kind, flat->pred, DT_F32, DT_F32, operands).f;
    }
}

void flat_run(const Flat *flat)
{
    if (in_loop(flat)) {
        return;
    }
    if (flat->in == DT_F32 && flat->out == DT_F32) {
        each_f32(flat);
        return;
    }
    int n_operands = op_info(flat->kind)->operands;
    size_t in = (size_t)dtype_bytes(flat->in), out = (size_t)dtype_bytes(flat->out);
    for (size_t i = 0; i < (size_t)flat->n; i++) {
        Scalar operands[3];
        for (int k = 0; k < n_operands; k++) {
            bool is_condition = flat->kind == OP_SELECT && k == 0;
            size_t at = is_condition ? i : i * in;
            operands[k] = scalar_load(is_condition ? DT_BOOL : flat->in,
                                      (const unsigned char *)flat->from[k] + at);
        }
        Scalar result = scalar_op(flat->kind, flat->pred, flat->in, flat->out, operands);
        scalar_store(flat->out, (unsigned char *)flat->to + i * out, result);
    }
}
