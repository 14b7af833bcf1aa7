/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar loads, global loads, stores and atomics, and operations in flight: the registers of a
 * load get their values when its counter is waited for. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t *memory_at(Wave *wave, const Inst *inst, uint64_t address, unsigned size, bool writes)
{
    char why[160];
    uint8_t *found = buffer_at(address, size, writes, why, sizeof why);
    if (!found) {
        stop(wave, inst, "%s", why);
    }
    return found;
}

/* ---- what is under way ---- */

Pending *pending_new(Wave *wave, Counter counter, int reg, int count)
{
    Pending *entry = calloc(1, sizeof *entry + (size_t)count * sizeof *entry->data);
    entry->counter = counter;
    entry->reg = reg;
    entry->count = count;
    entry->exec = exec_of(wave);
    return entry;
}

void pending_add(Wave *wave, Pending *entry)
{
    for (int i = 0; i < entry->count && !entry->to_lds; i++) {
        (entry->is_scalar_load ? wave->scalar_waits : wave->vector_waits)[entry->reg + i]++;
    }
    if (wave->last) {
        wave->last->next = entry;
    } else {
        wave->first = entry;
    }
    wave->last = entry;
}

static void arrive(Wave *wave, const Pending *entry)
{
    if (entry->to_lds) {
        for (int lane = 0; lane < wave->n; lane++) {
            for (int i = 0; i < entry->count && (entry->exec >> lane & 1); i++) {
                size_t at = entry->lds_at + (size_t)(lane * entry->count + i) * 4;
                memcpy(wave->block->lds + at, &entry->data[i][lane], 4);
            }
        }
        return;
    }
    for (int i = 0; i < entry->count; i++) {
        if (entry->is_scalar_load) {
            wave->scalar_waits[entry->reg + i]--;
            wave->s[entry->reg + i] = entry->data[i][0];
            continue;
        }
        uint32_t *to = wave->v[entry->reg + i];
        wave->vector_waits[entry->reg + i]--;
        for (int lane = 0; lane < wave->n; lane++) {
            uint32_t value = entry->data[i][lane];
            if (entry->half != WHOLE) {
                value = entry->half == HIGH ? (to[lane] & 0xffff) | value << 16
                                            : (to[lane] & 0xffff0000) | (value & 0xffff);
            }
            to[lane] = entry->exec >> lane & 1 ? value : to[lane];
        }
    }
}

static void retire(Wave *wave, Counter counter, int n, bool scalar_ones)
{
    Pending **link = &wave->first, *before = NULL;
    while (*link) {
        Pending *entry = *link;
        if (n > 0 && entry->counter == counter && entry->is_scalar_load == scalar_ones) {
            arrive(wave, entry);
            *link = entry->next;
            wave->last = wave->last == entry ? before : wave->last;
            free(entry);
            n--;
        } else {
            before = entry;
            link = &entry->next;
        }
    }
}

/* Scalar loads arrive in any order: taken to be the last. */
void pending_wait(Wave *wave, Counter counter, int left)
{
    int vectors = 0, scalars = 0;
    for (const Pending *entry = wave->first; entry; entry = entry->next) {
        bool counts = entry->counter == counter;
        vectors += counts && !entry->is_scalar_load;
        scalars += counts && entry->is_scalar_load;
    }
    int done = vectors + scalars - left;
    retire(wave, counter, done < vectors ? done : vectors, false);
    retire(wave, counter, done - vectors, true);
}

/* ---- scalar loads ---- */

static Counter scalar_counter(const Wave *wave)
{
    return wave->major >= 12 ? KM : LGKM;
}

/* Result, base, offset: a constant, a register, or a register and offset:constant. */
static void run_scalar_load(Wave *wave, const Inst *inst)
{
    const Operand *to = &inst->operands[0], *offset = &inst->operands[2];
    uint64_t address = scalar_get64(wave, inst, &inst->operands[1]);
    if (inst->n_operands > 2) {
        address +=
            offset->kind == INTEGER ? (uint64_t)offset->integer : scalar_get(wave, inst, offset, 0);
    }
    address = (address + (uint64_t)inst->offset) & ~(uint64_t)(inst->width >= 4 ? 3 : 0);
    int words = inst->width < 4 ? 1 : inst->width / 4;
    if (to->count != words) {
        stop(wave, inst, "a result of another size");
    }
    Pending *entry = pending_new(wave, scalar_counter(wave), to->at, words);
    entry->is_scalar_load = true;
    const uint8_t *from = memory_at(wave, inst, address, (unsigned)inst->width, false);
    for (int i = 0; i < words; i++) {
        uint32_t value = 0;
        memcpy(&value, from + 4 * i, inst->width < 4 ? (size_t)inst->width : 4);
        if (inst->flag) {
            value = inst->width == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
        }
        entry->data[i][0] = value;
    }
    pending_add(wave, entry);
}

/* ---- global memory ---- */

/* Of the address operand at `at` and the base after it. */
static uint64_t lane_address(const Wave *wave, const Inst *inst, int at, int lane, uint64_t base)
{
    const Operand *vector = &inst->operands[at], *scalar = &inst->operands[at + 1];
    uint64_t address = wave->v[vector->at][lane];
    if (scalar->kind == OPERAND_OFF) {
        address |= (uint64_t)wave->v[vector->at + 1][lane] << 32;
    }
    return address + base + (uint64_t)inst->offset;
}

static uint64_t base_of(Wave *wave, const Inst *inst, int at)
{
    const Operand *vector = &inst->operands[at], *scalar = &inst->operands[at + 1];
    bool has_base = at + 1 < inst->n_operands && scalar->kind == SCALAR;
    if (vector->kind != VECTOR || vector->count != (has_base ? 1 : 2)) {
        stop(wave, inst, "an address of this form");
    }
    for (int i = 0; i < vector->count; i++) {
        if (wave->vector_waits[vector->at + i]) {
            stop(wave, inst, "v%d is an address before its load was waited for", vector->at + i);
        }
    }
    return has_base ? scalar_get64(wave, inst, scalar) : 0;
}

static uint32_t extended(const Inst *inst, uint32_t value)
{
    if (!inst->flag) {
        return value;
    }
    return inst->width == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
}

/* way 1: into LDS, from m0 on, a lane after the other. */
static void run_load(Wave *wave, const Inst *inst)
{
    bool to_lds = inst->way == 1;
    int at = to_lds ? 0 : 1, words = inst->width < 4 ? 1 : inst->width / 4;
    uint64_t base = base_of(wave, inst, at);
    Pending *entry = pending_new(wave, VM, to_lds ? 0 : inst->operands[0].at, words);
    entry->half = (Half)inst->bits;
    entry->half = inst->operands[0].half != WHOLE ? inst->operands[0].half : entry->half;
    entry->to_lds = to_lds;
    entry->lds_at = to_lds ? wave->s[S_M0] + (uint32_t)inst->offset : 0;
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(entry->exec >> lane & 1)) {
            continue;
        }
        uint64_t address = lane_address(wave, inst, at, lane, base);
        const uint8_t *from = memory_at(wave, inst, address, (unsigned)inst->width, false);
        for (int i = 0; i < words; i++) {
            uint32_t value = 0;
            memcpy(&value, from + 4 * i, inst->width < 4 ? (size_t)inst->width : 4);
            entry->data[i][lane] = extended(inst, value);
        }
        if (to_lds && entry->lds_at + (unsigned)((lane + 1) * inst->width) >
                          (unsigned)wave->block->kernel->lds_bytes) {
            stop(wave, inst, "a copy to %u of LDS, of which there are %d bytes",
                 entry->lds_at + (unsigned)(lane * inst->width), wave->block->kernel->lds_bytes);
        }
    }
    pending_add(wave, entry);
}

static void count_store(Wave *wave)
{
    if (wave->major == 9) { /* later ones count stores apart */
        pending_add(wave, pending_new(wave, VM, 0, 0));
    }
}

static void check_data(const Wave *wave, const Inst *inst, const Operand *data)
{
    for (int i = 0; i < data->count; i++) {
        if (wave->vector_waits[data->at + i]) {
            stop(wave, inst, "v%d is stored before its load was waited for", data->at + i);
        }
    }
}

static void run_store(Wave *wave, const Inst *inst)
{
    const Operand *data = &inst->operands[1];
    Inst addressed = *inst; /* address, data, base: to address, base */
    addressed.operands[1] = inst->operands[2];
    addressed.n_operands = 2;
    uint64_t base = base_of(wave, &addressed, 0), exec = exec_of(wave);
    bool high = inst->bits == HIGH || data->half == HIGH;
    check_data(wave, inst, data);
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(exec >> lane & 1)) {
            continue;
        }
        uint64_t address = lane_address(wave, &addressed, 0, lane, base);
        uint8_t *to = memory_at(wave, inst, address, (unsigned)inst->width, true);
        for (int i = 0; i < (inst->width + 3) / 4; i++) {
            uint32_t value = wave->v[data->at + i][lane] >> (high ? 16 : 0);
            memcpy(to + 4 * i, &value, inst->width < 4 ? (size_t)inst->width : 4);
        }
    }
    count_store(wave);
}

/* ---- atomics ---- */

enum {
    SWAP,
    COMPARE_SWAP,
    ADD,
    SUB,
    MIN_I,
    MIN_U,
    MAX_I,
    MAX_U,
    AND,
    OR,
    XOR,
    ADD_F,
    MIN_F,
    MAX_F
};

static uint64_t changed(const Inst *inst, uint64_t old, uint64_t value, uint64_t compared)
{
    bool wide = inst->width == 8;
    int64_t a = wide ? (int64_t)old : (int32_t)old, b = wide ? (int64_t)value : (int32_t)value;
    float x = bits_to_float((uint32_t)old), y = bits_to_float((uint32_t)value);
    switch (inst->way) {
    case SWAP: return value;
    case COMPARE_SWAP: return old == compared ? value : old;
    case ADD: return old + value;
    case SUB: return old - value;
    case MIN_I: return a < b ? old : value;
    case MAX_I: return a > b ? old : value;
    case MIN_U: return old < value ? old : value;
    case MAX_U: return old > value ? old : value;
    case AND: return old & value;
    case OR: return old | value;
    case XOR: return old ^ value;
    default: break;
    }
    const char *name = inst->way == ADD_F   ? "v_add_f32"
                       : inst->way == MIN_F ? "v_min_f32"
                                            : "v_max_f32";
    Row one = {.f = {x}}, two = {.f = {y}}, out;
    if (wide) {
        double c, d;
        memcpy(&c, &old, sizeof c), memcpy(&d, &value, sizeof d);
        c += d;
        memcpy(&old, &c, sizeof c);
        return old;
    }
    lane_op(name)->run(&out, &one, &two, NULL, 1);
    return out.u[0];
}

/* Of both memories: changes what is there, lanes in their order; the old value. */
uint64_t atomic(Wave *wave, const Inst *inst, uint8_t *place, const Operand *data,
                const Operand *compared, int lane);

uint64_t atomic(Wave *wave, const Inst *inst, uint8_t *place, const Operand *data,
                const Operand *compared, int lane)
{
    uint64_t old = 0, value = wave->v[data->at][lane], other = 0;
    int words = inst->width / 4;
    memcpy(&old, place, (size_t)inst->width);
    if (words == 2) {
        value |= (uint64_t)wave->v[data->at + 1][lane] << 32;
    }
    if (compared) {
        other = wave->v[compared->at][lane];
        other |= words == 2 ? (uint64_t)wave->v[compared->at + 1][lane] << 32 : 0;
    }
    value = changed(inst, old, value, other);
    memcpy(place, &value, (size_t)inst->width);
    return old;
}

/* [result,] address, data, base. Compare and swap: what is stored, then what is compared with. */
static void run_atomic(Wave *wave, const Inst *inst)
{
    bool returns = inst->n_operands == 4;
    int words = inst->width / 4;
    Operand data = inst->operands[returns ? 2 : 1], compared = data;
    Inst addressed = *inst;
    addressed.operands[0] = inst->operands[returns ? 1 : 0];
    addressed.operands[1] = inst->operands[returns ? 3 : 2];
    addressed.n_operands = 2;
    uint64_t base = base_of(wave, &addressed, 0), exec = exec_of(wave);
    check_data(wave, inst, &data);
    compared.at += words;
    Pending *entry = pending_new(wave, VM, inst->operands[0].at, returns ? words : 0);
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(exec >> lane & 1)) {
            continue;
        }
        uint64_t address = lane_address(wave, &addressed, 0, lane, base);
        if (address % (unsigned)inst->width) {
            stop(wave, inst, "an atomic at an address that is no multiple of its size");
        }
        uint8_t *place = memory_at(wave, inst, address, (unsigned)inst->width, true);
        uint64_t old =
            atomic(wave, inst, place, &data, inst->way == COMPARE_SWAP ? &compared : NULL, lane);
        for (int i = 0; i < entry->count; i++) {
            entry->data[i][lane] = (uint32_t)(old >> 32 * i);
        }
    }
    if (returns || wave->major == 9) {
        pending_add(wave, entry);
    } else {
        free(entry);
    }
}

/* ---- names ---- */

typedef struct Size {
    const char *name;
    int bytes;
    bool is_signed;
} Size;

static const Size SIZES[] = {
    {"ubyte", 1, 0},    {"sbyte", 1, 1},    {"ushort", 2, 0},   {"sshort", 2, 1},
    {"byte", 1, 0},     {"short", 2, 0},    {"dword", 4, 0},    {"dwordx2", 8, 0},
    {"dwordx3", 12, 0}, {"dwordx4", 16, 0}, {"dwordx8", 32, 0}, {"dwordx16", 64, 0},
    {"u8", 1, 0},       {"i8", 1, 1},       {"u16", 2, 0},      {"i16", 2, 1},
    {"b8", 1, 0},       {"b16", 2, 0},      {"b32", 4, 0},      {"b64", 8, 0},
    {"b96", 12, 0},     {"b128", 16, 0},    {"b256", 32, 0},    {"b512", 64, 0}};

static bool sized(const char *name, Inst *inst)
{
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        if (strcmp(name, SIZES[i].name) == 0) {
            inst->width = SIZES[i].bytes;
            inst->flag = SIZES[i].is_signed;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name;
    int way, bytes;
} ATOMICS[] = {
    {"swap", SWAP, 4},
    {"swap_x2", SWAP, 8},
    {"swap_b32", SWAP, 4},
    {"swap_b64", SWAP, 8},
    {"cmpswap", COMPARE_SWAP, 4},
    {"cmpswap_x2", COMPARE_SWAP, 8},
    {"cmpswap_b32", COMPARE_SWAP, 4},
    {"cmpswap_b64", COMPARE_SWAP, 8},
    {"add", ADD, 4},
    {"add_x2", ADD, 8},
    {"add_u32", ADD, 4},
    {"add_u64", ADD, 8},
    {"sub", SUB, 4},
    {"sub_x2", SUB, 8},
    {"sub_u32", SUB, 4},
    {"smin", MIN_I, 4},
    {"smin_x2", MIN_I, 8},
    {"min_i32", MIN_I, 4},
    {"min_i64", MIN_I, 8},
    {"umin", MIN_U, 4},
    {"umin_x2", MIN_U, 8},
    {"min_u32", MIN_U, 4},
    {"min_u64", MIN_U, 8},
    {"smax", MAX_I, 4},
    {"smax_x2", MAX_I, 8},
    {"max_i32", MAX_I, 4},
    {"max_i64", MAX_I, 8},
    {"umax", MAX_U, 4},
    {"umax_x2", MAX_U, 8},
    {"max_u32", MAX_U, 4},
    {"max_u64", MAX_U, 8},
    {"and", AND, 4},
    {"and_b32", AND, 4},
    {"or", OR, 4},
    {"or_b32", OR, 4},
    {"xor", XOR, 4},
    {"xor_b32", XOR, 4},
    {"and_x2", AND, 8},
    {"and_b64", AND, 8},
    {"or_x2", OR, 8},
    {"or_b64", OR, 8},
    {"xor_x2", XOR, 8},
    {"xor_b64", XOR, 8},
    {"add_f32", ADD_F, 4},
    {"add_f64", ADD_F, 8},
    {"min_f32", MIN_F, 4},
    {"max_f32", MAX_F, 4},
    {"sub_u64", SUB, 8},
    {"sub_x2", SUB, 8},
    {"min_num_f32", MIN_F, 4},
    {"max_num_f32", MAX_F, 4},
    /* of LDS */
    {"min_rtn_f32", MIN_F, 4},
};

bool atomic_named(const char *name, Inst *inst);

bool atomic_named(const char *name, Inst *inst)
{
    for (size_t i = 0; i < sizeof ATOMICS / sizeof *ATOMICS; i++) {
        if (strcmp(name, ATOMICS[i].name) == 0) {
            inst->way = ATOMICS[i].way;
            inst->width = ATOMICS[i].bytes;
            return true;
        }
    }
    return false;
}

static bool starts(const char **name, const char *with)
{
    size_t n = strlen(with);
    bool does = strncmp(*name, with, n) == 0;
    *name += does ? n : 0;
    return does;
}

/* short_d16, d16_hi_b16, ubyte_d16_hi: half a register. */
bool sized_half(const char *name, Inst *inst)
{
    char plain[32];
    const char *at = strstr(name, "d16");
    if (!at) {
        return sized(name, inst);
    }
    bool high = strncmp(at, "d16_hi", 6) == 0;
    const char *after = at + (high ? 6 : 3);
    inst->bits = high ? HIGH : LOW;
    snprintf(plain, sizeof plain, "%.*s%s", (int)(at - name), name, after + (*after == '_'));
    size_t n = strlen(plain);
    if (n && plain[n - 1] == '_') {
        plain[n - 1] = 0;
    }
    return sized(plain, inst);
}

Handler *find_memory(const char *name, Inst *inst, int major)
{
    (void)major;
    if (starts(&name, "s_load_")) {
        return sized(name, inst) ? run_scalar_load : NULL;
    }
    if (!starts(&name, "global_")) {
        return NULL;
    }
    if (starts(&name, "load_lds_")) {
        inst->way = 1;
        return sized(name, inst) && inst->width >= 4 ? run_load : NULL;
    }
    if (starts(&name, "load_")) {
        return sized_half(name, inst) ? run_load : NULL;
    }
    if (starts(&name, "store_")) {
        return sized_half(name, inst) ? run_store : NULL;
    }
    return starts(&name, "atomic_") && atomic_named(name, inst) ? run_atomic : NULL;
}
