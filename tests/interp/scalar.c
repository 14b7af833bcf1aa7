/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of results of elementwise ops; the interpreter's specialized loops must give the same. */
#include "ir/interp/interp_internal.h"
#include "ir/scalar_eval.h"
#include "tests/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

static Scalar f(double value)
{
    return (Scalar){.f = value};
}

static Scalar i(int64_t value)
{
    return (Scalar){.i = value};
}

static Scalar one(OpKind kind, DType in, DType out, Scalar a)
{
    return scalar_op(kind, NULL, in, out, &a);
}

static Scalar two(OpKind kind, DType dtype, Scalar a, Scalar b)
{
    return scalar_op(kind, NULL, dtype, dtype, (Scalar[]){a, b});
}

/* From NumPy (f16) and from exact fractions (bf16): one rounding, to nearest even. */
static const struct {
    double from;
    uint16_t f16, bf16;
} casts[] = {
    {0x0.0p+0, 0x0000, 0x0000},
    {-0x0.0p+0, 0x8000, 0x8000},
    {0x1.0000000000000p+0, 0x3c00, 0x3f80},
    {0x1.ffc0000000000p+15, 0x7bff, 0x4780},
    {0x1.ffdfff7ced917p+15, 0x7bff, 0x4780},
    {0x1.ffe0000000000p+15, 0x7c00, 0x4780},
    {-0x1.ffe0000000000p+15, 0xfc00, 0xc780},
    {0x1.0000000000000p+16, 0x7c00, 0x4780},
    {0x1.0000000000000p-24, 0x0001, 0x3380},
    {0x1.0000000000000p-25, 0x0000, 0x3300},
    {0x1.0000000000001p-25, 0x0001, 0x3300},
    {0x1.0000000000000p-14, 0x0400, 0x3880},
    {0x1.fffffffffffffp-15, 0x0400, 0x3880},
    {0x1.8000000000000p-24, 0x0002, 0x33c0},
    {0x1.fffffe0000000p+127, 0x7c00, 0x7f80},
    {0x1.fe00000000000p+127, 0x7c00, 0x7f7f},
    {0x1.ff00000000000p+127, 0x7c00, 0x7f80},
    {0x1.fefffffffffffp+127, 0x7c00, 0x7f7f},
    {0x1.7e43c8800759cp+996, 0x7c00, 0x7f80},
    {-0x1.7e43c8800759cp+996, 0xfc00, 0xff80},
    {INFINITY, 0x7c00, 0x7f80},
    {-INFINITY, 0xfc00, 0xff80},
    {0x1.0000000000000p-133, 0x0000, 0x0001},
    {0x1.0000000000000p-134, 0x0000, 0x0000},
    {0x1.0000000000001p-134, 0x0000, 0x0001},
    {0x1.56e1fc2f8f359p-997, 0x0000, 0x0000},
    {0x1.0020000000000p+0, 0x3c00, 0x3f80},
    {0x1.0020000001000p+0, 0x3c01, 0x3f80},
    {0x1.001fffffff000p+0, 0x3c00, 0x3f80},
    {0x1.0060000000000p+0, 0x3c02, 0x3f80},
    {0x1.0100000000000p+0, 0x3c04, 0x3f80},
    {0x1.0100000000080p+0, 0x3c04, 0x3f81},
    {0x1.00fffffffff80p+0, 0x3c04, 0x3f80},
    {0x1.0300000000000p+0, 0x3c0c, 0x3f82},
    {0x1.999999999999ap-4, 0x2e66, 0x3dcd},
    {-0x1.5555555555555p-2, 0xb555, 0xbeab},
    {0x1.921fb54442d18p+1, 0x4248, 0x4049},
    {0x1.a00641a9f1e54p-5, 0x2a80, 0x3d50},
    {0x1.e5afcdbcaf266p+16, 0x7c00, 0x47f3},
    {0x1.c693565f940b0p+8, 0x5f1a, 0x43e3},
    {0x1.39a72dabd56a2p+8, 0x5ce7, 0x439d},
    {0x1.4cd7b2990e375p+4, 0x4d33, 0x41a6},
    {0x1.dfa132d748fa2p+0, 0x3f7f, 0x3ff0},
    {0x1.01591126e9a1ap-12, 0x0c05, 0x3981},
    {0x1.d23c068f7ff20p+16, 0x7c00, 0x47e9},
    {0x1.cc0cbdf921a62p-6, 0x2730, 0x3ce6},
    {0x1.77ca95c71e7c4p-17, 0x00bc, 0x373c},
    {0x1.4d93887ad103ep+10, 0x6536, 0x44a7},
    {0x1.4746e6a257735p-20, 0x0014, 0x35a4},
    {0x1.413f221fb82f4p+10, 0x6505, 0x44a1},
    {0x1.71f08551fd8ecp+0, 0x3dc8, 0x3fb9},
    {0x1.812a131f7a67fp-22, 0x0006, 0x34c1},
    {0x1.8db200a195218p-25, 0x0001, 0x3347},
};

START_TEST(casts_round_once)
{
    for (size_t n = 0; n < sizeof casts / sizeof *casts; n++) {
        uint16_t bits;
        scalar_store(DT_F16, &bits, one(OP_CAST, DT_F64, DT_F16, f(casts[n].from)));
        ck_assert_msg(bits == casts[n].f16, "%a to f16: %04x", casts[n].from, bits);
        scalar_store(DT_F16, &bits, f(casts[n].from));
        ck_assert_msg(bits == casts[n].f16, "%a stored as f16: %04x", casts[n].from, bits);
        scalar_store(DT_BF16, &bits, one(OP_CAST, DT_F64, DT_BF16, f(casts[n].from)));
        ck_assert_msg(bits == casts[n].bf16, "%a to bf16: %04x", casts[n].from, bits);
    }
}
END_TEST

START_TEST(all_halves_round_trip)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t from = (uint16_t)bits, to;
        Scalar value = scalar_load(DT_F16, &from);
        scalar_store(DT_F16, &to, value);
        ck_assert(to == from || isnan(value.f));
        value = scalar_load(DT_BF16, &from);
        scalar_store(DT_BF16, &to, value);
        ck_assert(to == from || isnan(value.f));
    }
}
END_TEST

START_TEST(floats_to_integers_saturate)
{
    static const struct {
        DType to;
        double from;
        int64_t expect;
    } rows[] = {
        {DT_I8, 127.9, 127},     {DT_I8, 128, 127},          {DT_I8, -128.9, -128},
        {DT_I8, -1e9, -128},     {DT_U8, 255.9, 255},        {DT_U8, 256, 255},
        {DT_U8, -0.9, 0},        {DT_U8, -5, 0},             {DT_I32, 2147483648.0, INT32_MAX},
        {DT_I32, -1e30, INT32_MIN}, {DT_I32, 1.9, 1},        {DT_I32, -1.9, -1},
        {DT_U32, 4294967295.5, UINT32_MAX},                  {DT_I64, 1e30, INT64_MAX},
        {DT_I64, -1e30, INT64_MIN}, {DT_U64, 1.8446744073709552e19, -1},
        {DT_U64, 9.3e18, (int64_t)9300000000000000000u},     {DT_I32, (double)NAN, 0},
        {DT_I64, (double)INFINITY, INT64_MAX},               {DT_BOOL, 0.25, 1},
        {DT_BOOL, -0.0, 0},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        int64_t got = one(OP_CAST, DT_F64, rows[n].to, f(rows[n].from)).i;
        ck_assert_msg(got == rows[n].expect, "%g to %s: %lld", rows[n].from,
                      dtype_name(rows[n].to), (long long)got);
    }
}
END_TEST

START_TEST(integers_to_floats_round_once)
{
    ck_assert(one(OP_CAST, DT_I64, DT_F32, i((1LL << 24) + 1)).f == 0x1p24);
    ck_assert(one(OP_CAST, DT_I64, DT_F32, i(INT64_MIN)).f == -0x1p63);
    ck_assert(one(OP_CAST, DT_U64, DT_F32, i(-1)).f == 0x1p64);
    ck_assert(one(OP_CAST, DT_U64, DT_F64, i(-1)).f == 0x1p64);
    /* a hair above the middle of two f32, two bf16: through f64 it would fall on the middle */
    ck_assert(one(OP_CAST, DT_I64, DT_F32, i((1LL << 62) + (1LL << 38) + 1)).f
              == 0x1p62 + 0x1p39);
    ck_assert(one(OP_CAST, DT_I64, DT_BF16, i((1LL << 62) + (1LL << 54) + 1)).f
              == 0x1p62 + 0x1p55);
    ck_assert(one(OP_CAST, DT_I64, DT_BF16, i((1LL << 62) + (1LL << 54))).f == 0x1p62);
    ck_assert(one(OP_CAST, DT_I32, DT_F16, i(70000)).f == (double)INFINITY);
    ck_assert_int_eq(one(OP_CAST, DT_I32, DT_I8, i(300)).i, 44);
    ck_assert_int_eq(one(OP_CAST, DT_I32, DT_U8, i(-1)).i, 255);
    ck_assert_int_eq(one(OP_CAST, DT_U32, DT_I32, i(UINT32_MAX)).i, -1);
    ck_assert_int_eq(one(OP_CAST, DT_I32, DT_BOOL, i(256)).i, 1);
}
END_TEST

START_TEST(integers_wrap_and_floor)
{
    static const struct {
        OpKind kind;
        DType dtype;
        int64_t a, b, expect;
    } rows[] = {
        {OP_ADD, DT_I8, 127, 1, -128},      {OP_ADD, DT_U8, 255, 1, 0},
        {OP_SUB, DT_U16, 0, 1, 65535},      {OP_MUL, DT_I32, 65536, 65536, 0},
        {OP_MUL, DT_I64, INT64_MAX, 2, -2}, {OP_DIV, DT_I32, -7, 2, -4},
        {OP_DIV, DT_I32, 7, -2, -4},        {OP_DIV, DT_I32, -7, -2, 3},
        {OP_DIV, DT_I32, 7, 0, 0},          {OP_DIV, DT_I32, INT32_MIN, -1, INT32_MIN},
        {OP_DIV, DT_I64, INT64_MIN, -1, INT64_MIN},
        {OP_DIV, DT_U64, -1, 2, INT64_MAX}, {OP_MOD, DT_I32, -7, 3, 2},
        {OP_MOD, DT_I32, 7, -3, -2},        {OP_MOD, DT_I32, 7, 0, 0},
        {OP_MOD, DT_I64, INT64_MIN, -1, 0}, {OP_MOD, DT_U64, -1, 10, 5},
        {OP_SHL, DT_I32, 1, 31, INT32_MIN}, {OP_SHL, DT_I32, 1, 32, 0},
        {OP_SHL, DT_U8, 255, 4, 240},       {OP_SHR, DT_I32, -8, 1, -4},
        {OP_SHR, DT_I32, -8, 40, -1},       {OP_SHR, DT_I32, 8, 40, 0},
        {OP_SHR, DT_U32, 4294967288, 1, 2147483644}, {OP_SHR, DT_U64, -1, 64, 0},
        {OP_SHL, DT_I32, 1, -1, 0},         {OP_MIN, DT_U64, -1, 1, 1},
        {OP_MAX, DT_I64, -1, 1, 1},         {OP_XOR, DT_BOOL, 1, 1, 0},
        {OP_AND, DT_I8, -1, 15, 15},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        int64_t got = two(rows[n].kind, rows[n].dtype, i(rows[n].a), i(rows[n].b)).i;
        ck_assert_msg(got == rows[n].expect, "row %zu: %lld", n, (long long)got);
    }
    ck_assert_int_eq(one(OP_NEG, DT_I8, DT_I8, i(-128)).i, -128);
    ck_assert_int_eq(one(OP_ABS, DT_I32, DT_I32, i(-5)).i, 5);
    ck_assert_int_eq(one(OP_NOT, DT_U8, DT_U8, i(1)).i, 254);
    ck_assert_int_eq(one(OP_NOT, DT_BOOL, DT_BOOL, i(1)).i, 0);
}
END_TEST

START_TEST(nan_and_zeros)
{
    double nan = (double)NAN;
    ck_assert(isnan(two(OP_MAX, DT_F32, f(nan), f(1)).f));
    ck_assert(isnan(two(OP_MIN, DT_F32, f(1), f(nan)).f));
    ck_assert(!signbit(two(OP_MAX, DT_F32, f(-0.0), f(0.0)).f));
    ck_assert(!signbit(two(OP_MAX, DT_F32, f(0.0), f(-0.0)).f));
    ck_assert(signbit(two(OP_MIN, DT_F32, f(-0.0), f(0.0)).f));
    ck_assert(signbit(two(OP_MIN, DT_F32, f(0.0), f(-0.0)).f));
    ck_assert(signbit(one(OP_NEG, DT_F32, DT_F32, f(nan)).f) != signbit(nan));
    ck_assert_int_eq(one(OP_ISNAN, DT_F32, DT_BOOL, f(nan)).i, 1);
    static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (int p = 0; p < 6; p++) {
        Scalar both[2] = {f(nan), f(1)};
        ck_assert_int_eq(scalar_op(OP_CMP, preds[p], DT_F32, DT_BOOL, both).i, p == 1);
    }
    Scalar big[2] = {i(-1), i(1)};
    ck_assert_int_eq(scalar_op(OP_CMP, "gt", DT_U64, DT_BOOL, big).i, 1);
    ck_assert_int_eq(scalar_op(OP_CMP, "gt", DT_I64, DT_BOOL, big).i, 0);
}
END_TEST

START_TEST(floats_round_in_their_type)
{
    ck_assert(two(OP_ADD, DT_F32, f(0x1p24), f(1)).f == 0x1p24);
    ck_assert(two(OP_ADD, DT_F64, f(0x1p24), f(1)).f == 0x1p24 + 1);
    ck_assert(two(OP_ADD, DT_BF16, f(256), f(1)).f == 256);
    ck_assert(two(OP_DIV, DT_F32, f(1), f(3)).f == (double)(1.0f / 3.0f));
    ck_assert(two(OP_MOD, DT_F32, f(-7), f(3)).f == 2);
    Scalar once[3] = {f(1 + 0x1p-12), f(1 + 0x1p-12), f(-1)};
    ck_assert(scalar_op(OP_FMA, NULL, DT_F32, DT_F32, once).f == 0x1p-11 + 0x1p-24);
    ck_assert(one(OP_RINT, DT_F32, DT_F32, f(2.5)).f == 2);
    ck_assert(one(OP_RINT, DT_F32, DT_F32, f(-3.5)).f == -4);
    ck_assert(signbit(one(OP_CEIL, DT_F32, DT_F32, f(-0.5)).f));
    ck_assert(one(OP_BITCAST, DT_F32, DT_I32, f(1)).i == 0x3f800000);
    ck_assert(one(OP_BITCAST, DT_I32, DT_F32, i(0x00000001)).f == 0x1p-149);
    ck_assert(one(OP_FAST_EXP2, DT_F32, DT_F32, f(-(double)INFINITY)).f == 0);
}
END_TEST

/* ---- loops against scalar_op ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8 ^ *state << 13;
}

enum { ELEMENTS = 512 };

/* Random bits, and now and then a value at an edge. */
static void fill_random(DType dtype, unsigned char *to, uint32_t *state)
{
    static const double edges[] = {0, -0.0, 1, -1, 0.5, 1e30, -1e-30, 65520, 2.5, 31, 32};
    size_t bytes = (size_t)dtype_bytes(dtype);
    for (size_t n = 0; n < ELEMENTS; n++) {
        uint64_t bits = (uint64_t)next_random(state) << 32 | next_random(state);
        bits = dtype == DT_BOOL ? bits & 1 : bits;
        memcpy(to + n * bytes, &bits, bytes);
        if (n % 3 == 0 && dtype != DT_BOOL) {
            double edge = edges[next_random(state) % 11];
            scalar_store(dtype, to + n * bytes, one(OP_CAST, DT_F64, dtype, f(edge)));
        }
    }
}

static void compare_loops(OpKind kind, const char *pred, DType in, DType out, uint32_t *state)
{
    static uint64_t memory[4][ELEMENTS];
    Flat flat = {.kind = kind, .pred = pred, .in = in, .out = out, .n = ELEMENTS};
    flat.to = memory[3];
    int n_operands = op_info(kind)->operands;
    for (int k = 0; k < n_operands; k++) {
        DType dtype = kind == OP_SELECT && k == 0 ? DT_BOOL : in;
        fill_random(dtype, (unsigned char *)memory[k], state);
        flat.from[k] = memory[k];
    }
    flat_run(&flat);
    for (size_t n = 0; n < ELEMENTS; n++) {
        Scalar operands[3], expect;
        for (int k = 0; k < n_operands; k++) {
            DType dtype = kind == OP_SELECT && k == 0 ? DT_BOOL : in;
            operands[k] = scalar_load(
                dtype, (unsigned char *)memory[k] + n * (size_t)dtype_bytes(dtype));
        }
        expect = scalar_op(kind, pred, in, out, operands);
        Scalar got = scalar_load(out, (unsigned char *)memory[3] + n * (size_t)dtype_bytes(out));
        bool same = dtype_is_float(out)
                        ? memcmp(&got.f, &expect.f, 8) == 0 || (isnan(got.f) && isnan(expect.f))
                        : got.i == expect.i;
        /* A signalling NaN is quiet as a double: only arrays keep its bits. */
        same = same || (kind == OP_BITCAST && dtype_is_float(in) && isnan(operands[0].f));
        ck_assert_msg(same, "%s %s to %s, element %zu: %a, %lld", op_info(kind)->name,
                      dtype_name(in), dtype_name(out), n, got.f, (long long)got.i);
    }
}

static bool makes_sense(OpKind kind, DType in)
{
    if (!(op_info(kind)->traits & TRAIT_ELEMENTWISE)) {
        return false;
    }
    bool bitwise = kind == OP_AND || kind == OP_OR || kind == OP_XOR || kind == OP_NOT;
    bool shift = kind == OP_SHL || kind == OP_SHR;
    return dtype_is_float(in) ? !bitwise && !shift : in != DT_BOOL || bitwise || kind == OP_SELECT;
}

START_TEST(loops_agree_with_scalars)
{
    static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    uint32_t state = 1;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        for (int in = 0; in < DT_COUNT; in++) {
            if (!makes_sense((OpKind)kind, (DType)in)) {
                continue;
            }
            for (int p = 0; p < 6 && kind == OP_CMP; p++) {
                compare_loops(OP_CMP, preds[p], (DType)in, DT_BOOL, &state);
            }
            for (int out = 0; out < DT_COUNT && kind == OP_CAST; out++) {
                compare_loops(OP_CAST, NULL, (DType)in, (DType)out, &state);
            }
            if (kind != OP_CMP && kind != OP_CAST) {
                DType out = kind == OP_ISNAN ? DT_BOOL : (DType)in;
                compare_loops((OpKind)kind, NULL, (DType)in, out, &state);
            }
        }
    }
    compare_loops(OP_BITCAST, NULL, DT_F32, DT_I32, &state);
    compare_loops(OP_BITCAST, NULL, DT_I32, DT_F32, &state);
}
END_TEST

UNIT_TESTS(interp_scalar)
{
    TCase *tests = tcase_create("scalar");
    tcase_add_test(tests, casts_round_once);
    tcase_add_test(tests, all_halves_round_trip);
    tcase_add_test(tests, floats_to_integers_saturate);
    tcase_add_test(tests, integers_to_floats_round_once);
    tcase_add_test(tests, integers_wrap_and_floor);
    tcase_add_test(tests, nan_and_zeros);
    tcase_add_test(tests, floats_round_in_their_type);
    tcase_add_test(tests, loops_agree_with_scalars);
    return tests;
}
