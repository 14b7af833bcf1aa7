/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction cvt. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

enum { NEAREST, ZERO, DOWN, UP, AWAY };

/* ---- eight bits ---- */

float from_f8(uint32_t bits, bool wide_range)
{
    int mantissa = wide_range ? 2 : 3, bias = wide_range ? 15 : 7;
    uint32_t exponent = (bits & 127) >> mantissa, low = bits & ((1u << mantissa) - 1);
    float sign = bits & 128 ? -1.0f : 1.0f;
    if (wide_range ? exponent == 31 : (bits & 127) == 127) {
        return wide_range && low == 0 ? sign * INFINITY : NAN;
    }
    float scaled = (float)low / (float)(1 << mantissa) + (exponent ? 1 : 0);
    return sign * ldexpf(scaled, (int)(exponent ? exponent : 1) - bias);
}

/* To nearest even, what is too large to the largest. */
static uint32_t to_f8(float x, bool wide_range)
{
    int mantissa = wide_range ? 2 : 3, bias = wide_range ? 15 : 7;
    uint32_t sign = signbit(x) ? 128 : 0, largest = wide_range ? 0x7b : 0x7e;
    if (isnan(x)) {
        return 0x7f;
    }
    float size = fabsf(x);
    if (size == 0) {
        return sign;
    }
    if (size > (wide_range ? 57344.0f : 448.0f)) {
        return sign | largest;
    }
    int exponent;
    frexpf(size, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    uint32_t whole = (uint32_t)nearbyintf(ldexpf(size, mantissa - exponent));
    uint32_t bits = ((uint32_t)(exponent + bias - 1) << mantissa) + whole;
    return sign | (bits > largest ? largest : bits);
}

/* ---- one value ---- */

static double read_float(const char *type, uint64_t bits)
{
    double value;
    if (strcmp(type, "f64") == 0) {
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return (double)(strcmp(type, "f16") == 0    ? half_to_float((uint32_t)bits & 0xffff)
                    : strcmp(type, "bf16") == 0 ? bits_to_float((uint32_t)bits << 16)
                                                : bits_to_float((uint32_t)bits));
}

static uint32_t nan_free(float x, uint32_t bits, uint32_t nan)
{
    return isnan(x) ? nan : bits;
}

static uint64_t write_float(const char *type, double value, int rounding)
{
    uint64_t bits;
    if (strcmp(type, "f64") == 0) {
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    if (strcmp(type, "f16") == 0) {
        return isnan(value) ? 0x7fff : float_to_half(value, rounding == ZERO);
    }
    float single = (float)value;
    if (rounding == ZERO && fabs((double)single) > fabs(value)) {
        single = nextafterf(single, 0);
    }
    if (strcmp(type, "bf16") == 0) {
        uint32_t cut = float_to_bits(single) >> 16;
        return nan_free(single, rounding == ZERO ? cut : float_to_bf16(single), 0x7fff);
    }
    return nan_free(single, float_to_bits(single), 0x7fffffff);
}

static double rounded(double value, int rounding)
{
    return rounding == ZERO   ? trunc(value)
           : rounding == DOWN ? floor(value)
           : rounding == UP   ? ceil(value)
                              : nearbyint(value);
}

static uint64_t float_to_integer(double value, int bits, bool with_sign, int rounding)
{
    if (isnan(value)) {
        return 0;
    }
    value = rounded(value, rounding);
    double over = ldexp(1, with_sign ? bits - 1 : bits), under = with_sign ? -over : 0;
    uint64_t largest = with_sign ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
    if (value >= over) {
        return largest;
    }
    if (value <= under) {
        return with_sign ? UINT64_C(1) << (bits - 1) : 0;
    }
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

static uint64_t clamped(int64_t value, bool from_sign, int bits, bool to_sign)
{
    int64_t least = to_sign ? -(INT64_C(1) << (bits - 1)) : 0;
    uint64_t most = to_sign ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
    if (from_sign && value < 0) {
        return (uint64_t)(value < least ? least : value);
    }
    return (uint64_t)value > most ? most : (uint64_t)value;
}

typedef struct Conversion {
    char to[8], from[8];
    int rounding;
    bool saturates, flushes, to_integer;
} Conversion;
enum { MAX_CONVERSIONS = 512 };
static Conversion conversions[MAX_CONVERSIONS];
static int n_conversions;

static uint64_t integer_to_float(const char *type, uint64_t bits, bool with_sign, int rounding)
{
    if (strcmp(type, "f32") == 0 && rounding == NEAREST) { /* rounded once */
        return float_to_bits(with_sign ? (float)(int64_t)bits : (float)bits);
    }
    return write_float(type, with_sign ? (double)(int64_t)bits : (double)bits, rounding);
}

static uint64_t convert(const Conversion *c, uint64_t bits)
{
    bool from_float = strchr(c->from, 'f') != NULL, to_float = strchr(c->to, 'f') != NULL;
    int to_bits = type_bits(c->to), from_bits = type_bits(c->from);
    uint64_t out;
    if (from_float) {
        double value = read_float(c->from, bits);
        value = c->flushes && fabs(value) < 0x1p-126 ? copysign(0, value) : value;
        if (to_float && c->to_integer) {
            value = rounded(value, c->rounding);
        }
        if (to_float && c->saturates) {
            value = isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
        }
        out = to_float ? write_float(c->to, value, c->rounding)
                       : float_to_integer(value, to_bits, *c->to == 's', c->rounding);
    } else {
        bool with_sign = *c->from == 's';
        bits = from_bits < 64 ? bits & ((UINT64_C(1) << from_bits) - 1) : bits;
        if (with_sign && from_bits < 64) {
            bits = (uint64_t)((int64_t)(bits << (64 - from_bits)) >> (64 - from_bits));
        }
        out = to_float       ? integer_to_float(c->to, bits, with_sign, c->rounding)
              : c->saturates ? clamped((int64_t)bits, with_sign, to_bits, *c->to == 's')
                             : bits;
    }
    if (to_bits == 8 && *c->to == 's') {
        out = (uint64_t)(int64_t)(int8_t)out & 0xffff; /* in a register of 16 bits */
    }
    return to_bits < 64 && to_bits != 8 ? out & ((UINT64_C(1) << to_bits) - 1)
           : to_bits == 8               ? out & 0xffff
                                        : out;
}

static Step run_convert(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Conversion *c = &conversions[inst->way];
    const Operand *to = &inst->operands[0], *from = &inst->operands[1];
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            lane_put(warp, to, lane, convert(c, lane_get(warp, from, lane)));
        }
    }
    return NEXT;
}

/* ---- two in one register ---- */

static uint32_t narrow(const char *type, float x)
{
    return strncmp(type, "e4m3", 4) == 0   ? to_f8(x, false)
           : strncmp(type, "e5m2", 4) == 0 ? to_f8(x, true)
           : *type == 'b'                  ? (uint32_t)write_float("bf16", (double)x, NEAREST)
                                           : (uint32_t)write_float("f16", (double)x, NEAREST);
}

static Step run_pairs(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Conversion *c = &conversions[inst->way];
    int bits = *c->to == 'e' ? 8 : 16;
    for (int lane = 0; lane < LANES; lane++) {
        float high, low;
        uint32_t first = row32(warp, &inst->operands[1])[lane];
        if (inst->n == 3) {
            high = bits_to_float(first);
            low = bits_to_float(row32(warp, &inst->operands[2])[lane]);
        } else if (*c->from == 'e') {
            high = from_f8(first >> 8 & 255, c->from[1] == '5');
            low = from_f8(first & 255, c->from[1] == '5');
        } else {
            high = half_to_float(first >> 16);
            low = half_to_float(first & 0xffff);
        }
        if (mask >> lane & 1) {
            row32(warp, &inst->operands[0])[lane] =
                narrow(c->to, high) << bits | narrow(c->to, low);
        }
    }
    return NEXT;
}

static Step run_tf32(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t bits = row32(warp, &inst->operands[1])[lane];
        bool special = (bits & 0x7f800000) == 0x7f800000;
        uint32_t half = inst->way == AWAY ? 0x1000 : 0xfff + (bits >> 13 & 1);
        bits = special ? bits : (bits + half) & 0xffffe000;
        if (mask >> lane & 1) {
            row32(warp, &inst->operands[0])[lane] = bits;
        }
    }
    return NEXT;
}

static bool is_pair(const char *type)
{
    return strstr(type, "x2") != NULL;
}

Run *find_convert(const Opcode *opcode, Inst *inst)
{
    if (strcmp(opcode->words[0], "cvt") != 0 || opcode->n < 3 || n_conversions == MAX_CONVERSIONS) {
        return NULL;
    }
    const char *to = opcode->words[opcode->n - 2], *from = opcode->words[opcode->n - 1];
    if (strcmp(to, "tf32") == 0) {
        inst->way = opcode_has(opcode, "rna") ? AWAY : NEAREST;
        return run_tf32;
    }
    Conversion made = {.rounding = NEAREST};
    static const char *const names[] = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"};
    for (int i = 0; i < 8; i++) {
        if (opcode_has(opcode, names[i])) {
            made.rounding = i % 4;
            made.to_integer = i >= 4;
        }
    }
    made.saturates = opcode_has(opcode, "sat");
    made.flushes = opcode_has(opcode, "ftz");
    bool pairs = is_pair(to);
    if (!pairs && (!type_bits(to) || !type_bits(from))) {
        return NULL;
    }
    memcpy(made.to, to, sizeof made.to);
    memcpy(made.from, from, sizeof made.from);
    made.to[7] = made.from[7] = 0;
    int at = 0;
    while (at < n_conversions && memcmp(&conversions[at], &made, sizeof made) != 0) {
        at++;
    }
    conversions[at] = made;
    n_conversions += at == n_conversions;
    inst->way = at;
    return pairs ? run_pairs : run_convert;
}
