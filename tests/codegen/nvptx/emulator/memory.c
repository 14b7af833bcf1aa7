/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and atomics, with checks that each access is aligned and inside of a buffer. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdio.h>
#include <string.h>

uint8_t params[4096 + 256];

enum { GLOBAL, SHARED, PARAM, LOCAL };

uint64_t address_of(const Warp *warp, const Operand *operand, int lane)
{
    uint64_t address = lane_get(warp, operand, lane) + (uint64_t)operand->offset;
    return operand->wide ? address : (uint32_t)address;
}

uint8_t *global_at(const Warp *warp, const Inst *inst, uint64_t address, unsigned size,
                   unsigned align, bool writes)
{
    char why[256];
    if (address % align) {
        stop(warp, inst, "address 0x%llx is not a multiple of %u", (unsigned long long)address,
             align);
    }
    uint8_t *found = buffer_at(address, size, writes, why, sizeof why);
    if (!found) {
        stop(warp, inst, "%s", why);
    }
    return found;
}

uint8_t *block_shared(const Warp *warp, const Inst *inst, Block *block, uint32_t offset,
                      unsigned size)
{
    uint32_t end = SHARED_FIRST + (uint32_t)block->shared_size;
    if (offset < SHARED_FIRST || offset >= end || size > end - offset) {
        stop(warp, inst, "%u bytes at %u of %d bytes of shared memory", size, offset - SHARED_FIRST,
             block->shared_size);
    }
    return block->shared + offset;
}

uint8_t *shared_at(const Warp *warp, const Inst *inst, uint64_t address, unsigned size,
                   unsigned align)
{
    Cluster *cluster = warp->block->cluster;
    uint64_t rank = address >> RANK_SHIFT;
    if (address % align || rank >= (uint64_t)cluster->n) {
        stop(warp, inst, "address 0x%llx of shared memory", (unsigned long long)address);
    }
    Block *block = cluster->blocks[rank];
    if (block != warp->block && !block->alive) {
        stop(warp, inst, "block %u of the cluster has ended", block->id);
    }
    return block_shared(warp, inst, block, address & ((1u << RANK_SHIFT) - 1), size);
}

uint32_t emulated_time = 1;

void shared_mark(const Warp *warp, Block *block, uint32_t offset, unsigned size)
{
    for (uint32_t i = offset / 16; block == warp->block && i <= (offset + size - 1) / 16; i++) {
        block->written[i] = emulated_time;
        block->writers[i] = (uint8_t)warp->index;
    }
}

void shared_clean(Block *block, uint32_t offset, unsigned size)
{
    for (uint32_t i = offset / 16; i <= (offset + size - 1) / 16; i++) {
        block->written[i] = 0;
    }
}

void shared_check(const Warp *warp, const Inst *inst, uint32_t offset, unsigned size)
{
    const Block *block = warp->block;
    for (uint32_t i = offset / 16; i <= (offset + size - 1) / 16; i++) {
        uint32_t when = block->written[i];
        if (when > warp->fenced && when > block->warps[block->writers[i]]->fenced) {
            stop(warp, inst, "reads %u of shared memory, which warp %d wrote, without a fence",
                 i * 16 - SHARED_FIRST, block->writers[i]);
        }
    }
}

void shared_note_read(const Warp *warp, const uint8_t *at, unsigned size)
{
    const Block *block = warp->block;
    ptrdiff_t offset = at - block->shared;
    if (offset < 0 || offset >= SHARED_FIRST + block->shared_size) {
        return; /* another block's */
    }
    for (size_t i = (size_t)offset / 16; i <= ((size_t)offset + size - 1) / 16; i++) {
        block->reads[i * (size_t)block->n_warps + (size_t)warp->index] = emulated_time;
    }
}

void shared_check_reads(const Warp *warp, const Inst *inst, const Block *block, uint32_t offset,
                        unsigned size)
{
    for (size_t i = offset / 16; i <= (offset + size - 1) / 16; i++) {
        for (size_t w = 0; w < (size_t)block->n_warps; w++) {
            if (block->reads[i * (size_t)block->n_warps + w] > block->warps[w]->fenced) {
                stop(warp, inst,
                     "overwrites %u of shared memory, which warp %d read, without a fence",
                     (unsigned)i * 16 - SHARED_FIRST, (int)w);
            }
        }
    }
}

void poison(uint8_t *bytes, size_t size)
{
    uint32_t word = poison_word();
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(word >> (i % 4) * 8);
    }
}

static uint8_t *local_at(const Warp *warp, const Inst *inst, uint64_t address, int lane,
                         unsigned size)
{
    uint64_t bytes = (uint64_t)warp->block->kernel->local_size, at = address - LOCAL_FIRST;
    if (at > bytes || size > bytes - at || at % size) {
        stop(warp, inst, "%u bytes at %llu of %llu bytes of a thread's own memory", size,
             (unsigned long long)at, (unsigned long long)bytes);
    }
    return warp->local + bytes * (uint64_t)lane + at;
}

static uint8_t *memory_at(const Warp *warp, const Inst *inst, const Operand *operand, int lane,
                          unsigned size, bool writes)
{
    uint64_t address = address_of(warp, operand, lane);
    if (inst->space == PARAM) {
        address -= PARAMS_ADDRESS;
        if (address + size > (uint64_t)warp->block->kernel->params_size) {
            stop(warp, inst, "past the parameters");
        }
        return params + address;
    }
    if (inst->space == LOCAL) {
        return local_at(warp, inst, address, lane, size);
    }
    return inst->space == SHARED ? shared_at(warp, inst, address, size, size)
                                 : global_at(warp, inst, address, size, size, writes);
}

static Step run_load(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Operand *to = &inst->operands[0];
    unsigned size = (unsigned)(inst->bits / 8);
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        const uint8_t *from =
            memory_at(warp, inst, &inst->operands[1], lane, size * (unsigned)inst->count, false);
        if (inst->space == SHARED) {
            shared_note_read(warp, from, size * (unsigned)inst->count);
        }
        for (int i = 0; i < inst->count; i++) {
            uint64_t value = 0;
            memcpy(&value, from + (size_t)i * size, size);
            if (inst->flag) { /* signed */
                value = (uint64_t)((int64_t)(value << (64 - inst->bits)) >> (64 - inst->bits));
            }
            const Operand *reg = part(inst, to, i);
            lane_put(warp, reg, lane, reg->half ? value & 0xffff : value);
        }
    }
    return NEXT;
}

static void mark(const Warp *warp, const Inst *inst, const uint8_t *at, unsigned size)
{
    ptrdiff_t offset = at - warp->block->shared;
    if (inst->space == SHARED && offset >= 0 &&
        offset < SHARED_FIRST + warp->block->shared_size) { /* its own block's */
        shared_mark(warp, warp->block, (uint32_t)offset, size);
    }
}

static Step run_store(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Operand *from = &inst->operands[1];
    unsigned size = (unsigned)(inst->bits / 8);
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        uint8_t *to =
            memory_at(warp, inst, &inst->operands[0], lane, size * (unsigned)inst->count, true);
        mark(warp, inst, to, size * (unsigned)inst->count);
        for (int i = 0; i < inst->count; i++) {
            uint64_t value = lane_get(warp, part(inst, from, i), lane);
            memcpy(to + (size_t)i * size, &value, size);
        }
    }
    return NEXT;
}

/* ---- atomics ---- */

static uint64_t changed(const Inst *inst, uint64_t old, uint64_t a, uint64_t b)
{
    int64_t sx = inst->bits == 32 ? (int32_t)old : (int64_t)old;
    int64_t sy = inst->bits == 32 ? (int32_t)a : (int64_t)a;
    double x, y;
    switch (inst->way) {
    case '+':
        if (inst->type == 'f' && inst->bits == 32) {
            return float_to_bits(bits_to_float((uint32_t)old) + bits_to_float((uint32_t)a));
        }
        if (inst->type == 'f') {
            memcpy(&x, &old, sizeof x);
            memcpy(&y, &a, sizeof y);
            x += y;
            memcpy(&old, &x, sizeof x);
            return old;
        }
        return old + a;
    case '&': return old & a;
    case '|': return old | a;
    case '^': return old ^ a;
    case '<': return inst->type == 's' ? (sx < sy ? old : a) : old < a ? old : a;
    case '>': return inst->type == 's' ? (sx > sy ? old : a) : old > a ? old : a;
    case '=': return a;
    default: return old == a ? b : old; /* compare, and swap */
    }
}

static Step run_atomic(Warp *warp, const Inst *inst, uint32_t mask)
{
    unsigned size = (unsigned)(inst->bits / 8);
    int at = inst->flag ? 0 : 1; /* red: no result */
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        uint8_t *memory = memory_at(warp, inst, &inst->operands[at], lane, size, true);
        uint64_t old = 0, a = lane_get(warp, &inst->operands[at + 1], lane);
        uint64_t b = inst->way == '?' ? lane_get(warp, &inst->operands[at + 2], lane) : 0;
        memcpy(&old, memory, size);
        mark(warp, inst, memory, size);
        uint64_t next = changed(inst, old, a, b);
        memcpy(memory, &next, size);
        if (at) {
            lane_put(warp, &inst->operands[0], lane, old);
        }
    }
    return NEXT;
}

static Run *find_atomic(const Opcode *opcode, Inst *inst)
{
    static const char *const names[] = {"add", "and", "or", "xor", "min", "max", "exch", "cas"};
    const char *type = opcode->words[opcode->n - 1];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        inst->way = opcode_has(opcode, names[i]) ? "+&|^<>=?"[i] : inst->way;
    }
    inst->flag = strcmp(opcode->words[0], "red") == 0;
    inst->type = *type;
    bool knows = inst->bits == 32 || inst->bits == 64 || (inst->way == '?' && *type == 'b');
    return inst->way && knows && strstr(type, "x2") == NULL && opcode->words[0][0] ? run_atomic
                                                                                   : NULL;
}

Run *find_memory(const Opcode *opcode, Inst *inst)
{
    const char *first = opcode->words[0];
    if (opcode_has(opcode, "async")) {
        return NULL;
    }
    inst->bits = type_bits(opcode->words[opcode->n - 1]);
    inst->count = opcode_has(opcode, "v4") ? 4 : opcode_has(opcode, "v2") ? 2 : 1;
    inst->space = opcode_has(opcode, "param")                                        ? PARAM
                  : opcode_has(opcode, "global")                                     ? GLOBAL
                  : opcode_has(opcode, "local")                                      ? LOCAL
                  : opcode_has(opcode, "shared") || strstr(opcode->text, "shared::") ? SHARED
                                                                                     : -1;
    if (inst->space < 0 || !inst->bits || inst->bits > 64) {
        return NULL;
    }
    if (strcmp(first, "ld") == 0) {
        inst->flag = *opcode->words[opcode->n - 1] == 's';
        return run_load;
    }
    if (strcmp(first, "st") == 0) {
        return run_store;
    }
    if (strcmp(first, "atom") == 0 || strcmp(first, "red") == 0) {
        return find_atomic(opcode, inst);
    }
    return NULL;
}
