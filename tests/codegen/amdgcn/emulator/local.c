/* SPDX-License-Identifier: Apache-2.0 */
/* Local memory (LDS), and the lane exchanges that use its crossbar. Accesses must be within the
 * size that the metadata declares. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t atomic(Wave *wave, const Inst *inst, uint8_t *place, const Operand *data,
                const Operand *compared, int lane);
bool atomic_named(const char *name, Inst *inst);

static Counter local_counter(const Wave *wave)
{
    return wave->major >= 12 ? DS : LGKM;
}

/* The driver sets LDS to unaligned mode (SH_MEM_CONFIG): loads and stores of one place may begin at
 * any byte, which LLVM makes use of. Those of two places, and atomics, need aligned elements. */
static int alignment(const Inst *inst, bool is_plain)
{
    return is_plain && !inst->way ? 1 : inst->width > 4 ? 4 : inst->width;
}

static uint8_t *local_at(Wave *wave, const Inst *inst, uint32_t address, int64_t offset,
                         bool is_plain)
{
    int size = inst->width;
    uint64_t at = (uint64_t)address + (uint64_t)offset;
    if (at + (unsigned)size > (unsigned)wave->block->kernel->lds_bytes) {
        stop(wave, inst, "%d bytes at %llu of LDS, of which there are %d", size,
             (unsigned long long)at, wave->block->kernel->lds_bytes);
    }
    if (at % (unsigned)alignment(inst, is_plain)) {
        stop(wave, inst, "%d bytes at %llu of LDS, which is not aligned", size,
             (unsigned long long)at);
    }
    return wave->block->lds + at;
}

static const uint32_t *vector(Wave *wave, const Inst *inst, const Operand *operand)
{
    if (operand->kind != VECTOR) {
        stop(wave, inst, "an operand that is no vector register");
    }
    for (int i = 0; i < operand->count; i++) {
        if (wave->vector_waits[operand->at + i]) {
            stop(wave, inst, "v%d is read before its load was waited for", operand->at + i);
        }
    }
    return wave->v[operand->at];
}

static uint32_t load_part(const uint8_t *from, const Inst *inst, int i)
{
    uint32_t value = 0;
    memcpy(&value, from + 4 * i, inst->width < 4 ? (size_t)inst->width : 4);
    if (inst->flag && inst->width < 4) {
        value = inst->width == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
    }
    return value;
}

/* way: 0 one place; 1 two places, offsets in elements; 64: in 64 elements. */
static void run_load(Wave *wave, const Inst *inst)
{
    int words = inst->width < 4 ? 1 : inst->width / 4, places = inst->way ? 2 : 1;
    const uint32_t *address = vector(wave, inst, &inst->operands[1]);
    Pending *entry = pending_new(wave, local_counter(wave), inst->operands[0].at, words * places);
    entry->half = inst->operands[0].half != WHOLE ? inst->operands[0].half : (Half)inst->bits;
    if (inst->operands[0].count != words * places) {
        stop(wave, inst, "a result of another size");
    }
    for (int lane = 0; lane < wave->n; lane++) {
        for (int place = 0; place < places && (entry->exec >> lane & 1); place++) {
            int64_t offset = place ? inst->offset1 : inst->offset;
            offset *= inst->way ? inst->way * inst->width : 1;
            const uint8_t *from = local_at(wave, inst, address[lane], offset, true);
            for (int i = 0; i < words; i++) {
                entry->data[place * words + i][lane] = load_part(from, inst, i);
            }
        }
    }
    pending_add(wave, entry);
}

static void run_store(Wave *wave, const Inst *inst)
{
    int words = (inst->width + 3) / 4, places = inst->way ? 2 : 1;
    const uint32_t *address = vector(wave, inst, &inst->operands[0]);
    uint64_t exec = exec_of(wave);
    for (int place = 0; place < places; place++) {
        const Operand *data = &inst->operands[1 + place];
        bool high = inst->bits == HIGH || data->half == HIGH;
        int64_t offset = place ? inst->offset1 : inst->offset;
        offset *= inst->way ? inst->way * inst->width : 1;
        vector(wave, inst, data);
        for (int lane = 0; lane < wave->n; lane++) {
            if (!(exec >> lane & 1)) {
                continue;
            }
            uint8_t *to = local_at(wave, inst, address[lane], offset, true);
            for (int i = 0; i < words; i++) {
                uint32_t value = wave->v[data->at + i][lane] >> (high ? 16 : 0);
                memcpy(to + 4 * i, &value, inst->width < 4 ? (size_t)inst->width : 4);
            }
        }
    }
    Pending *entry = pending_new(wave, local_counter(wave), 0, 0);
    entry->is_local_store = true;
    pending_add(wave, entry);
}

/* [result,] address[, compared], data */
static void run_atomic(Wave *wave, const Inst *inst)
{
    bool returns = inst->high;
    int words = inst->width / 4, at = returns ? 1 : 0;
    const uint32_t *address = vector(wave, inst, &inst->operands[at]);
    bool compares = inst->n_operands == at + 3;
    const Operand *data = &inst->operands[at + 1], *compared = NULL;
    if (compares) { /* until gfx10 what is compared stands first */
        compared = &inst->operands[at + (wave->major == 9 ? 1 : 2)];
        data = &inst->operands[at + (wave->major == 9 ? 2 : 1)];
        vector(wave, inst, compared);
    }
    vector(wave, inst, data);
    Pending *entry =
        pending_new(wave, local_counter(wave), inst->operands[0].at, returns ? words : 0);
    entry->is_local_store = true;
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(entry->exec >> lane & 1)) {
            continue;
        }
        uint8_t *place = local_at(wave, inst, address[lane], inst->offset, false);
        uint64_t old = atomic(wave, inst, place, data, compared, lane);
        for (int i = 0; i < entry->count; i++) {
            entry->data[i][lane] = (uint32_t)(old >> 32 * i);
        }
    }
    pending_add(wave, entry);
}

/* ---- exchanges ---- */

static void run_permute(Wave *wave, const Inst *inst)
{
    const uint32_t *address = vector(wave, inst, &inst->operands[1]);
    const uint32_t *data = vector(wave, inst, &inst->operands[2]);
    Pending *entry = pending_new(wave, local_counter(wave), inst->operands[0].at, 1);
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(entry->exec >> lane & 1)) {
            continue;
        }
        int other = (int)((address[lane] + (uint32_t)inst->offset) / 4 % (uint32_t)wave->n);
        if (inst->way == 1) { /* forward: to the other lane */
            entry->data[0][other] = data[lane];
        } else {
            entry->data[0][lane] = entry->exec >> other & 1 ? data[other] : 0;
        }
    }
    pending_add(wave, entry);
}

static void run_swizzle(Wave *wave, const Inst *inst)
{
    const uint32_t *data = vector(wave, inst, &inst->operands[1]);
    int pattern = (int)inst->offset;
    Pending *entry = pending_new(wave, local_counter(wave), inst->operands[0].at, 1);
    for (int lane = 0; lane < wave->n; lane++) {
        int within = lane & 31, other;
        if (pattern & 0x8000) {
            other = (within & ~3) | (pattern >> 2 * (lane & 3) & 3);
        } else {
            other = ((within & pattern) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
        }
        other = (lane & ~31) | (other & 31);
        entry->data[0][lane] = entry->exec >> other & 1 ? data[other] : 0;
    }
    pending_add(wave, entry);
}

/* ---- names ---- */

static bool starts(const char **name, const char *with)
{
    size_t n = strlen(with);
    bool does = strncmp(*name, with, n) == 0;
    *name += does ? n : 0;
    return does;
}

static bool sized(const char *name, Inst *inst)
{
    static const struct {
        const char *name;
        int bytes;
        bool is_signed;
        Half half;
    } SIZES[] = {{"b8", 1, 0, WHOLE},        {"b16", 2, 0, WHOLE},      {"b32", 4, 0, WHOLE},
                 {"b64", 8, 0, WHOLE},       {"b96", 12, 0, WHOLE},     {"b128", 16, 0, WHOLE},
                 {"u8", 1, 0, WHOLE},        {"i8", 1, 1, WHOLE},       {"u16", 2, 0, WHOLE},
                 {"i16", 2, 1, WHOLE},       {"u8_d16", 1, 0, LOW},     {"u8_d16_hi", 1, 0, HIGH},
                 {"i8_d16", 1, 1, LOW},      {"i8_d16_hi", 1, 1, HIGH}, {"u16_d16", 2, 0, LOW},
                 {"u16_d16_hi", 2, 0, HIGH}, {"b8_d16_hi", 1, 0, HIGH}, {"b16_d16_hi", 2, 0, HIGH}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        if (strcmp(name, SIZES[i].name) == 0) {
            inst->width = SIZES[i].bytes;
            inst->flag = SIZES[i].is_signed;
            inst->bits = SIZES[i].half;
            return true;
        }
    }
    return false;
}

static Handler *find_access(const char *name, Inst *inst, Handler *run)
{
    if (starts(&name, "2st64_") || starts(&name, "_2addr_stride64_")) {
        inst->way = 64;
    } else if (starts(&name, "2_") || starts(&name, "_2addr_")) {
        inst->way = 1;
    } else if (!starts(&name, "_")) {
        return NULL;
    }
    return sized(name, inst) ? run : NULL;
}

static Handler *find_atomic(const char *name, Inst *inst)
{
    static const struct {
        const char *name, *plain;
    } NAMES[] = {{"cmpst_b", "cmpswap_b"},
                 {"cmpstore_b", "cmpswap_b"},
                 {"wrxchg_b", "swap_b"},
                 {"storexchg_b", "swap_b"}};
    char plain[48];
    snprintf(plain, sizeof plain, "%s", name);
    char *rtn = strstr(plain, "_rtn");
    inst->high = rtn != NULL;
    if (rtn) {
        memmove(rtn, rtn + 4, strlen(rtn + 4) + 1);
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        size_t n = strlen(NAMES[i].name);
        if (strncmp(plain, NAMES[i].name, n) == 0) {
            char rest[48];
            snprintf(rest, sizeof rest, "%s", plain + n);
            snprintf(plain, sizeof plain, "%s%.16s", NAMES[i].plain, rest);
            break;
        }
    }
    return atomic_named(plain, inst) ? run_atomic : NULL;
}

Handler *find_local(const char *name, Inst *inst, int major)
{
    (void)major;
    if (!starts(&name, "ds_")) {
        return NULL;
    }
    if (strcmp(name, "swizzle_b32") == 0) {
        return run_swizzle;
    }
    if (strcmp(name, "bpermute_b32") == 0 || strcmp(name, "permute_b32") == 0) {
        inst->way = *name == 'p';
        return run_permute;
    }
    if (starts(&name, "read") || starts(&name, "load")) {
        return find_access(name, inst, run_load);
    }
    if (starts(&name, "write") || (starts(&name, "store") && *name != 'x')) {
        return find_access(name, inst, run_store);
    }
    return find_atomic(name, inst);
}
