/* SPDX-License-Identifier: Apache-2.0 */
/* Lane-by-lane arithmetic (lanes.def), comparisons and selects. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <math.h>
#include <string.h>

static uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, first = a1 * b0 + (low >> 32), second = a0 * b1 + (uint32_t)first;
    return a1 * b1 + (first >> 32) + (second >> 32);
}

static uint64_t field(uint64_t a, uint32_t from, uint32_t n, uint32_t bits)
{
    uint64_t rest = from < bits ? a >> from : 0;
    return n < 64 ? rest & ((UINT64_C(1) << n) - 1) : rest;
}

static int64_t field_signed(uint64_t a, uint32_t from, uint32_t n, uint32_t bits)
{
    if (n == 0) {
        return 0;
    }
    uint32_t last = from + n - 1 < bits - 1 ? from + n - 1 : bits - 1;
    uint64_t sign = 0u - (a >> last & 1);
    uint64_t found = field(a, from, n, bits);
    uint32_t there = from < bits ? last - from + 1 : 0;
    return (int64_t)(there < 64 ? found | sign << there : found);
}

static uint64_t reversed(uint64_t a)
{
    uint64_t out = 0;
    for (int i = 0; i < 64; i++) {
        out |= (a >> i & 1) << (63 - i);
    }
    return out;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t select)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t which = select >> 4 * i & 15;
        uint32_t byte = bytes >> 8 * (which & 7) & 255;
        byte = which & 8 ? (byte & 128 ? 255 : 0) : byte;
        out |= byte << 8 * i;
    }
    return out;
}

/* Bytes from the c-th on downwards, as a selection. */
static uint32_t backward(uint32_t c)
{
    static const uint32_t selections[] = {0x5670, 0x6701, 0x7012, 0x0123};
    return selections[c & 3];
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static double least(double a, double b, bool nan)
{
    if (isnan(a) || isnan(b)) {
        return nan ? (double)NAN : isnan(a) ? b : a;
    }
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double most(double a, double b, bool nan)
{
    if (isnan(a) || isnan(b)) {
        return nan ? (double)NAN : isnan(a) ? b : a;
    }
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static float least_f(float a, float b)
{
    return isunordered(a, b) ? NAN : a < b || (a == b && signbit(a)) ? a : b;
}

static float most_f(float a, float b)
{
    return isunordered(a, b) ? NAN : a > b || (a == b && !signbit(a)) ? a : b;
}

/* a * b + c of both halves, rounded once. */
static uint32_t pair_fma(uint32_t a, uint32_t b, uint32_t c, bool is_bf16)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i += 16) {
        double in[3];
        uint32_t words[3] = {a >> i & 0xffff, b >> i & 0xffff, c >> i & 0xffff};
        for (int k = 0; k < 3; k++) {
            in[k] = (double)(is_bf16 ? bits_to_float(words[k] << 16) : half_to_float(words[k]));
        }
        double exact = fma(in[0], in[1], in[2]);
        uint32_t one = float_to_half(exact, false);
        if (is_bf16) { /* to odd first, so that it is rounded once */
            float single = (float)exact;
            uint32_t bits = float_to_bits(single);
            if ((double)single != exact) {
                bits = fabs((double)single) > fabs(exact) ? bits - 1 : bits;
                bits |= 1;
            }
            one = float_to_bf16(bits_to_float(bits));
        }
        out |= (isnan(exact) ? 0x7fff : one) << i;
    }
    return out;
}

static uint32_t pair(uint32_t a, uint32_t b, bool is_bf16, bool is_min)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i += 16) {
        uint32_t x = a >> i & 0xffff, y = b >> i & 0xffff;
        float p = is_bf16 ? bits_to_float(x << 16) : half_to_float(x);
        float q = is_bf16 ? bits_to_float(y << 16) : half_to_float(y);
        float r = is_min ? least_f(p, q) : most_f(p, q);
        out |= (isnan(r)  ? 0x7fff
                : is_bf16 ? float_to_bits(r) >> 16
                          : float_to_half(r, false))
               << i;
    }
    return out;
}

/* ---- the table ---- */

typedef uint32_t Stored_u, Stored_h, Stored_s;
typedef int32_t Stored_i;
typedef float Stored_f;
typedef uint64_t Stored_q;
typedef int64_t Stored_l;
typedef double Stored_d;
typedef uint32_t Value_u;
typedef int32_t Value_i;
typedef float Value_f;
typedef uint64_t Value_q;
typedef int64_t Value_l;
typedef double Value_d;
typedef uint16_t Value_h;
typedef int16_t Value_s;
typedef uint32_t Result_u;
typedef int32_t Result_i;
typedef float Result_f;
typedef uint64_t Result_q;
typedef int64_t Result_l;
typedef double Result_d;
typedef uint16_t Result_h;
typedef uint16_t Result_s;

static inline void put_row(void *to, const void *from, size_t size, uint32_t mask)
{
    if (mask == ALL_LANES) {
        memcpy(to, from, size * LANES);
        return;
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            memcpy((char *)to + size * (size_t)lane, (const char *)from + size * (size_t)lane,
                   size);
        }
    }
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LANE(opcode, D, A, B, C, result)                                                           \
    static Step JOIN(run_, __LINE__)(Warp * warp, const Inst *inst, uint32_t mask)                 \
    {                                                                                              \
        const Stored_##A *as = (const void *)(warp->rows + inst->operands[1].at);                  \
        const Stored_##B *bs =                                                                     \
            (const void *)(warp->rows + inst->operands[inst->n > 2 ? 2 : 1].at);                   \
        const Stored_##C *cs =                                                                     \
            (const void *)(warp->rows + inst->operands[inst->n > 3 ? 3 : 1].at);                   \
        _Alignas(64) Stored_##D out[LANES];                                                        \
        for (int lane = 0; lane < LANES; lane++) {                                                 \
            Value_##A a = (Value_##A)as[lane];                                                     \
            Value_##B b = (Value_##B)bs[lane];                                                     \
            Value_##C c = (Value_##C)cs[lane];                                                     \
            (void)b, (void)c;                                                                      \
            out[lane] = (Result_##D)(result);                                                      \
        }                                                                                          \
        put_row(warp->rows + inst->operands[0].at, out, sizeof *out, mask);                        \
        return NEXT;                                                                               \
    }
#include "tests/codegen/nvptx/emulator/lanes.def"
#undef LANE

static const struct {
    const char *opcode;
    Run *run;
} table[] = {
#define LANE(opcode, D, A, B, C, result) {opcode, JOIN(run_, __LINE__)},
#include "tests/codegen/nvptx/emulator/lanes.def"
#undef LANE
};

/* ---- comparisons and choices ---- */

typedef enum Way { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NOT_NUM } Way;

#define COMPARE(T)                                                                                 \
    do {                                                                                           \
        const T *a = (const void *)(warp->rows + inst->operands[1].at);                            \
        const T *b = (const void *)(warp->rows + inst->operands[2].at);                            \
        switch ((Way)inst->way) {                                                                  \
        case EQ: EACH(a[i] == b[i]);                                                               \
        case NE: EACH(a[i]<b[i] || a[i]> b[i]);                                                    \
        case LT: EACH(a[i] < b[i]);                                                                \
        case LE: EACH(a[i] <= b[i]);                                                               \
        case GT: EACH(a[i] > b[i]);                                                                \
        case GE: EACH(a[i] >= b[i]);                                                               \
        case EQU: EACH(!(a[i] < b[i] || a[i] > b[i]));                                             \
        case NEU: EACH(a[i] != b[i]);                                                              \
        case LTU: EACH(!(a[i] >= b[i]));                                                           \
        case LEU: EACH(!(a[i] > b[i]));                                                            \
        case GTU: EACH(!(a[i] <= b[i]));                                                           \
        case GEU: EACH(!(a[i] < b[i]));                                                            \
        case NUM: EACH(a[i] == a[i] && b[i] == b[i]);                                              \
        case NOT_NUM: EACH(a[i] != a[i] || b[i] != b[i]);                                          \
        }                                                                                          \
    } while (0)
#define EACH(condition)                                                                            \
    for (int i = 0; i < LANES; i++) {                                                              \
        found |= (uint32_t)(condition) << i;                                                       \
    }                                                                                              \
    break

static uint32_t compare_half(const Warp *warp, const Inst *inst)
{
    uint32_t found = 0;
    int32_t left[LANES], right[LANES];
    for (int i = 0; i < LANES; i++) {
        uint32_t x = row32(warp, &inst->operands[1])[i], y = row32(warp, &inst->operands[2])[i];
        left[i] = inst->type == 's' ? (int16_t)x : (uint16_t)x;
        right[i] = inst->type == 's' ? (int16_t)y : (uint16_t)y;
    }
    const int32_t *a = left, *b = right;
    switch ((Way)inst->way) {
    case EQ: EACH(a[i] == b[i]);
    case NE: EACH(a[i] != b[i]);
    case LT: EACH(a[i] < b[i]);
    case LE: EACH(a[i] <= b[i]);
    case GT: EACH(a[i] > b[i]);
    default: EACH(a[i] >= b[i]);
    }
    return found;
}

static Step run_compare(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t found = 0;
    switch (inst->type) {
    case 'u': COMPARE(uint32_t); break;
    case 'i': COMPARE(int32_t); break;
    case 'f': COMPARE(float); break;
    case 'q': COMPARE(uint64_t); break;
    case 'l': COMPARE(int64_t); break;
    case 'd': COMPARE(double); break;
    default: found = compare_half(warp, inst); break;
    }
    predicate_put(warp, &inst->operands[0], mask, found);
    return NEXT;
}

static Run *find_compare(const Opcode *opcode, Inst *inst)
{
    static const char *const ways[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge", "equ", "neu", "ltu",
                                       "leu", "gtu", "geu", "num", "nan", "lo", "ls",  "hi",  "hs"};
    static const int meant[] = {EQ,  NE,  LT,  LE,  GT,      GE, EQU, NEU, LTU,
                                LEU, GTU, GEU, NUM, NOT_NUM, LT, LE,  GT,  GE};
    static const char *const types[] = {"u16", "s16", "b16", "u32", "s32", "b32",
                                        "f32", "u64", "s64", "b64", "f64"};
    inst->way = -1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        inst->way = strcmp(ways[i], opcode->words[1]) == 0 ? meant[i] : inst->way;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        inst->type = strcmp(types[i], opcode->words[2]) == 0 ? "hshuiufqlqd"[i] : inst->type;
    }
    return opcode->n == 3 && inst->way >= 0 && inst->type && inst->n == 3 ? run_compare : NULL;
}

/* The lowest `n` bits of a, from bit `from` on of b (PTX, bfi). */
static uint64_t with_field(uint64_t a, uint64_t b, uint32_t from, uint32_t n)
{
    uint64_t field = n < 64 ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0);
    return from > 63 ? b : (b & ~(field << from)) | (a & field) << from;
}

static Step run_insert(Warp *warp, const Inst *inst, uint32_t mask)
{
    bool wide = inst->operands[0].wide;
    const uint32_t *from = row32(warp, &inst->operands[3]), *n = row32(warp, &inst->operands[4]);
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t at = from[lane] & 255, bits = n[lane] & 255;
        if (!(mask >> lane & 1)) {
            continue;
        }
        if (wide) {
            row64(warp, &inst->operands[0])[lane] =
                with_field(row64(warp, &inst->operands[1])[lane],
                           row64(warp, &inst->operands[2])[lane], at, bits);
        } else {
            row32(warp, &inst->operands[0])[lane] =
                (uint32_t)with_field(row32(warp, &inst->operands[1])[lane],
                                     row32(warp, &inst->operands[2])[lane], at, bits);
        }
    }
    return NEXT;
}

static Step run_select(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t which = predicate_get(warp, &inst->operands[3]);
    bool wide = inst->operands[0].wide;
    for (int lane = 0; lane < LANES; lane++) {
        const Operand *from = &inst->operands[which >> lane & 1 ? 1 : 2];
        if (mask >> lane & 1) {
            if (wide) {
                row64(warp, &inst->operands[0])[lane] = row64(warp, from)[lane];
            } else {
                row32(warp, &inst->operands[0])[lane] = row32(warp, from)[lane];
            }
        }
    }
    return NEXT;
}

static Step run_masks(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t a = predicate_get(warp, &inst->operands[1]);
    uint32_t b = predicate_get(warp, &inst->operands[inst->n > 2 ? 2 : 1]);
    uint32_t out = inst->way == 'a'   ? a & b
                   : inst->way == 'o' ? a | b
                   : inst->way == 'x' ? a ^ b
                   : inst->way == 'n' ? ~a
                                      : a;
    predicate_put(warp, &inst->operands[0], mask, out);
    return NEXT;
}

/* Any function of three bits. */
static Step run_logic(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t table_bits = row32(warp, &inst->operands[4])[0];
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t in[3], out = 0;
        for (int i = 0; i < 3; i++) {
            in[i] = row32(warp, &inst->operands[1 + i])[lane];
        }
        for (int i = 0; i < 8; i++) {
            uint32_t here =
                (i & 4 ? in[0] : ~in[0]) & (i & 2 ? in[1] : ~in[1]) & (i & 1 ? in[2] : ~in[2]);
            out |= table_bits >> i & 1 ? here : 0;
        }
        if (mask >> lane & 1) {
            row32(warp, &inst->operands[0])[lane] = out;
        }
    }
    return NEXT;
}

/* Registers to or from parts of one. */
static Step run_pack(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Operand *to = &inst->operands[0], *from = &inst->operands[1];
    int n = to->kind == VECTOR ? to->n : from->n, bits = inst->bits / n;
    uint64_t part_mask = (UINT64_C(1) << bits) - 1;
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t whole = from->kind == VECTOR ? 0 : lane_get(warp, from, lane);
        for (int i = 0; i < n && from->kind == VECTOR; i++) {
            whole |= (lane_get(warp, part(inst, from, i), lane) & part_mask) << bits * i;
        }
        for (int i = 0; i < n && mask >> lane & 1; i++) {
            if (to->kind != VECTOR) {
                lane_put(warp, to, lane, whole);
            } else {
                lane_put(warp, part(inst, to, i), lane, whole >> bits * i & part_mask);
            }
        }
    }
    return NEXT;
}

static Step run_move(Warp *warp, const Inst *inst, uint32_t mask)
{
    if (warp->products) {
        products_add_copy(warp, &inst->operands[0], &inst->operands[1]);
    }
    put_row(row32(warp, &inst->operands[0]), row32(warp, &inst->operands[1]), 4, mask);
    return NEXT;
}

Run *find_lanes(const Opcode *opcode, Inst *inst)
{
    const char *first = opcode->words[0], *last = opcode->words[opcode->n - 1];
    inst->bits = type_bits(last);
    if (strcmp(last, "pred") == 0) {
        inst->way = *first;
        return run_masks;
    }
    if (strcmp(first, "setp") == 0) {
        return find_compare(opcode, inst);
    }
    if (strcmp(first, "bfi") == 0) {
        return run_insert;
    }
    if (strcmp(first, "selp") == 0) {
        return run_select;
    }
    if (strcmp(first, "lop3") == 0) {
        return run_logic;
    }
    if (strcmp(first, "mov") == 0) {
        if (inst->operands[0].kind == VECTOR || inst->operands[1].kind == VECTOR) {
            return run_pack;
        }
        if (inst->bits == 32 && !inst->operands[1].wide) {
            return run_move;
        }
    }
    if (strcmp(first, "cvt") == 0 && /* registers may be wider than their types */
        (inst->operands[1].wide != (inst->bits == 64) ||
         inst->operands[0].wide != (type_bits(opcode->words[opcode->n - 2]) == 64))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].opcode, opcode->text) == 0) {
            return table[i].run;
        }
    }
    return NULL;
}
