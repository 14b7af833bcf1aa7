/* SPDX-License-Identifier: Apache-2.0 */
/* Vector instructions that do the same in each lane: those of ops.def, their packed forms, and
 * comparisons. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int arity(const LaneOp *op)
{
    return (int)strlen(op->types);
}

static void run_lanes(Wave *wave, const Inst *inst)
{
    const LaneOp *op = inst->op;
    Row rows[3], result;
    const void *from[3] = {NULL, NULL, NULL};
    for (int i = 0; op->types[i]; i++) {
        int at = inst->flag && i == 2 ? 0 : i + 1; /* flag: the result is also added to */
        from[i] = fetch(wave, inst, at, op->types[i], &rows[i]);
    }
    op->run(&result, from[0], from[1], from[2], wave->n);
    store(wave, inst, 0, op->result, &result);
}

/* Two halves, or two words, of each operand by op_sel and op_sel_hi. */
static void packed_part(Wave *wave, const Inst *inst, int part, Row *result)
{
    const LaneOp *op = inst->op;
    Row rows[3];
    const void *from[3] = {NULL, NULL, NULL};
    for (int i = 0; op->types[i]; i++) {
        int at = inst->flag && i == 2 ? 0 : i + 1; /* flag: the result is also added to */
        Inst one = *inst;
        Operand *operand = &one.operands[at];
        bool upper = (part ? inst->selects_high : inst->selects) >> i & 1;
        bool negated = (part ? inst->negates_high : inst->negates) >> i & 1;
        bool is_word = op->types[i] == 'f' || op->types[i] == 'u';
        operand->negated ^= negated;
        one.selects = upper && !is_word && at > 0 ? 1 << i : 0;
        if (upper && !is_word && at == 0) {
            operand->half = HIGH;
        }
        if (is_word && upper && operand->kind >= VECTOR && operand->kind <= SCALAR) {
            operand->at += 1;
        }
        if (is_word) {
            operand->count = 1;
        }
        const void *got = fetch(wave, &one, at, op->types[i], &rows[i]);
        if (got != &rows[i]) {
            memcpy(&rows[i], got, sizeof rows[i].u);
        }
        from[i] = &rows[i];
    }
    op->run(result, from[0], from[1], from[2], wave->n);
}

static void run_packed(Wave *wave, const Inst *inst)
{
    Row low, high, both;
    packed_part(wave, inst, 0, &low);
    packed_part(wave, inst, 1, &high);
    if (inst->op->result == 'f' || inst->op->result == 'u') {
        for (int i = 0; i < wave->n; i++) {
            both.q[i] = low.u[i] | (uint64_t)high.u[i] << 32;
        }
        store(wave, inst, 0, 'q', &both);
        return;
    }
    for (int i = 0; i < wave->n; i++) {
        both.u[i] = (low.u[i] & 0xffff) | high.u[i] << 16;
    }
    store(wave, inst, 0, 'u', &both);
}

/* ---- comparisons ---- */

/* Bits of `way`: less, equal, greater, unordered. */
typedef struct Way {
    const char *name;
    int way;
} Way;

static const Way WAYS[] = {{"lt", 1},   {"eq", 2},   {"le", 3},   {"gt", 4},   {"lg", 5},
                           {"ne", 5},   {"ge", 6},   {"o", 7},    {"u", 8},    {"nge", 9},
                           {"nlg", 10}, {"ngt", 11}, {"nle", 12}, {"neq", 13}, {"nlt", 14},
                           {"t", 15},   {"f", 0}};

#define RELATION(x, y) ((x) < (y) ? 1 : (x) == (y) ? 2 : (x) > (y) ? 4 : 8)
#define COMPARE(field)                                                                             \
    for (int i = 0; i < wave->n; i++) {                                                            \
        int is = RELATION(a.field[i], b.field[i]);                                                 \
        mask |= (uint64_t)((is & inst->way) != 0) << i;                                            \
    }                                                                                              \
    break

static void fetch_row(Wave *wave, const Inst *inst, int at, char type, Row *row)
{
    const void *from = fetch(wave, inst, at, type, row);
    if (from != row) {
        memcpy(row, from, sizeof row->u);
    }
}

static uint64_t compare(Wave *wave, const Inst *inst, int first)
{
    union {
        int64_t l[MAX_LANES];
        uint64_t q[MAX_LANES];
        double d[MAX_LANES];
        float f[MAX_LANES];
        int32_t i[MAX_LANES];
        uint32_t u[MAX_LANES];
        Row row;
    } a, b;
    char type = (char)inst->width;
    char how = type == 'l' ? 'q' : type == 'i' ? 'u' : type == 't' ? 's' : type;
    uint64_t mask = 0;
    fetch_row(wave, inst, first, how, &a.row);
    fetch_row(wave, inst, first + 1, how, &b.row);
    for (int i = 0; i < wave->n; i++) {
        if (type == 'h') {
            a.f[i] = half_to_float(a.u[i]);
            b.f[i] = half_to_float(b.u[i]);
        } else if (type == 't') {
            a.i[i] = (int16_t)a.u[i];
            b.i[i] = (int16_t)b.u[i];
        }
    }
    switch (type) {
    case 'h':
    case 'f': COMPARE(f);
    case 'd': COMPARE(d);
    case 'q': COMPARE(q);
    case 'l': COMPARE(l);
    case 't':
    case 'i': COMPARE(i);
    default: COMPARE(u);
    }
    return mask & exec_of(wave);
}

/* With the mask that is written first, or without: then exec is. */
static void run_compare(Wave *wave, const Inst *inst)
{
    bool has_mask = inst->n_operands == 3;
    Inst shifted;
    const Inst *used = inst;
    if (!has_mask) { /* fetch() counts operands from the result on */
        shifted = *inst;
        memmove(shifted.operands + 1, inst->operands, 2 * sizeof *inst->operands);
        shifted.n_operands = 3;
        used = &shifted;
    }
    uint64_t mask = compare(wave, used, 1);
    if (has_mask) {
        mask_put(wave, inst, &inst->operands[0], mask);
    }
    if (inst->flag) {
        Operand exec = {.kind = SCALAR, .at = S_EXEC, .count = wave->n / 32};
        mask_put(wave, inst, &exec, mask);
    }
}

static Handler *find_compare(const char *name, Inst *inst)
{
    char way[8] = "", type[8] = "";
    bool writes_exec = strncmp(name, "v_cmpx_", 7) == 0;
    if (sscanf(name + (writes_exec ? 7 : 6), "%7[a-z]_%7[a-z0-9]", way, type) != 2) {
        return NULL;
    }
    static const struct {
        const char *name;
        char type;
    } KINDS[] = {{"f16", 'h'}, {"f32", 'f'}, {"f64", 'd'}, {"i16", 't'}, {"u16", 's'},
                 {"i32", 'i'}, {"u32", 'u'}, {"i64", 'l'}, {"u64", 'q'}};
    inst->width = 0;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        inst->width = strcmp(type, KINDS[i].name) == 0 ? KINDS[i].type : inst->width;
    }
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS && inst->width; i++) {
        if (strcmp(way, WAYS[i].name) == 0) {
            inst->way = WAYS[i].way;
            inst->flag = writes_exec;
            return run_compare;
        }
    }
    return NULL;
}

/* ---- names ---- */

/* Integers with clamp are operations of their own, without a carry in their name. */
static void saturate(char *plain, Inst *inst)
{
    const char *kinds[] = {"u32", "i32", "u16"};
    for (int i = 0; i < 3 && inst->clamps; i++) {
        char *at = strstr(plain, kinds[i]);
        if (at && !strstr(plain, "cvt")) {
            at = strstr(plain, "_nc_") ? strstr(plain, "_nc_") + 1 : at;
            sprintf(at, "%s_sat", kinds[i]);
            inst->clamps = false;
        }
    }
}

Handler *find_vector(const char *name, Inst *inst, int major)
{
    (void)major;
    if (strncmp(name, "v_cmp_", 6) == 0 || strncmp(name, "v_cmpx_", 7) == 0) {
        return find_compare(name, inst);
    }
    bool packed = strncmp(name, "v_pk_", 5) == 0;
    char plain[64];
    snprintf(plain, sizeof plain, "v_%s", name + (packed ? 5 : 2));
    if (strncmp(plain, "v_fmac_", 7) == 0 || strncmp(plain, "v_mac_", 6) == 0) {
        snprintf(plain, sizeof plain, "v_fma_%s", strrchr(name, '_') + 1);
        inst->flag = true;
    }
    if (strcmp(plain, "v_dot2c_f32_f16") == 0 || strcmp(plain, "v_dot2acc_f32_f16") == 0) {
        snprintf(plain, sizeof plain, "v_dot2_f32_f16");
        inst->flag = true;
    }
    saturate(plain, inst);
    inst->op = name[0] == 'v' ? lane_op(plain) : NULL;
    if (!inst->op) {
        return NULL;
    }
    return packed                                                       ? run_packed
           : inst->n_operands == arity(inst->op) + (inst->flag ? 0 : 1) ? run_lanes
                                                                        : NULL;
}
