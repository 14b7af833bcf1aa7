/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the operands of vector instructions in all lanes, with their modifiers, and writes results
 * under the mask of active lanes. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

/* Literals have 32 bits. As 64 those of numbers with a sign are extended by it, all others by
 * zeros; LLVM gives the former none that differs. */
bool extends_by_zeros(const Inst *inst)
{
    const char *end = inst->text + strcspn(inst->text, " ");
    for (const char *at = inst->text; at < end; at++) {
        if (strncmp(at, "_b64", 4) == 0 || strncmp(at, "_u64", 4) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t constant(const Wave *wave, const Inst *inst, const Operand *operand, char type)
{
    bool is_wide = type == 'q' || type == 'd';
    if (operand->kind == FLOATING) {
        switch (type) {
        case 'h': return float_to_half(operand->floating, false);
        case 's': return float_to_half(operand->floating, false);
        case 'b': return float_to_bits((float)operand->floating) >> 16;
        case 'q':
        case 'd': {
            uint64_t bits;
            memcpy(&bits, &operand->floating, sizeof bits);
            return bits;
        }
        default: return float_to_bits((float)operand->floating);
        }
    }
    uint64_t bits = (uint64_t)operand->integer;
    if (type == 'd' && operand->is_hex && bits <= UINT32_MAX) {
        return bits << 32;
    }
    if (type == 'q' && operand->is_hex && bits > INT32_MAX && bits <= UINT32_MAX &&
        !extends_by_zeros(inst)) {
        stop(wave, inst, "is a literal of 32 bits extended by its sign?");
    }
    return is_wide ? bits : (uint32_t)bits;
}

static uint32_t select_bits(uint32_t value, Select select, bool extended)
{
    switch (select) {
    case BYTE_0:
    case BYTE_1:
    case BYTE_2:
    case BYTE_3:
        value = value >> 8 * (select - BYTE_0) & 255;
        return extended ? (uint32_t)(int8_t)value : value;
    case WORD_0:
    case WORD_1:
        value = value >> 16 * (select - WORD_0) & 0xffff;
        return extended ? (uint32_t)(int16_t)value : value;
    default: return value;
    }
}

static bool is_half(char type)
{
    return type == 'h' || type == 's' || type == 'b';
}

/* Which lane a lane reads; -1: none. */
static int source_lane(const Inst *inst, int lane)
{
    int row = lane & ~15, at = lane & 15, by = inst->lane_argument;
    switch (inst->lanes) {
    case QUAD: return (lane & ~3) | inst->lane_list[lane & 3];
    case SHIFT_LEFT: return at + by > 15 ? -1 : lane + by;
    case SHIFT_RIGHT: return at - by < 0 ? -1 : lane - by;
    case ROTATE: return row | ((at - by) & 15);
    case MIRROR: return row | (15 - at);
    case HALF_MIRROR: return lane ^ 7;
    case SHARE: return row | by;
    case XOR_ROW: return lane ^ by;
    case DPP8: return (lane & ~7) | inst->lane_list[lane & 7];
    case BROADCAST_15: return row == 0 ? -1 : row - 1;
    case BROADCAST_31: return lane < 32 ? -1 : 31;
    case DIRECT: break;
    }
    return lane;
}

/* The first source through its lane permutation; `lost`: lanes that nothing is written to. */
static void permute(Wave *wave, const Inst *inst, const uint32_t *from, uint32_t *to)
{
    uint64_t exec = exec_of(wave);
    for (int lane = 0; lane < wave->n; lane++) {
        int source = source_lane(inst, lane);
        bool valid = source >= 0 && source < wave->n &&
                     (inst->fetches_inactive || inst->lanes == DPP8 || (exec >> source & 1));
        to[lane] = valid ? from[source] : 0;
    }
}

/* Lanes that a DPP instruction writes. */
static uint64_t lanes_written(const Wave *wave, const Inst *inst)
{
    uint64_t exec = exec_of(wave), written = 0;
    if (inst->lanes == DIRECT) {
        return exec;
    }
    for (int lane = 0; lane < wave->n; lane++) {
        int source = source_lane(inst, lane);
        bool valid = source >= 0 && source < wave->n &&
                     (inst->fetches_inactive || inst->lanes == DPP8 || (exec >> source & 1));
        bool listed = (inst->row_mask >> lane / 16 & 1) && (inst->bank_mask >> lane / 4 % 4 & 1);
        written |= (uint64_t)((valid || inst->bounded) && listed) << lane;
    }
    return exec & written;
}

static void check_read(const Wave *wave, const Inst *inst, const Operand *operand)
{
    for (int i = 0; i < operand->count; i++) {
        if (wave->vector_waits[operand->at + i]) {
            stop(wave, inst, "v%d is read before its load was waited for", operand->at + i);
        }
    }
}

static void narrow(const Wave *wave, const Inst *inst, int at, char type, const uint32_t *from,
                   uint32_t *to)
{
    const Operand *operand = &inst->operands[at];
    bool upper = operand->half == HIGH ||
                 (operand->half == WHOLE && (inst->selects >> (at - 1) & 1) && is_half(type));
    for (int i = 0; i < wave->n; i++) {
        uint32_t value =
            inst->is_sdwa ? select_bits(from[i], operand->select, operand->extended) : from[i];
        value = upper ? value >> 16 : value;
        to[i] = is_half(type) ? value & 0xffff : value;
    }
}

static void signs32(const Inst *inst, const Operand *operand, char type, uint32_t *to, int n)
{
    uint32_t sign = is_half(type) ? 0x8000 : 0x80000000;
    (void)inst;
    for (int i = 0; i < n; i++) {
        uint32_t value = operand->absolute ? to[i] & ~sign : to[i];
        to[i] = operand->negated ? value ^ sign : value;
    }
}

static const void *fetch64(Wave *wave, const Inst *inst, int at, char type, Row *row)
{
    const Operand *operand = &inst->operands[at];
    if (operand->kind == VECTOR) {
        check_read(wave, inst, operand);
        const uint32_t *low = wave->v[operand->at], *high = wave->v[operand->at + 1];
        for (int i = 0; i < wave->n; i++) {
            row->q[i] = low[i] | (uint64_t)high[i] << 32;
        }
    } else {
        uint64_t value = operand->kind == SCALAR ? scalar_get64(wave, inst, operand)
                                                 : constant(wave, inst, operand, type);
        for (int i = 0; i < wave->n; i++) {
            row->q[i] = value;
        }
    }
    for (int i = 0; i < wave->n && (operand->negated || operand->absolute); i++) {
        uint64_t value = operand->absolute ? row->q[i] & ~(UINT64_C(1) << 63) : row->q[i];
        row->q[i] = operand->negated ? value ^ UINT64_C(1) << 63 : value;
    }
    return row;
}

const void *fetch(Wave *wave, const Inst *inst, int at, char type, Row *row)
{
    const Operand *operand = &inst->operands[at];
    if (at >= inst->n_operands) {
        stop(wave, inst, "an operand is missing");
    }
    if (type == 'q' || type == 'd') {
        return fetch64(wave, inst, at, type, row);
    }
    const uint32_t *from = row->u;
    if (operand->kind == VECTOR) {
        check_read(wave, inst, operand);
        from = wave->v[operand->at];
        if (inst->lanes != DIRECT && at == 1) {
            permute(wave, inst, from, row->u);
            from = row->u;
        }
    } else {
        uint32_t value = operand->kind == SCALAR || operand->kind == SCC
                             ? scalar_get(wave, inst, operand, 0)
                             : (uint32_t)constant(wave, inst, operand, type);
        for (int i = 0; i < wave->n; i++) {
            row->u[i] = value;
        }
    }
    if (is_half(type) || inst->is_sdwa || operand->half != WHOLE) {
        narrow(wave, inst, at, type, from, row->u);
        from = row->u;
    }
    if (operand->negated || operand->absolute) {
        memmove(row->u, from, sizeof row->u);
        signs32(inst, operand, type, row->u, wave->n);
        from = row->u;
    }
    return from;
}

/* ---- writing ---- */

static float shaped(const Inst *inst, float value)
{
    value = inst->scale == 0  ? value
            : inst->scale < 0 ? value / 2
                              : value * (float)(2 * inst->scale);
    if (inst->clamps) {
        value = !(value > 0) ? 0 : value > 1 ? 1 : value;
    }
    return value;
}

static void shape(const Wave *wave, const Inst *inst, char type, const Row *from, Row *to)
{
    for (int i = 0; i < wave->n; i++) {
        switch (type) {
        case 'f': to->f[i] = shaped(inst, from->f[i]); break;
        case 'h': to->u[i] = float_to_half(shaped(inst, half_to_float(from->u[i])), false); break;
        default: stop(wave, inst, "clamp of this type");
        }
    }
}

/* gfx9 clears what a result of 16 bits leaves, but for the mixed and some of three operands. */
static bool keeps_other_half(const Wave *wave, const Inst *inst)
{
    static const char *const KEPT[] = {"v_fma_mix", "v_mad_mix", "v_fma_f16",
                                       "v_mad_u16", "v_mad_i16", "v_div_fixup_f16"};
    if (wave->major > 9) {
        return true;
    }
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++) {
        if (strncmp(inst->text, KEPT[i], strlen(KEPT[i])) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t placed(const Wave *wave, const Inst *inst, bool is_upper, bool is_narrow,
                       uint32_t before, uint32_t value)
{
    if (inst->is_sdwa && inst->to != DWORD) {
        unsigned shift = inst->to >= WORD_0 ? 16u * (inst->to - WORD_0) : 8u * (inst->to - BYTE_0);
        uint32_t mask = (inst->to >= WORD_0 ? 0xffffu : 0xffu) << shift;
        return (inst->keeps ? before & ~mask : 0) | (value << shift & mask);
    }
    if (!is_narrow) {
        return value;
    }
    if (is_upper) {
        return (before & 0xffff) | value << 16;
    }
    return (keeps_other_half(wave, inst) ? before & 0xffff0000 : 0) | (value & 0xffff);
}

void store(Wave *wave, const Inst *inst, int at, char type, const Row *row)
{
    const Operand *operand = &inst->operands[at];
    uint64_t written = lanes_written(wave, inst);
    Row shaped_row;
    if (operand->kind != VECTOR) {
        stop(wave, inst, "a result that is no vector register");
    }
    if (wave->vector_waits[operand->at]) {
        stop(wave, inst, "v%d is written while a load to it is under way", operand->at);
    }
    if (inst->clamps || inst->scale) {
        shape(wave, inst, type, row, &shaped_row);
        row = &shaped_row;
    }
    uint32_t *low = wave->v[operand->at];
    if (type == 'q' || type == 'd') {
        uint32_t *high = wave->v[operand->at + 1];
        for (int i = 0; i < wave->n; i++) {
            bool on = written >> i & 1;
            low[i] = on ? (uint32_t)row->q[i] : low[i];
            high[i] = on ? (uint32_t)(row->q[i] >> 32) : high[i];
        }
        return;
    }
    bool is_narrow = is_half(type) || operand->half != WHOLE;
    if (is_narrow || inst->is_sdwa) {
        bool upper = operand->half == HIGH ||
                     (operand->half == WHOLE && (inst->selects >> (inst->n_operands - 1) & 1));
        for (int i = 0; i < wave->n; i++) {
            low[i] =
                written >> i & 1 ? placed(wave, inst, upper, is_narrow, low[i], row->u[i]) : low[i];
        }
        return;
    }
    for (int i = 0; i < wave->n; i++) {
        low[i] = written >> i & 1 ? row->u[i] : low[i];
    }
}
