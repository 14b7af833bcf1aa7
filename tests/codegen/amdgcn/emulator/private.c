/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch memory, which is private to a lane and to which registers are spilled: as on gfx940 and
 * later, or (way 1) through a buffer of the wave, in which the lanes' words lie side by side. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <string.h>

/* Of the address operands: `at`, a vector register or none, and `other`, a scalar one or none,
 * which counts the bytes of all lanes in a buffer. */
static uint8_t *scratch_at(Wave *wave, const Inst *inst, int at, int other, int lane)
{
    const Operand *vector = &inst->operands[at], *scalar = &inst->operands[other];
    int64_t place = inst->offset, size = wave->block->kernel->scratch_bytes;
    place += vector->kind == VECTOR ? (int32_t)wave->v[vector->at][lane] : 0;
    int32_t more = scalar->kind == SCALAR ? (int32_t)scalar_get(wave, inst, scalar, 0) : 0;
    place += inst->way == 1 ? more / wave->n : more;
    if (place < 0 || place + inst->width > size) {
        stop(wave, inst, "%lld of scratch, of which there are %lld bytes", (long long)place,
             (long long)size);
    }
    return wave->scratch + lane * size + place;
}

static void run_load(Wave *wave, const Inst *inst)
{
    int words = (inst->width + 3) / 4;
    Pending *entry = pending_new(wave, VM, inst->operands[0].at, words);
    entry->half = inst->bits != WHOLE ? (Half)inst->bits : inst->operands[0].half;
    for (int lane = 0; lane < wave->n; lane++) {
        if (!(entry->exec >> lane & 1)) {
            continue;
        }
        const uint8_t *from = scratch_at(wave, inst, 1, inst->way == 1 ? 3 : 2, lane);
        for (int i = 0; i < words; i++) {
            uint32_t value = 0;
            memcpy(&value, from + 4 * i, inst->width < 4 ? (size_t)inst->width : 4);
            entry->data[i][lane] = !inst->flag        ? value
                                   : inst->width == 1 ? (uint32_t)(int8_t)value
                                                      : (uint32_t)(int16_t)value;
        }
    }
    pending_add(wave, entry);
}

static void run_store(Wave *wave, const Inst *inst)
{
    bool buffer = inst->way == 1; /* data, address, descriptor, offset */
    const Operand *data = &inst->operands[buffer ? 0 : 1];
    bool high = inst->bits == HIGH || data->half == HIGH;
    uint64_t exec = exec_of(wave);
    for (int i = 0; i < data->count; i++) {
        if (wave->vector_waits[data->at + i]) {
            stop(wave, inst, "v%d is stored before its load was waited for", data->at + i);
        }
    }
    for (int lane = 0; lane < wave->n; lane++) {
        for (int i = 0; i < data->count && (exec >> lane & 1); i++) {
            uint32_t value = wave->v[data->at + i][lane] >> (high ? 16 : 0);
            uint8_t *to = scratch_at(wave, inst, buffer, buffer ? 3 : 2, lane);
            memcpy(to + 4 * i, &value, inst->width < 4 ? (size_t)inst->width : 4);
        }
    }
    if (wave->major == 9) {
        pending_add(wave, pending_new(wave, VM, 0, 0));
    }
}

/* The compiler makes no other buffers than this one: constant offsets, or a scalar register. */
static bool is_buffer(const char **name, const Inst *inst)
{
    if (strncmp(*name, "buffer_", 7) != 0 || inst->n_operands != 4 ||
        inst->operands[1].kind != OPERAND_OFF) {
        return false;
    }
    *name += 7;
    return true;
}

Handler *find_private(const char *name, Inst *inst, int major)
{
    (void)major;
    bool buffer = is_buffer(&name, inst);
    if (!buffer && strncmp(name, "scratch_", 8) != 0) {
        return NULL;
    }
    inst->way = buffer;
    name += buffer ? 0 : 8;
    bool loads = strncmp(name, "load_", 5) == 0;
    if (!loads && strncmp(name, "store_", 6) != 0) {
        return NULL;
    }
    if (!sized_half(name + (loads ? 5 : 6), inst)) {
        return NULL;
    }
    return loads ? run_load : run_store;
}
