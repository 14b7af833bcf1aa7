/* SPDX-License-Identifier: Apache-2.0 */
/* Vector instructions with masks, carries, other lanes, or operations that ops.def cannot
 * describe. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <string.h>

static void fetch_row(Wave *wave, const Inst *inst, int at, char type, Row *row)
{
    const void *from = fetch(wave, inst, at, type, row);
    if (from != row) {
        memcpy(row, from, sizeof row->u);
    }
}

static const Operand VCC[2] = {{.kind = SCALAR, .at = S_VCC, .count = 1},
                               {.kind = SCALAR, .at = S_VCC, .count = 2}};

static const Operand *vcc_of(const Wave *wave)
{
    return &VCC[wave->n == MAX_LANES];
}

/* ---- choosing ---- */

static void run_choose(Wave *wave, const Inst *inst)
{
    Row a, b;
    char type = (char)inst->width;
    fetch_row(wave, inst, 1, type, &a);
    fetch_row(wave, inst, 2, type, &b);
    uint64_t mask = mask_get(wave, inst, inst->n_operands > 3 ? &inst->operands[3] : vcc_of(wave));
    for (int i = 0; i < wave->n; i++) {
        a.u[i] = mask >> i & 1 ? b.u[i] : a.u[i];
    }
    store(wave, inst, 0, type, &a);
}

/* ---- carries: result, carry out, a, b[, carry in] ---- */

enum { ADD, SUBTRACT, SUBTRACT_REVERSED };

static void run_carry(Wave *wave, const Inst *inst)
{
    Row a, b;
    bool has_in = inst->flag;
    uint64_t in = has_in ? mask_get(wave, inst, &inst->operands[4]) : 0, out = 0;
    Inst shifted = *inst; /* fetch() counts operands from the result on: leave the carry out */
    memmove(shifted.operands + 1, inst->operands + 2, 2 * sizeof *inst->operands);
    for (int i = 1; i < 3; i++) { /* the decoder counts so for src0_sel and src1_sel */
        shifted.operands[i].select = inst->operands[i].select;
    }
    shifted.n_operands = 3;
    fetch_row(wave, &shifted, 1, 'u', &a);
    fetch_row(wave, &shifted, 2, 'u', &b);
    for (int i = 0; i < wave->n; i++) {
        uint64_t x = inst->way == SUBTRACT_REVERSED ? b.u[i] : a.u[i];
        uint64_t y = inst->way == SUBTRACT_REVERSED ? a.u[i] : b.u[i];
        uint64_t carry = in >> i & 1;
        uint64_t sum = inst->way == ADD ? x + y + carry : x - y - carry;
        out |= (uint64_t)(sum >> 32 != 0) << i;
        a.u[i] = (uint32_t)sum;
    }
    store(wave, &shifted, 0, 'u', &a);
    mask_put(wave, inst, &inst->operands[1], out & exec_of(wave));
}

/* Result of 64 bits, carry out, a, b, c of 64 bits. */
static void run_mad64(Wave *wave, const Inst *inst)
{
    Row a, b, c;
    uint64_t out = 0;
    fetch_row(wave, inst, 2, 'u', &a);
    fetch_row(wave, inst, 3, 'u', &b);
    fetch(wave, inst, 4, 'q', &c);
    for (int i = 0; i < wave->n; i++) {
        if (inst->flag) { /* signed */
            c.q[i] += (uint64_t)((int64_t)a.i[i] * b.i[i]);
            continue;
        }
        uint64_t product = (uint64_t)a.u[i] * b.u[i], sum = product + c.q[i];
        out |= (uint64_t)(sum < product) << i;
        c.q[i] = sum;
    }
    store(wave, inst, 0, 'q', &c);
    mask_put(wave, inst, &inst->operands[1], out & exec_of(wave));
}

/* ---- division ---- */

static int exponent_of(float x)
{
    return (int)(float_to_bits(x) >> 23 & 255);
}

static bool is_tiny(float x)
{
    return x != 0 && fabsf(x) < 0x1p-126f;
}

/* x is a or b: what is divided by, or what is divided. */
static float div_scale(float x, float b, float c, bool *scaled)
{
    *scaled = false;
    if (c == 0 || b == 0) {
        return NAN;
    }
    bool is_divisor = float_to_bits(x) == float_to_bits(b), inverse = is_tiny((float)(1.0 / b));
    bool quotient = is_tiny((float)((double)c / b)) || (float)((double)c / b) == 0;
    if (exponent_of(c) - exponent_of(b) >= 96) {
        *scaled = true;
        return is_divisor ? ldexpf(x, 64) : x;
    }
    if (is_tiny(b)) {
        return ldexpf(x, 64);
    }
    if (inverse && quotient) {
        *scaled = true;
        return is_divisor ? ldexpf(x, 64) : x;
    }
    if (inverse) {
        return ldexpf(x, -64);
    }
    if (quotient) {
        *scaled = true;
        return float_to_bits(x) == float_to_bits(c) ? ldexpf(x, 64) : x;
    }
    return exponent_of(c) <= 23 ? ldexpf(x, 64) : x;
}

static int exponent_of64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & 2047);
}

static bool is_tiny64(double x)
{
    return x != 0 && fabs(x) < 0x1p-1022;
}

static double div_scale64(double x, double b, double c, bool *scaled)
{
    *scaled = false;
    if (c == 0 || b == 0) {
        return NAN;
    }
    bool inverse = is_tiny64(1 / b), quotient = is_tiny64(c / b) || c / b == 0;
    if (exponent_of64(c) - exponent_of64(b) >= 768) {
        *scaled = true;
        return x == b ? ldexp(x, 128) : x;
    }
    if (is_tiny64(b)) {
        return ldexp(x, 128);
    }
    if (inverse && quotient) {
        *scaled = true;
        return x == b ? ldexp(x, 128) : x;
    }
    if (inverse) {
        return ldexp(x, -128);
    }
    if (quotient) {
        *scaled = true;
        return x == c ? ldexp(x, 128) : x;
    }
    return exponent_of64(c) <= 53 ? ldexp(x, 128) : x;
}

static void run_div_scale(Wave *wave, const Inst *inst)
{
    Row a, b, c;
    char type = (char)inst->width;
    uint64_t out = 0;
    fetch_row(wave, inst, 2, type, &a);
    fetch_row(wave, inst, 3, type, &b);
    fetch_row(wave, inst, 4, type, &c);
    if (type == 'd') {
        fetch(wave, inst, 2, type, &a), fetch(wave, inst, 3, type, &b);
        fetch(wave, inst, 4, type, &c);
    }
    for (int i = 0; i < wave->n; i++) {
        bool scaled;
        if (type == 'd') {
            a.d[i] = div_scale64(a.d[i], b.d[i], c.d[i], &scaled);
        } else {
            a.f[i] = div_scale(a.f[i], b.f[i], c.f[i], &scaled);
        }
        out |= (uint64_t)scaled << i;
    }
    store(wave, inst, 0, type, &a);
    mask_put(wave, inst, &inst->operands[1], out & exec_of(wave));
}

static void run_div_fmas(Wave *wave, const Inst *inst)
{
    Row a, b, c;
    char type = (char)inst->width;
    uint64_t mask = mask_get(wave, inst, vcc_of(wave));
    const void *from[3] = {fetch(wave, inst, 1, type, &a), fetch(wave, inst, 2, type, &b),
                           fetch(wave, inst, 3, type, &c)};
    Row out;
    for (int i = 0; i < wave->n; i++) {
        bool scaled = mask >> i & 1;
        if (type == 'd') {
            const double *x = from[0], *y = from[1], *z = from[2];
            int by = !scaled ? 0 : exponent_of64(z[i]) > 1023 ? 128 : -128;
            out.d[i] = ldexp(fma(x[i], y[i], z[i]), by);
        } else {
            const float *x = from[0], *y = from[1], *z = from[2];
            int by = !scaled ? 0 : exponent_of(z[i]) > 127 ? 64 : -64;
            out.f[i] = ldexpf(fmaf(x[i], y[i], z[i]), by);
        }
    }
    store(wave, inst, 0, type, &out);
}

/* ---- other lanes ---- */

static int first_lane(const Wave *wave)
{
    uint64_t exec = exec_of(wave);
    return exec ? __builtin_ctzll(exec) : 0;
}

static void run_first_lane(Wave *wave, const Inst *inst)
{
    Row row;
    const uint32_t *from = fetch(wave, inst, 1, 'u', &row);
    scalar_put(wave, inst, &inst->operands[0], 0, from[first_lane(wave)]);
}

static void run_read_lane(Wave *wave, const Inst *inst)
{
    Row row;
    const uint32_t *from = fetch(wave, inst, 1, 'u', &row);
    uint32_t lane = scalar_get(wave, inst, &inst->operands[2], 0) % (uint32_t)wave->n;
    scalar_put(wave, inst, &inst->operands[0], 0, from[lane]);
}

static void run_write_lane(Wave *wave, const Inst *inst)
{
    uint32_t lane = scalar_get(wave, inst, &inst->operands[2], 0) % (uint32_t)wave->n;
    wave->v[inst->operands[0].at][lane] = scalar_get(wave, inst, &inst->operands[1], 0);
}

/* Each lane names a lane of its row, or (way 1) of the other row of its half. op_sel: bit 0:
 * inactive lanes may be read; bit 1: what may not is 0. */
static void run_permute_lanes(Wave *wave, const Inst *inst)
{
    Row row, out;
    Inst plain = *inst;
    plain.selects = 0;
    const uint32_t *from = fetch(wave, &plain, 1, 'u', &row);
    uint64_t list = scalar_get(wave, inst, &inst->operands[2], 0) |
                    (uint64_t)scalar_get(wave, inst, &inst->operands[3], 0) << 32;
    const uint32_t *before = wave->v[inst->operands[0].at];
    for (int i = 0; i < wave->n; i++) {
        int source = (i & ~15) ^ (inst->way ? 16 : 0);
        source |= (int)(list >> 4 * (i & 15) & 15);
        bool reads = (exec_of(wave) >> source & 1) || (inst->selects & 1);
        out.u[i] = reads ? from[source] : inst->selects & 2 ? 0 : before[i];
    }
    store(wave, &plain, 0, 'u', &out);
}

/* Halves of one register change places with halves of the other: rows of 16, or of 32 lanes. */
static void run_swap_lanes(Wave *wave, const Inst *inst)
{
    uint32_t *a = wave->v[inst->operands[0].at], *b = wave->v[inst->operands[1].at];
    int rows = inst->way;
    for (int i = 0; i < wave->n; i++) {
        if (i & rows && exec_of(wave) >> i & 1) {
            uint32_t value = a[i];
            a[i] = b[i - rows];
            b[i - rows] = value;
        }
    }
}

static void run_count_below(Wave *wave, const Inst *inst)
{
    Row mask, add;
    fetch_row(wave, inst, 1, 'u', &mask);
    fetch_row(wave, inst, 2, 'u', &add);
    for (int i = 0; i < wave->n; i++) {
        int at = i - inst->way; /* of the half that is counted */
        uint32_t below = at <= 0 ? 0 : at >= 32 ? UINT32_MAX : (1u << at) - 1;
        add.u[i] += (uint32_t)__builtin_popcount(mask.u[i] & below);
    }
    store(wave, inst, 0, 'u', &add);
}

/* ---- tables ---- */

static int classes(float x)
{
    bool negative = signbit(x);
    switch (fpclassify(x)) {
    case FP_NAN: return float_to_bits(x) >> 22 & 1 ? 2 : 1;
    case FP_INFINITE: return negative ? 4 : 512;
    case FP_NORMAL: return negative ? 8 : 256;
    case FP_SUBNORMAL: return negative ? 16 : 128;
    default: return negative ? 32 : 64;
    }
}

static int classes64(double x)
{
    bool negative = signbit(x);
    switch (fpclassify(x)) {
    case FP_NAN: return 2;
    case FP_INFINITE: return negative ? 4 : 512;
    case FP_NORMAL: return negative ? 8 : 256;
    case FP_SUBNORMAL: return negative ? 16 : 128;
    default: return negative ? 32 : 64;
    }
}

static int classes16(uint32_t x)
{
    bool negative = x >> 15 & 1;
    uint32_t exponent = x >> 10 & 31, mantissa = x & 1023;
    if (exponent == 31) {
        return mantissa ? (mantissa >> 9 ? 2 : 1) : negative ? 4 : 512;
    }
    if (exponent) {
        return negative ? 8 : 256;
    }
    return mantissa ? (negative ? 16 : 128) : negative ? 32 : 64;
}

static void run_class(Wave *wave, const Inst *inst)
{
    Row a, b;
    uint64_t out = 0;
    char type = (char)inst->width;
    const void *from = fetch(wave, inst, 1, type, &a);
    fetch_row(wave, inst, 2, 'u', &b);
    for (int i = 0; i < wave->n; i++) {
        int is = type == 'd'   ? classes64(((const double *)from)[i])
                 : type == 'h' ? classes16(((const uint32_t *)from)[i])
                               : classes(((const float *)from)[i]);
        out |= (uint64_t)((is & (int)b.u[i]) != 0) << i;
    }
    mask_put(wave, inst, &inst->operands[0], out & exec_of(wave));
}

static void run_any_bits(Wave *wave, const Inst *inst)
{
    Row rows[3], out;
    char type = (char)inst->width;
    for (int k = 0; k < 3; k++) {
        fetch_row(wave, inst, k + 1, type, &rows[k]);
    }
    for (int i = 0; i < wave->n; i++) {
        uint32_t bits = 0, a = rows[0].u[i], b = rows[1].u[i], c = rows[2].u[i];
        for (int k = 0; k < 8; k++) {
            bool is_set = inst->bits >> k & 1;
            bits |= is_set ? (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c) : 0;
        }
        out.u[i] = type == 's' ? bits & 0xffff : bits;
    }
    store(wave, inst, 0, type, &out);
}

/* An operand is f32, or by op_sel_hi a half of its register that op_sel chooses. */
static void mixed_operand(Wave *wave, const Inst *inst, int at, float *to)
{
    bool is_half = inst->selects_high != -1 && inst->selects_high >> (at - 1) & 1;
    bool is_upper = inst->selects >> (at - 1) & 1;
    Inst plain = *inst;
    Operand *operand = &plain.operands[at];
    Row row;
    plain.selects = is_half && is_upper ? 1 << (at - 1) : 0;
    operand->negated ^= inst->negates >> (at - 1) & 1;
    operand->absolute |= inst->negates_high >> (at - 1) & 1;
    const uint32_t *from = fetch(wave, &plain, at, is_half ? 'h' : 'f', &row);
    for (int i = 0; i < wave->n; i++) {
        to[i] = is_half ? half_to_float(from[i]) : bits_to_float(from[i]);
    }
}

static void run_mixed(Wave *wave, const Inst *inst)
{
    float values[3][MAX_LANES];
    Row out;
    for (int k = 0; k < 3; k++) {
        mixed_operand(wave, inst, k + 1, values[k]);
    }
    for (int i = 0; i < wave->n; i++) {
        float sum = fmaf(values[0][i], values[1][i], values[2][i]);
        if (inst->width == 'f') {
            out.f[i] = sum;
        } else {
            out.u[i] = float_to_half((double)sum, false);
        }
    }
    Inst plain = *inst;
    plain.selects = inst->high ? 8 : 0; /* which half is written */
    plain.n_operands = 4;
    store(wave, &plain, 0, (char)inst->width, &out);
}

/* Two words, each the low or high one of an operand of 64 bits. */
static void run_packed_move(Wave *wave, const Inst *inst)
{
    Row a, b;
    fetch(wave, inst, 1, 'q', &a);
    fetch(wave, inst, 2, 'q', &b);
    for (int i = 0; i < wave->n; i++) {
        uint32_t low = (uint32_t)(a.q[i] >> (inst->selects & 1 ? 32 : 0));
        uint32_t upper = (uint32_t)(b.q[i] >> (inst->selects & 2 ? 32 : 0));
        a.q[i] = low | (uint64_t)upper << 32;
    }
    store(wave, inst, 0, 'q', &a);
}

/* Products of four bytes, or of two halves, summed. */
/* Elements of `width` bits: 16, 8 or 4. way 1: each side's sign is its neg_lo bit; `high`: the
 * result is what is added to. */
static void run_dot(Wave *wave, const Inst *inst)
{
    Row a, b, c;
    Inst plain = *inst;
    plain.negates = 0;
    for (int k = 1; k < plain.n_operands; k++) {
        plain.operands[k].negated = false;
    }
    fetch_row(wave, &plain, 1, 'u', &a);
    fetch_row(wave, &plain, 2, 'u', &b);
    fetch_row(wave, &plain, inst->high ? 0 : 3, 'u', &c);
    int bits = inst->width, spare = 32 - bits;
    bool first = inst->way ? inst->negates & 1 : inst->flag;
    bool second = inst->way ? inst->negates >> 1 & 1 : inst->flag;
    for (int i = 0; i < wave->n; i++) {
        for (int k = 0; k < 32 / bits; k++) {
            uint32_t x = a.u[i] >> bits * k << spare, y = b.u[i] >> bits * k << spare;
            x = first ? (uint32_t)((int32_t)x >> spare) : x >> spare;
            y = second ? (uint32_t)((int32_t)y >> spare) : y >> spare;
            c.u[i] += x * y;
        }
    }
    store(wave, &plain, 0, 'u', &c);
}

/* Two registers change places; way: their halves. */
static void run_swap(Wave *wave, const Inst *inst)
{
    const Operand *one = &inst->operands[0], *two = &inst->operands[1];
    int low = one->half == HIGH ? 16 : 0, other = two->half == HIGH ? 16 : 0;
    for (int i = 0; i < wave->n; i++) {
        uint32_t *a = &wave->v[one->at][i], *b = &wave->v[two->at][i], was = *a, is = *b;
        if (!(exec_of(wave) >> i & 1)) {
            continue;
        }
        if (inst->way) {
            *a = (was & ~(0xffffu << low)) | (is >> other & 0xffff) << low;
            *b = (*b & ~(0xffffu << other)) | (was >> low & 0xffff) << other;
        } else {
            *a = is;
            *b = was;
        }
    }
}

/* A register that m0 counts from: way 1: of the source, 2: of the result, 3: of both. */
static void run_move_indexed(Wave *wave, const Inst *inst)
{
    Inst moved = *inst;
    uint32_t by = wave->s[S_M0];
    Row row;
    moved.operands[1].at += inst->way & 1 ? (int)by : 0;
    moved.operands[0].at += inst->way & 2 ? (int)by : 0;
    for (int k = 0; k < 2; k++) {
        const Operand *operand = &moved.operands[k];
        if (operand->kind == VECTOR &&
            (operand->at < 0 || operand->at >= wave->block->kernel->vgprs)) {
            stop(wave, inst, "v%d is not allocated", operand->at);
        }
    }
    const void *from = fetch(wave, &moved, 1, 'u', &row);
    if (from != &row) {
        memcpy(row.u, from, sizeof row.u);
    }
    store(wave, &moved, 0, 'u', &row);
}

static void run_scalar_unary(Wave *wave, const Inst *inst)
{
    Row row, out;
    const void *from = fetch(wave, inst, 1, 'f', &row);
    inst->op->run(&out, from, NULL, NULL, 1);
    scalar_put(wave, inst, &inst->operands[0], 0, out.u[0]);
}

/* ---- names ---- */

typedef struct Special {
    const char *name;
    Handler *run;
    int way, width;
    bool flag, high;
} Special;

static const Special TABLE[] = {
    {"v_cndmask_b32", run_choose, 0, 'f', 0, 0},
    {"v_cndmask_b16", run_choose, 0, 's', 0, 0},
    {"v_add_co_u32", run_carry, ADD, 0, 0, 0},
    {"v_addc_co_u32", run_carry, ADD, 0, 1, 0},
    {"v_add_co_ci_u32", run_carry, ADD, 0, 1, 0},
    {"v_sub_co_u32", run_carry, SUBTRACT, 0, 0, 0},
    {"v_subb_co_u32", run_carry, SUBTRACT, 0, 1, 0},
    {"v_sub_co_ci_u32", run_carry, SUBTRACT, 0, 1, 0},
    {"v_subrev_co_u32", run_carry, SUBTRACT_REVERSED, 0, 0, 0},
    {"v_subbrev_co_u32", run_carry, SUBTRACT_REVERSED, 0, 1, 0},
    {"v_subrev_co_ci_u32", run_carry, SUBTRACT_REVERSED, 0, 1, 0},
    {"v_mad_u64_u32", run_mad64, 0, 0, 0, 0},
    {"v_mad_co_u64_u32", run_mad64, 0, 0, 0, 0},
    {"v_mad_i64_i32", run_mad64, 0, 0, 1, 0},
    {"v_mad_co_i64_i32", run_mad64, 0, 0, 1, 0},
    {"v_div_scale_f32", run_div_scale, 0, 'f', 0, 0},
    {"v_div_scale_f64", run_div_scale, 0, 'd', 0, 0},
    {"v_div_fmas_f32", run_div_fmas, 0, 'f', 0, 0},
    {"v_div_fmas_f64", run_div_fmas, 0, 'd', 0, 0},
    {"v_readfirstlane_b32", run_first_lane, 0, 0, 0, 0},
    {"v_readlane_b32", run_read_lane, 0, 0, 0, 0},
    {"v_writelane_b32", run_write_lane, 0, 0, 0, 0},
    {"v_permlane16_b32", run_permute_lanes, 0, 0, 0, 0},
    {"v_permlanex16_b32", run_permute_lanes, 1, 0, 0, 0},
    {"v_permlane16_swap_b32", run_swap_lanes, 16, 0, 0, 0},
    {"v_permlane32_swap_b32", run_swap_lanes, 32, 0, 0, 0},
    {"v_mbcnt_lo_u32_b32", run_count_below, 0, 0, 0, 0},
    {"v_mbcnt_hi_u32_b32", run_count_below, 32, 0, 0, 0},
    {"v_cmp_class_f32", run_class, 0, 'f', 0, 0},
    {"v_cmp_class_f64", run_class, 0, 'd', 0, 0},
    {"v_bitop3_b32", run_any_bits, 0, 'u', 0, 0},
    {"v_bitop3_b16", run_any_bits, 0, 's', 0, 0},
    {"v_fma_mix_f32", run_mixed, 0, 'f', 0, 0},
    {"v_fma_mixlo_f16", run_mixed, 0, 'h', 0, 0},
    {"v_fma_mixhi_f16", run_mixed, 0, 'h', 0, 1},
    {"v_pk_mov_b32", run_packed_move, 0, 0, 0, 0},
    {"v_cmp_class_f16", run_class, 0, 'h', 0, 0},
    {"v_dot2_i32_i16", run_dot, 0, 16, 1, 0},
    {"v_dot2_u32_u16", run_dot, 0, 16, 0, 0},
    {"v_dot2c_i32_i16", run_dot, 0, 16, 1, 1},
    {"v_dot4_i32_i8", run_dot, 0, 8, 1, 0},
    {"v_dot4_u32_u8", run_dot, 0, 8, 0, 0},
    {"v_dot4_i32_iu8", run_dot, 1, 8, 0, 0},
    {"v_dot4c_i32_i8", run_dot, 0, 8, 1, 1},
    {"v_dot8_i32_i4", run_dot, 0, 4, 1, 0},
    {"v_dot8_u32_u4", run_dot, 0, 4, 0, 0},
    {"v_dot8_i32_iu4", run_dot, 1, 4, 0, 0},
    {"v_dot8c_i32_i4", run_dot, 0, 4, 1, 1},
    {"v_swap_b32", run_swap, 0, 0, 0, 0},
    {"v_swap_b16", run_swap, 1, 0, 0, 0},
    {"v_movrels_b32", run_move_indexed, 1, 0, 0, 0},
    {"v_movreld_b32", run_move_indexed, 2, 0, 0, 0},
    {"v_movrelsd_b32", run_move_indexed, 3, 0, 0, 0},
};

Handler *find_special(const char *name, Inst *inst, int major)
{
    (void)major;
    if (strncmp(name, "v_s_", 4) == 0) {
        char plain[64] = "v_";
        strncat(plain, name + 4, sizeof plain - 3);
        inst->op = lane_op(plain);
        return inst->op ? run_scalar_unary : NULL;
    }
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        if (strcmp(name, TABLE[i].name) == 0) {
            inst->way = TABLE[i].way;
            inst->width = TABLE[i].width;
            inst->flag = TABLE[i].flag;
            inst->high = TABLE[i].high;
            return TABLE[i].run;
        }
    }
    return NULL;
}
