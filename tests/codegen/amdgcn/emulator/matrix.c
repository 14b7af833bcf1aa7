/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions (result, A, B, C) of 16 by 16 and 32 by 32, in the layouts of AMD's manuals.
 */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum Kind { F16, BF16, F32, F64, INT8, FP8, BF8, N_KINDS } Kind;
static const int BYTES[] = {2, 2, 4, 8, 1, 1, 1};

static double small_float(uint32_t bits, int exponents, int bias)
{
    int mantissas = 7 - exponents, mantissa = (int)bits & ((1 << mantissas) - 1);
    int exponent = (int)(bits & 127) >> mantissas;
    double sign = bits & 128 ? -1 : 1;
    if (exponents == 4 && (bits & 127) == 127) {
        return NAN;
    }
    if (exponents == 5 && exponent == 31) {
        return mantissa ? NAN : sign * INFINITY;
    }
    return sign * ldexp(mantissa + (exponent ? 1 << mantissas : 0),
                        (exponent ? exponent : 1) - bias - mantissas);
}

/* Element `at` of those that a lane has in the registers from `reg` on. */
static double element(const Wave *wave, Kind kind, bool is_signed, int reg, int lane, int at)
{
    int byte = at * BYTES[kind];
    uint32_t word = wave->v[reg + byte / 4][lane] >> byte % 4 * 8;
    double wide;
    uint64_t bits;
    switch (kind) {
    case F16: return (double)half_to_float(word & 0xffff);
    case BF16: return (double)bits_to_float(word << 16);
    case F32: return (double)bits_to_float(word);
    case INT8: return is_signed ? (int8_t)word : (uint8_t)word;
    case FP8: return small_float(word & 255, 4, 7);
    case BF8: return small_float(word & 255, 5, 15);
    default: break;
    }
    bits = word | (uint64_t)wave->v[reg + byte / 4 + 1][lane] << 32;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* gfx9, gfx12: lane = line + size * (k / own). gfx11: all of k in both halves of a wave. */
typedef struct Form {
    int size, depth, own; /* own: elements of k a lane */
    Kind kinds[2], result;
    bool is_wmma;
} Form;

static void check_halves(Wave *wave, const Inst *inst, const Form *form, int reg)
{
    int words = form->own * BYTES[form->kinds[0]] / 4;
    for (int lane = 0; lane < wave->n; lane++) {
        for (int i = 0; i < words; i++) {
            if (wave->v[reg + i][lane] != wave->v[reg + i][lane % 16]) {
                stop(wave, inst, "the parts of the wave have different operands");
            }
        }
    }
}

static void read_side(Wave *wave, const Inst *inst, const Form *form, int side, double to[32][128])
{
    const Operand *operand = &inst->operands[1 + side];
    bool doubled = form->is_wmma && wave->major == 11;
    bool is_signed = !form->is_wmma || (inst->negates >> side & 1);
    if (operand->kind != VECTOR) {
        stop(wave, inst, "an operand of another form");
    }
    for (int i = 0; i < operand->count; i++) {
        if (wave->vector_waits[operand->at + i]) {
            stop(wave, inst, "v%d is read before its load was waited for", operand->at + i);
        }
    }
    if (doubled) {
        check_halves(wave, inst, form, operand->at);
    }
    for (int line = 0; line < form->size; line++) {
        for (int k = 0; k < form->depth; k++) {
            int lane = line + form->size * (k / form->own);
            to[line][k] =
                element(wave, form->kinds[side], is_signed, operand->at, lane, k % form->own);
        }
    }
}

static void place(const Wave *wave, const Form *form, int r, int lane, int *row, int *column)
{
    int part = lane / form->size;
    *column = lane % form->size;
    if (form->is_wmma) {
        *row = wave->major == 11 ? (wave->n == 32 ? 2 : 4) * r + part : 8 * part + r;
    } else if (form->result == F64) {
        *row = 4 * r + part;
    } else {
        *row = form->size == 16 ? 4 * part + r : 8 * (r / 4) + 4 * part + r % 4;
    }
}

static void run_matrix(Wave *wave, const Inst *inst)
{
    static double a[32][128], b[32][128];
    const Form form = {.size = inst->way,
                       .depth = inst->width,
                       .own = (int)inst->offset1,
                       .kinds = {(Kind)(inst->bits & 15), (Kind)(inst->bits >> 4 & 15)},
                       .result = (Kind)(inst->bits >> 8),
                       .is_wmma = inst->flag};
    const Operand *to = &inst->operands[0], *add = &inst->operands[3];
    int words = BYTES[form.result] / 4, n = form.size * form.size / wave->n;
    static uint32_t out[64][MAX_LANES];
    words = form.result == INT8 ? 1 : words;
    if (exec_of(wave) != (wave->n == 64 ? UINT64_MAX : UINT32_MAX)) {
        stop(wave, inst, "a matrix instruction of a part of the wave");
    }
    if (to->count != n * words) {
        stop(wave, inst, "a result of another size");
    }
    read_side(wave, inst, &form, 0, a);
    read_side(wave, inst, &form, 1, b);
    for (int lane = 0; lane < wave->n; lane++) {
        for (int r = 0; r < n; r++) {
            int row, column;
            double sum = 0;
            place(wave, &form, r, lane, &row, &column);
            for (int k = 0; k < form.depth; k++) {
                sum += a[row][k] * b[column][k];
            }
            uint32_t was = add->kind == VECTOR     ? wave->v[add->at + r * words][lane]
                           : add->kind == FLOATING ? float_to_bits((float)add->floating)
                                                   : (uint32_t)add->integer;
            if (form.result == F64) {
                uint64_t bits = was;
                double before = 0;
                if (add->kind == VECTOR) {
                    bits |= (uint64_t)wave->v[add->at + r * 2 + 1][lane] << 32;
                    memcpy(&before, &bits, sizeof bits);
                }
                sum += before;
                memcpy(&bits, &sum, sizeof bits);
                out[2 * r][lane] = (uint32_t)bits;
                out[2 * r + 1][lane] = (uint32_t)(bits >> 32);
            } else if (form.result == INT8) {
                out[r][lane] = was + (uint32_t)(int64_t)sum;
            } else {
                out[r][lane] = float_to_bits((float)((double)bits_to_float(was) + sum));
            }
        }
    }
    memcpy(wave->v[to->at], out, (size_t)(n * words) * sizeof *out);
}

/* ---- names ---- */

static bool kind_of(const char **text, Kind *kind)
{
    static const struct {
        const char *name;
        Kind kind;
    } KINDS[] = {{"bf16_1k", BF16}, {"bf16", BF16}, {"f16", F16}, {"f32", F32}, {"f64", F64},
                 {"iu8", INT8},     {"i8", INT8},   {"fp8", FP8}, {"bf8", BF8}, {"i32", INT8}};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        size_t n = strlen(KINDS[i].name);
        if (strncmp(*text, KINDS[i].name, n) == 0) {
            *kind = KINDS[i].kind;
            *text += n;
            return true;
        }
    }
    return false;
}

/* v_mfma_f32_16x16x16_f16, …16x16x16f16, …16x16x32_fp8_bf8, v_wmma_i32_16x16x16_iu8 */
Handler *find_matrix(const char *name, Inst *inst, int major)
{
    bool is_wmma = strncmp(name, "v_wmma_", 7) == 0;
    int rows, columns, depth, used;
    Kind result, one, two;
    if (!is_wmma && strncmp(name, "v_mfma_", 7) != 0) {
        return NULL;
    }
    name += 7;
    if (!kind_of(&name, &result) || (result != F32 && result != F64 && result != INT8) ||
        sscanf(name, "_%dx%dx%d%n", &rows, &columns, &depth, &used) != 3 || rows != columns ||
        (rows != 16 && rows != 32) || (is_wmma && (rows != 16 || depth != 16))) {
        return NULL;
    }
    name += used;
    name += *name == '_';
    if (!kind_of(&name, &one)) {
        return NULL;
    }
    name += *name == '_';
    two = one;
    if (*name && (!kind_of(&name, &two) || *name)) {
        return NULL;
    }
    int lanes = major == 9 ? 64 : 32;
    if (!is_wmma && depth * rows / lanes == 0) {
        return NULL;
    }
    inst->way = rows;
    inst->width = depth;
    inst->offset1 = is_wmma && major == 11 ? depth : depth * rows / lanes;
    inst->bits = (int)(one | two << 4 | result << 8);
    inst->flag = is_wmma;
    return run_matrix;
}
